"""Random numbers: every draw comes from a ``Generator``, never from NumPy's global one."""

import numpy as np

__all__ = ["Generator", "initial_seed", "manual_seed", "seed"]


class Generator:
    """A source of random numbers with a seed, as ``torch.Generator``.

    ::

        generator = Generator().manual_seed(0)
        minitorch.randn(3, generator=generator)
    """

    def __init__(self, device="cpu"):
        self.device = device
        self.seed()

    def seed(self):
        """Start a sequence that no other run has, and return its seed."""
        return self.manual_seed(np.random.SeedSequence().entropy % 2**63).initial_seed()

    def manual_seed(self, seed):
        """Start the sequence that belongs to ``seed`` and return the generator."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"a seed is an integer, got {seed!r}")
        self._seed = int(seed)
        self.numpy = np.random.default_rng(self._seed % 2**64)
        return self

    def initial_seed(self):
        """The seed with which the sequence started."""
        return self._seed

    def get_state(self):
        """The state of the sequence, to be given to ``set_state``."""
        return self.numpy.bit_generator.state

    def set_state(self, state):
        """Continue the sequence from where ``get_state`` was called."""
        self.numpy.bit_generator.state = state


default_generator = Generator()


def manual_seed(seed):
    """Seed the generator that is used where none is given. Returns it."""
    return default_generator.manual_seed(seed)


def seed():
    """Seed the generator that is used where none is given with an arbitrary number; return it."""
    return default_generator.seed()


def initial_seed():
    """The seed of the generator that is used where none is given."""
    return default_generator.initial_seed()


def numpy_generator(generator):
    """The NumPy generator behind ``generator``, or behind the default one for None."""
    return (generator or default_generator).numpy
