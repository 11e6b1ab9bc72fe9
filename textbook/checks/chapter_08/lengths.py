"""Longer texts than trained: what rotary angles do there, and what a table of results says."""

import math
import statistics

from textbook.checks.conclusions import as_pairs
from textbook.checks.exercise import exercise
from textbook.lab import finding

# What a longer context does to the angles


def _context_cases(draw, hidden):
    yield from [(8, 10_000.0, 20, 64), (4, 100.0, 7, 33), (64, 10_000.0, 2048, 8192)]
    yield 8, 2.0, 500, 900
    if hidden:
        yield from [(6, 500.0, 128, 129), (128, 500_000, 8192, 131_072), (16, 10.0, 7, 100)]


def _context(
    turns=lambda omega, trained, longer: sum(w * (trained - 1) >= 2 * math.pi for w in omega),
    squeeze=lambda trained, longer: (trained - 1) / (longer - 1),
    base=lambda d, base, ratio: base * ratio ** (d / (d - 2)),
    omega=lambda d, base: [base ** (-2 * m / d) for m in range(d // 2)],
    ratio=lambda trained, longer: (longer - 1) / (trained - 1),
    finish=lambda found: found,
):
    """The numbers with one of them exchanged."""

    def context(d, size, trained, longer):
        frequencies, by = omega(d, size), squeeze(trained, longer)
        found = {
            "pairs that have been around": turns(frequencies, trained, longer),
            "squeeze": by,
            "base": base(d, size, ratio(trained, longer)),
        }
        return finish(found)

    return context


@exercise(cases=_context_cases, gradients=False, see='chapter 08, "Rotary positions"')
def longer_context(d, base, trained, longer):
    """Pairs that have been around in training, and two remedies for a longer text: a dict."""
    last, end = trained - 1, longer - 1  # the largest places
    around = [m for m in range(d // 2) if base ** (-2 * m / d) * last >= 2 * math.pi]
    return {
        "pairs that have been around": len(around),
        "squeeze": last / end,
        "base": base * (end / last) ** (d / (d - 2)),
    }


AROUND = "right but for the pairs that have been around"
for name, hint, turns in (
    (
        f"{AROUND}: it counts those that have not",
        "A pair has been around if its angle at the last trained place is 2 pi or more.",
        lambda omega, trained, longer: sum(w * (trained - 1) < 2 * math.pi for w in omega),
    ),
    (
        f"{AROUND}: it counts angles above 1, not above 2 pi",
        "Once around is 2 pi.",
        lambda omega, trained, longer: sum(w * (trained - 1) >= 1 for w in omega),
    ),
    (
        f"{AROUND}: it counts angles above pi",
        "Once around is 2 pi.",
        lambda omega, trained, longer: sum(w * (trained - 1) >= math.pi for w in omega),
    ),
    (
        f"{AROUND}: it counts angles above 360",
        "The angles are in radians: once around is 2 pi.",
        lambda omega, trained, longer: sum(w * (trained - 1) >= 360 for w in omega),
    ),
    (
        f"{AROUND}: it counts them in the longer text",
        "What has been seen in training: up to the place trained - 1.",
        lambda omega, trained, longer: sum(w * (longer - 1) >= 2 * math.pi for w in omega),
    ),
    (
        f"{AROUND}: it takes the length for the last place",
        "Places count from 0: the last one is trained - 1.",
        lambda omega, trained, longer: sum(w * trained >= 2 * math.pi for w in omega),
    ),
    (
        f"{AROUND}: it counts coordinates, two for each pair",
        "d coordinates make d/2 pairs.",
        lambda omega, trained, longer: 2 * sum(w * (trained - 1) >= 2 * math.pi for w in omega),
    ),
    (
        f"{AROUND}: it says which is the last, and not how many they are",
        "Pairs are counted from 0: if m is the last, there are m + 1.",
        lambda omega, trained, longer: sum(w * (trained - 1) >= 2 * math.pi for w in omega) - 1,
    ),
):
    longer_context.wrong(name, hint)(_context(turns=turns))
longer_context.wrong(
    f"{AROUND}: it counts d of them, not d/2",
    "d coordinates make d/2 pairs: m = 0, ..., d/2 - 1.",
)(_context(omega=lambda d, base: [base ** (-2 * m / d) for m in range(d)]))
longer_context.wrong(
    f"{AROUND}: the exponent of their frequencies lacks the 2",
    "Pair m turns by base^(-2m/d) a place.",
)(_context(omega=lambda d, base: [base ** (-m / d) for m in range(d // 2)]))
longer_context.wrong(
    "right but for the base, whose power is d/2: it is that of pair 1",
    "The slowest pair is m = d/2 - 1, with the frequency base^(-(d - 2)/d).",
)(_context(base=lambda d, base, ratio: base * ratio ** (d / 2)))
longer_context.wrong(
    "right but for the base, whose power is d/(d - 1): as if the slowest exponent were -(d - 1)/d",
    "The slowest pair is m = d/2 - 1, with the frequency base^(-(d - 2)/d).",
)(_context(base=lambda d, base, ratio: base * ratio ** (d / (d - 1))))
longer_context.wrong(
    "right but for the base, which only grows with the ratio of the lengths",
    "The frequency of the slowest pair is base^(-(d - 2)/d), not 1/base, and the last place of n "
    "is n - 1: solve for the base.",
)(
    lambda d, base, trained, longer: {
        **_context()(d, base, trained, longer),
        "base": base * longer / trained,
    }
)
longer_context.wrong(
    "right but for the squeeze, which is upside down",
    "Places are multiplied by it, and they have to become smaller: it is below 1.",
)(_context(squeeze=lambda trained, longer: (longer - 1) / (trained - 1)))
longer_context.wrong(
    "right but for the squeeze, which is the ratio of the lengths",
    "Places count from 0: the last ones are trained - 1 and longer - 1.",
)(_context(squeeze=lambda trained, longer: trained / longer))
longer_context.wrong(
    "right but for squeeze and base, which take the lengths for the last places",
    "Places count from 0: the last ones are trained - 1 and longer - 1.",
)(
    _context(
        squeeze=lambda trained, longer: trained / longer,
        ratio=lambda trained, longer: longer / trained,
    )
)
longer_context.wrong(
    "right but for the last places, for which it takes the lengths everywhere",
    "Places count from 0: the last ones are trained - 1 and longer - 1.",
)(
    _context(
        turns=lambda omega, trained, longer: sum(w * trained >= 2 * math.pi for w in omega),
        squeeze=lambda trained, longer: trained / longer,
        ratio=lambda trained, longer: longer / trained,
    )
)
longer_context.wrong(
    "right but for the base, which takes the lengths for the last places",
    "Places count from 0: the last ones are trained - 1 and longer - 1.",
)(_context(ratio=lambda trained, longer: longer / trained))
longer_context.wrong(
    "right but for the base, which only grows with the ratio",
    "The slowest pair has base to the power of -(d - 2)/d. Its place grows by the ratio, so the "
    "base has to grow by the ratio to the power of d/(d - 2).",
)(_context(base=lambda d, base, ratio: base * ratio))
longer_context.wrong(
    "right but for the base, whose power is (d - 2)/d",
    "base^(-(d-2)/d) has to fall by the ratio: solve for the base.",
)(_context(base=lambda d, base, ratio: base * ratio ** ((d - 2) / d)))
longer_context.wrong(
    "right but for the base, whose power is 1/(d - 2)",
    "The slowest pair has m = d/2 - 1, its exponent is -(d - 2)/d.",
)(_context(base=lambda d, base, ratio: base * ratio ** (1 / (d - 2))))
longer_context.wrong(
    "right but for the base, which becomes smaller",
    "A larger base makes the slow pairs slower.",
)(_context(base=lambda d, base, ratio: base / ratio ** (d / (d - 2))))
longer_context.wrong(
    "right but for the base, of which it gives the factor alone",
    "The new base itself: the old one times the factor.",
)(_context(base=lambda d, base, ratio: ratio ** (d / (d - 2))))
longer_context.wrong(
    "three numbers, not a dict",
    "A dict with the keys of the text.",
)(_context(finish=lambda found: [*found.values()]))

# What a table of results says


def _row(scheme, tested, right, steps=400, rates=3, trained=20):
    return {
        "scheme": scheme,
        "trained to": trained,
        "tested at": tested,
        "steps": steps,
        "rates tried": rates,
        "right": right,
    }


def _rows_of(scheme, inside, beyond, longer=64, trained=20, **settings):
    """Both rows of a scheme, for its shares inside and beyond what was trained; made up."""
    whole = [
        (trained * x + (longer - trained) * y) / longer for x, y in zip(inside, beyond, strict=True)
    ]
    for n, values in ((trained, inside), (longer, whole)):
        yield _row(scheme, n, [round(x, 4) for x in values], trained=trained, **settings)


table = [
    _row("table of places", 20, [0.98, 0.97, 0.99, 0.98, 0.97]),
    _row("table of places", 64, [0.35, 0.36, 0.35, 0.36, 0.35]),
    _row("sinusoids", 20, [0.96, 0.97, 0.95, 0.96, 0.95]),
    _row("sinusoids", 64, [0.37, 0.35, 0.36, 0.35, 0.36]),
    _row("relative", 20, [0.90, 0.91, 0.89, 0.90, 0.91]),
    _row("relative", 64, [0.83, 0.86, 0.84, 0.85, 0.83]),
    _row("ALiBi", 20, [0.97, 0.98, 0.97, 0.97, 0.98]),
    _row("ALiBi", 64, [0.70, 0.91, 0.79, 0.90, 0.72]),
    _row("rotary", 20, [0.99, 0.99, 0.99, 0.98, 0.99], steps=1200),
    _row("rotary", 64, [0.62, 0.60, 0.61, 0.62, 0.60], steps=1200),
    _row("index", 20, [0.40, 0.42, 0.41, 0.40, 0.41], rates=1),
    _row("index", 64, [0.24, 0.25, 0.24, 0.23, 0.25], rates=1),
]

LITTLE = (-0.01, 0.01, 0.0, 0.005, -0.005)
MUCH = (-0.1, 0.1, 0.0, 0.05, -0.05)
EIGHT = (*MUCH, 0.02, -0.02, 0.0)


def _table_cases(draw, hidden):
    """Tables in which few rows may be compared, and some differences are no more than noise."""
    yield (table,)
    inside = [("a", 0.95, 0.2, {}), ("b", 0.6, 0.5, {}), ("i", 0.3, 0.42, {})]
    inside += [("c", 0.9, 0.8, {"steps": 900}), ("h", 0.95, 0.3, {"steps": 900})]
    inside += [("d", 0.9, 0.1, {"rates": 1}), ("m", 0.7, 0.4, {"rates": 1})]
    inside += [("f", 0.7, 0.9, {"by": LITTLE[:4]}), ("l", 0.99, 0.1, {"by": LITTLE[:4]})]
    inside += [("g", 0.2, 0.95, {"trained": 12}), ("k", 0.8, 0.7, {"trained": 12})]
    inside += [("j", 0.9, 0.7, {"longer": 100}), ("n", 0.9, 0.2, {"longer": 100})]
    inside += [("o", 0.9, 0.3, {"longer": 100, "by": (*LITTLE, 0.0)})]
    same, other = {"steps": 700, "by": MUCH}, {"steps": 710, "by": MUCH}
    inside += [("p", 0.9, 0.5, same), ("q", 0.9, 0.52, same)]
    inside += [("r", 0.9, 0.5, other), ("s", 0.9, 0.55, other | {"by": MUCH[::-1]})]
    seven = tuple(x + 0.1 for x in EIGHT[:7]) + (EIGHT[7] - 0.01,)
    inside += [("t", 0.9, 0.5, {"steps": 720, "by": EIGHT})]
    inside += [("u", 0.9, 0.5, {"steps": 720, "by": seven})]
    inside += [("v", 0.9, 0.5, {"steps": 730, "by": LITTLE})]
    four = tuple(x + 0.1 for x in LITTLE[:4]) + (LITTLE[4] - 0.001,)
    inside += [("w", 0.9, 0.5, {"steps": 730, "by": four})]
    apart = (0.0, 0.1, 0.0, 0.1, 0.0)
    inside += [("x", 0.9, 0.5, {"steps": 740, "by": apart})]
    inside += [("y", 0.9, 0.606, {"steps": 740, "by": apart})]
    if hidden:
        inside = [(scheme, 1 - a, 0.9 * b, settings) for scheme, a, b, settings in inside]
    rows = []
    for scheme, a, b, given in inside:
        settings = dict(given)
        shifts = settings.pop("by", LITTLE)
        rows += _rows_of(scheme, [a] * len(shifts), [b + x for x in shifts], **settings)
    yield ([rows[i] for i in draw.random.permutation(len(rows))],)
    yield (rows[:4],)


def _as_set(answer, rows):
    """The pairs in any order."""
    return as_pairs(answer(rows), "better")


def _is_finding(x, y):
    return finding(x, y).found


def _pairs(rows, same, beyond=None, better=_is_finding, as_many=True):
    """What may be concluded, with one of the pieces exchanged."""
    beyond = beyond or _beyond
    inside = {row["scheme"]: row for row in rows if row["tested at"] == row["trained to"]}
    longer = {row["scheme"]: row for row in rows if row["tested at"] > row["trained to"]}
    found = []
    for one, a in longer.items():
        for other, b in longer.items():
            if one == other or any(a[key] != b[key] for key in same):
                continue
            x, y = beyond(a, inside[one]), beyond(b, inside[other])
            n = min(len(x), len(y))
            if (len(x) == len(y) or not as_many) and better(x[:n], y[:n]):
                found.append((one, other))
    return found


def _beyond(row, inside):
    """The share at the places beyond, seed by seed."""
    n, trained = row["tested at"], row["trained to"]
    return [
        (n * whole - trained * part) / (n - trained)
        for whole, part in zip(row["right"], inside["right"], strict=True)
    ]


SAME = ["trained to", "tested at", "steps", "rates tried"]


def _why(check, answer, rows):
    """A sentence on the first pair that is missing, or should not be there."""
    found, right = list(answer(rows)), check.reference(rows)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found):
        return None
    found = [tuple(pair) for pair in found]
    missing = [pair for pair in right if pair not in found]
    pairs = missing or [pair for pair in found if pair not in right]
    inside = {row["scheme"]: row for row in rows if row["tested at"] == row["trained to"]}
    longer = {row["scheme"]: row for row in rows if row["tested at"] > row["trained to"]}
    if not pairs or not all(scheme in longer for scheme in pairs[0]):
        return None
    one, other = pairs[0]
    text = f"('{one}', '{other}') {'is missing' if missing else 'is not in it'}: "
    for key in SAME:
        settings = longer[one][key], longer[other][key]
        if settings[0] != settings[1]:
            return text + f"they differ in '{key}', {settings[0]} and {settings[1]}."
    x, y = (_beyond(longer[scheme], inside[scheme]) for scheme in (one, other))
    if len(x) != len(y) or len(x) < 5:
        return text + f"they have {len(x)} and {len(y)} seeds."
    means = f"{statistics.fmean(x):.3f} and {statistics.fmean(y):.3f}"
    return text + f"the mean shares beyond are {means}, and p is {finding(x, y).p:.3f}."


def _in_order(check, answer, rows):
    """Right as long as the rows of a scheme stand in the order of their lengths."""
    ordered = sorted(rows, key=lambda row: row["tested at"])
    if _as_set(answer, ordered) == _as_set(check.reference, rows):
        return (
            "With the rows in the order of 'tested at' it is right. They come in any order: which "
            "row of a scheme is which, 'tested at' and 'trained to' say."
        )
    return None


def _concluding(finish=lambda pairs: pairs, same=SAME, **pieces):
    """The conclusions with one of the pieces exchanged."""
    return lambda rows: finish(_pairs(rows, same, **pieces))


@exercise(
    cases=_table_cases,
    run=_as_set,
    reasons=(_in_order, _why),
    gradients=False,
    see='chapter 08, "Longer than trained (C17)"',
)
def concluded(rows):
    """Pairs (better, worse) of schemes, as far as the table allows."""
    schemes = {}
    for row in rows:
        schemes.setdefault(row["scheme"], []).append(row)
    beyond, setting = {}, {}
    for scheme, both in schemes.items():
        inside, longer = sorted(both, key=lambda row: row["tested at"])
        T, n = inside["tested at"], longer["tested at"]
        shares = zip(inside["right"], longer["right"], strict=True)
        beyond[scheme] = [(n * whole - T * part) / (n - T) for part, whole in shares]
        setting[scheme] = [T, n, longer["steps"], longer["rates tried"]]
    found = []
    for one, x in beyond.items():
        for other, y in beyond.items():
            if setting[one] == setting[other] and len(x) == len(y) and finding(x, y).found:
                found.append((one, other))
    return found


concluded.wrong(
    "a comparison of the shares of all places, trained ones included",
    "Of 64 places 20 were trained: who knows these alone has 31 % right. Take them out first.",
)(_concluding(beyond=lambda row, inside: row["right"]))
concluded.wrong(
    "a comparison of the shares at the trained length",
    "The question is what happens beyond it.",
)(_concluding(beyond=lambda row, inside: inside["right"]))
concluded.wrong(
    "a comparison of the shares lost on the way to the longer text",
    "Who has little to lose loses little. What is right at the places beyond?",
)(
    _concluding(
        beyond=lambda row, inside: [
            b - a for a, b in zip(inside["right"], row["right"], strict=True)
        ]
    )
)
for place, (left_out, hint) in enumerate(
    {
        "trained to other lengths": "Who has trained on longer texts has seen more of the places.",
        "tested at other lengths": "Further beyond is harder.",
        "trained with other numbers of steps": "Who trains longer may be better for that alone.",
        "with other numbers of rates tried": "Who may choose among more rates has an advantage.",
    }.items()
):
    concluded.wrong(
        f"right but for schemes {left_out}, which it compares",
        hint,
    )(_concluding(same=SAME[:place] + SAME[place + 1 :]))
concluded.wrong(
    "a comparison of all schemes, whatever their settings",
    "Both must have trained to the same length, as long, with as many rates, and be tested alike.",
)(_concluding(same=()))
concluded.wrong(
    "right but for schemes with four seeds, which it compares",
    "Four coins all fall on one side in one of 16 throws: p = 0.06. Five seeds at least.",
)(_concluding(better=lambda x, y: finding(x, y).p <= (0.07 if len(x) == 4 else 0.05)))
concluded.wrong(
    "right but for schemes with other numbers of seeds, of which it leaves some out",
    "Without the same seeds there are no pairs: such schemes are not compared.",
)(_concluding(as_many=False))
concluded.wrong(
    "right but for noise: every difference of the means counts",
    "A difference that chance alone would make is no finding: finding(better, worse).found.",
)(_concluding(better=lambda x, y: len(x) >= 5 and statistics.fmean(x) - statistics.fmean(y) > 1e-9))
concluded.wrong(
    "right but for noise: the difference must be more than twice the standard deviation",
    "Seeds that are hard are hard for both. Compare seed by seed, by chapter 00's rule.",
)(
    _concluding(
        better=lambda x, y: (
            len(x) >= 5
            and statistics.fmean(x) - statistics.fmean(y)
            > 2 * max(statistics.stdev(x), statistics.stdev(y))
        )
    )
)
concluded.wrong(
    "right but for noise: every seed of one must be above every seed of the other",
    "Compare the shares of the same seed.",
)(_concluding(better=lambda x, y: len(x) >= 5 and min(x) > max(y)))
concluded.wrong(
    "right but for noise: it deals all shares anew, as if the seeds were not the same",
    "Number i of each list has the same seed. Chance could exchange these two, and no others.",
)(_concluding(better=lambda x, y: finding(x, y, paired=False).found))
concluded.wrong(
    "right but for noise: all seeds must agree",
    "With more than five seeds one may disagree: p counts, not their number alone.",
)(_concluding(better=lambda x, y: len(x) >= 5 and all(a > b for a, b in zip(x, y, strict=True))))
concluded.wrong(
    "right but for p, of which it counts both directions",
    "The question is which is better: count the orders in which it is at least as much better.",
)(_concluding(better=lambda x, y: len(x) >= 5 and 2 * finding(x, y).p <= 0.05))
concluded.wrong(
    "right but for p, which it allows to be 0.1",
    "At most 0.05.",
)(_concluding(better=lambda x, y: len(x) >= 5 and finding(x, y).p <= 0.1))
concluded.wrong(
    "right but for the order: the worse one comes first",
    "(better, worse).",
)(_concluding(finish=lambda pairs: [pair[::-1] for pair in pairs]))
concluded.wrong(
    "right, and each pair once more the other way round",
    "If one is better than the other, the other is not better than the one.",
)(_concluding(finish=lambda pairs: [*pairs, *(pair[::-1] for pair in pairs)]))
concluded.wrong(
    "the best scheme alone",
    "All pairs of which one is better, not the winner.",
)(_concluding(finish=lambda pairs: pairs[:1]))
