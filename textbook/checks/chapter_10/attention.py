"""Looking at another sequence."""

import minitorch as mt
from textbook.checks.chapter_10.modules import real_mask, with_axes
from textbook.checks.modules import drawn, made, results_of, values
from textbook.checks.released import exercise


def _cross_cases(draw, others=()):
    """Sizes (width, heads), x (B, T, width), memory (B, n, width), the mask or None."""
    public = [((8, 2), 1, 2, 3, False), ((6, 3), 3, 4, 5, True)]
    for layer, batch, steps, n, masked in others or public:
        allowed = None
        if masked:
            allowed = with_axes(real_mask(draw, batch, n))
        x, memory = draw.normal(batch, steps, layer[0]), draw.normal(batch, n, layer[0])
        yield layer, x, memory, allowed
        if masked:
            for size in 200, 1e12:  # scores far above 0 and far below
                yield layer, size * x, memory, allowed


def _run_cross(answer, sizes, x, memory, allowed):
    """The output and what is kept: after a call, after another one, and beside another module."""

    def kept(module):
        return values(getattr(module, "weights", None))

    def call(module):
        others = () if allowed is None else (allowed,)
        found = {"the output": module(x, memory, *others), "the tensor self.weights": kept(module)}
        carried = getattr(getattr(module, "weights", None), "requires_grad", False)
        found["the output of a second call"] = module(x[:, 1:], memory, *others)
        found["the tensor self.weights after a second call"] = kept(module)
        made(CrossAttention.reference, answer, sizes)(2 * x, memory, *others)
        found["the tensor self.weights after another module was called"] = kept(module)
        found["what self.weights carries"] = "its history" if carried else "numbers alone"
        return found

    return results_of(
        answer(*sizes), drawn(CrossAttention.reference, *sizes), {"x": x, "memory": memory}, call
    )


def _padding_is_not_seen(answer, sizes, x, memory, allowed):
    if allowed is None:
        return None
    module = made(CrossAttention.reference, answer, sizes)
    padding = ~allowed[:, 0, 0].unsqueeze(-1)  # (B, n, 1)
    others = memory.masked_fill(padding, 1e4)
    before, after = (module(x, each, allowed) for each in (memory, others))
    if not mt.allclose(before, after, equal_nan=True):
        return "What stands in the padding of the memory must not change the output."
    return None


CrossAttention = exercise(
    "CrossAttention",
    cases=_cross_cases,
    run=_run_cross,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, reshape, transpose, @, masked_fill and softmax",
    properties=(_padding_is_not_seen,),
    gradients=False,
    see='chapter 10, "One page"',
)
