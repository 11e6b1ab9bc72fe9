"""Beam search."""

import minitorch as mt
from textbook.checks.chapter_03.decoders import Decoder
from textbook.checks.compare import number
from textbook.checks.exercise import Draw, exercise

EARLY = 14


def _beam_cases(draw, hidden):
    settings = [(3, 2, 2, 0.0), (4, 2, 4, 1.0), (5, 3, 5, 0.6), (3, 5, 1, 0.6)]
    for size, beams, most, alpha in settings + [(6, 4, 6, 0.8)] * hidden:
        start, end = (0, 1) if size % 2 else (2, 0)
        yield Decoder(draw, size, 3), draw.normal(1, 3), start, end, beams, most, alpha
    early = Draw(EARLY)  # where finished hypotheses take the place of others
    yield Decoder(early, 5, 3), early.normal(1, 3), 0, 1, 2, 5 if hidden else 4, 1.0


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
    rows=lambda parents, count: parents,
    stop=lambda finished, beams: False,
    unfinished=lambda finished, hypotheses, beams: hypotheses,
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
            state = state[mt.tensor(rows([parent for _, parent, _ in still_open], count))]
        finished += unfinished(finished, hypotheses, beams)
        finished.sort(key=lambda each: -rank(each[0], len(each[1]), alpha))
        return [(tokens, report(p, len(tokens), alpha)) for p, tokens in finished[:beams]]

    return search


def _found(answer, step, state, start, end, beams, max_length, alpha):
    """What was found, place by place; first whether it is pairs of tokens and a score."""
    pairs = answer(step, state, start, end, beams, max_length, alpha)
    if not isinstance(pairs, (list, tuple)) or not all(map(_is_pair, pairs)):
        return {"the form of the result": pairs}
    found = {
        "the form of the result": "a list of pairs, each of a list of tokens and a score",
        "the number of hypotheses": len(pairs),
    }
    for i, (tokens, score) in enumerate(pairs):
        found[f"hypothesis [{i}], its tokens,"] = str(list(map(number, tokens)))
        found[f"the score of hypothesis [{i}]"] = score
    return found


