"""Longer texts than trained: what rotary angles do there, and what a table of results says."""

import math
import statistics

from textbook.checks.conclusions import as_pairs
from textbook.checks.exercise import exercise
from textbook.lab import finding

# What a longer context does to the angles


def _context_cases(draw, more=()):
    yield from [(8, 10_000.0, 20, 64), (4, 100.0, 7, 33), (64, 10_000.0, 2048, 8192)]
    yield 8, 2.0, 500, 900
    yield from more


@exercise(
    cases=_context_cases,
    hidden_cases=lambda draw: _context_cases(
        draw, more=[(6, 500.0, 128, 129), (128, 500_000, 8192, 131_072), (16, 10.0, 7, 100)]
    ),
    gradients=False,
    see='chapter 08, "Rotary positions"',
)
def longer_context(d, base, trained, longer):
    """Pairs that have been around in training, and two remedies for a longer text: a dict."""
    last, end = trained - 1, longer - 1  # the largest places
    around = [m for m in range(d // 2) if base ** (-2 * m / d) * last >= 2 * math.pi]
    return {
        "pairs that have been around": len(around),
        "squeeze": last / end,
        "base": base * (end / last) ** (d / (d - 2)),
    }


# What a table of results says


def _row(scheme, tested, right, steps=400, rates=3, trained=20):
    return {
        "scheme": scheme,
        "trained to": trained,
        "tested at": tested,
        "steps": steps,
        "rates tried": rates,
        "right": right,
    }


def _rows_of(scheme, inside, beyond, longer=64, trained=20, **settings):
    """Both rows of a scheme, for its shares inside and beyond what was trained; made up."""
    whole = [
        (trained * x + (longer - trained) * y) / longer for x, y in zip(inside, beyond, strict=True)
    ]
    for n, values in ((trained, inside), (longer, whole)):
        yield _row(scheme, n, [round(x, 4) for x in values], trained=trained, **settings)


table = [
    _row("table of places", 20, [0.98, 0.97, 0.99, 0.98, 0.97]),
    _row("table of places", 64, [0.35, 0.36, 0.35, 0.36, 0.35]),
    _row("sinusoids", 20, [0.96, 0.97, 0.95, 0.96, 0.95]),
    _row("sinusoids", 64, [0.37, 0.35, 0.36, 0.35, 0.36]),
    _row("relative", 20, [0.90, 0.91, 0.89, 0.90, 0.91]),
    _row("relative", 64, [0.83, 0.86, 0.84, 0.85, 0.83]),
    _row("ALiBi", 20, [0.97, 0.98, 0.97, 0.97, 0.98]),
    _row("ALiBi", 64, [0.70, 0.91, 0.79, 0.90, 0.72]),
    _row("rotary", 20, [0.99, 0.99, 0.99, 0.98, 0.99], steps=1200),
    _row("rotary", 64, [0.62, 0.60, 0.61, 0.62, 0.60], steps=1200),
    _row("index", 20, [0.40, 0.42, 0.41, 0.40, 0.41], rates=1),
    _row("index", 64, [0.24, 0.25, 0.24, 0.23, 0.25], rates=1),
]

LITTLE = (-0.01, 0.01, 0.0, 0.005, -0.005)
MUCH = (-0.1, 0.1, 0.0, 0.05, -0.05)
EIGHT = (*MUCH, 0.02, -0.02, 0.0)


def _table_cases(draw, altered=lambda a, b: (a, b)):
    """Tables in which few rows may be compared, and some differences are no more than noise."""
    yield (table,)
    inside = [("a", 0.95, 0.2, {}), ("b", 0.6, 0.5, {}), ("i", 0.3, 0.42, {})]
    inside += [("c", 0.9, 0.8, {"steps": 900}), ("h", 0.95, 0.3, {"steps": 900})]
    inside += [("d", 0.9, 0.1, {"rates": 1}), ("m", 0.7, 0.4, {"rates": 1})]
    inside += [("f", 0.7, 0.9, {"by": LITTLE[:4]}), ("l", 0.99, 0.1, {"by": LITTLE[:4]})]
    inside += [("g", 0.2, 0.95, {"trained": 12}), ("k", 0.8, 0.7, {"trained": 12})]
    inside += [("j", 0.9, 0.7, {"longer": 100}), ("n", 0.9, 0.2, {"longer": 100})]
    inside += [("o", 0.9, 0.3, {"longer": 100, "by": (*LITTLE, 0.0)})]
    same, other = {"steps": 700, "by": MUCH}, {"steps": 710, "by": MUCH}
    inside += [("p", 0.9, 0.5, same), ("q", 0.9, 0.52, same)]
    inside += [("r", 0.9, 0.5, other), ("s", 0.9, 0.55, other | {"by": MUCH[::-1]})]
    seven = tuple(x + 0.1 for x in EIGHT[:7]) + (EIGHT[7] - 0.01,)
    inside += [("t", 0.9, 0.5, {"steps": 720, "by": EIGHT})]
    inside += [("u", 0.9, 0.5, {"steps": 720, "by": seven})]
    inside += [("v", 0.9, 0.5, {"steps": 730, "by": LITTLE})]
    four = tuple(x + 0.1 for x in LITTLE[:4]) + (LITTLE[4] - 0.001,)
    inside += [("w", 0.9, 0.5, {"steps": 730, "by": four})]
    apart = (0.0, 0.1, 0.0, 0.1, 0.0)
    inside += [("x", 0.9, 0.5, {"steps": 740, "by": apart})]
    inside += [("y", 0.9, 0.606, {"steps": 740, "by": apart})]
    rows = []
    for scheme, a, b, given in inside:
        a, b = altered(a, b)
        settings = dict(given)
        shifts = settings.pop("by", LITTLE)
        rows += _rows_of(scheme, [a] * len(shifts), [b + x for x in shifts], **settings)
    yield ([rows[i] for i in draw.random.permutation(len(rows))],)
    yield (rows[:4],)


def _as_set(answer, rows):
    """The pairs in any order."""
    return as_pairs(answer(rows), "better")


def _beyond(row, inside):
    """The share at the places beyond, seed by seed."""
    n, trained = row["tested at"], row["trained to"]
    return [
        (n * whole - trained * part) / (n - trained)
        for whole, part in zip(row["right"], inside["right"], strict=True)
    ]


SAME = ["trained to", "tested at", "steps", "rates tried"]


def _why(check, answer, rows):
    """A sentence on the first pair that is missing, or should not be there."""
    found, right = list(answer(rows)), check.reference(rows)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found):
        return None
    found = [tuple(pair) for pair in found]
    missing = [pair for pair in right if pair not in found]
    pairs = missing or [pair for pair in found if pair not in right]
    inside = {row["scheme"]: row for row in rows if row["tested at"] == row["trained to"]}
    longer = {row["scheme"]: row for row in rows if row["tested at"] > row["trained to"]}
    if not pairs or not all(scheme in longer for scheme in pairs[0]):
        return None
    one, other = pairs[0]
    text = f"('{one}', '{other}') {'is missing' if missing else 'is not in it'}: "
    for key in SAME:
        settings = longer[one][key], longer[other][key]
        if settings[0] != settings[1]:
            return text + f"they differ in '{key}', {settings[0]} and {settings[1]}."
    x, y = (_beyond(longer[scheme], inside[scheme]) for scheme in (one, other))
    if len(x) != len(y) or len(x) < 5:
        return text + f"they have {len(x)} and {len(y)} seeds."
    means = f"{statistics.fmean(x):.3f} and {statistics.fmean(y):.3f}"
    return text + f"the mean shares beyond are {means}, and p is {finding(x, y).p:.3f}."


def _in_order(check, answer, rows):
    """Right as long as the rows of a scheme stand in the order of their lengths."""
    ordered = sorted(rows, key=lambda row: row["tested at"])
    if _as_set(answer, ordered) == _as_set(check.reference, rows):
        return (
            "With the rows in the order of 'tested at' it is right. They come in any order: which "
            "row of a scheme is which, 'tested at' and 'trained to' say."
        )
    return None


@exercise(
    cases=_table_cases,
    hidden_cases=lambda draw: _table_cases(draw, altered=lambda a, b: (1 - a, 0.9 * b)),
    run=_as_set,
    reasons=(_in_order, _why),
    gradients=False,
    see='chapter 08, "Longer than trained (C17)"',
)
def concluded(rows):
    """Pairs (better, worse) of schemes, as far as the table allows."""
    schemes = {}
    for row in rows:
        schemes.setdefault(row["scheme"], []).append(row)
    beyond, setting = {}, {}
    for scheme, both in schemes.items():
        inside, longer = sorted(both, key=lambda row: row["tested at"])
        T, n = inside["tested at"], longer["tested at"]
        shares = zip(inside["right"], longer["right"], strict=True)
        beyond[scheme] = [(n * whole - T * part) / (n - T) for part, whole in shares]
        setting[scheme] = [T, n, longer["steps"], longer["rates tried"]]
    found = []
    for one, x in beyond.items():
        for other, y in beyond.items():
            if setting[one] == setting[other] and len(x) == len(y) and finding(x, y).found:
                found.append((one, other))
    return found
