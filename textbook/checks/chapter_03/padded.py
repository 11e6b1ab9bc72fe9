"""Encoders of padded batches, some of them broken."""

import functools

import numpy as np

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import each_alone, judged, some_of

V, D, LONGEST = 12, 4, 12  # tokens, numbers of a vector, words of a sentence at most


class _Encoder:
    """An encoder that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, tokens, padding):
        return self.function(tokens, padding)


@functools.cache
def _weights(seed):
    random = np.random.default_rng(seed)
    return random.standard_normal((V, D)), 0.6 * random.standard_normal((D, D))


def _states(order, seed):
    """The states after each token of one sentence, read in this order."""
    embedding, weights = _weights(seed)
    h, states = np.zeros(D), []
    for token in order:
        h = np.sin(embedding[token] + h @ weights)
        states.append(h)
    return np.array(states)


def _run(order, seed=3):
    """The last of them."""
    return mt.tensor(_states(order, seed)[-1])


def _reading(
    words=lambda row, padding: row[~padding],
    read=_run,
    rows=lambda tokens, padding: range(len(tokens)),
):
    """An encoder, sentence by sentence, with one of its pieces exchanged."""

    def encode(tokens, padding):
        found = [read(words(tokens[b], padding[b]).tolist()) for b in rows(tokens, padding)]
        return mt.stack(found)

    return encode


def _sorted_rows(tokens, padding):
    """The longest sentence first, and so they stay."""
    return (~padding).sum(1).argsort(descending=True, stable=True).tolist()


def _kinds():
    """Functions that make a broken encoder, and right ones, by kind."""

    def of_first(tokens, padding):
        return _reading()(tokens, padding[:1].expand(*padding.shape))

    def less_mean(tokens, padding):
        found = _reading()(tokens, padding)
        return found - 0.1 * found.mean(dim=0, keepdim=True)

    def in_place(tokens, padding):
        tokens[:] = tokens.masked_fill(padding, 0)
        return _reading()(tokens, padding)

    def in_padding(tokens, padding):
        found = _reading()(tokens, padding)
        padding[:, 1:] = True
        return found

    def without_zeros(row, padding):
        words = row[~padding]
        return words[words != 0] if bool((words != 0).any()) else words

    def remembers():
        kept = []

        def encode(tokens, padding):
            kept.append(_reading()(tokens, padding))
            return kept[-1] + 0.01 * (len(kept) - 1)

        return encode

    def scaled(tokens, padding):
        return _reading()(tokens, padding) / tokens.shape[1] ** 0.5

    def rounded(tokens, padding):
        return _reading()(tokens, padding) * (1 + 1e-12 * tokens.shape[1])

    broken = {
        "reads the padding": lambda: _reading(words=lambda row, padding: row),
        "begins in the padding": lambda: _reading(words=lambda row, padding: row.flip(0)),
        "leaves its rows sorted by length": lambda: _reading(rows=_sorted_rows),
        "gives all rows the length of the first": lambda: of_first,
        "skips the first word of longer sentences": lambda: _reading(
            words=lambda row, padding: row[~padding][1 if (~padding).sum().item() > 1 else 0 :]
        ),
        "skips the last word of longer sentences": lambda: _reading(
            words=lambda row, padding: row[~padding][: max(1, (~padding).sum().item() - 1)]
        ),
        "reads eight words at most": lambda: _reading(words=lambda row, padding: row[~padding][:8]),
        "adds up its words": lambda: _reading(
            read=lambda words: mt.tensor(_weights(3)[0][words].sum(axis=0))
        ),
        "reads the padding unless it holds token 0": lambda: _reading(
            words=lambda row, padding: row[~padding | (row != 0)]
        ),
        "takes token 0 for padding": lambda: _reading(words=without_zeros),
        "takes two words for one": lambda: _reading(
            read=lambda words: _run([2 if word == 9 else word for word in words])
        ),
        "reads pairs of words in one order": lambda: _reading(
            read=lambda words: _run(
                [word for i in range(0, len(words), 2) for word in sorted(words[i : i + 2])]
            )
        ),
        "takes the mean of the batch away": lambda: less_mean,
        "divides by the width of the batch": lambda: scaled,
        "reads nothing of a sentence of one word": lambda: _reading(
            read=lambda words: _run(words) * (len(words) > 1)
        ),
        "writes into the tokens": lambda: in_place,
        "writes into the padding": lambda: in_padding,
        "counts its calls": remembers,
    }
    right = {
        "reads forward": _reading,
        "reads backward": lambda: _reading(words=lambda row, padding: row[~padding].flip(0)),
        "reads in both directions": lambda: _reading(
            read=lambda words: mt.cat([_run(words), _run(words[::-1], 5)])
        ),
        "takes the mean of its states": lambda: _reading(
            read=lambda words: mt.tensor(_states(words, 3).mean(axis=0))
        ),
        "takes the sum of its states": lambda: _reading(
            read=lambda words: mt.tensor(7 * _states(words, 3).sum(axis=0))
        ),
        "has other weights": lambda: _reading(read=lambda words: _run(words, 8)),
        "is rounded otherwise in a wider batch": lambda: rounded,
    }
    return broken, right


REASONS = {
    "reads the padding": "Rule 1: add padding behind a sentence.",
    "begins in the padding": "Rule 1: add padding behind a sentence.",
    "leaves its rows sorted by length": "Rule 1: put a short sentence in front of a long one.",
    "gives all rows the length of the first": "Rule 1: put a short sentence before a long one.",
    "skips the first word of longer sentences": "Rule 2: change the first word.",
    "skips the last word of longer sentences": "Rule 2: change the last word.",
    "reads eight words at most": "Rule 2: change the last of twelve words.",
    "adds up its words": "Rule 2: let two neighbours change places.",
    "reads the padding unless it holds token 0": "Rule 1: let other tokens stand in the padding.",
    "takes token 0 for padding": "Rule 2: change a token 0 into another one, or let it move.",
    "takes two words for one": "Rule 2: change a word into every other one.",
    "reads pairs of words in one order": "Rule 2: let two neighbours change places.",
    "takes the mean of the batch away": "Rule 1: encode a sentence alone and in a batch.",
    "divides by the width of the batch": "Rule 1: add padding behind a sentence.",
    "reads nothing of a sentence of one word": "Rule 2: change the only word.",
    "writes into the tokens": "Rule 3: compare the tokens with a copy.",
    "writes into the padding": "Rule 3: compare the padding with a copy.",
    "counts its calls": "Rule 1: ask twice with the same sentence.",
    "reads in both directions": "It breaks no rule. Two vectors differ if one of their numbers "
    "does: the largest difference counts.",
    "is rounded otherwise in a wider batch": "Rule 1 asks for the same to 1e-8; what is less is "
    "rounding.",
}
SOUND = "It breaks no rule: what else it does is its own business."


def encoders():
    """Nine encoders, five of which are broken; the order says nothing."""
    return [_Encoder(make()) for make in some_of(_kinds(), (5, 4), Draw(6).random)]


def _program_cases(draw):
    """Each kind by itself, and none."""
    return each_alone(_kinds())


def _found(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    with as_in_a_notebook():
        found = answer([_Encoder((broken | right)[kind]()) for kind in kinds])
    return judged(found, kinds, broken, dict.fromkeys(right, SOUND) | REASONS, "broken encoders")


broken_encoders = exercise(
    "broken_encoders",
    cases=_program_cases,
    run=_found,
    gradients=False,
    see='chapter 03, "Batches of different lengths"',
)
