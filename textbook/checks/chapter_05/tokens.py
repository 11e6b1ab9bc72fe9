"""Queries, keys and values of one sequence, and what one of its tokens makes of them."""

import minitorch as mt
from textbook.checks.exercise import exercise


def sequence(draw, n, d):
    """X (n, d) and three matrices (d, d)."""
    return draw.normal(n, d), draw.normal(d, d), draw.normal(d, d), draw.normal(d, d)


# Queries, keys and values


def _projection_cases(draw, hidden):
    for n, d in [(2, 5), (4, 4)] if hidden else [(1, 2), (3, 2), (2, 2)]:
        yield sequence(draw, n, d)


@exercise(cases=_projection_cases, see='chapter 05, "Queries, keys and values"')
def project(X, Q, K, V):
    """X (n, d) and three matrices (d, d) give queries, keys and values, each (n, d)."""
    return X @ Q, X @ K, X @ V


@project.wrong(
    "right but for the matrices, each of which is transposed",
    "Slides that write q = Q x have columns for tokens. Here tokens are rows: X @ Q. (F.linear and "
    "nn.Linear, too, multiply by the transpose of their weight.)",
)
def _(X, Q, K, V):
    return X @ Q.T, X @ K.T, X @ V.T


@project.wrong(
    "the matrices times X",
    "Tokens are rows here, so a matrix comes from the right: X @ Q.",
)
def _(X, Q, K, V):
    return Q @ X, K @ X, V @ X


@project.wrong(
    "a product element by element",
    "* multiplies numbers at the same place. The product of matrices is @.",
)
def _(X, Q, K, V):
    return X * Q, X * K, X * V


@project.wrong(
    "right but for the order: the keys come first",
    "Return queries, keys and values, in this order.",
)
def _(X, Q, K, V):
    return X @ K, X @ Q, X @ V


@project.wrong(
    "right for the queries; keys and values are made from them",
    "All three are made from the same X. Nothing is made from the queries.",
)
def _(X, Q, K, V):
    return X @ Q, X @ Q @ K, X @ Q @ V


@project.wrong(
    "right for the queries; the values are made from the keys",
    "All three are made from the same X.",
)
def _(X, Q, K, V):
    return X @ Q, X @ K, X @ K @ V


@project.wrong(
    "right for queries and keys, but the values are X itself",
    "In chapter 04 the states were keys and values as they are. Here each role has its matrix: "
    "the values are X @ V.",
)
def _(X, Q, K, V):
    return X @ Q, X @ K, X


@project.wrong(
    "right for the queries, but keys and values are X itself",
    "In chapter 04 the states were keys and values as they are. Here each role has its matrix.",
)
def _(X, Q, K, V):
    return X @ Q, X, X


@project.wrong(
    "right for the queries, but the same matrix makes the keys",
    "With one matrix for both, every token would fit itself best of all directions. Keys have "
    "their own: X @ K.",
)
def _(X, Q, K, V):
    return X @ Q, X @ Q, X @ V


@project.wrong(
    "right for queries and keys, but the same matrix makes the values",
    "What a token is found by and what it then gives are two things: the values are X @ V.",
)
def _(X, Q, K, V):
    return X @ Q, X @ K, X @ K


@project.wrong(
    "right but for a division by the square root of d",
    "It is the scores that are scaled, later. Queries, keys and values are plain products.",
)
def _(X, Q, K, V):
    root = X.shape[-1] ** 0.5
    return X @ Q / root, X @ K / root, X @ V / root


@project.wrong(
    "right in its numbers, but in one tensor and not in three",
    "End with: return queries, keys, values.",
)
def _(*case):
    return mt.cat(project.reference(*case), dim=-1)


@project.wrong(
    "right in its values, but no gradient reaches the matrices",
    "Something cuts them off from the graph: detach(), numpy(), .data or tensor(...).",
)
def _(X, Q, K, V):
    return X @ Q.detach(), X @ K.detach(), X @ V.detach()


# One token


def _token_cases(draw, hidden):
    for n, d, i in [(5, 3, 4), (4, 2, 1)] if hidden else [(2, 2, 0), (3, 2, 1)]:
        yield *sequence(draw, n, d), i


def _dot(q, keys):
    return keys @ q


def _average(weights, values, i):
    return weights @ values


def _softmax(scores, i):
    return scores.softmax(dim=0)


def _looking(project=project.reference, score=_dot, weigh=_softmax, combine=_average):
    """What token i gets, with one of the pieces exchanged."""

    def look(X, Q, K, V, i):
        queries, keys, values = project(X, Q, K, V)
        weights = weigh(score(queries[i], keys), i)
        return combine(weights, values, i), weights

    return look


def _weights_add_up_to_one(answer, *case):
    total = answer(*case)[1].sum()
    if abs(total.item() - 1) > 1e-6:
        return "The weights must add up to 1."
    return None


@exercise(
    cases=_token_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="dot products, softmax and a weighted sum",
    properties=(_weights_add_up_to_one,),
    see='chapter 05, "One token at a time"',
)
def one_token(X, Q, K, V, i):
    """X (n, d) and three matrices (d, d) give the output (d) and the weights (n) of token i."""
    q = X[i] @ Q
    scores = mt.stack([q @ (x @ K) for x in X])  # (n)
    weights = scores.softmax(dim=0)
    return weights @ (X @ V), weights


