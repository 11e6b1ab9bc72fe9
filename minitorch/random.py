"""The state of the generator that is used where none is given."""

import contextlib

from minitorch.generator import default_generator, initial_seed, manual_seed, seed
from minitorch.missing import in_module

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def get_rng_state():
    """The state of the sequence (NumPy's, a dict), to be given to ``set_rng_state``."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Continue the sequence from where ``get_rng_state`` was called."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, **options):
    """A block after which the sequence goes on as if the block had drawn nothing."""
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)


__getattr__ = in_module(__name__)
