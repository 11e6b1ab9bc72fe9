"""Right answers to the exercises of chapter 06, and forbidden ones."""

import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_06 import MultiHeadAttention

# split_heads


def split_by_columns(X, heads):
    """Not X.view(B, heads, n, -1)."""
    d = X.shape[-1]
    return mt.stack([X[..., i : i + d // heads] for i in range(0, d, d // heads)], dim=1)


def split_with_chunks(X, heads):
    return mt.stack(X.chunk(heads, dim=-1), 1)


def split_with_permute(X, heads):
    return X.view(len(X), -1, heads, X.size(-1) // heads).permute(0, 2, 1, 3)


def split_number_by_number(X, heads):
    batch, n, d = X.shape
    size = d // heads
    rows = [
        X[b, i, head * size + s]
        for b in range(batch)
        for head in range(heads)
        for i in range(n)
        for s in range(size)
    ]
    return mt.stack(rows).reshape(batch, heads, n, size)


def split_with_einsum(X, heads):
    return mt.einsum("bnhs->bhns", X.unflatten(2, (heads, -1)))


# merge_heads


def merge_by_concatenation(X):
    return mt.cat([X[:, head] for head in range(X.shape[1])], dim=-1)


def merge_with_unbind(X):
    return mt.cat(X.unbind(1), -1)


def merge_with_view(X):
    batch, heads, n, size = X.shape
    return X.permute(0, 2, 1, 3).contiguous().view(batch, n, heads * size)


def merge_with_einsum(X):
    return mt.einsum("bhns->bnhs", X).flatten(-2)


def merge_position_by_position(X):
    return mt.stack([X[:, :, i].flatten(1) for i in range(X.shape[2])], dim=1)


# heads_in_a_loop


def loop_over_query_positions(X, Q, K, V, W_O):
    outputs = []
    for i in range(X.shape[1]):
        heads = []
        for query, key, value in zip(Q, K, V, strict=True):
            scores = ((X[:, i] @ query).unsqueeze(1) * (X @ key)).sum(-1) / math.sqrt(len(query.T))
            weights = scores.softmax(-1).unsqueeze(-1)  # (B, n, 1)
            heads.append((weights * (X @ value)).sum(1))
        outputs.append(mt.cat(heads, -1) @ W_O)
    return mt.stack(outputs, dim=1)


def loop_that_adds_projected_heads(X, Q, K, V, W_O):
    total, size = 0, Q[0].shape[1]
    for query, key, value, out in zip(Q, K, V, W_O.split(size), strict=True):
        scores = X @ (query @ key.T / size**0.5) @ X.mT
        total = total + scores.softmax(-1) @ X @ (value @ out)
    return total


def stacked_matrices_with_einsum(X, Q, K, V, W_O):
    query, key, value = (mt.einsum("bnd,hds->bhns", X, mt.stack(each)) for each in (Q, K, V))
    weights = (mt.einsum("bhis,bhjs->bhij", query, key) / query.shape[-1] ** 0.5).softmax(-1)
    W_O = W_O.reshape(len(Q), -1, W_O.shape[-1])
    return mt.einsum("bhij,bhjs,hsd->bid", weights, value, W_O)


def one_product_for_all_heads(X, Q, K, V, W_O):
    query, key, value = (split_with_chunks(X @ mt.cat(each, 1), len(Q)) for each in (Q, K, V))
    weights = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).softmax(-1)
    return merge_with_unbind(weights @ value) @ W_O


def fused_loop(X, Q, K, V, W_O):
    heads = [
        F.scaled_dot_product_attention(X @ q, X @ k, X @ v) for q, k, v in zip(Q, K, V, strict=True)
    ]
    return mt.cat(heads, dim=-1) @ W_O


def loop_of_the_module(X, Q, K, V, W_O):
    module = nn.MultiheadAttention(len(W_O), len(Q), bias=False, batch_first=True).double()
    module.load_state_dict(weights_by_concatenation(Q, K, V, W_O))
    return module(X, X, X)[0]


# heads_at_once


def at_once_with_einsum(query, key, value, heads):
    query, key, value = (x.unflatten(-1, (heads, -1)) for x in (query, key, value))
    scores = mt.einsum("bihs,bjhs->bhij", query, key) / math.sqrt(query.shape[-1])
    return mt.einsum("bhij,bjhs->bihs", scores.softmax(-1), value).flatten(2)


def at_once_with_a_larger_batch(query, key, value, heads):
    batch, steps, d = query.shape
    query, key, value = (
        split_with_permute(x, heads).reshape(batch * heads, -1, d // heads)
        for x in (query, key, value)
    )
    weights = (mt.bmm(query, key.transpose(1, 2)) / (d // heads) ** 0.5).softmax(dim=-1)
    out = mt.bmm(weights, value).view(batch, heads, steps, d // heads)
    return out.transpose(1, 2).reshape(batch, steps, d)


def at_once_with_heads_first(query, key, value, heads):
    """Heads in front of the batch, there and back."""
    query, key, value = (mt.stack(x.chunk(heads, -1)) for x in (query, key, value))
    exponentials = (query @ key.mT / query.shape[-1] ** 0.5).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return mt.cat(list(weights @ value), dim=-1)


def at_once_by_broadcasting(query, key, value, heads):
    query, key, value = (split_with_permute(x, heads) for x in (query, key, value))
    scores = (query.unsqueeze(3) * key.unsqueeze(2)).sum(-1) * query.shape[-1] ** -0.5
    weights = F.softmax(scores, -1)
    return merge_with_view((weights.unsqueeze(-1) * value.unsqueeze(2)).sum(3))


def fused_at_once(query, key, value, heads):
    parts = (split_with_permute(x, heads) for x in (query, key, value))
    return merge_with_view(F.scaled_dot_product_attention(*parts))


def at_once_with_the_module(query, key, value, heads):
    """nn.MultiheadAttention, whose matrices are the identity."""
    d = query.shape[-1]
    attention = nn.MultiheadAttention(d, heads, bias=False, batch_first=True).double()
    eye = mt.eye(d, dtype=mt.float64)
    attention.load_state_dict({"in_proj_weight": mt.cat([eye] * 3), "out_proj.weight": eye})
    return attention(query, key, value)[0]


# attention_cost


def cost_matrix_by_matrix(T, n, d, heads):
    size, flops, weights, scores = d // heads, 0, 0, 0
    for rows in (T, n, n):
        for _ in range(heads):
            weights += d * size
            flops += 2 * rows * d * size
    for _ in range(heads):
        flops += 2 * T * size * n + 2 * T * n * size
        scores += T * n
    return [weights + d * d, flops + 2 * T * d * d, scores]


def cost_counted(T, n, d, heads):
    """The shapes as arrays would have them."""
    x, memory = np.broadcast_to(0, (T, d)), np.broadcast_to(0, (n, d))
    matrices = [np.broadcast_to(0, (d, d))] * 4
    flops = sum(2 * rows.size * d for rows in (x, memory, memory, x)) + 4 * x.size * n
    return sum(matrix.size for matrix in matrices), flops, len(x) * len(memory) * heads


# contributions


def contributions_in_a_loop(Y, W_O):
    rows = W_O.split(Y.shape[-1])
    return mt.stack([head @ own for head, own in zip(Y.unbind(1), rows, strict=True)], dim=1)


def contributions_with_einsum(Y, W_O):
    return mt.einsum("bhns,hsd->bhnd", Y, W_O.unflatten(0, (Y.shape[1], -1)))


def contributions_of_silenced_heads(Y, W_O):
    """All heads but one are set to 0."""
    terms = []
    for head in range(Y.shape[1]):
        alone = mt.zeros(1, Y.shape[1], 1, 1)
        alone[0, head] = 1
        terms.append(merge_by_concatenation(Y * alone) @ W_O)
    return mt.stack(terms, dim=1)


def contributions_by_difference(Y, W_O):
    """The output less the output without the head."""
    outputs, size = merge_by_concatenation(Y) @ W_O, Y.shape[-1]
    without = []
    for head in range(Y.shape[1]):
        rest = W_O.clone()
        rest[head * size : (head + 1) * size] = 0
        without.append(merge_by_concatenation(Y) @ rest)
    return outputs.unsqueeze(1) - mt.stack(without, dim=1)


# module_weights


def weights_by_concatenation(Q, K, V, W_O):
    rows = [matrix.T for matrices in (Q, K, V) for matrix in matrices]
    return {"in_proj_weight": mt.cat(rows, dim=0), "out_proj.weight": W_O.T}


def weights_turned_at_the_end(Q, K, V, W_O):
    return {"out_proj.weight": W_O.mT.clone(), "in_proj_weight": mt.cat([*Q, *K, *V], dim=1).T}


def weights_of_a_module(Q, K, V, W_O):
    module = nn.MultiheadAttention(len(W_O), len(Q), bias=False)
    with mt.no_grad():
        d = len(W_O)
        for part, matrices in enumerate((Q, K, V)):
            module.in_proj_weight[part * d : (part + 1) * d] = mt.cat(matrices, dim=-1).T
        module.out_proj.weight.copy_(W_O.T)
    return module.state_dict()


# strongest_offsets


def offsets_in_a_loop(weights):
    batch, heads, n, _ = weights.shape
    pairs = []
    for head in range(heads):
        counts = {}
        for b in range(batch):
            for i in range(n):
                row = weights[b, head, i].tolist()
                offset = row.index(max(row)) - i
                counts[offset] = counts.get(offset, 0) + 1
        offset = max(counts, key=counts.get)
        pairs.append([offset, counts[offset] / (batch * n)])
    return pairs


def offsets_with_diagonals(weights):
    """A hard choice for each query, then sums along the diagonals."""
    n = weights.shape[-1]
    hard = F.one_hot(weights.argmax(-1), n).double().mean(dim=0)  # (heads, n, n)
    pairs = []
    for matrix in hard:
        shares = {k: float(mt.diagonal(matrix, k).sum()) / n for k in range(1 - n, n)}
        pairs.append(max(shares.items(), key=lambda pair: pair[1]))
    return pairs


def offsets_with_numpy(weights):
    array = weights.numpy()
    n = array.shape[-1]
    offsets = array.argmax(-1) - np.arange(n) + n - 1
    pairs = []
    for head in range(array.shape[1]):
        counts = np.bincount(offsets[:, head].ravel())
        pairs.append((int(counts.argmax()) - n + 1, counts.max() / counts.sum()))
    return pairs


# two_heads


def sharp_keys(k, c):
    """The scale in K, and far larger than need be."""
    Q = [mt.cat([mt.eye(k), mt.zeros(k, k)]), mt.cat([mt.zeros(k, k), mt.eye(k)])]
    K, V = mt.zeros(k + c, k), mt.zeros(k + c, c)
    for i in range(k):
        K[i, i] = 1e6
    for i in range(c):
        V[k + i, i] = 1.0
    return Q, [K, K], (V, V)


def rotated_heads(k, c):
    """Any orthogonal matrix between queries and keys leaves the scores as they are."""
    basis = mt.tensor(np.linalg.qr(np.random.default_rng(3).standard_normal((k, k)))[0])
    empty = mt.zeros(k, k)
    Q = [mt.cat([100 * basis, empty]), mt.cat([empty, 100 * basis])]
    K = mt.cat([basis, mt.zeros(c, k)])
    V = F.pad(mt.eye(c), (0, 0, k, 0))
    return Q, [K] * 2, [V] * 2


def heads_that_dislike_other_keys(k, c):
    """Scores of 0 for the right key and far below 0 for the others."""
    against = -200 * (1 - mt.eye(k))
    Q = [mt.cat([against, 0 * against]), mt.cat([0 * against, against])]
    K, V = mt.eye(k + c)[:, :k], mt.eye(k + c)[:, k:]
    return Q, [K, K], [V, V]


# MultiHeadAttention


class LayerWithEinsum(MultiHeadAttention.reference):
    def forward(self, x, memory, allowed=None):
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1))
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = mt.einsum("bihs,bjhs->bhij", query, key) / math.sqrt(query.shape[-1])
        if allowed is not None:
            scores = mt.where(allowed, scores, -1e9)
        return self.out(mt.einsum("bhij,bjhs->bihs", scores.softmax(-1), value).flatten(2))


class LayerInALoop(MultiHeadAttention.reference):
    """A loop over sequences and heads."""

    def forward(self, x, memory, allowed=None):
        shape = len(x), self.heads, x.shape[1], memory.shape[1]
        mask = mt.zeros(shape)
        if allowed is not None:
            mask = mask.masked_fill(~allowed, -math.inf)
        size = x.shape[-1] // self.heads
        rows = []
        for b in range(len(x)):
            query, key, value = self.query(x[b]), self.key(memory[b]), self.value(memory[b])
            heads = []
            for head in range(self.heads):
                own = slice(head * size, (head + 1) * size)
                scores = query[:, own] @ key[:, own].T / size**0.5 + mask[b, head]
                heads.append(scores.softmax(dim=-1) @ value[:, own])
            rows.append(self.out(mt.cat(heads, dim=-1)))
        return mt.stack(rows)


class LayerWithALargerBatch(MultiHeadAttention.reference):
    def forward(self, x, memory, allowed=None):
        batch, steps, width = x.shape
        query, key, value = (
            split_with_permute(projected, self.heads).flatten(0, 1)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.mT * (width // self.heads) ** -0.5
        if allowed is not None:
            mask = allowed.expand(batch, self.heads, *scores.shape[1:]).reshape(scores.shape)
            scores = scores.masked_fill(mask == False, float("-inf"))  # noqa: E712
        out = (scores.softmax(-1) @ value).view(batch, self.heads, steps, -1)
        return self.out(merge_by_concatenation(out))


class LayerOfProjectedHeads(MultiHeadAttention.reference):
    """The sum of what the heads add, by the slices of all weights."""

    def forward(self, x, memory, allowed=None):
        total, size = 0, x.shape[-1] // self.heads
        for head in range(self.heads):
            own = slice(head * size, (head + 1) * size)
            query, key = x @ self.query.weight[own].T, memory @ self.key.weight[own].T
            scores = query @ key.mT / size**0.5
            if allowed is not None:
                mask = allowed.squeeze(1) if allowed.ndim == 4 else allowed
                scores = scores.masked_fill(~mask, -mt.inf)
            value = memory @ self.value.weight[own].T
            total = total + scores.softmax(-1) @ value @ self.out.weight[:, own].T
        return total


class FusedLayer(MultiHeadAttention.reference):
    def forward(self, x, memory, allowed=None):
        parts = (
            split_with_permute(projected, self.heads)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        return self.out(merge_with_view(F.scaled_dot_product_attention(*parts, attn_mask=allowed)))


right = {
    "split_heads": [
        split_by_columns,
        split_with_chunks,
        split_with_permute,
        split_number_by_number,
        split_with_einsum,
    ],
    "merge_heads": [
        merge_by_concatenation,
        merge_with_unbind,
        merge_with_view,
        merge_with_einsum,
        merge_position_by_position,
    ],
    "heads_in_a_loop": [
        loop_over_query_positions,
        loop_that_adds_projected_heads,
        stacked_matrices_with_einsum,
        one_product_for_all_heads,
    ],
    "heads_at_once": [
        at_once_with_einsum,
        at_once_with_a_larger_batch,
        at_once_with_heads_first,
        at_once_by_broadcasting,
    ],
    "attention_cost": [cost_matrix_by_matrix, cost_counted],
    "contributions": [
        contributions_in_a_loop,
        contributions_with_einsum,
        contributions_of_silenced_heads,
        contributions_by_difference,
    ],
    "module_weights": [weights_by_concatenation, weights_turned_at_the_end, weights_of_a_module],
    "strongest_offsets": [offsets_in_a_loop, offsets_with_diagonals, offsets_with_numpy],
    "two_heads": [sharp_keys, rotated_heads, heads_that_dislike_other_keys],
    "MultiHeadAttention": [
        LayerWithEinsum,
        LayerInALoop,
        LayerWithALargerBatch,
        LayerOfProjectedHeads,
    ],
}
refused = {
    "heads_in_a_loop": [fused_loop, loop_of_the_module],
    "heads_at_once": [fused_at_once, at_once_with_the_module],
    "MultiHeadAttention": [FusedLayer],
}
