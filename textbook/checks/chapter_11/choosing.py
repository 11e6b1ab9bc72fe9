"""Which tokens may come next, and how likely."""

import minitorch as mt
from textbook.checks.released import exercise


def _choice_cases(draw, others=(), warm=1.0):
    """Scores (B, V), a share for each row (B), a temperature."""
    sizes = others or [(4, 6), (3, 9), (5, 4)]
    for i, (batch, size) in enumerate(sizes):
        for temperature in (1.0, 0.5, 2.5)[: 3 if i == 0 else 2]:
            scores = 2 * draw.normal(batch, size)
            share = mt.tensor(draw.random.uniform(0.3, 0.97, batch))
            yield scores, share, temperature
    scores = 2 * draw.normal(4, 7)
    scores[:, 2] = scores[:, 5] = scores.max() + 1  # two that are equally likely, far ahead
    scores[2] = 0.0  # all are
    yield scores, mt.tensor([0.2, 0.45, 0.5, 0.97], dtype=mt.float64), 1.3
    scores = 2 * draw.normal(3, 6)
    scores[:, 1], scores[1:, 4] = -mt.inf, -mt.inf
    yield scores, mt.tensor([0.999, 1.0, 0.6], dtype=mt.float64), 0.7
    equal = mt.tensor([0.5, 0.25], dtype=mt.float64)  # reached by 2 and by 1 of them, exactly
    yield mt.zeros(2, 4, dtype=mt.float64), equal, warm
    yield 900 * draw.normal(3, 5), mt.tensor([0.9, 0.5, 1.0], dtype=mt.float64), 0.8
    yield draw.normal(3, 5), mt.tensor([1.0, 0.0, 0.7], dtype=mt.float64), 1.5


NONE_STAYS = "For a share of 0 your answer keeps no token: the likeliest stays, whatever the share."


def _example(check, answer, *_):
    """Which tokens stay in an example that can be done by hand."""
    p = mt.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=mt.float64)
    found = answer(p.log(), mt.tensor([0.6], dtype=mt.float64), 1.0)
    stay = [v for v, x in enumerate(found.flatten().tolist()) if x > 0]
    if stay == [1, 2]:
        none = answer(p.log(), mt.tensor([0.0], dtype=mt.float64), 1.0)
        return None if bool((none > 0).any()) else NONE_STAYS
    one = answer(p.log(), mt.tensor([0.3], dtype=mt.float64), 1.0) > 0
    if stay == [0, 3] and one.tolist() == [[False, False, False, True]]:
        return (
            "It looks as if what stays were put back by gather with the same order: that permutes "
            "once more. scatter puts back."
        )
    return (
        f"Of the probabilities [0.1, 0.4, 0.3, 0.2] and the share 0.6 your answer keeps the tokens "
        f"{stay}; the smallest set of the likeliest is [1, 2]."
    )


likely_tokens = exercise(
    "likely_tokens",
    cases=_choice_cases,
    reasons=(_example,),
    gradients=False,
    see='chapter 11, "Which piece comes next?"',
)
