"""Right answers to the exercises of chapter 05, and forbidden ones."""

import functools
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn

# from_others


def others_in_a_loop(X, Q, K, V, i):
    q, others = X[i] @ Q, [j for j in range(len(X)) if j != i]
    scores = mt.stack([q @ (X[j] @ K) for j in others]) * X.shape[1] ** -0.5
    found = scores.softmax(dim=0)
    output = sum(weight * (X[j] @ V) for weight, j in zip(found, others, strict=True))
    weights = mt.zeros(len(X))
    weights[others] = found
    return output, weights


def others_cut_out(X, Q, K, V, i):
    """The sentence without the token."""
    rest = mt.cat([X[:i], X[i + 1 :]])
    weights = F.softmax(rest @ (K @ (X[i] @ Q)) / len(Q) ** 0.5, dim=0)
    zero = mt.zeros(1, dtype=X.dtype)
    return [(weights @ rest) @ V, mt.cat([weights[:i], zero, weights[i:]])]


def others_by_exponentials(X, Q, K, V, i):
    scores = mt.einsum("d,nd->n", X[i] @ Q, X @ K) / math.sqrt(X.size(1))
    there = mt.arange(len(X)) != i
    largest = scores[there].amax()
    exponentials = mt.where(there, (mt.where(there, scores, largest) - largest).exp(), 0.0)
    weights = exponentials / exponentials.sum()
    return mt.einsum("n,nd->d", weights, X @ V), weights


def fused_others(X, Q, K, V, i):
    there = (mt.arange(len(X)) != i).unsqueeze(0)
    query, key, eye = X[i : i + 1] @ Q, X @ K, mt.eye(len(X), dtype=X.dtype)
    output = F.scaled_dot_product_attention(query, key, X @ V, attn_mask=there)
    return output[0], F.scaled_dot_product_attention(query, key, eye, attn_mask=there)[0]


# attention


def _weights(scores, bias):
    """Query by query, where there is a bias."""
    if bias is None:
        return scores.softmax(dim=-1)
    scores = scores + bias
    rows = scores.reshape(-1, scores.shape[-1])
    found = []
    for row in rows:
        shut = bool((row == -math.inf).all())
        found.append(mt.zeros(len(row)) if shut else row.softmax(dim=0))
    return mt.stack(found).reshape(*scores.shape)


def attention_with_einsum(query, key, value, bias=None):
    scores = mt.einsum("...id,...jd->...ij", query, key) / math.sqrt(query.shape[-1])
    return mt.einsum("...ij,...jv->...iv", _weights(scores, bias), value)


def attention_by_hand(query, key, value, bias=None):
    """A softmax written out; rows without a key are divided by 1."""
    scores = query.matmul(key.mT).div(key.size(-1) ** 0.5)
    scores = scores if bias is None else scores + bias
    top = scores.detach().amax(dim=-1, keepdim=True)
    top = mt.where(top == -math.inf, 0.0, top)
    exponentials = (scores - top).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials @ value / mt.where(total == 0, 1.0, total)


def attention_with_a_key_more(query, key, value, bias=None):
    """A key of zeros that is shut unless all others are; its value is 0."""
    if bias is None:
        bias = mt.zeros(query.shape[-2], key.shape[-2])
    scores = (key @ query.transpose(-1, -2) / query.shape[-1] ** 0.5).transpose(-1, -2) + bias
    shut = (scores == -mt.inf).all(dim=-1, keepdim=True)
    more = mt.where(shut, 0.0, -mt.inf).to(scores.dtype)
    weights = mt.cat([scores, more], dim=-1).softmax(dim=-1)
    return weights[..., :-1] @ value


def fused_attention(query, key, value, bias=None):
    """Its bias goes into the library's."""
    if bias is None:
        return F.scaled_dot_product_attention(query, key, value)
    shut = (bias == -mt.inf).all(dim=-1, keepdim=True)
    bias = bias.masked_fill(shut, 0.0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias).masked_fill(shut, 0.0)


