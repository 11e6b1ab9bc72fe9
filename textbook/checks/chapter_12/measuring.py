"""A fair measurement: what is reported has no part in a choice."""

import statistics

from textbook.checks.exercise import exercise


def _measure_cases(draw, hidden):
    """Accuracies as a table from (rate, seed), in which the best rate depends on the seeds."""
    for count in (2, 3, 4):
        for best in range(4):
            rates = [float(x) for x in draw.random.permutation([0.001, 0.004, 0.016, 0.064])]
            choosing, reporting = list(range(10, 10 + count)), [3, 1, 2][: count + 1] + [7] * hidden
            table = {
                (rate, seed): float(draw.random.uniform(0.2, 0.4) + 0.4 * (i == best))
                for i, rate in enumerate(rates)
                for seed in (*choosing, *reporting)
            }
            lucky, early = rates[(best + 1) % 4], rates[(best + 2) % 4]
            # better on one seed, and not on average
            table[lucky, choosing[-1]], table[lucky, choosing[0]] = 0.95, 0.05
            table[early, choosing[0]], table[early, choosing[-1]] = 0.85, 0.05
            for seed in reporting:
                table[lucky, seed] += 0.5
            yield table, rates, choosing, reporting


def _by_table(answer, table, rates, choosing, reporting):
    """What is returned, and which runs it took."""
    ran = []

    def accuracy(rate, seed):
        ran.append((rate, seed))
        return table[rate, seed]

    found = answer(accuracy, rates, choosing, reporting)
    wanted = {(rate, seed) for rate in rates for seed in choosing}
    wanted |= {(found["rate"], seed) for seed in reporting}
    extra = [run for run in ran if run not in wanted]
    if extra:
        said = f"a run at the rate {extra[0][0]} with the seed {extra[0][1]}"
    elif len(ran) > len(set(ran)):
        said = "the same run more than once"
    else:
        said = "each rate with each seed for choosing, then the best with each for reporting"
    return {"the dict": found, "what was run": said}


def _reported(check, answer, table, rates, choosing, reporting):
    """Whose accuracies are reported, where they are not those that should be."""
    found = answer(lambda rate, seed: table[rate, seed], rates, choosing, reporting)
    whose = {table[found["rate"], seed]: seed for seed in (*choosing, *reporting)}
    seeds = [whose[accuracy] for accuracy in found["accuracies"]]
    if seeds != reporting:
        return f"'accuracies' are those of the seeds {seeds}, and {reporting} are to be reported."
    return None


def _choice(tried, rates):
    """The rate with the best mean; ``tried`` maps a rate to its accuracies."""
    return max(rates, key=lambda rate: statistics.mean(tried[rate]))


def _edge(rate, rates):
    return rate in (min(rates), max(rates))


def _measuring(
    seeds_to_choose=lambda choosing, reporting: choosing,
    choose=_choice,
    edge=_edge,
    spread=statistics.stdev,
    mean=statistics.mean,
    report=lambda accuracy, rate, reporting: [accuracy(rate, seed) for seed in reporting],
):
    """The measurement with one of its pieces exchanged."""

    def measure(accuracy, rates, choosing, reporting):
        seeds = seeds_to_choose(choosing, reporting)
        rate = choose({rate: [accuracy(rate, seed) for seed in seeds] for rate in rates}, rates)
        found = report(accuracy, rate, reporting)
        return {
            "rate": rate,
            "at the edge": edge(rate, rates),
            "accuracies": found,
            "mean": mean(found),
            "spread": spread(found),
        }

    return measure


@exercise(
    cases=_measure_cases,
    run=_by_table,
    reasons=(_reported,),
    gradients=False,
    see='chapter 12, "What a state can hold"',
)
def measure(accuracy, rates, choosing, reporting):
    """Choose a rate on some seeds, report on others: a dict."""
    tried = {rate: [accuracy(rate, seed) for seed in choosing] for rate in rates}
    best = max(rates, key=lambda rate: statistics.mean(tried[rate]))
    found = [accuracy(best, seed) for seed in reporting]
    return {
        "rate": best,
        "at the edge": best in (min(rates), max(rates)),
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }


measure.wrong(
    "right but for the mean, which is the median",
    "Report the mean: statistics.mean.",
)(_measuring(mean=statistics.median))
measure.wrong(
    "a choice by the seeds that are reported",
    "What is reported has no part in the choice: choose on `choosing` alone.",
)(_measuring(seeds_to_choose=lambda choosing, reporting: reporting))
measure.wrong(
    "a choice by all seeds, those that are reported included",
    "What is reported has no part in the choice: choose on `choosing` alone.",
)(_measuring(seeds_to_choose=lambda choosing, reporting: [*choosing, *reporting]))
measure.wrong(
    "a choice by the first of the seeds for choosing alone",
    "All of them: one run may be luck.",
)(_measuring(seeds_to_choose=lambda choosing, reporting: choosing[:1]))
measure.wrong(
    "a choice by the best single run",
    "The rate with the best mean, not the one with the luckiest run.",
)(_measuring(choose=lambda tried, rates: max(rates, key=lambda rate: max(tried[rate]))))
measure.wrong(
    "a choice of the rate with the lowest accuracy",
    "They are accuracies, not losses: higher is better.",
)(_measuring(choose=lambda tried, rates: min(rates, key=lambda rate: statistics.mean(tried[rate]))))
measure.wrong(
    "no choice: the first rate",
    "Try all rates, each with all seeds for choosing.",
)(_measuring(choose=lambda tried, rates: rates[0]))
measure.wrong(
    "right but for the edge, for which it takes the first and the last rate of the list",
    "The rates may stand in any order: the edges are the smallest and the largest.",
)(_measuring(edge=lambda rate, rates: rate in (rates[0], rates[-1])))
measure.wrong(
    "right but for the edge, which says the opposite",
    "'at the edge' is True if the chosen rate is the smallest or the largest of those tried.",
)(_measuring(edge=lambda rate, rates: not _edge(rate, rates)))
measure.wrong(
    "right but for the edge: it looks at the largest rate alone",
    "The smallest rate that was tried is an edge, too.",
)(_measuring(edge=lambda rate, rates: rate == max(rates)))
measure.wrong(
    "right but for the spread, which is that of all numbers and not of a sample",
    "A standard deviation from a few runs divides by their number minus 1, as statistics.stdev.",
)(_measuring(spread=statistics.pstdev))
measure.wrong(
    "right but for the spread, which is the distance from the lowest to the highest",
    "The spread that is asked for is the standard deviation.",
)(_measuring(spread=lambda found: max(found) - min(found)))
measure.wrong(
    "right but for the mean, in whose place stands the best run",
    "The best of several runs is luck. Report the mean.",
)(_measuring(mean=max))


@measure.wrong(
    "a report of the runs that chose the rate",
    "The chosen rate has been chosen for being good on these seeds. Report other ones.",
)
def _(accuracy, rates, choosing, reporting):
    tried = {rate: [accuracy(rate, seed) for seed in choosing] for rate in rates}
    rate = _choice(tried, rates)
    found = tried[rate]
    return {
        "rate": rate,
        "at the edge": _edge(rate, rates),
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }
