"""The normal distribution."""

import math

from minitorch.compat.functions import erf, erfinv
from minitorch.creation import normal, tensor
from minitorch.distributions.distribution import Distribution
from minitorch.operations.elementwise import log
from minitorch.operations.shapes import broadcast_tensors
from minitorch.tensor import Tensor


class Normal(Distribution):
    """N(loc, scale^2): ``loc`` and ``scale`` are numbers or tensors, which broadcast."""

    def __init__(self, loc, scale, validate_args=None):
        given = [x for x in (loc, scale) if isinstance(x, Tensor)]
        like = given[0] if given else tensor(0.0)
        loc, scale = (
            x if isinstance(x, Tensor) else like.new_tensor(float(x)) for x in (loc, scale)
        )
        self.loc, self.scale = broadcast_tensors(loc, scale)
        super().__init__(self.loc.shape, validate_args)
        self._check(self.loc == self.loc, "a loc of numbers")
        self._check(self.scale > 0, "a positive scale")

    @property
    def mean(self):
        """``loc``."""
        return self.loc

    mode = mean

    @property
    def stddev(self):
        """``scale``."""
        return self.scale

    @property
    def variance(self):
        """scale^2."""
        return self.scale**2

    def rsample(self, sample_shape=()):
        """loc + scale * e with e from N(0, 1): (*sample_shape, *batch_shape)."""
        shape = self._extended_shape(sample_shape)
        noise = normal(0.0, 1.0, shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value):
        """-(x - loc)^2 / (2 scale^2) - log(scale) - log(2 pi) / 2."""
        self._check(value == value, "values that are numbers")
        far = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -far - log(self.scale) - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value):
        """The probability of at most ``value``."""
        return 0.5 * (1 + erf((value - self.loc) / self.scale / math.sqrt(2)))

    def icdf(self, value):
        """The number below which a draw lies with the probability ``value``."""
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        """log(2 pi e) / 2 + log(scale)."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + log(self.scale)

    def __repr__(self):
        return f"Normal(loc: {tuple(self.loc.shape)}, scale: {tuple(self.scale.shape)})"
