"""Clipping, and backpropagation through time by hand."""

import math

import minitorch as mt
from textbook.checks.chapter_01.states import draw_weights
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise

# Clipping


def _gradient_cases(draw, hidden):
    yield [draw.normal(2)], 0.5
    yield [mt.tensor([3.0, 0.0]), mt.tensor([[0.0], [4.0]])], 1.0
    yield [mt.tensor([3.0, 0.0]), None, mt.tensor([[0.0], [4.0]])], 6.0
    yield [draw.normal(2, 3), 10 * draw.normal(4), None, draw.normal(1, 1, 2)], 2.0
    yield [None, 0.01 * draw.normal(3, 3), 0.01 * draw.normal(3)], 1.0
    yield [mt.zeros(2), mt.zeros(1, 2)], 1.0
    yield [1e-3 * draw.normal(3), 1e-3 * draw.normal(2, 2)], 1e-3
    yield [None, None], 1.0
    yield [1e200 * draw.normal(3), 1e199 * draw.normal(2, 2)], 1.0
    yield [1e-200 * draw.normal(3), 1e-199 * draw.normal(2, 2)], 1e-205
    if hidden:
        yield [1e6 * draw.normal(5, 4), draw.normal(7), 1e-3 * draw.normal(2, 2)], 0.25
        yield [draw.normal(1) for _ in range(9)], 100.0


def _joint_norm(gradients):
    """The norm of all elements together, without overflow."""
    values = [x for g in gradients if g is not None for x in g.flatten().tolist()]
    return math.hypot(*values)


def _zero_by_zero(gradients):
    return 0.0 if all(g is None for g in gradients) else math.nan


def _factor(norm, max_norm):
    return max_norm / norm if norm > max_norm else 1.0


def _clipping(
    norm=_joint_norm,
    factor=_factor,
    scale=lambda g, factor, max_norm: g * factor,
    told=lambda norm, clipped: norm,
    nothing=lambda: None,
):
    """The clipping with one of its pieces exchanged."""

    def clip(gradients, max_norm):
        size = norm(gradients)
        by = factor(size, max_norm)
        clipped = [nothing() if g is None else scale(g, by, max_norm) for g in gradients]
        return clipped, told(size, clipped)

    return clip


def _without_none(check, answer, gradients, max_norm):
    """Whether what has no gradient is missing in the list."""
    clipped, _ = answer(gradients, max_norm)
    if len(clipped) == sum(g is not None for g in gradients) < len(gradients):
        return "None stays, in its place: the list belongs to a list of parameters."
    return None


def _each_alone(check, answer, gradients, max_norm):
    """Whether each tensor is clipped by its own norm, whatever else the answer does."""
    clipped, _ = answer(gradients, max_norm)
    alone = [g if g is None else _clipping()([g], max_norm)[0][0] for g in gradients]
    if difference(clipped, alone, "") is None:
        return (
            "Each tensor is clipped by its own norm, which changes the direction of the step: take "
            "one norm over all tensors together."
        )
    return None


@exercise(
    cases=_gradient_cases,
    reasons=(_without_none, _each_alone),
    forbidden=("norm",),
    instead="the square root of the sum of all squares",
    gradients=False,
    see='chapter 01, "Gradient clipping"',
)
def clip_gradients(gradients, max_norm):
    """A list of gradients whose joint norm is at most max_norm, and the norm that it was."""
    given = [g for g in gradients if g is not None]
    largest = max((g.abs().max().item() for g in given), default=0.0)
    if largest == 0:
        return gradients, 0.0
    norm = largest * sum(((g / largest) ** 2).sum().item() for g in given) ** 0.5
    factor = min(1.0, max_norm / norm)
    return [None if g is None else g * factor for g in gradients], norm


def _plain_norm(gradients):
    return sum((g**2).sum().item() for g in gradients if g is not None) ** 0.5


def _each_by_its_own(norm):
    def clip(gradients, max_norm):
        factors = [0.0 if g is None else _factor(norm([g]), max_norm) for g in gradients]
        clipped = [g if g is None else g * by for g, by in zip(gradients, factors, strict=True)]
        return clipped, norm(gradients)

    return clip


ONE_NORM = (
    "That changes the direction of the step. Take one norm over all tensors together, and scale "
    "all of them by the same number."
)
clip_gradients.wrong("a clipping of each tensor by its own norm", ONE_NORM)(
    _each_by_its_own(_joint_norm)
)
clip_gradients.wrong(
    "a clipping of each tensor by its own norm, and that norm infinite or 0 where squares are",
    ONE_NORM,
)(_each_by_its_own(_plain_norm))

