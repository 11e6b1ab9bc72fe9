"""What a table of language models says, at equal parameters and at equal compute."""

import statistics

from textbook.checks.compare import brief
from textbook.checks.exercise import Draw, exercise


def _row(name, parameters, flops, tokens, rate, validation, test):
    return {
        "name": name,
        "parameters": parameters,
        "FLOPs a token": flops,
        "tokens": tokens,
        "rate": rate,
        "validation": validation,
        "test": test,
    }


_LSTM, _WIDE, _RNN = (
    (25_000, 50_000, 900_000),
    (99_000, 198_000, 300_000),
    (25_300, 50_600, 900_000),
)
_GRU, _SMALL = (24_800, 49_600, 900_000), (6_300, 12_600, 3_600_000)
table = [
    _row("LSTM", *_LSTM, 0.01, [5.9, 6.2, 6.0, 6.0, 6.1], [5.9, 6.3, 6.1, 6.1, 6.2]),
    _row("LSTM", *_LSTM, 0.02, [5.0, 5.2, 5.1, 5.1, 5.2], [5.1, 5.3, 5.0, 5.1, 5.2]),
    _row("LSTM", *_LSTM, 0.04, [5.4, 5.3, 5.6, 5.4, 5.5], [5.3, 5.4, 5.7, 5.4, 5.5]),
    _row("RNN", *_RNN, 0.01, [5.6, 5.7, 5.5, 5.6, 5.7], [5.7, 5.6, 5.6, 5.6, 5.7]),
    _row("RNN", *_RNN, 0.02, [5.9, 6.4, 6.1, 6.1, 6.2], [5.8, 6.5, 6.0, 6.0, 6.1]),
    _row("RNN", *_RNN, 0.005, [6.3, 6.4, 6.2, 6.3, 6.4], [6.3, 6.5, 6.2, 6.3, 6.4]),
    _row("GRU", *_GRU, 0.01, [5.6, 5.8, 5.5, 5.6, 5.7], [5.6, 5.8, 5.7, 5.7, 5.8]),
    _row("GRU", *_GRU, 0.02, [5.2, 5.1, 5.3, 5.2, 5.3], [5.2, 5.2, 5.4, 5.2, 5.3]),
    _row("GRU", *_GRU, 0.04, [5.3, 5.2, 5.5, 5.3, 5.4], [4.8, 4.9, 4.7, 4.8, 4.9]),
    _row("wide LSTM", *_WIDE, 0.01, [6.6, 6.3, 6.5, 6.5, 6.6], [6.5, 6.3, 6.6, 6.5, 6.6]),
    _row("wide LSTM", *_WIDE, 0.02, [6.1, 5.8, 6.0, 6.0, 6.1], [6.2, 5.8, 6.1, 6.1, 6.2]),
    _row("wide LSTM", *_WIDE, 0.04, [5.5, 5.4, 5.6, 5.5, 5.6], [5.5, 5.4, 5.7, 5.5, 5.6]),
    _row("small LSTM", *_SMALL, 0.02, [5.9, 5.8, 6.0, 5.9, 6.0], [5.8, 5.9, 6.0, 5.9, 6.0]),
    _row("small LSTM", *_SMALL, 0.04, [5.7, 5.8, 5.9, 5.8, 5.9], [5.9, 5.7, 5.8, 5.8, 5.9]),
    _row("small LSTM", *_SMALL, 0.08, [6.2, 6.1, 6.4, 6.2, 6.3], [6.3, 6.1, 6.2, 6.2, 6.3]),
]


def _made_up(name, size, best, spread=0.05, others=(1.0, 1.0), test=0.0, seeds=5):
    """Rows of one name at three rates, the best in the middle unless ``others`` says otherwise.

    ``test`` is added to what is measured on test data.
    """
    for rate, more in zip((0.01, 0.1, 0.03), (others[0], others[1], 0.0), strict=True):
        middle = best + more
        values = [middle + spread * (s - (seeds - 1) / 2) for s in range(seeds)]
        yield _row(name, *size, rate, values, [x + test for x in reversed(values)])


