"""What a difference between two translators shows."""

import math

import numpy as np

from textbook.checks.conclusions import as_pairs
from textbook.checks.released import exercise


def _row(name, right, test="numbers", chosen="other numbers"):
    return {"translator": name, "test": test, "chosen on": chosen, "right": right}


def _made_up(seed, share, count=60):
    """Right or wrong for each sentence, 1 or 0."""
    return (np.random.default_rng(seed).random(count) < share).astype(int).tolist()


def _changed(right, wins, losses):
    """The same, with so many more right, and so many that no longer are."""
    random, right = np.random.default_rng(1), np.array(right)
    gained = random.permutation(np.flatnonzero(right == 0))[:wins]
    lost = random.permutation(np.flatnonzero(right == 1))[:losses]
    right[gained], right[lost] = 1, 0
    return right.tolist()


_plain = _made_up(0, 0.5)
translators = [
    _row("plain", _plain),
    _row("wider", _changed(_plain, 8, 0)),
    _row("deeper", _changed(_plain, 20, 9)),
    _row("reversed", _made_up(4, 0.62)),
    _row("chosen with care", [1] * 50 + [0] * 10, chosen="numbers"),
    _row("easy", [1] * 58 + [0] * 2, test="short numbers"),
]


def _only(first, second):
    """Two lists of answers, of which so many are right in the first, or in the second, alone."""
    agree = 12
    return [1] * first + [0] * second + [1, 0] * agree, [0] * first + [1] * second + [1, 0] * agree


def _table_cases(draw, others=()):
    """Pairs on both sides of the line, one-sided differences, and unfair ones."""
    yield (translators,)
    pairs = [
        (6, 0),
        (5, 0),
        (4, 0),
        (7, 0),
        (9, 2),
        (8, 1),
        (8, 2),
        (7, 1),
        (20, 8),
        (20, 9),
        (0, 0),
    ]
    pairs += others or [(14, 4), (14, 5), (2, 13), (50, 30)]
    rows = []
    for i, (first, second) in enumerate(pairs):
        for name, right in zip("ab", _only(first, second), strict=True):
            rows.append(_row(f"{name}{i}", right, test=f"test {i}"))
    unfair = [("xx", "xy"), ("xx", "yx"), ("uv", "yy"), ("xx", "xx"), ("xx", "yz")]
    for i, (tests, chosen) in enumerate(unfair):  # but for the last
        for name, right, test, by in zip("cd", _only(15, 2), tests, chosen, strict=True):
            rows.append(_row(f"{name}{i}", right, test=f"{test} {i}", chosen=f"{by} {i}"))
    rows.append(_row("e0", _only(6, 0)[0], test="test 0"))  # two are better than b0
    order = draw.random.permutation(len(rows))
    yield ([rows[i] for i in order],)
    yield (rows[:2],)


def _as_set(answer, rows):
    """The pairs in any order."""
    return as_pairs(answer(rows), "better", "what is shown")


def _at_least(wins, losses, count):
    """The chance of so many heads or more, where each is a toss."""
    n = wins + losses
    return sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n


def _explained(check, answer, rows):
    """The first pair that is wrongly there, or missing, and why."""
    pairs = answer(rows)
    if not isinstance(pairs, (list, tuple, set)) or not all(len(pair) == 2 for pair in pairs):
        return None
    named, found = {row["translator"]: row for row in rows}, {tuple(pair) for pair in pairs}
    right = set(check.reference(rows))
    for pair in sorted(found - right):
        if not all(name in named for name in pair):
            return f"{pair} is no pair of translators of the table."
        a, b = (named[name] for name in pair)
        if a["test"] != b["test"]:
            return f"{pair} is no pair: they were tested on {a['test']!r} and {b['test']!r}."
        for row in (a, b):
            if row["chosen on"] == row["test"]:
                return f"{pair} is no pair: {row['translator']!r} was chosen on its own test."
        return f"{pair} is no pair: {_tossed(a, b)}."
    for pair in sorted(right - found):
        return f"{pair} is missing: {_tossed(*(named[name] for name in pair))}."
    return None


def _tossed(a, b):
    """How the sentences that only one has right decide."""
    pairs = list(zip(a["right"], b["right"], strict=True))
    wins, losses = pairs.count((1, 0)), pairs.count((0, 1))
    return (
        f"{wins} sentences only {a['translator']!r} has right, {losses} only {b['translator']!r}, "
        f"which makes P = {_at_least(wins, losses, len(pairs)):.4f}"
    )


shown_better = exercise(
    "shown_better",
    cases=_table_cases,
    run=_as_set,
    reasons=(_explained,),
    gradients=False,
    see='chapter 03, "Scores"',
)
