"""A decoder that reads the target, its own words or both; greedy decoding; beam search."""

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


# Teacher forcing, sometimes


def _forcing_cases(draw, hidden):
    sizes = [(1, 2, 4, 0.0), (2, 3, 5, 1.0), (3, 4, 6, 0.6)]
    for batch, length, size, p in sizes + [(4, 6, 7, 0.3)] * hidden:
        draws = mt.tensor(draw.random.random((batch, length)), dtype=mt.float64)
        inputs = draw.integers(size, batch, length)
        yield Decoder(draw, size, 3), draw.normal(batch, 3), inputs, draws, p


def _run(choose, carry=lambda new, old: new):
    """The decoder's scores; ``choose(t, inputs, draws, p)`` says which rows read the target."""

    def run(step, state, inputs, draws, p):
        token, results = inputs[:, 0], []
        for t in range(inputs.shape[1]):
            if t > 0:
                own = results[-1].argmax(dim=-1)
                token = mt.where(choose(t, inputs, draws, p), inputs[:, t], own)
            scores, new = step(token, state)
            state = carry(new, state)
            results.append(scores)
        return mt.stack(results, dim=1)

    return run


@exercise(
    cases=_forcing_cases,
    forbidden=("cat_",),
    instead="a list of the scores at each step and stack(..., dim=1) at the end",
    see='chapter 03, "What teacher forcing costs"',
)
def scheduled_sampling(step, state, inputs, draws, p):
    """The decoder's scores at each step, (B, T, V)."""
    token, results = inputs[:, 0], []
    for t in range(inputs.shape[1]):
        if t > 0:
            own = results[-1].argmax(dim=-1)  # (B)
            token = mt.where(draws[:, t] < p, inputs[:, t], own)
        scores, state = step(token, state)  # (B, V), (B, H)
        results.append(scores)
    return mt.stack(results, dim=1)  # (B, T, V)


scheduled_sampling.wrong(
    "teacher forcing, whatever p is",
    "Where draws[i, t] is not below p, row i reads its own likeliest token of the step before.",
)(_run(lambda t, inputs, draws, p: mt.full_like(draws[:, t], True, dtype=mt.bool)))
scheduled_sampling.wrong(
    "a decoder that reads its own words, whatever p is",
    "Where draws[i, t] is below p, row i reads the given token inputs[i, t].",
)(_run(lambda t, inputs, draws, p: mt.full_like(draws[:, t], False, dtype=mt.bool)))
scheduled_sampling.wrong(
    "right for 1 - p in place of p",
    "p is the probability of the given token: a draw below p takes it.",
)(_run(lambda t, inputs, draws, p: draws[:, t] >= p))
scheduled_sampling.wrong(
    "right but for the draws: all rows follow the first one's",
    "Row i decides by its own draw, draws[i, t].",
)(_run(lambda t, inputs, draws, p: (draws[:1, t] < p).expand(len(draws))))
scheduled_sampling.wrong(
    "right but for the draws: one decides for the whole sentence",
    "Each step has a draw of its own, draws[i, t].",
)(_run(lambda t, inputs, draws, p: draws[:, 0] < p))
scheduled_sampling.wrong(
    "right but for the draws, which are late by one step",
    "What is read at step t is decided by draws[i, t].",
)(_run(lambda t, inputs, draws, p: draws[:, t - 1] < p))
scheduled_sampling.wrong(
    "a run in which every step starts from the first state",
    "Give step the state that it returned the last time: scores, state = step(token, state).",
)(_run(lambda t, inputs, draws, p: draws[:, t] < p, carry=lambda new, old: old))
scheduled_sampling.wrong(
    "right in its values, but the gradient stops at every step",
    "Something cuts the state off from the graph between two steps: detach(), .data or no_grad. "
    "Hand it on as it is.",
)(_run(lambda t, inputs, draws, p: draws[:, t] < p, carry=lambda new, old: new.detach()))


@scheduled_sampling.wrong(
    "right but for the first step, which reads a token of its own",
    "Before the first step the decoder has said nothing: at t = 0 it reads inputs[:, 0], the start "
    "token, whatever the draw.",
)
def _(step, state, inputs, draws, p):
    own = step(inputs[:, 0], state)[0].argmax(dim=-1)
    changed = inputs.clone()
    changed[:, 0] = mt.where(draws[:, 0] < p, inputs[:, 0], own)
    return scheduled_sampling.reference(step, state, changed, draws, p)


@scheduled_sampling.wrong(
    "a leak: the given token is the one that the step is asked for",
    "Step t reads inputs[:, t]. inputs[:, t + 1] is what it has to say.",
)
def _(step, state, inputs, draws, p):
    return scheduled_sampling.reference(step, state, inputs.roll(-1, 1), draws, p)


@scheduled_sampling.wrong(
    "the probabilities, not the scores",
    "The loss takes scores: return what step gives, without a softmax.",
)
def _(*case):
    return scheduled_sampling.reference(*case).softmax(dim=-1)


@scheduled_sampling.wrong(
    "right but for the order of the axes: it is (T, B, V)",
    "Stack the scores of the steps along axis 1.",
)
def _(*case):
    return scheduled_sampling.reference(*case).transpose(0, 1)


