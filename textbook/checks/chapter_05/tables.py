"""At which widths the division of the scores helps, as far as a table says."""

from textbook.checks.compare import brief, number
from textbook.checks.exercise import Draw, exercise


def _row(width, divided, rate, right, steps=100):
    return {"d": width, "divided": divided, "rate": rate, "steps": steps, "right": right}


table = [
    _row(16, False, 0.003, [0.71, 0.74, 0.70, 0.71, 0.72]),
    _row(16, False, 0.01, [0.80, 0.84, 0.83, 0.83, 0.84]),
    _row(16, False, 0.03, [0.77, 0.79, 0.78, 0.78, 0.79]),
    _row(16, True, 0.003, [0.72, 0.70, 0.75, 0.72, 0.73]),
    _row(16, True, 0.01, [0.84, 0.80, 0.85, 0.84, 0.85]),
    _row(16, True, 0.03, [0.76, 0.80, 0.79, 0.79, 0.80]),
    _row(64, False, 0.003, [0.79, 0.82, 0.80, 0.80, 0.81]),
    _row(64, False, 0.01, [0.82, 0.85, 0.86, 0.85, 0.86]),
    _row(64, False, 0.03, [0.92, 0.71, 0.70, 0.71, 0.72]),
    _row(64, True, 0.003, [0.83, 0.82, 0.84, 0.83, 0.84]),
    _row(64, True, 0.01, [0.90, 0.92, 0.89, 0.90, 0.91]),
    _row(64, True, 0.03, [0.85, 0.88, 0.86, 0.86, 0.87]),
    _row(256, False, 0.003, [0.83, 0.81, 0.82, 0.82, 0.83]),
    _row(256, False, 0.01, [0.74, 0.76, 0.71, 0.74, 0.75]),
    _row(256, True, 0.003, [0.84, 0.86, 0.85, 0.85, 0.86]),
    _row(256, True, 0.01, [0.91, 0.90, 0.92, 0.91, 0.92]),
    _row(256, True, 0.03, [0.88, 0.89, 0.86, 0.88, 0.89]),
    _row(1024, False, 0.001, [0.61, 0.60, 0.64, 0.61, 0.62]),
    _row(1024, False, 0.003, [0.70, 0.72, 0.71, 0.71, 0.72]),
    _row(1024, False, 0.01, [0.55, 0.61, 0.58, 0.58, 0.59]),
    _row(1024, True, 0.001, [0.80, 0.82, 0.81, 0.81, 0.81], steps=200),
    _row(1024, True, 0.003, [0.92, 0.91, 0.93, 0.92, 0.93], steps=200),
    _row(1024, True, 0.01, [0.90, 0.88, 0.89, 0.89, 0.90], steps=200),
]
RATES, FOUR, NARROW = (0.01, 0.1, 0.03), (0.01, 0.1, 0.03, 0.05), (0.02, 0.05, 0.03)


def _both(width, plain, divided, rates=(RATES, RATES), steps=(100, 100)):
    """Rows of a width: for each rate the shares of the seeds, without division and with it."""
    for kind, lists in enumerate((plain, divided)):
        for rate, right in zip(rates[kind], lists, strict=True):
            yield _row(width, bool(kind), rate, right, steps[kind])


def _table_cases(draw, level=1, seed=0):
    yield (table,)
    low, high, top = (
        [0.2, 0.21, 0.22, 0.21, 0.21],
        [0.5, 0.52, 0.54, 0.52, 0.52],
        [0.6, 0.62, 0.61, 0.61, 0.61],
    )
    other = (0.01, 0.1, 0.02)
    rows = [
        *_both(1, [low, low, high], [low, low, top]),
        *_both(2, [low, low, top], [low, low, high]),
        *_both(3, [low, low, [0.4, 0.45, 0.8, 0.45, 0.45]], [low, low, top]),
        *_both(4, [low, high, low], [low, low, top]),
        *_both(5, [low, low, high], [top, low, low]),
        *_both(6, [low, low, high], [low, low, top], rates=(RATES, other)),
        *_both(7, [low, low, high], [low, low, top], steps=(100, 150)),
        *_both(8, [low, low, high[:4]], [low, low, top[:4]]),
        *_both(9, [low, low, [0.5, 0.5, 0.6, 0.5, 0.5]], [low, low, top]),
        *_both(10, [[0.9, 0.1, 0.1, 0.1, 0.1], low, high], [low, low, top]),
        *_both(11, [low, [0.55, 0.56, 0.1, 0.55, 0.55], high], [low, low, top]),
        *_both(12, [low, low, [0.5, 0.9, 0.1, 0.5, 0.5]], [low, low, [0.7, 0.6, 0.8, 0.7, 0.7]]),
        *_both(13, [low, low, high], [low, low, [0.55, 0.65, 0.45, 0.55, 0.55]]),
        *_both(
            14,
            [low, low, [0.7, 0.71, 0.72, 0.73, 0.71, 0.71]],
            [low, low, [0.5, 0.6, 0.65, 0.69, 0.6, 0.6]],
        ),
        *_both(15, [low, low, high], [low, low, high]),
        *_both(
            16,
            [[0.3, 0.31, 0.32, 0.31, 0.31], low, [0.2, 0.6, 0.6, 0.6, 0.6]],
            [low, low, [0.9, 0.91, 0.92, 0.91, 0.91]],
        ),
    ]
    rows += [
        *_both(17, [[0.3] * 10, low, high], [low, low, top]),  # more seeds, a larger sum
        *_both(
            18, [low, low, high, [0.7, 0.7, 0.7, 0.7]], [low, low, top, low], rates=(FOUR, FOUR)
        ),
        *_both(19, [low[:4], low, high], [low, low, top]),
        *_both(20, [low, high, low], [low, low, top], rates=(NARROW, NARROW)),
        *_both(
            21,
            [low, low, high, low],
            [low, low, low, [0.53, 0.55, 0.5, 0.53, 0.53]],
            rates=(FOUR, FOUR),
        ),
        *_both(22, [high, low, low], [low, low, top]),
        *_both(23, [low, low, high], [low, top, low]),
        *_both(25, [high, low, low], [top, low, low]),
        *_both(
            26, [low, low, [0.5, 0.65, 0.75, 0.65, 0.65]], [low, low, [0.6, 0.7, 0.8, 0.7, 0.7]]
        ),
        *_both(24, [low, low, [0.5, 0.5, 0.9, 0.5, 0.5]], [low, low, [0.6, 0.6, 0.2, 0.6, 0.6]]),
    ]
    rows = [row | {"right": [round(x * level, 6) for x in row["right"]]} for row in rows]
    yield ([rows[i] for i in Draw(seed).random.permutation(len(rows))],)
    yield (rows[:6],)


