"""A fair measurement: what is reported has no part in a choice."""

from textbook.checks.released import exercise


def _measure_cases(draw, more=()):
    """Accuracies as a table from (rate, seed), in which the best rate depends on the seeds."""
    for count in (2, 3, 4):
        for best in range(4):
            rates = [float(x) for x in draw.random.permutation([0.001, 0.004, 0.016, 0.064])]
            choosing, reporting = list(range(10, 10 + count)), [*[3, 1, 2][: count + 1], *more]
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
    table = {(rate, seed): 0.6 for rate in (0.1, 0.4, 1.6) for seed in range(6)}
    table |= {(0.4, 0): 0.5, (0.4, 1): 0.5, (0.4, 2): 0.9, (1.6, 3): 0.2, (0.4, 4): 0.7}
    yield table, [0.4, 1.6, 0.1], [0, 1, 2], [3, 4, 5]


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


measure = exercise(
    "measure",
    cases=_measure_cases,
    run=_by_table,
    reasons=(_reported,),
    gradients=False,
    see='chapter 12, "What a state can hold"',
)
