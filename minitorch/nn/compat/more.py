"""Rarer activations, losses and layers, offered by ``nn`` and ``nn.functional`` when asked."""

import math

from minitorch.creation import empty, rand_like
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.functional_losses import of_old, reduced
from minitorch.nn.losses import _Loss
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.operations.einsum import einsum
from minitorch.operations.elementwise import log, where
from minitorch.tensor import Tensor

__all__ = """
Bilinear CosineEmbeddingLoss CosineSimilarity Hardsigmoid Hardswish MarginRankingLoss
PairwiseDistance ParameterDict SELU Tanhshrink TripletMarginLoss bilinear cosine_embedding_loss
gumbel_softmax hardsigmoid hardswish margin_ranking_loss pairwise_distance selu tanhshrink
triplet_margin_loss
""".split()

# Activations


def selu(input, inplace=False):
    """1.0507 x where x > 0, else 1.0507 * 1.6733 (exp(x) - 1) (Klambauer et al., 2017)."""
    result = 1.0507009873554805 * F.elu(input, 1.6732632423543772)
    return input.copy_(result) if inplace else result


def hardsigmoid(input, inplace=False):
    """(x + 3) / 6, between 0 and 1."""
    result = F.relu6(input + 3) / 6
    return input.copy_(result) if inplace else result


def hardswish(input, inplace=False):
    """x (x + 3) / 6 between -3 and 3, 0 below and x above (Howard et al., 2019)."""
    result = input * hardsigmoid(input)
    return input.copy_(result) if inplace else result


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """softmax((logits + g) / tau), g = -log(-log(u)), u even in (0, 1) (Jang et al., 2017).

    ``hard`` gives 1 at the largest and 0 elsewhere, with the gradient of the softmax.
    """
    uniform = rand_like(logits).clamp(min=1e-30 if logits.dtype.itemsize > 2 else 1e-7)
    soft = ((logits - log(-log(uniform))) / tau).softmax(dim)
    if not hard:
        return soft
    place = soft.max(dim, keepdim=True).indices
    chosen = soft.detach().new_zeros(soft.shape).scatter(dim, place, 1.0)
    return chosen - soft.detach() + soft


class _Activation(Module):
    """An activation with ``inplace``."""

    function = None

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return type(self).function(input, self.inplace)


class SELU(_Activation):
    """``F.selu`` as a layer."""

    function = staticmethod(selu)


class Hardsigmoid(_Activation):
    """``F.hardsigmoid`` as a layer."""

    function = staticmethod(hardsigmoid)


class Hardswish(_Activation):
    """``F.hardswish`` as a layer."""

    function = staticmethod(hardswish)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input):
        return tanhshrink(input)


# Distances and losses of them


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps over the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def margin_ranking_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """max(0, -y (x1 - x2) + margin): y = 1 wants x1 above x2, y = -1 below."""
    losses = (-target * (input1 - input2) + margin).clamp(min=0)
    return reduced(losses, of_old(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """1 - cos(x1, x2) where y = 1, max(0, cos(x1, x2) - margin) where y = -1; x (N, d) or (d)."""
    products = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = products / squares.sqrt()
    losses = where(target == 1, 1 - cosine, (cosine - margin).clamp(min=0))
    return reduced(losses, of_old(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """max(0, d(a, p) - d(a, n) + margin); with ``swap``, d(p, n) where it is smaller (N, d)."""
    near, far = (
        pairwise_distance(anchor, positive, p, eps),
        pairwise_distance(anchor, negative, p, eps),
    )
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced((near - far + margin).clamp(min=0), of_old(size_average, reduce, reduction))


class PairwiseDistance(Module):
    """``F.pairwise_distance`` as a layer."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """``F.cosine_similarity`` as a layer."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class MarginRankingLoss(_Loss):
    """``F.margin_ranking_loss`` as a layer."""

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(MarginRankingLoss):
    """``F.cosine_embedding_loss`` as a layer."""

    def forward(self, input1, input2, target):
        return cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """``F.triplet_margin_loss`` as a layer."""

    def __init__(
        self,
        margin=1.0,
        p=2.0,
        eps=1e-6,
        swap=False,
        size_average=None,
        reduce=None,
        reduction="mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor, positive, negative):
        options = (self.margin, self.p, self.eps, self.swap)
        return triplet_margin_loss(anchor, positive, negative, *options, reduction=self.reduction)


# Layers


def bilinear(input1, input2, weight, bias=None):
    """x1^T W_o x2 + b_o for each output o: (..., d1), (..., d2), weight (O, d1, d2) -> (..., O)."""
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


class Bilinear(Module):
    """``F.bilinear`` with a weight and a bias that start from U(-k, k), k = 1 / sqrt(d1)."""

    def __init__(
        self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None
    ):
        super().__init__()
        if in1_features < 1:
            raise ValueError(f"in1_features must be positive, got {in1_features}")
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features, options = out_features, {"device": device, "dtype": dtype}
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, **options))
        self.register_parameter("bias", Parameter(empty(out_features, **options)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1, input2):
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class ParameterDict(Module):
    """A dict of parameters; tensors become parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters):
        """Add those of another dict, or pairs of name and parameter."""
        pairs = parameters.items() if hasattr(parameters, "items") else parameters
        for name, value in pairs:
            self[name] = value

    def __setitem__(self, key, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        self.register_parameter(key, value)

    def __getitem__(self, key):
        return self._parameters[key]

    def __delitem__(self, key):
        del self._parameters[key]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, key):
        return key in self._parameters

    def keys(self):
        """The names."""
        return self._parameters.keys()

    def values(self):
        """The parameters."""
        return self._parameters.values()

    def items(self):
        """Pairs of name and parameter."""
        return self._parameters.items()

    def get(self, key, default=None):
        """The parameter of that name, or ``default``."""
        return self._parameters.get(key, default)

    def pop(self, key):
        """Take a parameter out and return it."""
        value = self[key]
        del self[key]
        return value
