"""``MultiheadAttention``: several attentions side by side, each on its own projections."""

from minitorch.creation import empty, zeros
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.layers import Linear
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.operations.shapes import split_with_sizes

__all__ = ["MultiheadAttention"]


def _expect(condition, message):
    """AssertionError, which PyTorch raises here, unless the condition holds."""
    if not condition:
        raise AssertionError(message)


class MultiheadAttention(Module):
    """concat(head_1, ..., head_h) W_o, head_i = attention(q W_q_i, k W_k_i, v W_v_i).

    Vaswani et al., 2017, section 3.2.2. ``in_proj_weight`` (3 E, E) holds W_q, W_k and W_v one
    above the other; keys and values of other sizes ``kdim`` and ``vdim`` have matrices of their
    own. AssertionError unless ``num_heads`` divides ``embed_dim`` = E.
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError(
                "MultiheadAttention has no add_bias_kv and no add_zero_attn: append a key and a "
                "value to the inputs instead"
            )
        _expect(
            num_heads > 0 and embed_dim % num_heads == 0,
            f"embed_dim {embed_dim} must be divisible by num_heads {num_heads}",
        )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first = dropout, batch_first
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        options = {"device": device, "dtype": dtype}
        sizes = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, **options))
        else:
            self.register_parameter("in_proj_weight", None)
        for name, size in sizes.items():
            own = None if self._qkv_same_embed_dim else Parameter(empty(embed_dim, size, **options))
            self.register_parameter(name, own)
        self.register_parameter(
            "in_proj_bias", Parameter(empty(3 * embed_dim, **options)) if bias else None
        )
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **options)
        self._reset_parameters()

    def _reset_parameters(self):
        """Xavier's uniform distribution for the projections of the inputs, zeros for biases."""
        for name, parameter in self.named_parameters(recurse=False):
            if name.endswith("weight"):
                init.xavier_uniform_(parameter)
            else:
                init.zeros_(parameter)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        """The output (n, B, E), and the weights (B, n, m) or None without ``need_weights``.

        ``query`` (n, B, E), ``key`` (m, B, kdim), ``value`` (m, B, vdim); with ``batch_first`` the
        batch comes first, and B may be absent. ``key_padding_mask`` (B, m) and ``attn_mask`` (n, m)
        or (B h, n, m) are boolean, True where a query may NOT look, or floating, added to the
        scores. Weights of each head (B, h, n, m) with ``average_attn_weights=False``.
        ``is_causal`` says that ``attn_mask`` is the causal one; RuntimeError without a mask.

        A query that may look nowhere gets NaN with ``need_weights``, the bias of ``out_proj``
        without, as in PyTorch.
        """
        self._check(query, key, value)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "is_causal=True is a hint about attn_mask, so that is needed too: "
                "nn.Transformer.generate_square_subsequent_mask makes one"
            )
        batched = query.ndim == 3
        batch_axis = 0 if self.batch_first else 1
        q, k, v = self._projected(query, key, value)
        if not batched:
            q, k, v = (x.unsqueeze(batch_axis) for x in (q, k, v))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        q, k, v = (self._split_heads(x) for x in (q, k, v))  # (B, h, n, d)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if is_causal and key_padding_mask is None and not need_weights:
            output = F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=True)
        else:
            mask = self._merged_mask(attn_mask, key_padding_mask, q, k)
            if need_weights:
                scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)  # (B, h, n, m)
                if mask is not None:
                    scores = scores + _additive(mask, q)
                weights = F.dropout(F.softmax(scores, dim=-1), dropout)
                output = weights @ v
                weights = weights.mean(1) if average_attn_weights else weights
            else:
                output = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        output = output.transpose(1, 2) if self.batch_first else output.permute(2, 0, 1, 3)
        output = self.out_proj(output.flatten(2))
        if batched:
            return output, weights
        return output.squeeze(batch_axis), None if weights is None else weights.squeeze(0)

    def _check(self, query, key, value):
        shapes = [tuple(x.shape) for x in (query, key, value)]
        _expect(
            {len(shape) for shape in shapes} <= {2} or {len(shape) for shape in shapes} <= {3},
            f"query, key and value must all have 3 axes, or 2 without a batch; got shapes {shapes}",
        )
        _expect(
            shapes[0][-1] == self.embed_dim,
            f"was expecting embedding dimension {self.embed_dim}, got query of shape {shapes[0]}",
        )
        _expect(
            shapes[1][-1] == self.kdim and shapes[2][-1] == self.vdim,
            f"key {shapes[1]} and value {shapes[2]} must have last sizes {self.kdim}, {self.vdim}",
        )
        _expect(
            shapes[1][:-1] == shapes[2][:-1],
            f"every key has its value: key {shapes[1]} and value {shapes[2]} differ in number",
        )

    def _projected(self, query, key, value):
        """The three projections; as one product where the inputs are one tensor."""
        weight, bias, size = self.in_proj_weight, self.in_proj_bias, self.embed_dim
        if query is key and key is value and weight is not None:
            return split_with_sizes(F.linear(query, weight, bias), (size,) * 3, -1)
        if weight is None:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        else:
            weights = split_with_sizes(weight, (size,) * 3)
        biases = (None,) * 3 if bias is None else split_with_sizes(bias, (size,) * 3)
        return tuple(map(F.linear, (query, key, value), weights, biases))

    def _split_heads(self, x):
        """(B, n, E) or (n, B, E) -> (B, h, n, d)."""
        x = x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)
        return x.transpose(1, 2) if self.batch_first else x.permute(1, 2, 0, 3)

    def _merged_mask(self, attn_mask, key_padding_mask, query, key):
        """Both masks as one for ``scaled_dot_product_attention``: True where a query may look."""
        batch, count, n, _ = query.shape
        m, masks = key.shape[2], []
        if attn_mask is not None:
            expected = (n, m) if attn_mask.ndim == 2 else (batch * count, n, m)
            if attn_mask.shape != expected:
                raise RuntimeError(
                    f"attn_mask has shape {tuple(attn_mask.shape)}, but should be {expected}"
                )
            masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.view(batch, count, n, m))
        if key_padding_mask is not None:
            _expect(
                key_padding_mask.shape == (batch, m),
                f"key_padding_mask has shape {tuple(key_padding_mask.shape)}, but should be "
                f"{(batch, m)}",
            )
            masks.append(key_padding_mask.view(batch, 1, 1, m))
        for mask in masks:
            _expect(
                mask.dtype.is_floating_point or mask.dtype.name == "bool",
                f"masks are boolean (True: not to look at) or floating; got {mask.dtype}",
            )
        if not masks:
            return None
        masks = [mask if mask.is_floating_point() else ~mask for mask in masks]
        if len(masks) == 1:
            return masks[0]
        if any(mask.is_floating_point() for mask in masks):
            return _additive(masks[0], query) + _additive(masks[1], query)
        return masks[0] & masks[1]


def _additive(mask, like):
    """A mask that is True where a query may look, as 0 there and -inf elsewhere, to be added."""
    if mask.is_floating_point():
        return mask
    allowed = zeros(mask.shape, dtype=like.dtype, device=like.device)
    return allowed.masked_fill(~mask, float("-inf"))
