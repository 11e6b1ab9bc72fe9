"""Programs that attend to a memory, some of them broken."""

from functools import partial

import minitorch as mt
from textbook.checks.exercise import Draw, exercise
from textbook.checks.suspects import all_together, each_alone, judged, some_of

_near = partial(mt.allclose, rtol=0, atol=1e-9)  # the 1e-9 of the text


class _Program:
    """A program that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, queries, memory, padding):
        return self.function(queries, memory, padding)


def _dot(queries, memory, padding):
    return queries @ memory.mT


def _hide(scores, padding):
    return scores.masked_fill(padding.unsqueeze(1), -mt.inf)


def _attending(
    score=_dot,
    hide=_hide,
    weigh=lambda scores, padding: scores.softmax(dim=-1),
    mix=lambda weights, memory, padding: weights @ memory,
):
    """Attention with one of its pieces exchanged."""

    def attend(queries, memory, padding):
        weights = weigh(hide(score(queries, memory, padding), padding), padding)
        return mix(weights, memory, padding), weights

    return attend


def _distance(queries, memory, padding):
    return -(queries.unsqueeze(2) - memory.unsqueeze(1)).square().sum(dim=-1) / 2


def _cosine(queries, memory, padding):
    length = memory.square().sum(dim=-1, keepdim=True).sqrt()
    return queries @ (memory / length).mT


def _additive(queries, memory, padding):
    return (queries.unsqueeze(2) + memory.unsqueeze(1)).tanh().sum(dim=-1)


def _kinds():
    """Functions that make a broken program, and right ones, by kind."""

    def of_first(queries, memory, padding):
        return _attending()(queries, memory, padding[:1].expand(*padding.shape))

    def in_place(queries, memory, padding):
        memory[:] = memory.masked_fill(padding.unsqueeze(-1), 0.0)
        return _attending()(queries, memory, padding)

    def remembers():
        kept = []

        def attend(queries, memory, padding):
            kept.append(memory.shape)
            factor = 1 + 0.01 * (len(kept) - 1)
            return _attending(score=lambda *x: factor * _dot(*x))(queries, memory, padding)

        return attend

    def centred(queries, memory, padding):
        return (queries - queries.mean(dim=1, keepdim=True)) @ memory.mT

    def less_all(queries, memory, padding):
        return queries @ (memory / (1 + memory.square().mean().sqrt())).mT

    def less_others(queries, memory, padding):
        words = memory.masked_fill(padding.unsqueeze(-1), 0.0).square().sum(dim=(1, 2))
        return queries @ memory.mT / (1 + words.mean())

    def into_padding(queries, memory, padding):
        found = _attending()(queries, memory, padding)
        padding[:, 1:] = True
        return found

    def into_queries(queries, memory, padding):
        found = _attending()(queries, memory, padding)
        queries /= queries.shape[-1] ** 0.5
        return found

    def ahead(queries, memory, padding):
        scores, n = _dot(queries, memory, padding), memory.shape[1]
        later = mt.arange(n) > mt.arange(queries.shape[1]).unsqueeze(1) + 1
        return scores.masked_fill(later, -1e9)

    broken = {
        "has a softmax over the queries": lambda: _attending(
            weigh=lambda scores, padding: scores.softmax(dim=1)
        ),
        "forgets the padding": lambda: _attending(hide=lambda scores, padding: scores),
        "has scores of 0 at the padding": lambda: _attending(
            hide=lambda scores, padding: scores.masked_fill(padding.unsqueeze(1), 0.0)
        ),
        "masks the weights after the softmax": lambda: _attending(
            hide=lambda scores, padding: scores,
            weigh=lambda scores, padding: scores.softmax(dim=-1) * ~padding.unsqueeze(1),
        ),
        "masks with a score of -30": lambda: _attending(
            hide=lambda scores, padding: scores.masked_fill(padding.unsqueeze(1), -30.0)
        ),
        "leaves a trace at the padding": lambda: _attending(
            weigh=lambda scores, padding: (scores.softmax(dim=-1) + 1e-12) / (1 + 1e-12 * 7)
        ),
        "prefers late words": lambda: _attending(
            score=lambda *x: _dot(*x) + 0.1 * mt.arange(x[1].shape[1])
        ),
        "looks one word ahead at most": lambda: _attending(score=ahead),
        "takes the mean of the queries away": lambda: _attending(score=centred),
        "divides by the size of the whole memory": lambda: _attending(score=less_all),
        "divides by the size of all sentences": lambda: _attending(score=less_others),
        "sharpens with the width of the batch": lambda: _attending(
            score=lambda *x: _dot(*x) * x[1].shape[1] ** 0.5
        ),
        "takes the first sentence's padding for all": lambda: of_first,
        "mixes words of length 1": lambda: _attending(
            mix=lambda weights, memory, padding: (
                weights @ (memory / memory.square().sum(dim=-1, keepdim=True).sqrt())
            )
        ),
        "divides its outputs by the number of words": lambda: _attending(
            mix=lambda weights, memory, padding: (
                weights @ memory / (~padding).sum(dim=1).reshape(-1, 1, 1)
            )
        ),
        "has weights without a sum": lambda: _attending(
            weigh=lambda scores, padding: scores.sigmoid().masked_fill(padding.unsqueeze(1), 0.0)
        ),
        "loses a millionth of its weights": lambda: _attending(
            weigh=lambda scores, padding: scores.softmax(dim=-1) * (1 - 1e-6)
        ),
        "sharpens with the number of queries": lambda: _attending(
            score=lambda *x: _dot(*x) * x[0].shape[1] ** 0.5
        ),
        "writes into the memory": lambda: in_place,
        "writes into the queries": lambda: into_queries,
        "writes into the padding": lambda: into_padding,
        "sharpens from call to call": remembers,
    }
    right = {
        "has dot products": _attending,
        "has scaled dot products": lambda: _attending(
            score=lambda *x: _dot(*x) / x[0].shape[-1] ** 0.5
        ),
        "has distances": lambda: _attending(score=_distance),
        "has cosines": lambda: _attending(score=_cosine),
        "has additive scores": lambda: _attending(score=_additive),
        "has equal weights": lambda: _attending(score=lambda *x: 0 * _dot(*x)),
    }
    return broken, right


SENTENCE = "Rule 2: let a sentence attend alone, and in a batch."
QUERY = "Rule 2: let a query ask alone, and beside others."
PADDING = (
    "Rule 1: the weights at the padding have to be exactly 0. Is there padding in each of your "
    "batches?"
)
REASONS = {
    "has a softmax over the queries": "Rule 1: add up the weights of each query.",
    "forgets the padding": PADDING,
    "has scores of 0 at the padding": PADDING,
    "masks the weights after the softmax": "Rule 1: add up the weights where there is padding.",
    "masks with a score of -30": PADDING,
    "leaves a trace at the padding": PADDING,
    "prefers late words": "Rule 3: let words change places.",
    "looks one word ahead at most": "Rule 3: let words change places.",
    "takes the mean of the queries away": QUERY,
    "divides by the size of the whole memory": SENTENCE,
    "divides by the size of all sentences": SENTENCE,
    "sharpens with the width of the batch": "Rule 2: add padding behind the words.",
    "takes the first sentence's padding for all": "Rule 1: give sentences different lengths.",
    "mixes words of length 1": "Rule 1: compare the outputs with the weights times the memory.",
    "divides its outputs by the number of words": (
        "Rule 1: compare the outputs with the weights times the memory."
    ),
    "has weights without a sum": "Rule 1: add up the weights of each query.",
    "loses a millionth of its weights": "Rule 1: add up the weights of each query, to 1e-9.",
    "sharpens with the number of queries": QUERY,
    "writes into the memory": "Rule 4: compare the memory with a copy.",
    "writes into the queries": "Rule 4: compare the queries with a copy.",
    "writes into the padding": "Rule 4: compare the padding with a copy.",
    "sharpens from call to call": "Rule 2: ask twice with the same.",
}
SOUND = "It breaks no rule: what else it does is its own business."


def programs():
    """Nine programs, five of which are broken; the order says nothing."""
    return [_Program(make()) for make in some_of(_kinds(), (5, 4), Draw(8).random)]


def _program_cases(draw):
    """Each kind by itself, and none."""
    return each_alone(_kinds())


def _found(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    found = answer([_Program((broken | right)[kind]()) for kind in kinds])
    return judged(found, kinds, broken, REASONS | dict.fromkeys(right, SOUND), "broken programs")


@exercise(
    cases=_program_cases,
    hidden_cases=lambda draw: all_together(_kinds(), Draw(0).random),
    run=_found,
    gradients=False,
    see='chapter 04, "In matrices"',
)
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


def _rules(drop=(), counts=(4, 7), steps=3, close=_near):
    """Whether a program breaks a rule; without the rules to be dropped."""
    draw = Draw(0)
    queries = draw.normal(len(counts), steps, 5)
    memory = draw.normal(len(counts), max(counts), 5)
    padding = mt.arange(max(counts)) >= mt.tensor(counts).unsqueeze(1)

    def follows(attend):
        given = queries.clone(), memory.clone(), padding.clone()
        outputs, weights = attend(*given)
        yield "argument", mt.equal(given[1], memory)
        yield "asking", mt.equal(given[0], queries)
        yield "mask", mt.equal(given[2], padding)
        yield "padding", not bool((weights.mT[padding] != 0).any())
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
