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

# project


def project_token_by_token(X, Q, K, V):
    """nn.Linear is not needed."""
    return tuple(mt.stack([x @ matrix for x in X]) for matrix in (Q, K, V))


def project_in_one_product(X, Q, K, V):
    return (X @ mt.cat([Q, K, V], dim=1)).chunk(3, dim=1)


def project_with_einsum(X, Q, K, V):
    return [mt.einsum("nd,de->ne", X, matrix) for matrix in (Q, K, V)]


def project_with_linear(X, Q, K, V):
    return F.linear(X, Q.T), F.linear(X, K.T), F.linear(X, V.T)


# one_token


def token_in_a_loop(X, Q, K, V, i):
    q, scores, values = X[i] @ Q, [], []
    for x in X:
        scores.append(q @ (x @ K))
        values.append(x @ V)
    weights = mt.stack(scores).softmax(dim=0)
    output = mt.zeros(X.shape[1])
    for weight, value in zip(weights, values, strict=True):
        output = output + weight * value
    return output, weights


def token_from_all_tokens(X, Q, K, V, i):
    weights = ((X @ Q) @ (X @ K).T).softmax(dim=-1)
    return (weights @ (X @ V))[i], weights[i]


def token_with_one_matrix(X, Q, K, V, i):
    """The query goes through K^T, so that no key is made; the mean token through V."""
    exponentials = (X @ (K @ (X[i] @ Q))).exp()
    weights = exponentials / exponentials.sum()
    return (weights @ X) @ V, weights


def fused_token(X, Q, K, V, i):
    query, key, eye = X[i : i + 1] @ Q, X @ K, mt.eye(len(X), dtype=X.dtype)
    output = F.scaled_dot_product_attention(query, key, X @ V, scale=1.0)
    return output[0], F.scaled_dot_product_attention(query, key, eye, scale=1.0)[0]


# attention


def attention_with_einsum(query, key, value):
    scores = mt.einsum("...id,...jd->...ij", query, key) / math.sqrt(query.shape[-1])
    return mt.einsum("...ij,...jv->...iv", scores.softmax(-1), value)


def attention_query_by_query(query, key, value):
    """The root goes to the query."""
    rows = []
    for i in range(query.shape[-2]):
        q = query[..., i : i + 1, :] * key.shape[-1] ** -0.5
        weights = F.softmax((q * key).sum(dim=-1), dim=-1)
        rows.append((weights.unsqueeze(-1) * value).sum(dim=-2))
    return mt.stack(rows, dim=-2)


def attention_by_hand(query, key, value):
    """A softmax written out, and its division after the sum over the keys."""
    scores = query.matmul(key.mT).div(key.size(-1) ** 0.5)
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials @ value / exponentials.sum(dim=-1, keepdim=True)


