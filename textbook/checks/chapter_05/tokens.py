"""What one token gets from the others, for which it makes a query, keys and values."""

import math

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


def sequence(draw, n, d):
    """X (n, d) and three matrices (d, d)."""
    return draw.normal(n, d), draw.normal(d, d), draw.normal(d, d), draw.normal(d, d)


def _token_cases(draw, hidden):
    """The last tokens have scores in the thousands, of both signs and all negative."""
    for n, d, i in [(5, 3, 4), (4, 6, 1)] if hidden else [(2, 3, 0), (3, 4, 1)]:
        yield *sequence(draw, n, d), i
    X, *matrices = sequence(draw, 4, 5)
    yield 20 * X, *matrices, 2
    eye = mt.eye(5, dtype=mt.float64)
    yield 50 * X.abs() + 20, eye, -eye, matrices[2], 1
    yield 50 * X, eye, eye, matrices[2], 0  # its own score is by far the largest


def _project(X, Q, K, V):
    return X @ Q, X @ K, X @ V


def _dot(q, keys):
    return keys @ q / len(q) ** 0.5


def _average(weights, values, i):
    return weights @ values


def _itself(scores, i):
    return mt.arange(len(scores)) == i


def _softmax(scores, i):
    return scores.masked_fill(_itself(scores, i), -mt.inf).softmax(dim=0)


def _looking(project=_project, score=_dot, weigh=_softmax, combine=_average):
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


def _overflows(check, answer, X, *rest):
    """That what is not a number comes of large scores alone."""
    _, weights = answer(X, *rest)
    small = X / 100, *rest  # scores are smaller by 10,000
    same = not difference([*answer(*small)], [*check.reference(*small)], "")
    if same and weights.isnan().any():
        return (
            "For small scores all is right: exp of a large one is inf, of a very negative one 0, "
            "and inf / inf and 0 / 0 are not a number. softmax first takes the largest score away."
        )
    return None


@exercise(
    cases=_token_cases,
    forbidden=("scaled_dot_product_attention",),
    instead="dot products, softmax and a weighted sum",
    properties=(_weights_add_up_to_one,),
    reasons=(_overflows,),
    see='chapter 05, "One token at a time"',
)
def from_others(X, Q, K, V, i):
    """X (n, d) and three matrices (d, d) give the output (d) and the weights (n) of token i."""
    scores = (X @ K) @ (X[i] @ Q) / math.sqrt(X.shape[1])  # (n)
    scores = scores.masked_fill(mt.arange(len(X)) == i, -mt.inf)
    weights = scores.softmax(dim=0)
    return weights @ (X @ V), weights


from_others.wrong(
    "what all tokens give: the token itself is among them",
    "Here token i asks the others. Its own score has to go before the softmax: minus infinity.",
)(_looking(weigh=lambda scores, i: scores.softmax(dim=0)))
from_others.wrong(
    "right but for the token that is left out: i - 1, not i",
    "Tokens are counted from 0: X[i] is the one that asks, and its own score goes.",
)(
    _looking(
        weigh=lambda scores, i: scores.masked_fill(
            mt.arange(len(scores)) == i - 1, -mt.inf
        ).softmax(dim=0)
    )
)
from_others.wrong(
    "right but for the weights, which do not add up to 1: the own one is set to 0 afterwards",
    "What it had is lost to the others then. Take its score out before the softmax.",
)(_looking(weigh=lambda scores, i: scores.softmax(dim=0).masked_fill(_itself(scores, i), 0.0)))
from_others.wrong(
    "right but for the token itself, whose score is set to 0",
    "A score of 0 is a score like others: exp(0) is 1. Minus infinity leaves it out.",
)(_looking(weigh=lambda scores, i: scores.masked_fill(_itself(scores, i), 0.0).softmax(dim=0)))
from_others.wrong(
    "right for small scores: the token itself gets a score of -1000, which is not low enough",
    "Other scores may be lower still. Minus infinity is.",
)(_looking(weigh=lambda scores, i: scores.masked_fill(_itself(scores, i), -1e3).softmax(dim=0)))
from_others.wrong(
    "right as long as the others have a share beside the token itself: else they are 0 / 0",
    "Where its own score is by far the largest, all other weights are 0 before they are divided by "
    "their sum. Take its score out before the softmax.",
)(
    _looking(
        weigh=lambda scores, i: (
            scores.softmax(dim=0).masked_fill(_itself(scores, i), 0.0)
            / scores.softmax(dim=0).masked_fill(_itself(scores, i), 0.0).sum()
        )
    )
)
from_others.wrong(
    "right but for the token itself, whose score is set to 0 and then its weight",
    "A score of 0 takes its share before its weight is set to 0. Minus infinity leaves it out.",
)(
    _looking(
        weigh=lambda scores, i: (
            scores.masked_fill(_itself(scores, i), 0.0)
            .softmax(dim=0)
            .masked_fill(_itself(scores, i), 0.0)
        )
    )
)
from_others.wrong(
    "a comparison of the token itself with the keys: Q is not used",
    "The query of token i is x_i Q.",
)(_looking(project=lambda X, Q, K, V: (X, X @ K, X @ V)))
from_others.wrong(
    "right in its values, but no gradient goes through the output",
    "Something cuts it off from the graph: detach(), numpy(), .tolist() or tensor(...).",
)(_looking(combine=lambda weights, values, i: (weights @ values).detach()))
from_others.wrong(
    "right for small scores, but exp of a large one is infinite",
    "Use softmax, which subtracts the largest score before exp.",
)(
    _looking(
        weigh=lambda scores, i: (
            scores.exp().masked_fill(_itself(scores, i), 0.0)
            / scores.exp().masked_fill(_itself(scores, i), 0.0).sum()
        )
    )
)


