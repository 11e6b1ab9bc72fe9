"""The layer, with memory and mask, in which several query heads share a head of keys."""

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.modules import drawn, made, results_of
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise


def _layer_cases(draw, others=()):
    """Sizes (width, heads, groups), x (B, T, width), memory (B, n, width), masks of all shapes."""
    sizes = [
        ((4, 2, 1), 1, 3, 4, None),
        ((8, 4, 2), 2, 3, 5, (3, 5)),
        ((6, 3, 1), 2, 3, 3, (3, 3)),
        ((12, 6, 2), 2, 3, 4, (2, 1, 1, 4)),
        ((8, 4, 2), 3, 2, 4, (3, 4, 2, 4)),
    ]
    sizes = others or sizes
    for layer, batch, steps, n, mask in sizes:
        x, memory = draw.normal(batch, steps, layer[0]), draw.normal(batch, n, layer[0])
        allowed = mask and draw.integers(2, *mask) > 0
        if mask:  # every query may look somewhere, and not everywhere
            allowed[..., 0], allowed[..., -1] = True, False
            x[:, 0] *= 2e5  # its scores lie far apart
        yield layer, x, memory, allowed


def _run(answer, layer, x, memory, allowed):
    others = () if allowed is None else (allowed,)
    return results_of(
        answer(*layer),
        drawn(GroupedAttention.reference, *layer),
        {"x": x, "memory": memory},
        lambda module: {"the output": module(x, memory, *others)},
    )


LARGE = ": scores may be very large, and only minus infinity is below all of them"


def _nothing_leaks(answer, layer, x, memory, allowed):
    if allowed is None:
        return None
    module, others = made(GroupedAttention.reference, answer, layer), memory.clone()
    others[:, -1] += 10
    text = "Memory that no query is allowed to look at must not change the output"
    for asks, why in (x.tanh(), ""), (x, LARGE), (1e6 * x, LARGE):
        if not mt.allclose(module(asks, memory, allowed), module(asks, others, allowed)):
            return f"{text}{why}."
    return None


@recorded
def _alone(layer, weights, *inputs):
    """The output of a right layer that is called once."""
    module = GroupedAttention.reference(*layer).double()
    module.load_state_dict(weights)
    return module(*inputs)


def _calls_are_apart(answer, layer, x, memory, allowed):
    """Two layers that take turns, with masks and without, do as two that are called once.

    Asked of those alone that are right when they are called once.
    """
    draw = Draw(1)
    first, second = (
        made(GroupedAttention.reference, answer, layer),
        made(GroupedAttention.reference, answer, layer),
    )
    right = _alone(layer, drawn(GroupedAttention.reference, *layer), x, memory, allowed)
    if not mt.allclose(first(x, memory, allowed), right):
        return None
    with mt.no_grad():
        for weight in second.parameters():
            weight.mul_(-0.5)
    others = draw.normal(*x.shape), draw.normal(len(x), memory.shape[1] + 1, layer[0])
    calls = [(first, x, memory, allowed), (second, *others, None), (first, *others, None)]
    calls += [(second, x, memory, allowed), (first, x, memory, allowed)]
    for module, *inputs in calls:
        if not mt.allclose(module(*inputs), _alone(layer, module.state_dict(), *inputs)):
            return (
                "Called again with other sequences or another mask, or in turn with another layer, "
                "a layer does something else. It must keep nothing from a call."
            )
    return None


def _axes_of_the_mask(check, answer, layer, x, memory, allowed):
    """Whether a mask (T, n) is right, and this one, with more axes, is not."""
    plain = mt.ones(x.shape[1], memory.shape[1], dtype=mt.bool).tril()
    right = _alone(layer, drawn(GroupedAttention.reference, *layer), x, memory, plain)
    found = made(GroupedAttention.reference, answer, layer)(x, memory, plain)
    if allowed is None or allowed.ndim < 3 or not mt.allclose(found, right):
        return None
    return (
        f"With a mask of shape (T, n) it is right; one of shape {tuple(allowed.shape)} is laid "
        "against other axes than (B, h, T, n). Give the scores these four before you mask."
    )


GroupedAttention = exercise(
    "GroupedAttention",
    cases=_layer_cases,
    run=_run,
    reasons=(_axes_of_the_mask,),
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, reshape, transpose, @, masked_fill and softmax",
    properties=(_nothing_leaks, _calls_are_apart),
    gradients=False,
    see='chapter 06, "The layer"',
)
