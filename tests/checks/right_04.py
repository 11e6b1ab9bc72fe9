"""Right answers to the exercises of chapter 04, and forbidden ones."""

import math
from fractions import Fraction

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_04 import AttentionDecoder

# attend


def attend_with_einsum(scores, values):
    """F.scaled_dot_product_attention is not needed."""
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return mt.einsum("bn,bnd->bd", weights, values), weights


def attend_sequence_by_sequence(scores, values):
    rows = [F.softmax(row, dim=0) for row in scores]
    contexts = [
        sum(weight * value for weight, value in zip(row, table, strict=True))
        for row, table in zip(rows, values, strict=True)
    ]
    return mt.stack(contexts), mt.stack(rows)


def attend_with_broadcasting(scores, values):
    weights = mt.softmax(scores, 1)
    return [(weights[:, :, None] * values).sum(1), weights]


def fused_attend(scores, values):
    """Scores as queries, and the unit vectors as keys."""
    eye = mt.eye(scores.shape[1], dtype=scores.dtype)
    keys = eye.expand(len(scores), *eye.shape)
    context = F.scaled_dot_product_attention(scores.unsqueeze(1), keys, values, scale=1.0)
    weights = F.scaled_dot_product_attention(scores.unsqueeze(1), keys, keys, scale=1.0)
    return context.squeeze(1), weights.squeeze(1)


# attend_all


def all_query_by_query(queries, keys, values):
    contexts, weights = [], []
    for i in range(queries.shape[1]):
        scores = (queries[:, i : i + 1] * keys).sum(dim=-1)
        weights.append(scores.softmax(dim=1))
        contexts.append((weights[-1].unsqueeze(2) * values).sum(dim=1))
    return mt.stack(contexts, dim=1), mt.stack(weights, dim=1)


def all_with_einsum(queries, keys, values):
    weights = mt.einsum("bid,bjd->bij", queries, keys).softmax(-1)
    return mt.einsum("bij,bjv->biv", weights, values), weights


def all_with_keys_first(queries, keys, values):
    """Scores (B, n, T) and a softmax over their keys, axis 1."""
    weights = mt.bmm(keys, queries.permute(0, 2, 1)).softmax(dim=1)
    return weights.transpose(1, 2).matmul(values), weights.transpose(1, 2)


def fused_all(queries, keys, values):
    size = len(keys), keys.shape[1], keys.shape[1]
    eye = mt.eye(keys.shape[1], dtype=keys.dtype).expand(*size)
    contexts = F.scaled_dot_product_attention(queries, keys, values, scale=1.0)
    return contexts, F.scaled_dot_product_attention(queries, keys, eye, scale=1.0)


def all_with_the_module(queries, keys, values):
    """nn.MultiheadAttention with one head, whose matrices are the identity."""
    size = max(queries.shape[-1], values.shape[-1])
    padded = [F.pad(x, (0, size - x.shape[-1])) for x in (queries * size**0.5, keys, values)]
    attention = nn.MultiheadAttention(size, 1, bias=False, batch_first=True).double()
    eye = mt.eye(size, dtype=mt.float64)
    attention.in_proj_weight.data = mt.cat([eye, eye, eye])
    attention.out_proj.weight.data = eye
    contexts, weights = attention(*padded)
    return contexts[..., : values.shape[-1]], weights


# padded_weights


def weights_sequence_by_sequence(scores, lengths):
    rows = []
    for matrix, n in zip(scores, lengths.tolist(), strict=True):
        weights = matrix[:, :n].softmax(dim=-1)
        rows.append(F.pad(weights, (0, matrix.shape[1] - n)))
    return mt.stack(rows)


def weights_with_an_added_mask(scores, lengths):
    outside = mt.arange(scores.shape[-1]).reshape(1, 1, -1) >= lengths.reshape(-1, 1, 1)
    return F.softmax(scores + mt.zeros(outside.shape).masked_fill(outside, -math.inf), dim=-1)


def weights_with_where(scores, lengths):
    outside = mt.arange(scores.shape[2])[None, None] >= lengths[:, None, None]
    return mt.where(outside, mt.full_like(scores, -1e9), scores).softmax(-1)


