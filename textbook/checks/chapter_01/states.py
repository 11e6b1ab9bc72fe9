"""One step, all steps, several layers and directions, and a sequence in one vector."""

import minitorch as mt
from textbook.checks.exercise import exercise

# One step


def draw_weights(draw, inputs, hidden):
    """W_ih (H, d), W_hh (H, H) and b (H)."""
    return (
        draw.normal(hidden, inputs) / inputs**0.5,
        draw.normal(hidden, hidden) / hidden**0.5,
        draw.normal(hidden),
    )


def _cell_cases(draw, hidden):
    for batch, inputs, size in [(1, 1, 2), (2, 3, 4), (3, 5, 2)] + [(7, 2, 9)] * hidden:
        yield (
            draw.normal(batch, inputs),
            draw.normal(batch, size),
            *draw_weights(draw, inputs, size),
        )


@exercise(
    cases=_cell_cases,
    forbidden=("linear", "rnn"),  # nn.RNNCell consists of two linear and a tanh
    instead="@ and .T",
    see='chapter 01, "The recurrent cell"',
)
def rnn_cell(x_t, h, W_ih, W_hh, b):
    """One step: input (B, d) and state (B, H) give the next state (B, H)."""
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
        x, weights = draw.normal(steps, batch, inputs), draw_weights(draw, inputs, size)
        yield x, *weights, None
        yield x, *weights, draw.normal(batch, size)


@exercise(
    cases=_sequence_cases,
    forbidden=("rnn",),
    instead="a loop over the steps",
    see='chapter 01, "Unrolling"',
)
def unroll(x, W_ih, W_hh, b, h0=None):
    """Inputs (T, B, d) give the states h_1 ... h_T, (T, B, H)."""
    h = mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0
    states = []
    for x_t in x:
        h = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()  # (B, H)
        states.append(h)
    return mt.stack(states)  # (T, B, H)


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
        self.weights = draw_weights(draw, inputs, hidden)

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
    """Inputs (T, B, d) give the output of the last layer, (T, B, 2 H)."""
    for forward, backward in layers:
        past = forward(x)  # (T, B, H)
        future = backward(x.flip(0)).flip(0)  # (T, B, H)
        x = mt.cat([past, future], dim=-1)  # (T, B, 2 H)
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


def valid_steps(states, lengths, extra=0):
    """(T, B): whether a position belongs to the sequence."""
    return mt.arange(len(states)).unsqueeze(1) < lengths + extra


def _at(states, positions):
    """(B, H): the state of each sequence at its position."""
    return states[positions, mt.arange(states.shape[1])]


def _masked_sum(states, lengths, extra=0):
    return (states * valid_steps(states, lengths, extra).unsqueeze(-1)).sum(dim=0)


def padded_cases(draw, hidden):
    """States (T, B, H) and the lengths (B) of the sequences that they belong to."""
    yield draw.normal(3, 2, 2), mt.tensor([1, 3])
    yield draw.normal(4, 3, 1), mt.tensor([2, 1, 3])
    yield draw.normal(6, 4, 3), 1 + draw.integers(6, 4)
    if hidden:
        yield draw.normal(1, 1, 1), mt.tensor([1])
        yield draw.normal(9, 7, 5), 1 + draw.integers(9, 7)


def _padding_is_not_read(answer, states, lengths):
    changed = mt.where(valid_steps(states, lengths).unsqueeze(-1), states, states + 100)
    for before, after in zip(answer(states, lengths), answer(changed, lengths), strict=True):
        if not mt.equal(before, after):
            return "What stands in the padding must not change the result."
    return None


@exercise(
    cases=padded_cases,
    properties=(_padding_is_not_read,),
    gradients=False,
    see='chapter 01, "Classification: the last state or the pooled states"',
)
def pool_states(states, lengths):
    """States (T, B, H) and lengths (B) give the last state (B, H) and the mean state (B, H)."""
    steps, batch, _ = states.shape
    last = states[lengths - 1, mt.arange(batch)]  # (B, H)
    inside = mt.arange(steps).unsqueeze(1) < lengths  # (T, B)
    mean = (states * inside.unsqueeze(-1)).sum(dim=0) / lengths.unsqueeze(1)  # (B, H)
    return last, mean


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
    valid = valid_steps(states, lengths).unsqueeze(-1)
    return _at(states, lengths - 1), states.masked_fill(~valid, -mt.inf).amax(dim=0)
