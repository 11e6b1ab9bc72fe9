"""Switches of PyTorch's that do nothing here, so that programs can set them."""

from types import SimpleNamespace

cudnn = SimpleNamespace(benchmark=False, deterministic=False, enabled=False)
mps = SimpleNamespace(is_available=lambda: False)