clip_gradients.wrong(
    "right but for gradients so large, or so small, that their squares are no numbers any more",
    "1e200 squared is infinite. Divide by the largest absolute value first, and multiply the norm "
    "by it.",
)(_clipping(norm=_plain_norm))
clip_gradients.wrong(
    "a scaling to max_norm of small gradients too",
    "Gradients whose norm is at most max_norm stay as they are.",
)(_clipping(factor=lambda norm, max_norm: max_norm / norm if norm else 1.0))
clip_gradients.wrong(
    "a limit on each element",
    "That changes the direction of the step. Scale all tensors by the same number.",
)(_clipping(scale=lambda g, by, max_norm: g.clamp(-max_norm, max_norm)))
clip_gradients.wrong(
    "right but for a small number that is added to the norm",
    "max_norm / (norm + 1e-6) is off where gradients are small: divide by the norm itself.",
)(_clipping(factor=lambda norm, max_norm: min(1.0, max_norm / (norm + 1e-6))))
clip_gradients.wrong(
    "right but for gradients that are all 0, where it divides 0 by 0",
    "Then the norm is 0, and nothing has to be scaled.",
)(_clipping(norm=lambda gradients: _joint_norm(gradients) or _zero_by_zero(gradients)))
clip_gradients.wrong("a scaling to norm 1, not to max_norm", "Multiply by max_norm / norm.")(
    _clipping(factor=lambda norm, max_norm: 1 / norm if norm > max_norm else 1.0)
)
clip_gradients.wrong(
    "a scaling by the norm over max_norm, upside down", "Multiply by max_norm / norm."
)(_clipping(factor=lambda norm, max_norm: norm / max_norm if norm > max_norm else 1.0))
clip_gradients.wrong(
    "a clipping by the squared norm",
    "The norm is the square root of the sum of squares; the root is missing.",
)(_clipping(norm=lambda gradients: _joint_norm(gradients) * _joint_norm(gradients)))
clip_gradients.wrong(
    "a clipping by the sum of the tensors' norms",
    "Norms do not add up. Add the sums of squares of all tensors, then take one square root.",
)(_clipping(norm=lambda gradients: sum(_joint_norm([g]) for g in gradients)))
clip_gradients.wrong(
    "a clipping by the largest of the tensors' norms",
    "The norm goes over all tensors together: add their sums of squares, then take the root.",
)(_clipping(norm=lambda gradients: max(_joint_norm([g]) for g in gradients)))
clip_gradients.wrong(
    "a clipping by the largest of all elements",
    "The norm is the root of the sum of all squares.",
)(
    _clipping(
        norm=lambda gradients: max(
            (g.abs().max().item() for g in gradients if g is not None), default=0.0
        )
    )
)
clip_gradients.wrong(
    "a scaling of small gradients in place of large ones",
    "Scale where the norm is above max_norm.",
)(_clipping(factor=lambda norm, max_norm: max_norm / norm if 0 < norm < max_norm else 1.0))
clip_gradients.wrong(
    "a clipping by the sum of absolute values",
    "The norm here is the Euclidean one: the square root of the sum of squares.",
)(_clipping(norm=lambda gradients: sum(g.abs().sum().item() for g in gradients if g is not None)))
clip_gradients.wrong(
    "a clipping by the mean of the squares",
    "The norm is the root of the sum of the squares, not of their mean.",
)(
    _clipping(
        norm=lambda gradients: (
            _joint_norm(gradients)
            / max(1, sum(g.numel() for g in gradients if g is not None)) ** 0.5
        )
    )
)
clip_gradients.wrong(
    "right but for the norm that is returned, which is that after clipping",
    "Return the norm as it was: it tells whether a cliff was near.",
)(_clipping(told=lambda norm, clipped: _joint_norm(clipped)))
clip_gradients.wrong(
    "right but for parameters without a gradient, which get 0",
    "None stays None: the optimizer leaves such a parameter as it is.",
)(_clipping(nothing=lambda: 0.0))


@clip_gradients.wrong(
    "right but for parameters without a gradient, which are left out of the list",
    "None stays None, in its place: the list belongs to a list of parameters.",
)
def _(gradients, max_norm):
    return _clipping()([g for g in gradients if g is not None], max_norm)


@clip_gradients.wrong(
    "right but for the order: the norm comes first", "Return the list first, then the norm."
)
def _(gradients, max_norm):
    return _clipping()(gradients, max_norm)[::-1]


