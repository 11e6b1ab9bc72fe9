"""How many weights there are, and how many more after a change."""

from textbook.checks.compare import number
from textbook.checks.reasons import part_by_part
from textbook.checks.released import exercise


def _count_cases(draw, large=(37_000, 512, 8, 2048, 6), more=()):
    """The sizes of chapter 10's Transformer: V, d, h, m, L."""
    yield from [(7, 4, 2, 9, 2), (11, 6, 3, 5, 3), (13, 8, 4, 32, 1)]
    yield large
    yield from more


def _weights(V, d, h, m, L, embedding=1, out=1, attentions=3, networks=2, norms=5, last=2):
    """All weights, with so many of each part: in a layer of both stacks, and at their ends."""
    layer = 4 * attentions * d * d + networks * (2 * d * m + m + d) + 2 * norms * d
    return embedding * V * d + out * (V * d + V) + L * layer + 2 * last * d


def _as_integers(answer, vocabulary, width, heads, hidden, layers):
    """The dict, and whether its numbers are integers."""
    found, kinds = answer(vocabulary, width, heads, hidden, layers), "a dict of integers"
    if isinstance(found, dict):
        wrong = [key for key, value in found.items() if isinstance(number(value), float)]
        kinds = f"floating-point numbers at {wrong}" if wrong else kinds
    return {"the dict": found, "the type of its numbers": kinds}


SLIPS = {
    "weights": {
        "it is counted with learned positions; the codes are no weights": lambda V, d, h, m, L: (
            _weights(V, d, h, m, L) + 1024 * d
        ),
        "it is that of one stack": lambda V, d, h, m, L: _weights(
            V, d, h, m, L, attentions=1, networks=1, norms=2, last=1
        ),
        "it has the layers of the decoder alone: the encoder has as many": lambda *case: _weights(
            *case, attentions=2, networks=1, norms=3
        ),
        "it has the layers of the encoder alone: the decoder has as many": lambda *case: _weights(
            *case, attentions=1, networks=1, norms=2
        ),
        "it is without the norm of the cross-attention": lambda *case: _weights(*case, norms=4),
        "it is with three matrices in each attention: the output has one, too": lambda *case: (
            _weights(*case, attentions=9 / 4)
        ),
        "it is without the embedding": lambda *case: _weights(*case, embedding=0),
        "it is without the output layer": lambda *case: _weights(*case, out=0),
        "it is without the norms": lambda *case: _weights(*case, norms=0, last=0),
    },
    "a layer more in each stack": {
        "it is that of the encoder alone": lambda V, d, h, m, L: 4 * d * d + 2 * d * m + m + 5 * d,
        "it is that of the decoder alone": lambda V, d, h, m, L: 8 * d * d + 2 * d * m + m + 7 * d,
        "it is without the cross-attention": lambda V, d, h, m, L: (
            8 * d * d + 2 * (2 * d * m + m + d) + 10 * d
        ),
        "it is twice the layers": lambda V, d, h, m, L: (
            L * (12 * d * d + 2 * (2 * d * m + m + d) + 10 * d)
        ),
        "it is without the norms of its blocks": lambda V, d, h, m, L: (
            12 * d * d + 2 * (2 * d * m + m + d)
        ),
        "it is with a norm less": lambda V, d, h, m, L: (
            12 * d * d + 2 * (2 * d * m + m + d) + 8 * d
        ),
    },
    "twice the heads": {
        "it is as if each new head brought matrices of its own": lambda V, d, h, m, L: (
            12 * L * d * d
        ),
    },
    "twice the hidden width": {
        "it is that of one stack": lambda V, d, h, m, L: L * (2 * d * m + m),
        "it is counted with more biases of the width, whose number stays": lambda V, d, h, m, L: (
            2 * L * (2 * d * m + m + d)
        ),
        "it is that of one of the two matrices of each network": lambda V, d, h, m, L: (
            2 * L * (d * m + m)
        ),
        "it is without the biases": lambda V, d, h, m, L: 4 * L * d * m,
        "it is that of one layer": lambda V, d, h, m, L: 2 * (2 * d * m + m),
    },
    "output tied": {
        "it is right but for its sign: fewer weights are below 0": lambda V, d, h, m, L: V * d,
        "it is counted with the bias, which stays": lambda V, d, h, m, L: -V * d - V,
        "it is 0, but a whole matrix is saved": lambda V, d, h, m, L: 0,
    },
    "no norms at the ends": {
        "it is that of all norms, those of the blocks, too": lambda V, d, h, m, L: (
            -(10 * L + 4) * d
        ),
        "it is that of one stack, or of norms without biases": lambda V, d, h, m, L: -2 * d,
        "it is right but for its sign: fewer weights are below 0": lambda V, d, h, m, L: 4 * d,
        "it is that of one norm in each layer": lambda V, d, h, m, L: -4 * L * d,
    },
}


weights_more = exercise(
    "weights_more",
    cases=_count_cases,
    run=_as_integers,
    reasons=(part_by_part(SLIPS),),
    gradients=False,
    see='chapter 10, "What each part costs"',
)