@from_others.wrong(
    "right, but returns one weight for each of the others",
    "n weights: that of token i itself is 0.",
)
def _(X, Q, K, V, i):
    output, weights = from_others.reference(X, Q, K, V, i)
    return output, mt.cat([weights[:i], weights[i + 1 :]])


from_others.wrong(
    "the sum over j of weight j times value i",
    "The index of the value is that of the key: sum over j of weights[j] * values[j]. (A slide has "
    "v_i there. As the weights add up to 1, that sum is v_i itself.)",
)(_looking(combine=lambda weights, values, i: weights.sum() * values[i]))
from_others.wrong(
    "the key of token i compared with all queries",
    "Token i is the one that asks: its query is compared with all keys.",
)(_looking(project=lambda X, Q, K, V: (X @ K, X @ Q, X @ V)))
from_others.wrong(
    "a comparison of the token's query with the queries",
    "The query is compared with the keys, X @ K.",
)(_looking(project=lambda X, Q, K, V: (X @ Q, X @ Q, X @ V)))
from_others.wrong(
    "a comparison of the tokens themselves: Q and K are not used",
    "Compare the token's query, x_i Q, with every key, x_j K.",
)(_looking(project=lambda X, Q, K, V: (X, X, X @ V)))
from_others.wrong(
    "right in its weights, but averages the tokens",
    "What is averaged are the values, X @ V.",
)(_looking(project=lambda X, Q, K, V: (X @ Q, X @ K, X)))
from_others.wrong(
    "right in its weights, but averages the keys",
    "Keys are what the query is compared with; what is averaged are the values.",
)(_looking(project=lambda X, Q, K, V: (X @ Q, X @ K, X @ K)))
from_others.wrong(
    "right but for the matrices, each of which is transposed",
    "Tokens are rows: the query of token i is X[i] @ Q.",
)(_looking(project=lambda X, Q, K, V: (X @ Q.T, X @ K.T, X @ V.T)))
from_others.wrong(
    "a sum with the scores themselves as weights: the softmax is missing",
    "Scores may be negative and add up to anything. The softmax makes weights of them.",
)(_looking(weigh=lambda scores, i: scores.masked_fill(_itself(scores, i), 0.0)))
from_others.wrong(
    "a sum with the scores divided by their sum as weights",
    "Scores may be negative. What is divided by its sum is exp of the scores: a softmax.",
)(
    _looking(
        weigh=lambda scores, i: (
            scores.masked_fill(_itself(scores, i), 0.0)
            / scores.masked_fill(_itself(scores, i), 0.0).sum()
        )
    )
)
from_others.wrong(
    "a sum with exp of the scores as weights, not divided by their sum",
    "The weights of a token have to add up to 1.",
)(_looking(weigh=lambda scores, i: scores.exp().masked_fill(_itself(scores, i), 0.0)))
from_others.wrong(
    "right in its weights, but the output is the plain mean of the others' values",
    "Each value counts with its weight.",
)(_looking(combine=lambda weights, values, i: (values.sum(0) - values[i]) / (len(values) - 1)))
from_others.wrong(
    "right in its weights, but the output is divided by n",
    "The weights add up to 1 already: the weighted sum is the average.",
)(_looking(combine=lambda weights, values, i: weights @ values / len(values)))
from_others.wrong(
    "right in its weights, but the output is the value with the largest one alone",
    "That is a hard choice, which lets no gradient through. Add up all values, each times its "
    "weight.",
)(_looking(combine=lambda weights, values, i: values[weights.argmax()]))
from_others.wrong(
    "right in its weights, but the weighted values are not added up",
    "The output is one vector, (d): sum over the n values.",
)(_looking(combine=lambda weights, values, i: weights.unsqueeze(-1) * values))
from_others.wrong(
    "right in its values, but no gradient reaches the scores",
    "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
)(_looking(weigh=lambda scores, i: _softmax(scores, i).detach()))


