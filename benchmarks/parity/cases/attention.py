"""Attention and the Transformer."""

from itertools import product

_CAUSAL = "torch.triu(torch.ones(5, 5), diagonal=1).bool()"
_ADDED = "torch.triu(torch.full((5, 5), float('-inf')), diagonal=1)"
_PADDING = "torch.tensor([[False] * 5, [False, False, False, True, True]])"


def _multihead():
    self_attention = "q = x(5, 2, 8); a = m(nn.MultiheadAttention(8, 2{c})); a(q, q, q{o})"
    options = [
        "",
        ", need_weights=False",
        ", average_attn_weights=False",
        f", attn_mask={_CAUSAL}",
        f", attn_mask={_ADDED}",
        f", key_padding_mask={_PADDING}",
        f", key_padding_mask={_PADDING}, attn_mask={_CAUSAL}",
        f", key_padding_mask={_PADDING}, attn_mask={_ADDED}, need_weights=False",
        f", attn_mask={_CAUSAL}, is_causal=True, need_weights=False",
        f", attn_mask={_CAUSAL}, is_causal=True",
        ", attn_mask=x.plain(4, 5, 5)",
        ", attn_mask=x.truths(4, 5, 5) & ~torch.eye(5).bool()",
        ", attn_mask=x(5, 5)",
    ]
    for option in options:
        yield self_attention.replace("{c}", "").replace("{o}", option)
    for c in (", bias=False", ", dropout=0.0", ""):
        yield self_attention.replace("{c}", c).replace("{o}", "")
    first = "m(nn.MultiheadAttention(8, 2, batch_first=True))"
    yield f"q = x(2, 5, 8); {first}(q, q, q, key_padding_mask={_PADDING})"
    yield f"{first}(x(2, 3, 8), x(2, 5, 8), x(2, 5, 8), key_padding_mask={_PADDING})"
    yield f"{first}(query=x(2, 3, 8), key=x(2, 5, 8), value=x(2, 5, 8))"
    yield "m(nn.MultiheadAttention(8, 2, kdim=3, vdim=6))(x(4, 2, 8), x(5, 2, 3), x(5, 2, 6))"
    yield "m(nn.MultiheadAttention(8, 2, kdim=3))(x(4, 2, 8), x(5, 2, 3), x(5, 2, 8))"
    yield "m(nn.MultiheadAttention(8, 2))(x(4, 8), x(5, 8), x(5, 8))"
    yield f"{first}(x(4, 8), x(5, 8), x(5, 8), average_attn_weights=False)"
    yield f"{first}(x(2, 1, 8), x(2, 1, 8), x(2, 1, 8))"
    yield f"{first}(x(1, 3, 8), x(1, 3, 8), x(1, 3, 8), attn_mask=torch.zeros(3, 3))"
    yield "m(nn.MultiheadAttention(8, 2).double())(x.double(4, 2, 8), x.double(4, 2, 8), x.double(4, 2, 8))"
    yield "a = m(nn.MultiheadAttention(8, 2, dropout=0.5)); a.eval(); q = x(4, 2, 8); a(q, q, q)"
    yield "[(k, p.shape) for k, p in nn.MultiheadAttention(8, 2, kdim=3).named_parameters()]"
    yield "a = nn.MultiheadAttention(8, 2); a.in_proj_bias, a.out_proj.bias"
    yield "a = nn.MultiheadAttention(8, 2); a.embed_dim, a.num_heads, a.head_dim"
    yield "!nn.MultiheadAttention(8, 3)"
    yield f"!{first}(x(2, 3, 7), x(2, 3, 7), x(2, 3, 7))"
    yield f"!{first}(x(2, 3, 8), x(2, 5, 8), x(2, 4, 8))"
    yield f"!{first}(x(2, 3, 8), x(2, 3, 8), x(2, 3, 8), attn_mask=torch.zeros(2, 2))"
    yield f"!{first}(x(2, 3, 8), x(2, 3, 8), x(2, 3, 8), key_padding_mask=torch.zeros(2, 2).bool())"
    yield f"!{first}(x(2, 3, 8), x(2, 3, 8), x(2, 3, 8), is_causal=True)"


_SIZES = "8, 2, 16, dropout=0.0"
_KINDS = [
    ("", ""),
    (", norm_first=True", ""),
    (", activation='gelu'", ""),
    (", batch_first=True", ""),
]


