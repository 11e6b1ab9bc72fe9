"""Whole sequences, several layers, their parameters and how these start."""

import minitorch as mt
from minitorch import nn
from minitorch.operations.recurrent import lstm as whole_lstm
from textbook.checks.chapter_02.cells import lstm_cell, stacked_weights
from textbook.checks.exercise import exercise

_step = lstm_cell.reference

# Over a sequence


def _sequence_cases(draw, hidden):
    sizes = [(1, 2, 1, 2, False), (2, 3, 2, 3, True)]
    for batch, steps, inputs, size, given in sizes + [(3, 4, 2, 1, True)] * hidden:
        x, weights = draw.normal(steps, batch, inputs), stacked_weights(draw, inputs, size, 4)
        states = draw.normal(batch, size), draw.normal(batch, size)
        yield x, *weights, states if given else None


def _initial(x, W_hh, state):
    zeros = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
    return (zeros, zeros) if state is None else state


def _run(x, weights, state, carry=lambda new, first: new):
    """The pairs (h_1, c_1), ..., (h_T, c_T); ``carry`` says what the next step starts from."""
    first, pairs = state, []
    for x_t in x:
        pairs.append(_step(x_t, *state, *weights))
        state = carry(pairs[-1], first)
    return pairs


def _result(pairs, shown=0):
    """All hidden states, or all cells, and the last pair."""
    return mt.stack([pair[shown] for pair in pairs]), pairs[-1]


@exercise(
    cases=_sequence_cases,
    forbidden=("lstm",),
    instead="a loop over the steps",
    see='chapter 02, "The loop, one product for all gates, and the library"',
)
def lstm(x, W_ih, W_hh, b, state=None):
    """Inputs (T, B, d) give the states h_1 ... h_T, (T, B, H), and the last pair (h, c)."""
    if state is None:
        zeros = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
        state = zeros, zeros
    h, c = state
    states = []
    for x_t in x:
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()  # (B, H)
        h = o.sigmoid() * c.tanh()  # (B, H)
        states.append(h)
    return mt.stack(states), (h, c)


@lstm.wrong(
    "a run in which the cell starts at zero at every step",
    "Both states go on: h, c = step(x_t, h, c).",
)
def _(x, W_ih, W_hh, b, state=None):
    start = _initial(x, W_hh, state)
    return _result(_run(x, (W_ih, W_hh, b), start, lambda new, _: (new[0], 0 * new[1])))


@lstm.wrong(
    "a run in which the cell starts from c_0 at every step",
    "Both states go on: h, c = step(x_t, h, c).",
)
def _(x, W_ih, W_hh, b, state=None):
    start = _initial(x, W_hh, state)
    return _result(_run(x, (W_ih, W_hh, b), start, lambda new, first: (new[0], first[1])))


@lstm.wrong(
    "a run in which the hidden state goes on in place of the cell",
    "h and c are two states. Give the next step the c that this one returned.",
)
def _(x, W_ih, W_hh, b, state=None):
    start = _initial(x, W_hh, state)
    return _result(_run(x, (W_ih, W_hh, b), start, lambda new, _: (new[0], new[0])))


@lstm.wrong(
    "a run in which every step starts from the first states",
    "What a step returns is what the next one starts from: h, c = step(x_t, h, c).",
)
def _(x, W_ih, W_hh, b, state=None):
    start = _initial(x, W_hh, state)
    return _result(_run(x, (W_ih, W_hh, b), start, lambda _, first: first))


@lstm.wrong(
    "a run from zeros, whatever state is",
    "Zeros are only the default. Start from state when it is given.",
)
def _(x, W_ih, W_hh, b, state=None):
    return lstm.reference(x, W_ih, W_hh, b)


@lstm.wrong(
    "a run whose first states are exchanged: state is taken as (c, h)",
    "state is (h, c), as in nn.LSTM.",
)
def _(x, W_ih, W_hh, b, state=None):
    return lstm.reference(x, W_ih, W_hh, b, state and tuple(reversed(state)))


@lstm.wrong(
    "right but for the last pair: c comes before h",
    "Return the pair as (h, c).",
)
def _(*case):
    states, (h, c) = lstm.reference(*case)
    return states, (c, h)


@lstm.wrong(
    "the cells in place of the hidden states",
    "The output of a layer is h_1 to h_T; of the cells only the last is returned.",
)
def _(x, W_ih, W_hh, b, state=None):
    return _result(_run(x, (W_ih, W_hh, b), _initial(x, W_hh, state)), shown=1)


@lstm.wrong(
    "right for all hidden states, but the last pair is missing",
    "Return two things: the states (T, B, H), and the pair (h, c) after the last step.",
)
def _(*case):
    return lstm.reference(*case)[0]


