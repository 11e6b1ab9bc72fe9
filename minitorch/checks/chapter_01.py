"""Checks of the exercises of chapter 01, recurrent networks."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from minitorch.checks.exercise import Draw, exercise

# One step


def _weights(draw, inputs, hidden):
    """W_ih (H, d), W_hh (H, H) and b (H)."""
    return (
        draw.normal(hidden, inputs) / inputs**0.5,
        draw.normal(hidden, hidden) / hidden**0.5,
        draw.normal(hidden),
    )


def _cell_cases(draw, hidden):
    for batch, inputs, size in [(1, 1, 2), (2, 3, 4), (3, 5, 2)] + [(7, 2, 9)] * hidden:
        yield draw.normal(batch, inputs), draw.normal(batch, size), *_weights(draw, inputs, size)


@exercise(
    cases=_cell_cases,
    forbidden=("linear", "rnn"),  # nn.RNNCell consists of two linear and a tanh
    instead="@ and .T",
    see='chapter 01, "The recurrent cell"',
)
def rnn_cell(x_t, h, W_ih, W_hh, b):
    """(B, d), (B, H) -> (B, H)."""
    return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()


_step = rnn_cell.reference


@rnn_cell.wrong(
    "the step without the tanh",
    "Without a nonlinearity all steps together are one linear map, and states can grow without "
    "bound.",
)
def _(x_t, h, W_ih, W_hh, b):
    return x_t @ W_ih.T + h @ W_hh.T + b


@rnn_cell.wrong(
    "the step with a sigmoid in place of the tanh",
    "The plain cell uses tanh, whose values lie between -1 and 1.",
)
def _(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + h @ W_hh.T + b).sigmoid()


@rnn_cell.wrong(
    "the step with the bias added after the tanh",
    "The bias belongs inside the tanh, with the two products.",
)
def _(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + h @ W_hh.T).tanh() + b


@rnn_cell.wrong("the step without the bias", "Three terms go into the tanh; the bias is missing.")
def _(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + h @ W_hh.T).tanh()


@rnn_cell.wrong(
    "the step without the old state",
    "A cell that does not read h has no memory. Add h @ W_hh.T inside the tanh.",
)
def _(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + b).tanh()


@rnn_cell.wrong(
    "the step with W_hh not transposed",
    "W_hh is square, so h @ W_hh fits too, but row i of W_hh belongs to unit i of "
    "the new state: the product is h @ W_hh.T.",
)
def _(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + h @ W_hh + b).tanh()


@rnn_cell.wrong(
    "the sum of two tanh, one of the input and one of the state",
    "Add first, then take one tanh of the sum.",
)
def _(x_t, h, W_ih, W_hh, b):
    return (x_t @ W_ih.T + b).tanh() + (h @ W_hh.T).tanh()


@rnn_cell.wrong(
    "the old state plus the step",
    "The plain cell replaces the state; it does not add to it.",
)
def _(x_t, h, W_ih, W_hh, b):
    return h + _step(x_t, h, W_ih, W_hh, b)


# Unrolling


def _run(h, x, *weights):
    """The states h_0, h_1, ..., h_T, each (B, H), as a list."""
    states = [h]
    for x_t in x:
        states.append(_step(x_t, states[-1], *weights))
    return states


def _start(h0, x, W_hh):
    return mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0


def _sequence_cases(draw, hidden):
    sizes = [(1, 2, 1, 2), (2, 3, 2, 3), (3, 5, 4, 2)] + [(4, 1, 2, 3), (5, 9, 3, 4)] * hidden
    for batch, steps, inputs, size in sizes:
        x, weights = draw.normal(steps, batch, inputs), _weights(draw, inputs, size)
        yield x, *weights, None
        yield x, *weights, draw.normal(batch, size)


@exercise(
    cases=_sequence_cases,
    forbidden=("rnn",),
    instead="a loop over the steps",
    see='chapter 01, "Unrolling"',
)
def unroll(x, W_ih, W_hh, b, h0=None):
    """(T, B, d) -> all states (T, B, H)."""
    h = _start(h0, x, W_hh)
    return mt.stack(_run(h, x, W_ih, W_hh, b)[1:])


_unrolled = unroll.reference


@unroll.wrong(
    "T + 1 states, with h_0 in front",
    "The result has one state for each input: h_1 to h_T.",
)
def _(x, W_ih, W_hh, b, h0=None):
    h = _start(h0, x, W_hh)
    return mt.stack(_run(h, x, W_ih, W_hh, b))


@unroll.wrong(
    "the states before each step, h_0 to h_(T-1)",
    "Take the step first, then keep the new state.",
)
def _(x, W_ih, W_hh, b, h0=None):
    h = _start(h0, x, W_hh)
    return mt.stack(_run(h, x, W_ih, W_hh, b)[:-1])


@unroll.wrong(
    "the last state alone",
    "Keep the state of every step in a list and stack the list at the end.",
)
def _(x, W_ih, W_hh, b, h0=None):
    return _unrolled(x, W_ih, W_hh, b, h0)[-1]


@unroll.wrong(
    "right but for the order of the axes: it is (B, T, H)",
    "Time comes first: stack the states along axis 0 to get (T, B, H).",
)
def _(x, W_ih, W_hh, b, h0=None):
    return _unrolled(x, W_ih, W_hh, b, h0).transpose(0, 1)


@unroll.wrong(
    "a run in which every step starts from h_0",
    "The new state has to become the old state of the next step: h = step(x_t, h).",
)
def _(x, W_ih, W_hh, b, h0=None):
    h = _start(h0, x, W_hh)
    return mt.stack([_step(x_t, h, W_ih, W_hh, b) for x_t in x])


@unroll.wrong(
    "a run from zeros, whatever h0 is",
    "Zeros are only the default. Start from h0 when it is given.",
)
def _(x, W_ih, W_hh, b, h0=None):
    return _unrolled(x, W_ih, W_hh, b)


@unroll.wrong(
    "a run from ones when h0 is left out",
    "Without h0 the run starts from zeros: before the first input there is nothing to remember.",
)
def _(x, W_ih, W_hh, b, h0=None):
    ones = mt.ones(x.shape[1], W_hh.shape[0], dtype=x.dtype)
    return _unrolled(x, W_ih, W_hh, b, ones if h0 is None else h0)


@unroll.wrong(
    "a run from right to left",
    "The first step reads x[0], the last one x[T - 1].",
)
def _(x, W_ih, W_hh, b, h0=None):
    return _unrolled(x.flip(0), W_ih, W_hh, b, h0)


@unroll.wrong(
    "a run that reads the first input at every step",
    "Step t reads x[t].",
)
def _(x, W_ih, W_hh, b, h0=None):
    return _unrolled(x[:1].expand(*x.shape), W_ih, W_hh, b, h0)


@unroll.wrong(
    "right in its values, but the gradient stops at every step",
    "Something cuts the state off from the graph between two steps: detach(), numpy(), .data or "
    "tensor(...). Hand the state on as it is.",
)
def _(x, W_ih, W_hh, b, h0=None):
    h, states = _start(h0, x, W_hh), []
    for x_t in x:
        states.append(_step(x_t, h, W_ih, W_hh, b))
        h = states[-1].detach()
    return mt.stack(states)


# Deep and bidirectional


class _RNN:
    """A plain RNN that reads from left to right: (T, B, inputs) -> (T, B, hidden)."""

    def __init__(self, draw, inputs, hidden):
        self.inputs, self.hidden = inputs, hidden
        self.weights = _weights(draw, inputs, hidden)

    def __call__(self, x):
        return _unrolled(x, *self.weights)

    def __repr__(self):
        return f"RNN({self.inputs} -> {self.hidden})"

    def __deepcopy__(self, memo):
        return self


def _layers(draw, inputs, *sizes):
    """Layers of two RNNs each; a layer reads both directions of the one below."""
    layers = []
    for size in sizes:
        layers.append((_RNN(draw, inputs, size), _RNN(draw, inputs, size)))
        inputs = 2 * size
    return layers


def _layer_cases(draw, hidden):
    yield draw.normal(3, 2, 2), _layers(draw, 2, 1)
    yield draw.normal(4, 3, 1), _layers(draw, 1, 2, 2)
    yield draw.normal(3, 2, 3), _layers(draw, 3, 2, 1, 1)
    if hidden:
        yield draw.normal(1, 1, 3), _layers(draw, 3, 2, 2)
        yield draw.normal(6, 4, 2), _layers(draw, 2, 3, 1, 2)


@exercise(cases=_layer_cases, see='chapter 01, "Deeper, and in both directions"')
def deep_bidirectional(x, layers):
    """(T, B, d) -> (T, B, 2 H), with the H of the last layer."""
    for forward, backward in layers:
        x = mt.cat([forward(x), backward(x.flip(0)).flip(0)], dim=-1)
    return x


@deep_bidirectional.wrong(
    "right but for one thing: the backward states are not turned back",
    "backward(x.flip(0)) gives the states in reading order, the last word first. Flip the result "
    "once more, so that place t holds what was read from T down to t.",
)
def _(x, layers):
    for forward, backward in layers:
        x = mt.cat([forward(x), backward(x.flip(0))], dim=-1)
    return x


@deep_bidirectional.wrong(
    "two runs from left to right",
    "The second RNN has to read the sequence from its end: give it x.flip(0). (Axis 0 is time; the "
    "order along axis 1, the batch, makes no difference.)",
)
def _(x, layers):
    for forward, backward in layers:
        x = mt.cat([forward(x), backward(x)], dim=-1)
    return x


@deep_bidirectional.wrong(
    "turned back without having been turned: the backward RNN read from left to right",
    "Flip its input as well as its output.",
)
def _(x, layers):
    for forward, backward in layers:
        x = mt.cat([forward(x), backward(x).flip(0)], dim=-1)
    return x


@deep_bidirectional.wrong(
    "right but for the order: the backward half stands first",
    "Put the forward states first, then the backward ones, as PyTorch does.",
)
def _(x, layers):
    for forward, backward in layers:
        x = mt.cat([backward(x.flip(0)).flip(0), forward(x)], dim=-1)
    return x


@deep_bidirectional.wrong(
    "flipped along the features, not along time",
    "Time is axis 0: flip(0).",
)
def _(x, layers):
    for forward, backward in layers:
        x = mt.cat([forward(x), backward(x.flip(2)).flip(2)], dim=-1)
    return x


@deep_bidirectional.wrong(
    "the sum of both directions",
    "Concatenate them along the last axis, (T, B, 2 H): the next layer must be able to tell the "
    "past from the future.",
)
def _(x, layers):
    for forward, backward in layers:
        x = forward(x) + backward(x.flip(0)).flip(0)
    return x


@deep_bidirectional.wrong(
    "both directions one after the other in time",
    "cat(..., dim=-1) puts them side by side: (T, B, 2 H), not (2 T, B, H).",
)
def _(x, layers):
    for forward, backward in layers:
        x = mt.cat([forward(x), backward(x.flip(0)).flip(0)], dim=0)
    return x


@deep_bidirectional.wrong(
    "the output of the first layer",
    "Each layer reads the output of the layer below; the result is the output of the last one.",
)
def _(x, layers):
    return deep_bidirectional.reference(x, layers[:1])


# Pooling


def _valid(states, lengths, extra=0):
    """(T, B): whether a position belongs to the sequence."""
    return mt.arange(len(states)).unsqueeze(1) < lengths + extra


def _at(states, positions):
    """(B, H): the state of each sequence at its position."""
    return states[positions, mt.arange(states.shape[1])]


def _masked_sum(states, lengths, extra=0):
    return (states * _valid(states, lengths, extra).unsqueeze(-1)).sum(dim=0)


def _padded_cases(draw, hidden):
    yield draw.normal(3, 2, 2), mt.tensor([1, 3])
    yield draw.normal(4, 3, 1), mt.tensor([2, 1, 3])
    yield draw.normal(6, 4, 3), 1 + draw.integers(6, 4)
    if hidden:
        yield draw.normal(1, 1, 1), mt.tensor([1])
        yield draw.normal(9, 7, 5), 1 + draw.integers(9, 7)


def _padding_is_not_read(answer, states, lengths):
    changed = mt.where(_valid(states, lengths).unsqueeze(-1), states, states + 100)
    for before, after in zip(answer(states, lengths), answer(changed, lengths), strict=True):
        if not mt.equal(before, after):
            return "What stands in the padding must not change the result."
    return None


@exercise(
    cases=_padded_cases,
    properties=(_padding_is_not_read,),
    see='chapter 01, "Classification: the last state or the pooled states"',
)
def pool_states(states, lengths):
    """(T, B, H), (B) -> last state (B, H) and mean state (B, H)."""
    return _at(states, lengths - 1), _masked_sum(states, lengths) / lengths.unsqueeze(1)


@pool_states.wrong(
    "right for the mean, but the last state is taken from the padding",
    "states[-1] is position T - 1. A sequence of length n ends at position n - 1.",
)
def _(states, lengths):
    return states[-1], _masked_sum(states, lengths) / lengths.unsqueeze(1)


@pool_states.wrong(
    "right for the last state, but the mean includes the padding",
    "Only the first lengths[b] positions belong to sequence b.",
)
def _(states, lengths):
    return _at(states, lengths - 1), states.mean(dim=0)


@pool_states.wrong(
    "the last position and the mean over all positions, padding included",
    "lengths is not used. Only the first lengths[b] positions belong to sequence b.",
)
def _(states, lengths):
    return states[-1], states.mean(dim=0)


@pool_states.wrong(
    "right for the last state, but the sum is divided by T",
    "The padding is left out of the sum, but still counted. Divide by lengths.",
)
def _(states, lengths):
    return _at(states, lengths - 1), _masked_sum(states, lengths) / len(states)


@pool_states.wrong(
    "right for the last state, but has the sum in place of the mean",
    "Divide by lengths.",
)
def _(states, lengths):
    return _at(states, lengths - 1), _masked_sum(states, lengths)


@pool_states.wrong(
    "off by one: it reads one position of padding",
    "Positions count from 0, so a sequence of length n has the positions 0 to n - 1.",
)
def _(states, lengths):
    last = lengths.clamp(max=len(states) - 1)
    count = (lengths + 1).clamp(max=len(states)).unsqueeze(1)
    return _at(states, last), _masked_sum(states, lengths, extra=1) / count


@pool_states.wrong(
    "right but for the order: the mean comes first",
    "Return the last state first, then the mean.",
)
def _(states, lengths):
    return tuple(reversed(pool_states.reference(states, lengths)))


@pool_states.wrong(
    "right for the last state, but has the largest value in place of the mean",
    "That is max pooling; this exercise asks for the mean.",
)
def _(states, lengths):
    valid = _valid(states, lengths).unsqueeze(-1)
    return _at(states, lengths - 1), states.masked_fill(~valid, -mt.inf).amax(dim=0)


# The loss of a sequence


def _loss_cases(draw, hidden):
    for states, lengths in _padded_cases(draw, hidden):
        steps, batch, _ = states.shape
        classes = 2 + batch
        yield 2 * draw.normal(steps, batch, classes), draw.integers(classes, steps, batch), lengths


def _picked(values, targets):
    """(T, B): the value of each target."""
    return values.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _losses(scores, targets):
    return -_picked(scores.log_softmax(dim=-1), targets)


def _average(values, lengths):
    """The mean of values (T, B) over the positions that belong to their sequences."""
    return (values * _valid(values, lengths)).sum() / lengths.sum()


@exercise(
    cases=_loss_cases,
    forbidden=("cross_entropy",),
    instead="log_softmax and a choice of the targets' elements (gather or indexing)",
    see='chapter 01, "Next character: cross-entropy at every step"',
)
def sequence_loss(scores, targets, lengths):
    """(T, B, V), (T, B), (B) -> one number."""
    return _average(_losses(scores, targets), lengths)


@sequence_loss.wrong(
    "the average over all positions, padding included",
    "Position t of sequence b counts only if t < lengths[b].",
)
def _(scores, targets, lengths):
    return _losses(scores, targets).mean()


@sequence_loss.wrong(
    "the right sum divided by all positions",
    "The padding is left out of the sum, but still counted. Divide by the number of tokens that "
    "are no padding, lengths.sum().",
)
def _(scores, targets, lengths):
    losses = _losses(scores, targets)
    return (losses * _valid(losses, lengths)).mean()


@sequence_loss.wrong(
    "the right sum divided by the number of sequences",
    "The loss is a mean over tokens: divide by lengths.sum().",
)
def _(scores, targets, lengths):
    return sequence_loss.reference(scores, targets, lengths) * lengths.sum() / len(lengths)


@sequence_loss.wrong(
    "the sum over the tokens",
    "The loss is a mean, so that long sequences do not weigh more: divide by lengths.sum().",
)
def _(scores, targets, lengths):
    return sequence_loss.reference(scores, targets, lengths) * lengths.sum()


@sequence_loss.wrong(
    "the mean over sequences of each sequence's mean",
    "Every token counts the same: one sum over all tokens, divided once, by lengths.sum().",
)
def _(scores, targets, lengths):
    losses = _losses(scores, targets)
    return ((losses * _valid(losses, lengths)).sum(dim=0) / lengths).mean()


@sequence_loss.wrong(
    "off by one: it counts one position of padding",
    "Position t counts if t < lengths[b], since positions start at 0.",
)
def _(scores, targets, lengths):
    losses = _losses(scores, targets)
    valid = _valid(losses, lengths, extra=1)
    return (losses * valid).sum() / valid.sum()


@sequence_loss.wrong(
    "the loss with the scores of the padding set to zero",
    "Scores of zero are a uniform distribution, and its loss is log V, not 0. Leave the padding "
    "out of the sum.",
)
def _(scores, targets, lengths):
    return _losses(scores * _valid(scores, lengths).unsqueeze(-1), targets).mean()


@sequence_loss.wrong(
    "right but for the sign",
    "The loss is minus the log-probability of the target, so it is never negative.",
)
def _(scores, targets, lengths):
    return -sequence_loss.reference(scores, targets, lengths)


@sequence_loss.wrong(
    "minus the mean score of the targets",
    "Scores are no log-probabilities: apply log_softmax over the last axis first.",
)
def _(scores, targets, lengths):
    return _average(-_picked(scores, targets), lengths)


@sequence_loss.wrong(
    "minus the mean probability of the targets",
    "The logarithm is missing: log_softmax in place of softmax.",
)
def _(scores, targets, lengths):
    return _average(-_picked(scores.softmax(dim=-1), targets), lengths)


@sequence_loss.wrong(
    "the loss with a softmax over time",
    "At each position the V classes compete: the softmax goes over the last axis.",
)
def _(scores, targets, lengths):
    return _average(-_picked(scores.log_softmax(dim=0), targets), lengths)


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
    """A list of tensors -> a list of tensors of the same shapes."""
    return _scaled(gradients, _joint_norm(gradients), max_norm)


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
    """Train on each window in turn, carrying the state: the list of losses."""
    h, losses = None, []
    for inputs, targets in _windows(x, y, window):
        outputs, h = model(inputs, h)
        losses.append(_update(optimizer, loss_function(outputs, targets)))
        h = h.detach()
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
        h0, weights = draw.normal(batch, size), _weights(draw, 2, size)
        states = _unrolled(draw.normal(steps, batch, 2), *weights, h0)
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
    """(T, B, H), (B, H), (H, H), (T, B, H) -> dL/dW_hh (H, H) and dL/dh0 (B, H)."""
    return _backprop()(states, h0, W_hh, grad_states)


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


# The probability of a sequence


class _LanguageModel:
    """step(token (B), h) -> scores (B, V), new h."""

    def __init__(self, draw, tokens, hidden=3):
        self.tokens = tokens
        self.inputs, self.outputs = draw.normal(tokens, hidden), 2 * draw.normal(tokens, hidden)
        self.weights = _weights(draw, hidden, hidden)

    def __call__(self, token, h=None):
        x = self.inputs[token]
        h = _step(x, mt.zeros_like(x) if h is None else h, *self.weights)
        return h @ self.outputs.T, h

    def __repr__(self):
        return f"an RNN language model over {self.tokens} tokens"

    def __deepcopy__(self, memo):
        return self


def _token_cases(draw, hidden):
    for batch, length, size in [(1, 2, 3), (2, 3, 4), (3, 5, 6)] + [(5, 11, 9)] * hidden:
        yield _LanguageModel(draw, size), draw.integers(size - 1, length, batch), size - 1


def _steps(step, inputs):
    """(T, B, V): the scores after each of the inputs (T, B), the state carried along."""
    h, results = None, []
    for token in inputs:
        scores, h = step(token, h)
        results.append(scores)
    return mt.stack(results)


def _shifted(tokens, start):
    """(T, B): the token before each token."""
    return mt.cat([mt.full((1, tokens.shape[1]), start), tokens[:-1]])


def _log_probabilities(step, inputs, tokens):
    return -_losses(_steps(step, inputs), tokens)


@exercise(cases=_token_cases, gradients=False, see='chapter 01, "A language model"')
def sequence_log_probability(step, tokens, start):
    """step, (T, B), number -> (B)."""
    return _log_probabilities(step, _shifted(tokens, start), tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "the probability, not its logarithm",
    "A product of many probabilities soon underflows to 0. Add the log-probabilities.",
)
def _(step, tokens, start):
    return sequence_log_probability.reference(step, tokens, start).exp()


@sequence_log_probability.wrong(
    "the sum of the probabilities",
    "Probabilities multiply along a sequence; it is their logarithms that add up.",
)
def _(step, tokens, start):
    return _log_probabilities(step, _shifted(tokens, start), tokens).exp().sum(dim=0)


@sequence_log_probability.wrong(
    "the mean over the tokens",
    "The chain rule is a sum over all T tokens: do not divide by T.",
)
def _(step, tokens, start):
    return _log_probabilities(step, _shifted(tokens, start), tokens).mean(dim=0)


@sequence_log_probability.wrong(
    "one number for the whole batch",
    "Each sequence has its own log-probability: the result has shape (B).",
)
def _(step, tokens, start):
    return sequence_log_probability.reference(step, tokens, start).sum()


@sequence_log_probability.wrong(
    "right but for the sign",
    "A log-probability is at most 0.",
)
def _(step, tokens, start):
    return -sequence_log_probability.reference(step, tokens, start)


@sequence_log_probability.wrong(
    "the probability of the rest given the first token",
    "The first token has a probability too: the one that the model gives it after the start token.",
)
def _(step, tokens, start):
    return _log_probabilities(step, tokens[:-1], tokens[1:]).sum(dim=0)


@sequence_log_probability.wrong(
    "a leak: the model has read each token before it is asked for it",
    "The scores for tokens[t] come from the step that reads the token before, tokens[t - 1], and "
    "the first ones from the step that reads the start token.",
)
def _(step, tokens, start):
    return _log_probabilities(step, tokens, tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "a run that forgets its state",
    "Give step the state that it returned the last time: scores, h = step(token, h).",
)
def _(step, tokens, start):
    return _log_probabilities(lambda x, h: step(x), _shifted(tokens, start), tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "a run that reads the start token at every step",
    "After the start token, the model reads the tokens of the sequence one by one.",
)
def _(step, tokens, start):
    return _log_probabilities(step, mt.full(tokens.shape, start), tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "a run that reads its own best guess",
    "That is generation. To score a given sequence the model reads that sequence (teacher "
    "forcing).",
)
def _(step, tokens, start):
    guess, h, total = mt.full_like(tokens[0], start), None, 0
    for token in tokens:
        scores, h = step(guess, h)
        total = total - _losses(scores, token)
        guess = scores.argmax(dim=-1)
    return total


@sequence_log_probability.wrong(
    "the sum of the scores",
    "Scores are no log-probabilities: apply log_softmax first.",
)
def _(step, tokens, start):
    return _picked(_steps(step, _shifted(tokens, start)), tokens).sum(dim=0)


# Sampling


def _sampling_cases(draw, hidden):
    yield draw.normal(1, 3), 1.0, None, None
    for batch, size, k, p in [(2, 4, 2, 0.5), (3, 6, 3, 0.8)] + [(4, 15, 6, 0.95)] * hidden:
        scores = 2 * draw.normal(batch, size)
        yield scores, 0.5, None, None
        yield scores, 1.7, None, None
        yield scores, 1.0, k, None
        yield scores, 1.0, 1, None
        yield scores, 1.0, None, p
        yield scores, 1.0, None, 0.01
        yield scores, 1.3, k, p
        yield scores, 0.8, size, 0.999
    example = mt.tensor([[0.1, 0.4, 0.2, 0.3], [0.4, 0.3, 0.2, 0.1]], dtype=mt.float64)
    yield example.log(), 1.0, 2, 0.5


def _largest(scores, k):
    """Whether each element is one of the k largest of its row."""
    return scores >= scores.topk(k, dim=-1)[0][:, -1:]


def _by_rank(probabilities, keep):
    """Whether each token stays; ``keep`` decides on sorted probabilities and their running sums."""
    ordered, order = probabilities.sort(dim=-1, descending=True)
    return keep(ordered, ordered.cumsum(dim=-1)).gather(-1, order.argsort(dim=-1))


def _nucleus(probabilities, p):
    """Whether each token is needed to reach p: those before it have less than p together."""
    return _by_rank(probabilities, lambda ordered, sums: sums - ordered < p)


def _nucleus_without_last(probabilities, p):
    return _by_rank(probabilities, lambda ordered, sums: sums <= p)


def _nucleus_and_one(probabilities, p):
    def keep(ordered, sums):
        before = sums - ordered
        return mt.cat([before[:, :1], before[:, :-1]], dim=-1) < p

    return _by_rank(probabilities, keep)


def _normalized(weights):
    return weights / weights.sum(dim=-1, keepdim=True)


def _sampling(
    temper=lambda scores, temperature: scores / temperature,
    largest=_largest,
    removed=-mt.inf,
    dim=-1,
    nucleus=_nucleus,
    normalize=_normalized,
):
    """The distribution with one of its pieces exchanged."""

    def distribution(scores, temperature=1.0, top_k=None, top_p=None):
        scores = temper(scores, temperature)
        if top_k is not None:
            scores = scores.masked_fill(~largest(scores, top_k), removed)
        probabilities = scores.softmax(dim=dim)
        if top_p is not None:
            probabilities = normalize(probabilities * nucleus(probabilities, top_p))
        return probabilities

    return distribution


def _best_stays_possible(answer, scores, temperature, top_k, top_p):
    probabilities = answer(scores, temperature, top_k, top_p)
    best = scores.argmax(dim=-1, keepdim=True)
    if bool((probabilities.gather(-1, best) > 0).all()):
        return None
    return "The most probable token must always stay possible."


@exercise(
    cases=_sampling_cases,
    gradients=False,
    properties=(_best_stays_possible,),
    see='chapter 01, "Choosing the next token"',
)
def sampling_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    """(B, V) -> (B, V)."""
    return _sampling()(scores, temperature, top_k, top_p)


sampling_distribution.wrong(
    "right but for the temperature: the scores are multiplied by it",
    "Divide the scores by the temperature: a low one sharpens, a high one flattens.",
)(_sampling(temper=lambda scores, temperature: scores * temperature))
sampling_distribution.wrong(
    "right but for the temperature, which has no effect",
    "Divide the scores by it before the softmax. Probabilities that are divided by a number and "
    "normalized again are what they were.",
)(_sampling(temper=lambda scores, temperature: scores))
sampling_distribution.wrong(
    "a softmax over the batch",
    "Each row is a distribution over V tokens: the softmax goes over the last axis.",
)(_sampling(dim=0))
sampling_distribution.wrong(
    "right but for top-k: the removed scores are 0, not minus infinity",
    "A score of 0 still has the weight exp(0) = 1. Only exp(-inf) is 0.",
)(_sampling(removed=0.0))
sampling_distribution.wrong(
    "right but for top-k, which keeps one token too few",
    "The k-th largest score stays: remove what is smaller than it, not what equals it.",
)(_sampling(largest=lambda scores, k: scores > scores.topk(k, dim=-1)[0][:, -1:]))
sampling_distribution.wrong(
    "right but for top-k, which keeps one token too many",
    "Counting from 0, the k-th largest score has place k - 1 in sorted order.",
)(_sampling(largest=lambda scores, k: _largest(scores, min(k + 1, scores.shape[-1]))))
sampling_distribution.wrong(
    "right but for top-k, which keeps the least probable tokens",
    "Sort in descending order, or take topk.",
)(_sampling(largest=lambda scores, k: _largest(-scores, k)))
sampling_distribution.wrong(
    "right but for top-k: its threshold is one for the whole batch",
    "Each row keeps its own k largest scores: work along the last axis.",
)(_sampling(largest=lambda scores, k: scores >= scores.reshape(1, -1).topk(k, dim=-1)[0][:, -1:]))
sampling_distribution.wrong(
    "right but for top-p, which drops the token that crosses p",
    "Keep the fewest tokens that reach p together. A token goes only if those before it, without "
    "itself, already have p.",
)(_sampling(nucleus=_nucleus_without_last))
sampling_distribution.wrong(
    "right but for top-p, which keeps one token more than needed",
    "The token that crosses p is the last to stay. Compare the sum of the tokens before each one, "
    "without itself, with p.",
)(_sampling(nucleus=_nucleus_and_one))
sampling_distribution.wrong(
    "right but for top-p, which adds up the tokens in the order of the vocabulary",
    "Sort the probabilities in descending order first, and undo the order at the end.",
)(_sampling(nucleus=lambda probabilities, p: probabilities.cumsum(dim=-1) - probabilities < p))
sampling_distribution.wrong(
    "right but for top-p: the kept probabilities do not add up to 1",
    "Divide what is left by its sum.",
)(_sampling(normalize=lambda weights: weights))
sampling_distribution.wrong(
    "right but for top-p, which keeps the tokens more probable than p",
    "p bounds the sum over the most probable tokens, not each of them.",
)(_sampling(nucleus=lambda probabilities, p: probabilities >= p))


@sampling_distribution.wrong(
    "right but for top-p: the probabilities come out sorted",
    "Undo the sorting: each probability has to return to the place of its token.",
)
def _(scores, temperature=1.0, top_k=None, top_p=None):
    probabilities = sampling_distribution.reference(scores, temperature, top_k, top_p)
    return probabilities if top_p is None else probabilities.sort(dim=-1, descending=True)[0]


@sampling_distribution.wrong(
    "right but for both together: top-p looks at the probabilities before top-k",
    "First top-k, then the softmax, which makes what is left a distribution, then top-p on that.",
)
def _(scores, temperature=1.0, top_k=None, top_p=None):
    distribution = sampling_distribution.reference
    kept = distribution(scores, temperature, None, top_p) > 0
    return _normalized(distribution(scores, temperature, top_k) * kept)
