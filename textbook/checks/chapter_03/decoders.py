"""Translating, on from given words."""

import minitorch as mt
from textbook.checks.released import exercise


class Decoder:
    """step(token (B), state (B, H)) -> scores (B, V), new state (B, H)."""

    def __init__(self, draw, tokens, hidden):
        self.tokens = tokens
        self.inputs, self.outputs = draw.normal(tokens, hidden), 2 * draw.normal(hidden, tokens)
        self.weights = draw.normal(hidden, hidden)

    def __call__(self, token, state):
        if token.shape != state.shape[:1]:
            raise ValueError(
                f"step() reads one token of each row: with a state of shape {tuple(state.shape)} "
                f"it needs tokens of shape ({len(state)},), got {tuple(token.shape)}"
            )
        state = (self.inputs[token] + state @ self.weights).tanh()
        return state @ self.outputs, state

    def __repr__(self):
        return f"a decoder over {self.tokens} tokens"

    def __deepcopy__(self, memo):
        return self


# Translating on from given words


def _given_cases(draw, more=()):
    """Rows with 0 to m given words; sometimes none at all, or as many as there is room for."""
    sizes = [(2, 5, 5, [1, 0]), (3, 5, 6, [2, 1, 3]), (4, 6, 7, [0, 2, 1, 4]), (2, 4, 4, [0, 0])]
    sizes += [(3, 5, 3, [3, 1, 2]), (4, 3, 9, [0, 1, 0, 0])]
    sizes += more
    for i, (batch, size, most, counts) in enumerate(sizes):
        specials = ((1, 2, 0), (size - 3, size - 2, size - 1), (0, 1, size - 1))
        start, end, pad = specials[i % 3]
        words = [token for token in range(size) if token not in (end, pad)]
        rows = [
            [words[j] for j in draw.integers(len(words), n).tolist()] + [pad] * (max(counts) - n)
            for n in counts
        ]
        given = mt.tensor(rows) if max(counts) else mt.zeros(batch, 0, dtype=mt.int64)
        yield Decoder(draw, size, 3), draw.normal(batch, 3), given, start, end, pad, most


complete = exercise(
    "complete",
    cases=_given_cases,
    forbidden=("cat_",),
    instead="a list of the tokens of each step and stack(..., dim=1) at the end",
    gradients=False,
    see='chapter 03, "Translating"',
)
