"""How many tokens a loss takes, read off a curve."""

import math
from itertools import accumulate, pairwise

import numpy as np

from textbook.checks.exercise import exercise


def _curve_cases(draw, hidden):
    """Counts of tokens, the losses after them, and the loss that is asked for."""
    tokens, losses = [1000, 3000, 10000, 40000], [3.0, 2.5, 2.1, 1.8]
    if hidden:
        tokens, losses = [500, 700, 5000, 9000, 70000], [2.9, 2.8, 2.0, 1.9, 1.2]
    for loss in (*losses, losses[1] - 0.1, losses[0] + 0.5, losses[-1] - 0.2):
        yield tokens, losses, loss
    restless = [losses[0], losses[2], losses[1], *losses[2:]]
    yield [*tokens, 2 * tokens[-1]], restless, (losses[1] + losses[2]) / 2
    yield [*tokens, 2 * tokens[-1]], restless, (losses[0] + losses[1]) / 2
    yield [*tokens, 2 * tokens[-1]], [*losses, losses[1] + 0.3], losses[-1] - 0.1
    yield [*tokens, 2 * tokens[-1]], [*losses, losses[1] + 0.3], losses[1] - 0.05
    yield tokens, [losses[0], losses[2], losses[1], *losses[3:]], losses[3] + 0.05
    yield tokens[:1], losses[:1], losses[0]
    yield tokens[:1], losses[:1], losses[0] - 0.3
    n = 9 if hidden else 6
    tokens = [int(x) for x in np.cumsum(draw.random.integers(100, 5000, n))]
    losses = [round(float(x), 3) for x in 3 - np.arange(n) / 4 + draw.random.normal(0, 0.2, n)]
    yield tokens, losses, round(float(draw.random.uniform(min(losses), max(losses))), 2)


def _between(first, second, loss):
    """On a line in the logarithm of the tokens."""
    (t, a), (u, b) = first, second
    return math.exp(math.log(t) + (a - loss) / (a - b) * (math.log(u) - math.log(t)))


def _tokens_needed(
    between=_between,
    early=lambda tokens, losses, loss: tokens[0],
    never=lambda tokens, losses, loss: None,
    reaches=lambda value, loss: value <= loss,
    pairs=lambda points: points,
):
    """The tokens with one of their pieces exchanged."""

    def needed(tokens, losses, loss):
        if reaches(losses[0], loss):
            return early(tokens, losses, loss)
        points = list(zip(tokens, losses, strict=True))
        for first, second in pairs(list(pairwise(points))):
            if first[1] > loss and reaches(second[1], loss):
                return between(first, second, loss)
        return never(tokens, losses, loss)

    return needed


EXAMPLES = {
    "a loss between two points": (([1000, 4000], [3.0, 2.0], 2.5), 2000),
    "a loss that is reached exactly at a point": (([1000, 4000], [3.0, 2.0], 2.0), 4000),
    "a loss that the first point has": (([1000, 4000], [3.0, 2.0], 3.0), 1000),
    "a loss above that of the first point": (([1000, 4000], [3.0, 2.0], 3.5), 1000),
    "a loss that is never reached": (([1000, 4000], [3.0, 2.0], 1.5), None),
    "losses that rise in between": (([1000, 4000, 9000, 50000], [3.0, 2.0, 2.6, 1.5], 2.5), 2000),
    "losses that rise before it is reached": (
        ([1000, 4000, 9000, 36000], [3.0, 2.6, 2.8, 2.0], 2.4),
        18000,
    ),
    "losses that rise at the end": (([1000, 4000, 9000], [3.0, 2.0, 2.8], 2.5), 2000),
    "a curve of one point": (([1000], [3.0], 3.0), 1000),
}


def _example(check, answer, *_):
    """The first example, to be done by hand, at which the answer is wrong."""
    for what, (given, right) in EXAMPLES.items():
        got = answer(*given)
        if (got is None) != (right is None) or (got is not None and abs(got - right) > 1e-6):
            return (
                f"Do {what} by hand: for tokens = {given[0]}, losses = {given[1]} and loss = "
                f"{given[2]} your answer is {got}, and {right} belongs there."
            )
    return None


def _said(answer, tokens, losses, loss):
    found = answer(tokens, losses, loss)
    return {"the kind of the result": "None" if found is None else "a number", "the result": found}


@exercise(
    cases=_curve_cases,
    run=_said,
    reasons=(_example,),
    see='chapter 13, "Loss against tokens (C29)"',
)
def tokens_needed(tokens, losses, loss):
    """The number of tokens at which the loss is reached first; None if it never is."""
    if losses[0] <= loss:
        return tokens[0]
    points = zip(tokens, losses, strict=True)
    for (t, before), (u, after) in pairwise(points):
        if after <= loss:
            share = (before - loss) / (before - after)
            return t * (u / t) ** share
    return None


