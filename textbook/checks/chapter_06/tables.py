"""How many heads does a question need? Read off a table of runs."""

import statistics

from textbook.checks.exercise import exercise

# Made up. One number of heads was given a wider layer, one rate is lucky on one seed.
_MEANS = {
    (1, 1): (0.991, 0.997, 0.960),
    (1, 2): (0.992, 0.998, 0.970),
    (1, 4): (0.990, 0.999, 0.981),
    (2, 1): (0.180, 0.205, 0.190),
    (2, 2): (0.962, 0.993, 0.984),
    (2, 4): (0.970, 0.996, 0.990),
    (3, 1): (0.021, 0.028, 0.024),
    (3, 2): (0.170, 0.192, 0.186),
    (3, 4): (0.952, 0.971, 0.965),
    (3, 8): (0.972, 0.995, 0.984),
    (4, 1): (0.004, 0.006, 0.005),
    (4, 2): (0.031, 0.060, 0.044),
    (4, 4): (0.700, 0.890, 0.872),
    (4, 8): (0.986, 0.998, 0.991),
}
_RATES = 0.001, 0.003, 0.01


def _figure():
    rows = []
    for (asked, heads), means in _MEANS.items():
        for rate, mean in zip(_RATES, means, strict=True):
            for seed in (0, 1, 2):
                validation = mean + (0.003, -0.002, -0.001)[seed] * min(1, 20 * (1 - mean))
                test = validation - (0.002, 0.001, 0.003)[seed] * min(1, 20 * (1 - mean))
                if (asked, heads, seed) == (3, 4, 2):
                    test -= 0.09  # it is enough on average, and in two seeds of three
                if (asked, heads, rate, seed) == (3, 2, 0.01, 1):
                    validation, test = validation + 0.31, test + 0.30
                rows.append(
                    {
                        "asked": asked,
                        "heads": heads,
                        "weights": 16_384 if (asked, heads) == (4, 8) else 4096,
                        "rate": rate,
                        "seed": seed,
                        "validation": round(validation, 4),
                        "test": round(test, 4),
                    }
                )
    return rows


runs = _figure()


# Validation numbers of three seeds: the best mean, the best worst seed, median and seed.
_OFFSETS = (0.02, 0, -0.015), (-0.003,) * 3, (0.008, 0.008, -0.05), (0.028, -0.03, -0.03)


def _run_cases(draw, hidden):
    """The table itself, then tables in which each of the traps decides in turn."""
    if not hidden:
        yield (runs,)
    for _ in range(3):
        rows, rates = [], [float(x) for x in draw.random.permutation([0.0005, 0.002, 0.008])]
        for asked in draw.random.permutation(6)[:4] + 1:
            ones = int(draw.random.choice([1024, 4096]))  # weights of the runs with one head
            for heads in draw.random.permutation([1, 2, 4, 6]):
                size = int(draw.random.choice([ones, ones, 512, 1024, 4096])) if heads > 1 else ones
                level = float(draw.random.choice([0.9, 0.97]))  # of the validation numbers
                chosen = [_OFFSETS[i] for i in [0, *draw.random.permutation([1, 2, 3])[:2]]]
                chosen = [draw.random.permutation(chosen[i]) for i in draw.random.permutation(3)]
                for rate, offsets in zip(rates, chosen, strict=True):
                    reached = float(draw.random.choice([0.6, 0.955, 0.97, 0.99]))
                    falling = draw.random.permutation(3)[: draw.random.integers(3)]
                    for seed in range(3):
                        test = reached - 0.02 * (seed in falling)
                        row = {"asked": int(asked), "heads": int(heads), "weights": size}
                        row |= {"rate": rate, "seed": seed, "test": test}
                        row["validation"] = level + float(offsets[seed])
                        rows.append(row)
        for row in rows:
            for data, digits in (("validation", 4), ("test", 3)):  # some tests are exactly 0.95
                row[data] = round(row[data] + draw.random.uniform(-1, 1) / 1000, digits)
        yield ([rows[i] for i in draw.random.permutation(len(rows))],)