@clip_gradients.wrong(
    "right but for the norm, which is not returned", "Return two things: the list and the norm."
)
def _(gradients, max_norm):
    return _clipping()(gradients, max_norm)[0]


# Backpropagation through time by hand


def _backprop_cases(draw, hidden):
    sizes = [(1, 1, 2, 1.0), (1, 2, 2, 0.3), (2, 4, 3, 0.5), (2, 9, 3, 0.8)]
    for batch, steps, size, leak in sizes + [(5, 12, 4, 0.15)] * hidden:
        h0, (W_ih, W_hh, b) = draw.normal(batch, size), draw_weights(draw, 2, size)
        h, states = h0, []
        for x_t in draw.normal(steps, batch, 2):
            h = (1 - leak) * h + leak * (x_t @ W_ih.T + h @ W_hh.T + b).tanh()
            states.append(h)
        yield mt.stack(states), h0, W_hh, leak, draw.normal(steps, batch, size)


def _slope(h, before, leak):
    return 1 - ((h - (1 - leak) * before) / leak) ** 2


def _backprop(
    slope=_slope,
    through=lambda grad_a, W_hh: grad_a @ W_hh,
    past=lambda grad_h, leak: (1 - leak) * grad_h,
    share=lambda leak: leak,
    previous=lambda states, h0: mt.cat([h0.unsqueeze(0), states[:-1]]),
    first=0,
    later=lambda carried: carried,
):
    """The backward pass with one of its pieces exchanged."""

    def backward(states, h0, W_hh, leak, grad_states):
        inputs, carried = previous(states, h0), mt.zeros_like(h0)
        right = mt.cat([h0.unsqueeze(0), states[:-1]])
        grad_weight = mt.zeros_like(W_hh)
        for t in reversed(range(first, len(states))):
            grad_h = grad_states[t] + later(carried)
            grad_a = share(leak) * slope(states[t], right[t], leak) * grad_h
            grad_weight = grad_weight + grad_a.T @ inputs[t]
            carried = through(grad_a, W_hh) + past(grad_h, leak)
        return grad_weight, carried

    return backward


def _by_hand(answer, *case):
    """The engine's backward finds nothing to go back through where nothing was recorded."""
    try:
        with mt.no_grad():
            answer(*case)
    except RuntimeError:
        return "The gradients must be computed by hand, without backward() or autograd.grad()."
    return None


@exercise(
    cases=_backprop_cases,
    forbidden=("rnn", "backward"),
    instead="a loop over the steps, from the last to the first",
    properties=(_by_hand,),
    gradients=False,
    see='chapter 01, "Backpropagation through time"',
)
def backprop_through_time(states, h0, W_hh, leak, grad_states):
    """The gradients of the loss with respect to W_hh (H, H) and h0 (B, H)."""
    grad_W_hh = mt.zeros_like(W_hh)
    from_later = mt.zeros_like(h0)  # what comes back through the next state, (B, H)
    for t in reversed(range(len(states))):
        before = states[t - 1] if t > 0 else h0
        u = (states[t] - (1 - leak) * before) / leak  # tanh(a_t), (B, H)
        grad_h = grad_states[t] + from_later  # (B, H)
        grad_a = leak * (1 - u**2) * grad_h  # (B, H)
        grad_W_hh = grad_W_hh + grad_a.T @ before  # (H, H), summed over the batch
        from_later = grad_a @ W_hh + (1 - leak) * grad_h  # two ways back
    return grad_W_hh, from_later