@lstm.wrong(
    "right but for the order of the axes: it is (B, T, H)",
    "Time comes first: stack the states along axis 0 to get (T, B, H).",
)
def _(*case):
    states, last = lstm.reference(*case)
    return states.transpose(0, 1), last


@lstm.wrong(
    "right in its values, but the gradient stops at every step",
    "Something cuts a state off from the graph between two steps: detach(), numpy(), .data or "
    "tensor(...). Hand both on as they are.",
)
def _(x, W_ih, W_hh, b, state=None):
    start = _initial(x, W_hh, state)
    cut = _run(x, (W_ih, W_hh, b), start, lambda new, _: (new[0].detach(), new[1].detach()))
    return _result(cut)


# Deep and bidirectional


class _LSTM:
    """A layer that reads from left to right: (T, B, d) -> states (T, B, H), (h, c)."""

    def __init__(self, draw, inputs, hidden):
        self.inputs, self.hidden = inputs, hidden
        self.weights = stacked_weights(draw, inputs, hidden, 4)

    def __call__(self, x):
        zeros = mt.zeros(x.shape[1], self.hidden, dtype=x.dtype)
        states, h, c = whole_lstm(x, zeros, zeros, *self.weights)
        return states, (h, c)

    def __repr__(self):
        return f"LSTM({self.inputs} -> {self.hidden})"

    def __deepcopy__(self, memo):
        return self


def _layer_cases(draw, hidden):
    sizes = [(2, 1, 2, 1, 1), (3, 2, 1, 2, 2)] + [(5, 3, 2, 2, 3)] * hidden
    for steps, batch, inputs, size, depth in sizes:
        widths = [inputs] + [2 * size] * (depth - 1)
        layers = [(_LSTM(draw, width, size), _LSTM(draw, width, size)) for width in widths]
        yield draw.normal(steps, batch, inputs), layers


def _flip(x):
    return x.flip(0)


def _bidirectional(
    turn=_flip,
    turn_back=_flip,
    join=lambda past, future: mt.cat([past, future], dim=-1),
    last_of_backward=lambda future, last: last,
):
    """All layers with one of the pieces exchanged."""

    def run(x, layers):
        finals = []
        for forward, backward in layers:
            past, last = forward(x)
            future, other_last = backward(turn(x))
            future = turn_back(future)
            finals += [last, last_of_backward(future, other_last)]
            x = join(past, future)
        h, c = zip(*finals, strict=True)
        return x, mt.stack(h), mt.stack(c)

    return run


@exercise(cases=_layer_cases, see='chapter 02, "Stacked and bidirectional"')
def deep_bidirectional(x, layers):
    """Inputs (T, B, d) give the output (T, B, 2 H) and the last h and c, each (2 L, B, H)."""
    hidden, cells = [], []
    for forward, backward in layers:
        past, (h_forward, c_forward) = forward(x)
        future, (h_backward, c_backward) = backward(x.flip(0))
        hidden += [h_forward, h_backward]
        cells += [c_forward, c_backward]
        x = mt.cat([past, future.flip(0)], dim=-1)  # (T, B, 2 H)
    return x, mt.stack(hidden), mt.stack(cells)


deep_bidirectional.wrong(
    "right but for one thing: the backward states are not turned back",
    "backward(x.flip(0)) gives the states in reading order, the last token first. Flip them once "
    "more, so that place t holds what was read from T down to t.",
)(_bidirectional(turn_back=lambda x: x))
deep_bidirectional.wrong(
    "two runs from left to right",
    "backward, too, reads what it is given from first to last: give it x.flip(0).",
)(_bidirectional(turn=lambda x: x, turn_back=lambda x: x))
deep_bidirectional.wrong(
    "turned back without having been turned: the backward LSTM read from left to right",
    "Flip its input as well as its output.",
)(_bidirectional(turn=lambda x: x))
deep_bidirectional.wrong(
    "the sum of both directions",
    "Put them side by side along the last axis: (T, B, 2 H).",
)(_bidirectional(join=lambda past, future: past + future))
deep_bidirectional.wrong(
    "right but for the order: the backward half stands first",
    "In the output, put the forward states first, then the backward ones, as PyTorch does.",
)(_bidirectional(join=lambda past, future: mt.cat([future, past], dim=-1)))
deep_bidirectional.wrong(
    "right but for the backward h: it is taken from the end of the output",
    "At the last place the backward LSTM has read one token. Its last state, which has read all, "
    "stands at place 0 of the output; it is also what backward returns.",
)(_bidirectional(last_of_backward=lambda future, last: (future[-1], last[1])))


