"""Layers: linear, embedding, dropout, activations.

Each keeps its parameters, which ``init`` draws, and its options; ``forward`` calls the function of
``nn.functional`` that computes.
"""

import math

from minitorch.autograd import no_grad
from minitorch.creation import empty
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter

__all__ = "Dropout Embedding GELU Identity Linear ReLU SiLU Sigmoid Tanh".split()


class Linear(Module):
    """y = x W^T + b: (..., in_features) -> (..., out_features).

    ``weight`` (out_features, in_features) and ``bias`` start from U(-k, k) with
    k = 1 / sqrt(in_features).
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Embedding(Module):
    """A vector for each of ``num_embeddings`` indices: (...) -> (..., embedding_dim).

    ``weight`` starts from N(0, 1). The row ``padding_idx`` starts as zeros and gets no gradient.
    The other options are those of ``F.embedding``.
    """

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
        _weight=None,
        _freeze=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError(
                f"padding_idx must be within {num_embeddings} rows, got {padding_idx}"
            )
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        shape = (num_embeddings, embedding_dim)
        if _weight is not None and tuple(_weight.shape) != shape:
            raise AssertionError(f"_weight must have shape {shape}; got {tuple(_weight.shape)}")
        weight = empty(shape, device=device, dtype=dtype) if _weight is None else _weight
        self.weight = Parameter(weight, not _freeze)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self):
        """Draw the vectors anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, *options):
        """An embedding whose vectors are the rows of ``embeddings`` (V, d), not to be trained.

        ``freeze=False`` lets them be trained.
        """
        if embeddings.ndim != 2:
            raise AssertionError(f"embeddings must be (V, d); got {tuple(embeddings.shape)}")
        layer = cls(*embeddings.shape, padding_idx, *options)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def forward(self, input):
        limits = (self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)
        return F.embedding(input, self.weight, self.padding_idx, *limits)

    def extra_repr(self):
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Dropout(Module):
    """In training, each element is zeroed with probability p and the others divided by 1 - p."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability must be between 0 and 1, got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Tanh(Module):
    """tanh(x)."""

    def forward(self, input):
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input):
        return F.sigmoid(input)


class ReLU(Module):
    """max(x, 0); with ``inplace`` written over x."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.relu(input, self.inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class SiLU(ReLU):
    """x / (1 + exp(-x)); with ``inplace`` written over x."""

    def forward(self, input):
        return F.silu(input, self.inplace)


class GELU(Module):
    """x Phi(x), with the normal distribution function Phi."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class Identity(Module):
    """The input, unchanged."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input
