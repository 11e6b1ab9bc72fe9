"""Translating, on from given words."""

import minitorch as mt
from textbook.checks.exercise import exercise


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


def _given_cases(draw, hidden):
    """Rows with 0 to m given words; sometimes none at all, or as many as there is room for."""
    sizes = [(2, 5, 5, [1, 0]), (3, 5, 6, [2, 1, 3]), (4, 6, 7, [0, 2, 1, 4]), (2, 4, 4, [0, 0])]
    sizes += [(3, 5, 3, [3, 1, 2]), (4, 3, 9, [0, 1, 0, 0])]
    if hidden:
        sizes += [(1, 4, 5, [2]), (5, 6, 9, [0, 3, 5, 1, 2]), (3, 7, 4, [4, 4, 0])]
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


def _given_at(given, t, pad):
    """The words given for step t, pad where there is none."""
    if t < given.shape[1]:
        return given[:, t]
    return mt.full((len(given),), pad)


def _said(own, given, pad):
    return mt.where(given == pad, own, given)


def _complete(
    choose=lambda scores: scores.argmax(dim=-1),
    at=_given_at,
    say=lambda own, given, pad: _said(own, given, pad),
    read=lambda said, own, given: said,
    over=lambda finished, token, end: finished | (token == end),
    fill=lambda token, finished, pad, end: token.masked_fill(finished, pad),
    stop=lambda finished, token, end: bool(finished.all()),
    carry=lambda new, old: new,
    long=lambda given, most: most,
    pads=False,
):
    """Translating on with one of its pieces exchanged."""

    def complete(step, state, given, start, end, pad, max_length):
        token, tokens = mt.full((len(state),), start), []
        finished = token != token
        while len(tokens) < long(given, max_length):
            scores, new = step(token, state)
            state, words = carry(new, state), at(given, len(tokens), pad)
            own = choose(scores)
            said = fill(say(own, words, pad), finished, pad, end)
            token = read(said, own, words)
            tokens.append(said)
            finished = over(finished, said, end)
            if pads:
                finished = finished | (said == pad)
            if stop(finished, said, end):
                break
        return mt.stack(tokens, dim=1)

    return complete


@exercise(
    cases=_given_cases,
    forbidden=("cat_",),
    instead="a list of the tokens of each step and stack(..., dim=1) at the end",
    gradients=False,
    see='chapter 03, "Translating"',
)
def complete(step, state, given, start, end, pad, max_length):
    """The tokens that are said, (B, n) with n at most max_length: given words, then its own."""
    token, tokens = mt.full((len(state),), start), []
    ended = mt.zeros(len(state), dtype=mt.bool)
    while len(tokens) < max_length and not ended.all():
        scores, state = step(token, state)  # (B, V), (B, H)
        token = scores.argmax(dim=-1)  # (B)
        if len(tokens) < given.shape[1]:
            word = given[:, len(tokens)]
            token = mt.where(word == pad, token, word)
        token = token.masked_fill(ended, pad)
        tokens.append(token)
        ended = ended | (token == end)
    return mt.stack(tokens, dim=1)  # (B, n)


