"""What a table of language models says, whose tokens are not the same."""

from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


def _row(model, loss, tokens, characters, unknown=0, reads="the past", text="validation"):
    return {
        "model": model,
        "loss": loss,
        "tokens": tokens,
        "characters": characters,
        "unknown": unknown,
        "reads": reads,
        "text": text,
    }


table = [  # made up
    _row("RNN, characters", 1.92, 16_000, 16_000),
    _row("RNN, bytes", 1.71, 16_900, 16_000),
    _row("RNN, pieces", 4.10, 5_600, 16_000),
    _row("RNN, words", 4.35, 2_900, 16_000, unknown=610),
    _row("bigrams, characters", 2.45, 16_000, 16_000),
    _row("RNN, both directions", 0.31, 16_000, 16_000, reads="past and future"),
    _row("large RNN, characters", 0.94, 144_000, 144_000, text="training"),
]


def _table_cases(draw, length=7):
    yield (table,)
    for _ in range(3):
        rows = []
        for i in range(length):
            kind = draw.random.integers(6)
            characters = int(draw.random.integers(900, 9000))
            tokens = int(characters * draw.random.choice([1, 1.2, 0.35, 0.18]))
            loss = round(float(draw.random.uniform(0.8, 2.5)) * characters / tokens, 3)
            other = {
                0: {"unknown": int(draw.random.integers(1, 9))},
                1: {"reads": "past and future"},
                2: {"text": "training"},
                3: {"text": "test"},
            }
            rows.append(_row(f"model {i}", loss, tokens, characters, **other.get(kind, {})))
        yield (rows,)
    yield ([],)


def _row_by_row(check, answer, rows):
    """What is wrong with one model of the ranking, by the rules."""
    found, right = answer(rows), check.reference(rows)
    if not isinstance(found, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found
    ):
        return "Return a list of pairs (model, nats a character)."
    names, wanted = [pair[0] for pair in found], [pair[0] for pair in right]
    for row in rows:
        name = row["model"]
        if name in names and name not in wanted:
            if row["unknown"]:
                why = f"has met {row['unknown']} unknown tokens"
            elif row["reads"] != "the past":
                why = f"reads {row['reads']}"
            else:
                why = f"was measured on the {row['text']} text"
            return f"{name} is in your list, but {why}."
        if name in wanted and names.count(name) != 1:
            return f"{name} has to be in the list, once."
    for row in rows:
        for name, nats in found:
            if name == row["model"] and difference(nats, dict(right)[name], "[]"):
                return (
                    f"{name} has {dict(right)[name]:.4g} nats a character: {row['tokens']} tokens "
                    f"at {row['loss']:g} nats, shared among {row['characters']} characters."
                )
    return None if names == wanted else "The models are right, but not their order: the best first."


@exercise(
    cases=_table_cases,
    hidden_cases=lambda draw: _table_cases(draw, length=9),
    run=lambda answer, rows: {"the ranking": answer(rows)},
    gradients=False,
    reasons=(_row_by_row,),
    see='chapter 01, "Train it"',
)
def ranking(rows):
    """Pairs (model, nats a character) of the models that can be compared, the best first."""
    found = []
    for row in rows:
        honest = row["reads"] == "the past" and row["text"] == "validation"
        if honest and row["unknown"] == 0:
            found.append((row["model"], row["loss"] * row["tokens"] / row["characters"]))
    return sorted(found, key=lambda pair: pair[1])
