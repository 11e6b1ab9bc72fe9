"""Continuations of a batch of prompts, one token at a time."""

import minitorch as mt
from textbook.checks.exercise import exercise


class _RunningSum:
    """A causal model without a limit of length: tokens (B, n) -> scores (B, n, V)."""

    def __init__(self, draw, vocabulary_size):
        self.embedding = 2 * draw.normal(vocabulary_size, 6)
        self.output = 2 * draw.normal(6, vocabulary_size)

    def __call__(self, tokens):
        place = 1 + mt.arange(tokens.shape[1]).unsqueeze(1) / 2  # (n, 1), so that order counts
        return (self.embedding[tokens] * place).cumsum(dim=1).sin() @ self.output

    def __repr__(self):
        return f"<a causal model of {len(self.embedding)} tokens>"

    def __deepcopy__(self, memo):
        return self


def likeliest(scores):
    """(B, V) -> (B): greedy decoding."""
    return scores.argmax(dim=-1)


def drawn_with_a_fixed_number(scores):
    """(B, V) -> (B): sampling, were the random number always 0.6."""
    return (scores.softmax(dim=-1).cumsum(dim=-1) < 0.6).sum(dim=-1)


def _prompt_cases(draw, hidden):
    cases = [(1, 2, 2, likeliest), (2, 3, 3, likeliest), (3, 4, 4, drawn_with_a_fixed_number)]
    extra = [(1, 1, 5, drawn_with_a_fixed_number), (4, 6, 7, likeliest), (3, 5, 1, likeliest)]
    for batch, n, count, pick in cases + extra * hidden:
        shorter = 1 + draw.integers(max(n - 1, 1), batch)
        lengths = mt.where(mt.arange(batch) == 1, n, shorter)
        real = mt.arange(n) < lengths.unsqueeze(1)
        tokens = draw.integers(9, batch, n) * real
        yield _RunningSum(draw, 9), tokens, lengths, count, pick


def _put(grown, place, token):
    """Token (B) written into grown (B, n) at place (B)."""
    return mt.where(mt.arange(grown.shape[1]) == place.unsqueeze(1), token.unsqueeze(1), grown)


def _continuing(
    place=lambda lengths, t: lengths + t - 1,
    choose=lambda pick, scores: pick(scores),
    write=_put,
):
    """Continuations with one piece exchanged."""

    def continued(model, tokens, lengths, count, pick):
        rows = mt.arange(len(tokens))
        grown = mt.cat([tokens, mt.zeros(len(tokens), count, dtype=tokens.dtype)], dim=1)
        new = []
        for t in range(count):
            scores = model(grown)[rows, place(lengths, t)]  # (B, V)
            new.append(choose(pick, scores))
            grown = write(grown, lengths + t, new[-1])
        return mt.stack(new, dim=1)

    return continued


@exercise(cases=_prompt_cases, gradients=False, see='chapter 07, "A masked language model"')
def continue_prompts(model, tokens, lengths, count, pick):
    """Prompts (B, n) with lengths (B) give count new tokens for each: (B, count)."""
    rows = mt.arange(len(tokens))
    room = mt.zeros(len(tokens), count, dtype=tokens.dtype)
    grown = mt.cat([tokens, room], dim=1)  # (B, n + count)
    for t in range(count):
        scores = model(grown)[rows, lengths + t - 1]  # (B, V)
        grown[rows, lengths + t] = pick(scores)
    return mt.stack([row[n : n + count] for row, n in zip(grown, lengths.tolist(), strict=True)])


@continue_prompts.wrong(
    "right where a prompt has no padding; else it goes on after the padding",
    "The first new token of sequence b takes position lengths[b], where its padding begins; the "
    "scores for it stand at position lengths[b] - 1.",
)
def _(model, tokens, lengths, count, pick):
    for _ in range(count):
        tokens = mt.cat([tokens, pick(model(tokens)[:, -1]).unsqueeze(1)], dim=1)
    return tokens[:, -count:]