def _encoder_layer():
    for options in product(
        ("", ", norm_first=True"), ("", ", activation='gelu'"), ("", ", bias=False")
    ):
        yield f"m(nn.TransformerEncoderLayer({_SIZES}{''.join(options)}))(x(5, 2, 8))"
    layer = f"m(nn.TransformerEncoderLayer({_SIZES}{{o}}))"
    for o in ("", ", norm_first=True"):
        net = layer.replace("{o}", o)
        yield f"{net}(x(5, 2, 8), src_mask={_CAUSAL})"
        yield f"{net}(x(5, 2, 8), src_mask={_ADDED}, is_causal=True)"
        yield f"{net}(x(5, 2, 8), src_key_padding_mask={_PADDING})"
        yield f"{net}(x(5, 2, 8), {_CAUSAL}, {_PADDING})"
    yield layer.replace("{o}", ", batch_first=True") + f"(x(2, 5, 8), None, {_PADDING})"
    yield layer.replace("{o}", ", activation=F.gelu") + "(x(5, 2, 8))"
    yield layer.replace("{o}", ", activation=torch.tanh") + "(x(5, 2, 8))"
    yield layer.replace("{o}", ", layer_norm_eps=1e-3") + "(x(5, 2, 8))"
    yield layer.replace("{o}", "") + "(x(5, 8))"
    yield f"n = {layer.replace('{o}', '')}; n.eval(); n(x(5, 2, 8))"
    yield "n = m(nn.TransformerEncoderLayer(8, 2, 16)); n.eval(); n(x(5, 2, 8))"
    yield "n = nn.TransformerEncoderLayer(8, 2); n.linear1.out_features, n.dropout.p"
    yield "n = nn.TransformerEncoderLayer(d_model=8, nhead=2); list(n.state_dict())"
    yield "!nn.TransformerEncoderLayer(8, 2, activation='swish')"
    yield f"!{layer.replace('{o}', '')}(x(5, 2, 7))"


def _decoder_layer():
    for options in product(
        ("", ", norm_first=True"), ("", ", activation='gelu'"), ("", ", bias=False")
    ):
        yield f"m(nn.TransformerDecoderLayer({_SIZES}{''.join(options)}))(x(5, 2, 8), x(4, 2, 8))"
    for o in ("", ", norm_first=True"):
        net = f"m(nn.TransformerDecoderLayer({_SIZES}{o}))"
        yield f"{net}(x(5, 2, 8), x(5, 2, 8), tgt_mask={_CAUSAL}, tgt_key_padding_mask={_PADDING})"
        yield f"{net}(x(5, 2, 8), x(5, 2, 8), memory_key_padding_mask={_PADDING})"
        yield f"{net}(x(5, 2, 8), x(5, 2, 8), memory_mask={_ADDED}, tgt_is_causal=False)"
        yield f"{net}(x(5, 2, 8), x(5, 2, 8), tgt_mask={_CAUSAL}, tgt_is_causal=True)"
    yield f"m(nn.TransformerDecoderLayer({_SIZES}, batch_first=True))(x(2, 5, 8), x(2, 4, 8))"
    yield f"m(nn.TransformerDecoderLayer({_SIZES}))(x(5, 8), x(4, 8))"
    yield "list(nn.TransformerDecoderLayer(8, 2).state_dict())"


def _stacks():
    layer = f"nn.TransformerEncoderLayer({_SIZES})"
    yield f"m(nn.TransformerEncoder({layer}, 2))(x(5, 2, 8))"
    yield f"m(nn.TransformerEncoder({layer}, num_layers=2, norm=nn.LayerNorm(8)))(x(5, 2, 8))"
    yield f"m(nn.TransformerEncoder({layer}, 2))(x(5, 2, 8), mask={_CAUSAL}, src_key_padding_mask={_PADDING})"
    yield f"m(nn.TransformerEncoder({layer}, 2))(x(5, 2, 8), {_ADDED})"
    yield f"m(nn.TransformerEncoder({layer}, 2))(x(5, 2, 8), {_ADDED}, is_causal=True)"
    yield f"n = m(nn.TransformerEncoder({layer}, 2)); n.eval(); n(x(5, 2, 8), src_key_padding_mask={_PADDING})"
    yield f"n = nn.TransformerEncoder({layer}, 3); len(n.layers), n.layers[0] is n.layers[1]"
    yield f"n = nn.TransformerEncoder({layer}, 2); torch.equal(n.layers[0].linear1.weight, n.layers[1].linear1.weight)"


def _decoders():
    layer = f"nn.TransformerDecoderLayer({_SIZES})"
    yield f"m(nn.TransformerDecoder({layer}, 2))(x(5, 2, 8), x(4, 2, 8))"
    yield f"m(nn.TransformerDecoder({layer}, 2, nn.LayerNorm(8)))(x(5, 2, 8), x(4, 2, 8))"
    yield (
        f"m(nn.TransformerDecoder({layer}, 2))(x(5, 2, 8), x(5, 2, 8), tgt_mask={_CAUSAL}, "
        f"tgt_key_padding_mask={_PADDING}, memory_key_padding_mask={_PADDING})"
    )
    yield f"m(nn.TransformerDecoder({layer}, 2))(x(5, 2, 8), x(5, 2, 8), {_ADDED}, x(5, 5))"


