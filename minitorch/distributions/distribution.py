"""What distributions share."""

from minitorch.autograd import no_grad
from minitorch.axes import Size
from minitorch.operations.elementwise import exp


class Distribution:
    """A batch of distributions of the shape ``batch_shape``, each over single numbers."""

    def __init__(self, batch_shape=(), validate_args=None):
        self._batch_shape = Size(batch_shape)
        self._validate_args = validate_args is not False

    @property
    def batch_shape(self):
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one draw of one distribution: ()."""
        return Size()

    def _extended_shape(self, sample_shape=()):
        return Size((*sample_shape, *self._batch_shape))

    def sample(self, sample_shape=()):
        """Draws (*sample_shape, *batch_shape), through which no gradient flows."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n):
        """``sample((n,))``."""
        return self.sample((n,))

    def rsample(self, sample_shape=()):
        """Draws with a gradient towards the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no draws with a gradient")

    def perplexity(self):
        """exp(entropy)."""
        return exp(self.entropy())

    def _check(self, holds, what):
        """ValueError unless a condition holds everywhere; not asked with validate_args=False."""
        if self._validate_args and not bool(holds.all()):
            raise ValueError(f"{type(self).__name__} needs {what}")
