"""One small matrix at both ends of a model."""

import math

import minitorch as mt
from minitorch import nn
from minitorch.flops import count_flops
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of


def _tied_cases(draw, hidden):
    """Sizes (vocabulary, inner, width), tokens (B, n) with some twice, and x (B, T, width)."""
    sizes = [((5, 2, 4), (2, 3), (2, 4)), ((7, 3, 8), (1, 4), (3, 2))]
    for size, tokens, outputs in sizes + [((4, 5, 6), (3, 5), (2, 1))] * hidden:
        yield size, draw.integers(size[0], *tokens), draw.normal(*outputs, size[2])


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


def _both_follow_the_weights(answer, sizes, tokens, x):
    for weight in ("table", "up"):
        module = loaded(answer(*sizes), drawn(_Tied, *sizes))
        with mt.no_grad():
            module.bias.zero_()
        for call, what in (
            (lambda module=module: module(tokens), "The embedding"),
            (lambda module=module: module.scores(x), "The scores"),
        ):
            before = call()
            with mt.no_grad():
                getattr(module, weight).mul_(2)
            after = call()
            if mt.allclose(after, before):
                return f"{what} must change with self.{weight} at each call: keep no copy of it."
            if not mt.allclose(after, 2 * before):
                return f"{what} must double, but for the bias, if self.{weight} does."
    return None


def _makes_no_large_matrix(answer, sizes, tokens, x):
    """V = 300, e = 2, d = 50, three tokens each way: 600 and 4,200 FLOPs."""
    module = answer(300, 2, 50).double()
    with count_flops() as counter, mt.no_grad():
        module(mt.zeros(1, 3, dtype=mt.int64))
        module.scores(mt.zeros(1, 3, 50, dtype=mt.float64))
    if counter.total > 8_000:
        return (
            f"For V = 300, e = 2, d = 50, three tokens in and three out cost {counter.total:,} "
            "FLOPs, and it goes with 4,800. Do not multiply the matrices with each other: look the "
            "rows up first, and bring x down to the size e first."
        )
    return None


@exercise(
    cases=_tied_cases,
    properties=(_both_follow_the_weights, _makes_no_large_matrix),
    run=_run_tied,
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
class TiedEmbedding(nn.Module):
    """A small table, widened on the way in, narrowed on the way out."""

    def __init__(self, vocabulary, inner, width):
        super().__init__()
        self.table = nn.Parameter(mt.randn(vocabulary, inner) * inner**-0.5)
        self.up = nn.Parameter(mt.randn(inner, width) * width**-0.5)
        self.bias = nn.Parameter(mt.zeros(vocabulary))

    def forward(self, tokens):
        """Tokens (B, n) give (B, n, width)."""
        return self.table[tokens] @ self.up * math.sqrt(self.up.shape[1])

    def scores(self, x):
        """x (B, T, width) gives the scores of all tokens, (B, T, V)."""
        return x @ self.up.T @ self.table.T + self.bias


_Tied = TiedEmbedding.reference


def _forward(scale):
    """A forward with another scale."""

    class Scaled(_Tied):
        def forward(self, tokens):
            return self.table[tokens] @ self.up * scale(*self.table.shape, self.up.shape[1])

    return Scaled


def _scores(of):
    """Scores that are computed otherwise."""

    class Scored(_Tied):
        def scores(self, x):
            return of(self, x)

    return Scored


for name, hint, answer in (
    (
        "right but for the embedding, which is not multiplied by the square root of the width",
        "Times sqrt(width), its numbers are about as large as those of the sinusoids that are "
        "added next.",
        _forward(lambda V, e, d: 1.0),
    ),
    (
        "right but for the embedding, which is multiplied by the square root of the inner size",
        "The root of the width, self.up.shape[1], belongs here.",
        _forward(lambda V, e, d: math.sqrt(e)),
    ),
    (
        "right but for the embedding, which is multiplied by the root of the vocabulary's size",
        "The root of the width, self.up.shape[1], belongs here.",
        _forward(lambda V, e, d: math.sqrt(V)),
    ),
    (
        "right but for the embedding, which is divided by the square root of the width",
        "Multiply by it.",
        _forward(lambda V, e, d: d**-0.5),
    ),
    (
        "right but for the embedding, which is multiplied by the width",
        "Multiply by its square root.",
        _forward(lambda V, e, d: d),
    ),
    (
        "right but for the scores, which are multiplied by the square root of the width, too",
        "Only the embedding is multiplied.",
        _scores(lambda self, x: x @ self.up.T @ self.table.T * math.sqrt(x.shape[-1]) + self.bias),
    ),
    (
        "right but for the scores, which are divided by the square root of the width",
        "The factor stands at the embedding alone.",
        _scores(lambda self, x: x @ self.up.T @ self.table.T / math.sqrt(x.shape[-1]) + self.bias),
    ),
    (
        "right but for the scores, which are divided by the square root of the inner size",
        "The factor stands at the embedding alone.",
        _scores(
            lambda self, x: (
                x @ self.up.T @ self.table.T / math.sqrt(self.table.shape[1]) + self.bias
            )
        ),
    ),
    (
        "right but for the scores, whose bias is missing",
        "Each token has a bias of its own: + self.bias.",
        _scores(lambda self, x: x @ self.up.T @ self.table.T),
    ),
    (
        "right but for the scores, which have been through a softmax",
        "Scores go into the loss, which takes the softmax itself.",
        _scores(lambda self, x: _Tied.scores(self, x).softmax(dim=-1)),
    ),
    (
        "right but for the scores, which have been through a log_softmax",
        "Scores go into the loss, which takes the logarithm of the softmax itself.",
        _scores(lambda self, x: _Tied.scores(self, x).log_softmax(dim=-1)),
    ),
    (
        "right in its values, but the output does not train the table: it is detached there",
        "Tied means that the gradients of both uses reach it: leave out .detach() and .data.",
        _scores(lambda self, x: x @ self.up.T @ self.table.detach().T + self.bias),
    ),
    (
        "right in its values, but the output trains neither matrix: they are detached there",
        "Tied means that the gradients of both uses reach them: leave out .detach() and .data.",
        _scores(lambda self, x: x @ self.up.detach().T @ self.table.detach().T + self.bias),
    ),
    (
        "right in its values, but the output does not train self.up: it is detached there",
        "Tied means that the gradients of both uses reach it: leave out .detach() and .data.",
        _scores(lambda self, x: x @ self.up.detach().T @ self.table.T + self.bias),
    ),
):
    TiedEmbedding.wrong(name, hint)(answer)


@TiedEmbedding.wrong(
    "right but for the bias, which the embedding adds, too",
    "The bias belongs to the scores: it says how often a token is said at all.",
)
class _(_Tied):
    def forward(self, tokens):
        return super().forward(tokens) + self.bias[tokens].unsqueeze(-1)


@TiedEmbedding.wrong(
    "half tied: the way down is a matrix of its own",
    "Use self.up for both ways: up as it is, down transposed.",
)
class _(_Tied):
    def __init__(self, vocabulary, inner, width):
        super().__init__(vocabulary, inner, width)
        self.down = nn.Linear(width, inner, bias=False)

    def scores(self, x):
        return self.down(x) @ self.table.T + self.bias


@TiedEmbedding.wrong(
    "not tied: the scores come from a layer of their own",
    "Use self.table and self.up for both: what embeds a token is what x is compared with.",
)
class _(_Tied):
    def __init__(self, vocabulary, inner, width):
        super().__init__(vocabulary, inner, width)
        self.output = nn.Linear(width, vocabulary)

    def scores(self, x):
        return self.output(x)
