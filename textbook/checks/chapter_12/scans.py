"""A scan of any associative operation in logarithmic steps."""

import math

import minitorch as mt
from textbook.checks.compare import Words, brief
from textbook.checks.released import exercise


def affine(earlier, later):
    """h -> a h + x, one after the other; items are (a, x)."""
    return earlier[0] * later[0], later[0] * earlier[1] + later[1]


def product(earlier, later):
    """Matrices; the earlier one stands on the left."""
    return (earlier[0] @ later[0],)


def join_softmax(earlier, later):
    """Two parts of a softmax; items are (largest score, sum of exponentials, mixed values)."""
    largest = mt.maximum(earlier[0], later[0])
    one, two = (earlier[0] - largest).exp(), (later[0] - largest).exp()
    mixed = one.unsqueeze(-1) * earlier[2] + two.unsqueeze(-1) * later[2]
    return largest, one * earlier[1] + two * later[1], mixed


def _scan_cases(draw, others=()):
    for n in others or (1, 2, 3, 5, 8, 13):
        yield affine, (draw.normal(n, 4), draw.normal(n, 4))
        yield product, (draw.normal(n, 2, 2),)
        yield join_softmax, (300 * draw.normal(n), draw.normal(n).exp(), draw.normal(n, 3))


def _steps(n):
    return math.ceil(math.log2(n))


def _scanned(answer, combine, items):
    """The results, and whether combine was called seldom enough, with pairs few enough."""
    pairs, n = [], len(items[0])

    def counted(earlier, later):
        pairs.append(len(later[0]))
        return combine(earlier, later)

    result = answer(counted, items)
    if not isinstance(result, (tuple, list)):
        return {"the result, a tuple of tensors": Words(brief(result))}
    few = len(pairs) <= 2 * _steps(n) and sum(pairs) <= n * _steps(n)
    count = f"for n = {n} at most {2 * _steps(n)} calls with at most {n * _steps(n)} pairs"
    if not few:
        count = f"for n = {n} {len(pairs)} calls with {sum(pairs)} pairs"
    return {
        "the result, a tuple of tensors": Words("a tuple of tensors"),
        "the list of the numbers of rows": [len(x) for x in result],
        "the tuple of results": result,
        "the number of calls of combine": count,
    }


def _digits(earlier, later):
    """Numbers and their lengths, written one behind the other: (12, 2) and (3, 1) are (123, 3)."""
    return earlier[0] * 10 ** later[1] + later[0], earlier[1] + later[1]


def _what_rows_are(check, answer, *_):
    """Which rows each result stands for; each item is written as a digit."""
    for n in (4, 5, 7):
        digits, _ = answer(_digits, (mt.arange(1, n + 1), mt.ones(n).long()))
        found, wanted = digits.tolist(), [int("1234567"[: t + 1]) for t in range(n)]
        if len(found) != n:
            return f"Of {n} rows {len(found)} come back; row t of all {n} is asked for."
        for t, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one != other:
                return (
                    f"With {n} rows, the digits 1 to {n}, and a combine that writes them one "
                    f"behind the other, row {t} is {one}, and {other} belongs there."
                )
    return None


def _how_often(check, answer, combine, items):
    """Whether combine is called too often, though with the right rows."""
    calls, n = [], len(items[0])

    def counted(earlier, later):
        calls.append(len(later[0]))
        return combine(earlier, later)

    answer(counted, items)
    if len(calls) <= 2 * _steps(n):
        return None
    return (
        f"For n = {n} combine is called {len(calls)} times, and {2 * _steps(n)} times are allowed. "
        "Pairs that need not wait for each other belong into one call: put their rows together."
    )


scan = exercise(
    "scan",
    cases=_scan_cases,
    reasons=(_what_rows_are, _how_often),
    run=_scanned,
    gradients=False,
    see='chapter 12, "Recurrence comes back"',
)