def weights_by_hand(scores, lengths):
    valid = (mt.arange(scores.shape[-1]) < lengths.unsqueeze(1)).unsqueeze(1)
    scores = scores.masked_fill(~valid, -math.inf)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def fused_weights(scores, lengths):
    valid = (mt.arange(scores.shape[-1]) < lengths.unsqueeze(1)).unsqueeze(1)
    size = len(scores), scores.shape[-1], scores.shape[-1]
    eye = mt.eye(scores.shape[-1], dtype=scores.dtype).expand(*size)
    return F.scaled_dot_product_attention(scores, eye, eye, attn_mask=valid, scale=1.0)


# lookup_table


def table_of_scaled_keys(n, error):
    ratio = (1 - error) / (error / (n - 1))
    return math.log(ratio) * mt.eye(n), mt.eye(n)


def table_of_logarithms(n, error):
    """Queries pick a row of keys that hold the logarithms of the weights."""
    weights = [[1 - error if i == j else error / (n - 1) for i in range(n)] for j in range(n)]
    return mt.tensor(weights).log().T, mt.eye(n)


def table_of_rotated_vectors(n, error):
    """Orthonormal keys in more dimensions than there are entries."""
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((n + 3, n)))[0].T
    scale = math.log1p(-error) - math.log(error / (n - 1))
    return mt.tensor(basis), mt.tensor(scale * basis)


def table_on_a_simplex(n, error):
    """Keys less their mean: the scores of a query differ by as much as before."""
    keys = mt.eye(n) - 1 / n
    return keys, keys * math.log((n - 1) * (1 - error) / error)


# reduced_rank_scores


def scores_with_einsum(queries, keys, U, V):
    left, right = mt.einsum("bid,kd->bik", queries, U), mt.einsum("bje,ke->bjk", keys, V)
    return mt.einsum("bik,bjk->bij", left, right)


def scores_pair_by_pair(queries, keys, U, V):
    rows = []
    for i in range(queries.shape[1]):
        row = [
            ((queries[:, i] @ U.T) * (keys[:, j] @ V.T)).sum(dim=-1) for j in range(keys.shape[1])
        ]
        rows.append(mt.stack(row, dim=-1))
    return mt.stack(rows, dim=1)


def scores_from_the_left(queries, keys, U, V):
    return F.linear(queries, U) @ V @ keys.transpose(1, 2)


# additive_scores


def additive_pair_by_pair(queries, keys, W_q, W_k, v):
    return mt.stack(
        [
            mt.stack(
                [
                    (queries[:, i] @ W_q.T + keys[:, j] @ W_k.T).tanh() @ v
                    for j in range(keys.shape[1])
                ],
                dim=1,
            )
            for i in range(queries.shape[1])
        ],
        dim=1,
    )


def additive_with_linear(queries, keys, W_q, W_k, v):
    joined = F.linear(queries, W_q)[:, :, None] + F.linear(keys, W_k)[:, None]
    return (mt.tanh(joined) * v).sum(-1)


def additive_with_one_matrix(queries, keys, W_q, W_k, v):
    """[W_q W_k] times [q; k], for all pairs."""
    shape = len(queries), queries.shape[1], keys.shape[1], -1
    pairs = [queries.unsqueeze(2).expand(*shape), keys.unsqueeze(1).expand(*shape)]
    joined = mt.cat(pairs, dim=-1) @ mt.cat([W_q, W_k], dim=1).T
    return mt.einsum("bija,a->bij", joined.tanh(), v)


# alignment_error


def error_in_a_loop(weights, alignments):
    hits = known = 0
    for rows, alignment in zip(weights.tolist(), alignments, strict=True):
        for row, places in zip(rows, alignment, strict=False):
            if places:
                known += 1
                hits += row.index(max(row)) in places
    return 1 - hits / known


def error_as_a_fraction(weights, alignments):
    rows = [
        (row, places)
        for rows, alignment in zip(weights.tolist(), alignments, strict=True)
        for row, places in zip(rows, alignment, strict=False)
        if places
    ]
    return Fraction(sum(row.index(max(row)) not in places for row, places in rows), len(rows))


