"""Answers to the exercises of ``looking.py``."""

from functools import partial

import numpy as np

import minitorch as mt
from textbook.checks.chapter_04.looking import _attending, _kinds, broken_attentions
from textbook.checks.exercise import Draw
from textbook.checks.suspects import all_together

_near = partial(mt.allclose, rtol=0, atol=1e-9)  # the 1e-9 of the text


@broken_attentions.answer(hidden_cases=lambda draw: all_together(_kinds(), Draw(0).random))
def broken_attentions(programs):
    """The numbers of the programs that break a rule."""
    mt.manual_seed(0)
    queries, memory = mt.randn(3, 4, 5).double(), mt.randn(3, 7, 5).double()
    counts = [4, 7, 6]
    padding = mt.arange(7) >= mt.tensor(counts).unsqueeze(1)

    def near(a, b):
        return mt.allclose(a, b, rtol=0, atol=1e-9)

    def follows_the_rules(attend):
        given = queries.clone(), memory.clone(), padding.clone()
        outputs, weights = attend(*given)
        if not all(mt.equal(a, b) for a, b in zip(given, (queries, memory, padding), strict=True)):
            return False
        if bool((weights < 0).any()) or bool((weights.mT[padding] != 0).any()):
            return False
        if not near(weights.sum(dim=-1), mt.ones(3, 4).double()):
            return False
        if not near(outputs, weights @ memory):
            return False
        for b, n in enumerate(counts):
            for t in range(4):  # each query alone, to the words in the opposite order
                query, words = queries[[b], t : t + 1].clone(), memory[[b], :n].flip(1)
                _, turned = attend(query, words, mt.zeros(1, n, dtype=mt.bool))
                if not near(turned[0, 0].flip(0), weights[b, t, :n]):
                    return False
        return True

    return [i for i, attend in enumerate(programs) if not follows_the_rules(attend)]


def _rules(drop=(), counts=(4, 7), steps=3, close=_near, asking=1.0, apart=1.0):
    """Whether a program breaks a rule; without the rules to be dropped."""
    draw = Draw(0)
    queries = asking * draw.normal(len(counts), steps, 5)
    memory = apart * draw.normal(len(counts), max(counts), 5) + (1 - apart)
    padding = mt.arange(max(counts)) >= mt.tensor(counts).unsqueeze(1)

    def follows(attend):
        given = queries.clone(), memory.clone(), padding.clone()
        outputs, weights = attend(*given)
        yield "argument", mt.equal(given[1], memory)
        yield "asking", mt.equal(given[0], queries)
        yield "mask", mt.equal(given[2], padding)
        yield "padding", not bool((weights.mT[padding] != 0).any())
        yield "sign", not bool((weights < 0).any())
        yield "sum", close(weights.sum(dim=-1), mt.ones(len(counts), steps).double())
        yield "output", close(outputs, weights @ memory)
        for b, n in enumerate(counts):
            whole, words = mt.zeros(1, n, dtype=mt.bool), memory[[b], :n]
            _, alone = attend(queries[[b]].clone(), words.clone(), whole.clone())
            yield "sentence", close(alone[0], weights[b, :, :n])
            for t in range(steps):
                _, single = attend(queries[[b], t : t + 1].clone(), words.clone(), whole.clone())
                yield "query", close(single[0, 0], alone[0, t])
            _, turned = attend(queries[[b]].clone(), words.flip(1), whole.clone())
            yield "order", close(turned[0].flip(-1), alone[0])

    return lambda attend: not all(kept for rule, kept in follows(attend) if rule not in drop)


def _testing(say=lambda i, broken: i if broken else None, **pieces):
    """The test with one of its pieces exchanged."""

    def test(programs):
        broken = _rules(**pieces)
        found = [say(i, broken(attend)) for i, attend in enumerate(programs)]
        return [each for each in found if each is not None]

    return test


def _comparison_with_dot_product(programs):
    draw = Draw(0)
    queries, memory = draw.normal(3, 4, 5), draw.normal(3, 7, 5)
    padding = mt.arange(7) >= mt.tensor([4, 7, 6]).unsqueeze(1)
    _, right = _attending()(queries, memory, padding)
    return [
        i
        for i, attend in enumerate(programs)
        if not mt.allclose(attend(queries, memory.clone(), padding)[1], right)
    ]


# Right in another way


def broken_by_random_trials(programs):
    mt.manual_seed(2)
    found = []
    for i, attend in enumerate(programs):
        for _ in range(6):
            queries, memory = mt.randn(2, 3, 4).double(), mt.randn(2, 6, 4).double()
            padding = mt.arange(6) >= mt.tensor([3, 6]).unsqueeze(1)
            if not _keeps(attend, queries, memory, padding):
                found.append(np.int64(i))
                break
    return found


def _near_anew(a, b):
    return bool((a - b).abs().max() < 1e-9)


def _keeps(attend, queries, memory, padding):
    given = [x.clone() for x in (queries, memory, padding)]
    outputs, weights = attend(*given)
    kept = all(mt.equal(a, b) for a, b in zip(given, (queries, memory, padding), strict=True))
    kept &= bool((weights >= 0).all()) and not bool((weights.mT[padding] != 0).any())
    kept &= _near_anew(weights.sum(-1), mt.ones(*weights.shape[:2]).double())
    kept &= _near_anew(outputs, mt.einsum("btn,bnd->btd", weights, memory))
    for b, rest in enumerate(padding):
        n = int((~rest).sum())
        words, nothing = memory[[b], :n], mt.zeros(1, n, dtype=mt.bool)
        for t in range(queries.shape[1]):
            _, single = attend(queries[[b], t : t + 1].clone(), words.flip(1), nothing)
            kept &= _near_anew(single[0, 0].flip(0), weights[b, t, :n])
    return kept


def broken_rule_by_rule(programs):
    generator = np.random.default_rng(3)
    queries, memory = (mt.tensor(generator.standard_normal((3, n, 6))) for n in (5, 8))
    padding = mt.arange(8) >= mt.tensor([5, 2, 8]).unsqueeze(1)
    return tuple(
        i for i, attend in enumerate(programs) if not _keeps(attend, queries, memory, padding)
    )


right = {
    "broken_attentions": [broken_by_random_trials, broken_rule_by_rule, _testing()],
}
