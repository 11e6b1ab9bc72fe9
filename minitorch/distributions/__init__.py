"""Probability distributions: of classes, and normal ones; for policies and losses."""

from minitorch.distributions.categorical import Categorical
from minitorch.distributions.distribution import Distribution
from minitorch.distributions.kl import kl_divergence
from minitorch.distributions.normal import Normal
from minitorch.missing import in_module

__all__ = ["Categorical", "Distribution", "Normal", "kl_divergence"]

__getattr__ = in_module(__name__)