@deep_bidirectional.wrong(
    "right but for the last states, which are those of the last layer only",
    "Every layer and direction has its last states: collect them in a list.",
)
def _(x, layers):
    output, h, c = deep_bidirectional.reference(x, layers)
    return output, h[-2:], c[-2:]


@deep_bidirectional.wrong(
    "right but for the order of the last states: all forward ones come first",
    "Go through the layers from below; of each, first the forward state, then the backward one.",
)
def _(x, layers):
    output, h, c = deep_bidirectional.reference(x, layers)
    return output, mt.cat([h[::2], h[1::2]]), mt.cat([c[::2], c[1::2]])


@deep_bidirectional.wrong(
    "right but for the last states: c comes before h",
    "Return the output, then h, then c.",
)
def _(x, layers):
    output, h, c = deep_bidirectional.reference(x, layers)
    return output, c, h


# How many parameters


def _count_cases(draw, hidden):
    for kind in ("RNN", "GRU", "LSTM"):
        yield kind, 3, 2, 1, False
        yield kind, 5, 4, 1, True
        yield kind, 2, 3, 3, False
        yield kind, 4, 2, 2, True
        if hidden:
            yield kind, 300, 512, 4, True
    yield "LSTM", 10**8, 10**8, 1, False


_BLOCKS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _count(
    blocks=_BLOCKS,
    biases=2,
    directions=lambda bidirectional: 1 + bidirectional,
    above=lambda inputs, hidden, directions: hidden * directions,
    recurrent=lambda hidden, directions: hidden,
):
    """The number of parameters, with one part of the sum exchanged."""

    def count(kind, inputs, hidden, layers, bidirectional):
        runs, width, total = directions(bidirectional), inputs, 0
        for _ in range(layers):
            row = width + recurrent(hidden, runs) + biases
            total += runs * blocks[kind] * hidden * row
            width = above(inputs, hidden, runs)
        return total

    return count


@exercise(cases=_count_cases, gradients=False, see='chapter 02, "The gated recurrent unit"')
def count_parameters(kind, inputs, hidden, layers, bidirectional):
    """The number of parameters of nn.RNN, nn.GRU or nn.LSTM."""
    blocks = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 2 if bidirectional else 1
    total = 0
    for layer in range(layers):
        width = inputs if layer == 0 else directions * hidden
        total += directions * blocks * hidden * (width + hidden + 2)
    return total


count_parameters.wrong(
    "right but for the biases: one vector where PyTorch has two",
    "There is one bias beside W_ih and one beside W_hh: 2 H for each block.",
)(_count(biases=1))
count_parameters.wrong("the number without the biases", "Each block has 2 H biases.")(
    _count(biases=0)
)
count_parameters.wrong(
    "the number for a plain RNN, whatever kind is",
    "The matrices of a GRU have three blocks of H rows, r, z, n, those of an LSTM four, i, f, g, "
    "o.",
)(_count(blocks=dict.fromkeys(_BLOCKS, 1)))
count_parameters.wrong(
    "right but for the candidates: only the gates are counted",
    "Beside its gates a GRU has the candidate n, and an LSTM the candidate g: three and four "
    "blocks.",
)(_count(blocks={"RNN": 1, "GRU": 2, "LSTM": 3}))
count_parameters.wrong(
    "right but for the upper layers: each is counted as if it read the inputs",
    "From the second layer on, a layer reads the output of the one below: H numbers, or 2 H.",
)(_count(above=lambda inputs, hidden, directions: inputs))
count_parameters.wrong(
    "right but for the upper layers: each is counted as if it read one direction",
    "The output of a bidirectional layer has 2 H numbers, and both directions above read all of "
    "them.",
)(_count(above=lambda inputs, hidden, directions: hidden))
count_parameters.wrong(
    "right but for W_hh, counted as if it read both directions",
    "Each direction has its own state of H numbers: W_hh has H columns.",
)(_count(recurrent=lambda hidden, directions: hidden * directions))
count_parameters.wrong(
    "the number for one direction",
    "A bidirectional layer holds two sets of weights.",
)(_count(directions=lambda bidirectional: 1))


@count_parameters.wrong(
    "right but for the directions: one is counted, though the layers above read both",
    "A bidirectional layer holds two sets of weights: count each layer twice.",
)
def _(kind, inputs, hidden, layers, bidirectional):
    total = count_parameters.reference(kind, inputs, hidden, layers, bidirectional)
    return total // (1 + bidirectional)


# The forget bias


def _bias_cases(draw, hidden):
    yield from [(1, 1, 1, False, 1.0), (3, 2, 2, True, -2.0)] + [(2, 4, 3, False, 0.5)] * hidden


