"""What a difference between two translators shows."""

import math
import statistics

import numpy as np

from textbook.checks.conclusions import as_pairs
from textbook.checks.exercise import exercise


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


def _table_cases(draw, hidden):
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
    pairs += (
        [(16, 6), (15, 6), (3, 17), (70, 45)] if hidden else [(14, 4), (14, 5), (2, 13), (50, 30)]
    )
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


def _unpaired(x, y):
    """Whether the shares differ by more than two standard errors of a difference."""
    p, q, n = statistics.mean(x), statistics.mean(y), len(x)
    return p - q > 2 * math.sqrt((p * (1 - p) + q * (1 - q)) / n)


def _shown(
    fair=lambda a, b: a["test"] == b["test"] and all(x["chosen on"] != x["test"] for x in (a, b)),
    chance=_at_least,
    below=0.025,
    says=None,
    finish=lambda pairs, rows: pairs,
):
    """What is shown, with one of its pieces exchanged."""

    def tossed(x, y):
        pairs = list(zip(x, y, strict=False))
        wins, losses = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
        return chance(wins, losses, len(pairs)) < below

    def shown(rows):
        return finish(
            [
                (a["translator"], b["translator"])
                for a in rows
                for b in rows
                if a is not b and fair(a, b) and (says or tossed)(a["right"], b["right"])
            ],
            rows,
        )

    return shown


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


@exercise(
    cases=_table_cases,
    run=_as_set,
    reasons=(_explained,),
    gradients=False,
    see='chapter 03, "Scores"',
)
def shown_better(rows):
    """Pairs (better, worse) of translators, as far as the test shows it."""
    fair = [row for row in rows if row["chosen on"] != row["test"]]
    found = []
    for one in fair:
        for other in fair:
            if one["test"] != other["test"]:
                continue
            answers = list(zip(one["right"], other["right"], strict=True))
            wins, losses = answers.count((1, 0)), answers.count((0, 1))
            n = wins + losses
            if sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n < 0.025:
                found.append((one["translator"], other["translator"]))
    return found


for name, hint, pieces in (
    (
        "a list of all pairs with different shares",
        "A difference may be chance: ask how likely it would be if both were alike.",
        dict(says=lambda x, y: sum(x) > sum(y)),
    ),
    (
        "a comparison of two shares, as if the sentences were not the same",
        "Both translated the same sentences. Most of them tell nothing, being easy or hard for "
        "both: count those that only one has right.",
        dict(says=_unpaired),
    ),
    (
        "right but for translators that were chosen on their test, which it compares",
        "What was chosen by these very sentences looks better on them than it is.",
        dict(fair=lambda a, b: a["test"] == b["test"]),
    ),
    (
        "right but for the better one, which may have been chosen on its test",
        "Neither of the two.",
        dict(fair=lambda a, b: a["test"] == b["test"] and b["chosen on"] != b["test"]),
    ),
    (
        "right but for the worse one, which may have been chosen on its test",
        "Neither of the two: it would have looked worse still.",
        dict(fair=lambda a, b: a["test"] == b["test"] and a["chosen on"] != a["test"]),
    ),
    (
        "right for translators that were chosen on the same sentences, whichever these are",
        "On which others they were chosen does not matter; that it was not their test does.",
        dict(fair=lambda a, b: a["test"] == b["test"] and a["chosen on"] == b["chosen on"]),
    ),
    (
        "right but for translators with different tests, which it compares",
        "Other sentences may be easier.",
        dict(fair=lambda a, b: all(x["chosen on"] != x["test"] for x in (a, b))),
    ),
    (
        "right but for the line, which is 0.05",
        "0.025: the other one might have been the better one, too.",
        dict(below=0.05),
    ),
    ("right but for the line, which is 0.01", "0.025.", dict(below=0.01)),
    ("right but for the line, which is 0.0125", "0.025 for this direction.", dict(below=0.0125)),
    (
        "right but for the chance, which is that of more heads",
        "As many heads or more: k goes from the wins to all tosses.",
        dict(chance=lambda wins, losses, n: _at_least(wins + 1, losses - 1, n)),
    ),
    (
        "right where neither is ahead; elsewhere the chance is that of more heads",
        "As many heads or more: k goes from the wins to all tosses.",
        dict(
            chance=lambda wins, losses, n: (
                _at_least(wins + 1, losses - 1, n) if wins > losses else 1
            )
        ),
    ),
    (
        "right but for the chance, which is that of just so many heads",
        "As many heads or more: add up.",
        dict(
            chance=lambda wins, losses, n: (
                math.comb(wins + losses, wins) / 2 ** (wins + losses) if wins > losses else 1
            )
        ),
    ),
    (
        "right but for the tosses, as which it counts all sentences",
        "Where both are right or both are wrong, nothing is decided: these are no tosses.",
        dict(chance=lambda wins, losses, n: _at_least(wins, n - wins, n)),
    ),
    (
        "right but for the tosses, which it approximates by a normal distribution",
        "Few tosses are not normal: add up the binomial coefficients, math.comb.",
        dict(
            chance=lambda wins, losses, n: (
                0.0 if wins - losses > 1.96 * math.sqrt(wins + losses) else 1.0
            )
        ),
    ),
    (
        "a list of pairs with enough more right, however many were lost",
        "Eight won and none lost is one thing, twenty won and twelve lost another: P looks at "
        "both.",
        dict(chance=lambda wins, losses, n: 0.0 if wins - losses >= 6 else 1.0),
    ),
    (
        "right but for the order: the worse one comes first",
        "(better, worse).",
        dict(finish=lambda pairs, rows: [pair[::-1] for pair in pairs]),
    ),
    (
        "right but for those that several are better than: one of these is named alone",
        "All pairs: each that is shown to be better makes one.",
        dict(finish=lambda pairs, rows: [*{b: (a, b) for a, b in sorted(pairs)}.values()]),
    ),
    (
        "right, and each pair once more the other way round",
        "If one is better than the other, the other is not better than the one.",
        dict(finish=lambda pairs, rows: [*pairs, *(pair[::-1] for pair in pairs)]),
    ),
    (
        "the first pair alone",
        "All pairs of which one is shown to be better.",
        dict(finish=lambda pairs, rows: pairs[:1]),
    ),
    (
        "a list of the pairs of which nothing is shown",
        "The pairs of which one is shown to be better.",
        dict(
            finish=lambda pairs, rows: [
                (a["translator"], b["translator"])
                for a in rows
                for b in rows
                if a is not b and (a["translator"], b["translator"]) not in pairs
            ]
        ),
    ),
):
    shown_better.wrong(name, hint)(_shown(**pieces))