# Greedy decoding


def _greedy_cases(draw, hidden):
    sizes = [(1, 3, 3), (2, 4, 5), (3, 5, 6)] + [(5, 5, 9)] * hidden
    for batch, size, most in sizes:
        start, end, pad = (size - 3, size - 2, size - 1) if batch % 2 else (1, 2, 0)
        yield Decoder(draw, size, 3), draw.normal(batch, 3), start, end, pad, most


def _decode(
    choose=lambda scores: scores.argmax(dim=-1),
    over=lambda finished, token, end: finished | (token == end),
    fill=lambda token, finished, pad, end: token.masked_fill(finished, pad),
    stop=lambda finished, token, end: bool(finished.all()),
    carry=lambda new, old: new,
):
    """Greedy decoding with one of its pieces exchanged."""

    def decode(step, state, start, end, pad, max_length):
        token, tokens = mt.full((len(state),), start), []
        finished = token != token
        while len(tokens) < max_length:
            scores, new = step(token, state)
            state = carry(new, state)
            token = fill(choose(scores), finished, pad, end)
            tokens.append(token)
            finished = over(finished, token, end)
            if stop(finished, token, end):
                break
        return mt.stack(tokens, dim=1)

    return decode


@exercise(
    cases=_greedy_cases,
    forbidden=("cat_",),
    instead="a list of the tokens of each step and stack(..., dim=1) at the end",
    gradients=False,
    see='chapter 03, "Translating"',
)
def greedy_decode(step, state, start, end, pad, max_length):
    """The tokens that the decoder says, (B, n) with n at most max_length."""
    token, tokens = mt.full((len(state),), start), []
    ended = mt.zeros(len(state), dtype=mt.bool)
    while len(tokens) < max_length and not ended.all():
        scores, state = step(token, state)  # (B, V), (B, H)
        token = scores.argmax(dim=-1).masked_fill(ended, pad)  # (B)
        tokens.append(token)
        ended = ended | (token == end)
    return mt.stack(tokens, dim=1)  # (B, n)


greedy_decode.wrong(
    "a decoding in which rows go on after their end token",
    "Once a row has said end, all that follows in it is pad.",
)(_decode(fill=lambda token, finished, pad, end: token))
greedy_decode.wrong(
    "filled up with end tokens",
    "One end token a row; what follows is pad.",
)(_decode(fill=lambda token, finished, pad, end: token.masked_fill(finished, end)))
greedy_decode.wrong(
    "a decoding that forgets which rows have ended",
    "A row that is filled with pad does not say end again: remember it, finished = finished | "
    "(token == end).",
)(_decode(over=lambda finished, token, end: token == end))
greedy_decode.wrong(
    "a decoding that stops when the first row ends",
    "The others have not finished: stop when all rows have.",
)(_decode(stop=lambda finished, token, end: bool(finished.any())))
greedy_decode.wrong(
    "a decoding that always runs max_length steps",
    "Stop as soon as all rows have ended.",
)(_decode(stop=lambda finished, token, end: False))
greedy_decode.wrong(
    "a decoding that stops only if all rows end at the same step",
    "Rows end at different steps. Remember which have ended, and stop when that is all of them.",
)(_decode(stop=lambda finished, token, end: bool((token == end).all())))
greedy_decode.wrong(
    "a decoding in which every step starts from the first state",
    "Give step the state that it returned the last time: scores, state = step(token, state).",
)(_decode(carry=lambda new, old: old))
greedy_decode.wrong(
    "a decoding by the least likely token",
    "Take the largest score.",
)(_decode(choose=lambda scores: scores.argmin(dim=-1)))
greedy_decode.wrong(
    "a decoding in which all rows say what the first one says",
    "Each row has an argmax of its own, over the last axis.",
)(_decode(choose=lambda scores: scores[:1].argmax(dim=-1).expand(len(scores))))


@greedy_decode.wrong(
    "right but for the end tokens, which have become padding",
    "The end token belongs to the row; the padding begins after it.",
)
def _(step, state, start, end, pad, max_length):
    tokens = greedy_decode.reference(step, state, start, end, pad, max_length)
    return tokens.masked_fill(tokens == end, pad)


@greedy_decode.wrong(
    "right but for the start token, which stands in front",
    "The start token is read, not said: the result begins with the first token that the decoder "
    "chose.",
)
def _(step, state, start, end, pad, max_length):
    tokens = greedy_decode.reference(step, state, start, end, pad, max_length)
    return mt.stack([mt.full_like(tokens[:, 0], start), *tokens.unbind(1)], dim=1)


@greedy_decode.wrong(
    "a decoding that reads the start token at every step",
    "After the start token the decoder reads what it has said the step before.",
)
def _(step, state, start, end, pad, max_length):
    def read_start(token, state):
        return step(mt.full_like(token, start), state)

    return greedy_decode.reference(read_start, state, start, end, pad, max_length)


@greedy_decode.wrong(
    "one step longer than max_length",
    "At most max_length tokens a row, the end token included.",
)
def _(step, state, start, end, pad, max_length):
    return greedy_decode.reference(step, state, start, end, pad, max_length + 1)


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
