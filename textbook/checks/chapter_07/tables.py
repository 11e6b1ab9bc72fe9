"""Which of these models has seen the future? Read off losses by position."""

import statistics

from textbook.checks.released import exercise


def _run(model, one_pass, prefix, text="held out"):
    return {"model": model, "text": text, "in one pass": one_pass, "from the prefix": prefix}


# Made up: losses at eight positions.
_MASKED = [2.71, 2.34, 2.12, 2.01, 1.95, 1.92, 1.90, 1.89]
_WIDE = [2.66, 2.28, 2.05, 1.93, 1.88, 1.85, 1.83, 1.82]
_SEEN = [2.41, 1.98, 1.74, 1.61, 1.55, 1.52, 1.50, 1.49]
runs = [
    _run(
        "no mask",
        [0.09, 0.08, 0.08, 0.07, 0.08, 0.09, 0.08, 2.67],
        [9.40, 8.90, 8.10, 7.20, 6.00, 4.80, 3.50, 2.67],
    ),
    _run("masked", _MASKED, _MASKED),
    _run("masked, wider", _WIDE, _WIDE),
    _run("masked, on its training text", _SEEN, _SEEN, text="training"),
    _run(
        "a window of two",
        [2.70, 2.35, 2.14, 2.10, 2.09, 2.09, 2.08, 2.08],
        [2.70, 2.35, 2.14, 2.10, 2.09, 2.09, 2.08, 2.08],
    ),
    _run(
        "pooled by the last",
        [2.69, 2.30, 2.08, 1.95, 1.62, 1.88, 1.86, 1.85],
        [2.69, 2.30, 2.08, 1.95, 1.90, 1.88, 1.86, 1.85],
    ),
    _run(
        "masked, other weights",
        [2.20, 1.90, 1.75, 1.66, 1.60, 1.58, 1.57, 1.56],
        [2.71, 2.33, 2.11, 2.00, 1.94, 1.91, 1.89, 1.88],
    ),
]


def _run_cases(draw, trials=3):
    """The table itself, then tables in which every rule decides in turn."""
    yield (runs,)
    for trial in range(trials):
        count, rows = int(draw.random.integers(4, 9)), []
        for i in range(12):
            level = 1.5 + float(draw.random.uniform(0, 1.5))
            falls = [2.0 / (t + 1) - 0.1 * (t % 3 == i % 3) for t in range(count)]
            prefix = [round(level + fall, 3) for fall in falls]
            prefix[-1] = round(prefix[-1] + float(draw.random.uniform(-0.9, 0.9)), 3)
            one_pass = [round(x + float(draw.random.uniform(-2, 2)) / 1000, 4) for x in prefix]
            place = int(draw.random.integers(count - 1))
            if i in (1, 2, 6):
                one_pass[place] = round(one_pass[place] - (1.2, 0.0, 0.03)[i % 3] - 0.02, 4)
            if i == 3:
                one_pass[place] += 0.3
            if i in (4, 5):
                one_pass[-1] = round(one_pass[-1] - (0.4, -0.05)[i % 2], 4)
            if i == 5:
                one_pass[place] -= 0.5
            if i == 7:  # the losses of all positions cancel
                one_pass[0], one_pass[1] = one_pass[0] + 0.2, one_pass[1] - 0.2
            text = "training" if i in (0, 8) and trial != 1 else "held out"
            rows.append(_run(f"model {i}", one_pass, prefix, text))
        # 0.01 is still the same: with 0, so that no rounding decides
        rows.append(_run("model 12", [1.0, 0.01, 0.0], [1.0, 0.0, 0.01], "training"))
        order = [int(i) for i in draw.random.permutation(13)]
        yield ([rows[i] for i in order],)
    yield ([_run("a", [1.0, 1.0], [3.0, 1.0]), _run("b", [2.0, 2.0], [2.0, 2.0], "training")],)
    yield ([_run("a", [1.992, 1.0], [2.0, 1.0]), _run("b", [1.999, 1.0], [1.998, 1.0])],)
    yield ([_run("a", [1.0, 3.0], [1.0, 3.0]), _run("b", [1.5, 1.6], [1.5, 1.6])],)


def _why(check, answer, runs):
    """A sentence on the first model whose verdict is wrong, or on the best."""
    found, right = answer(runs), check.reference(runs)
    if not isinstance(found, dict) or not isinstance(found.get("verdicts"), dict):
        return None
    said, verdicts = found["verdicts"], right["verdicts"]
    for run in runs:
        name = run["model"]
        pairs = [*zip(run["in one pass"], run["from the prefix"], strict=True)]
        apart = [
            f"{t + 1}: {a:g} in one pass, {b:g} from the prefix"
            for t, (a, b) in enumerate(pairs)
            if abs(a - b) > 0.01
        ]
        if name in said and said[name] != verdicts[name]:
            if verdicts[name] == "measured wrongly":
                return (
                    f"The losses of '{name}' differ at the last position, {apart[-1]}, and either "
                    "may be the lower one."
                )
            where = f"they differ at position {apart[0]}" if apart else "and at all others, too"
            return f"The losses of '{name}' at the last position are the same, up to 0.01; {where}."
    best = found.get("best")
    means = {run["model"]: statistics.fmean(run["from the prefix"]) for run in runs}
    texts = {run["model"]: run["text"] for run in runs}
    if best == right["best"] or not isinstance(best, str) or best not in means:
        return None
    if verdicts[best] != "no leak seen" or texts[best] != "held out":
        return f"'{best}' may not be compared: {verdicts[best]}, measured on text '{texts[best]}'."
    return (
        f"'{best}' has a mean loss from the prefix of {means[best]:.4f}, which is not the lowest."
    )


judged = exercise(
    "judged",
    cases=_run_cases,
    reasons=(_why,),
    gradients=False,
    see='chapter 07, "Low loss, useless text (E1)"',
)
