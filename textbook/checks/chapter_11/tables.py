"""Which conclusions a table of results can carry."""

import statistics

from textbook.checks.compare import brief, number
from textbook.checks.exercise import Draw, exercise


def _row(losses, characters, merges, cost, counted="products", text="captions", **settings):
    """A row of a table."""
    usual = {"architecture": "Transformer", "width": 192, "layers": 2, "dropout": 0.1}
    return {
        "losses": losses,
        "characters a piece": characters,
        "text": text,
        "FLOPs": cost,
        "counted as": counted,
        "settings": usual | {"merges": merges} | settings,
    }


table = [  # made up
    _row([1.62, 1.60, 1.61], 4.0, 3000, 8.1e13),
    _row([1.50, 1.52, 1.51], 3.2, 1000, 1.0e14),
    _row([1.70, 1.72, 1.69], 4.0, 3000, 7.4e13, architecture="GRU"),
    _row([1.57, 1.66, 1.61], 4.0, 3000, 8.1e13, dropout=0.2),
    _row([1.55, 1.56, 1.54], 4.0, 3000, 2.9e14, width=384, dropout=0.3),
    _row([1.64, 1.63, 1.65], 4.0, 3000, 1.9e14, "capacity", layers=6),
    _row([1.40, 1.41, 1.42], 4.0, 3000, 8.1e13, text="news", dropout=0.0),
    _row([1.30], 4.0, 3000, 6.0e14, "capacity", width=768, layers=6),
]
claims = [
    ("better", 1, 0),
    ("better", 0, 1),
    ("better", 0, 2),
    ("better", 3, 2),
    ("better", 6, 0),
    ("better", 7, 4),
    ("fewer products", 0, 1),
    ("fewer products", 0, 5),
    ("fewer products", 5, 4),
    ("because of", 0, 2, "architecture"),
    ("because of", 4, 0, "width"),
    ("because of", 0, 1, "merges"),
    ("because of", 4, 3, "dropout"),
]


def _table_cases(draw, hidden):
    """The table of the statement; tables that ask for one thing each; rows drawn at random."""
    yield table, claims
    up = 0.4 if hidden else 0.0
    base = _row([2.0 + up, 2.02 + up, 1.98 + up], 4.0, 300, 3e12)
    pairs = {
        "clear": _row([1.8 + up, 1.82 + up, 1.78 + up], 4.0, 300, 2e12, width=64),
        "within the spread": _row([1.97 + up, 1.99 + up, 1.95 + up], 4.0, 300, 3e12, width=64),
        "restless": _row([1.7 + up, 2.1 + up, 1.75 + up], 4.0, 300, 3e12, width=64),
        "restless and worse": _row([2.2 + up, 2.6 + up, 2.25 + up], 4.0, 300, 3e12, width=64),
        "just enough": _row([1.95 + up, 1.96 + up, 1.94 + up], 4.0, 300, 3e12, width=64),
        "shorter pieces": _row([1.8 + up, 1.82 + up, 1.78 + up], 2.5, 50, 1e12),
        "longer pieces": _row([2.2 + up, 2.22 + up, 2.18 + up], 6.0, 900, 4e12),
        "longer pieces, and wide": _row([2.2 + up, 2.22 + up, 2.18 + up], 6.0, 900, 4e12, width=64),
        "another text": _row([1.2, 1.22, 1.18], 4.0, 300, 3e12, text="news"),
        "one seed": _row([1.2], 4.0, 300, 1e12, width=64),
        "two seeds": _row([1.2, 1.21], 4.0, 300, 1e12, width=64),
        "worse": _row([2.9, 2.92, 2.88], 4.0, 300, 3e12, width=64),
        "two changes": _row([1.2, 1.22, 1.18], 4.0, 300, 3e12, width=64, layers=4),
        "capacity below": _row([2.0, 2.02, 1.98], 4.0, 300, 1e12, "capacity", width=64),
        "capacity above": _row([2.0, 2.02, 1.98], 4.0, 300, 9e12, "capacity", width=64),
        "no change": _row([1.2, 1.22, 1.18], 4.0, 300, 3e12),
    }
    for other in pairs.values():
        asked = [
            (*claim, *rest)
            for kind, *rests in (
                ("better", ()),
                ("fewer products", ()),
                ("because of", ("width",), ("merges",), ("layers",)),
            )
            for rest in rests
            for claim in ((kind, 0, 1), (kind, 1, 0))
        ]
        yield [base, other], asked
    yield (
        [pairs["capacity below"], pairs["capacity above"]],
        [
            ("fewer products", 0, 1),
            ("fewer products", 1, 0),
        ],
    )
    random, rows = draw.random, []
    for _ in range(6 if hidden else 5):
        merges = int(random.choice([100, 1000]))
        rows.append(
            _row(
                [round(float(x), 3) for x in random.normal(2, 0.1) + random.normal(0, 0.02, 3)],
                {100: 3.0, 1000: 4.0}[merges],
                merges,
                round(float(random.uniform(1, 9)), 1) * 1e12,
                str(random.choice(["products", "products", "capacity"])),
                width=int(random.choice([32, 64])),
            )
        )
    asked = []
    for i in range(len(rows)):
        for j in range(len(rows)):
            if i != j:
                asked += [("better", i, j), ("fewer products", i, j)]
                asked += [("because of", i, j, name) for name in ("width", "merges")]
    yield rows, asked