tokens_needed.wrong(
    "right but for the scale: it interpolates in the tokens, not in their logarithm",
    "The curve is close to straight where tokens are drawn on a logarithmic axis.",
)(
    _tokens_needed(
        between=lambda first, second, loss: (
            first[0] + (first[1] - loss) / (first[1] - second[1]) * (second[0] - first[0])
        )
    )
)
tokens_needed.wrong(
    "right but for the scale: it takes the logarithm of the losses, too",
    "Of tokens the logarithm, of losses not.",
)(
    _tokens_needed(
        between=lambda first, second, loss: (
            first[0]
            * (second[0] / first[0]) ** (math.log(first[1] / loss) / math.log(first[1] / second[1]))
        )
    )
)
tokens_needed.wrong(
    "the first measured count at which the loss has been reached, without interpolation",
    "It was reached between this point and the one before: on the line between them.",
)(_tokens_needed(between=lambda first, second, loss: second[0]))
tokens_needed.wrong(
    "the last measured count before the loss is reached, without interpolation",
    "It was reached between this point and the next one: on the line between them.",
)(_tokens_needed(between=lambda first, second, loss: first[0]))
tokens_needed.wrong(
    "the logarithm of the tokens",
    "Interpolate in the logarithm, then go back with exp.",
)(
    _tokens_needed(
        between=lambda *points: math.log(_between(*points)),
        early=lambda tokens, losses, loss: math.log(tokens[0]),
    )
)
tokens_needed.wrong(
    "right but for the interpolation, which goes the wrong way",
    "A loss near that of the earlier point is reached near the earlier point.",
)(
    _tokens_needed(
        between=lambda first, second, loss: first[0] * second[0] / _between(first, second, loss)
    )
)
tokens_needed.wrong(
    "right but for a loss that rises in between: it takes the last time that the loss is reached",
    "What is asked for is the first time.",
)(_tokens_needed(pairs=reversed))
tokens_needed.wrong(
    "right but for a loss that is never reached, for which it returns the last count of tokens",
    "The run ended before: more than that, nobody knows how many more. Return None.",
)(_tokens_needed(never=lambda tokens, losses, loss: tokens[-1]))
tokens_needed.wrong(
    "right but for a loss that is never reached, for which it returns -1",
    "Return None, which nobody takes for a number of tokens.",
)(_tokens_needed(never=lambda tokens, losses, loss: -1))
tokens_needed.wrong(
    "right but for a loss that the first point has: it returns 0",
    "The run had read these tokens by then. Return the count of the first point.",
)(_tokens_needed(early=lambda tokens, losses, loss: 0))
tokens_needed.wrong(
    "right but for a loss that is never reached, for which it returns infinity",
    "A longer run might reach it. Return None.",
)(_tokens_needed(never=lambda tokens, losses, loss: math.inf))
tokens_needed.wrong(
    "right but for a loss that is never reached: it goes on beyond the last point",
    "Nothing has been measured there, and curves flatten. Return None.",
)(
    _tokens_needed(
        never=lambda tokens, losses, loss: _between(
            (tokens[-2], losses[-2]), (tokens[-1], losses[-1]), loss
        )
    )
)
tokens_needed.wrong(
    "right but for a loss that the first point has: it returns None",
    "Then the count of the first point is what can be said.",
)(_tokens_needed(early=lambda tokens, losses, loss: None))
tokens_needed.wrong(
    "right but for a loss that the first point has: it goes back before the first point",
    "Nothing has been measured there. Return the count of the first point.",
)(
    _tokens_needed(
        early=lambda tokens, losses, loss: (
            _between((tokens[0], losses[0]), (tokens[1], losses[1]), loss)
            if len(tokens) > 1
            else tokens[0]
        )
    )
)
tokens_needed.wrong(
    "right but for a loss that is reached exactly at a point: it asks for less",
    "Reached means at or below.",
)(_tokens_needed(reaches=lambda value, loss: value < loss))


@tokens_needed.wrong(
    "right for losses that only fall: it puts them in order first",
    "Losses are restless: a later one may be higher. Go through the curve as it is.",
)
def _(tokens, losses, loss):
    return tokens_needed.reference(tokens, sorted(losses, reverse=True), loss)


@tokens_needed.wrong(
    "right for losses that only fall: it starts from the lowest loss so far",
    "The line goes from the point before, whose loss may have risen, to the one that reaches it.",
)
def _(tokens, losses, loss):
    return tokens_needed.reference(tokens, list(accumulate(losses, min)), loss)


@tokens_needed.wrong(
    "the count at the point whose loss is nearest",
    "Interpolate between the point before and the point after.",
)
def _(tokens, losses, loss):
    if min(losses) > loss:
        return None
    return min(zip(tokens, losses, strict=True), key=lambda point: abs(point[1] - loss))[0]


@tokens_needed.wrong(
    "read off with np.interp, which wants losses that only rise and keeps to its ends",
    "Go through the curve from its beginning, and say None where the loss is never reached.",
)
def _(tokens, losses, loss):
    return float(np.exp(np.interp(loss, losses[::-1], np.log(tokens[::-1]))))
