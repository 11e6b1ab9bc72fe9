"""How many weights there are, and how many more after a change."""

from textbook.checks.compare import number
from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_by_part


def _count_cases(draw, hidden):
    """The sizes of chapter 10's Transformer: V, d, h, m, L."""
    yield from [(7, 4, 2, 9, 2), (11, 6, 3, 5, 3), (13, 8, 4, 32, 1)]
    yield (37_000, 512, 8, 2048, 6) if not hidden else (37_000, 1024, 16, 4096, 6)
    if hidden:
        yield 5, 12, 6, 7, 4


def _predicting(
    attention=lambda d, h: 4 * d * d,
    network=lambda d, m: 2 * d * m + m + d,
    embedding=lambda V, d: V * d,
    out=lambda V, d: V * d + V,
    norm=lambda d: 2 * d,
    attentions=(1, 2),
    networks=2,
    norms=5,
    last=2,
    layer=lambda total, more: more,
    heads=lambda count, V, d, h, m, L: count(V, d, 2 * h, m, L),
    hidden=lambda count, V, d, h, m, L: count(V, d, h, 2 * m, L),
    tied=lambda V, d: -V * d,
    ends=lambda last, norm: -last * norm,
    reported=lambda count, before: count - before,
):
    """The prediction with one of its pieces exchanged."""

    def count(V, d, h, m, L):
        blocks = sum(attentions) * attention(d, h) + networks * network(d, m) + norms * norm(d)
        return embedding(V, d) + out(V, d) + L * blocks + last * norm(d)

    def predict(vocabulary, width, h, m, layers):
        case = vocabulary, width, h, m, layers
        before = count(*case)
        return {
            "weights": before,
            "a layer more in each stack": reported(
                layer(before, count(vocabulary, width, h, m, layers + 1)), before
            ),
            "twice the heads": reported(heads(count, *case), before),
            "twice the hidden width": reported(hidden(count, *case), before),
            "output tied": reported(before + tied(vocabulary, width), before),
            "no norms at the ends": reported(before + ends(last, norm(width)), before),
        }

    return predict


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
            _predicting()(V, d, h, m, L)["weights"] + 1024 * d
        ),
        "it is that of one stack": lambda V, d, h, m, L: _predicting(
            attentions=(1, 0), networks=1, norms=2, last=1
        )(V, d, h, m, L)["weights"],
        "it is without the embedding": lambda V, d, h, m, L: _predicting(embedding=lambda V, d: 0)(
            V, d, h, m, L
        )["weights"],
        "it is without the output layer": lambda V, d, h, m, L: _predicting(out=lambda V, d: 0)(
            V, d, h, m, L
        )["weights"],
        "it is without the norms": lambda V, d, h, m, L: _predicting(norms=0, last=0)(
            V, d, h, m, L
        )["weights"],
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


@exercise(
    cases=_count_cases,
    run=_as_integers,
    reasons=(part_by_part(SLIPS),),
    gradients=False,
    see='chapter 10, "What each part costs"',
)
def weights_more(vocabulary, width, heads, hidden, layers):
    """The number of weights of the Transformer, and how many more there are after each change."""
    attention, norm = 4 * width**2, 2 * width
    network = 2 * width * hidden + hidden + width
    layer = 3 * attention + 2 * network + 5 * norm  # a block of each stack
    table = vocabulary * width
    return {
        "weights": 2 * table + vocabulary + layers * layer + 2 * norm,
        "a layer more in each stack": layer,
        "twice the heads": 0,
        "twice the hidden width": layers * 2 * (2 * width * hidden + hidden),
        "output tied": -table,
        "no norms at the ends": -2 * norm,
    }