def _is_pair(value):
    """Whether it is a pair of a row of tokens and a number."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and isinstance(value[0], (list, tuple))
        and all(type(number(token)) is int for token in value[0])
        and number(value[1]) is not None
    )


def _traced(step, state, start, end, beams, max_length):
    """log P of the finished hypotheses; and of each step all continuations, the likeliest first."""
    hypotheses, finished, steps = [((), 0.0)], {}, []
    while hypotheses and len(steps) < max_length:
        scores, state = step(
            mt.tensor([(tokens or [start])[-1] for tokens, _ in hypotheses]), state
        )
        continued = [
            (log_p + more, parent, (*tokens, token))
            for parent, ((tokens, log_p), row) in enumerate(
                zip(hypotheses, scores.log_softmax(dim=-1).tolist(), strict=True)
            )
            for token, more in enumerate(row)
        ]
        kept = _best(continued, beams)
        steps.append([tokens for _, _, tokens in _best(continued, len(continued))])
        finished |= {tokens: log_p for log_p, _, tokens in kept if tokens[-1] == end}
        kept = [each for each in kept if each[2][-1] != end]
        hypotheses = [(tokens, log_p) for log_p, _, tokens in kept]
        state = state[[parent for _, parent, _ in kept]] if kept else state
    return finished | dict(hypotheses), steps


def _close(score, right):
    return abs(score - right) <= 1e-5 * abs(right) + 1e-7


def _explained(check, answer, step, state, start, end, beams, max_length, alpha):
    """Which hypothesis is none, has another score, or is missing."""
    pairs = answer(step, state, start, end, beams, max_length, alpha)
    if not isinstance(pairs, (list, tuple)) or not all(map(_is_pair, pairs)):
        return None
    log_p, steps = _traced(step, state, start, end, beams, max_length)
    right = {tokens: _score(p, len(tokens), alpha) for tokens, p in log_p.items()}
    found = [(tuple(map(number, tokens)), number(score)) for tokens, score in pairs]
    for tokens, score in found:
        if tokens not in right:
            return _no_hypothesis(tokens, end, beams, steps)
        if not _close(score, right[tokens]):
            said = ""
            for count in len(tokens) - 1, len(tokens) + 1:
                if _close(score, _score(log_p[tokens], count, alpha)):
                    said = f" Yours is that for T = {count}: end counts, start does not."
            return (
                f"{list(tokens)} has log P = {log_p[tokens]:.6g} and T = {len(tokens)}: with alpha "
                f"= {alpha} its score is {right[tokens]:.6g}.{said}"
            )
    for tokens in sorted(right, key=lambda tokens: -right[tokens])[:beams]:
        if tokens not in dict(found):
            why = f"after {max_length} steps it is still open, which counts as finished"
            if tokens[-1] == end:
                why = f"at step {len(tokens)} it is among the {beams} likeliest, and says end"
            return f"{list(tokens)} is missing: {why}. Its score, {right[tokens]:.6g}, is better."
    if len(found) > beams:
        return f"Of all finished hypotheses only the {beams} best are asked for."
    if [score for _, score in found] != sorted((score for _, score in found), reverse=True):
        return "The best has to come first."
    return None


def _no_hypothesis(tokens, end, beams, steps):
    """Why these tokens are no finished hypothesis."""
    if end in tokens[:-1]:
        return f"{list(tokens)} goes on after end: what has said end is put aside."
    for t, continued in enumerate(steps[: len(tokens)]):
        begun = tokens[: t + 1]
        if begun not in continued[:beams]:
            place = f"number {continued.index(begun) + 1}" if begun in continued else "none"
            return (
                f"{list(tokens)} cannot be found: at step {t + 1}, {list(begun)} is {place} of the "
                f"continuations of all open hypotheses, of which the {beams} likeliest are kept "
                "(those that say end, too)."
            )
    if len(tokens) > len(steps):
        return f"{list(tokens)} has {len(tokens)} tokens: the search ends after {len(steps)} steps."
    return f"{list(tokens)} is not finished: it has not said end, and the search was to go on."


@exercise(
    cases=_beam_cases,
    run=_found,
    reasons=(_explained,),
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
)(_search(rows=lambda parents, count: [min(i, count - 1) for i in range(len(parents))]))
beam_search.wrong(
    "a search whose states stay in their rows, as long as there are enough",
    "The order of the hypotheses changes at each step. Take along the state of each one's parent: "
    "state[parents].",
)(
    _search(
        rows=lambda parents, count: [i if len(parents) <= count else 0 for i in range(len(parents))]
    )
)
beam_search.wrong(
    "a search that throws away what is open at max_length",
    "At max_length open hypotheses count as they are.",
)(_search(unfinished=lambda finished, hypotheses, beams: []))
beam_search.wrong(
    "right in its scores, but ordered by log P",
    "Divide log P by ((5 + T) / 6) ** alpha before the finished hypotheses are compared: else "
    "short ones win for being short.",
)(_search(rank=lambda log_p, count, alpha: log_p))
beam_search.wrong(
    "right in its order, but the scores are log P",
    "The score is log P / ((5 + T) / 6) ** alpha.",
)(_search(report=lambda log_p, count, alpha: log_p))
beam_search.wrong(
    "a search without normalisation by length",
    "The score is log P / ((5 + T) / 6) ** alpha. Without it short hypotheses win for being short.",
)(_search(rank=lambda log_p, count, alpha: log_p, report=lambda log_p, count, alpha: log_p))
beam_search.wrong(
    "a search that multiplies by the length penalty",
    "log P is negative: to make long hypotheses dearer, divide by ((5 + T) / 6) ** alpha.",
)(
    _search(
        rank=lambda log_p, count, alpha: _score(log_p, count, -alpha),
        report=lambda log_p, count, alpha: _score(log_p, count, -alpha),
    )
)
beam_search.wrong(
    "right but for T, which does not count the end token",
    "T counts all tokens that were said, end included.",
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
    "a search that stops when as many hypotheses as beams are finished, and drops what is open",
    "A better one may still be open: go on until none is open or max_length is reached.",
)(
    _search(
        stop=lambda finished, beams: len(finished) >= beams,
        unfinished=lambda finished, hypotheses, beams: hypotheses if len(finished) < beams else [],
    )
)
beam_search.wrong(
    "right but for the order: the worst comes first",
    "The best first.",
)(lambda *case: beam_search.reference(*case)[::-1])
beam_search.wrong(
    "right but for T, which counts the start token too",
    "T counts the tokens that were said, end included.",
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


@beam_search.wrong(
    "a search in which finished hypotheses take no place among the beams",
    "The beams likeliest of all continuations are kept, those that say end among them: the others "
    "alone go on.",
)
def _(step, state, start, end, beams, *rest):
    def keep(candidates, room):
        kept = []
        for each in _best(candidates, len(candidates)):
            if sum(tokens[-1] != end for _, _, tokens in kept) < room:
                kept.append(each)
        return kept

    return _search(keep=keep)(step, state, start, end, beams, *rest)