def attention_by_linear(query, key, value, bias=None):
    """The dot products by F.linear."""

    def scored(query, key):
        return F.linear(query, key) / query.shape[-1] ** 0.5

    if query.ndim == 2:
        scores = scored(query, key)
    else:
        pairs = zip(
            query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:]), strict=True
        )
        scores = mt.stack([scored(q, k) for q, k in pairs])
        scores = scores.reshape(*query.shape[:-1], key.shape[-2])
    return _weights(scores, bias) @ value


# SelfAttention


class SlotsAsTokens(nn.Module):
    def __init__(self, width, key_size, slots):
        super().__init__()
        self.scale = key_size**-0.5
        self.slot_values = nn.Parameter(mt.rand(slots, width) - 0.5)
        self.slot_keys = nn.Parameter(mt.rand(slots, key_size))
        self.value = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.query = nn.Linear(width, key_size, bias=False)

    def with_slots(self, x, slots):
        return mt.cat([x, slots.expand(*x.shape[:-2], *slots.shape)], dim=-2)

    def forward(self, x):
        key = self.with_slots(self.key(x), self.slot_keys)
        value = self.with_slots(self.value(x), self.slot_values)
        return attention_by_hand(self.query(x), key, value)


class SlotsInALoop(nn.Module):
    def __init__(self, width, key_size, slots):
        super().__init__()
        for name, size in {"query": key_size, "key": key_size, "value": width}.items():
            setattr(self, name, nn.Linear(width, size, False))
        self.slot_keys = nn.Parameter(mt.randn(slots, key_size))
        self.slot_values = nn.Parameter(mt.randn(slots, width))

    def forward(self, x):
        flat = x.reshape(-1, *x.shape[-2:])
        found = []
        for tokens in flat:
            keys = mt.cat([self.key(tokens), self.slot_keys])
            values = mt.cat([self.value(tokens), self.slot_values])
            for q in self.query(tokens):
                weights = ((keys * q).sum(dim=1) / len(q) ** 0.5).softmax(dim=0)
                found.append((weights.unsqueeze(1) * values).sum(dim=0))
        return mt.stack(found).reshape(*x.shape)


class FusedSlots(SlotsAsTokens):
    def forward(self, x):
        key = self.with_slots(self.key(x), self.slot_keys)
        value = self.with_slots(self.value(x), self.slot_values)
        return F.scaled_dot_product_attention(self.query(x), key, value)


# score_deviation


def deviation_in_loops(Q, K):
    total = 0.0
    for q in Q:
        for k in K:
            total += float(q @ k) ** 2
    return math.sqrt(total)


def deviation_as_a_decimal(Q, K):
    return sum(Decimal(float(q @ k)) ** 2 for q in Q for k in K).sqrt()


def deviation_by_a_trace(Q, K):
    """|| Q K^T ||^2 = trace(K Q^T Q K^T) = trace(Q^T Q K^T K), without a (d, d) matrix."""
    return mt.trace(Q.T @ Q @ (K.T @ K)).sqrt()


def deviation_with_einsum(Q, K):
    return mt.einsum("ak,bk,al,bl->", Q, K, Q, K).item() ** 0.5


def deviation_in_numpy(Q, K):
    return np.linalg.norm(Q.numpy() @ K.numpy().T)


# moved_by_score


def moved_in_loops(scores, values):
    rows = []
    for row in scores.softmax(-1).tolist():
        o = [sum(p * v for p, v in zip(row, column, strict=True)) for column in values.T.tolist()]
        rows.append(
            [p * math.dist(value, o) for p, value in zip(row, values.tolist(), strict=True)]
        )
    return mt.tensor(rows)


def moved_by_jacobians(scores, values):
    p = F.softmax(scores, dim=-1)
    jacobians = mt.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)  # (T, n, n)
    return (jacobians @ values).norm(dim=-1)


def moved_with_numpy(scores, values):
    e = scores.numpy() - scores.numpy().max(axis=1, keepdims=True)
    p = np.exp(e) / np.exp(e).sum(axis=1, keepdims=True)
    apart = values.numpy() - (p @ values.numpy())[:, None]
    return mt.tensor(p * np.linalg.norm(apart, axis=2))


