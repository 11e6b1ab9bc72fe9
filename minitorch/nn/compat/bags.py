"""Sums, means or extremes of bags of embedded indices."""

from minitorch.creation import arange, empty, tensor
from minitorch.nn import functional as F
from minitorch.nn.layers import Embedding
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.operations.shapes import stack

__all__ = ["EmbeddingBag", "embedding_bag"]


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or maximum (``mode``) of the rows of ``weight`` (V, d) in each bag: (B, d).

    ``input`` (B, n) has a bag in each row; or (N) has them one after the other, and ``offsets`` (B)
    says where each begins (with ``include_last_offset``, also where the last one ends). Indices
    ``padding_idx`` do not count; an empty bag is zeros. ``per_sample_weights``, of the shape of the
    input, multiply the rows, for mode "sum".
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode must be 'sum', 'mean' or 'max'; got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"per_sample_weights are for mode 'sum', got {mode!r}")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            "per_sample_weights have the shape of the input; "
            f"got {tuple(per_sample_weights.shape)} and {tuple(input.shape)}"
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("an input of two axes has a bag in each row, and no offsets")
        starts = [i * input.shape[1] for i in range(input.shape[0] + 1)]
    elif input.ndim == 1 and offsets is not None:
        starts = offsets.tolist() + ([] if include_last_offset else [len(input)])
        if starts[:1] != [0] or sorted(starts) != starts or starts[-1] > len(input):
            raise ValueError(f"offsets rise from 0 to at most {len(input)}; got {offsets.tolist()}")
    else:
        raise ValueError(
            f"embedding_bag takes an input (B, n), or (N) with offsets; got {tuple(input.shape)}"
        )
    flat = input.reshape(-1)[: starts[-1]]
    sizes = tensor([b - a for a, b in zip(starts, starts[1:], strict=False)], device=flat.device)
    rows = F.embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    bags = arange(len(sizes), device=flat.device).repeat_interleave(sizes.long())
    if padding_idx is not None:
        counted = flat != padding_idx % weight.shape[0]
        rows, bags = rows[counted], bags[counted]
    if mode == "max":
        found = [rows[bags == i] for i in range(len(sizes))]
        return stack([part.max(0).values if len(part) else part.sum(0) for part in found])
    if per_sample_weights is not None:
        factors = per_sample_weights.reshape(-1)[: starts[-1]]
        factors = factors if padding_idx is None else factors[counted]
        rows = rows * factors.unsqueeze(1)
    sums = rows.new_zeros(len(sizes), rows.shape[1]).index_add(0, bags, rows)
    if mode == "sum":
        return sums
    return sums / bags.bincount(minlength=len(sizes)).clamp(min=1).unsqueeze(1).to(sums.dtype)


class EmbeddingBag(Module):
    """The sum, mean or maximum of the vectors of each bag of indices; see ``F.embedding_bag``.

    ``weight`` (num_embeddings, embedding_dim) starts from N(0, 1), its row ``padding_idx`` as 0.
    """

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.mode = max_norm, norm_type, mode
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is not None:
            self.weight = Parameter(_weight)
            return
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    reset_parameters = Embedding.reset_parameters

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, *args, **options):
        """A layer with these vectors (V, d), not to be trained unless ``freeze=False``."""
        layer = cls(*embeddings.shape, *args, _weight=embeddings, **options)
        layer.weight.requires_grad = not freeze
        return layer

    def forward(self, input, offsets=None, per_sample_weights=None):
        return embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
