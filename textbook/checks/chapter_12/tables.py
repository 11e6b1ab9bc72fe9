"""Which rows of a table of runs may be believed."""

from textbook.checks.exercise import Draw
from textbook.checks.released import exercise
from textbook.lab import finding

RATES = [0.003, 0.01, 0.03]


def _row(losses, base_losses, **other):
    """A row that was measured as it should be, but for what `other` says.

    Both rates are chosen on the same data, unless it says where the base's was.
    """
    chosen_on = other.get("chosen on", "validation")
    return (
        other
        | {
            "losses": [round(x, 3) for x in losses],
            "base losses": [round(x, 3) for x in base_losses],
            "rate": 0.01,
            "base rate": 0.01,
            "rates tried": RATES,
            "base rates tried": RATES,
            "chosen on": chosen_on,
            "base chosen on": chosen_on,
            "steps": 300,
            "base steps": 300,
        }
        | other
    )


runs = [  # made up, each after a real habit
    _row([1.52, 1.49], [1.71, 1.70], change="gated network"),
    _row([1.58, 1.44, 1.74, 1.47, 1.72], [1.70, 1.71, 1.69, 1.70, 1.71], change="no norm"),
    _row([1.65, 1.70, 1.61, 1.68, 1.66], [1.69, 1.75, 1.67, 1.71, 1.70], change="rotary positions"),
    _row(
        [1.60, 1.59, 1.61, 1.58, 1.60],
        [1.70, 1.71, 1.69, 1.70, 1.72],
        change="parallel block",
        steps=1200,
    ),
    _row(
        [1.57, 1.58, 1.56, 1.57, 1.59],
        [1.86, 1.88, 1.87, 1.85, 1.87],
        change="token shift",
        **{"base rate": 0.003},
    ),
    _row(
        [1.675, 1.673, 1.677, 1.672, 1.676],
        [1.690, 1.688, 1.692, 1.689, 1.691],
        change="other activation",
    ),
    _row(
        [1.63, 1.62, 1.64, 1.63, 1.61],
        [1.70, 1.71, 1.69, 1.70, 1.71],
        change="tied weights",
        **{"chosen on": "test"},
    ),
    _row([1.685, 1.70, 1.68, 1.69, 1.715], [1.70, 1.71, 1.69, 1.70, 1.705], change="other norm"),
]


def _table_cases(draw, level=2.0, count=8):
    """The table of the statement; tables whose rows lack one thing; rows that mix them."""
    yield (runs,)
    seeds = [0.05, -0.05, 0.02, -0.02, 0.0]
    base = [level + x for x in seeds]
    far = [x - 0.2 for x in base[::-1]]
    less = [0.01, 0.02, 0.01, 0.03, 0.01]
    yield ([_row(far, base)],)
    yield ([_row([x - y for x, y in zip(base, less, strict=True)], base)],)
    yield ([_row([x - 0.01 for x in base[::-1]], base), _row(far, base)],)
    yield ([_row([*far[:4], base[4] + 0.01], base)],)
    yield ([_row([base[0] - 0.5, *(x + 0.01 for x in base[1:])], base)],)
    eight = [level + x for x in (*seeds, 0.03, 0.01, -0.03)]
    yield ([_row([*(x - 0.1 for x in eight[:7]), eight[7] + 0.01], eight)],)
    yield ([_row([*(x - 0.02 for x in eight[:6]), *(x + 0.03 for x in eight[6:])], eight)],)
    yield ([_row([x + 0.2 for x in base], base)],)
    yield ([_row(far[:4], base[:4]), _row(far, base)],)
    yield ([_row([level - 0.2 + 0.01 * i for i in range(3)], [level] * 3)],)
    yield ([_row([*far, level - 0.2], base), _row(far, [*base, level])],)
    yield ([_row(base, base)],)
    yield ([_row(far, base, **{"chosen on": "test"})],)
    yield ([_row(far, base, **{"chosen on": "test", "base chosen on": "validation"})],)
    yield ([_row(far, base, **{"base chosen on": "test"})],)
    yield ([_row(far, base, **{"base steps": 100}), _row(far, base)],)
    yield ([_row(far, base, steps=100, **{"base steps": 100})],)
    for whose in "", "base ":
        for rate in min(RATES), max(RATES):
            yield ([_row(far, base, **{f"{whose}rate": rate})],)
    yield ([_row(far, base, rate=0.02, **{"rates tried": [0.02]})],)
    yield ([_row(far, base, rate=0.02, **{"rates tried": [0.02, 0.05, 0.005]})],)
    yield ([_row(far, base, **{"base rate": 0.02, "base rates tried": [0.04, 0.02, 0.005]})],)
    wide = {"base rate": 0.02, "base rates tried": [0.005, 0.02, 0.05]}
    yield ([_row(far, base, **wide, rate=0.003, **{"rates tried": [0.001, 0.003, 0.01]})],)
    yield ([_row(far, base, rate=0.02, **{"rates tried": [0.005, 0.02, 0.05]})],)
    wide = {"base rate": 0.02, "base rates tried": [0.02, 0.005, 0.01]}
    yield ([_row(far, base, **wide), _row(far, base, steps=100)],)
    yield (_random_rows(draw, count),)