def _same_size(of_asked):
    """The runs with as many weights as those with one head."""
    size = next(run["weights"] for run in of_asked if run["heads"] == 1)
    return [run for run in of_asked if run["weights"] == size]


def _best_rate(of_heads, by="validation", value=statistics.fmean):
    rates = {run["rate"] for run in of_heads}
    return max(rates, key=lambda rate: value([r[by] for r in of_heads if r["rate"] == rate]))


def _at_best_rate(of_heads, **other):
    rate = _best_rate(of_heads, **other)
    return [run for run in of_heads if run["rate"] == rate]


def _needed(
    fair=_same_size,
    choose=_at_best_rate,
    value=min,
    read="test",
    enough=lambda value: value >= 0.95,
    choice=min,
    none=True,
):
    """The reading with one of its pieces exchanged."""

    def needed(runs):
        found = {}
        for asked in {run["asked"] for run in runs}:
            rows = fair([run for run in runs if run["asked"] == asked])
            sufficient = []
            for heads in dict.fromkeys(run["heads"] for run in rows):
                chosen = choose([run for run in rows if run["heads"] == heads])
                if enough(value([run[read] for run in chosen])):
                    sufficient.append(heads)
            if sufficient or none:
                found[asked] = choice(sufficient) if sufficient else None
        return found

    return needed


def _why(check, answer, runs):
    """A sentence on the first question that is answered wrongly, by the rule."""
    found, right = answer(runs), check.reference(runs)
    if not isinstance(found, dict):
        return None
    for asked, needed in sorted(right.items()):
        if asked not in found:
            return f"The question for {asked} is missing."
        said = found[asked]
        if said == needed:
            continue
        text = f"For {asked} asked you say {said}. "
        too_many = said is None or (needed is not None and said > needed)
        heads = needed if too_many else said
        rows = _same_size([run for run in runs if run["asked"] == asked])
        rows = [run for run in rows if run["heads"] == heads]
        if not rows:
            return text + "With so many heads there are no runs of the size of those with one head."
        rows = _at_best_rate(rows)
        tests = ", ".join(str(run["test"]) for run in rows)
        text += f"With {heads}, the rate with the best mean validation is {rows[0]['rate']}, and "
        if too_many:
            return text + f"its test numbers {tests} are all at least 0.95: {heads} is enough."
        return text + f"of its test numbers {tests} one is below 0.95: {said} is not enough."
    return None


@exercise(
    cases=_run_cases,
    reasons=(_why,),
    gradients=False,
    see='chapter 06, "As many heads as places (E2)"',
)
def heads_needed(runs):
    """For each number of letters asked, the smallest number of heads that is enough, or None."""
    found = {}
    for asked in {run["asked"] for run in runs}:
        rows = [run for run in runs if run["asked"] == asked]
        [weights] = {run["weights"] for run in rows if run["heads"] == 1}
        found[asked] = None
        for heads in sorted({run["heads"] for run in rows}, reverse=True):
            by_rate = {}
            for run in rows:
                if run["heads"] == heads and run["weights"] == weights:
                    by_rate.setdefault(run["rate"], []).append(run)
            if by_rate:
                best = max(
                    by_rate.values(), key=lambda each: sum(run["validation"] for run in each)
                )
                if min(run["test"] for run in best) >= 0.95:
                    found[asked] = heads
    return found


def _of_any_question(runs):
    """The reading of all runs that have as many weights as some run with one head."""
    sizes = {run["weights"] for run in runs if run["heads"] == 1}
    return _needed(fair=lambda rows: [run for run in rows if run["weights"] in sizes])(runs)