continue_prompts.wrong(
    "off by one: it reads the scores behind the last token",
    "Position i has read the tokens up to i and predicts the one at i + 1: read the scores at the "
    "last token that is there, lengths[b] - 1 at first.",
)(_continuing(place=lambda lengths, t: lengths + t))
continue_prompts.wrong(
    "off by one: it reads the scores one position too early",
    "Those scores predict the last token that is there. Read at lengths[b] - 1, then one further "
    "with each new token.",
)(_continuing(place=lambda lengths, t: (lengths + t - 2).clamp(min=0)))
continue_prompts.wrong(
    "off by one: each new token is written over the one before it",
    "The first new token of sequence b belongs at position lengths[b], where its padding begins.",
)(_continuing(write=lambda grown, place, token: _put(grown, place - 1, token)))


@continue_prompts.wrong(
    "written behind the padding, but read as if it stood before it",
    "Where the new token goes depends on the sequence: position lengths[b] at first, over the "
    "padding. To put it at the end of the row leaves the padding in between.",
)
def _(model, tokens, lengths, count, pick):
    rows, new = mt.arange(len(tokens)), []
    for t in range(count):
        new.append(pick(model(tokens)[rows, lengths + t - 1]))
        tokens = mt.cat([tokens, new[-1].unsqueeze(1)], dim=1)
    return mt.stack(new, dim=1)


@continue_prompts.wrong(
    "right where a prompt has no padding; else the padding has been moved to the front",
    "There the model reads it before the prompt, and a causal mask does not hide what comes before."
    " Leave the padding behind the prompt, and write the new tokens over it.",
)
def _(model, tokens, lengths, count, pick):
    n = tokens.shape[1]
    rows = [row.roll(n - length, 0) for row, length in zip(tokens, lengths.tolist(), strict=True)]
    tokens = mt.stack(rows)
    for _ in range(count):
        tokens = mt.cat([tokens, pick(model(tokens)[:, -1]).unsqueeze(1)], dim=1)
    return tokens[:, -count:]


continue_prompts.wrong(
    "right but for where it reads: every sequence at the end of the longest prompt",
    "Each sequence goes on from its own last token: position lengths[b] - 1 at first.",
)(_continuing(place=lambda lengths, t: lengths.max().expand(len(lengths)) + t - 1))
continue_prompts.wrong(
    "read off one single pass: what has been picked is never put into the sequence",
    "In training all tokens are known, so that one pass gives all scores. A new token is known "
    "when it has been picked: write it at position lengths[b] + t, then let the model read again.",
)(_continuing(write=lambda grown, place, token: grown))
continue_prompts.wrong(
    "one and the same step, count times: every new token is the first one again",
    "Write each new token at position lengths[b] + t, and read one position further each time.",
)(_continuing(place=lambda lengths, t: lengths - 1))


@continue_prompts.wrong(
    "written without a context: the model is shown the last token alone",
    "A recurrent network keeps a state; this model knows only what it is shown. Give it the whole "
    "sequence.",
)
def _(model, tokens, lengths, count, pick):
    token = tokens[mt.arange(len(tokens)), lengths - 1]
    new = []
    for _ in range(count):
        token = pick(model(token.unsqueeze(1))[:, 0])
        new.append(token)
    return mt.stack(new, dim=1)


continue_prompts.wrong(
    "always the likeliest token: pick is not used",
    "pick decides which token is taken, so that one loop serves greedy decoding and sampling.",
)(_continuing(choose=lambda pick, scores: likeliest(scores)))
continue_prompts.wrong(
    "right but for what pick is given: probabilities, not scores",
    "Hand the scores on as they are. A sampling pick does the softmax itself.",
)(_continuing(choose=lambda pick, scores: pick(scores.softmax(dim=-1))))


@continue_prompts.wrong(
    "right but for the prompts, which are returned, too",
    "Return the new tokens alone, (B, count).",
)
def _(model, tokens, lengths, count, pick):
    new = continue_prompts.reference(model, tokens, lengths, count, pick)
    return mt.cat([tokens, new], dim=1)


@continue_prompts.wrong(
    "right but for the order of the axes: it is (count, B)",
    "One row for each prompt: stack the new tokens along axis 1.",
)
def _(model, tokens, lengths, count, pick):
    return continue_prompts.reference(model, tokens, lengths, count, pick).T
