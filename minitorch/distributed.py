"""There is one process: what a program asks before it would talk to others. The rest is missing."""

from minitorch.missing import in_module

__all__ = ["is_available", "is_initialized"]


def is_available():
    """False, as in a PyTorch that was built without it."""
    return False


def is_initialized():
    """False: no other process takes part."""
    return False


__getattr__ = in_module(__name__)