def _random_rows(draw, count):
    random = draw.random
    rows = []
    for _ in range(count):
        seeds, gap = int(random.integers(4, 8)), random.choice([0.02, 0.4])
        base, ours = (random.normal(2, 0.03, seeds) for _ in range(2))
        other = {
            "rate": float(random.choice([0.01, 0.01, 0.03])),
            "base rate": float(random.choice([0.01, 0.01, 0.003])),
            "chosen on": str(random.choice(["validation", "validation", "validation", "test"])),
            "base steps": int(random.choice([300, 300, 300, 200])),
        }
        rows.append(_row([float(x - gap) for x in ours], [float(x) for x in base], **other))
    return rows


def _inside(rate, tried):
    return min(tried) < rate < max(tried)


def _seeds(row):
    return len(row["losses"]) == len(row["base losses"]) >= 5


def _found(row, paired=True):
    return finding(row["base losses"], row["losses"], paired=paired)


def _rates(row):
    return _inside(row["rate"], row["rates tried"]) and _inside(
        row["base rate"], row["base rates tried"]
    )


def _choice(row):
    return row["chosen on"] == row["base chosen on"] == "validation"


def _steps(row):
    return row["steps"] == row["base steps"]


def _effect(row):
    return _found(row).p <= 0.05


RULES = {
    "there are too few seeds, or not the same number of both": _seeds,
    "a rate stands at an edge of those tried for it": _rates,
    "the test data had a part in the choice": _choice,
    "one was trained longer": _steps,
    "the difference is no finding, p is above 0.05": _effect,
}


def _first_wrong(check, answer, *_):
    """One row that is missing or one too many, and what to look at."""
    for (rows,) in _table_cases(Draw(0)):
        found, right = (list(function(rows)) for function in (answer, check.reference))
        wrong = sorted(set(found) ^ set(right))
        if not wrong or not set(found) <= set(range(len(rows))):
            continue
        row = rows[wrong[0]]
        lacks = [why for why, rule in RULES.items() if not rule(row)]
        verdict = lacks[0] if lacks else "nothing is wrong with it, and it is missing"
        return f"Look at row {wrong[0]} of these {len(rows)}, {_told(row)}: {verdict}."
    return None


def _told(row):
    losses = (" ".join(f"{x:.3f}" for x in row[key]) for key in ("losses", "base losses"))
    return (
        "losses {}, base {}, rate {:g} of {}, base rate {:g} of {}, chosen on {}, the base's "
        "on {}, {} and {} "
        "steps".format(
            *losses,
            row["rate"],
            row["rates tried"],
            row["base rate"],
            row["base rates tried"],
            row["chosen on"],
            row["base chosen on"],
            row["steps"],
            row["base steps"],
        )
    )


believable = exercise(
    "believable",
    cases=_table_cases,
    reasons=(_first_wrong,),
    see='chapter 12, "Do modifications transfer?"',
)
