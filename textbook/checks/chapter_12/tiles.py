"""One tile more: the running maximum under a mask."""

import minitorch as mt
from textbook.checks.exercise import exercise
from textbook.checks.recorded import recorded


def _tile_cases(draw, others=()):
    """States of all kinds: nothing seen yet, something seen, by all rows or by some.

    Scores are small or far apart, and the largest of them lie where nobody may look.
    """
    sizes = others or [((), 3, 2, 4), ((2,), 4, 3, 5), ((2, 3), 3, 5, 4)]
    for lead, queries, w, d_v in sizes:
        for scale in (1.0, 300.0, 4000.0):
            allowed = mt.ones(queries, w, dtype=mt.bool)
            first = _nothing(lead, queries, d_v)
            yield first, scale * draw.normal(*lead, queries, w), draw.normal(*lead, w, d_v), allowed
            before = scale * draw.normal(*lead, queries, 3), draw.normal(*lead, 3, d_v)
            seen = mt.arange(queries).unsqueeze(1) != mt.tensor([0, 0, 0])  # the first row is new
            state = _merged(first, *before, seen)
            scores = scale * draw.normal(*lead, queries, w)
            yield state, scores, draw.normal(*lead, w, d_v), allowed
            allowed = draw.normal(queries, w) > 0
            allowed[0] = False  # the first row still sees nothing
            allowed[1], allowed[2] = True, False
            scores = mt.where(allowed, scores, scores + 2 * scale)
            yield state, scores, draw.normal(*lead, w, d_v), allowed
            yield first, scores, draw.normal(*lead, w, d_v), allowed


def _nothing(lead, queries, d_v):
    """The state before the first tile."""
    rows = mt.zeros(*lead, queries, dtype=mt.float64)
    return rows - mt.inf, rows, mt.zeros(*lead, queries, d_v, dtype=mt.float64)


@recorded
def _merged(*case):
    return one_tile.reference(*case)


@exercise(
    cases=_tile_cases,
    hidden_cases=lambda draw: _tile_cases(
        draw, others=[((), 4, 1, 6), ((3,), 5, 2, 4), ((2, 1, 2), 3, 6, 5)]
    ),
    forbidden=("scaled_dot_product_attention", "softmax", "logsumexp"),
    instead="amax, maximum, exp, sum and @",
    gradients=False,
    after_passing="This is the inner step of FlashAttention: the state stays small, however "
    "many keys come.",
    see='chapter 12, "The same numbers, cheaper"',
)
def one_tile(state, scores, value, allowed):
    """The state (m, z, u) after one tile of w keys more."""
    m, z, u = state
    scores = scores.masked_fill(~allowed, -mt.inf)  # (..., T, w)
    new = mt.maximum(m, scores.amax(dim=-1))  # (..., T)
    finite = new.masked_fill(new == -mt.inf, 0.0)  # for rows that have looked at nothing so far
    kept = (m - finite).exp()
    weights = (scores - finite.unsqueeze(-1)).exp()
    return new, kept * z + weights.sum(dim=-1), kept.unsqueeze(-1) * u + weights @ value
