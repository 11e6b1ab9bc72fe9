"""What a table of steps needed says of who is faster."""

import math
import statistics

from textbook.checks.conclusions import as_pairs
from textbook.checks.exercise import exercise


def _row(name, rate, steps, budget=300, depth=6):
    return {"name": name, "depth": depth, "rate": rate, "budget": budget, "steps needed": steps}


table = [
    _row("no norm", 0.001, [None, None, None]),
    _row("no norm", 0.002, [118, None, None]),
    _row("no norm", 0.004, [None, None, None]),
    _row("post-norm", 0.001, [241, 236, 250]),
    _row("post-norm", 0.002, [180, 195, 187]),
    _row("post-norm", 0.004, [None, 131, None]),
    _row("pre-norm", 0.001, [170, 165, 181]),
    _row("pre-norm", 0.002, [124, 133, 129]),
    _row("pre-norm", 0.004, [149, 160, 141]),
    _row("RMSNorm", 0.001, [171, 176, 166]),
    _row("RMSNorm", 0.002, [127, 121, 136]),
    _row("RMSNorm", 0.004, [150, 144, 162]),
    _row("small start", 0.001, [205, 260, 233]),
    _row("small start", 0.002, [152, 188, 171]),
    _row("small start", 0.004, [119, 126, 122]),
    _row("slow schedule", 0.001, [410, 380, 395], budget=600),
    _row("slow schedule", 0.002, [320, 311, 350], budget=600),
    _row("slow schedule", 0.004, [351, 342, 390], budget=600),
]


RATES, FOUR = (0.001, 0.003, 0.01), (0.001, 0.003, 0.006, 0.01)


def _made_up(name, best, others, budget=300, depth=6, rates=RATES):
    """Rows of one name: the steps at the rate in the middle, and at the others."""
    for rate, steps in zip(rates, (others[0], best, *others[1:]), strict=True):
        yield _row(name, rate, steps, budget, depth)


def _table_cases(draw, later=0):
    """Tables with failures, edges, overlaps and other budgets."""
    yield (table,)
    none, slow = [None] * 3, [250, 260, 255]
    rows = [
        *_made_up("a", [100, 110, 120], (slow, slow)),
        *_made_up("b", [130, 125, 140], (slow, none)),
        *_made_up("c", [119, 135, 150], (slow, slow)),
        *_made_up("d", [90, None, 95], (slow, none)),
        *_made_up("e", [80, None, None], ([200, 210, 220], none)),
        *_made_up("f", slow, ([70, 75, 72], none)),
        *_made_up("g", slow, (none, [60, 61, 62])),
        *_made_up("h", [50, 55, 60], ([100] * 3, [100] * 3), budget=200),
        *_made_up("i", [150, 155, 160], ([170] * 3, [190] * 3), budget=200),
        *_made_up("j", [40, 45, 42], (none, none), depth=2),
        *_made_up("k", [85, 95, 240], ([90, None, None], [99, 98, 97])),
        *_made_up("l", none, (none, none)),
        *_made_up("m", [150, None, 145], (none, none), depth=2),
        *_made_up("o", [240, 241, 242], ([239, 290, 290], none), depth=8),
        *_made_up("p", [130, 131, 132], ([250, 120, 250], none), depth=8),
        *_made_up("q", [100, 200], ([299, 299], [298, 298]), depth=12),
        *_made_up("r", [250, 260], ([290, 295], [291, None]), depth=12),
        *_made_up("s", [None, 150, 160, 170, None], ([290] * 5, none + none[:2]), depth=3),
        *_made_up("t", [200, 210, 220, 230, 240], ([290] * 5, none + none[:2]), depth=3),
        *_made_up("u", [100, 150, 120], (slow, none), depth=4),
        *_made_up("v", [140, 160, 130], (slow, none), depth=4),
        *_made_up("w", [100, 190, 100], ([150] * 3, [151] * 3), depth=5),
        *_made_up("x", [200, 201, 202], (slow, slow), depth=5),
        *_made_up("aa", [100, 105, 110], (slow, slow), depth=7),  # ends where the next one begins
        *_made_up("ab", [110, 115, 120], (slow, slow), depth=7),
        *_made_up("ac", [100, 101, 102], (slow, none), depth=9, rates=(0.0001, 0.001, 0.003)),
        *_made_up("ad", [100, 110, 120], (slow, [90, 110, 140], slow), depth=9, rates=FOUR),
        *_made_up("ae", [121, 130, 141], (slow, slow), depth=9),
        *_made_up("af", [90, 190], ([139, 142], [100, 400]), depth=10),
        *_made_up("ag", [191, 195], ([299, 299], [298, 298]), depth=10),
        *_made_up("ah", [250, 255, None], (slow[:2] + [None], none), depth=10, budget=260),
        *_made_up("ai", [70, 80, 90], (slow, slow), depth=10, budget=260),
        *_made_up("aj", none, ([None, None, 100], none), depth=10, budget=260),
        *_made_up("ak", none, ([None, None, 100], [None, None, 100]), depth=13),
        *_made_up("al", [100, 110, 120], (slow, slow), depth=13),
        *_made_up("am", [280, None, None, 290], (none + [None], [295, None, None, None]), depth=13),
        *_made_up("ao", [100, 101, 102], ([250, None, 260], slow), depth=14),
        *_made_up("ap", [150, 160, 170], (slow, slow), depth=14),
        *_made_up("aq", [50, 60, 70], (slow, slow), depth=15),
        *_made_up("ar", [90, None, 95], (slow, none), depth=15),
        *_made_up("as", slow, (slow, [70, 75, 72]), depth=16, rates=(0.0001, 0.001, 0.003)),
        *_made_up("at", [150, 160, 170], (slow, slow), depth=16),
        *_made_up("an", [280, None, None, 290], ([292] * 4, none + [None]), depth=13),
    ]
    rows = [
        row | {"steps needed": [s if s is None else s + later for s in row["steps needed"]]}
        for row in rows
    ]
    yield ([rows[i] for i in draw.random.permutation(len(rows))],)
    yield ([row for row in rows if row["name"] in "ab"],)


