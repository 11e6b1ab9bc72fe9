"""All steps of a batch of short and long sequences, forward and in both directions."""

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


def draw_weights(draw, inputs, hidden):
    """W_ih (H, d), W_hh (H, H) and b (H)."""
    return (
        draw.normal(hidden, inputs) / inputs**0.5,
        draw.normal(hidden, hidden) / hidden**0.5,
        draw.normal(hidden),
    )


def rnn_cell(x_t, h, W_ih, W_hh, b):
    """One step: input (B, d) and state (B, H) give the next state (B, H)."""
    return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()


def _padded(draw, x, lengths):
    """x (T, B, d) with large numbers after the end of each sequence."""
    return mt.where(_inside(x, lengths).unsqueeze(-1), x, 50 * draw.normal(*x.shape))


def _inside(x, lengths):
    """(T, B): whether a place belongs to its sequence."""
    return mt.arange(len(x)).unsqueeze(1) < lengths


# Unrolling


def _sequence_cases(draw, hidden):
    sizes = [(1, 3, 1, 2), (2, 4, 2, 3), (3, 5, 4, 2)] + [(4, 1, 2, 3), (5, 9, 3, 4)] * hidden
    for batch, steps, inputs, size in sizes:
        lengths = 1 + draw.integers(steps, batch)
        if batch > 1:
            lengths[0], lengths[1] = steps, max(1, steps - 2)
        x = _padded(draw, draw.normal(steps, batch, inputs), lengths)
        weights = draw_weights(draw, inputs, size)
        yield x, lengths, *weights, None
        yield x, lengths, *weights, draw.normal(batch, size)


def _waiting(new, old, inside, h0):
    return mt.where(inside, new, old)


def _run(
    cell=rnn_cell,
    keep=_waiting,
    start=lambda h0, zeros: zeros if h0 is None else h0,
    order=lambda x: x,
    inside=lambda t, lengths: t < lengths,
    carry=lambda h, first: h,
    told=lambda states, h0: mt.stack(states),
):
    """The run with one of its pieces exchanged."""

    def run(x, lengths, W_ih, W_hh, b, h0=None):
        zeros = mt.zeros(x.shape[1], len(W_hh), dtype=x.dtype)
        h = first = start(h0, zeros)
        states = []
        for t, x_t in enumerate(order(x)):
            new = cell(x_t, h, W_ih, W_hh, b)
            states.append(keep(new, h, inside(t, lengths).unsqueeze(1), first))
            h = carry(states[-1], first)
        return told(states, first)

    return run


@exercise(
    cases=_sequence_cases,
    forbidden=("rnn",),
    instead="a loop over the steps",
    see='chapter 01, "Unrolling"',
)
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    """Inputs (T, B, d) and lengths (B) give the states h_1 ... h_T, (T, B, H)."""
    h = mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0
    states = []
    for t, x_t in enumerate(x):
        new = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()  # (B, H)
        h = mt.where((t < lengths).unsqueeze(1), new, h)
        states.append(h)
    return mt.stack(states)  # (T, B, H)


unroll.wrong(
    "a run that goes on in the padding",
    "After its end, the state of a sequence stays as it was: mt.where(t < lengths, new, old).",
)(_run(keep=lambda new, old, inside, h0: new))


@unroll.wrong(
    "a run that goes on in the padding, which it reads as zeros",
    "Zeros are inputs, too: the state moves on. Keep it as it was at the end of the sequence.",
)
def _(x, lengths, *weights):
    zeroed = x * _inside(x, lengths).unsqueeze(-1)
    return _run(keep=lambda new, old, inside, h0: new)(zeroed, lengths, *weights)


@unroll.wrong(
    "right but for the padding, of which only the last row holds the state at the end",
    "All rows behind the end of a sequence hold its last state: mt.where(t < lengths, new, old).",
)
def _(x, lengths, *weights):
    states = _run(keep=lambda new, old, inside, h0: new)(x, lengths, *weights)
    return mt.cat([states[:-1], _run()(x, lengths, *weights)[-1:]])


