"""Which rows of a table of runs may be believed."""

import math
import operator
import statistics

from textbook.checks.exercise import Draw, exercise

RATES = [0.003, 0.01, 0.03]


def _row(losses, base_losses, **other):
    """A row that was measured as it should be, but for what `other` says."""
    return (
        other
        | {
            "losses": [round(x, 3) for x in losses],
            "base losses": [round(x, 3) for x in base_losses],
            "rate": 0.01,
            "base rate": 0.01,
            "rates tried": RATES,
            "base rates tried": RATES,
            "chosen on": "validation",
            "steps": 300,
            "base steps": 300,
        }
        | other
    )


runs = [  # made up, each after a real habit
    _row([1.52, 1.49], [1.71, 1.70], change="gated network"),
    _row([1.58, 1.44, 1.66], [1.70, 1.71, 1.69], change="no norm"),
    _row([1.61, 1.60, 1.62], [1.70, 1.71, 1.69], change="rotary positions"),
    _row([1.60, 1.59, 1.61], [1.70, 1.71, 1.69], change="parallel block", steps=1200),
    _row([1.57, 1.58, 1.56], [1.86, 1.88, 1.87], change="token shift", **{"base rate": 0.003}),
    _row([1.675, 1.673, 1.677], [1.690, 1.688, 1.692], change="other activation"),
    _row([1.63, 1.62, 1.64], [1.70, 1.71, 1.69], change="tied weights", **{"chosen on": "test"}),
    _row([1.685, 1.70, 1.68], [1.70, 1.71, 1.69], change="other norm"),
]


def _table_cases(draw, hidden):
    """The table of the statement; tables whose rows lack one thing; rows that mix them."""
    yield (runs,)
    level = 1.5 if hidden else 2.0
    base = [level + x for x in (0.02, -0.02, 0.0)]
    far = [x - 0.2 for x in base[::-1]]
    near = [level - 0.03 + x for x in (0.0, 0.02, -0.02)]
    restless = [level - 0.15 + x for x in (0.1, -0.1, 0.0)]
    yield ([_row(far, base)],)
    yield ([_row(near, base), _row(far, base)],)
    yield ([_row(restless, base)],)
    yield ([_row(base, [x + 0.3 for x in restless])],)
    yield ([_row([level - 0.01] * 3, [level + 0.3, level, level])],)
    yield ([_row([x + 0.2 for x in base], base)],)
    yield ([_row([level + 0.25, *[level - 0.15 + x for x in (0, 0.01, 0.02)]], base)],)
    yield ([_row(far[:2], base[:2]), _row(far, base)],)
    yield ([_row(far, base[:1]), _row(far[:1], base)],)
    yield ([_row(far, base[:2]), _row(far[:2], base)],)
    yield ([_row(far, base, **{"chosen on": "test"})],)
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
    skewed = [level, level, level, level + 0.1]  # the median is lower than the mean
    yield ([_row(skewed, [level + x for x in (0.111, 0.11, 0.109)])],)
    just = [level + x for x in (0.05, 0.0, -0.05)]
    for gap in (0.09, 0.11):  # twice the standard deviation is 0.1; other divisors give 0.082
        yield ([_row([x - gap for x in just], just)],)
    yield (_random_rows(draw, 12 if hidden else 8),)


def _random_rows(draw, count):
    random = draw.random
    rows = []
    for _ in range(count):
        seeds, gap = int(random.integers(2, 6)), random.choice([0.02, 0.4])
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


def _gap(row):
    return statistics.mean(row["base losses"]) - statistics.mean(row["losses"])


def _spread(row):
    return max(statistics.stdev(row["losses"]), statistics.stdev(row["base losses"]))


def _seeds(row):
    return min(len(row["losses"]), len(row["base losses"])) >= 3


def _rates(row):
    return _inside(row["rate"], row["rates tried"]) and _inside(
        row["base rate"], row["base rates tried"]
    )


def _choice(row):
    return row["chosen on"] == "validation"


def _steps(row):
    return row["steps"] == row["base steps"]


def _exceeding(both=max, deviation=statistics.stdev):
    """Whether the gap is larger than twice what ``both`` makes of the two standard deviations."""
    return lambda row: (
        _gap(row) > 2 * both(*(deviation(row[key]) for key in ("losses", "base losses")))
    )


_effect = _exceeding()


RULES = {
    "there are too few seeds": _seeds,
    "a rate stands at an edge of those tried for it": _rates,
    "the test data had a part in the choice": _choice,
    "one was trained longer": _steps,
    "the means differ by no more than twice the larger standard deviation": _effect,
}