def attention_with_keys_first(query, key, value):
    """Scores (..., n, T), with a softmax over their keys."""
    weights = (key @ query.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(dim=-2)
    return weights.transpose(-2, -1) @ value


def attention_with_the_module(query, key, value):
    """nn.MultiheadAttention with one head, whose matrices are the identity."""
    size = max(query.shape[-1], value.shape[-1])
    query = query * (size / query.shape[-1]) ** 0.5
    padded = [F.pad(x, (0, size - x.shape[-1])) for x in (query, key, value)]
    module = nn.MultiheadAttention(size, 1, bias=False, batch_first=True).double()
    eye = mt.eye(size, dtype=mt.float64)
    module.in_proj_weight.data = mt.cat([eye, eye, eye])
    module.out_proj.weight.data = eye
    output, _ = module(*(x.reshape(-1, *x.shape[-2:]) for x in padded))
    return output.reshape(*query.shape[:-1], size)[..., : value.shape[-1]]


# self_attention


def self_attention_token_by_token(X, Q, K, V):
    sequences = []
    for x in X:
        outputs = [
            sum(
                weight * (other @ V)
                for weight, other in zip(
                    mt.stack([(token @ Q) @ (other @ K) for other in x])
                    .div(x.shape[1] ** 0.5)
                    .softmax(0),
                    x,
                    strict=True,
                )
            )
            for token in x
        ]
        sequences.append(mt.stack(outputs))
    return mt.stack(sequences)


def self_attention_with_einsum(X, Q, K, V):
    scores = mt.einsum("bid,de,fe,bjf->bij", X, Q, K, X) / X.shape[-1] ** 0.5
    return mt.einsum("bij,bjd,de->bie", scores.softmax(dim=-1), X, V)


def self_attention_in_another_order(X, Q, K, V):
    """One matrix between two tokens, and the mean token through V."""
    scores = X @ (Q @ K.T / math.sqrt(len(Q))) @ X.transpose(1, 2)
    return mt.softmax(scores, dim=2) @ X @ V


def fused_self_attention(X, Q, K, V):
    return F.scaled_dot_product_attention(X @ Q, X @ K, X @ V)


def linear_self_attention(X, Q, K, V):
    query, key, value = (F.linear(X, matrix.T) for matrix in (Q, K, V))
    return attention_with_einsum(query, key, value)


def self_attention_of_the_module(X, Q, K, V):
    module = nn.MultiheadAttention(len(Q), 1, bias=False, batch_first=True).double()
    module.in_proj_weight = nn.Parameter(mt.cat([Q.T, K.T, V.T]))
    module.out_proj.weight = nn.Parameter(mt.eye(len(Q), dtype=mt.float64))
    return module(X, X, X, need_weights=False)[0]


# SelfAttention


class SelfAttentionInMatrices(nn.Module):
    def __init__(self, width, key_size):
        super().__init__()
        self.scale = key_size**-0.5
        self.value = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.query = nn.Linear(width, key_size, bias=False)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * self.scale
        return F.softmax(scores, dim=-1) @ self.value(x)


class SelfAttentionInALoop(nn.Module):
    def __init__(self, width, key_size):
        super().__init__()
        for name, size in {"query": key_size, "key": key_size, "value": width}.items():
            setattr(self, name, nn.Linear(width, size, False))

    def forward(self, x):
        return attention_query_by_query(self.query(x), self.key(x), self.value(x))


class FusedSelfAttention(SelfAttentionInMatrices):
    def forward(self, x):
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


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


# jacobian_norms


def norms_row_by_row(scores):
    norms = []
    for row in scores:
        p = row.softmax(dim=0)
        norms.append((mt.diag(p) - mt.outer(p, p)).pow(2).sum().sqrt())
    return mt.stack(norms)


def norms_by_power_sums(scores):
    """The sum of (p_k [k = j] - p_k p_j)^2, multiplied out: no matrix is made."""
    p = F.softmax(scores, dim=-1)
    squares = (p**2).sum(dim=-1)
    return (squares - 2 * (p**3).sum(dim=-1) + squares**2).clamp(min=0).sqrt()


def norms_in_loops(scores):
    norms = []
    for row in scores.softmax(-1).tolist():
        entries = [
            (p * ((k == j) - q)) ** 2
            for (k, p), (j, q) in itertools.product(enumerate(row), repeat=2)
        ]
        norms.append(math.sqrt(sum(entries)))
    return mt.tensor(norms)


def norms_by_the_engine(scores):
    norms = []
    for row in scores:
        row = row.detach().requires_grad_()
        rows = [mt.autograd.grad(row.softmax(0)[k], row)[0] for k in range(len(row))]
        norms.append((mt.stack(rows) ** 2).sum().sqrt())
    return mt.stack(norms)


# order_blind


def blind_by_all_permutations(layer, X):
    outputs = layer(X)
    return all(
        mt.allclose(layer(X[list(p)]), outputs[list(p)])
        for p in itertools.permutations(range(len(X)))
    )


def blind_by_random_permutations(layer, X):
    for _ in range(200):
        p = mt.randperm(len(X))
        if (layer(X[p])[p.argsort()] - layer(X)).abs().max() > 1e-8:
            return False
    return True


def blind_by_inserting(layer, X):
    """Orders of one token more from those of one less, in copies; the verdict is a tensor."""
    orders = [[]]
    for i in range(len(X)):
        orders = [[*p[:j], i, *p[j:]] for p in orders for j in range(len(p) + 1)]
    outputs = layer(X)
    for p in orders:
        other, expected = X.clone(), outputs.clone()
        for i, j in enumerate(p):
            other[i], expected[i] = X[j], outputs[j]
        verdict = ((layer(other) - expected).abs() < 1e-9).all()
        if not verdict:
            break
    return verdict


def blind_by_permutation_matrices(layer, X):
    eye = mt.eye(len(X)).float()
    return all(
        mt.allclose(layer(P @ X), P @ layer(X)) for P in map(mt.stack, itertools.permutations(eye))
    )


def blind_with_numpy(layer, X):
    """The verdict is a np.bool_."""
    outputs = layer(X).numpy()
    orders = map(list, itertools.permutations(range(len(X))))
    return np.all([np.isclose(layer(X[p]).numpy(), outputs[p]).all() for p in orders])


def blind_as_a_fraction(layer, X):
    return Fraction(blind_by_all_permutations(layer, X))


# time_steps


def steps_by_hand(needs, workers):
    finished = [None] * len(needs)
    step = 0
    while None in finished:
        step += 1
        running = 0
        for i, inputs in enumerate(needs):
            ready = all(finished[j] is not None and finished[j] < step for j in inputs)
            if finished[i] is None and ready and (workers is None or running < workers):
                finished[i] = step
                running += 1
    return step


def steps_as_a_fraction(needs, workers):
    return Fraction(steps_by_hand(needs, workers))


def steps_by_counting_what_is_missing(needs, workers):
    workers = workers or len(needs)
    missing, users = [len(inputs) for inputs in needs], [[] for _ in needs]
    for i, inputs in enumerate(needs):
        for j in inputs:
            users[j].append(i)
    ready, steps = [i for i, number in enumerate(missing) if number == 0], 0
    while ready:
        ready.sort()
        running, ready = ready[:workers], ready[workers:]
        steps += 1
        for user in itertools.chain.from_iterable(users[i] for i in running):
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    return steps


def steps_with_a_recursion(needs, workers):
    def go(done):
        if len(done) == len(needs):
            return 0
        ready = sorted(i for i in {*range(len(needs))} - done if {*needs[i]} <= done)
        return 1 + go(done | {*ready[: workers if workers else len(ready)]})

    return mt.tensor(go(frozenset()))


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


def _leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


def gradient_by_the_engine(X, Q, K, V, grad_output):
    inputs = _leaves(X, Q, K, V)
    (self_attention_in_another_order(inputs[0][None], *inputs[1:]) * grad_output).sum().backward()
    return [x.grad for x in inputs]


def gradient_by_autograd(X, Q, K, V, grad_output):
    inputs = _leaves(X, Q, K, V)
    output = self_attention_in_another_order(inputs[0][None], *inputs[1:])
    return mt.autograd.grad(output, inputs, grad_output[None])


right = {
    "project": [
        project_token_by_token,
        project_in_one_product,
        project_with_einsum,
        project_with_linear,
    ],
    "one_token": [token_in_a_loop, token_from_all_tokens, token_with_one_matrix],
    "attention": [
        attention_with_einsum,
        attention_query_by_query,
        attention_by_hand,
        attention_with_keys_first,
    ],
    "self_attention": [
        self_attention_token_by_token,
        self_attention_with_einsum,
        self_attention_in_another_order,
    ],
    "SelfAttention": [SelfAttentionInMatrices, SelfAttentionInALoop],
    "score_deviation": [
        deviation_in_loops,
        deviation_by_a_trace,
        deviation_with_einsum,
        deviation_in_numpy,
        deviation_as_a_decimal,
    ],
    "jacobian_norms": [norms_row_by_row, norms_by_power_sums, norms_in_loops],
    "order_blind": [
        blind_by_all_permutations,
        blind_by_random_permutations,
        blind_by_inserting,
        blind_by_permutation_matrices,
        blind_with_numpy,
        blind_as_a_fraction,
    ],
    "time_steps": [
        steps_by_hand,
        steps_by_counting_what_is_missing,
        steps_with_a_recursion,
        steps_as_a_fraction,
    ],
    "self_attention_gradient": [
        gradient_with_einsum,
        gradient_with_jacobians,
        gradient_without_projections,
    ],
}
refused = {
    "one_token": [fused_token],
    "attention": [
        F.scaled_dot_product_attention,
        functools.partial(F.scaled_dot_product_attention, dropout_p=0.0),
        attention_with_the_module,
    ],
    "self_attention": [
        fused_self_attention,
        linear_self_attention,
        self_attention_of_the_module,
    ],
    "SelfAttention": [FusedSelfAttention],
    "jacobian_norms": [norms_by_the_engine],
    "self_attention_gradient": [gradient_by_the_engine, gradient_by_autograd],
}
