"""Scaled dot-product attention as one operation, over tiles of queries where sequences are long."""

import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.autograd.graph import unbroadcast
from minitorch.backend import array_module
from minitorch.generator import numpy_generator

# Scores (4 MB in single precision) up to which the weights are kept for backward. Of longer
# sequences, tiles of that many scores are computed one after the other, and again in backward.
TILE = 1 << 20


def _check(query, key, value, attn_mask, dropout_p):
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "attention needs query (..., n, d), key (..., m, d) and value (..., m, d_v); "
            f"got shapes {query.shape}, {key.shape}, {value.shape}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            "attention compares each query with each key, and every key has its value: query "
            f"{query.shape} and key {key.shape} need one last size, key and value {value.shape} "
            "one size before the last"
        )
    if not query.dtype == key.dtype == value.dtype or query.dtype.kind != "f":
        raise RuntimeError(
            "attention needs query, key and value of one floating-point type; "
            f"got {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if attn_mask is not None and attn_mask.dtype not in (bool, query.dtype):
        raise RuntimeError(
            f"attn_mask must be of type bool or {query.dtype} as the query; got {attn_mask.dtype}"
        )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability must be between 0 and 1, got {dropout_p}")


def _moderate(array):
    """Whether the exponentials of all numbers, also of sums of two, are far from the limits."""
    return not array.size or bool(array.min() > -30 and array.max() < 30)


def _exponentials(scores, bias, bias_is_moderate):
    """exp(scores + bias) up to a factor a row, in place of the scores, and 1 / the sum of each row.

    The factor, exp(-largest of the row), only keeps the numbers in range. Where scores are
    moderate it is left out on a CPU, which is slow in finding the largest. The reciprocal is 1
    in a row of zeros, where all is masked.
    """
    xp = array_module(scores)
    in_range = xp is np and bias_is_moderate and _moderate(scores)
    if bias is not None:
        scores += bias
    if not in_range:
        largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        largest[largest == -np.inf] = 0
        scores -= largest
    xp.exp(scores, out=scores)
    total = scores @ xp.ones((scores.shape[-1], 1), dtype=scores.dtype)
    total[total == 0] = 1
    return scores, 1 / total


@operation()
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    mask_gradient=False,
):
    """softmax(query key^T scale + mask) value; see ``nn.functional``.

    With weights P = softmax(S) and g the gradient of the result O, the gradient of the values is
    P^T g, that of the weights is g value^T, and that of the scores S is P * (g value^T - D), where
    D = sum(g * O) over the last axis. P is never divided by its row sums: O and g are, which are
    narrower. A row where all is masked gives zeros.

    Long sequences go by tiles, a block of queries against all keys: memory grows with n, not n^2
    (Rabe and Staats, 2021; Dao et al., 2022).
    """
    _check(query, key, value, attn_mask, dropout_p)
    xp, dtype = array_module(query), query.dtype
    n, m, d = query.shape[-2], key.shape[-2], query.shape[-1]
    scale = 1 / math.sqrt(d) if scale is None else scale
    moderate = True
    if attn_mask is not None:
        if attn_mask.dtype == bool:
            attn_mask = xp.where(attn_mask, dtype.type(0), dtype.type(-np.inf))
        elif xp is np:
            moderate = _moderate(attn_mask[attn_mask != -np.inf])
        attn_mask = xp.broadcast_to(attn_mask, (*attn_mask.shape[:-2], n, m))
    lead = np.broadcast_shapes(
        *(x.shape[:-2] for x in (query, key, value, attn_mask) if x is not None)
    )
    if any(x.shape[:-2] != lead for x in (query, key, value)):
        query, key, value = (xp.broadcast_to(x, lead + x.shape[-2:]) for x in (query, key, value))
    key_transposed = xp.array(key.swapaxes(-1, -2), order="C")  # (..., d, m): BLAS likes rows
    key_transposed *= scale
    heads = math.prod(lead)
    rows_at_once = max(n, 1) if heads * n * m <= TILE else max(16, TILE // (heads * m))
    seed = numpy_generator(None).integers(1 << 63) if dropout_p else None

    def tiles():
        """For each block of queries, how many keys it sees, its weights up to their sums, 1 / sums,
        and what dropout multiplies them with.
        """
        rng = np.random.default_rng(seed)
        for start in range(0, n, rows_at_once):
            rows = slice(start, min(start + rows_at_once, n))
            seen = min(rows.stop, m) if is_causal else m
            scores = query[..., rows, :] @ key_transposed[..., :seen]
            added = None if attn_mask is None else attn_mask[..., rows, :seen]
            if is_causal:
                future = xp.arange(seen) > xp.arange(rows.start, rows.stop)[:, None]
                hidden = xp.where(future, dtype.type(-np.inf), dtype.type(0))
                added = hidden if added is None else added + hidden
            weights, reciprocal = _exponentials(scores, added, moderate)
            factor = None
            if dropout_p:
                kept = rng.random(weights.shape, dtype=np.float32) >= dropout_p
                factor = xp.asarray(kept, dtype=dtype)
                factor *= 1 / (1 - dropout_p) if dropout_p < 1 else 0
            yield rows, seen, weights, reciprocal, factor

    out = xp.empty_like(query, shape=(*query.shape[:-1], value.shape[-1]))
    kept_tiles = list(tiles()) if rows_at_once >= n else None
    for rows, seen, weights, reciprocal, factor in kept_tiles or tiles():
        weights = weights if factor is None else weights * factor
        xp.matmul(weights, value[..., :seen, :], out=out[..., rows, :])
        out[..., rows, :] *= reciprocal

    def vjp(g):
        value_transposed = xp.array(value.swapaxes(-1, -2), order="C")
        toward_query = xp.empty_like(query)
        toward_key, toward_value = xp.zeros_like(key), xp.zeros_like(value)
        toward_mask = xp.zeros(attn_mask.shape, dtype=dtype) if mask_gradient else None
        for rows, seen, weights, reciprocal, factor in kept_tiles or tiles():
            g_rows = g[..., rows, :] * reciprocal
            toward_scores = g_rows @ value_transposed[..., :seen]
            if factor is not None:
                toward_scores *= factor
            toward_scores -= (g_rows * out[..., rows, :]).sum(axis=-1, keepdims=True)
            toward_scores *= weights
            xp.matmul(toward_scores, key[..., :seen, :], out=toward_query[..., rows, :])
            toward_key[..., :seen, :] += toward_scores.swapaxes(-1, -2) @ query[..., rows, :]
            weights = weights if factor is None else weights * factor
            toward_value[..., :seen, :] += weights.swapaxes(-1, -2) @ g_rows
            if mask_gradient:
                part = toward_mask[..., rows, :seen]
                part += unbroadcast(toward_scores, part.shape)
        toward_query *= scale
        toward_key *= scale
        return toward_query, toward_key, toward_value, toward_mask

    return out, vjp
