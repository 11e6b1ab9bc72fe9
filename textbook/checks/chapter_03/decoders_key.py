"""Answers to the exercises of ``decoders.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook import decoding
from textbook.checks.chapter_03.decoders import _given_cases, complete

# Translating on from given words


@complete.answer(
    hidden_cases=lambda draw: _given_cases(
        draw, more=[(1, 4, 5, [2]), (5, 6, 9, [0, 3, 5, 1, 2]), (3, 7, 4, [4, 4, 0])]
    )
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


# Right in another way


def complete_row_by_row(step, state, given, start, end, pad, max_length):
    rows = []
    for i in range(len(state)):
        words = [word for word in given[i].tolist() if word != pad]
        token, h, row = start, state[i : i + 1], []
        while len(row) < max_length and (not row or row[-1] != end):
            scores, h = step(mt.tensor([token]), h)
            token = words[len(row)] if len(row) < len(words) else int(scores.argmax())
            row.append(token)
        rows.append(row)
    longest = max(map(len, rows))
    return mt.tensor([row + [pad] * (longest - len(row)) for row in rows])


def complete_filling_a_tensor(step, state, given, start, end, pad, max_length):
    tokens = mt.full((len(state), max_length), pad)
    free = mt.ones(len(state), max_length, dtype=mt.bool)
    tokens[:, : given.shape[1]] = given
    free[:, : given.shape[1]] = given == pad
    going, token = mt.arange(len(state)), mt.full((len(state),), start)
    for t in range(max_length):
        scores, state = step(token, state)
        token = mt.where(free[going, t], scores.max(dim=-1).indices, tokens[going, t])
        tokens[going, t] = token
        still = token != end
        going, token, state = going[still], token[still], state[still]
        if not len(going):
            return tokens[:, : t + 1]
    return tokens


def complete_by_the_library(step, state, given, start, end, pad, max_length):
    def last(tokens, h):
        scores, h = step(tokens[:, -1], h)
        t = tokens.shape[1] - 1
        if t < given.shape[1]:
            word = given[:, t]
            forced = F.one_hot(word, scores.shape[-1]).to(scores.dtype) * 1e9
            scores = mt.where((word == pad).unsqueeze(1), scores, forced)
        return scores, h

    prompt = mt.full((len(state), 1), start)
    return decoding.greedy(last, prompt, max_length, end=end, pad=pad, state=state)[:, 1:]


right = {
    "complete": [complete_row_by_row, complete_filling_a_tensor],
}
refused = {
    "complete": [complete_by_the_library],
}
