"""One small matrix at both ends of a model."""

import minitorch as mt
from minitorch.flops import count_flops
from textbook.checks.modules import drawn, loaded, results_of
from textbook.checks.released import exercise


def _tied_cases(draw, more=()):
    """Sizes (vocabulary, inner, width), tokens (B, n) with some twice, and x (B, T, width)."""
    sizes = [((5, 2, 4), (2, 3), (2, 4)), ((7, 3, 8), (1, 4), (3, 2))]
    for size, tokens, outputs in [*sizes, *more]:
        yield size, draw.integers(size[0], *tokens), draw.normal(*outputs, size[2])


def _run_tied(answer, sizes, tokens, x):
    return results_of(
        answer(*sizes),
        drawn(TiedEmbedding.reference, *sizes),
        {"x": x},
        lambda module: {
            "the result of module(tokens)": module(tokens),
            "the result of module.scores(x)": module.scores(x),
        },
    )


def _both_follow_the_weights(answer, sizes, tokens, x):
    for weight in ("table", "up"):
        module = loaded(answer(*sizes), drawn(TiedEmbedding.reference, *sizes))
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


TiedEmbedding = exercise(
    "TiedEmbedding",
    cases=_tied_cases,
    properties=(_both_follow_the_weights, _makes_no_large_matrix),
    run=_run_tied,
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