def moved_by_the_engine(scores, values):
    rows = []
    for row in scores:
        row = row.detach().requires_grad_()
        o = row.softmax(0) @ values
        slopes = [mt.autograd.grad(each, row, retain_graph=True)[0] for each in o]
        rows.append((mt.stack(slopes) ** 2).sum(dim=0).sqrt())
    return mt.stack(rows)


# noticed_order


def order_by_random_permutations(layer, X):
    for _ in range(300):
        p = mt.randperm(len(X))
        if (layer(X[p])[p.argsort()] - layer(X)).abs().max() > 1e-8:
            return p
    return None


def order_by_inserting(layer, X):
    """Orders of one token more from those of one less."""
    orders = [[]]
    for i in range(len(X)):
        orders = [[*p[:j], i, *p[j:]] for p in orders for j in range(len(p) + 1)]
    outputs = layer(X)
    shown = [p for p in orders if not ((layer(X[p]) - outputs[p]).abs() < 1e-9).all()]
    return tuple(shown[-1]) if shown else None


def order_by_permutation_matrices(layer, X):
    eye = mt.eye(len(X)).float()
    for rows in itertools.permutations(range(len(X))):
        P = mt.stack([eye[i] for i in rows])
        if not mt.allclose(layer(P @ X), P @ layer(X)):
            return np.array(rows)
    return None


# self_attention_gradient


def gradient_with_einsum(X, Q, K, V, grad_output):
    query, key, value = X @ Q, X @ K, X @ V
    scale = X.shape[1] ** -0.5
    A = (mt.einsum("id,jd->ij", query, key) * scale).softmax(-1)
    dA = mt.einsum("id,jd->ij", grad_output, value)
    dS = scale * (A * dA - A * mt.einsum("ij,ij->i", A, dA)[:, None])
    dquery, dkey = mt.einsum("ij,jd->id", dS, key), mt.einsum("ij,id->jd", dS, query)
    dvalue = mt.einsum("ij,id->jd", A, grad_output)
    dX = mt.einsum("ne,de->nd", dquery, Q) + mt.einsum("ne,de->nd", dkey, K)
    dX = dX + mt.einsum("ne,de->nd", dvalue, V)
    return dX, *(mt.einsum("nd,ne->de", X, g) for g in (dquery, dkey, dvalue))


def gradient_with_jacobians(X, Q, K, V, grad_output):
    """Query by query, through the matrix diag(p) - p p^T."""
    n, d = X.shape
    query, key, value = X @ Q, X @ K, X @ V
    dquery, dkey, dvalue = [], mt.zeros(n, d), mt.zeros(n, d)
    for i in range(n):
        p = (key @ query[i] / d**0.5).softmax(dim=0)
        dscores = (mt.diag(p) - mt.outer(p, p)) @ (value @ grad_output[i]) / d**0.5
        dquery.append(dscores @ key)
        dkey = dkey + mt.outer(dscores, query[i])
        dvalue = dvalue + mt.outer(p, grad_output[i])
    dquery = mt.stack(dquery)
    return [
        dquery @ Q.T + dkey @ K.T + dvalue @ V.T,
        X.T @ dquery,
        X.T @ dkey,
        X.T @ dvalue,
    ]


def gradient_without_projections(X, Q, K, V, grad_output):
    """The gradients of M = Q K^T and of V first; no query, key or value is made."""
    root = math.sqrt(X.shape[1])
    M = Q @ K.T / root
    A = (X @ M @ X.T).softmax(dim=-1)
    mixed = A @ X
    G = grad_output @ V.T
    dA = G @ X.T
    dS = A * (dA - (A * dA).sum(-1, keepdim=True))
    dX = A.T @ G + dS @ X @ M.T + dS.T @ X @ M
    dM = X.T @ dS @ X / root
    return dX, dM @ K, dM.T @ Q, mixed.T @ grad_output