def _biases_after(answer, inputs, hidden, layers, bidirectional, value):
    lstm = nn.LSTM(inputs, hidden, layers, bidirectional=bidirectional).double()
    for i, parameter in enumerate(lstm.parameters()):
        parameter.data = (mt.arange(parameter.numel()) + i).cos().reshape(parameter.shape)
    answer(lstm, value)
    values = dict(lstm.named_parameters())
    blocks = {name: p.detach().chunk(4) for name, p in values.items() if "bias" in name}
    forget = {
        name.replace("bias_ih", "bias_ih + bias_hh"): ih[1] + blocks[name.replace("ih", "hh")][1]
        for name, ih in blocks.items()
        if "ih" in name
    }
    return {
        "the bias of the forget gate, a dict,": forget,
        "what should not change": {
            **{name: p.detach() for name, p in values.items() if "weight" in name},
            **{f"{name}, i, g, o": mt.cat([b[0], b[2], b[3]]) for name, b in blocks.items()},
        },
        "whether all weights are still trained": all(p.requires_grad for p in values.values()),
    }


def _set_biases(rows=1, ih=lambda value, old: value, hh=lambda value, old: 0 * old, applies=str):
    """Change the rows of one gate in each bias whose name ``applies``."""

    def setter(lstm, value):
        with mt.no_grad():
            for name, bias in lstm.named_parameters():
                if name.startswith("bias") and applies(name):
                    block = slice(rows * lstm.hidden_size, (rows + 1) * lstm.hidden_size)
                    bias[block] = (ih if "_ih_" in name else hh)(value, bias[block])

    return setter


@exercise(
    cases=_bias_cases,
    run=_biases_after,
    gradients=False,
    see='chapter 02, "What keeps a gradient alive"',
)
def set_forget_bias(lstm, value):
    """Let the two biases of each forget gate of an nn.LSTM add up to value."""
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    with mt.no_grad():
        for name, parameter in lstm.named_parameters():
            if name.startswith("bias_ih"):
                parameter[forget] = value
            elif name.startswith("bias_hh"):
                parameter[forget] = 0


set_forget_bias.wrong(
    "right but for the sum: both biases are set to value, which gives twice as much",
    "bias_ih and bias_hh are added. Set one to value and the other to 0.",
)(_set_biases(hh=lambda value, old: value))
set_forget_bias.wrong(
    "right for bias_ih, but bias_hh keeps its random numbers",
    "bias_ih and bias_hh are added: set the forget block of the other one to 0.",
)(_set_biases(hh=lambda value, old: old))
set_forget_bias.wrong(
    "right for bias_hh, but bias_ih keeps its random numbers",
    "bias_ih and bias_hh are added: set the forget block of the other one to 0.",
)(_set_biases(ih=lambda value, old: old, hh=lambda value, old: value))
set_forget_bias.wrong(
    "an addition of value to the random numbers that are there",
    "The sum of both biases is to be exactly value: overwrite.",
)(_set_biases(ih=lambda value, old: old + value, hh=lambda value, old: old))
set_forget_bias.wrong(
    "right but for the gate: the first block is the input gate",
    "The order is i, f, g, o: the forget gate has the rows from H to 2 H.",
)(_set_biases(rows=0))
set_forget_bias.wrong(
    "right but for the gate: the third block is the candidate",
    "The order is i, f, g, o: the forget gate has the rows from H to 2 H.",
)(_set_biases(rows=2))
set_forget_bias.wrong(
    "right for the first layer alone",
    "Each layer and direction has its own biases: bias_ih_l0, bias_ih_l0_reverse, bias_ih_l1, ...",
)(_set_biases(applies=lambda name: "_l0" in name))
set_forget_bias.wrong(
    "right for the forward direction alone",
    "The names of the backward direction end in _reverse, such as bias_ih_l0_reverse.",
)(_set_biases(applies=lambda name: "reverse" not in name))


@set_forget_bias.wrong(
    "right for the forget gates, but sets the biases of the other gates too",
    "Change only the rows from H to 2 H of each bias.",
)
def _(lstm, value):
    with mt.no_grad():
        for name, bias in lstm.named_parameters():
            if name.startswith("bias"):
                bias[:] = value if "_ih_" in name else 0


@set_forget_bias.wrong(
    "right for the forget gates, but sets the biases of the other gates to 0",
    "Change only the rows from H to 2 H of each bias.",
)
def _(lstm, value):
    with mt.no_grad():
        for name, bias in lstm.named_parameters():
            if name.startswith("bias"):
                bias[:] = 0
    set_forget_bias.reference(lstm, value)


@set_forget_bias.wrong(
    "one that leaves all biases as they are",
    "Change the parameters in place, within no_grad() or through .data: bias[rows] = ...",
)
def _(lstm, value):
    pass
