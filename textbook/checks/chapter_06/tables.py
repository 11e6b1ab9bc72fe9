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


def _run_cases(draw):
    yield (runs,)
    yield from _drawn_cases(draw)


def _drawn_cases(draw):
    """Tables in which each of the traps decides in turn."""
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
    hidden_cases=_drawn_cases,
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
