"""A scan of any associative operation in logarithmic steps."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise


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


def _scan_cases(draw, hidden):
    for n in (1, 4, 7, 16, 21) if hidden else (1, 2, 3, 5, 8, 13):
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
    few = len(pairs) <= 2 * _steps(n) and sum(pairs) <= n * _steps(n)
    count = f"for n = {n} at most {2 * _steps(n)} calls with at most {n * _steps(n)} pairs"
    if not few:
        count = f"for n = {n} {len(pairs)} calls with {sum(pairs)} pairs"
    return {
        "the list of the numbers of rows": [len(x) for x in result],
        "the tuple of results": result,
        "the number of calls of combine": count,
    }


def _rows(items, rows):
    return tuple(x[rows] for x in items)


def _join(*parts):
    return tuple(mt.cat(pieces) for pieces in zip(*parts, strict=True))


def _scanning(
    offsets=lambda n: [2**i for i in range(_steps(n))],
    pair=lambda combine, earlier, later: combine(earlier, later),
    before=lambda items, first: items,
):
    """The scan with one of its pieces exchanged."""

    def scan(combine, items):
        first = items
        for offset in offsets(len(items[0])):
            earlier = _rows(before(items, first), slice(None, -offset))
            later = _rows(items, slice(offset, None))
            items = _join(_rows(items, slice(offset)), pair(combine, earlier, later))
        return items

    return scan


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


@exercise(
    cases=_scan_cases,
    reasons=(_what_rows_are, _how_often),
    run=_scanned,
    gradients=False,
    see='chapter 12, "Recurrence comes back"',
)
def scan(combine, items):
    """Items, a tuple of tensors (n, ...), combined from row 0 to each row: a tuple like items."""
    n, offset = len(items[0]), 1
    while offset < n:
        earlier = tuple(x[:-offset] for x in items)
        later = tuple(x[offset:] for x in items)
        joined = combine(earlier, later)
        items = tuple(mt.cat([x[:offset], y]) for x, y in zip(items, joined, strict=True))
        offset *= 2
    return items


@scan.wrong(
    "right, but a loop: n - 1 calls of combine, one after the other",
    "Combine many pairs of rows in one call: first all neighbours, then all rows two apart, then "
    "four apart, and so on.",
)
def _(combine, items):
    rows = [_rows(items, slice(1))]
    for t in range(1, len(items[0])):
        rows.append(combine(rows[-1], _rows(items, slice(t, t + 1))))
    return _join(*rows)


scan.wrong(
    "right where the order does not matter: the later rows are given to combine first",
    "combine takes what is earlier first. Matrices, for one, must stay in order.",
)(_scanning(pair=lambda combine, earlier, later: combine(later, earlier)))
scan.wrong(
    "right where the order does not matter: the offsets fall, from large to small",
    "Begin with neighbours. A row must stand for rows without a gap before it meets others.",
)(_scanning(offsets=lambda n: [2**i for i in reversed(range(_steps(n)))]))
scan.wrong(
    "a scan that stops too early: the last offset is missing",
    "Go on as long as the offset is smaller than n: ceil(log2(n)) steps.",
)(_scanning(offsets=lambda n: [2**i for i in range(_steps(n))][:-1]))
scan.wrong(
    "right where n is a power of two: it makes log2(n) steps, rounded down",
    "For n = 5 the offsets are 1, 2 and 4: round up.",
)(_scanning(offsets=lambda n: [2**i for i in range(int(math.log2(n)))]))
scan.wrong(
    "a scan whose offset stays 1",
    "After a step each row stands for two rows: the next offset is 2, then 4.",
)(_scanning(offsets=lambda n: [1] * _steps(n)))
scan.wrong(
    "a scan whose offset grows by 1",
    "After a step each row stands for two rows, after the next for four: double the offset, or "
    "rows are counted twice.",
)(_scanning(offsets=lambda n: list(range(1, _steps(n) + 1))))
scan.wrong(
    "a scan whose offsets begin with 2",
    "The neighbour comes first: 1, 2, 4.",
)(_scanning(offsets=lambda n: [2**i for i in range(1, _steps(n))]))
scan.wrong(
    "a scan that always takes the items as they were for the earlier rows",
    "In each step combine the results of the step before, earlier and later ones.",
)(_scanning(before=lambda items, first: first))


@scan.wrong(
    "a scan from the end: row t holds what comes from t on",
    "Row t is the rows 0 to t, combined.",
)
def _(combine, items):
    offset = 1
    while offset < len(items[0]):
        joined = combine(_rows(items, slice(None, -offset)), _rows(items, slice(offset, None)))
        items = _join(joined, _rows(items, slice(-offset, None)))
        offset *= 2
    return items


@scan.wrong(
    "a scan in which the last rows come around to the first, as with roll",
    "The first rows have nothing that far before them: they stay as they are.",
)
def _(combine, items):
    offset = 1
    while offset < len(items[0]):
        items = combine(tuple(x.roll(offset, 0) for x in items), items)
        offset *= 2
    return items


@scan.wrong(
    "one scan step: each row with its neighbour",
    "Repeat it with the offsets 2, 4, and so on, until the last row has seen the first.",
)
def _(combine, items):
    return _scanning(offsets=lambda n: [1] * (n > 1))(combine, items)


@scan.wrong(
    "all rows combined: the last row of what is asked",
    "Return every row from 0 to n - 1, each combined with all before it.",
)
def _(combine, items):
    return _rows(scan.reference(combine, items), slice(-1, None))


scan.wrong(
    "sums of all beginnings: combine is not used",
    "combine says what p o q is: a matrix product, for one, or two parts of a softmax.",
)(lambda combine, items: tuple(x.cumsum(dim=0) for x in items))


@scan.wrong(
    "a scan in which rows without a partner are combined with zeros",
    "Zeros are neutral in a sum alone. The first rows have nothing that far before them: they stay "
    "as they are.",
)
def _(combine, items):
    offset = 1
    while offset < len(items[0]):
        before = tuple(mt.cat([mt.zeros_like(x[:offset]), x[:-offset]]) for x in items)
        items = combine(before, items)
        offset *= 2
    return items