@from_others.wrong(
    "a softmax over the queries: the shares of one key, not of one query",
    "The weights of token i add up to 1 over the keys j: the softmax goes along row i.",
)
def _(X, Q, K, V, i):
    scores = X @ Q @ (X @ K).T / X.shape[1] ** 0.5
    own = mt.arange(len(X)).unsqueeze(1) == mt.arange(len(X))
    weights = scores.masked_fill(own, -mt.inf).softmax(dim=0)[i]
    return weights @ (X @ V), weights


@from_others.wrong(
    "right, but returns the output alone",
    "Return two things: the output (d) and the weights (n).",
)
def _(*case):
    return from_others.reference(*case)[0]


@from_others.wrong(
    "right but for the token itself, which is added to the output",
    "The output is the weighted sum of the values, nothing else. (A residual connection comes in "
    "chapter 09.)",
)
def _(X, Q, K, V, i):
    output, weights = from_others.reference(X, Q, K, V, i)
    return X[i] + output, weights


from_others.wrong(
    "right but for the division of the scores by the square root of d, which is missing",
    "Dot products grow with d: divide the scores by the square root of the size of a key.",
)(_looking(score=lambda q, keys: keys @ q))
from_others.wrong(
    "right but for the sign of the scores",
    "The larger the score, the larger the weight.",
)(_looking(score=lambda q, keys: -_dot(q, keys)))
from_others.wrong(
    "right but for the scores, which are divided by d",
    "By its square root.",
)(_looking(score=lambda q, keys: keys @ q / len(q)))
from_others.wrong(
    "right but for the scores, which are divided by the square root of n",
    "By that of d, the size of a key.",
)(_looking(score=lambda q, keys: keys @ q / len(keys) ** 0.5))
from_others.wrong(
    "what the tokens before i give: the later ones are left out",
    "There is no mask yet: every token sees all others, also those after it.",
)(
    _looking(
        weigh=lambda scores, i: scores.masked_fill(
            (mt.arange(len(scores)) >= i) if i else _itself(scores, i), -mt.inf
        ).softmax(dim=0)
    )
)


@from_others.wrong(
    "right, but for the token before: positions count from 0",
    "The token is X[i].",
)
def _(X, Q, K, V, i):
    return from_others.reference(X, Q, K, V, (i - 1) % len(X))


@from_others.wrong(
    "right, but for the token after: positions count from 0",
    "The token is X[i].",
)
def _(X, Q, K, V, i):
    return from_others.reference(X, Q, K, V, (i + 1) % len(X))


@from_others.wrong(
    "right but for the order: the weights come first",
    "Return the output first, then the weights.",
)
def _(*case):
    return tuple(reversed(from_others.reference(*case)))


@from_others.wrong(
    "the outputs of all tokens, and all weights",
    "Only token i is asked for: an output (d) and weights (n).",
)
def _(X, Q, K, V, i):
    rows = [from_others.reference(X, Q, K, V, j) for j in range(len(X))]
    outputs, weights = zip(*rows, strict=True)
    return mt.stack(outputs), mt.stack(weights)