one_token.wrong(
    "the sum over j of weight j times value i",
    "The index of the value is that of the key: sum over j of weights[j] * values[j]. (A slide has "
    "v_i there. As the weights add up to 1, that sum is v_i itself.)",
)(_looking(combine=lambda weights, values, i: weights.sum() * values[i]))
one_token.wrong(
    "the key of token i compared with all queries",
    "Token i is the one that asks: its query is compared with all keys.",
)(_looking(project=lambda X, Q, K, V: (X @ K, X @ Q, X @ V)))
one_token.wrong(
    "a comparison of the token's query with the queries",
    "The query is compared with the keys, X @ K.",
)(_looking(project=lambda X, Q, K, V: (X @ Q, X @ Q, X @ V)))
one_token.wrong(
    "a comparison of the tokens themselves: Q and K are not used",
    "Compare the token's query, x_i Q, with every key, x_j K.",
)(_looking(project=lambda X, Q, K, V: (X, X, X @ V)))
one_token.wrong(
    "right in its weights, but averages the tokens",
    "What is averaged are the values, X @ V.",
)(_looking(project=lambda X, Q, K, V: (X @ Q, X @ K, X)))
one_token.wrong(
    "right in its weights, but averages the keys",
    "Keys are what the query is compared with; what is averaged are the values.",
)(_looking(project=lambda X, Q, K, V: (X @ Q, X @ K, X @ K)))
one_token.wrong(
    "right but for the matrices, each of which is transposed",
    "Tokens are rows: the query of token i is X[i] @ Q.",
)(_looking(project=lambda X, Q, K, V: (X @ Q.T, X @ K.T, X @ V.T)))
one_token.wrong(
    "right but for the scores, which are divided by the square root of d",
    "That comes in the next exercise. Here the scores are the plain dot products.",
)(_looking(score=lambda q, keys: _dot(q, keys) / len(q) ** 0.5))
one_token.wrong(
    "a sum with the scores themselves as weights: the softmax is missing",
    "Scores may be negative and add up to anything. The softmax makes weights of them.",
)(_looking(weigh=lambda scores, i: scores))
one_token.wrong(
    "a sum with the scores divided by their sum as weights",
    "Scores may be negative. What is divided by its sum is exp of the scores: a softmax.",
)(_looking(weigh=lambda scores, i: scores / scores.sum()))
one_token.wrong(
    "a sum with exp of the scores as weights, not divided by their sum",
    "The weights of a token have to add up to 1.",
)(_looking(weigh=lambda scores, i: scores.exp()))
one_token.wrong(
    "what the other tokens give: the token leaves itself out",
    "A token is one of its own keys: j runs over all n positions, i among them.",
)(
    _looking(
        weigh=lambda scores, i: scores.masked_fill(
            mt.arange(len(scores)) == i, -mt.inf if len(scores) > 1 else 0
        ).softmax(dim=0)
    )
)
one_token.wrong(
    "what the tokens up to i give: the later ones are left out",
    "There is no mask yet: every token sees all tokens, also those after it.",
)(
    _looking(
        weigh=lambda scores, i: scores.masked_fill(mt.arange(len(scores)) > i, -mt.inf).softmax(
            dim=0
        )
    )
)
one_token.wrong(
    "right in its weights, but the output is the plain mean of the values",
    "Each value counts with its weight.",
)(_looking(combine=lambda weights, values, i: values.mean(dim=0)))
one_token.wrong(
    "right in its weights, but the output is divided by n",
    "The weights add up to 1 already: the weighted sum is the average.",
)(_looking(combine=lambda weights, values, i: weights @ values / len(values)))
one_token.wrong(
    "right in its weights, but the output is the value with the largest one alone",
    "That is a hard choice, which lets no gradient through. Add up all values, each times its "
    "weight.",
)(_looking(combine=lambda weights, values, i: values[weights.argmax()]))
one_token.wrong(
    "right in its weights, but the weighted values are not added up",
    "The output is one vector, (d): sum over the n values.",
)(_looking(combine=lambda weights, values, i: weights.unsqueeze(-1) * values))
one_token.wrong(
    "right in its values, but no gradient reaches the scores",
    "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
)(_looking(weigh=lambda scores, i: scores.softmax(dim=0).detach()))


@one_token.wrong(
    "a softmax over the queries: the shares of one key, not of one query",
    "The weights of token i add up to 1 over the keys j: the softmax goes along row i.",
)
def _(X, Q, K, V, i):
    weights = (X @ Q @ (X @ K).T).softmax(dim=0)[i]
    return weights @ (X @ V), weights


@one_token.wrong(
    "right, but returns the output alone",
    "Return two things: the output (d) and the weights (n).",
)
def _(*case):
    return one_token.reference(*case)[0]


@one_token.wrong(
    "right but for the token itself, which is added to the output",
    "The output is the weighted sum of the values, nothing else. (A residual connection comes in "
    "chapter 09.)",
)
def _(X, Q, K, V, i):
    output, weights = one_token.reference(X, Q, K, V, i)
    return X[i] + output, weights


@one_token.wrong(
    "right, but for the token before: positions count from 0",
    "The token is X[i].",
)
def _(X, Q, K, V, i):
    return one_token.reference(X, Q, K, V, i - 1)


@one_token.wrong(
    "right but for the order: the weights come first",
    "Return the output first, then the weights.",
)
def _(*case):
    return tuple(reversed(one_token.reference(*case)))


@one_token.wrong(
    "the outputs of all tokens, and all weights",
    "Only token i is asked for: an output (d) and weights (n).",
)
def _(X, Q, K, V, i):
    rows = [one_token.reference(X, Q, K, V, j) for j in range(len(X))]
    outputs, weights = zip(*rows, strict=True)
    return mt.stack(outputs), mt.stack(weights)
