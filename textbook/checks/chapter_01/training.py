"""Clipping, truncated backpropagation through time, and its gradient by hand."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.chapter_01.states import draw_weights, unroll
from textbook.checks.exercise import Draw, exercise

# Clipping


def _gradient_cases(draw, hidden):
    yield [draw.normal(2)], 0.5
    yield [mt.tensor([3.0, 0.0]), mt.tensor([[0.0], [4.0]])], 1.0
    yield [mt.tensor([3.0, 0.0]), mt.tensor([[0.0], [4.0]])], 6.0
    yield [draw.normal(2, 3), 10 * draw.normal(4), draw.normal(1, 1, 2)], 2.0
    yield [0.01 * draw.normal(3, 3), 0.01 * draw.normal(3)], 1.0
    yield [mt.zeros(2), mt.zeros(1, 2)], 1.0
    if hidden:
        yield [1e6 * draw.normal(5, 4), draw.normal(7), 1e-3 * draw.normal(2, 2)], 0.25
        yield [draw.normal(1) for _ in range(9)], 100.0


def _joint_norm(gradients):
    return float(sum((g**2).sum() for g in gradients)) ** 0.5


def _scaled(gradients, norm, max_norm):
    """All gradients, times max_norm / norm if the norm is above max_norm."""
    return [g * (max_norm / norm) if norm > max_norm else g for g in gradients]


@exercise(
    cases=_gradient_cases,
    forbidden=("norm",),
    instead="the square root of the sum of all squares",
    gradients=False,
    see='chapter 01, "Gradient clipping"',
)
def clip_gradients(gradients, max_norm):
    """A list of tensors whose joint norm is at most max_norm."""
    norm = sum((g**2).sum().item() for g in gradients) ** 0.5
    if norm <= max_norm:
        return gradients
    return [g * (max_norm / norm) for g in gradients]


@clip_gradients.wrong(
    "a clipping of each tensor by its own norm",
    "That changes the direction of the step. Take one norm over all tensors together, and scale "
    "all of them by the same number.",
)
def _(gradients, max_norm):
    return [_scaled([g], _joint_norm([g]), max_norm)[0] for g in gradients]


@clip_gradients.wrong(
    "a scaling to max_norm of small gradients too",
    "Gradients whose norm is at most max_norm stay as they are.",
)
def _(gradients, max_norm):
    return [g * max_norm / mt.tensor(_joint_norm(gradients), dtype=g.dtype) for g in gradients]


@clip_gradients.wrong(
    "a limit on each element",
    "That changes the direction of the step. Scale all tensors by the same number.",
)
def _(gradients, max_norm):
    return [g.clamp(-max_norm, max_norm) for g in gradients]


@clip_gradients.wrong(
    "a scaling to norm 1, not to max_norm",
    "Multiply by max_norm / norm.",
)
def _(gradients, max_norm):
    norm = _joint_norm(gradients)
    return [g / norm if norm > max_norm else g for g in gradients]


@clip_gradients.wrong(
    "a clipping by the squared norm",
    "The norm is the square root of the sum of squares; the root is missing.",
)
def _(gradients, max_norm):
    return _scaled(gradients, _joint_norm(gradients) ** 2, max_norm)


@clip_gradients.wrong(
    "a clipping by the sum of the tensors' norms",
    "Norms do not add up. Add the sums of squares of all tensors, then take one square root.",
)
def _(gradients, max_norm):
    return _scaled(gradients, sum(_joint_norm([g]) for g in gradients), max_norm)


@clip_gradients.wrong(
    "a clipping by the largest of the tensors' norms",
    "The norm goes over all tensors together: add their sums of squares, then take the root.",
)
def _(gradients, max_norm):
    return _scaled(gradients, max(_joint_norm([g]) for g in gradients), max_norm)


@clip_gradients.wrong(
    "a clipping by the sum of absolute values",
    "The norm here is the Euclidean one: the square root of the sum of squares.",
)
def _(gradients, max_norm):
    return _scaled(gradients, sum(float(g.abs().sum()) for g in gradients), max_norm)


# Truncated backpropagation through time


class _Model(nn.Module):
    """(T, B, d), state -> (T, B, 1), new state."""

    def __init__(self, inputs, hidden=3):
        super().__init__()
        self.rnn = nn.RNN(inputs, hidden)
        self.output = nn.Linear(hidden, 1)

    def forward(self, x, h=None):
        states, h = self.rnn(x, h)
        return self.output(states), h


def _trained(answer, x, y, window):
    model, draw = _Model(x.shape[-1]).double(), Draw(0)
    for parameter in model.parameters():
        parameter.data = 0.5 * draw.normal(*parameter.shape)
    losses = answer(model, F.mse_loss, optim.SGD(model.parameters(), lr=0.1), x, y, window)
    return {"the list of losses": losses, "the list of parameters": list(model.parameters())}


def _window_cases(draw, hidden):
    sizes = [(1, 4, 1, 2), (2, 6, 2, 3), (2, 7, 1, 3), (3, 5, 2, 1), (2, 3, 2, 4)]
    for batch, steps, inputs, window in sizes + [(3, 20, 2, 6), (1, 2, 3, 1)] * hidden:
        yield draw.normal(steps, batch, inputs), draw.normal(steps, batch, 1), window


def _windows(x, y, window):
    return zip(x.split(window), y.split(window), strict=True)


def _update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@exercise(
    cases=_window_cases,
    run=_trained,
    gradients=False,
    see='chapter 01, "Truncated backpropagation through time"',
)
def truncated_bptt(model, loss_function, optimizer, x, y, window):
    """One pass over x and y in windows: a list of losses."""
    h, losses = None, []
    for inputs, targets in zip(x.split(window), y.split(window), strict=True):
        outputs, h = model(inputs, h)
        h = h.detach()
        loss = loss_function(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@truncated_bptt.wrong(
    "the loop without detach",
    "The state still hangs on the graph of the window before, which backward has freed. Cut it "
    "off: h = h.detach() before the next window.",
)
def _(model, loss_function, optimizer, x, y, window):
    h, losses = None, []
    for inputs, targets in _windows(x, y, window):
        outputs, h = model(inputs, h)
        losses.append(_update(optimizer, loss_function(outputs, targets)))
    return losses


@truncated_bptt.wrong(
    "the loop with retain_graph=True in place of detach",
    "Keeping the graph lets the gradient flow into earlier windows, whose parameters have changed "
    "since. Cut the state off: h = h.detach() before the next window.",
)
def _(model, loss_function, optimizer, x, y, window):
    h, losses = None, []
    for inputs, targets in _windows(x, y, window):
        outputs, h = model(inputs, h)
        loss = loss_function(outputs, targets)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss.item())
    return losses


@truncated_bptt.wrong(
    "a loop that forgets the state between windows",
    "Only the gradient is cut. The state itself goes on: model(inputs, h.detach()).",
)
def _(model, loss_function, optimizer, x, y, window):
    losses = []
    for inputs, targets in _windows(x, y, window):
        losses.append(_update(optimizer, loss_function(model(inputs)[0], targets)))
    return losses


@truncated_bptt.wrong(
    "a loop that never sets the gradients to zero",
    "backward() adds to the gradients that are there: call optimizer.zero_grad() in each window.",
)
def _(model, loss_function, optimizer, x, y, window):
    h, losses = None, []
    for inputs, targets in _windows(x, y, window):
        outputs, h = model(inputs, h)
        loss = loss_function(outputs, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        h = h.detach()
    return losses


@truncated_bptt.wrong(
    "a loop that does not change the parameters",
    "The order is zero_grad(), backward(), step(). Without step(), or with zero_grad() between "
    "backward() and step(), nothing is learned.",
)
def _(model, loss_function, optimizer, x, y, window):
    h, losses = None, []
    for inputs, targets in _windows(x, y, window):
        outputs, h = model(inputs, h)
        losses.append(loss_function(outputs, targets).item())
    return losses


@truncated_bptt.wrong(
    "a loop that leaves out the last, shorter window",
    "When window does not divide T, the last window is shorter. It counts too: "
    "range(0, T, window).",
)
def _(model, loss_function, optimizer, x, y, window):
    whole = len(x) // window * window
    if not whole:
        return []
    return truncated_bptt.reference(model, loss_function, optimizer, x[:whole], y[:whole], window)


@truncated_bptt.wrong(
    "a loop with a single update at the end",
    "Each window has its own zero_grad(), backward() and step().",
)
def _(model, loss_function, optimizer, x, y, window):
    h, losses = None, []
    for inputs, targets in _windows(x, y, window):
        outputs, h = model(inputs, h)
        losses.append(loss_function(outputs, targets))
        h = h.detach()
    _update(optimizer, sum(losses))
    return [loss.item() for loss in losses]


@truncated_bptt.wrong(
    "backpropagation through the whole sequence",
    "Cut x and y along time, axis 0, into pieces of window steps.",
)
def _(model, loss_function, optimizer, x, y, window):
    return truncated_bptt.reference(model, loss_function, optimizer, x, y, len(x))


@truncated_bptt.wrong(
    "a loop whose windows overlap",
    "The next window starts where the last one ended: range(0, T, window).",
)
def _(model, loss_function, optimizer, x, y, window):
    h, losses = None, []
    for start in range(max(len(x) - window, 0) + 1):
        piece = slice(start, start + window)
        outputs, h = model(x[piece], h)
        losses.append(_update(optimizer, loss_function(outputs, y[piece])))
        h = h.detach()
    return losses


# Backpropagation through time by hand


def _backprop_cases(draw, hidden):
    for batch, steps, size in [(1, 1, 2), (1, 2, 2), (2, 4, 3)] + [(5, 8, 4)] * hidden:
        h0, weights = draw.normal(batch, size), draw_weights(draw, 2, size)
        states = unroll.reference(draw.normal(steps, batch, 2), *weights, h0)
        yield states, h0, weights[1], draw.normal(steps, batch, size)


def _backprop(
    slope=lambda h: 1 - h**2,
    back=lambda grad_a, W_hh: grad_a @ W_hh,
    previous=lambda states, h0: mt.cat([h0.unsqueeze(0), states[:-1]]),
    first=0,
):
    """The backward pass with one of its pieces exchanged."""

    def backward(states, h0, W_hh, grad_states):
        inputs, carried = previous(states, h0), mt.zeros_like(h0)
        grad_weight = mt.zeros_like(W_hh)
        for t in reversed(range(first, len(states))):
            grad_a = slope(states[t]) * (grad_states[t] + carried)
            grad_weight = grad_weight + grad_a.T @ inputs[t]
            carried = back(grad_a, W_hh)
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
    forbidden=("rnn",),
    instead="a loop over the steps, from the last to the first",
    properties=(_by_hand,),
    gradients=False,
    see='chapter 01, "Backpropagation through time"',
)
def backprop_through_time(states, h0, W_hh, grad_states):
    """The gradients of the loss with respect to W_hh (H, H) and h0 (B, H)."""
    grad_W_hh = mt.zeros_like(W_hh)
    from_later = mt.zeros_like(h0)  # what comes back through the next state, (B, H)
    for t in reversed(range(len(states))):
        grad_h = grad_states[t] + from_later  # (B, H)
        grad_a = (1 - states[t] ** 2) * grad_h  # (B, H)
        before = states[t - 1] if t > 0 else h0
        grad_W_hh = grad_W_hh + grad_a.T @ before  # (H, H), summed over the batch
        from_later = grad_a @ W_hh
    return grad_W_hh, from_later


backprop_through_time.wrong(
    "right but for the slope of tanh, which is missing",
    "The gradient passes through h = tanh(a): multiply it by 1 - h * h.",
)(_backprop(slope=mt.ones_like))
backprop_through_time.wrong(
    "right but for the slope of tanh: 1 - h in place of 1 - h * h",
    "The derivative of tanh(a) is 1 - tanh(a) ** 2.",
)(_backprop(slope=lambda h: 1 - h))
backprop_through_time.wrong(
    "right but for W_hh, which is transposed on the way back",
    "Forward is a = h @ W_hh.T, so backward is grad_a @ W_hh.",
)(_backprop(back=lambda grad_a, W_hh: grad_a @ W_hh.T))
backprop_through_time.wrong(
    "the gradient without the path through later states",
    "h_t enters the loss directly and through h_(t+1): add what comes back from step t + 1 to "
    "grad_states[t].",
)(_backprop(back=lambda grad_a, W_hh: mt.zeros_like(grad_a)))
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
    "right for h0, but has the weight gradient of a single step",
    "All steps share W_hh, so its gradient is the sum over the steps: add, do not overwrite.",
)
def _(states, h0, W_hh, grad_states):
    _, carried = _backprop(first=1)(states, h0, W_hh, grad_states)
    grad_a = (1 - states[0] ** 2) * (grad_states[0] + carried)
    return grad_a.T @ h0, grad_a @ W_hh


@backprop_through_time.wrong(
    "the mean over the batch",
    "The gradient of a sum over the batch is a sum: the product grad_a.T @ h_(t-1) adds it up.",
)
def _(states, *rest):
    grad_weight, grad_h0 = backprop_through_time.reference(states, *rest)
    return grad_weight / len(rest[0]), grad_h0
