"""Which conclusions a table of results can carry."""

from textbook.checks.compare import brief, number
from textbook.checks.exercise import Draw, exercise
from textbook.lab import finding


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
    _row([1.62, 1.60, 1.61, 1.62, 1.60], 4.0, 3000, 8.1e13),
    _row([1.50, 1.52, 1.51, 1.51, 1.52], 3.2, 1000, 1.0e14),
    _row([1.70, 1.72, 1.69, 1.71, 1.70], 4.0, 3000, 7.4e13, architecture="GRU"),
    _row([1.57, 1.73, 1.61, 1.69, 1.72], 4.0, 3000, 8.1e13, dropout=0.2),
    _row([1.55, 1.56, 1.54, 1.55, 1.54], 4.0, 3000, 2.9e14, width=384, dropout=0.3),
    _row([1.64, 1.63, 1.65, 1.64, 1.63], 4.0, 3000, 1.9e14, "capacity", layers=6),
    _row([1.40, 1.41, 1.42, 1.41, 1.40], 4.0, 3000, 8.1e13, text="news", dropout=0.0),
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


def _table_cases(draw, up=0.0, count=5):
    """The table of the statement; tables that ask for one thing each; rows drawn at random."""
    yield table, claims
    seeds = [2.0 + up, 2.02 + up, 1.98 + up, 2.01 + up, 1.99 + up]

    def less(*by, losses=seeds):
        return [x - y for x, y in zip(losses, by, strict=True)]

    base = _row(seeds, 4.0, 300, 3e12)
    clear, low = less(*[0.2] * 5), less(*[0.8] * 5)
    pairs = {
        "clear": _row(clear, 4.0, 300, 2e12, width=64),
        "small, and with each seed": _row(less(*[0.01] * 5), 4.0, 300, 3e12, width=64),
        "restless": _row(less(0.3, -0.08, 0.23, -0.04, 0.19), 4.0, 300, 3e12, width=64),
        "restless and worse": _row(less(-0.3, 0.08, -0.23, 0.04, -0.19), 4.0, 300, 3e12, width=64),
        "one seed against it": _row(less(0.1, 0.1, 0.1, 0.1, -0.01), 4.0, 300, 3e12, width=64),
        "shorter pieces": _row(clear, 2.5, 50, 1e12),
        "longer pieces": _row(less(*[-0.2] * 5), 6.0, 900, 4e12),
        "longer pieces, and wide": _row(less(*[-0.2] * 5), 6.0, 900, 4e12, width=64),
        "another text": _row(low, 4.0, 300, 3e12, text="news"),
        "one run": _row(low[:1], 4.0, 300, 1e12, width=64),
        "four runs": _row(low[:4], 4.0, 300, 1e12, width=64),
        "six runs": _row([*low, 1.2], 4.0, 300, 1e12, width=64),
        "worse": _row(less(*[-0.9] * 5), 4.0, 300, 3e12, width=64),
        "two changes": _row(low, 4.0, 300, 3e12, width=64, layers=4),
        "capacity below": _row(seeds, 4.0, 300, 1e12, "capacity", width=64),
        "capacity above": _row(seeds, 4.0, 300, 9e12, "capacity", width=64),
        "no change": _row(low, 4.0, 300, 3e12),
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
    eight = [*seeds, 2.03 + up, 1.97 + up, 2.0 + up]
    apart = [2.0 + up, 2.1 + up, 2.0 + up, 2.1 + up, 2.0 + up]
    for one, other in (
        (less(*[0.1] * 7, -0.01, losses=eight), eight),
        (less(*[0.106] * 5, losses=apart), apart),
        (low[:4], seeds[:4]),
    ):
        two = [_row(one, 4.0, 300, 3e12, width=64), _row(other, 4.0, 300, 3e12)]
        yield two, [("better", 0, 1), ("better", 1, 0), ("because of", 0, 1, "width")]
    random, rows = draw.random, []
    for _ in range(count):
        merges = int(random.choice([100, 1000]))
        rows.append(
            _row(
                [round(float(x), 3) for x in random.normal(2, 0.1) + random.normal(0, 0.02, 5)],
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
    for rows, asked in _table_cases(Draw(0)):
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
    hidden_cases=lambda draw: _table_cases(draw, up=0.4, count=6),
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
        return (
            ours["text"] == theirs["text"] and len(one) == len(other) and finding(other, one).found
        )

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