heads_needed.wrong(
    "right but for wider layers, which it counts as well",
    "A layer with more weights may be better for that alone. Leave out the runs whose number of "
    "weights is not that of the runs with one head.",
)(_needed(fair=lambda rows: rows))
heads_needed.wrong(
    "right but for narrower layers, which it counts as well",
    "A layer with fewer weights is no fair comparison either: take as many as with one head.",
)(
    _needed(
        fair=lambda rows: [run for run in rows if run["weights"] <= _same_size(rows)[0]["weights"]]
    )
)
heads_needed.wrong(
    "right but for runs with as many weights as those with one head of another question",
    "Compare with the runs with one head of the same question.",
)(_of_any_question)
heads_needed.wrong(
    "right but for the rate, which is chosen on the test",
    "What is reported has no part in a choice: choose the rate by the validation numbers.",
)(_needed(choose=lambda rows: _at_best_rate(rows, by="test")))
heads_needed.wrong(
    "right but for the rate, which is chosen by the luckiest seed",
    "Choose the rate with the best mean over the seeds: one run may be luck.",
)(_needed(choose=lambda rows: _at_best_rate(rows, value=max)))
heads_needed.wrong(
    "right but for the rate, which is chosen by the worst seed",
    "Choose the rate with the best mean over the seeds.",
)(_needed(choose=lambda rows: _at_best_rate(rows, value=min)))
heads_needed.wrong(
    "right but for the rate, which is chosen by the median of the seeds",
    "Choose the rate with the best mean over the seeds.",
)(_needed(choose=lambda rows: _at_best_rate(rows, value=statistics.median)))
heads_needed.wrong(
    "right but for the rate, of which each seed has its own",
    "One rate for all seeds of a number of heads, that with the best mean.",
)(
    _needed(
        choose=lambda rows: [
            max((run for run in rows if run["seed"] == seed), key=lambda run: run["validation"])
            for seed in {run["seed"] for run in rows}
        ]
    )
)


def _one_rate(runs):
    """The reading with one rate for all numbers of heads of a question."""
    chosen = {
        asked: _best_rate(_same_size([run for run in runs if run["asked"] == asked]))
        for asked in {run["asked"] for run in runs}
    }
    rows = [run for run in runs if run["rate"] == chosen[run["asked"]]]
    return _needed()(rows)


heads_needed.wrong(
    "right but for the rate, which is one for all numbers of heads",
    "What suits one head may be too high for eight: choose a rate for each number of heads.",
)(_one_rate)
heads_needed.wrong(
    "about the runs of all rates together",
    "A bad rate says nothing about the number of heads: choose one by the validation numbers.",
)(_needed(choose=lambda rows: rows))
heads_needed.wrong(
    "right but for the seeds: it asks for the mean, and not for the worst of them",
    "A mean of 0.95 may hide a seed that failed. Enough means: in every seed.",
)(_needed(value=statistics.fmean))
heads_needed.wrong(
    "right but for the seeds: it asks for most of them",
    "Enough means: in every seed, not in two of three.",
)(_needed(value=statistics.median))
heads_needed.wrong(
    "right but for the seeds: it asks for the best of them",
    "One seed may be luck. Enough means: in every seed.",
)(_needed(value=max))
heads_needed.wrong(
    "right but for what it reads: validation numbers, which have chosen the rate",
    "What has chosen is no longer fair to report: read the test numbers.",
)(_needed(read="validation"))
heads_needed.wrong(
    "the largest number of heads that is enough",
    "What a question needs is the smallest number that is enough.",
)(_needed(choice=max))
heads_needed.wrong(
    "right for runs that are sorted: the first number of heads in the table that is enough",
    "Runs stand in any order: take the smallest.",
)(_needed(choice=lambda sufficient: sufficient[0]))
heads_needed.wrong(
    "right but for the questions that no number of heads answers: they are missing",
    "Return None for these: the table does not show a number that is enough.",
)(_needed(none=False))
heads_needed.wrong(
    "the rule of thumb: as many heads as letters",
    "Read the table: it may say something else.",
)(lambda runs: {run["asked"]: run["asked"] for run in runs})