def _of_a_character(row):
    return [loss / row["characters a piece"] for loss in row["losses"]]


def _spread(one, other):
    return max(statistics.stdev(one), statistics.stdev(other))


def _fewer(ours, theirs):
    return theirs["counted as"] == "products" and ours["FLOPs"] < theirs["FLOPs"]


def _one_setting(ours, theirs, name):
    return [
        key for key in ours["settings"] if ours["settings"][key] != theirs["settings"][key]
    ] == [name]


def _same_text(ours, theirs):
    return ours["text"] == theirs["text"]


def _reading(
    losses=_of_a_character,
    seeds=2,
    times=2.0,
    spread=_spread,
    spread_of=None,
    mean=statistics.mean,
    same=_same_text,
    fewer=_fewer,
    cause=_one_setting,
    needs_better=True,
    gap=lambda difference: difference,
    say=lambda i, holds: i if holds else None,
):
    """The reader with one of its pieces exchanged."""

    def better(ours, theirs):
        one, other = losses(ours), losses(theirs)
        if min(len(one), len(other)) < seeds or not same(ours, theirs):
            return False
        deviation = spread(*map(spread_of or losses, (ours, theirs)))
        return gap(mean(other) - mean(one)) > times * deviation

    def supported(table, claims):
        found = []
        for k, (kind, i, j, *name) in enumerate(claims):
            ours, theirs = table[i], table[j]
            if kind == "better":
                holds = better(ours, theirs)
            elif kind == "fewer products":
                holds = fewer(ours, theirs)
            else:
                holds = cause(ours, theirs, *name) and (better(ours, theirs) or not needs_better)
            found.append(say(k, holds))
        return [answer for answer in found if answer is not None]

    return supported


def _said(answer, table, claims):
    """The claims themselves, for the numbers that the answer returns."""
    found = answer(table, claims)
    form, told = "a list of numbers of claims", None
    if isinstance(found, (list, tuple)) and all(
        type(number(k)) is int and 0 <= number(k) < len(claims) for k in found
    ):
        told = "; ".join(" ".join(map(str, claims[k])) for k in sorted(map(number, found)))
    else:
        form = brief(found)
    return {"the form of the result": form, "the list of claims": told or "none"}


def _first_wrong(check, answer, *_):
    """One claim that is missing or one too many, and what its table says of it."""
    for rows, asked in _table_cases(Draw(0), hidden=False):
        if said := _wrong_claim(answer, rows, asked):
            return said
    return None