def _as_dict(answer, rows):
    """The verdicts, in the order of their widths."""
    found = answer(rows)
    if not isinstance(found, dict):
        return {"the form of the result": brief(found)}
    numbers = {width: number(width) for width in found}
    if None in numbers.values():
        return {"the form of the result": brief(found)}
    said = "; ".join(f"d = {numbers[k]}: {found[k]}" for k in sorted(found, key=numbers.get))
    return {"the form of the result": "a dict from widths to words", "what it says": said}


def _mean(right):
    return sum(right) / len(right)


def _explained(check, answer, rows):
    """The first width at which the verdict is wrong, and what decides there."""
    found, right = answer(rows), check.reference(rows)
    if not isinstance(found, dict) or None in map(number, found):
        return None
    found = {number(width): said for width, said in found.items()}
    for width in sorted(right):
        if found.get(width) != right[width]:
            return f'At d = {width} it is "{right[width]}": {_decided(rows, width)}.'
    return None


def _decided(rows, width):
    """What decides at a width, in the order of the text."""
    names = {True: "with the division", False: "without it"}
    own = {k: [r for r in rows if r["d"] == width and r["divided"] is k] for k in (True, False)}
    for key in ("rate", "steps"):
        given = [sorted({row[key] for row in own[k]}) for k in own]
        if given[0] != given[1]:
            what = "rates" if key == "rate" else "steps"
            return f"the {what} are {given[0]} with the division and {given[1]} without it"
    best = {k: max(own[k], key=lambda row: _mean(row["right"])) for k in own}
    for k, row in best.items():
        rates = [each["rate"] for each in own[k]]
        mean = f"{names[k]} the highest mean is that of the rate {row['rate']}"
        if row["rate"] in (min(rates), max(rates)):
            edge = "smallest" if row["rate"] == min(rates) else "largest"
            return f"{mean}, the {edge} that was tried at this width"
        if len(row["right"]) < 3:
            return f"{mean}, which has {len(row['right'])} seeds"
    return (
        "at the rates with the highest means the seeds have "
        f"{sorted(best[True]['right'])} with the division and "
        f"{sorted(best[False]['right'])} without it"
    )


@exercise(
    cases=_table_cases,
    hidden_cases=lambda draw: _table_cases(draw, level=0.9, seed=1),
    run=_as_dict,
    reasons=(_explained,),
    gradients=False,
    see='chapter 05, "Does it matter in training? (E2)"',
)
def division_helps(rows):
    """A dict from each width to "yes", "no" or "not known"."""
    found = {}
    for width in {row["d"] for row in rows}:
        chosen, setting = {}, {}
        for divided in (True, False):
            own = [row for row in rows if row["d"] == width and row["divided"] == divided]
            rates = sorted(row["rate"] for row in own)
            best = max(own, key=lambda row: sum(row["right"]) / len(row["right"]))
            inside = rates[0] < best["rate"] < rates[-1]
            chosen[divided] = best["right"] if inside and len(best["right"]) >= 5 else None
            setting[divided] = rates, best["steps"]
        found[width] = "not known"
        if setting[True] == setting[False] and chosen[True] and chosen[False]:
            if min(chosen[True]) > max(chosen[False]):
                found[width] = "yes"
            elif min(chosen[False]) > max(chosen[True]):
                found[width] = "no"
    return found
