"""The pre-norm block as a module."""

import minitorch as mt
from textbook.checks.modules import drawn, made, results_of
from textbook.checks.released import exercise


def _block_cases(draw, others=()):
    """Sizes (width, heads, hidden), x (B, n, width), where to look, and which tokens are real."""
    public = [
        ((4, 1, 3), 1, 3, None, False),
        ((4, 2, 3), 2, 3, "random", False),
        ((6, 3, 4), 2, 4, None, True),
        ((4, 2, 5), 3, 4, "causal", True),
    ]
    for sizes, batch, n, mask, padded in others or public:
        allowed = None if mask is None else mt.ones(n, n).tril().bool()
        if mask == "random":  # every query may look somewhere, and none at the last key
            allowed = draw.integers(2, n, n) > 0
            allowed[:, 0], allowed[:, -1] = True, False
        x, real = draw.normal(batch, n, sizes[0]), None
        if padded:  # the first sequence has padding as well, the last one none
            real = draw.integers(2, batch, n) > 0
            real[:, 0], real[0, -1], real[-1] = True, False, True
            x[~real] = 1000 * x[~real]
        yield sizes, x, allowed, real


def _run_block(answer, sizes, x, allowed, real):
    """Two calls of one module, the second without masks."""
    others = {"allowed": allowed, "real": real}
    others = {name: value for name, value in others.items() if value is not None}
    return results_of(
        answer(*sizes),
        drawn(Block.reference, *sizes),
        {"x": x},
        lambda block: {
            "the output": block(x, **others),
            "the output of a second call, without masks": block(x),
        },
    )


def _nothing_leaks(answer, sizes, x, allowed, real):
    if allowed is None and real is None:
        return None
    module, others = made(Block.reference, answer, sizes), x.clone()
    if real is None:
        others[:, -1] *= -1
        if not mt.allclose(module(x, allowed)[:, :-1], module(others, allowed)[:, :-1]):
            return "A token that the others may not look at must not change their outputs."
    else:
        others[~real] = 3.0
        if not mt.allclose(module(x, allowed, real)[real], module(others, allowed, real)[real]):
            return "What stands at the padding must not change the outputs of real tokens."
    return None


Block = exercise(
    "Block",
    cases=_block_cases,
    run=_run_block,
    properties=(_nothing_leaks,),
    gradients=False,
    see='chapter 09, "The block"',
)
