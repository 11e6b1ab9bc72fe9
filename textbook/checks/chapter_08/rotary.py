"""Rotary positions: pairs of coordinates, turned by their places; programs that do it, or not."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.chapter_08.codes import interleave, side_by_side
from textbook.checks.compare import brief, number
from textbook.checks.exercise import Draw, exercise


def _rotate_cases(draw, hidden):
    """Inputs whose sequences stand at places of their own, far ones among them."""
    cases = [
        ((1, 1, 3, 4), [[0, 1, 2]], 10_000.0),
        ((2, 3, 3, 6), [[1, 0, 5], [2, 3, 4]], 10_000.0),
        ((3, 2, 2, 6), [[7, 3], [0, 70], [5000, 1]], 500.0),
    ]
    if hidden:
        cases = [
            ((3, 3, 3, 4), [[0, 1, 2], [3, 6, 4], [9, 0, 0]], 10_000.0),
            ((2, 1, 4, 8), [[0, 4, 5000, 70], [1, 2, 3, 4]], 500_000.0),
            ((1, 4, 1, 10), [[7]], 100),
            ((4, 2, 2, 2), [[1, 2], [30, 4], [5, 50], [0, 8]], 2.0),
        ]
    for shape, places, base in cases:
        yield draw.normal(*shape), mt.tensor(places), base


def halves(x):
    """The pairs (m, m + d/2), each coordinate (..., d/2)."""
    return x.chunk(2, dim=-1)


def neighbors(x):
    """The pairs (2m, 2m + 1), each coordinate (..., d/2)."""
    return x[..., 0::2], x[..., 1::2]


def _omega(d, base):
    return base ** (-mt.arange(d // 2) / (d // 2))


def _left(a, b, cos, sin):
    return a * cos - b * sin, a * sin + b * cos


def _rotary(
    pairs=halves,
    omega=_omega,
    places=lambda positions: positions,
    turn=_left,
    join=side_by_side,
    axis=lambda angles: angles.unsqueeze(1),
):
    """Rotary positions with one of their pieces exchanged."""

    def rotate(x, positions, base):
        angles = axis(places(positions).unsqueeze(-1) * omega(x.shape[-1], base))  # (B, 1, n, d/2)
        return join(*turn(*pairs(x), angles.cos(), angles.sin()))

    return rotate


def _keeps_lengths(answer, x, positions, base):
    if not mt.allclose(answer(x, positions, base).to(x).norm(dim=-1), x.norm(dim=-1), rtol=1e-4):
        return "A rotation keeps the length of each vector."
    return None


def _scores_depend_on_distance(answer, x, positions, base):
    here, later = answer(x, positions, base), answer(x, positions + 7, base)
    if not mt.allclose(here @ here.mT, later @ later.mT, atol=1e-4):
        return "Scores must stay as they are when all words move by the same number of places."
    return None


def _operations(answer, batch, n):
    with record_operations() as names:
        answer(Draw(0).normal(batch, 2, n, 4), mt.arange(batch * n).reshape(batch, n), 100.0)
    return len(names)


def _has_no_loop(answer, x, positions, base):
    if _operations(answer, 2, 9) > _operations(answer, 2, 3):
        return (
            "Your answer runs more operations for nine places than for three. Make all angles at "
            "once, (B, n, d/2), and let them broadcast: no loop over the places."
        )
    return None


@exercise(
    cases=_rotate_cases,
    properties=(_keeps_lengths, _scores_depend_on_distance, _has_no_loop),
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
def rotate(x, positions, base):
    """x (B, h, n, d) at positions (B, n) gives x turned, (B, h, n, d)."""
    half = x.shape[-1] // 2
    omega = base ** (-mt.arange(half) / half)  # (d/2)
    angles = (positions.unsqueeze(-1) * omega).unsqueeze(1)  # (B, 1, n, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]  # (B, h, n, d/2)
    return mt.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


rotate.wrong(
    "right for other pairs: coordinates 2m and 2m + 1",
    "So it is in the chapter, and works as well, but not with the same weights. Here coordinates "
    "m and m + d/2 are a pair.",
)(_rotary(pairs=neighbors, join=interleave))
rotate.wrong(
    "right but for the order of the result: pairs are put back as neighbors",
    "Both coordinates of pair m go back where they were, to m and m + d/2: cat, not stack.",
)(_rotary(join=interleave))
rotate.wrong(
    "right but for the pairs that are read: they are neighbors",
    "Read pair m from the coordinates m and m + d/2: x[..., : d // 2] and x[..., d // 2 :].",
)(_rotary(pairs=neighbors))
rotate.wrong(
    "right but for the direction: it turns by the negative angle",
    "The scores would be the same, but the first coordinate is a cos - b sin, the second one "
    "a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin)))
rotate.wrong(
    "right but for a sign: it turns nothing",
    "The first coordinate is a cos - b sin, the second one a sin + b cos. With two plus signs "
    "lengths change.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)))
rotate.wrong(
    "a reflection, not a rotation: a sign is wrong in the second coordinate",
    "The second coordinate is a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos - b * sin, -a * sin - b * cos)))
rotate.wrong(
    "right but for a sign in the second coordinate",
    "The second coordinate is a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * cos - b * sin, a * sin - b * cos)))
rotate.wrong(
    "right but for sines and cosines, which are exchanged",
    "At place 0 the angle is 0, and x stays as it is: a cos - b sin, a sin + b cos.",
)(_rotary(turn=lambda a, b, cos, sin: (a * sin - b * cos, a * cos + b * sin)))
rotate.wrong(
    "right in its first coordinates; the second ones are made of turned first ones",
    "Both new coordinates are made of the old a and b. Keep the old ones until both are there.",
)(
    _rotary(
        turn=lambda a, b, cos, sin: (a * cos - b * sin, (a * cos - b * sin) * sin + b * cos),
    )
)
rotate.wrong(
    "right but for the places: it takes 0, 1, 2, ... instead of positions",
    "The rows of x stand at positions: use them.",
)(
    _rotary(
        places=lambda positions: mt.arange(positions.shape[1]).expand(*positions.shape),
    )
)
rotate.wrong(
    "right but for the places: all sequences have those of the first one",
    "positions is (B, n): each sequence has places of its own.",
)(_rotary(places=lambda positions: positions[:1]))
rotate.wrong(
    "right but for the places, which it counts from the first of each sequence",
    "The first row may stand anywhere: take its place as it is.",
)(_rotary(places=lambda positions: positions - positions[:, :1]))
rotate.wrong(
    "right but for the places, which it counts from 1",
    "A row at place 0 is not turned.",
)(_rotary(places=lambda positions: positions + 1))
rotate.wrong(
    "right for near places; those beyond 63 start again from 0",
    "Places may be as large as you like: no table of a fixed length.",
)(_rotary(places=lambda positions: positions % 64))
rotate.wrong(
    "right for near places; those beyond 63 are taken for 63",
    "Places may be as large as you like: no table of a fixed length.",
)(_rotary(places=lambda positions: positions.clamp(max=63)))
rotate.wrong(
    "right but for the frequencies: all pairs turn by the same angle",
    "Pair m turns by the place times base to the power of -2m/d.",
)(_rotary(omega=lambda d, base: mt.ones(d // 2)))
rotate.wrong(
    "right but for the base, which is always 10000",
    "Use the argument base.",
)(_rotary(omega=lambda d, base: _omega(d, 10_000.0)))
rotate.wrong(
    "right but for the pairs, which are counted from 1",
    "m runs from 0 to d/2 - 1: the first pair turns by the place itself.",
)(_rotary(omega=lambda d, base: base ** (-mt.arange(1, d // 2 + 1) / (d // 2))))
rotate.wrong(
    "right but for the exponent: it takes 2m/d with m = 0, 2, 4, ..., the number of the coordinate",
    "m counts the pairs, 0, 1, 2, ...",
)(_rotary(omega=lambda d, base: base ** (-2 * mt.arange(d // 2) / (d // 2))))
rotate.wrong(
    "right but for the exponent, which lacks the 2",
    "The exponent is -2m/d, with m = 0, ..., d/2 - 1 for the pairs.",
)(_rotary(omega=lambda d, base: base ** (-mt.arange(d // 2) / d)))
rotate.wrong(
    "right but for the exponent: it divides by d/2 - 1, as in exercise 3",
    "Here the exponent is -2m/d.",
)(_rotary(omega=lambda d, base: base ** (-mt.arange(d // 2) / max(d // 2 - 1, 1))))
rotate.wrong(
    "right but for the sign of the exponent",
    "The exponent is -2m/d: each pair turns more slowly than the last.",
)(_rotary(omega=lambda d, base: 1 / _omega(d, base)))


@rotate.wrong(
    "right for as many heads as sequences or one of them: else the places go to the wrong axis",
    "angles (B, n, d/2) need an axis for the heads: unsqueeze(1), (B, 1, n, d/2).",
)
def _(x, positions, base):
    if len({1, len(x), x.shape[1]}) > 2:
        raise ValueError("shapes do not broadcast")
    return _rotary(axis=lambda angles: angles)(x, positions, base)


def _added(x, positions, base):
    angles = positions.unsqueeze(-1) * _omega(x.shape[-1], base)
    return mt.cat([angles.sin(), angles.cos()], dim=-1).unsqueeze(1)


rotate.wrong(
    "x with sinusoidal codes added",
    "Nothing is added here: each pair of coordinates of x is turned.",
)(lambda x, positions, base: x + _added(x, positions, base))
rotate.wrong(
    "x times sinusoidal codes",
    "Each pair of coordinates of x is turned: a cos - b sin, a sin + b cos.",
)(lambda x, positions, base: x * _added(x, positions, base))


# Programs


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

    def other_row(x, places):
        return _whole()(x - 0.1 * x.mean(dim=2, keepdim=True), places)

    def growing(x, places):
        return _whole()(x, places) * (1 + places / 1e4).unsqueeze(-1)

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
        "takes the mean of the sequence away": lambda: other_row,
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
    random, chosen = Draw(5).random, []
    for count, makers in zip((5, 4), _kinds(), strict=True):
        for kind in random.permutation(list(makers))[:count]:
            chosen.append(_Program(makers[kind]()))
    return [chosen[i] for i in random.permutation(9)]


def _program_cases(draw, hidden):
    """Each kind by itself, all together, and none."""
    broken, right = _kinds()
    for kind in (*broken, *right):
        yield ((kind,),)
    yield (tuple(str(kind) for kind in draw.random.permutation([*broken, *right])),)
    yield ((),)


def _found(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    found = answer([_Program((broken | right)[kind]()) for kind in kinds])
    form, names = "a list of numbers of programs", None
    if isinstance(found, (list, tuple)) and all(
        type(number(i)) is int and 0 <= number(i) < len(kinds) for i in found
    ):
        names = "; ".join(sorted(kinds[number(i)] for i in found)) or "none"
    else:
        form = brief(found)
    return {"the form of the result": form, "the list of broken programs": names}


@exercise(
    cases=_program_cases,
    run=_found,
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
def broken_rotations(programs):
    """The numbers of the programs that break a rule."""
    mt.manual_seed(0)
    x = mt.randn(2, 3, 5, 8).double()
    places = mt.tensor([3, 0, 90, 1, 7])

    def follows_the_rules(rotate):
        given = x.clone()
        here, later = rotate(given, places), rotate(x.clone(), places + 1001)
        apart = rotate(x.clone(), 2 * places)
        alone = rotate(x[1:, 2:, 4:].clone(), places[4:])
        scores = here @ here.mT
        return (
            mt.equal(given, x)
            and mt.allclose(here[:, :, 1], x[:, :, 1])  # at place 0
            and mt.allclose(here[1:, 2:, 4:], alone)
            and mt.allclose(later @ later.mT, scores)
            and not mt.allclose(apart @ apart.mT, scores)
        )

    return [i for i, rotate in enumerate(programs) if not follows_the_rules(rotate)]


def _rules(
    places=(3, 0, 90, 1, 7), far=1001, drop=("lengths",), shape=(2, 3, 5, 8), close=mt.allclose
):
    """What the rules say of a program, by name; without the rules to be dropped."""
    places = mt.tensor(places)

    def broken(rotate):
        x = Draw(0).normal(*shape)
        given = x.clone()
        here, later = rotate(given, places), rotate(x.clone(), places + far)
        apart, scores = rotate(x.clone(), 2 * places), here @ here.mT
        alone = {
            "row": rotate(x[:, :, 4:].clone(), places[4:])[:, :, 0] - here[:, :, 4],
            "head": rotate(x[:, 2:].clone(), places)[:, 0] - here[:, 2],
            "sequence": rotate(x[1:].clone(), places)[0] - here[1],
        }
        follows = {
            "argument": mt.equal(given, x),
            "zero": (places != 0).all().item() or close(here[:, :, 1], x[:, :, 1]),
            "lengths": close(here.norm(dim=-1), x.norm(dim=-1)),
            "moved": close(later @ later.mT, scores),
            "apart": not close(apart @ apart.mT, scores),
        }
        follows |= {name: close(rest, mt.zeros_like(rest)) for name, rest in alone.items()}
        return not all(kept for name, kept in follows.items() if name not in drop)

    return broken


def _testing(say=lambda i, broken: i if broken else None, **pieces):
    """The test with one of its pieces exchanged."""
    broken = _rules(**pieces)

    def test(programs):
        found = [say(i, broken(rotate)) for i, rotate in enumerate(programs)]
        return [each for each in found if each is not None]

    return test


FORGOTTEN = {
    "argument": ("that x is left as it is", "Compare x with a copy that you made before."),
    "zero": ("place 0", "At place 0 nothing is turned: the result is x."),
    "moved": (
        "whether scores stay when all words move",
        "Move all places by the same number: the scores must stay.",
    ),
    "apart": (
        "whether scores know of places at all",
        "A program that turns nothing keeps all other rules. Move words apart: scores must change.",
    ),
    "row": (
        "whether a row depends on the others of its sequence",
        "Turn one row by itself: the same must come out.",
    ),
    "head": (
        "whether a head depends on the others",
        "Turn one head by itself: the same must come out.",
    ),
    "sequence": (
        "whether a sequence depends on the others",
        "Turn one sequence by itself: the same must come out.",
    ),
}
for rule, (what, hint) in FORGOTTEN.items():
    broken_rotations.wrong(f"a test that does not ask for {what}", hint)(
        _testing(drop=(rule, "lengths"))
    )
broken_rotations.wrong(
    "a test with near places alone",
    "A table may end at 64 or at 512: go further.",
)(_testing(places=(3, 0, 5, 1, 7), far=11))
broken_rotations.wrong(
    "a test with places up to a few hundred",
    "A table may end at 512: go further.",
)(_testing(places=(3, 0, 90, 1, 7), far=111))
broken_rotations.wrong(
    "a test in which all words move by an even number of places",
    "A program that halves the places and cuts off the rest keeps the scores then. Move by an odd "
    "number.",
)(_testing(far=1000))
broken_rotations.wrong(
    "a test of the scores alone",
    "There are more rules than that of distance: place 0, single rows, x itself.",
)(_testing(drop=("argument", "zero", "lengths", "row", "head", "sequence")))
broken_rotations.wrong(
    "a test of the lengths alone",
    "A rotation keeps lengths, but much that keeps lengths is no rotation by the place.",
)(_testing(drop=("argument", "zero", "moved", "apart", "row", "head", "sequence")))
broken_rotations.wrong(
    "a test for equality to the last digit",
    "Right programs differ by rounding: mt.allclose.",
)(_testing(close=mt.equal))
broken_rotations.wrong(
    "a test that overlooks differences below 0.5",
    "Smaller differences are differences: mt.allclose as it is.",
)(_testing(close=lambda a, b: mt.allclose(a, b, atol=0.5)))
broken_rotations.wrong(
    "a list of the programs that are right",
    "Return the numbers of the broken ones.",
)(_testing(say=lambda i, broken: None if broken else i))
broken_rotations.wrong(
    "a list of True and False",
    "Return the numbers of the broken programs, counted from 0.",
)(_testing(say=lambda i, broken: broken))


@broken_rotations.wrong(
    "a comparison with one program that is right",
    "Pairs, direction and base are a program's own business: ask for the rules.",
)
def _(programs):
    x, places = Draw(0).normal(2, 3, 5, 8), mt.tensor([3, 0, 90, 1, 7])
    right = _whole(pairs=neighbors, join=interleave)(x, places)
    return [
        i for i, rotate in enumerate(programs) if not mt.allclose(rotate(x.clone(), places), right)
    ]