def error_with_matrices(weights, alignments):
    gold = mt.zeros(*weights.shape)
    for b, alignment in enumerate(alignments):
        for i, places in enumerate(alignment):
            for j in places:
                gold[b, i, j] = 1
    hit = gold.gather(-1, weights.argmax(dim=-1, keepdim=True)).sum()
    return 1 - hit / gold.amax(dim=-1).sum()


# attention_gradient


def gradient_with_jacobians(weights, values, grad_contexts):
    """Query by query, through the matrix diag(p) - p p^T."""
    toward_scores, toward_values = mt.zeros_like(weights), mt.zeros_like(values)
    for b in range(len(weights)):
        for i in range(weights.shape[1]):
            p, g = weights[b, i], grad_contexts[b, i]
            jacobian = mt.diag(p) - mt.outer(p, p)
            toward_scores[b, i] = jacobian @ (values[b] @ g)
            toward_values[b] += mt.outer(p, g)
    return toward_scores, toward_values


def gradient_with_centred_values(weights, values, grad_contexts):
    """d context / d score_j = alpha_j (v_j - context)."""
    contexts = weights @ values
    centred = values.unsqueeze(1) - contexts.unsqueeze(2)  # (B, T, n, d)
    toward_scores = weights * mt.einsum("bijd,bid->bij", centred, grad_contexts)
    return toward_scores, mt.einsum("bij,bid->bjd", weights, grad_contexts)


def gradient_by_the_engine(weights, values, grad_contexts):
    scores, values = weights.log().requires_grad_(), values.clone().requires_grad_()
    (scores.softmax(dim=-1) @ values * grad_contexts).sum().backward()
    return scores.grad, values.grad


def gradient_by_autograd(weights, values, grad_contexts):
    scores, values = weights.log().requires_grad_(), values.clone().requires_grad_()
    contexts = scores.softmax(dim=-1) @ values
    return mt.autograd.grad(contexts, [scores, values], grad_contexts)


# decoder_step


def step_with_einsum(x, context, h, cell, states, lengths, W):
    h = cell(mt.cat([x, context], dim=1), h)
    scores = mt.einsum("bh,he,bne->bn", h, W, states)
    outside = mt.arange(states.shape[1])[None] >= lengths[:, None]
    weights = scores.masked_fill(outside, -math.inf).softmax(-1)
    return h, mt.einsum("bn,bne->be", weights, states), weights


def step_sequence_by_sequence(x, context, h, cell, states, lengths, W):
    h = cell(mt.cat([x, context], dim=-1), h)
    contexts, rows = [], []
    for b, n in enumerate(lengths.tolist()):
        weights = (states[b, :n] @ W.T @ h[b]).softmax(dim=0)
        contexts.append(weights @ states[b, :n])
        rows.append(mt.cat([weights, mt.zeros(states.shape[1] - n)]))
    return h, mt.stack(contexts), mt.stack(rows)


def fused_step(x, context, h, cell, states, lengths, W):
    h = cell(mt.cat([x, context], dim=-1), h)
    valid = (mt.arange(states.shape[1]) < lengths.unsqueeze(1)).unsqueeze(1)
    query = F.linear(h, W.T).unsqueeze(1)
    size = len(states), states.shape[1], states.shape[1]
    eye = mt.eye(states.shape[1], dtype=states.dtype).expand(*size)
    context, weights = (
        F.scaled_dot_product_attention(query, states, values, attn_mask=valid, scale=1.0)
        for values in (states, eye)
    )
    return h, context.squeeze(1), weights.squeeze(1)


def linear_step(x, context, h, cell, states, lengths, W):
    """Keys W k, once for all states."""
    h = cell(mt.cat([x, context], dim=-1), h)
    scores = (F.linear(states, W) * h.unsqueeze(1)).sum(dim=-1)
    outside = mt.arange(states.shape[1]) >= lengths.unsqueeze(1)
    weights = scores.masked_fill(outside, -math.inf).softmax(dim=-1)
    return h, (weights.unsqueeze(-1) * states).sum(dim=1), weights


# AttentionDecoder


