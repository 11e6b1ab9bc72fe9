"""The distribution of a class."""

import math

from minitorch.compat.types import finfo
from minitorch.creation import arange, full_like, multinomial
from minitorch.distributions.distribution import Distribution
from minitorch.operations.elementwise import log
from minitorch.operations.reductions import logsumexp, softmax
from minitorch.operations.shapes import broadcast_tensors


class Categorical(Distribution):
    """One of K classes, with probabilities ``probs`` (..., K), or their logarithms ``logits``.

    Neither has to be normalised; exactly one is given.
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Categorical needs either probs or logits, and not both")
        given = probs if logits is None else logits
        if given.ndim < 1:
            raise ValueError("Categorical needs at least one axis, that of the classes")
        super().__init__(given.shape[:-1], validate_args)
        self._num_events = given.shape[-1]
        if logits is None:
            self._check(probs >= 0, "probs that are not negative")
            self._check(probs.sum(-1) > 0, "a positive probability in each row")
            self.probs = probs / probs.sum(-1, keepdim=True)
            tiny = finfo(probs.dtype).eps
            self.logits = log(self.probs.clamp(min=tiny, max=1 - tiny))
        else:
            self._check(logits == logits, "logits that are numbers")
            self.logits = logits - logsumexp(logits, -1, keepdim=True)
            self.probs = softmax(self.logits, -1)

    @property
    def param_shape(self):
        """The shape of the probabilities."""
        return self.logits.shape

    def sample(self, sample_shape=()):
        """Classes (*sample_shape, *batch_shape)."""
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = multinomial(rows, math.prod(sample_shape), replacement=True)
        return drawn.t().reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        """The logarithm of the probability of each class in ``value``."""
        inside = (value >= 0) & (value < self._num_events)
        self._check(inside, f"classes from 0 to {self._num_events - 1}")
        value, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        """-sum p log p."""
        smallest = finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=smallest) * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        """All classes, (K, *batch_shape), or (K, 1, ...) without ``expand``."""
        values = arange(self._num_events, device=self.logits.device)
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    @property
    def mode(self):
        """The most probable class."""
        return self.probs.argmax(-1)

    @property
    def mean(self):
        """NaN: classes have no mean."""
        return full_like(self.probs[..., 0].detach(), float("nan"))

    variance = mean

    def __repr__(self):
        return f"Categorical(logits: {tuple(self.logits.shape)})"