backprop_through_time.wrong(
    "right but for the slope of tanh, which is missing",
    "The gradient passes through u = tanh(a): multiply it by 1 - u * u.",
)(_backprop(slope=lambda h, before, leak: mt.ones_like(h)))
backprop_through_time.wrong(
    "right but for the slope of tanh: 1 - u in place of 1 - u * u",
    "The derivative of tanh(a) is 1 - tanh(a) ** 2.",
)(_backprop(slope=lambda h, before, leak: 1 - (h - (1 - leak) * before) / leak))
backprop_through_time.wrong(
    "right but for W_hh, which is transposed on the way back",
    "Forward is a = h @ W_hh.T, so backward is grad_a @ W_hh.",
)(_backprop(through=lambda grad_a, W_hh: grad_a @ W_hh.T))
backprop_through_time.wrong(
    "right but for the slope of tanh, taken at the state: 1 - h * h",
    "In this cell h is not tanh(a), but a mixture. Get u = tanh(a) back from h_t and h_(t-1).",
)(_backprop(slope=lambda h, before, leak: 1 - h**2))
backprop_through_time.wrong(
    "right but for tanh(a), which is not divided by leak",
    "h_t - (1 - leak) h_(t-1) is leak times tanh(a_t).",
)(_backprop(slope=lambda h, before, leak: 1 - (h - (1 - leak) * before) ** 2))
backprop_through_time.wrong(
    "right but for the order: the gradient of h0 comes first",
    "Return the gradient of W_hh, then that of h0.",
)(lambda *case: _backprop()(*case)[::-1])
backprop_through_time.wrong(
    "right but for h0, whose gradient is summed over the batch",
    "Each sequence has a first state of its own: (B, H).",
)(lambda *case: (_backprop()(*case)[0], _backprop()(*case)[1].sum(dim=0)))
backprop_through_time.wrong(
    "right but for the way past tanh, which is missing",
    "h_(t-1) enters h_t twice: through a_t, and directly, with the factor 1 - leak.",
)(_backprop(past=lambda grad_h, leak: 0))
backprop_through_time.wrong(
    "right but for the way through tanh, which is missing",
    "h_(t-1) enters h_t twice: directly, and through a_t, as grad_a @ W_hh.",
)(_backprop(through=lambda grad_a, W_hh: 0))
backprop_through_time.wrong(
    "right but for the way past tanh, which has the factor 1",
    "Directly, h_(t-1) enters h_t with the factor 1 - leak.",
)(_backprop(past=lambda grad_h, leak: grad_h))
backprop_through_time.wrong(
    "right but for the way past tanh, which has the factor leak",
    "Directly, h_(t-1) enters h_t with the factor 1 - leak.",
)(_backprop(past=lambda grad_h, leak: leak * grad_h))
backprop_through_time.wrong(
    "right but for the factor leak of tanh, which is missing",
    "h_t contains leak * tanh(a_t): its gradient passes on with the factor leak.",
)(_backprop(share=lambda leak: 1))
backprop_through_time.wrong(
    "the gradient of the plain cell, as in the chapter",
    "This cell keeps a part of its state: one more way back, and tanh(a) is not h.",
)(
    _backprop(
        slope=lambda h, before, leak: 1 - h**2, past=lambda grad_h, leak: 0, share=lambda leak: 1
    )
)
backprop_through_time.wrong(
    "the gradient without the path through later states",
    "h_t enters the loss directly and through h_(t+1): add what comes back from step t + 1 to "
    "grad_states[t].",
)(_backprop(later=mt.zeros_like))
backprop_through_time.wrong(
    "the gradient of the last state alone, as if no other had one of its own",
    "Add grad_states[t] at each step.",
)(
    lambda states, h0, W_hh, leak, grads: _backprop()(
        states, h0, W_hh, leak, mt.cat([0 * grads[:-1], grads[-1:]])
    )
)
backprop_through_time.wrong(
    "right but for the product with h_t in place of h_(t-1)",
    "At step t, W_hh was multiplied by the state before, h_(t-1); at the first step by h0.",
)(_backprop(previous=lambda states, h0: states))
backprop_through_time.wrong(
    "right but for the first step, which is left out",
    "Step 0 counts too; the state before it is h0.",
)(_backprop(first=1))
backprop_through_time.wrong(
    "right but for the state before the first step: zeros in place of h0",
    "At step 0, W_hh was multiplied by h0.",
)(_backprop(previous=lambda states, h0: mt.cat([mt.zeros_like(states[:1]), states[:-1]])))


@backprop_through_time.wrong(
    "right for h0, but the gradient of W_hh is transposed",
    "Row i of W_hh makes unit i of the new state: grad_a.T @ h_(t-1).",
)
def _(*case):
    grad_weight, grad_h0 = backprop_through_time.reference(*case)
    return grad_weight.T, grad_h0


@backprop_through_time.wrong(
    "right for h0, but has the weight gradient of the first step alone",
    "All steps share W_hh, so its gradient is the sum over the steps: add, do not overwrite.",
)
def _(states, h0, W_hh, leak, grad_states):
    whole, grad_h0 = _backprop()(states, h0, W_hh, leak, grad_states)
    return whole - _backprop(first=1)(states, h0, W_hh, leak, grad_states)[0], grad_h0


@backprop_through_time.wrong(
    "the mean over the batch",
    "The gradient of a sum over the batch is a sum: the product grad_a.T @ h_(t-1) adds it up.",
)
def _(states, *rest):
    grad_weight, grad_h0 = backprop_through_time.reference(states, *rest)
    return grad_weight / len(rest[0]), grad_h0