def _as_set(answer, rows):
    """The pairs in any order."""
    return as_pairs(answer(rows), "faster")


def _never(steps):
    """Steps as numbers: never is infinite."""
    return [math.inf if s is None else s for s in steps]


def _arrived(steps):
    return [s for s in steps if s is not None] or [math.inf]


def _chosen(rows, name):
    """The row of a name with the best rate, or why there is none."""
    own = [row for row in rows if row["name"] == name]
    rates = [row["rate"] for row in own]
    best = min(own, key=lambda row: (statistics.median(_never(row["steps needed"])), row["rate"]))
    if statistics.median(_never(best["steps needed"])) == math.inf:
        return None, f"is left out: at none of its rates is the median of {name!r} finite"
    if best["rate"] in (min(rates), max(rates)):
        edge = "smallest" if best["rate"] == min(rates) else "largest"
        return None, (
            f"is left out: its best rate, {best['rate']}, is the {edge} of all that it was given, "
            "those that never arrived included"
        )
    return best, None


def _by_the_rules(check, answer, rows):
    """The first pair that is wrongly there or missing, with the rule that it breaks."""
    found, right = set(map(tuple, answer(rows))), set(check.reference(rows))
    for one, other in sorted(found - right):
        pair = f"{one!r} faster than {other!r} is concluded, but"
        for name in (one, other):
            if reason := _chosen(rows, name)[1]:
                return f"{pair} {name!r} {reason}."
        a, b = (_chosen(rows, name)[0] for name in (one, other))
        for key in ("depth", "budget"):
            if a[key] != b[key]:
                return f"{pair} their {key}s are {a[key]} and {b[key]}."
        both = f"{_runs(rows, a)}, and {_runs(rows, b)}"
        return f"{pair} {both}: not every seed of one before all of the other."
    for one, other in sorted(right - found):
        a, b = (_chosen(rows, name)[0] for name in (one, other))
        return f"{one!r} faster than {other!r} is missing: {_runs(rows, a)}, and {_runs(rows, b)}."
    return None


def _runs(rows, best):
    text = f"{best['name']!r} needs {best['steps needed']} at its best rate, {best['rate']}"
    median = statistics.median(_never(best["steps needed"]))
    for row in rows:
        tied = statistics.median(_never(row["steps needed"])) == median
        if row["name"] == best["name"] and row["rate"] != best["rate"] and tied:
            return f"{text} (at {row['rate']} the median is the same: the smaller rate counts)"
    return text


@exercise(
    cases=_table_cases,
    hidden_cases=lambda draw: _table_cases(draw, later=7),
    run=_as_set,
    reasons=(_by_the_rules,),
    gradients=False,
    see='chapter 09, "Speed of training (C21)"',
)
def faster(rows):
    """Pairs (faster, slower) of names, as far as the table allows."""

    def steps(row):
        return [math.inf if s is None else s for s in row["steps needed"]]

    best = {}
    for name in {row["name"] for row in rows}:
        own = [row for row in rows if row["name"] == name]
        rates = [row["rate"] for row in own]
        chosen = min(own, key=lambda row: (statistics.median(steps(row)), row["rate"]))
        known = statistics.median(steps(chosen)) < math.inf
        if known and min(rates) < chosen["rate"] < max(rates):
            best[name] = chosen
    return [
        (one, other)
        for one, a in best.items()
        for other, b in best.items()
        if (a["depth"], a["budget"]) == (b["depth"], b["budget"]) and max(steps(a)) < min(steps(b))
    ]