class DecoderInALoop(AttentionDecoder.reference):
    def forward(self, targets, states, lengths, h, start):
        outside = mt.arange(states.shape[1]) >= lengths.unsqueeze(1)  # (B, n)
        keys = self.from_key(states)  # (B, n, a)
        token, context = mt.full_like(targets[:, 0], start), mt.zeros_like(states[:, 0])
        results = []
        for t in range(targets.shape[1]):
            h = self.cell(mt.cat([self.embedding(token), context], dim=-1), h)
            scores = self.score((self.from_query(h).unsqueeze(1) + keys).tanh()).squeeze(-1)
            weights = scores.masked_fill(outside, -math.inf).softmax(dim=-1)
            context = mt.einsum("bn,bne->be", weights, states)
            results.append(self.output(mt.cat([h, context], dim=-1)))
            token = targets[:, t]
        return mt.stack(results, dim=1)


class DecoderWithOneOutput(AttentionDecoder.reference):
    """All words embedded before the loop and all outputs computed after it."""

    def forward(self, targets, states, lengths, h, start):
        tokens = mt.cat([mt.full((len(targets), 1), start), targets], dim=1)[:, :-1]
        context, read = mt.zeros(len(states), states.shape[2]), []
        for x in self.embedding(tokens).unbind(1):
            h = self.cell(mt.cat([x, context.to(x.dtype)], dim=1), h)
            context = mt.stack([self.look(*each) for each in zip(h, states, lengths, strict=True)])
            read.append(mt.cat([h, context], dim=1))
        return self.output(mt.stack(read, 1))

    def look(self, h, states, n):
        valid = states[: int(n)]
        scores = self.score(mt.tanh(self.from_query(h) + self.from_key(valid)))  # (n, 1)
        return (F.softmax(scores, 0) * valid).sum(0)


class FusedDecoder(AttentionDecoder.reference):
    """The weighted sum by the fused operation: scores as queries of unit vectors."""

    def forward(self, targets, states, lengths, h, start):
        valid = (mt.arange(states.shape[1]) < lengths.unsqueeze(1)).unsqueeze(1)
        eye = mt.eye(states.shape[1], dtype=states.dtype).expand(len(states), -1, -1)
        keys, context, results = self.from_key(states), mt.zeros_like(states[:, 0]), []
        first = mt.full_like(targets[:, :1], start)
        for token in mt.cat([first, targets[:, :-1]], dim=1).T:
            h = self.cell(mt.cat([self.embedding(token), context], dim=-1), h)
            scores = self.score((self.from_query(h).unsqueeze(1) + keys).tanh()).mT
            context = F.scaled_dot_product_attention(
                scores, eye, states, attn_mask=valid, scale=1.0
            ).squeeze(1)
            results.append(self.output(mt.cat([h, context], dim=-1)))
        return mt.stack(results, dim=1)


right = {
    "attend": [attend_with_einsum, attend_sequence_by_sequence, attend_with_broadcasting],
    "attend_all": [all_query_by_query, all_with_einsum, all_with_keys_first],
    "padded_weights": [
        weights_sequence_by_sequence,
        weights_with_an_added_mask,
        weights_with_where,
        weights_by_hand,
    ],
    "lookup_table": [
        table_of_scaled_keys,
        table_of_logarithms,
        table_of_rotated_vectors,
        table_on_a_simplex,
    ],
    "reduced_rank_scores": [scores_with_einsum, scores_pair_by_pair, scores_from_the_left],
    "additive_scores": [additive_pair_by_pair, additive_with_linear, additive_with_one_matrix],
    "alignment_error": [error_in_a_loop, error_with_matrices, error_as_a_fraction],
    "attention_gradient": [gradient_with_jacobians, gradient_with_centred_values],
    "decoder_step": [step_with_einsum, step_sequence_by_sequence],
    "AttentionDecoder": [DecoderInALoop, DecoderWithOneOutput],
}
refused = {
    "attend": [fused_attend],
    "attend_all": [fused_all, all_with_the_module],
    "padded_weights": [fused_weights],
    "attention_gradient": [gradient_by_the_engine, gradient_by_autograd],
    "decoder_step": [fused_step, linear_step],
    "AttentionDecoder": [FusedDecoder],
}