def _wrong_claim(answer, table, claims):
    found, right = ({number(k) for k in f(table, claims)} for f in (answer, supported.reference))
    wrong = sorted(found ^ right)
    if not wrong or not found <= set(range(len(claims))):
        return None
    kind, i, j, *name = claims[wrong[0]]
    ours, theirs = table[i], table[j]
    facts = [
        f"row {k}: nats a character {', '.join(f'{x:.4f}' for x in _of_a_character(row))} on "
        f"{row['text']}"
        for k, row in ((i, ours), (j, theirs))
    ]
    if kind == "fewer products":
        facts = [
            f"row {k}: {table[k]['FLOPs']:.3g} FLOPs of {table[k]['counted as']}" for k in (i, j)
        ]
    if kind == "because of":
        changed = [
            key for key, value in ours["settings"].items() if value != theirs["settings"][key]
        ]
        facts.append(f"they differ in {' and '.join(changed) or 'no setting'}")
    verdict = "holds and is missing" if wrong[0] in right else "does not hold"
    return f"Claim {claims[wrong[0]]} {verdict}: {'; '.join(facts)}."


@exercise(
    cases=_table_cases,
    run=_said,
    reasons=(_first_wrong,),
    gradients=False,
    see='chapter 11, "Reading tables"',
)
def supported(table, claims):
    """The numbers of those claims that the table supports."""

    def better(ours, theirs):
        one, other = (
            [loss / row["characters a piece"] for loss in row["losses"]] for row in (ours, theirs)
        )
        if ours["text"] != theirs["text"] or min(len(one), len(other)) < 2:
            return False
        spread = max(statistics.stdev(one), statistics.stdev(other))
        return statistics.mean(other) - statistics.mean(one) > 2 * spread

    found = []
    for k, (kind, i, j, *name) in enumerate(claims):
        ours, theirs = table[i], table[j]
        settings = ours["settings"], theirs["settings"]
        if kind == "better":
            holds = better(ours, theirs)
        elif kind == "fewer products":
            holds = theirs["counted as"] == "products" and ours["FLOPs"] < theirs["FLOPs"]
        else:
            changed = [key for key in settings[0] if settings[0][key] != settings[1][key]]
            holds = changed == name and better(ours, theirs)
        if holds:
            found.append(k)
    return found


def _either_seed(one, other):
    """The larger standard deviation, 0 for one run."""
    return max(statistics.stdev(x) if len(x) > 1 else 0.0 for x in (one, other))