def _transformer():
    sizes = "8, 2, 2, 2, 16, dropout=0.0"
    for o in ("", ", norm_first=True", ", activation='gelu'", ", bias=False", ", batch_first=True"):
        yield f"m(nn.Transformer({sizes}{o}))(x(5, 5, 8), x(5, 5, 8))"
    yield (
        f"m(nn.Transformer({sizes}))(x(5, 2, 8), x(5, 2, 8), tgt_mask={_CAUSAL}, "
        f"src_key_padding_mask={_PADDING}, tgt_key_padding_mask={_PADDING}, "
        f"memory_key_padding_mask={_PADDING})"
    )
    yield (
        f"n = m(nn.Transformer({sizes})); "
        "n(x(4, 2, 8), x(5, 2, 8), tgt_mask=n.generate_square_subsequent_mask(5))"
    )
    yield "nn.Transformer.generate_square_subsequent_mask(4)"
    yield f"m(nn.Transformer({sizes}))(x(5, 2, 8), x(5, 2, 8), src_mask={_ADDED}, memory_mask={_CAUSAL})"
    yield f"n = m(nn.Transformer({sizes})); n.encoder(x(5, 2, 8))"
    yield f"n = m(nn.Transformer({sizes})); n.decoder(x(5, 2, 8), x(4, 2, 8))"
    yield "m(nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16, dropout=0.0))(x(3, 2, 8), x(4, 2, 8))"
    yield "n = nn.Transformer(8, 2, 1, 1, 16); n.d_model, n.nhead, len(list(n.parameters()))"
    yield f"list(nn.Transformer({sizes}).state_dict())"
    yield f"!m(nn.Transformer({sizes}))(x(5, 2, 8), x(5, 3, 8))"
    yield f"!m(nn.Transformer({sizes}))(x(5, 2, 7), x(5, 2, 7))"


def _scaled():
    f = "F.scaled_dot_product_attention"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4))"
    yield f"{f}(x(2, 2, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 6))"
    yield f"{f}(x(3, 4), x(5, 4), x(5, 6))"
    yield f"{f}(x(2, 5, 4), x(2, 5, 4), x(2, 5, 4), is_causal=True)"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), is_causal=True)"
    yield f"{f}(x(2, 5, 4), x(2, 3, 4), x(2, 3, 4), is_causal=True)"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=x.plain(3, 5))"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=x(3, 5))"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=torch.ones(3, 5).tril().bool())"
    yield f"{f}(x(2, 2, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 4), attn_mask=torch.ones(2, 1, 1, 5).bool())"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), scale=0.3)"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), dropout_p=0.0)"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), None, 0.0, False)"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=torch.zeros(3, 5).bool())"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=torch.tensor([[True] * 5, [False] * 5, [True] * 5]))"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=torch.full((3, 5), float('-inf')))"
    yield f"{f}(x(2, 3, 4) * 10, x(2, 5, 4) * 10, x(2, 5, 4))"
    yield f"a = x(2, 3, 4); {f}(a, a, a)"
    yield f"{f}(x.double(2, 3, 4), x.double(2, 5, 4), x.double(2, 5, 4))"
    yield f"{f}(x(2, 3, 2, 4).transpose(1, 2), x(2, 5, 2, 4).transpose(1, 2), x(2, 5, 2, 4).transpose(1, 2))"
    yield f"{f}(x(0, 3, 4), x(0, 5, 4), x(0, 5, 4))"
    yield f"{f}(x(2, 1, 4), x(2, 1, 4), x(2, 1, 4))"
    yield f"{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), dropout_p=0.9).shape"
    yield f"{f}(x(1, 1, 200, 8), x(1, 1, 200, 8), x(1, 1, 200, 8), is_causal=True)"
    yield f"!{f}(x(2, 3, 4), x(2, 5, 3), x(2, 5, 4))"
    yield f"!{f}(x(2, 3, 4), x(2, 5, 4), x(2, 4, 4))"
    yield f"!{f}(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), attn_mask=torch.zeros(3, 4))"
    yield f"!{f}(x(2, 3, 4), x(2, 3, 4), x(2, 3, 4), attn_mask=torch.zeros(3, 3), is_causal=True)  ## both masks hold together"


def _fully_masked():
    """A row whose keys are all masked: PyTorch's own layers give NaN there."""
    mask = "torch.tensor([[True] * 5, [False] * 5])"
    yield f"q = x(5, 2, 8); a = m(nn.MultiheadAttention(8, 2)); a(q, q, q, key_padding_mask={mask})"
    yield (
        f"q = x(5, 2, 8); a = m(nn.MultiheadAttention(8, 2)); "
        f"a(q, q, q, key_padding_mask={mask}, need_weights=False)"
    )
    yield "torch.softmax(x.values([[float('-inf')] * 3, [0.0, 1.0, 2.0]]), -1)"
    yield "torch.softmax(x(2, 3).masked_fill(torch.ones(2, 3).bool(), -1e9), -1)"


TABLE = {
    "MultiheadAttention": "\n".join(_multihead()),
    "TransformerEncoderLayer": "\n".join(_encoder_layer()),
    "TransformerDecoderLayer": "\n".join(_decoder_layer()),
    "TransformerEncoder": "\n".join(_stacks()),
    "TransformerDecoder": "\n".join(_decoders()),
    "Transformer": "\n".join(_transformer()),
    "F.scaled_dot_product_attention": "\n".join(_scaled()),
    "fully masked rows": "\n".join(_fully_masked()),
}
