"""One tile more: the running maximum under a mask."""

import minitorch as mt
from textbook.checks.exercise import exercise
from textbook.checks.recorded import recorded


def _tile_cases(draw, hidden):
    """States of all kinds: nothing seen yet, something seen, by all rows or by some.

    Scores are small or far apart, and the largest of them lie where nobody may look.
    """
    sizes = [((), 3, 2, 4), ((2,), 4, 3, 5), ((2, 3), 3, 5, 4)]
    if hidden:
        sizes = [((), 4, 1, 6), ((3,), 5, 2, 4), ((2, 1, 2), 3, 6, 5)]
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


def _hide(scores, allowed):
    return scores.masked_fill(~allowed, -mt.inf)


def _largest(largest, scores, allowed):
    return mt.maximum(largest, _hide(scores, allowed).amax(dim=-1))


def _finite(largest):
    return largest.masked_fill(largest == -mt.inf, 0.0)


def _kept(old, new):
    """By what the numbers from before shrink."""
    return (old - _finite(new)).exp()


def _shares(scores, allowed, new):
    return (_hide(scores, allowed) - _finite(new).unsqueeze(-1)).exp()


def _merging(
    largest=_largest,
    kept_total=_kept,
    kept_mixed=_kept,
    shares=_shares,
    add=mt.sum,
    end=lambda *state: state,
):
    """One tile more, with one of its pieces exchanged."""

    def merge(state, scores, value, allowed):
        old, total, mixed = state
        new = largest(old, scores, allowed)
        weights = shares(scores, allowed, new)
        total = total * kept_total(old, new) + add(weights, dim=-1)
        mixed = mixed * kept_mixed(old, new).unsqueeze(-1) + weights @ value
        return end(new, total, mixed)

    return merge


@recorded
def _merged(*case):
    return _merging()(*case)


def _turned(old, new):
    return (_finite(new) - old).exp().masked_fill(old == -mt.inf, 0.0)


def _without_maximum(state, scores, value, allowed):
    old, total, mixed = state
    new = _largest(old, scores, allowed)
    weights = _hide(scores, allowed).exp()
    return (
        new,
        (total * old.exp() + weights.sum(dim=-1)) / new.exp(),
        (mixed * old.exp().unsqueeze(-1) + weights @ value) / new.exp().unsqueeze(-1),
    )