unroll.wrong(
    "right but for the padding, where the states are zeros",
    "After its end, the state of a sequence stays as it was at its end.",
)(_run(keep=lambda new, old, inside, h0: new * inside))
unroll.wrong(
    "right but for the state that is kept in the padding, which no gradient goes through",
    "What is kept is the last state itself, with its past: no detach.",
)(_run(keep=lambda new, old, inside, h0: mt.where(inside, new, old.detach())))
unroll.wrong(
    "right but for the padding, where the states are those of the beginning",
    "After its end, the state of a sequence stays as it was at its end.",
)(_run(keep=lambda new, old, inside, h0: mt.where(inside, new, h0)))
unroll.wrong(
    "a run that takes one step of padding",
    "Steps count from 0: the last one of a sequence is lengths - 1.",
)(_run(inside=lambda t, lengths: t <= lengths))
unroll.wrong(
    "a run that stops one step early",
    "Steps count from 0: the last one of a sequence is lengths - 1.",
)(_run(inside=lambda t, lengths: t < lengths - 1))
unroll.wrong(
    "a run that works in the padding and waits in the sequences",
    "mt.where(condition, a, b) is a where the condition is True.",
)(_run(inside=lambda t, lengths: t >= lengths))
unroll.wrong(
    "right but for the step: W_hh is not transposed",
    "W_hh is square, so h @ W_hh fits too, but row i of W_hh belongs to unit i of "
    "the new state: the product is h @ W_hh.T.",
)(_run(cell=lambda x_t, h, W_ih, W_hh, b: rnn_cell(x_t, h, W_ih, W_hh.T, b)))
unroll.wrong(
    "right but for the old state, which is missing in the step",
    "A cell that does not read h has no memory: add h @ W_hh.T inside the tanh.",
)(_run(cell=lambda x_t, h, W_ih, W_hh, b: rnn_cell(x_t, 0 * h, W_ih, W_hh, b)))
unroll.wrong(
    "right but for the bias, which is missing", "Three terms go into the tanh: b is the third."
)(_run(cell=lambda x_t, h, W_ih, W_hh, b: rnn_cell(x_t, h, W_ih, W_hh, 0 * b)))
unroll.wrong(
    "right but for the tanh, which is missing",
    "Without it all steps together are one linear map, and states can grow without bound.",
)(_run(cell=lambda x_t, h, W_ih, W_hh, b: x_t @ W_ih.T + h @ W_hh.T + b))
unroll.wrong(
    "right but for a sigmoid in place of the tanh",
    "The plain cell uses tanh, whose values lie between -1 and 1.",
)(_run(cell=lambda x_t, h, W_ih, W_hh, b: (x_t @ W_ih.T + h @ W_hh.T + b).sigmoid()))
unroll.wrong(
    "right but for the bias, which is added after the tanh",
    "The bias belongs inside the tanh, with the two products.",
)(_run(cell=lambda x_t, h, W_ih, W_hh, b: rnn_cell(x_t, h, W_ih, W_hh, 0 * b) + b))
unroll.wrong(
    "T + 1 states, with h_0 in front", "The result has one state for each input: h_1 to h_T."
)(_run(told=lambda states, h0: mt.stack([h0, *states])))
unroll.wrong(
    "the states before each step, h_0 to h_(T-1)",
    "Take the step first, then keep the new state.",
)(_run(told=lambda states, h0: mt.stack([h0, *states[:-1]])))
unroll.wrong(
    "the last state alone",
    "Keep the state of every step in a list and stack the list at the end.",
)(_run(told=lambda states, h0: states[-1]))
unroll.wrong(
    "right but for the order of the axes: it is (B, T, H)",
    "Time comes first: stack the states along axis 0 to get (T, B, H).",
)(_run(told=lambda states, h0: mt.stack(states, dim=1)))
unroll.wrong(
    "a run in which every step starts from h_0",
    "The new state has to become the old state of the next step.",
)(_run(carry=lambda h, first: first))
unroll.wrong(
    "a run from zeros, whatever h0 is",
    "Zeros are only the default. Start from h0 when it is given.",
)(_run(start=lambda h0, zeros: zeros))
unroll.wrong(
    "a run from ones when h0 is left out",
    "Without h0 the run starts from zeros: before the first input there is nothing to remember.",
)(_run(start=lambda h0, zeros: zeros + 1 if h0 is None else h0))
unroll.wrong("a run from right to left", "The first step reads x[0], the last one x[T - 1].")(
    _run(order=lambda x: x.flip(0))
)
unroll.wrong("a run that reads the first input at every step", "Step t reads x[t].")(
    _run(order=lambda x: x[:1].expand(*x.shape))
)
unroll.wrong(
    "right in its values, but the gradient stops at every step",
    "Something cuts the state off from the graph between two steps: detach(), numpy(), .data or "
    "tensor(...). Hand the state on as it is.",
)(_run(carry=lambda h, first: h.detach()))