def _believing(seeds=_seeds, rates=_rates, choice=_choice, steps=_steps, effect=_effect):
    """The judgement with one of its pieces exchanged."""

    def believing(rows):
        rules = (seeds, rates, choice, steps, effect)
        return [i for i, row in enumerate(rows) if all(rule(row) for rule in rules)]

    return believing


def _anything(row):
    return True


def _first_wrong(check, answer, *_):
    """One row that is missing or one too many, and what to look at."""
    for (rows,) in _table_cases(Draw(0), hidden=False):
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
        "losses {}, base {}, rate {:g} of {}, base rate {:g} of {}, chosen on {}, {} and {} "
        "steps".format(
            *losses,
            row["rate"],
            row["rates tried"],
            row["base rate"],
            row["base rates tried"],
            row["chosen on"],
            row["steps"],
            row["base steps"],
        )
    )


@exercise(
    cases=_table_cases, reasons=(_first_wrong,), see='chapter 12, "Do modifications transfer?"'
)
def believable(rows):
    """The numbers of the rows of which one may say: this change makes the loss lower."""
    found = []
    for number, row in enumerate(rows):
        ours, base = row["losses"], row["base losses"]
        if min(len(ours), len(base)) < 3:
            continue
        spread = max(statistics.stdev(ours), statistics.stdev(base))
        inside = all(
            min(row[f"{whose}rates tried"]) < row[f"{whose}rate"] < max(row[f"{whose}rates tried"])
            for whose in ("", "base ")
        )
        fair = row["chosen on"] == "validation" and row["steps"] == row["base steps"]
        if inside and fair and statistics.mean(base) - statistics.mean(ours) > 2 * spread:
            found.append(number)
    return found


_or_nothing = _exceeding(deviation=lambda x: statistics.stdev(x) if len(x) > 1 else 0.0)


believable.wrong(
    "a list of all rows with a better mean",
    "A difference alone says nothing. Look at the seeds, the rates, the choice and the steps.",
)(_believing(_anything, _anything, _anything, _anything, lambda row: _gap(row) > 0))
believable.wrong(
    "right but for the number of seeds, at which it does not look",
    "From one or two runs nobody knows the spread: ask for three of each.",
)(_believing(seeds=_anything, effect=_or_nothing))
believable.wrong(
    "right but for the number of seeds: it takes two for enough",
    "At least three runs of the change and three of the base.",
)(_believing(seeds=lambda row: min(len(row["losses"]), len(row["base losses"])) >= 2))
believable.wrong(
    "right but for the seeds of the base, which it does not count",
    "The base needs three runs as well: its spread counts, too.",
)(_believing(seeds=lambda row: len(row["losses"]) >= 3, effect=_or_nothing))
for _whose, _other, _words in (("", "base ", "base"), ("base ", "", "change")):
    believable.wrong(
        f"right but for the seeds of the {_words}, of which it takes two for enough",
        "At least three runs of the change and three of the base.",
    )(
        _believing(
            seeds=lambda row, whose=_whose, other=_other: (
                len(row[f"{whose}losses"]) >= 3 and len(row[f"{other}losses"]) >= 2
            )
        )
    )
