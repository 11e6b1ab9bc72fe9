"""Translating: from given words on, and by beam search."""

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


# Beam search


def _beam_cases(draw, hidden):
    settings = [(3, 2, 2, 0.0), (4, 2, 4, 1.0), (5, 3, 5, 0.6), (3, 5, 1, 0.6)]
    for size, beams, most, alpha in settings + [(6, 4, 6, 0.8)] * hidden:
        start, end = (0, 1) if size % 2 else (2, 0)
        yield Decoder(draw, size, 3), draw.normal(1, 3), start, end, beams, most, alpha


def _score(log_p, count, alpha):
    return log_p / ((5 + count) / 6) ** alpha


def _best(candidates, beams):
    """The ``beams`` likeliest of hypotheses (log P, parent, tokens)."""
    return sorted(candidates, key=lambda each: -each[0])[:beams]


def _best_of_each_parent(candidates, beams):
    """One continuation of each hypothesis; several only of the first one, the empty sentence."""
    children = {}
    for each in candidates:
        children.setdefault(each[1], []).append(each)
    if len(children) == 1:
        return _best(candidates, beams)
    return _best([_best(own, 1)[0] for own in children.values()], beams)


def _search(
    log_p=lambda scores: scores.log_softmax(dim=-1),
    add=lambda before, now: before + now,
    keep=_best,
    ends=lambda token, end: token == end,
    room=lambda beams, finished: beams,
    parent_of=lambda place, parent, count: parent,
    stop=lambda finished, beams: False,
    unfinished=lambda finished, hypotheses: hypotheses,
    rank=_score,
    report=_score,
):
    """Beam search with one of its pieces exchanged; a hypothesis is (log P, tokens)."""

    def search(step, state, start, end, beams, max_length, alpha):
        hypotheses, finished = [(0.0, [])], []
        for _ in range(max_length):
            last = mt.tensor([(tokens or [start])[-1] for _, tokens in hypotheses])
            scores, state = step(last, state)
            continued = [
                (add(before, now), parent, [*tokens, token])
                for parent, ((before, tokens), row) in enumerate(
                    zip(hypotheses, log_p(scores).tolist(), strict=True)
                )
                for token, now in enumerate(row)
            ]
            kept = keep(continued, room(beams, finished))
            finished += [(p, tokens) for p, _, tokens in kept if ends(tokens[-1], end)]
            still_open = [each for each in kept if not ends(each[2][-1], end)]
            count = len(hypotheses)
            hypotheses = [(p, tokens) for p, _, tokens in still_open]
            if not hypotheses or stop(finished, beams):
                break
            places = [parent_of(i, each[1], count) for i, each in enumerate(still_open)]
            state = state[mt.tensor(places)]
        finished += unfinished(finished, hypotheses)
        finished.sort(key=lambda each: -rank(each[0], len(each[1]), alpha))
        return [(tokens, report(p, len(tokens), alpha)) for p, tokens in finished[:beams]]

    return search


@exercise(
    cases=_beam_cases,
    forbidden=("index_select",),
    instead="the rows of the state in square brackets, state[parents], in a search of your own",
    gradients=False,
    see='chapter 03, "Beam search"',
)
def beam_search(step, state, start, end, beams, max_length, alpha):
    """The best finished hypotheses: pairs (list of tokens, score), the best first."""
    hypotheses, finished = [([], 0.0)], []
    for _ in range(max_length):
        last = mt.tensor([tokens[-1] if tokens else start for tokens, _ in hypotheses])
        scores, state = step(last, state)  # (open hypotheses, V)
        candidates = []
        for parent, row in enumerate(scores.log_softmax(dim=-1).tolist()):
            tokens, log_p = hypotheses[parent]
            for token, more in enumerate(row):
                candidates.append((log_p + more, parent, [*tokens, token]))
        candidates.sort(key=lambda candidate: -candidate[0])
        hypotheses, parents = [], []
        for log_p, parent, tokens in candidates[:beams]:
            if tokens[-1] == end:
                finished.append((tokens, log_p))
            else:
                hypotheses.append((tokens, log_p))
                parents.append(parent)
        if not hypotheses:
            break
        state = state[parents]
    finished += hypotheses
    scored = [(tokens, log_p / ((5 + len(tokens)) / 6) ** alpha) for tokens, log_p in finished]
    return sorted(scored, key=lambda pair: -pair[1])[:beams]


@beam_search.wrong(
    "greedy decoding: one hypothesis lives",
    "Keep the beams best continuations at each step, not the best one.",
)
def _(step, state, start, end, beams, max_length, alpha):
    return beam_search.reference(step, state, start, end, 1, max_length, alpha)


@beam_search.wrong(
    "a search whose hypotheses are copies of one another",
    "Hypotheses that start alike stay alike: begin with a single one, and take its beams best "
    "continuations.",
)
def _(step, state, start, end, beams, max_length, alpha):
    return beams * beam_search.reference(step, state, start, end, 1, max_length, alpha)