# Both directions


class _RNN:
    """A plain RNN that reads from left to right: (T, B, inputs) -> (T, B, hidden)."""

    def __init__(self, draw, inputs, hidden):
        self.inputs, self.hidden = inputs, hidden
        self.weights = draw_weights(draw, inputs, hidden)

    def __call__(self, x):
        states = [mt.zeros(x.shape[1], self.hidden, dtype=x.dtype)]
        for x_t in x:
            states.append(rnn_cell(x_t, states[-1], *self.weights))
        return mt.stack(states[1:])

    def __repr__(self):
        return f"RNN({self.inputs} -> {self.hidden})"

    def __deepcopy__(self, memo):
        return self


def _direction_cases(draw, hidden):
    sizes = [(3, [3, 1], 2, 2), (5, [2, 5, 4], 3, 2), (4, [4, 4, 4], 1, 3)]
    for steps, lengths, inputs, size in sizes + [(7, [1, 7, 6, 3], 4, 3), (1, [1], 2, 2)] * hidden:
        lengths = mt.tensor(lengths)
        x = _padded(draw, draw.normal(steps, len(lengths), inputs), lengths)
        yield x, lengths, _RNN(draw, inputs, size), _RNN(draw, inputs, size)


def _turn(x, lengths):
    """Each sequence from its own end; the padding stays."""
    steps = mt.arange(len(x)).unsqueeze(1)
    places = mt.where(steps < lengths, lengths - 1 - steps, steps)
    return x[places, mt.arange(x.shape[1])]


def _directions(
    turn=_turn,
    back=_turn,
    join=lambda past, future: mt.cat([past, future], dim=-1),
    outside=lambda y, inside: y.masked_fill(~inside.unsqueeze(-1), 0.0),
    onward=lambda forward, x: forward(x),
):
    """Both directions with one of their pieces exchanged."""

    def both(x, lengths, forward, backward):
        past = onward(forward, x)
        future = back(backward(turn(x, lengths)), lengths)
        return outside(join(past, future), _inside(x, lengths))

    return both


def _where_it_is_wrong(check, answer, x, lengths, forward, backward):
    """Whether the padding alone is wrong, or one half of the states."""
    found, right = (each(x, lengths, forward, backward) for each in (answer, check.reference))
    if not difference(found, right, ""):
        return None
    outside = ~_inside(x, lengths).unsqueeze(-1)
    if found.shape == right.shape and not difference(found.masked_fill(outside, 0.0), right, ""):
        return "Only the padding is wrong: there the result is 0."
    halves = zip(found.chunk(2, dim=-1), right.chunk(2, dim=-1), strict=True)
    past, future = (difference(*pair, "") for pair in halves)
    if future and not past:
        return (
            "The forward half is right, the backward half is not. The last place of a sequence is "
            "lengths - 1: in reading order, place t is lengths - 1 - t, there and back."
        )
    return "The backward half is right, the forward half is not." if not future else None


@exercise(
    cases=_direction_cases,
    reasons=(_where_it_is_wrong,),
    see='chapter 01, "Deeper, and in both directions"',
)
def both_directions(x, lengths, forward, backward):
    """Inputs (T, B, d) and lengths (B) give both halves of the states, (T, B, 2 H)."""
    steps = mt.arange(len(x)).unsqueeze(1)  # (T, 1)
    inside = steps < lengths  # (T, B)
    turned = mt.where(inside, lengths - 1 - steps, steps)  # each sequence from its own end
    batch = mt.arange(x.shape[1])
    past = forward(x)  # (T, B, H)
    future = backward(x[turned, batch])[turned, batch]  # (T, B, H)
    return mt.cat([past, future], dim=-1).masked_fill(~inside.unsqueeze(-1), 0.0)


