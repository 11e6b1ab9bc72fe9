"""How many tokens a loss takes, read off a curve."""

import numpy as np

from textbook.checks.released import exercise


def _curve_cases(draw, others=(), n=6):
    """Counts of tokens, the losses after them, and the loss that is asked for."""
    tokens, losses = others or ([1000, 3000, 10000, 40000], [3.0, 2.5, 2.1, 1.8])
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
    tokens = [int(x) for x in np.cumsum(draw.random.integers(100, 5000, n))]
    losses = [round(float(x), 3) for x in 3 - np.arange(n) / 4 + draw.random.normal(0, 0.2, n)]
    yield tokens, losses, round(float(draw.random.uniform(min(losses), max(losses))), 2)


EXAMPLES = {
    "a loss between two points": (([1000, 4000], [3.0, 2.0], 2.5), 2000),
    "a loss nearer to the second point": (([1000, 4000], [3.0, 2.0], 2.25), 2828.42712474619),
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


tokens_needed = exercise(
    "tokens_needed",
    cases=_curve_cases,
    run=_said,
    reasons=(_example,),
    see='chapter 13, "Loss against tokens (C29)"',
)
