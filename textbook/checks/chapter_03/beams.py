"""Beam search."""

import math

import minitorch as mt
from textbook.checks.chapter_03.decoders import Decoder
from textbook.checks.compare import number
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise

EARLY = 14


def _beam_cases(draw, more=(), longest=4):
    settings = [(3, 2, 2, 0.0), (4, 2, 4, 1.0), (5, 3, 5, 0.6), (3, 5, 1, 0.6)]
    for size, beams, most, alpha in [*settings, *more]:
        start, end = (0, 1) if size % 2 else (2, 0)
        yield Decoder(draw, size, 3), draw.normal(1, 3), start, end, beams, most, alpha
    early = Draw(EARLY)  # where finished hypotheses take the place of others
    yield Decoder(early, 5, 3), early.normal(1, 3), 0, 1, 2, longest, 1.0


def _score(log_p, count, alpha):
    return log_p / ((5 + count) / 6) ** alpha


def _best(candidates, beams):
    """The ``beams`` likeliest of hypotheses (log P, parent, tokens)."""
    return sorted(candidates, key=lambda each: -each[0])[:beams]


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
        if tokens not in right and _close(score, right.get((*tokens, end), math.nan)):
            return f"The end token belongs to the tokens: {[*tokens, end]}, not {list(tokens)}."
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


beam_search = exercise(
    "beam_search",
    cases=_beam_cases,
    run=_found,
    reasons=(_explained,),
    forbidden=("index_select",),
    instead="the rows of the state in square brackets, state[parents], in a search of your own",
    gradients=False,
    see='chapter 03, "Beam search"',
)