believable.wrong(
    "right but for the learning rates, at which it does not look",
    "Where the best rate is the last one tried, a better one may lie beyond.",
)(_believing(rates=_anything))
believable.wrong(
    "right but for the learning rate of the base, at which it does not look",
    "A base with a bad rate makes every change look good. Its rate, too, must lie inside its grid.",
)(_believing(rates=lambda row: _inside(row["rate"], row["rates tried"])))
believable.wrong(
    "right but for the learning rate of the change, at which it looks for the base alone",
    "Both rates must lie inside the rates that were tried.",
)(_believing(rates=lambda row: _inside(row["base rate"], row["base rates tried"])))
believable.wrong(
    "right but for the learning rates: it looks at the upper edge alone",
    "The smallest rate that was tried is an edge, too.",
)(
    _believing(
        rates=lambda row: (
            row["rate"] < max(row["rates tried"])
            and row["base rate"] < max(row["base rates tried"])
        )
    )
)
believable.wrong(
    "right but for the learning rates: it looks at the lower edge alone",
    "The largest rate that was tried is an edge, too.",
)(
    _believing(
        rates=lambda row: (
            row["rate"] > min(row["rates tried"])
            and row["base rate"] > min(row["base rates tried"])
        )
    )
)
believable.wrong(
    "right for rates that are listed in order: it takes the first and the last for the edges",
    "The rates that were tried stand in any order: the edges are the smallest and the largest.",
)(
    _believing(
        rates=lambda row: (
            row["rate"] not in (row["rates tried"][0], row["rates tried"][-1])
            and row["base rate"] not in (row["base rates tried"][0], row["base rates tried"][-1])
        )
    )
)
believable.wrong(
    "right but for the learning rate of the base, which it compares with the rates of the change",
    "For the base other rates may have been tried: row['base rates tried'].",
)(
    _believing(
        rates=lambda row: (
            _inside(row["rate"], row["rates tried"])
            and _inside(row["base rate"], row["rates tried"])
        )
    )
)
believable.wrong(
    "right but for the steps: it lets the change train shorter than its base",
    "The shorter run has had less time for its rate to fall. Both must train equally long.",
)(_believing(steps=lambda row: row["steps"] <= row["base steps"]))
believable.wrong(
    "right but for the steps: it lets the base train shorter than the change",
    "Longer training alone makes the loss lower. Both must train equally long.",
)(_believing(steps=lambda row: row["steps"] >= row["base steps"]))
believable.wrong(
    "right but for the spread, for which it takes the smaller standard deviation",
    "Take the larger of the two.",
)(_believing(effect=_exceeding(min)))
believable.wrong(
    "right but for the spread: it takes the sum of both standard deviations",
    "Take the larger of the two.",
)(_believing(effect=_exceeding(operator.add)))
believable.wrong(
    "right but for the difference, which is that of the medians",
    "Compare the means, as the statement says: statistics.mean.",
)(
    _believing(
        effect=lambda row: (
            statistics.median(row["base losses"]) - statistics.median(row["losses"])
            > 2 * _spread(row)
        )
    )
)
believable.wrong(
    "right but for the choice: it believes rates that were chosen on the test data",
    "Who chooses by what is reported has tuned on it, and the number is too good.",
)(_believing(choice=_anything))
believable.wrong(
    "right but for the steps: it compares runs of different lengths",
    "Longer training alone makes the loss lower.",
)(_believing(steps=_anything))
believable.wrong(
    "right but for the spread, at which it does not look",
    "A difference that seeds alone would make is none.",
)(_believing(effect=lambda row: _gap(row) > 0))
believable.wrong(
    "right but for the spread: it asks for one standard deviation, not for two",
    "The difference of the means must exceed twice the larger standard deviation.",
)(_believing(effect=lambda row: _gap(row) > _spread(row)))
believable.wrong(
    "right but for the spread, which it takes of the base alone",
    "A change can make training restless. Take the larger of the two standard deviations.",
)(_believing(effect=_exceeding(lambda ours, base: base)))
believable.wrong(
    "right but for the spread, which it takes of the change alone",
    "Take the larger of the two standard deviations.",
)(_believing(effect=_exceeding(lambda ours, base: ours)))
believable.wrong(
    "right but for the spread, which is that of all numbers and not of a sample",
    "A standard deviation from a few runs divides by their number minus 1, as statistics.stdev.",
)(_believing(effect=_exceeding(deviation=statistics.pstdev)))
believable.wrong(
    "right but for the spread: it takes the root of the sum of both squares",
    "Take the larger of the two standard deviations.",
)(_believing(effect=_exceeding(math.hypot)))
believable.wrong(
    "right but for the direction: it takes a change in any direction",
    "What is claimed is that the change lowers the loss. A loss that grows does not show it.",
)(_believing(effect=lambda row: abs(_gap(row)) > 2 * _spread(row)))
believable.wrong(
    "right but for the direction: it believes what makes the loss higher",
    "The numbers are losses: lower is better.",
)(_believing(effect=lambda row: -_gap(row) > 2 * _spread(row)))
believable.wrong(
    "right but for the difference, which is that of the best runs",
    "The best of several runs is luck. Compare the means.",
)(_believing(effect=lambda row: min(row["base losses"]) - min(row["losses"]) > 2 * _spread(row)))
believable.wrong(
    "right but for the difference, for which every run must beat every run of the base",
    "Compare the means, and measure their difference by the spread.",
)(_believing(effect=lambda row: max(row["losses"]) < min(row["base losses"])))
believable.wrong(
    "a list of the rows that may not be believed",
    "Return the numbers of the rows that may be believed.",
)(lambda rows: [i for i in range(len(rows)) if i not in believable.reference(rows)])
believable.wrong(
    "counted from 1",
    "Rows are numbered from 0, as in Python.",
)(lambda rows: [i + 1 for i in believable.reference(rows)])
believable.wrong(
    "a list of the rows themselves",
    "Return their numbers, counted from 0.",
)(lambda rows: [rows[i] for i in believable.reference(rows)])
