"""The Transformer of Vaswani et al. (2017): its layers, encoder, decoder, and the whole."""

import copy

from minitorch.creation import full
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.attention import MultiheadAttention
from minitorch.nn.containers import ModuleList
from minitorch.nn.layers import Dropout, Linear
from minitorch.nn.module import Module
from minitorch.nn.normalization import LayerNorm
from minitorch.operations.shapes import triu

__all__ = """
Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer
""".split()


def _activation(activation):
    """The function that a name stands for; RuntimeError for another name."""
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation must be 'relu', 'gelu' or a function; got {activation!r}")
    return getattr(F, activation)


class _Layer(Module):
    """What encoder and decoder layers share: feed-forward network, norms, and the residual sums."""

    sublayers = 2

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"bias": bias, "device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, **options}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        if self.sublayers == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm_first, self.activation = norm_first, _activation(activation)
        for i in range(1, self.sublayers + 1):
            self.add_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, **options))
        for i in range(1, self.sublayers + 1):
            self.add_module(f"dropout{i}", Dropout(dropout))

    def _residual(self, x, norm, sublayer):
        """norm(x + sublayer(x)); or x + sublayer(norm(x)) with ``norm_first``."""
        if self.norm_first:
            return x + sublayer(norm(x))
        return norm(x + sublayer(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        attended, _ = self.self_attn(
            x, x, x, key_padding_mask, need_weights=False, attn_mask=attn_mask, is_causal=is_causal
        )
        return self.dropout1(attended)

    def _mha_block(self, x, memory, attn_mask, key_padding_mask, is_causal=False):
        attended, _ = self.multihead_attn(
            x,
            memory,
            memory,
            key_padding_mask,
            need_weights=False,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )
        return self.dropout2(attended)

    def _ff_block(self, x):
        last_dropout = self.dropout3 if self.sublayers == 3 else self.dropout2
        return last_dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual sum and a layer norm.

    The norm comes after the sum (2017), or before the sublayer with ``norm_first=True`` (Xiong et
    al., 2020). Shapes and masks are those of ``MultiheadAttention``: True is masked out.
    """

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = self._residual(
            src,
            self.norm1,
            lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal),
        )
        return self._residual(x, self.norm2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to ``memory`` (the encoder's output), a feed-forward network."""

    sublayers = 3

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        x = self._residual(
            tgt,
            self.norm1,
            lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
        )
        x = self._residual(
            x,
            self.norm2,
            lambda x: self._mha_block(
                x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            ),
        )
        return self._residual(x, self.norm3, self._ff_block)


def _copies(layer, count):
    return ModuleList(copy.deepcopy(layer) for _ in range(count))


class TransformerEncoder(Module):
    """``num_layers`` copies of a layer, one after the other, and a last norm if one is given.

    The copies start equal, as in PyTorch. ``enable_nested_tensor`` and ``mask_check``, which
    make PyTorch faster, are accepted and do nothing.
    """

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers, self.num_layers = _copies(encoder_layer, num_layers), num_layers
        self.norm = norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """``num_layers`` copies of a decoder layer, and a last norm if one is given."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers, self.num_layers = _copies(decoder_layer, num_layers), num_layers
        self.norm = norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                bool(tgt_is_causal),
                memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder: src (S, B, E), tgt (T, B, E) -> (T, B, E); see the layers.

    With ``batch_first`` the batch comes first. Every matrix starts from Xavier's uniform
    distribution. RuntimeError where batch or feature sizes differ.
    """

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"bias": bias, "device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first)

        def norm():
            return LayerNorm(d_model, layer_norm_eps, **options)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer, norm_first, **options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer, norm_first, **options), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batch_axis = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch_axis] != tgt.shape[batch_axis]:
            raise RuntimeError(
                f"src {tuple(src.shape)} and tgt {tuple(tgt.shape)} must have one batch size, "
                f"along axis {batch_axis}"
            )
        if not src.shape[-1] == tgt.shape[-1] == self.d_model:
            raise RuntimeError(
                f"the last size of src {tuple(src.shape)} and tgt {tuple(tgt.shape)} must be "
                f"d_model={self.d_model}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """(sz, sz): 0 on and below the diagonal, -inf above, to be added to scores."""
        return triu(full((sz, sz), float("-inf"), device=device, dtype=dtype), 1)
