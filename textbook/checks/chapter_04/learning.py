"""Which score function learns faster, as far as a table of runs says."""

from textbook.checks.conclusions import as_pairs
from textbook.checks.released import exercise


def _row(name, steps, most=120, seeds_of="other numbers", tested="numbers", width=64):
    return {
        "score": name,
        "width": width,
        "chosen on": seeds_of,
        "tested on": tested,
        "steps run": most,
        "steps to 90 %": steps,
    }


scores = [
    _row("dot product", [70, 70, 80, 60, 90, 70, 80, 70]),
    _row("multiplicative", [80, 80, 70, 90, 70, 110, 80, 80]),
    _row("additive", [60, 50, 50, 60, 50, 60, 50, 50], seeds_of="numbers"),
    _row("reduced rank", [70, 80, 60]),
    _row("mean", [None] * 8),
    _row("mean, short", [None] * 8, most=60),
    _row("fed back", [100, 110, 100, 120, None, 110, 100, 120]),
    _row("dot product of 256", [40, 50, 40, 40, 50, 40, 50, 40], width=256),
]


def _table_cases(draw, shift=0):
    """Runs that touch, runs that never arrive after more or fewer steps, and unfair ones."""
    yield (scores,)
    rows = [
        _row("a", [s + shift for s in (50, 60, 55, 52, 58)]),
        _row("b", [s + shift for s in (61, 70, 90, 65, 66)]),
        _row("c", [s + shift for s in (60, 70, 90, 65, 66)]),
        _row("d", [*(s + shift for s in (95, 99, 97, 96)), None], most=100 + shift),
        _row("e", [None] * 5, most=89 + shift),
        _row("f", [None] * 5, most=90 + shift),
        _row("g", [None] * 5, most=91 + shift),
        _row("h", [s + shift for s in (1, 2, 3, 4)]),
        _row("i", [500, 501, 502, 503], most=600),
        _row("j", [1, 2, 3, 4, 5], seeds_of="numbers"),
        _row("k", [700, 600, 650, 640, 630], most=900, seeds_of="numbers"),
        _row("l", [1, 2, 3, 4, 5], tested="others", seeds_of="numbers"),
        _row("m", [800, 800, 800, 800, 801, 803], most=900, tested="others", seeds_of="numbers"),
        _row("n", [2, 3, 4, 5, 9], width=32),
        _row("o", [3, 95 + shift, 4, 5, 6], most=100 + shift),
        _row("p", [None, 1, 1, 1, 1], most=700),
        _row("q", [s + shift for s in (30, 31, 32, 33, 34)], seeds_of="third numbers"),
    ]
    yield ([rows[i] for i in draw.random.permutation(len(rows))],)
    yield (rows[:2],)


def _as_set(answer, rows):
    """The pairs in any order."""
    return as_pairs(answer(rows), "faster")


def _numbers(row):
    """At least so many steps: one more than were run where 90 % was never reached."""
    return [row["steps run"] + 1 if s is None else s for s in row["steps to 90 %"]]


def _arrives(row):
    return None not in row["steps to 90 %"]


def _explained(check, answer, rows):
    """The first pair that is wrongly there, or missing, and why."""
    pairs = answer(rows)
    if not isinstance(pairs, (list, tuple, set)) or not all(len(pair) == 2 for pair in pairs):
        return None
    named, found = {row["score"]: row for row in rows}, {tuple(pair) for pair in pairs}
    right = set(check.reference(rows))
    wrong = sorted(found - right)
    for pair in wrong:
        if not all(name in named for name in pair):
            return f"{pair} is no pair of scores of the table."
    for pair in sorted(wrong, key=lambda pair: _arrives(named[pair[0]])):
        return f"{pair} is no pair: {_against(*(named[name] for name in pair))}."
    for pair in sorted(right - found):
        a, b = (named[name] for name in pair)
        return (
            f"{pair} is missing: both are fair, the slowest seed of {pair[0]!r} needs "
            f"{max(a['steps to 90 %'])} steps, and no seed of {pair[1]!r} less than "
            f"{min(_numbers(b))}."
        )
    return None


def _against(a, b):
    """Why the one row cannot be called faster than the other one."""
    for key in ("width", "tested on"):
        if a[key] != b[key]:
            return f"{key!r} is {a[key]!r} and {b[key]!r}"
    for row in (a, b):
        if row["chosen on"] == row["tested on"]:
            return f"{row['score']!r} was chosen on the numbers that it was tested on"
        if len(row["steps to 90 %"]) < 5:
            return f"{row['score']!r} has {len(row['steps to 90 %'])} seeds"
    if not _arrives(a):
        return f"a seed of {a['score']!r} has not arrived, and may need any number of steps"
    late = " at least" if min(_numbers(b)) not in b["steps to 90 %"] else ""
    return (
        f"the slowest seed of {a['score']!r} needs {max(_numbers(a))} steps, the fastest of "
        f"{b['score']!r} {min(_numbers(b))}{late}"
    )


learns_faster = exercise(
    "learns_faster",
    cases=_table_cases,
    run=_as_set,
    reasons=(_explained,),
    gradients=False,
    see='chapter 04, "Four score functions"',
)