def _flip(x, lengths):
    return x.flip(0)


def _as_it_is(x, lengths):
    return x


both_directions.wrong(
    "right for the longest sequences: of the others the backward half has read the padding first",
    "x.flip(0) turns the padding to the front. Turn each sequence within its own length: place t "
    "reads place lengths - 1 - t.",
)(_directions(turn=_flip, back=_flip))
both_directions.wrong(
    "right for sequences without padding: `lengths` is not used",
    "Turn each sequence within its own length, and put zeros into the padding.",
)(_directions(turn=_flip, back=_flip, outside=lambda y, inside: y))
both_directions.wrong(
    "right but for the padding, which the backward half reads first, as zeros",
    "Zeros are inputs, too: they move the state. Turn each sequence within its own length, so that "
    "the first thing that is read is its last word.",
)(_directions(turn=lambda x, lengths: (x * _inside(x, lengths).unsqueeze(-1)).flip(0), back=_flip))
both_directions.wrong(
    "right but for the order of the axes: it is (B, T, 2 H)", "Time comes first: (T, B, 2 H)."
)(lambda *case: _directions()(*case).transpose(0, 1))
both_directions.wrong(
    "right but for the backward half, for which you run `forward`",
    "The two have weights of their own: `backward` reads from the end.",
)(lambda x, lengths, forward, backward: _directions()(x, lengths, forward, forward))
both_directions.wrong(
    "right but for one thing: the backward states are not turned back",
    "They come in reading order, the last word first. Turn the result once more, so that place t "
    "holds what was read from the end down to t.",
)(_directions(back=_as_it_is))
both_directions.wrong(
    "two runs from left to right",
    "The second RNN has to read each sequence from its end.",
)(_directions(turn=_as_it_is, back=_as_it_is))
both_directions.wrong(
    "turned back without having been turned: the backward RNN read from left to right",
    "Turn its input as well as its output.",
)(_directions(turn=_as_it_is))
both_directions.wrong(
    "right but for turning back, which flips the padding to the front",
    "Turn back as you have turned: each sequence within its own length.",
)(_directions(back=_flip))
both_directions.wrong(
    "right but for the order: the backward half stands first",
    "Put the forward states first, then the backward ones, as PyTorch does.",
)(_directions(join=lambda past, future: mt.cat([future, past], dim=-1)))
both_directions.wrong(
    "the sum of both directions",
    "Concatenate them along the last axis, (T, B, 2 H): what reads them must be able to tell the "
    "past from the future.",
)(_directions(join=lambda past, future: past + future))
both_directions.wrong(
    "right but for the padding, where something is left",
    "In the padding the result is 0.",
)(_directions(outside=lambda y, inside: y))
both_directions.wrong(
    "right but for the padding, where the forward half is left",
    "In the padding the result is 0, in both halves.",
)(
    _directions(
        outside=lambda y, inside: mt.cat(
            [
                y[..., : y.shape[-1] // 2],
                (y * inside.unsqueeze(-1))[..., y.shape[-1] // 2 :],
            ],
            dim=-1,
        )
    )
)
both_directions.wrong(
    "right but for the last place of each sequence, which is 0 as well",
    "Places count from 0: the last one of a sequence is lengths - 1.",
)(
    _directions(
        outside=lambda y, inside: y * mt.cat([inside[1:], mt.zeros_like(inside[:1])]).unsqueeze(-1)
    )
)


@both_directions.wrong(
    "right but for the two RNNs, which are exchanged",
    "`forward` reads from left to right, `backward` from the end.",
)
def _(x, lengths, forward, backward):
    return _directions()(x, lengths, backward, forward)


@both_directions.wrong(
    "a run of the backward RNN over the forward states",
    "Both read the inputs x. (To read states is a deeper network.)",
)
def _(x, lengths, forward, backward):
    def read(states):
        inputs = mt.cat([states] * (1 + x.shape[-1] // states.shape[-1]), dim=-1)
        return backward(inputs[..., : x.shape[-1]])

    return _directions()(x, lengths, forward, lambda turned: read(_turn(forward(x), lengths)))
