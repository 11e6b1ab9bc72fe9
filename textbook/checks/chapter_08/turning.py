"""Programs that turn queries and keys by their places, some of them broken."""

import minitorch as mt
from textbook.checks.chapter_08.codes import interleave
from textbook.checks.chapter_08.rotary import _added, _rotary, neighbors
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import in_parts, judged, shuffled, some_of


class _Program:
    """A program that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x, places):
        return self.function(x, places)


def _whole(base=10_000.0, **pieces):
    """A program that turns x (B, h, n, d) at places (n), with one of the pieces exchanged.

    Its angles are in double precision, in a notebook as well: far places need it.
    """
    return lambda x, places: _rotary(**pieces)(x, places.unsqueeze(0).double(), base)


def _remembers():
    """The angles of the first call, as long as there are as many places."""
    kept = {}

    def rotate(x, places):
        return _whole()(x, kept.setdefault(len(places), places))

    return rotate


def _in_place(x, places):
    x[:] = _whole()(x, places)
    return x


def _half(x, places):
    """About the first half of the coordinates is turned, the rest stays."""
    half = max(x.shape[-1] // 4 * 2, 2)
    return mt.cat([_whole()(x[..., :half], places), x[..., half:]], dim=-1)


def _row_by_row(x, places):
    turned = _whole(pairs=neighbors, join=interleave)
    return mt.stack([turned(x[:, :, [i]], places[[i]])[:, :, 0] for i in range(len(places))], dim=2)


def _kinds():
    """Functions that make a broken program, and right ones, by kind."""

    def growing_base(x, places):
        return _whole(base=100.0 * len(places))(x, places)

    def first_head(x, places):
        return mt.cat([_whole()(x[:, :1], places), x[:, 1:]], dim=1)

    def first_sequence(x, places):
        return mt.cat([_whole()(x[:1], places), x[1:]])

    def later_sequences(x, places):
        back = _whole(places=lambda places: -places)
        return mt.cat([_whole()(x[:1], places), back(x[1:], places)])

    def base_of_a_head(x, places):
        heads = [_whole(base=100.0 * (h + 1))(x[:, [h]], places) for h in range(x.shape[1])]
        return mt.cat(heads, dim=1)

    def other_row(x, places):
        return _whole()(x - 0.1 * x.mean(dim=2, keepdim=True), places)

    def growing(x, places):
        return _whole()(x, places) * (1 + places / 1e4).unsqueeze(-1)

    def longer_at_odd_places(x, places):
        return _whole()(x, places) * (1 + 1e-4 * (places % 2)).unsqueeze(-1)

    broken = {
        "adds codes": lambda: lambda x, places: x + _added(x, places.unsqueeze(0), 100.0),
        "has a wrong sign": lambda: _whole(
            turn=lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)
        ),
        "exchanges sine and cosine": lambda: _whole(
            turn=lambda a, b, cos, sin: (a * sin - b * cos, a * cos + b * sin)
        ),
        "turns with the square of the place": lambda: _whole(places=lambda places: places**2),
        "turns with every other place": lambda: _whole(places=lambda places: places // 2),
        "takes 0, 1, 2, ... for the places": lambda: _whole(
            places=lambda places: mt.arange(places.shape[1]).unsqueeze(0)
        ),
        "has a table of 64 places": lambda: _whole(places=lambda places: places % 64),
        "stops at place 512": lambda: _whole(places=lambda places: places.clamp(max=512)),
        "turns nothing": lambda: lambda x, places: x * 1.0,
        "counts places from 1": lambda: _whole(places=lambda places: places + 1),
        "grows with the place": lambda: growing,
        "makes rows at odd places a little longer": lambda: longer_at_odd_places,
        "takes the mean of the sequence away": lambda: other_row,
        "turns all sequences but the first the other way": lambda: later_sequences,
        "has a base of its own for each head": lambda: base_of_a_head,
        "has a base that grows with the number of rows": lambda: growing_base,
        "turns the first head alone": lambda: first_head,
        "turns the first sequence alone": lambda: first_sequence,
        "writes into x": lambda: _in_place,
        "remembers its first places": _remembers,
    }
    right = {
        "turns halves": _whole,
        "turns neighbors": lambda: _whole(pairs=neighbors, join=interleave),
        "turns to the right": lambda: _whole(places=lambda places: -places),
        "has the base 500": lambda: _whole(base=500.0),
        "turns half of the coordinates": lambda: _half,
        "goes row by row": lambda: _row_by_row,
    }
    return broken, right


def programs():
    """Nine programs, five of which are broken; the order says nothing."""
    return [_Program(make()) for make in some_of(_kinds(), (5, 4), Draw(5).random)]


def _program_cases(draw, seed=0, parts=2):
    """Each kind once, in an order that is drawn; and none."""
    # the same for all seeds: each is asked once; those that far places show come last
    names = shuffled(_kinds(), Draw(seed).random)
    return in_parts(sorted(names, key=lambda name: name in ENDING), parts)


ENDING = ("has a table of 64 places", "stops at place 512")
FAR = "Rule 2: move all places further, beyond 512. The scores must stay."
MOVED = "Rule 2: scores must stay when all places grow by one number, odd or even."
ALONE = "Rule 4: turn it alone, and nothing must change."
SHOWN = {
    "adds codes": MOVED,
    "has a wrong sign": MOVED,
    "exchanges sine and cosine": "Rule 1: a row at place 0 must stay as it is.",
    "turns with the square of the place": MOVED,
    "turns with every other place": MOVED,
    "takes 0, 1, 2, ... for the places": "Rule 3: places need not be 0, 1, 2, ...; where words "
    "move apart the scores must change.",
    "has a table of 64 places": "Rule 2: move all places so that some pass a multiple of 64 and "
    "others do not. The scores must stay.",
    "stops at place 512": FAR,
    "turns nothing": "Rule 3: the scores must change when words move apart.",
    "counts places from 1": "Rule 1: a row at place 0 must stay as it is.",
    "grows with the place": MOVED,
    "makes rows at odd places a little longer": f"{MOVED} Compare to 1e-9.",
    "turns all sequences but the first the other way": "Rule 4: take a row of a later sequence, "
    "alone and as the only sequence.",
    "has a base of its own for each head": "Rule 4: take a row of a later head, alone and as the "
    "only head.",
    "takes the mean of the sequence away": "A row depends on the others. " + ALONE,
    "has a base that grows with the number of rows": "A row depends on how many there are. "
    + ALONE,
    "turns the first head alone": "Rules 3 and 4: look at all heads, and at one head alone.",
    "turns the first sequence alone": "Rules 3 and 4: look at all sequences, and at one alone.",
    "writes into x": "Rule 5: compare x with a copy made before the call.",
    "remembers its first places": "Call it twice with other places: rules 2 and 3 ask for that.",
}
SOUND = "Pairs, direction, base and how much is turned are its own business. Mind rounding."


def _found(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    with as_in_a_notebook():
        found = answer([_Program((broken | right)[kind]()) for kind in kinds])
    return judged(found, kinds, broken, SHOWN | dict.fromkeys(right, SOUND), "broken programs")


broken_rotations = exercise(
    "broken_rotations",
    cases=_program_cases,
    run=_found,
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