def _table_cases(draw, hidden):
    yield (table,)
    plain, near, far = (10_000, 20_000, 500), (10_520, 21_040, 500), (10_700, 21_400, 500)
    fewer, mixed = (10_100, 20_200, 400), (20_000, 40_000, 250)
    rows = [
        *_made_up("a", plain, 5.0),
        *_made_up("b", near, 5.5),
        *_made_up("c", far, 6.0),
        *_made_up("d", plain, 5.15),
        *_made_up("e", fewer, 4.0),
        *_made_up("f", mixed, 7.0),
        *_made_up("g", plain, 4.5, others=(-0.5, 1.0)),
        *_made_up("h", plain, 4.4, others=(1.0, -0.5)),
        *_made_up("i", plain, 3.0, seeds=4),
        *_made_up("j", plain, 3.1, seeds=7),
        *_made_up("s", plain, 5.7, seeds=7),
        *_made_up("k", plain, 5.0, test=3.0),
        *_made_up("l", near, 6.6, test=-3.0, spread=0.025),
        *_made_up("m", plain, 9.0, spread=0.6),
        *_made_up("n", (10_520, 20_500, 487), 8.05),
        *_made_up("o", (10_000, 40_000, 500), 2.0),
    ]
    far_off = [9.5, 9.6, 9.7, 9.5, 9.6]
    third = [
        _row("p", *plain, 0.01, [5.5, 6.6, 6.6, 6.6, 6.6], far_off),
        _row("p", *plain, 0.03, [5.9] * 5, [2.5, 2.6, 2.7, 2.5, 2.6]),
        _row("p", *plain, 0.1, [7.0] * 5, far_off),
        _row("r", *plain, 0.01, [7.0] * 5, far_off),
        _row("r", *plain, 0.03, [5.9] * 5, [2.2, 2.3, 2.4, 2.2, 2.3]),
        _row("r", *plain, 0.1, [5.7, 5.7, 5.7, 7.0, 7.0], far_off),
    ]
    fourth = [
        _row("q", *plain, rate, [v] * 5, [u] * 5)
        for rate, v, u in ((0.01, 6.5, 0.5), (0.03, 6.0, 9.7), (0.1, 6.4, 0.6))
    ]
    rows += third + fourth
    rows += [row | {"test": row["test"][:4]} for row in _made_up("u", plain, 2.5)]
    rows += [row | {"validation": row["validation"][:4]} for row in _made_up("v", plain, 7.5)]
    edge = [*_made_up("t", plain, 4.7)]  # its own edges: 0.03 is the largest rate of this one
    rows += [row for row in edge if row["rate"] != 0.1]
    if hidden:
        rows = [
            row | {key: [round(1.1 * x, 6) for x in row[key]] for key in ("validation", "test")}
            for row in rows
        ]
    yield ([rows[i] for i in Draw(hidden).random.permutation(len(rows))],)
    yield (rows[:6],)


def _as_set(answer, rows):
    """The triples in any order."""
    found = answer(rows)
    if not isinstance(found, (list, tuple, set)) or not all(
        isinstance(each, (list, tuple)) and len(each) == 3 for each in found
    ):
        return {"the form of the result": brief(found)}
    said = sorted(f"{one} is better than {other} at equal {what}" for one, other, what in found)
    return {"the form of the result": "triples", "what is concluded": "; ".join(said) or "nothing"}


def _because(rows, name):
    """The row that stands for a network, and why nothing is said about it, or None."""
    own = [row for row in rows if row["name"] == name]
    row = min(own, key=lambda row: statistics.mean(row["validation"]))
    rates, why = [row["rate"] for row in own], None
    if row["rate"] in (min(rates), max(rates)):
        why = f"its rate, {row['rate']:g}, is the smallest or largest that was tried for it"
    elif len(row["test"]) < 5:
        why = "it has fewer than five seeds"
    return row, why


def _one_triple(check, answer, rows):
    """What is wrong with one triple of the list, by the rules."""
    found = answer(rows)
    if not isinstance(found, (list, tuple, set)) or not all(
        isinstance(each, (list, tuple)) and len(each) == 3 for each in found
    ):
        return 'Return a list of triples (better, worse, "parameters" or "compute").'
    found, right = [*map(tuple, found)], [*map(tuple, check.reference(rows))]
    for triple in found:
        if found.count(triple) > 1:
            return f"{triple} is in the list more than once."
    names = {row["name"] for row in rows}
    for one, other, what in found:
        if (one, other, what) in right:
            continue
        if not {one, other} <= names or what not in ("parameters", "compute"):
            return f"{(one, other, what)} is no triple of two names and what is equal."
        (a, no_a), (b, no_b) = (_because(rows, name) for name in (one, other))
        if no_a or no_b:
            return f"Nothing may be said about {one if no_a else other}: {no_a or no_b}."
        if max(a["test"]) >= min(b["test"]):
            return (
                f"{one} is not better than {other}: at the rates {a['rate']:g} and {b['rate']:g} "
                "not each of its seeds is below each of the other's, on test data."
            )
        return f"{one} is better than {other}, but they are not equal in {what}."
    for one, other, what in right:
        if (one, other, what) not in found:
            rates = [_because(rows, name)[0]["rate"] for name in (one, other)]
            return (
                f"{one} is better than {other} at equal {what}: they stand for the rates "
                f"{rates[0]:g} and {rates[1]:g}, where each of its seeds is below each of the "
                "other's, on test data."
            )
    return None


@exercise(
    cases=_table_cases,
    run=_as_set,
    gradients=False,
    reasons=(_one_triple,),
    see='chapter 02, "An LSTM language model (E3)"',
)
def better_at_equal(rows):
    """Triples (better, worse, "parameters" or "compute"), as far as the table allows."""
    best = {}
    for name in {row["name"] for row in rows}:
        own = [row for row in rows if row["name"] == name]
        rates = [row["rate"] for row in own]
        chosen = min(own, key=lambda row: statistics.mean(row["validation"]))
        if min(rates) < chosen["rate"] < max(rates) and len(chosen["test"]) >= 5:
            best[name] = chosen

    def near(a, b):
        return abs(a - b) <= 0.05 * max(a, b)

    found = []
    for one, a in best.items():
        for other, b in best.items():
            if max(a["test"]) >= min(b["test"]):
                continue
            if near(a["parameters"], b["parameters"]) and a["tokens"] == b["tokens"]:
                found.append((one, other, "parameters"))
            if near(a["FLOPs a token"] * a["tokens"], b["FLOPs a token"] * b["tokens"]):
                found.append((one, other, "compute"))
    return found
