"""Helpers around training, under PyTorch's names."""

from minitorch.utils import data

__all__ = ["data"]