for name, hint, pieces in (
    (
        "right but for vocabularies: it compares losses of a piece",
        "Longer pieces are harder to guess, and there are fewer of them. Divide the losses by the "
        "characters a piece.",
        {"losses": lambda row: row["losses"]},
    ),
    (
        "right but for vocabularies: it multiplies by the characters a piece",
        "A piece with more characters carries more: nats a character is the loss divided by them.",
        {"losses": lambda row: [loss * row["characters a piece"] for loss in row["losses"]]},
    ),
    (
        "right but for vocabularies: it compares rows with the same merges only",
        "Nats a character compare across vocabularies.",
        {
            "same": lambda ours, theirs: (
                _same_text(ours, theirs)
                and ours["settings"]["merges"] == theirs["settings"]["merges"]
            )
        },
    ),
    (
        "right but for the text: it compares losses of different texts",
        "One text is easier than another one, for every model.",
        {"same": lambda ours, theirs: True},
    ),
    (
        "right but for the spread, at which it does not look",
        "A difference that seeds alone would make is none.",
        {"times": 0.0},
    ),
    (
        "right but for the spread: it asks for one standard deviation, not for two",
        "The means must differ by more than twice the larger standard deviation.",
        {"times": 1.0},
    ),
    (
        "right but for the spread, which it takes of the better row alone",
        "Take the larger of the two standard deviations.",
        {"spread": lambda one, other: statistics.stdev(one)},
    ),
    (
        "right but for the spread, which it takes of the worse row alone",
        "Take the larger of the two standard deviations.",
        {"spread": lambda one, other: statistics.stdev(other)},
    ),
    (
        "right but for the spread, which is that of all numbers and not of a sample",
        "A standard deviation from a few runs divides by their number minus 1: statistics.stdev.",
        {
            "spread": lambda one, other: max(statistics.pstdev(one), statistics.pstdev(other)),
        },
    ),
    (
        "right but for the spread, for which it takes the smaller standard deviation",
        "Take the larger of the two: the restless row decides.",
        {"spread": lambda one, other: min(statistics.stdev(one), statistics.stdev(other))},
    ),
    (
        "right but for the spread, which is that of the losses of a piece",
        "Divide all losses by the characters a piece first; then take mean and deviation of these.",
        {"spread_of": lambda row: row["losses"]},
    ),
    (
        "right but for the spread: it takes the sum of both standard deviations",
        "Take the larger of the two.",
        {"spread": lambda one, other: statistics.stdev(one) + statistics.stdev(other)},
    ),
    (
        "right but for the difference, which is that of the best runs",
        "The best of several runs is luck. Compare the means.",
        {"mean": min},
    ),
    (
        "right but for rows with one run, of which it believes that they have no spread",
        "From one run nobody knows the spread: ask for two at least.",
        {"seeds": 1, "spread": _either_seed},
    ),
    (
        "right but for rows with two runs, which it does not believe",
        "Two have a standard deviation: that is what the statement asks for.",
        {"seeds": 3},
    ),
    (
        "right but for costs, of which it compares the numbers alone",
        "Products are what was computed, capacity what could have been: the products of a row that "
        "tells its capacity may be much fewer.",
        {"fewer": lambda ours, theirs: ours["FLOPs"] < theirs["FLOPs"]},
    ),
    (
        "right but for costs, of which it compares those that are counted alike, capacities too",
        "Two capacities say nothing of the products: one processor may have been idle more.",
        {
            "fewer": lambda ours, theirs: (
                ours["counted as"] == theirs["counted as"] and ours["FLOPs"] < theirs["FLOPs"]
            )
        },
    ),
    (
        "right but for costs, of which it compares products with products alone",
        "Who took fewer FLOPs even as capacity has computed fewer products, too.",
        {"fewer": lambda ours, theirs: ours["counted as"] == "products" and _fewer(ours, theirs)},
    ),
    (
        "right but for capacities: it lets them stand for the larger cost",
        "Capacity is the most that may have been computed: it bounds the smaller side, not the "
        "larger one.",
        {
            "fewer": lambda ours, theirs: (
                ours["counted as"] == "products" and ours["FLOPs"] < theirs["FLOPs"]
            )
        },
    ),
    (
        "right but for causes: it does not ask what else was changed",
        "Where two things were changed, either may be the cause, or both together.",
        {"cause": lambda ours, theirs, name: ours["settings"][name] != theirs["settings"][name]},
    ),
    (
        "right but for causes: it does not look at the settings",
        "The setting that is claimed must differ, and no other.",
        {"cause": lambda ours, theirs, name: True},
    ),
    (
        "right but for causes: it does not ask whether this was changed",
        "The one setting in which the rows differ must be the one that is claimed.",
        {
            "cause": lambda ours, theirs, name: (
                sum(ours["settings"][key] != theirs["settings"][key] for key in ours["settings"])
                == 1
            )
        },
    ),
    (
        "right but for causes: it does not ask whether there is a difference",
        "A cause needs an effect: the row must also be better.",
        {"needs_better": False},
    ),
    (
        "the list of the claims that the table does not support",
        "Return the numbers of those that it supports.",
        {"say": lambda i, holds: None if holds else i},
    ),
    (
        "counted from 1",
        "Claims are numbered from 0, as in Python.",
        {"say": lambda i, holds: i + 1 if holds else None},
    ),
    (
        "a list of True and False",
        "Return the numbers of the claims that the table supports, counted from 0.",
        {"say": lambda i, holds: holds},
    ),
    (
        "right but for the direction: it takes a difference in any direction",
        "Row i must have the lower loss.",
        {"gap": abs},
    ),
):
    supported.wrong(name, hint)(_reading(**pieces))
