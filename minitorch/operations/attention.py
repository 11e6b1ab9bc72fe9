"""Scaled dot-product attention as one operation, over tiles of queries where sequences are long."""

import math

import numpy as np

from minitorch.autograd.dispatch import operation
from minitorch.axes import fold, transposed, unbroadcast
from minitorch.backend import array_module, filled, largest_along
from minitorch.generator import numpy_generator
from minitorch.operations.neural import dropout_factors

# How many scores are computed at a time (1 MB in single precision, for the cache), but no fewer
# rows of them than a product is fast on; and up to how many scores the weights are kept for
# backward, which for longer sequences computes them again.
TILE, ROWS, KEPT = 1 << 18, 16, 1 << 20


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
    if not array.size:
        return True
    xp = array_module(array)
    low, high = xp.minimum.reduce(array, axis=None), xp.maximum.reduce(array, axis=None)
    return bool(low > -30 and high < 30)


def _softmax(scores, bias, bias_is_moderate):
    """softmax(scores + bias) over the last axis, in place of the scores; zeros where all is -inf.

    Subtracting the largest of each row only keeps exp in range. Finding it is slow on a CPU, so
    moderate scores go without.
    """
    if not scores.size:
        return scores
    xp = array_module(scores)
    in_range = xp is np and bias_is_moderate and _moderate(scores)
    if bias is not None:
        scores += bias
    if not in_range:
        largest = largest_along(scores, (-1,))
        largest[largest == -np.inf] = 0
        scores -= largest
    xp.exp(scores, out=scores)
    total = fold(scores).dot(filled(xp, scores.shape[-1], 1, scores.dtype))
    if bias is not None or not in_range:
        total[total == 0] = 1
    scores *= (1 / total).reshape(*scores.shape[:-1], 1)
    return scores


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
    P^T g, and that of the scores is P * (g value^T - D), where D = sum(g * O) over the last axis.

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
    lead = query.shape[:-2]
    if attn_mask is not None or not lead == key.shape[:-2] == value.shape[:-2]:
        masks = () if attn_mask is None else (attn_mask.shape[:-2],)
        lead = np.broadcast_shapes(lead, key.shape[:-2], value.shape[:-2], *masks)
        query, key, value = (xp.broadcast_to(x, lead + x.shape[-2:]) for x in (query, key, value))
    scaled, key_transposed = query * dtype.type(scale), transposed(key)  # (..., d, m)
    if n > 1:
        key_transposed = xp.ascontiguousarray(key_transposed)  # BLAS likes rows
    heads = math.prod(lead)
    rows_at_once = max(n, 1) if heads * n * m <= TILE else max(ROWS, TILE // (heads * m))
    seed = numpy_generator(None).integers(1 << 63) if dropout_p else None

    def tiles():
        """For each block of queries: how many keys it sees, its weights, dropout's factors."""
        rng = np.random.default_rng(seed) if dropout_p else None
        for start in range(0, n, rows_at_once):
            rows = slice(start, min(start + rows_at_once, n))
            seen = min(rows.stop, m) if is_causal else m
            scores = scaled[..., rows, :] @ key_transposed[..., :seen]
            added = None if attn_mask is None else attn_mask[..., rows, :seen]
            if is_causal:
                future = xp.arange(seen) > xp.arange(rows.start, rows.stop)[:, None]
                hidden = xp.where(future, dtype.type(-np.inf), dtype.type(0))
                added = hidden if added is None else added + hidden
            weights = _softmax(scores, added, moderate)
            factor = dropout_factors(weights, dropout_p, rng) if dropout_p else None
            yield rows, seen, weights, factor

    out = xp.empty((*query.shape[:-1], value.shape[-1]), dtype=dtype)
    kept_tiles = list(tiles()) if heads * n * m <= KEPT else None
    for rows, seen, weights, factor in kept_tiles or tiles():
        weights = weights if factor is None else weights * factor
        xp.matmul(weights, value[..., :seen, :], out=out[..., rows, :])

    def add_product(total, left, right):
        """total += left right; where there is one tile, total is 0 and need not be read."""
        if rows_at_once >= n:
            xp.matmul(left, right, out=total)
        else:
            total += left @ right

    def vjp(g):
        value_transposed = xp.array(transposed(value), order="C")
        toward_query = xp.empty_like(query)
        toward_key, toward_value = xp.zeros_like(key), xp.zeros_like(value)
        toward_mask = xp.zeros(attn_mask.shape, dtype=dtype) if mask_gradient else None
        along = xp.einsum("...d,...d->...", g, out)[..., None]
        for rows, seen, weights, factor in kept_tiles or tiles():
            toward_scores = g[..., rows, :] @ value_transposed[..., :seen]
            if factor is not None:
                toward_scores *= factor
            toward_scores -= along[..., rows, :]
            toward_scores *= weights
            xp.matmul(toward_scores, key[..., :seen, :], out=toward_query[..., rows, :])
            add_product(toward_key[..., :seen, :], transposed(toward_scores), query[..., rows, :])
            weights = weights if factor is None else weights * factor
            add_product(toward_value[..., :seen, :], transposed(weights), g[..., rows, :])
            if mask_gradient:
                part = toward_mask[..., rows, :seen]
                part += unbroadcast(toward_scores, part.shape)
        toward_query *= scale
        toward_key *= scale
        return toward_query, toward_key, toward_value, toward_mask

    return out, vjp
