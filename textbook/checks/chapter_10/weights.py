"""How many weights there are, and one matrix that is used twice."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of

# Counting


def _count_cases(draw, hidden):
    yield from [(7, 4, 2, 8, 2, True), (7, 4, 4, 8, 1, False), (11, 6, 3, 5, 3, True)]
    yield 37_000, 512, 8, 2048, 6, True
    if hidden:
        yield from [(37_000, 1024, 16, 4096, 6, True), (3, 2, 1, 1, 5, False)]


def _count(
    embeddings=3,
    attention=lambda d, heads: 4 * d**2,
    biases=lambda d, hidden: hidden + d,
    norms=5,
    last=2,
    norm=2,
    attentions=3,
    networks=2,
):
    """The number of weights with one of the counts exchanged."""

    def count(vocabulary, width, heads, hidden, layers, tied):
        network = 2 * width * hidden + biases(width, hidden)
        layer = attentions * attention(width, heads) + networks * network + norms * norm * width
        matrices = 1 if tied else embeddings
        return matrices * vocabulary * width + layers * layer + last * norm * width

    return count


def _grows_as_it_should(answer, vocabulary, width, heads, hidden, layers, tied):
    if vocabulary > 1000:  # some build what they count, which takes long then
        return None
    case, counts = (vocabulary, width, heads, hidden, layers, tied), (answer, _count())
    before = [count(*case) for count in counts]
    for what, larger in (
        ("one more token in the vocabulary", (vocabulary + 1, *case[1:])),
        ("one more unit in the hidden layers", (*case[:3], hidden + 1, layers, tied)),
        ("one more layer in encoder and decoder", (*case[:4], layers + 1, tied)),
    ):
        grown = [count(*larger) - smaller for count, smaller in zip(counts, before, strict=True)]
        if grown[0] != grown[1]:
            return f"With {what} your count should grow by {grown[1]:,}; it grows by {grown[0]:,}."
    if before[0] != before[1]:
        return "Vocabulary and layers are counted right: what is there once, after the layers?"
    return None


@exercise(
    cases=_count_cases,
    properties=(_grows_as_it_should,),
    gradients=False,
    see='chapter 10, "What each part costs"',
)
def parameter_count(vocabulary, width, heads, hidden, layers, tied):
    """The number of weights of encoder, decoder and embeddings."""
    attention = 4 * width**2
    network = width * hidden + hidden + hidden * width + width
    norm = 2 * width
    encoder = layers * (attention + network + 2 * norm) + norm
    decoder = layers * (2 * attention + network + 3 * norm) + norm
    return (1 if tied else 3) * vocabulary * width + encoder + decoder


for name, hint, pieces in (
    (
        "right but for the heads: every head has matrices of the full width",
        "A head has the width d/h, so that all heads together have one matrix (d, d) for each of "
        "queries, keys, values. The number of heads changes nothing.",
        {"attention": lambda d, heads: 4 * d**2 * heads},
    ),
    (
        "right but for the output projection of the attention, which is missing",
        "Queries, keys, values and output: four matrices (d, d) in each attention.",
        {"attention": lambda d, heads: 3 * d**2},
    ),
    (
        "right but for biases in the attention, of which there are none",
        "Its four matrices have no biases: 4 d^2.",
        {"attention": lambda d, heads: 4 * d**2 + 4 * d},
    ),
    (
        "right but for the attentions: a decoder layer has two",
        "A decoder layer looks at itself and at the encoder's output: with the encoder's layer "
        "that makes three.",
        {"attentions": 2, "norms": 4},
    ),
    (
        "right but for the cross-attention, which is missing though its norm is counted",
        "A decoder layer has two attentions, an encoder layer one.",
        {"attentions": 2},
    ),
    (
        "right but for the biases of the feed-forward network, which are missing",
        "Its two layers have biases: hidden and width numbers.",
        {"biases": lambda d, hidden: 0},
    ),
    (
        "right but for the biases of the feed-forward network: both have the size of the width",
        "The first layer gives hidden numbers and has as many biases.",
        {"biases": lambda d, hidden: 2 * d},
    ),
    (
        "right but for the feed-forward network of the decoder's layers, which is missing",
        "Encoder and decoder layers both have one.",
        {"networks": 1},
    ),
    (
        "right but for the norms, which have a gain and no bias",
        "A layer norm has a gain and a bias: 2 d numbers.",
        {"norm": 1},
    ),
    (
        "right but for the norms, which are not counted",
        "Two in an encoder layer, three in a decoder layer, one after each stack, 2 d numbers "
        "each.",
        {"norm": 0},
    ),
    (
        "right but for the norms after the last layers, which are missing",
        "A norm stands at the end of the encoder and one at the end of the decoder.",
        {"last": 0},
    ),
    (
        "right but for the norms after the last layers: it counts one",
        "A norm stands at the end of the encoder and one at the end of the decoder.",
        {"last": 1},
    ),
    (
        "right but for the norm of the cross-attention, which is missing",
        "A decoder layer has three parts and so three norms.",
        {"norms": 4},
    ),
    (
        "right where the matrices are tied; else it counts two of them",
        "Not tied there are three: source embedding, target embedding, output.",
        {"embeddings": 2},
    ),
    (
        "right but for tied, which is not used: it counts one matrix always",
        "Not tied there are three: source embedding, target embedding, output.",
        {"embeddings": 1},
    ),
):
    parameter_count.wrong(name, hint)(_count(**pieces))


@parameter_count.wrong(
    "right but for tied, which means the opposite",
    "Tied: one matrix (V, d) for source, target and output. Not tied: three.",
)
def _(vocabulary, width, heads, hidden, layers, tied):
    return _count()(vocabulary, width, heads, hidden, layers, not tied)


@parameter_count.wrong(
    "right but for tied, which is not used: it counts three matrices always",
    "Tied: one matrix (V, d) for source, target and output.",
)
def _(vocabulary, width, heads, hidden, layers, tied):
    return _count()(vocabulary, width, heads, hidden, layers, False)


@parameter_count.wrong(
    "right for one layer, and the number of layers is not used",
    "Every layer has weights of its own: layers times those of an encoder and a decoder layer.",
)
def _(vocabulary, width, heads, hidden, layers, tied):
    return _count()(vocabulary, width, heads, hidden, 1, tied)


# Tied embeddings


def _tied_cases(draw, hidden):
    """Sizes (vocabulary, width), tokens (B, n) with some twice, and x (B, T, width)."""
    sizes = [((3, 2), (1, 2), (1, 3)), ((5, 4), (2, 3), (2, 2))]
    for size, tokens, outputs in sizes + [((4, 9), (3, 4), (2, 1))] * hidden:
        yield size, draw.integers(size[0], *tokens), draw.normal(*outputs, size[1])


def _run_tied(answer, sizes, tokens, x):
    return results_of(
        answer(*sizes),
        drawn(_Tied, *sizes),
        {"x": x},
        lambda module: {
            "the result of module(tokens)": module(tokens),
            "the result of module.scores(x)": module.scores(x),
        },
    )


def _both_follow_the_weight(answer, sizes, tokens, x):
    module = loaded(answer(*sizes), drawn(_Tied, *sizes))
    for call, what in (
        (lambda: module(tokens), "The embedding"),
        (lambda: module.scores(x), "The scores"),
    ):
        before = call()
        with mt.no_grad():
            module.weight.mul_(2)
        if not mt.allclose(call(), 2 * before):
            return f"{what} must change with self.weight: a copy of it does not learn with it."
    return None


@exercise(
    cases=_tied_cases,
    properties=(_both_follow_the_weight,),
    run=_run_tied,
    gradients=False,
    see='chapter 11, "The model with all that it needs at work"',
)
class TiedEmbedding(nn.Module):
    """A matrix that embeds tokens and scores outputs."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.weight = nn.Parameter(mt.randn(vocabulary, width) * width**-0.5)

    def forward(self, tokens):
        """Tokens (B, n) give (B, n, width)."""
        return self.weight[tokens] * math.sqrt(self.weight.shape[1])

    def scores(self, x):
        """x (B, T, width) gives the scores of all tokens, (B, T, V)."""
        return x @ self.weight.T


