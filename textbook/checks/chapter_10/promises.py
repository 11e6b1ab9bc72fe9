"""A proof on paper: what a loss promises for whole sentences."""

import math

import minitorch as mt
from textbook.checks.compare import brief, number
from textbook.checks.released import exercise

KEYS = "right below", "wrong above", "wrong", "right"


def _sentence_cases(draw, more=()):
    yield from [(1, 2), (3, 2), (4, 5), (10, 30), *more]


def _shown(answer, tokens, vocabulary):
    """The two numbers, and what the two examples show."""
    found = answer(tokens, vocabulary)
    if not isinstance(found, dict) or sorted(found) != sorted(KEYS):
        return {f"the dict with {', '.join(map(repr, KEYS))}": brief(found)}
    return {
        f"the dict with {', '.join(map(repr, KEYS))}": "as it should be",
        "'right below', a loss": number(found["right below"]),
        "'wrong above', a loss": number(found["wrong above"]),
        "the example 'wrong'": _verdict(found["wrong"], tokens, vocabulary, "wrong"),
        "the example 'right'": _verdict(found["right"], tokens, vocabulary, "right"),
    }


def _verdict(p, tokens, vocabulary, kind):
    """What an example shows, in words."""
    if getattr(p, "shape", None) != (tokens, vocabulary):
        return f"its shape is {tuple(getattr(p, 'shape', ()))}, not (T, V)"
    p = p.double()
    if not (p >= 0).all() or not mt.allclose(p.sum(dim=1), mt.ones(tokens).double(), atol=1e-5):
        return "its rows are no probabilities"
    others = p[:, 1:].amax(dim=1)
    says_it = (p[:, 0] > others).all().item()
    if says_it != (kind == "right"):
        return f"greedily, the sentence is {'written' if says_it else 'not written'}"
    if (p[:, 0] == others).any():
        return "two tokens are equally likely"
    loss = -p[:, 0].log().mean().item()
    if kind == "wrong" and loss > 1.01 * math.log(2) / tokens:
        return f"its loss is {loss:.4f}, and can be lower"
    if kind == "right" and loss < 0.99 * math.log(vocabulary):
        return f"its loss is {loss:.4f}, and can be higher"
    return "as close to the bound as asked"


promises = exercise(
    "promises",
    cases=_sentence_cases,
    run=_shown,
    gradients=False,
    see='chapter 10, "It learns to translate"',
)