def _self_attended(X, Q, K, V):
    """One matrix between two tokens, and the mean token through V."""
    scores = X @ (Q @ K.T / math.sqrt(len(Q))) @ X.transpose(1, 2)
    return mt.softmax(scores, dim=2) @ X @ V


def _leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


def gradient_by_the_engine(X, Q, K, V, grad_output):
    inputs = _leaves(X, Q, K, V)
    (_self_attended(inputs[0][None], *inputs[1:]) * grad_output).sum().backward()
    return [x.grad for x in inputs]


def gradient_by_autograd(X, Q, K, V, grad_output):
    inputs = _leaves(X, Q, K, V)
    output = _self_attended(inputs[0][None], *inputs[1:])
    return mt.autograd.grad(output, inputs, grad_output[None])


# right_unseen


def unseen_one_by_one(model, sentences, targets, seen):
    """In exact numbers."""
    training, right, asked, done = model.training, 0, 0, seen.tolist()
    model.eval()
    for tokens, wanted in zip(sentences, targets, strict=True):
        if tokens.tolist() not in done:
            done.append(tokens.tolist())
            said = model(tokens.unsqueeze(0))[0].detach().numpy().argmax(axis=-1)
            pairs = [(s, t) for s, t in zip(said, wanted.tolist(), strict=True) if t >= 0]
            right, asked = right + sum(s == t for s, t in pairs), asked + len(pairs)
    model.train(training)
    return Fraction(int(right), asked) if asked else None


def unseen_with_tensors(model, sentences, targets, seen):
    """All are compared with all at once, and all are read; the result is a tensor."""
    new = ~(sentences.unsqueeze(1) == seen).all(dim=2).any(dim=1)  # (N)
    same = (sentences.unsqueeze(1) == sentences).all(dim=2)  # (N, N)
    before = mt.arange(len(new)) < mt.arange(len(new)).unsqueeze(1)
    counts = (new & ~(same & before).any(dim=1)).unsqueeze(1) & (targets != -100)
    was = model.training
    hits = model.eval()(sentences).argmax(-1) == targets
    model.train(was)
    return (hits & counts).sum().double() / counts.sum() if counts.any() else None


# by_distance


def distance_multiplied_out(query, key, value):
    squares = (query**2).sum(1, keepdim=True) + (key**2).sum(1) - 2 * (query @ key.mT)
    return (-0.5 * squares).softmax(-1) @ value


def distance_by_einsum(query, key, value):
    e = mt.einsum("td,nd->tn", query, key) - 0.5 * mt.einsum("nd,nd->n", key, key)
    return mt.einsum("tn,nv->tv", (e - e.amax(1, keepdim=True)).softmax(1), value)


right = {
    "by_distance": [distance_multiplied_out, distance_by_einsum],
    "from_others": [others_in_a_loop, others_cut_out, others_by_exponentials],
    "attention": [
        attention_with_einsum,
        attention_by_hand,
        attention_with_a_key_more,
        functools.partial(attention_by_hand),
    ],
    "SelfAttention": [SlotsAsTokens, SlotsInALoop],
    "score_deviation": [
        deviation_in_loops,
        deviation_by_a_trace,
        deviation_with_einsum,
        deviation_in_numpy,
        deviation_as_a_decimal,
    ],
    "moved_by_score": [moved_in_loops, moved_by_jacobians, moved_with_numpy],
    "noticed_order": [
        order_by_random_permutations,
        order_by_inserting,
        order_by_permutation_matrices,
    ],
    "self_attention_gradient": [
        gradient_with_einsum,
        gradient_with_jacobians,
        gradient_without_projections,
    ],
    "right_unseen": [unseen_one_by_one, unseen_with_tensors],
}
refused = {
    "from_others": [fused_others],
    "attention": [fused_attention, attention_by_linear],
    "SelfAttention": [FusedSlots],
    "moved_by_score": [moved_by_the_engine],
    "self_attention_gradient": [gradient_by_the_engine, gradient_by_autograd],
}