beam_search.wrong(
    "a search that keeps one continuation of each hypothesis",
    "The continuations of all hypotheses compete in one list; a good hypothesis may have several "
    "children and a bad one none.",
)(_search(keep=_best_of_each_parent))
beam_search.wrong(
    "a search by the last token's log-probability alone",
    "log P of a hypothesis is the sum over its tokens: add the parent's.",
)(_search(add=lambda before, now: now))
beam_search.wrong(
    "a search that adds up scores",
    "Scores are no log-probabilities: apply log_softmax to each row first.",
)(_search(log_p=lambda scores: scores))
beam_search.wrong(
    "a search that adds up probabilities",
    "Probabilities multiply along a sentence; it is their logarithms that add up.",
)(_search(log_p=lambda scores: scores.softmax(dim=-1)))
beam_search.wrong(
    "a search that continues finished hypotheses",
    "A hypothesis that has said end is put aside: nothing may follow the end token.",
)(_search(ends=lambda token, end: False))
beam_search.wrong(
    "a search that stops at the first finished hypothesis",
    "A better one may still be open: go on until none is open or max_length is reached.",
)(_search(stop=lambda finished, beams: finished))
beam_search.wrong(
    "a search with a beam that gets narrower with each finished hypothesis",
    "In this exercise the best beams continuations are kept at every step, however many have been "
    "put aside before.",
)(_search(room=lambda beams, finished: max(beams - len(finished), 1)))
beam_search.wrong(
    "a search in which hypotheses get the states of others",
    "The order of the hypotheses changes at each step. Take along the state of each one's parent: "
    "state[parents].",
)(_search(parent_of=lambda place, parent, count: min(place, count - 1)))
beam_search.wrong(
    "a search that throws away what is open at max_length",
    "At max_length open hypotheses count as they are.",
)(_search(unfinished=lambda finished, hypotheses: []))
beam_search.wrong(
    "right in its scores, but ordered by log P",
    "Divide log P by ((5 + n) / 6) ** alpha before the finished hypotheses are compared: else "
    "short ones win for being short.",
)(_search(rank=lambda log_p, count, alpha: log_p))
beam_search.wrong(
    "right in its order, but the scores are log P",
    "The score is log P / ((5 + n) / 6) ** alpha.",
)(_search(report=lambda log_p, count, alpha: log_p))
beam_search.wrong(
    "a search without normalisation by length",
    "The score is log P / ((5 + n) / 6) ** alpha. Without it short hypotheses win for being short.",
)(_search(rank=lambda log_p, count, alpha: log_p, report=lambda log_p, count, alpha: log_p))
beam_search.wrong(
    "a search that multiplies by the length penalty",
    "log P is negative: to make long hypotheses dearer, divide by ((5 + n) / 6) ** alpha.",
)(
    _search(
        rank=lambda log_p, count, alpha: _score(log_p, count, -alpha),
        report=lambda log_p, count, alpha: _score(log_p, count, -alpha),
    )
)
beam_search.wrong(
    "right but for n, which does not count the end token",
    "n counts all tokens that were said, end included.",
)(
    _search(
        rank=lambda log_p, count, alpha: _score(log_p, count - 1, alpha),
        report=lambda log_p, count, alpha: _score(log_p, count - 1, alpha),
    )
)


@beam_search.wrong(
    "a search that gives the best hypothesis alone",
    "Give a list of the beams best ones, each a pair of tokens and score.",
)
def _(*case):
    return beam_search.reference(*case)[:1]


@beam_search.wrong(
    "right but for the start token, which stands in front",
    "The start token is read, not said.",
)
def _(step, state, start, *rest):
    found = beam_search.reference(step, state, start, *rest)
    return [([start, *tokens], score) for tokens, score in found]


beam_search.wrong(
    "a search that stops when as many hypotheses as beams are finished",
    "A better one may still be open: go on until none is open or max_length is reached.",
)(_search(stop=lambda finished, beams: len(finished) >= beams))
beam_search.wrong(
    "right but for the order: the worst comes first",
    "The best first.",
)(lambda *case: beam_search.reference(*case)[::-1])
beam_search.wrong(
    "right but for n, which counts the start token too",
    "n counts the tokens that were said, end included.",
)(
    _search(
        rank=lambda log_p, count, alpha: _score(log_p, count + 1, alpha),
        report=lambda log_p, count, alpha: _score(log_p, count + 1, alpha),
    )
)


@beam_search.wrong(
    "a search in which every step starts from the first state",
    "Each continuation takes along the new state of the hypothesis that it continues.",
)
def _(step, state, *rest):
    def forgets(token, now):
        return step(token, state.expand(len(token), -1))[0], now

    return beam_search.reference(forgets, state, *rest)