@exercise(
    cases=_tile_cases,
    forbidden=("scaled_dot_product_attention", "softmax", "logsumexp"),
    instead="amax, maximum, exp, sum and @",
    gradients=False,
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


one_tile.wrong(
    "right but for z and u of before, which are not made smaller when the maximum grows",
    "They were sums of exp(score - old maximum). Multiply them by exp(old - new).",
)(
    _merging(
        kept_total=lambda old, new: mt.ones_like(old), kept_mixed=lambda old, new: mt.ones_like(old)
    )
)
one_tile.wrong(
    "right but for u of before, which is not made smaller when the maximum grows",
    "u is a sum over the same exponentials as z: multiply both by exp(old - new).",
)(_merging(kept_mixed=lambda old, new: mt.ones_like(old)))
one_tile.wrong(
    "right but for z of before, which is not made smaller when the maximum grows",
    "z is a sum over the same exponentials as u: multiply both by exp(old - new).",
)(_merging(kept_total=lambda old, new: mt.ones_like(old)))
one_tile.wrong(
    "right but for the factor of z and u: it is exp(new - old), which makes them larger",
    "exp(score - old) * exp(old - new) = exp(score - new).",
)(
    _merging(
        kept_total=lambda old, new: (_finite(new) - old).exp(),
        kept_mixed=lambda old, new: (_finite(new) - old).exp(),
    )
)
one_tile.wrong(
    "right but for the maximum, which is that of the tile alone",
    "The largest score so far may stand in an earlier tile: take the larger of the two.",
)(_merging(largest=lambda old, scores, allowed: _hide(scores, allowed).amax(dim=-1)))
one_tile.wrong(
    "right but for the maximum, which stays the old one",
    "The tile may hold a larger score than all before, and exp(score - old) overflows.",
)(_merging(largest=lambda old, scores, allowed: old))
one_tile.wrong(
    "right for small scores: there is no maximum in its exponentials",
    "exp of some hundreds is infinite. Subtract the new maximum from the scores before exp.",
)(
    _merging(
        kept_total=lambda old, new: mt.ones_like(old),
        kept_mixed=lambda old, new: mt.ones_like(old),
        shares=lambda scores, allowed, new: _hide(scores, allowed).exp(),
    )
)
one_tile.wrong(
    "right but for the exponentials of the tile, which are relative to the tile's own maximum",
    "Everything in a state is relative to one and the same number, the new maximum.",
)(
    _merging(
        shares=lambda scores, allowed, new: _shares(
            scores, allowed, _hide(scores, allowed).amax(dim=-1)
        )
    )
)
one_tile.wrong(
    "right but for the mask, which is not used",
    "Where allowed is False, the score counts as minus infinity.",
)(
    lambda state, scores, value, allowed: one_tile.reference(
        state, scores, value, mt.ones_like(allowed)
    )
)
one_tile.wrong(
    "right but for the mask, which works the wrong way round",
    "True means: may look. masked_fill changes places where its mask is True: give it ~allowed.",
)(lambda state, scores, value, allowed: one_tile.reference(state, scores, value, ~allowed))
one_tile.wrong(
    "right but for the maximum, in which hidden scores take part",
    "A hidden score may be the largest of all, and then every exp of the row is 0. Mask first.",
)(
    _merging(
        largest=lambda old, scores, allowed: mt.maximum(old, scores.amax(dim=-1)),
    )
)
one_tile.wrong(
    "right but for the mask, which it uses for the maximum alone",
    "Hidden keys must have no part in z and u.",
)(
    _merging(
        shares=lambda scores, allowed, new: (scores - _finite(new).unsqueeze(-1)).exp(),
    )
)
one_tile.wrong(
    "right but for rows that have looked at nothing so far: they are not a number",
    "Where the maximum is minus infinity, -inf - -inf is NaN. Subtract a finite number there.",
)(
    _merging(
        kept_total=lambda old, new: (old - new).exp(),
        kept_mixed=lambda old, new: (old - new).exp(),
        shares=lambda scores, allowed, new: (_hide(scores, allowed) - new.unsqueeze(-1)).exp(),
    )
)
one_tile.wrong(
    "right but for rows that have looked at nothing so far: their maximum is a finite number",
    "The maximum over nothing is minus infinity, and stays it until a key may be looked at.",
)(
    _merging(
        largest=lambda old, scores, allowed: _finite(_largest(old, scores, allowed)),
    )
)
one_tile.wrong(
    "right but for rows that have looked at nothing so far: a large finite number hides scores",
    "With a finite number the hidden scores of such a row have their shares. Use minus infinity.",
)(
    lambda state, scores, value, allowed: one_tile.reference(
        state, scores.masked_fill(~allowed, -1e9), value, mt.ones_like(allowed)
    )
)
one_tile.wrong(
    "right but for the maximum, which is that of all rows together",
    "Each query has a maximum of its own, amax(dim=-1).",
)(
    _merging(
        largest=lambda old, scores, allowed: (
            mt.zeros_like(old) + mt.maximum(old.max(), _hide(scores, allowed).max())
        )
    )
)
one_tile.wrong(
    "the state with u already divided by z",
    "A later tile changes z. Divide once, after the last tile.",
)(_merging(end=lambda new, total, mixed: (new, total, mixed / total.unsqueeze(-1))))
one_tile.wrong(
    "right but for z, to which it adds the mean of the exponentials",
    "z is their sum.",
)(_merging(add=mt.mean))
one_tile.wrong(
    "right but for the order: it returns z, u and m",
    "Return the state as it came: m, z, u.",
)(_merging(end=lambda new, total, mixed: (total, mixed, new)))
one_tile.wrong(
    "the output of the tile alone, without a state",
    "Return the three parts of the state, so that the next tile can go on.",
)(
    lambda state, scores, value, allowed: (
        _shares(scores, allowed, _hide(scores, allowed).amax(dim=-1)) @ value
    )
)


one_tile.wrong(
    "right but for u, which it divides by z",
    "The division comes once, after the last tile. The state is sums: u stays undivided.",
)(
    _merging(
        end=lambda new, total, mixed: (
            new,
            total,
            mixed / total.masked_fill(total == 0, 1.0).unsqueeze(-1),
        )
    )
)
one_tile.wrong(
    "right but for z and u of before, which are made larger where they should be made smaller",
    "They were relative to the old maximum, which is the smaller one: times exp(old - new).",
)(_merging(kept_total=_turned, kept_mixed=_turned))
one_tile.wrong(
    "right but for scores that are hidden, which it sets to 0",
    "0 is a score like others, and may be the largest. Hidden scores count as minus infinity.",
)(
    lambda state, scores, value, allowed: _merging()(
        state, scores * allowed, value, mt.ones_like(allowed)
    )
)
one_tile.wrong(
    "right for small scores of rows that have seen something: no maximum is taken off before exp",
    "exp of a large score is infinite. Subtract the new maximum first, inside of exp.",
)(_without_maximum)
