"""Right answers to the exercises of chapter 06, and forbidden ones."""

import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_06 import GroupedAttention

# split_fused


def fused_by_columns(P, heads):
    size = P.shape[-1] // (3 * heads)
    starts = [3 * size * head for head in range(heads)]
    return [
        mt.stack([P[..., start + i * size : start + (i + 1) * size] for start in starts], dim=1)
        for i in range(3)
    ]


def fused_with_chunks(P, heads):
    parts = [head.chunk(3, dim=-1) for head in P.chunk(heads, dim=-1)]
    return tuple(mt.stack(each, 1) for each in zip(*parts, strict=True))


def fused_with_permute(P, heads):
    batch, n, _ = P.shape
    query, key, value = P.view(batch, n, heads, 3, -1).permute(3, 0, 2, 1, 4)
    return query, key, value


def fused_with_every_third(P, heads):
    """3h narrow heads, of which every third is a query."""
    narrow = P.unflatten(2, (3 * heads, -1)).transpose(1, 2)
    return narrow[:, 0::3], narrow[:, 1::3], narrow[:, 2::3]


# Pieces


def split_with_chunks(X, heads):
    return mt.stack(X.chunk(heads, dim=-1), 1)


def split_with_permute(X, heads):
    return X.view(len(X), -1, heads, X.size(-1) // heads).permute(0, 2, 1, 3)


def merge_by_concatenation(X):
    return mt.cat([X[:, head] for head in range(X.shape[1])], dim=-1)


def merge_with_view(X):
    batch, heads, n, size = X.shape
    return X.permute(0, 2, 1, 3).contiguous().view(batch, n, heads * size)


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
    total, sizes = 0, [value.shape[1] for value in V]
    for query, key, value, out in zip(Q, K, V, W_O.split(sizes), strict=True):
        scores = X @ (query @ key.T / query.shape[1] ** 0.5) @ X.mT
        total = total + scores.softmax(-1) @ X @ (value @ out)
    return total


def loop_that_subtracts_the_largest(X, Q, K, V, W_O):
    heads = []
    for q, k, v in zip(Q, K, V, strict=True):
        scores = mt.einsum("bis,bjs->bij", X @ q, X @ k) / math.sqrt(k.size(1))
        exponentials = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        heads.append(exponentials @ (X @ v) / exponentials.sum(-1, keepdim=True))
    return mt.cat(heads, 2).matmul(W_O)


def fused_loop(X, Q, K, V, W_O):
    heads = [
        F.scaled_dot_product_attention(X @ q, X @ k, X @ v) for q, k, v in zip(Q, K, V, strict=True)
    ]
    return mt.cat(heads, dim=-1) @ W_O


def loop_with_linear(X, Q, K, V, W_O):
    heads = [
        (F.linear(X, q.T) @ (X @ k).mT / q.shape[1] ** 0.5).softmax(-1) @ (X @ v)
        for q, k, v in zip(Q, K, V, strict=True)
    ]
    return F.linear(mt.cat(heads, dim=-1), W_O.T)


# talking_heads


def talking_with_einsum(query, key, value, mix):
    maps, heads = mix.shape
    query, key = (x.unflatten(-1, (heads, -1)) for x in (query, key))
    scores = mt.einsum("gh,bihs,bjhs->bgij", mix, query, key) / math.sqrt(query.shape[-1])
    value = value.unflatten(-1, (maps, -1))
    return mt.einsum("bgij,bjgs->bigs", scores.softmax(-1), value).flatten(2)


def talking_with_scaled_queries(query, key, value, mix):
    """A map looks with all d columns, those of head l times mix[m, l]."""
    maps, heads = mix.shape
    size = query.shape[-1] // heads
    scales = mix.repeat_interleave(size, dim=1) / size**0.5  # (maps, d)
    scores = (query.unsqueeze(1) * scales.unsqueeze(1)) @ key.unsqueeze(1).mT
    return merge_with_view(F.softmax(scores, -1) @ split_with_permute(value, maps))


def talking_by_broadcasting(query, key, value, mix):
    query, key = (split_with_permute(x, mix.shape[1]) for x in (query, key))
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    mixed = (mix[:, :, None, None] * scores.unsqueeze(1)).sum(2)
    exponentials = (mixed - mixed.amax(-1, keepdim=True).detach()).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return merge_with_view(weights @ split_with_permute(value, mix.shape[0]))


def fused_talking(query, key, value, mix):
    maps, heads = mix.shape
    size = query.shape[-1] // heads
    scales = mix.repeat_interleave(size, dim=1) * heads**0.5  # (maps, d)
    parts = query.unsqueeze(1) * scales.unsqueeze(1), key.unsqueeze(1).expand(-1, maps, -1, -1)
    return merge_with_view(F.scaled_dot_product_attention(*parts, split_with_permute(value, maps)))


def talking_with_linear(query, key, value, mix):
    query, key = (split_with_permute(x, mix.shape[1]) for x in (query, key))
    scores = (query @ key.mT / query.shape[-1] ** 0.5).permute(0, 2, 3, 1)
    weights = F.linear(scores, mix).permute(0, 3, 1, 2).softmax(-1)
    return merge_with_view(weights @ split_with_permute(value, mix.shape[0]))


# attention_cost


def cost_matrix_by_matrix(T, n, d, heads, groups):
    size, flops, weights, scores = d // heads, 0, 0, 0
    for rows, count in ((T, heads), (n, groups), (n, groups)):
        for _ in range(count):
            weights += d * size
            flops += 2 * rows * d * size
    for _ in range(heads):
        flops += 2 * T * size * n + 2 * T * n * size
        scores += T * n
    flops += 2 * T * d * d
    return dict(
        kept=groups * (n * size + n * size), scores=scores, FLOPs=flops, weights=weights + d * d
    )


def cost_in_numpy(T, n, d, heads, groups):
    """Numbers of NumPy."""
    T, n, d, heads, groups = np.array([T, n, d, heads, groups], dtype=np.int64)
    narrow = d * groups // heads
    return {
        "weights": 2 * d * (d + narrow),
        "FLOPs": 4 * d * (T * d + n * narrow + T * n),
        "scores": heads * T * n,
        "kept": 2 * n * narrow,
    }


# without_each_head


def without_in_a_loop(Y, W_O):
    outputs = []
    for head in range(Y.shape[1]):
        others = Y.clone()
        others[:, head] = Y[:, head].mean((0, 1))
        outputs.append(merge_by_concatenation(others) @ W_O)
    return mt.stack(outputs, dim=1)


def without_as_a_sum(Y, W_O):
    """All terms but one, and the constant that stands in its place."""
    terms = mt.einsum("bhns,hsm->bhnm", Y, W_O.unflatten(0, (Y.shape[1], -1)))
    rest = terms.sum(dim=1, keepdim=True) - terms
    return rest + terms.mean(dim=(0, 2), keepdim=True)


def without_by_where(Y, W_O):
    heads = Y.shape[1]
    own = mt.eye(heads).bool()[:, None, :, None, None]  # (removed, 1, head, 1, 1)
    mean = Y.mean(2, keepdim=True).mean(0, keepdim=True)
    replaced = mt.where(own, mean, Y)  # (removed, B, head, n, size)
    return (replaced.transpose(2, 3).flatten(3) @ W_O).transpose(0, 1)


# mixing


def mixing_with_numpy(layers):
    random, found = np.random.default_rng(1), []
    for i, layer in enumerate(layers):
        worst = 0.0
        for batch, n in ((4, 8), (4, 7), (2, 8), (3, 5), (1, 3)):
            X = random.standard_normal((batch, n, 8))
            order = random.permutation(n)
            Y = layer(mt.tensor(X)).numpy()
            permuted = layer(mt.tensor(X[:, order].copy())).numpy()
            worst = max(worst, np.abs(permuted - Y[:, order]).max())
            for b in range(batch):
                worst = max(worst, np.abs(layer(mt.tensor(X[b : b + 1])).numpy()[0] - Y[b]).max())
        if worst > 1e-9:
            found.append(np.int64(i))
    return found


def mixing_by_one_change(layers):
    """Another sequence is exchanged, and two positions are."""

    def mixes(layer):
        for batch in (2, 3, 4):
            for n in (2, 5, 8):
                X = mt.randn(batch, n, 8, dtype=mt.float64)
                outputs, others = layer(X), X.clone()
                if (layer(X[-1:])[0] - outputs[-1]).abs().max() > 1e-9:
                    return True
                others[-1] = mt.randn(n, 8, dtype=mt.float64)
                if (layer(others)[:-1] - outputs[:-1]).abs().max() > 1e-9:
                    return True
                for i, j in ((0, 1), (n - 1, 0), (n - 2, n // 2)):
                    order = list(range(n))
                    order[i], order[j] = order[j], order[i]
                    if (layer(X[:, order]) - outputs[:, order]).abs().max() > 1e-9:
                        return True
        return False

    return tuple(i for i in range(len(layers)) if mixes(layers[i]))


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


# GroupedAttention


class LayerWithEinsum(GroupedAttention.reference):
    """The groups as an axis of their own."""

    def forward(self, x, memory, allowed=None):
        query = self.query(x).unflatten(-1, (self.groups, -1, self.size))  # (B, T, g, h/g, s)
        key = self.key(memory).unflatten(-1, (self.groups, -1))
        value = self.value(memory).unflatten(-1, (self.groups, -1))
        scores = mt.einsum("bigks,bjgs->bgkij", query, key) / math.sqrt(self.size)
        if allowed is not None:
            allowed = allowed.expand(len(x), self.heads, *scores.shape[-2:])
            scores = mt.where(allowed.reshape(scores.shape), scores, -1e30)
        mixed = mt.einsum("bgkij,bjgs->bigks", scores.softmax(-1), value)
        return self.out(mixed.flatten(2))


class LayerInALoop(GroupedAttention.reference):
    """A loop over sequences and heads."""

    def forward(self, x, memory, allowed=None):
        mask = mt.zeros(len(x), self.heads, x.shape[1], memory.shape[1])
        if allowed is not None:
            mask = mask.masked_fill(~allowed, -math.inf)
        rows = []
        for b in range(len(x)):
            query, key, value = self.query(x[b]), self.key(memory[b]), self.value(memory[b])
            heads = []
            for head in range(self.heads):
                group = head * self.groups // self.heads
                own = slice(head * self.size, (head + 1) * self.size)
                theirs = slice(group * self.size, (group + 1) * self.size)
                scores = query[:, own] @ key[:, theirs].T / self.size**0.5 + mask[b, head]
                heads.append(scores.softmax(dim=-1) @ value[:, theirs])
            rows.append(self.out(mt.cat(heads, dim=-1)))
        return mt.stack(rows)


class LayerWithALargerBatch(GroupedAttention.reference):
    def forward(self, x, memory, allowed=None):
        batch, steps, _ = x.shape
        query = split_with_permute(self.query(x), self.heads).flatten(0, 1)
        key, value = (
            split_with_permute(each, self.groups)
            .unsqueeze(2)
            .expand(-1, -1, self.heads // self.groups, -1, -1)
            .reshape(batch * self.heads, -1, self.size)
            for each in (self.key(memory), self.value(memory))
        )
        scores = query @ key.mT * self.size**-0.5
        if allowed is not None:
            mask = allowed.expand(batch, self.heads, *scores.shape[1:]).reshape(scores.shape)
            scores = scores.masked_fill(mask == False, float("-inf"))  # noqa: E712
        out = (scores.softmax(-1) @ value).view(batch, self.heads, steps, -1)
        return self.out(merge_by_concatenation(out))


class FusedLayer(GroupedAttention.reference):
    def forward(self, x, memory, allowed=None):
        query = split_with_permute(self.query(x), self.heads)
        key, value = (
            split_with_permute(each, self.groups).repeat_interleave(self.heads // self.groups, 1)
            for each in (self.key(memory), self.value(memory))
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return self.out(merge_with_view(mixed))


# favourites


def favourites_on_a_parabola(n):
    places = mt.arange(n).double()
    return {
        "two": np.int64(n),
        "one": 1 if n == 1 else 2,
        "keys": mt.stack([places, places**2], dim=1),
        "queries": mt.stack([2 * places, -mt.ones(n, dtype=mt.float64)], dim=1),
    }


def favourites_on_half_a_circle(n):
    angles = np.pi * np.arange(n) / n
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return {
        "one": sum(1 for _ in range(n)[:2]),
        "two": n,
        "queries": mt.tensor(keys * n**2),
        "keys": mt.tensor(keys),
    }


right = {
    "favourites": [favourites_on_a_parabola, favourites_on_half_a_circle],
    "split_fused": [
        fused_by_columns,
        fused_with_chunks,
        fused_with_permute,
        fused_with_every_third,
    ],
    "attention_cost": [cost_matrix_by_matrix, cost_in_numpy],
    "heads_in_a_loop": [
        loop_over_query_positions,
        loop_that_adds_projected_heads,
        loop_that_subtracts_the_largest,
    ],
    "mixing": [mixing_with_numpy, mixing_by_one_change],
    "talking_heads": [
        talking_with_einsum,
        talking_with_scaled_queries,
        talking_by_broadcasting,
    ],
    "without_each_head": [without_in_a_loop, without_as_a_sum, without_by_where],
    "two_heads": [sharp_keys, rotated_heads, heads_that_dislike_other_keys],
    "GroupedAttention": [LayerWithEinsum, LayerInALoop, LayerWithALargerBatch],
}
refused = {
    "heads_in_a_loop": [fused_loop, loop_with_linear],
    "talking_heads": [fused_talking, talking_with_linear],
    "GroupedAttention": [FusedLayer],
}
