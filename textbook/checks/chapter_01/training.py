"""Clipping, and backpropagation through time by hand."""

from contextlib import suppress

import minitorch as mt
from textbook.checks.chapter_01.states import draw_weights
from textbook.checks.compare import difference
from textbook.checks.released import exercise

# Clipping


def _gradient_cases(draw):
    yield [draw.normal(2)], 0.5
    yield [mt.tensor([3.0, 0.0]), mt.tensor([[0.0], [4.0]])], 1.0
    yield [mt.tensor([3.0, 0.0]), None, mt.tensor([[0.0], [4.0]])], 6.0
    yield [draw.normal(2, 3), 10 * draw.normal(4), None, draw.normal(1, 1, 2)], 2.0
    yield [None, 0.01 * draw.normal(3, 3), 0.01 * draw.normal(3)], 1.0
    yield [mt.zeros(2), mt.zeros(1, 2)], 1.0
    yield [1e-3 * draw.normal(3), 1e-3 * draw.normal(2, 2)], 1e-3
    yield [None, None], 1.0
    yield [mt.zeros(2), mt.tensor([-3.0, 0.1]), mt.tensor([4.0])], 2.0
    yield [mt.tensor([1e-9, -5e200], dtype=mt.float64), None, 1e-3 * draw.normal(1)], 2.0
    yield [1e200 * draw.normal(3), 1e199 * draw.normal(2, 2)], 1.0


def _without_none(check, answer, gradients, max_norm):
    """Whether what has no gradient is missing in the list."""
    clipped, _ = answer(gradients, max_norm)
    if len(clipped) == sum(g is not None for g in gradients) < len(gradients):
        return "None stays, in its place: the list belongs to a list of parameters."
    return None


def _each_alone(check, answer, gradients, max_norm):
    """Whether each tensor is clipped by its own norm, whatever else the answer does."""
    for gradients, max_norm in check.all_cases():
        alone = [g if g is None else check.reference([g], max_norm)[0][0] for g in gradients]
        joint, norm = check.reference(gradients, max_norm)
        shows = norm < 1e100 and difference(alone, joint, "")
        with suppress(ZeroDivisionError):  # a tensor of zeros has the norm 0
            if shows and difference(answer(gradients, max_norm)[0], alone, ""):
                return None
    return (
        "Each tensor is clipped by its own norm, which changes the direction of the step: take "
        "one norm over all tensors together."
    )


clip_gradients = exercise(
    "clip_gradients",
    cases=_gradient_cases,
    reasons=(_without_none, _each_alone),
    forbidden=("norm",),
    instead="the square root of the sum of all squares",
    gradients=False,
    see='chapter 01, "Gradient clipping"',
)


# Backpropagation through time by hand


def _backprop_cases(draw, more=()):
    sizes = [(1, 1, 2, 1.0), (1, 2, 2, 0.3), (2, 4, 3, 0.5), (2, 9, 3, 0.8)]
    for batch, steps, size, leak in [*sizes, *more]:
        h0, (W_ih, W_hh, b) = draw.normal(batch, size), draw_weights(draw, 2, size)
        h, states = h0, []
        for x_t in draw.normal(steps, batch, 2):
            h = (1 - leak) * h + leak * (x_t @ W_ih.T + h @ W_hh.T + b).tanh()
            states.append(h)
        yield mt.stack(states), h0, W_hh, leak, draw.normal(steps, batch, size)


def _by_hand(answer, *case):
    """The engine's backward finds nothing to go back through where nothing was recorded."""
    try:
        with mt.no_grad():
            answer(*case)
    except RuntimeError:
        return "The gradients must be computed by hand, without backward() or autograd.grad()."
    return None


backprop_through_time = exercise(
    "backprop_through_time",
    cases=_backprop_cases,
    forbidden=("rnn", "backward"),
    instead="a loop over the steps, from the last to the first",
    properties=(_by_hand,),
    gradients=False,
    see='chapter 01, "Backpropagation through time"',
)