complete.wrong(
    "greedy decoding: the given words are ignored",
    "As long as a row has given words, it says these, whatever is likeliest.",
)(_complete(say=lambda own, given, pad: own))
complete.wrong(
    "right in the given words, but the decoder reads its own in their place",
    "What a row says is what it reads at the next step: the given word.",
)(_complete(read=lambda said, own, given: own))
complete.wrong(
    "a decoder that reads the given words, but says its own in their place",
    "The given words belong to the translation.",
)(
    _complete(
        say=lambda own, given, pad: own,
        read=lambda said, own, given: mt.where(given < 0, said, given),
        at=lambda given, t, pad: mt.where(
            _given_at(given, t, pad) == pad, -1, _given_at(given, t, pad)
        ),
    )
)
complete.wrong(
    "right but for short beginnings: rows wait, and say pad, until the longest has been read",
    "Each row goes on by itself as soon as its own given words are said.",
)(
    lambda step, state, given, start, end, pad, max_length: _complete(
        at=lambda given, t, pad: given[:, t] if t < given.shape[1] else mt.full((len(given),), -1),
        say=lambda own, word, pad: mt.where(word == -1, own, word),
    )(step, state, given, start, end, pad, max_length)
)
complete.wrong(
    "right but for long beginnings: all rows are free as soon as the shortest is",
    "Each row has as many given words as stand before its first pad.",
)(
    _complete(
        at=lambda given, t, pad: _given_at(given, t, pad).masked_fill(
            (_given_at(given, t, pad) == pad).any(), pad
        )
    )
)
complete.wrong(
    "right but for the beginnings: all rows have that of the first",
    "Row i begins with given[i].",
)(_complete(at=lambda given, t, pad: _given_at(given[:1].expand(len(given), -1), t, pad)))
complete.wrong(
    "right but for the first given word, which is skipped",
    "The first step reads start, and says given[:, 0].",
)(_complete(at=lambda given, t, pad: _given_at(given, t + 1, pad)))
complete.wrong(
    "right but for the given words, which come one step late",
    "The first step reads start, and says given[:, 0].",
)(
    _complete(
        at=lambda given, t, pad: _given_at(given, t - 1, pad) if t else mt.full((len(given),), pad)
    )
)
complete.wrong(
    "right but for max_length, which counts the decoder's own words alone",
    "max_length counts all that is said, given words too.",
)(_complete(long=lambda given, most: most + given.shape[1]))
complete.wrong(
    "a decoding in which rows go on after their end token",
    "Once a row has said end, all that follows in it is pad.",
)(_complete(fill=lambda token, finished, pad, end: token))
complete.wrong(
    "filled up with end tokens",
    "One end token a row; what follows is pad.",
)(_complete(fill=lambda token, finished, pad, end: token.masked_fill(finished, end)))
complete.wrong(
    "a decoding that stops when the first row ends",
    "The others have not finished: stop when all rows have.",
)(_complete(stop=lambda finished, token, end: bool(finished.any())))
complete.wrong(
    "a decoding that always runs max_length steps",
    "Stop as soon as all rows have ended.",
)(_complete(stop=lambda finished, token, end: False))
complete.wrong(
    "a decoding that stops only if all rows end at the same step",
    "Rows end at different steps. Remember which have ended, and stop when that is all of them.",
)(_complete(stop=lambda finished, token, end: bool((token == end).all())))
complete.wrong(
    "a decoding in which every step starts from the first state",
    "Give step the state that it returned the last time: scores, state = step(token, state).",
)(_complete(carry=lambda new, old: old))
complete.wrong(
    "a decoding by the least likely token",
    "Take the largest score.",
)(_complete(choose=lambda scores: scores.argmin(dim=-1)))
complete.wrong(
    "a decoding in which all rows choose what the first one chooses",
    "Each row has an argmax of its own, over the last axis.",
)(_complete(choose=lambda scores: scores[:1].argmax(dim=-1).expand(len(scores))))
complete.wrong(
    "one step longer than max_length",
    "At most max_length tokens a row, the end token included.",
)(_complete(long=lambda given, most: most + 1))
complete.wrong(
    "one step shorter than max_length",
    "Up to max_length tokens a row.",
)(_complete(long=lambda given, most: most - 1))
complete.wrong(
    "right but for the end tokens, which have become padding",
    "The end token belongs to the row; the padding begins after it.",
)(
    lambda step, state, given, start, end, pad, max_length: (
        lambda tokens: tokens.masked_fill(tokens == end, pad)
    )(complete.reference(step, state, given, start, end, pad, max_length))
)
complete.wrong(
    "a decoding that reads the start token at every step",
    "After the start token the decoder reads what it has said the step before.",
)(
    lambda step, state, given, start, *rest: complete.reference(
        lambda token, state: step(mt.full_like(token, start), state), state, given, start, *rest
    )
)
complete.wrong(
    "right but for the given words, which are left out of what was said",
    "They belong to the translation.",
)(lambda *case: complete.reference(*case)[:, case[2].shape[1] :])
complete.wrong(
    "a decoding in which a row ends when it says pad",
    "Only end ends a row. The decoder may say pad like any other token.",
)(_complete(pads=True))
complete.wrong("right but for the order of the axes: it is (n, B)", "Stack along axis 1.")(
    lambda *case: complete.reference(*case).T
)


@complete.wrong(
    "right but for the start token, which stands in front",
    "The start token is read, not said: the result begins with the first token that was said.",
)
def _(step, state, given, start, end, pad, max_length):
    tokens = complete.reference(step, state, given, start, end, pad, max_length)
    return mt.stack([mt.full_like(tokens[:, 0], start), *tokens.unbind(1)], dim=1)
