"""Programs that attend to a memory, some of them broken."""

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import each_alone, judged, some_of


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

    def less_the_mean(scores, padding):
        mean = 1 / (~padding).to(scores.dtype).sum(dim=1).reshape(-1, 1, 1)
        weights = 1.25 * scores.softmax(dim=-1) - 0.25 * mean
        return weights.masked_fill(padding.unsqueeze(1), 0.0)

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
        "has weights below 0": lambda: _attending(weigh=less_the_mean),
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
    "has weights below 0": "Rule 1: they add up to 1, but some are negative.",
    "loses a millionth of its weights": "Rule 1: add up the weights of each query, to 1e-9.",
    "sharpens with the number of queries": QUERY,
    "writes into the memory": "Rule 4: compare the memory with a copy.",
    "writes into the queries": "Rule 4: compare the queries with a copy.",
    "writes into the padding": "Rule 4: compare the padding with a copy.",
    "sharpens from call to call": "Rule 2: ask twice with the same.",
}
SOUND = (
    "It breaks no rule: what else it does is its own business. (Float32 rounds by more than 1e-9: "
    "make your inputs with dtype=mt.float64.)"
)


def programs():
    """Nine programs, five of which are broken; the order says nothing."""
    return [_Program(make()) for make in some_of(_kinds(), (5, 4), Draw(8).random)]


def _program_cases(draw):
    """Each kind by itself, and none."""
    return each_alone(_kinds())


def _found(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    with as_in_a_notebook():
        found = answer([_Program((broken | right)[kind]()) for kind in kinds])
    return judged(found, kinds, broken, REASONS | dict.fromkeys(right, SOUND), "broken programs")


broken_attentions = exercise(
    "broken_attentions",
    cases=_program_cases,
    run=_found,
    gradients=False,
    see='chapter 04, "In matrices"',
)
