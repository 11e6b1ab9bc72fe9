"""Attention as a function of all its weights; ``nn.functional`` offers it."""

from minitorch.nn import functional as F
from minitorch.nn.attention import MultiheadAttention
from minitorch.nn.module import Module


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """``MultiheadAttention`` with these weights, batch second: query (n, B, E), key (m, B, kdim).

    Returns the output and the weights, as the layer does.
    """
    given = (bias_k, bias_v, static_k, static_v)
    if add_zero_attn or any(extra is not None for extra in given):
        raise NotImplementedError(
            "multi_head_attention_forward has no bias_k, bias_v, add_zero_attn, static_k, static_v"
        )
    size = query.shape[-1]
    if size != embed_dim_to_check or size % num_heads:
        raise AssertionError(
            f"query needs the last size {embed_dim_to_check}, which {num_heads} heads divide; "
            f"got shape {tuple(query.shape)}"
        )
    layer = MultiheadAttention.__new__(MultiheadAttention)
    Module.__init__(layer)
    vars(layer).update(
        embed_dim=size,
        num_heads=num_heads,
        head_dim=size // num_heads,
        kdim=key.shape[-1],
        vdim=value.shape[-1],
        dropout=dropout_p,
        batch_first=False,
        training=training,
        in_proj_weight=None if use_separate_proj_weight else in_proj_weight,
        q_proj_weight=q_proj_weight,
        k_proj_weight=k_proj_weight,
        v_proj_weight=v_proj_weight,
        in_proj_bias=in_proj_bias,
        out_proj=lambda x: F.linear(x, out_proj_weight, out_proj_bias),
    )
    masks = {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask, "is_causal": is_causal}
    told = {"need_weights": need_weights, "average_attn_weights": average_attn_weights}
    return layer(query, key, value, **masks, **told)