_Tied = TiedEmbedding.reference


@TiedEmbedding.wrong(
    "right but for the embedding, which is not multiplied by the square root of the width",
    "Rows of the matrix have a length of about 1. Times sqrt(width), their numbers are about as "
    "large as those of the sinusoids that are added next.",
)
class _(_Tied):
    def forward(self, tokens):
        return self.weight[tokens]


@TiedEmbedding.wrong(
    "right but for the embedding, which is divided by the square root of the width",
    "Multiply by it.",
)
class _(_Tied):
    def forward(self, tokens):
        return self.weight[tokens] / math.sqrt(self.weight.shape[1])


@TiedEmbedding.wrong(
    "right but for the embedding, which is multiplied by the width",
    "Multiply by its square root.",
)
class _(_Tied):
    def forward(self, tokens):
        return self.weight[tokens] * self.weight.shape[1]


@TiedEmbedding.wrong(
    "right but for the embedding, which is multiplied by the root of the vocabulary's size",
    "The root of the width, self.weight.shape[1], belongs here.",
)
class _(_Tied):
    def forward(self, tokens):
        return self.weight[tokens] * math.sqrt(len(self.weight))


@TiedEmbedding.wrong(
    "right but for the scores, which are multiplied by the square root of the width, too",
    "Only the embedding is multiplied: scores are x @ self.weight.T.",
)
class _(_Tied):
    def scores(self, x):
        return super().scores(x) * math.sqrt(x.shape[-1])


@TiedEmbedding.wrong(
    "right but for the scores, which are divided by the square root of the width",
    "This is no attention: scores are x @ self.weight.T.",
)
class _(_Tied):
    def scores(self, x):
        return super().scores(x) / math.sqrt(x.shape[-1])


@TiedEmbedding.wrong(
    "right but for the scores, which have been through a softmax",
    "Scores go into the loss, which takes the softmax itself.",
)
class _(_Tied):
    def scores(self, x):
        return super().scores(x).softmax(dim=-1)


@TiedEmbedding.wrong(
    "right in its values, but the output does not train the matrix: it is detached there",
    "Tied means that the gradients of both uses reach one matrix: leave out .detach() and .data.",
)
class _(_Tied):
    def scores(self, x):
        return x @ self.weight.detach().T


@TiedEmbedding.wrong(
    "not tied: the scores come from a matrix of their own",
    "Use self.weight for both: its rows embed, and they are what x is compared with.",
)
class _(_Tied):
    def __init__(self, vocabulary, width):
        super().__init__(vocabulary, width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def scores(self, x):
        return self.output(x)