for name, hint, pieces in (
    (
        "right but for the heads: every head has matrices of the full width",
        "Heads share out the columns: all together they have one matrix (d, d) for each of "
        "queries, keys, values. Their number changes nothing.",
        {"attention": lambda d, h: 4 * d * d * h},
    ),
    (
        "right but for twice the heads, which it takes for twice the attention",
        "Twice as many heads are half as wide: no weight more.",
        {"heads": lambda count, V, d, h, m, L: count(V, d, h, m, L) + 12 * L * d * d},
    ),
    (
        "right but for the output projection of the attention, which is missing",
        "Queries, keys, values and output: four matrices (d, d) in each attention.",
        {"attention": lambda d, h: 3 * d * d},
    ),
    (
        "right but for biases in the attention, of which there are none",
        "Its four matrices have no biases: 4 d^2.",
        {"attention": lambda d, h: 4 * d * d + 4 * d},
    ),
    (
        "right but for the cross-attention, which is missing though its norm is counted",
        "A block of the decoder has two attentions, one of the encoder has one.",
        {"attentions": (1, 1)},
    ),
    (
        "right but for the cross-attention and its norm, which are missing",
        "A block of the decoder has three parts and so three norms.",
        {"attentions": (1, 1), "norms": 4},
    ),
    (
        "right but for the norm of the cross-attention, which is missing",
        "A block of the decoder has three parts and so three norms.",
        {"norms": 4},
    ),
    (
        "right but for the biases of the networks, which are missing",
        "Both layers of a network have biases: m and d numbers.",
        {"network": lambda d, m: 2 * d * m},
    ),
    (
        "right but for the biases of the networks: both have the size of the width",
        "The first layer gives m numbers and has as many biases.",
        {"network": lambda d, m: 2 * d * m + 2 * d},
    ),
    (
        "right but for the networks, of which it counts one matrix",
        "From d to m, and back.",
        {"network": lambda d, m: d * m + m + d},
    ),
    (
        "right but for the networks: the decoder's have been forgotten",
        "Blocks of both stacks have one.",
        {"networks": 1},
    ),
    (
        "right for a hidden width of 4 d",
        "The hidden width is `hidden`.",
        {"network": lambda d, m: 8 * d * d + 5 * d},
    ),
    (
        "right but for the norms, which have a gain and no bias",
        "A layer norm has a gain and a bias: 2 d numbers.",
        {"norm": lambda d: d},
    ),
    (
        "right but for the norms at the ends, which are missing",
        "A norm stands at the end of the encoder and one at the end of the decoder.",
        {"last": 0},
    ),
    (
        "right but for the norms at the ends: it counts one",
        "A norm stands at the end of the encoder and one at the end of the decoder.",
        {"last": 1},
    ),
    (
        "right but for the output layer, whose bias is missing",
        "The output layer has a bias for each token of the vocabulary.",
        {"out": lambda V, d: V * d},
    ),
    (
        "right but for the embedding: source and target have one each",
        "Source and target share one embedding.",
        {"embedding": lambda V, d: 2 * V * d},
    ),
    (
        "right but for the output layer, whose matrix is that of the embedding already",
        "Before the change the output layer has a matrix of its own.",
        {"out": lambda V, d: V},
    ),
    (
        "right but for a tied output, which loses its bias, too",
        "The matrix is shared; the bias is no part of the embedding, and stays.",
        {"tied": lambda V, d: -V * d - V},
    ),
    (
        "right but for the signs: what is saved is told as a number above 0",
        "How many *more* weights: what is saved is below 0.",
        {"tied": lambda V, d: V * d, "ends": lambda last, norm: last * norm},
    ),
    (
        "right but for the changes: it tells how many weights there are after each",
        "How many more there are: after the change less before.",
        {"reported": lambda count, before: count},
    ),
    (
        "right but for twice the hidden width, of which it takes the first biases as they were",
        "The first layer of a network has a bias for each hidden number.",
        {"hidden": lambda count, V, d, h, m, L: count(V, d, h, m, L) + 4 * L * d * m},
    ),
    (
        "right but for twice the hidden width, which it tells of one layer",
        "Every one of the blocks has a network.",
        {"hidden": lambda count, V, d, h, m, L: count(V, d, h, m, L) + 2 * (2 * d * m + m)},
    ),
):
    weights_more.wrong(name, hint)(_predicting(**pieces))
