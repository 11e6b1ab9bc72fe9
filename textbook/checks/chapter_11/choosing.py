"""Which tokens may come next, and how likely."""

import minitorch as mt
from textbook.checks.exercise import exercise


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


def _example(check, answer, *_):
    """Which tokens stay in an example that can be done by hand."""
    p = mt.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=mt.float64)
    found = answer(p.log(), mt.tensor([0.6], dtype=mt.float64), 1.0)
    stay = [v for v, x in enumerate(found.flatten().tolist()) if x > 0]
    if stay == [1, 2]:
        return None
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


@exercise(
    cases=_choice_cases,
    hidden_cases=lambda draw: _choice_cases(draw, others=[(3, 7), (6, 5), (4, 12)], warm=2.0),
    reasons=(_example,),
    gradients=False,
    after_passing="Faster: topk of the first few hundred; a whole vocabulary need hardly "
    "ever be sorted.",
    see='chapter 11, "Which piece comes next?"',
)
def likely_tokens(scores, share, temperature):
    """scores (B, V), share (B): the probabilities (B, V) of the likeliest tokens alone."""
    p = (scores / temperature).softmax(dim=-1)
    order = (-p).argsort(dim=-1, stable=True)  # of equals the smaller number comes first
    ordered = p.gather(1, order)
    stays = ordered.cumsum(dim=-1) - ordered < share.unsqueeze(1)
    stays[:, 0] = True
    kept = mt.zeros_like(p).scatter(1, order, ordered.masked_fill(~stays, 0.0))
    return kept / kept.sum(dim=-1, keepdim=True)
