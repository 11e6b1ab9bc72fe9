"""Which of these models has seen the future? Read off losses by position."""

import statistics

from textbook.checks.exercise import exercise

VERDICTS = "leaks", "measured wrongly", "no leak seen"


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


def _run_cases(draw, hidden):
    """The table itself, then tables in which every rule decides in turn."""
    yield (runs,)
    for trial in range(5 if hidden else 3):
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
    yield ([_run("a", [1.0, 3.0], [1.0, 3.0]), _run("b", [1.5, 1.6], [1.5, 1.6])],)


def _wrongly(ahead, behind):
    return abs(ahead[-1] - behind[-1]) > 0.01


def _leaking(ahead, behind):
    return any(abs(a - b) > 0.01 for a, b in zip(ahead, behind, strict=True))


def _candidate(verdict, run):
    return verdict == "no leak seen" and run["text"] == "held out"


def _judging(
    wrongly=_wrongly,
    leaking=_leaking,
    candidate=_candidate,
    value=lambda run: statistics.fmean(run["from the prefix"]),
    first="measured wrongly",
    choose=min,
    none=None,
):
    """The reading with one of its pieces exchanged."""

    def judged(runs):
        verdicts = {}
        for run in runs:
            losses = run["in one pass"], run["from the prefix"]
            found = {"measured wrongly": wrongly(*losses), "leaks": leaking(*losses)}
            order = sorted(found, key=lambda name: name != first)
            verdicts[run["model"]] = next((x for x in order if found[x]), "no leak seen")
        fair = {run["model"]: value(run) for run in runs if candidate(verdicts[run["model"]], run)}
        return {"verdicts": verdicts, "best": choose(fair, key=fair.get) if fair else none}

    return judged


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


@exercise(
    cases=_run_cases,
    reasons=(_why,),
    gradients=False,
    see='chapter 07, "Low loss, useless text (E1)"',
)
def judged(runs):
    """The verdict on each model, and the best of those that may be compared: a dict."""
    verdicts, means = {}, {}
    for run in runs:
        pairs = list(zip(run["in one pass"], run["from the prefix"], strict=True))
        apart = [abs(one_pass - prefix) > 0.01 for one_pass, prefix in pairs]
        if apart[-1]:
            verdict = "measured wrongly"
        elif any(apart):
            verdict = "leaks"
        else:
            verdict = "no leak seen"
            if run["text"] == "held out":
                means[run["model"]] = sum(run["from the prefix"]) / len(pairs)
        verdicts[run["model"]] = verdict
    return {"verdicts": verdicts, "best": min(means, key=means.get, default=None)}


judged.wrong(
    "right but for the last position, which counts as all others",
    "At the last position there is no future: both losses are the same number, or something else "
    "is compared. Say 'measured wrongly' there, before anything else.",
)(_judging(first="leaks"))
judged.wrong(
    "right but for models that are measured wrongly: it does not look at the last position",
    "At the last position nothing can leak. If its two losses differ, the measurement is wrong.",
)(
    _judging(
        wrongly=lambda ahead, behind: False,
        leaking=lambda ahead, behind: _leaking(ahead[:-1], behind[:-1]),
    )
)
judged.wrong(
    "a comparison of mean losses",
    "What is lost at one position may be won at another, and a leak at one position is small in "
    "the mean: compare position by position.",
)(
    _judging(
        leaking=lambda ahead, behind: abs(statistics.fmean(ahead) - statistics.fmean(behind)) > 0.01
    )
)
judged.wrong(
    "right but for leaks that make a loss larger",
    "Who looks at the future may also be misled by it. Different is different.",
)(
    _judging(
        leaking=lambda ahead, behind: any(b - a > 0.01 for a, b in zip(ahead, behind, strict=True))
    )
)
judged.wrong(
    "right but for small leaks: it asks for a large difference",
    "Differences up to 0.01 are rounding, all others count.",
)(
    _judging(
        leaking=lambda ahead, behind: any(
            abs(a - b) > 0.1 for a, b in zip(ahead, behind, strict=True)
        )
    )
)
judged.wrong(
    "a comparison of the first position alone",
    "A leak may show at any position but the last.",
)(_judging(leaking=lambda ahead, behind: abs(ahead[0] - behind[0]) > 0.01))
judged.wrong(
    "a comparison that takes rounding for a leak",
    "Differences up to 0.01 are rounding.",
)(
    _judging(
        wrongly=lambda ahead, behind: ahead[-1] != behind[-1],
        leaking=lambda ahead, behind: ahead != behind,
    )
)
judged.wrong(
    "right but for the best, which may have been measured on its training text",
    "A text that the model has learned from says nothing: compare on text that was held out.",
)(_judging(candidate=lambda verdict, run: verdict == "no leak seen"))
judged.wrong(
    "right but for the best, which may leak",
    "The loss of a model that looks ahead is not comparable: take those with 'no leak seen'.",
)(_judging(candidate=lambda verdict, run: run["text"] == "held out"))
judged.wrong(
    "right but for the best: it compares the losses in one pass of all models",
    "Take those with 'no leak seen' on text that was held out.",
)(_judging(candidate=lambda *_: True, value=lambda run: statistics.fmean(run["in one pass"])))
judged.wrong(
    "right but for the best: it compares the losses at the last position",
    "The mean over all positions is asked for.",
)(_judging(value=lambda run: run["from the prefix"][-1]))
judged.wrong(
    "right but for the best, which has the highest loss",
    "A low loss is good.",
)(_judging(choose=max))
judged.wrong(
    "right where some model may be compared; else its best is not None",
    "If no model is left to compare, the table shows no best: None.",
)(_judging(none=""))
