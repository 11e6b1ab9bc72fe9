"""Switches of PyTorch's that change nothing here."""

__all__ = """
is_autocast_enabled set_float32_matmul_precision use_deterministic_algorithms
""".split()


def is_autocast_enabled(device_type=None):
    """False: see ``minitorch.amp``."""
    return False


def set_float32_matmul_precision(precision):
    """Nothing: products are as exact as the array module makes them."""


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Nothing: on a CPU every operation gives the same again."""
