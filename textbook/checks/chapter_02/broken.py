"""Recurrent layers that keep the promises of one, and some that do not."""

import minitorch as mt
from textbook.checks.chapter_02.cells import elsewhere_step, lstm_step, stacked_weights
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import each_alone, judged, some_of

D, H = 3, 4  # inputs and units of every layer


class _Layer:
    """A layer that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x, state=None):
        return self.function(x, state)


def _weights():
    return stacked_weights(Draw(3), D, H, 4)


def _start(x, state):
    if state is not None:
        return state
    return mt.zeros(x.shape[1], H, dtype=x.dtype), mt.zeros(x.shape[1], H, dtype=x.dtype)


def _layer(
    step=lstm_step,
    before=lambda x: x,
    start=_start,
    carry=lambda h, c: (h, c),
    after=lambda states: states,
    last=lambda h, c, states: (h, c),
):
    """A layer x (T, B, 3), state -> states (T, B, 4), (h, c), with one of its pieces exchanged."""

    def run(x, state=None):
        weights = [w.to(x.dtype) for w in _weights()]
        h, c = start(x, state)
        states = []
        for x_t in before(x):
            h, c = step(x_t, *carry(h, c), *weights)
            states.append(h)
        states = after(mt.stack(states))
        return states, last(h, c, states)

    return run


def _gru(x_t, h, c, W_ih, W_hh, b):
    """A GRU in the dress of an LSTM: c is h."""
    rows = 3 * H
    h = elsewhere_step(x_t, h, W_ih[:rows].T, W_hh[:rows].T, mt.stack([b[:rows], 0 * b[:rows]]))
    return h, h


def _leaky(x_t, h, c, *weights):
    """A sum that fades, unit by unit: without matrices it is never rounded otherwise."""
    c = 0.5 * c + 0.25 * h + x_t[:, :1] * mt.tensor([1.0, -1.0, 0.5, 2.0], dtype=x_t.dtype)
    return c.tanh(), c


def _unsquashed(x_t, h, c, W_ih, W_hh, b):
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c, c


def _coupled(x_t, h, c, W_ih, W_hh, b):
    _, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _mixed(x_t, h, c, *weights):
    """Each sequence looks at the mean of all."""
    return lstm_step(x_t, h + 0.1 * h.mean(0, keepdim=True), c, *weights)


def _in_place(x, state):
    h, c = _start(x, state)
    states, (h_new, c_new) = _layer()(x, (h.clone(), c.clone()))
    with mt.no_grad():
        h[:], c[:] = h_new.detach(), c_new.detach()
    return states, (h_new, c_new)


def _writes_into_x(x, state):
    result = _layer()(x.clone(), state)
    with mt.no_grad():
        x[:] = x.detach() * 0.5
    return result


def _clips_x(x, state):
    """Once x is within bounds, a second call does not show it."""
    with mt.no_grad():
        x[:] = x.detach().clip(-0.5, 0.5)
    return _layer()(x, state)


def _piece_by_piece(x, state):
    """Reads one step at a time through itself."""
    states = []
    for x_t in x:
        part, state = _layer()(x_t.unsqueeze(0), state)
        states.append(part)
    return mt.cat(states), state


def _goes_on():
    """Where no state is given it starts from where it has ended the last time."""
    kept = {}

    def run(x, state):
        given = kept.get(x.shape[1]) if state is None else state
        states, (h, c) = _layer()(x, given)
        kept[x.shape[1]] = h.detach(), c.detach()
        return states, (h, c)

    return run


def _backward(x, state):
    states, last = _layer()(x.flip(0), state)
    return states.flip(0), last


def _cut(after):
    """The gradient is cut once, before this step; or before each."""

    def run(x, state):
        states = []
        for t, x_t in enumerate(x):
            if state is not None and (after is None or t == after):
                state = tuple(each.detach() for each in state)
            part, state = _layer()(x_t.unsqueeze(0), state)
            states.append(part)
        return mt.cat(states), state

    return run


def _first_alone(x, state):
    """The gradient goes back through the first sequence alone."""
    states, (h, c) = _layer()(x, state)
    first = mt.arange(x.shape[1]).unsqueeze(1) == 0  # (B, 1)
    states, h, c = (mt.where(first, each, each.detach()) for each in (states, h, c))
    return states, (h, c)


def _anew(x, state):
    """Forgets what came before the fourth step of a call."""
    states, last = _layer()(x[:3], state)
    if len(x) <= 3:
        return states, last
    more, last = _layer()(x[3:], None)
    return mt.cat([states, more]), last


def _kinds():
    """Functions that make a broken layer, and right ones, by kind."""

    def ones(x, state):
        return state or tuple(mt.ones_like(each) for each in _start(x, None))

    def starts_anew(x, state):
        return _start(x, None)

    def hidden_alone(x, state):
        return (state[0], 0 * state[1]) if state else _start(x, None)

    def exchanged(x, state):
        return state[::-1] if state else _start(x, None)

    broken = {
        "ignores the state that is given": lambda: _layer(start=starts_anew),
        "ignores the cell that is given": lambda: _layer(start=hidden_alone),
        "takes the state as (c, h)": lambda: _layer(start=exchanged),
        "starts from ones where no state is given": lambda: _layer(start=ones),
        "goes on from its last call": _goes_on,
        "hands on the first h": lambda: _layer(last=lambda h, c, states: (states[0], c)),
        "hands on h in place of the cell": lambda: _layer(last=lambda h, c, states: (h, h)),
        "hands on the mean of its states as the cell": lambda: _layer(
            step=_gru, last=lambda h, c, states: (h, states.mean(0))
        ),
        "hands on another h than it shows": lambda: _layer(after=lambda states: states / 2),
        "reads from the end": lambda: _backward,
        "takes the mean over time away": lambda: _layer(
            before=lambda x: x - 0.1 * x.mean(0, keepdim=True)
        ),
        "sees the next input": lambda: _layer(before=lambda x: x + 0.1 * mt.cat([x[1:], x[-1:]])),
        "mixes the sequences": lambda: _layer(step=_mixed),
        "scales by the largest of the batch": lambda: _layer(
            before=lambda x: x / x.abs().amax(dim=(1, 2), keepdim=True)
        ),
        "adds to each sequence those before it": lambda: _layer(
            before=lambda x: x + 0.1 * (x.cumsum(1) - x)
        ),
        "writes into the state": lambda: _in_place,
        "writes into x": lambda: _writes_into_x,
        "clips x where it stands": lambda: _clips_x,
        "starts anew at its fourth step": lambda: _anew,
        "hands on a cell that is too large by 1e-8 of it": lambda: _layer(
            last=lambda h, c, states: (h, c * (1 + 1e-8))
        ),
        "cuts the gradient at each step": lambda: _cut(None),
        "cuts the gradient once": lambda: _cut(1),
        "cuts the gradient at its fourth step": lambda: _cut(3),
        "cuts the gradient of all sequences but the first": lambda: _first_alone,
    }
    right = {
        "LSTM": _layer,
        "LSTM that shows o * c": lambda: _layer(step=_unsquashed),
        "LSTM with coupled gates": lambda: _layer(step=_coupled),
        "GRU": lambda: _layer(step=_gru),
        "sum that fades": lambda: _layer(step=_leaky),
        "LSTM, one step at a time": lambda: _piece_by_piece,
    }
    return broken, right


def unknown_layers():
    """Eight layers, five of which are broken; the order says nothing."""
    return [_Layer(make()) for make in some_of(_kinds(), (5, 3), Draw(7).random)]


def _layer_cases(draw):
    """Each kind by itself, and none."""
    return each_alone(_kinds())


GIVEN = "Hand a state over that is not zero, and read several steps in two pieces."
FAR = "Ask backward() for the gradient of the first input, from the last h alone."
OWN = "What happens inside a step is a layer's own business."
HINTS = {
    "ignores the state that is given": GIVEN,
    "ignores the cell that is given": GIVEN,
    "takes the state as (c, h)": "Read x in two pieces.",
    "starts from ones where no state is given": "Compare None with zeros.",
    "goes on from its last call": "Call it twice without a state.",
    "hands on the first h": "Compare the last h with the last of the states.",
    "hands on h in place of the cell": "Read x in two pieces.",
    "hands on the mean of its states as the cell": "Read x in two pieces, and compare the cells, "
    "too.",
    "hands on another h than it shows": "Compare the last h with the last of the states.",
    "reads from the end": "Read x in two pieces.",
    "takes the mean over time away": "Read x in two pieces.",
    "sees the next input": "Read x in two pieces.",
    "mixes the sequences": "Give several sequences, then each by itself.",
    "scales by the largest of the batch": "Give several sequences, then each by itself.",
    "adds to each sequence those before it": "Give several sequences, then each of them by itself, "
    "not the first alone.",
    "writes into the state": "Compare the state with a copy that you made before.",
    **dict.fromkeys(
        ("writes into x", "clips x where it stands"),
        "Compare x with a copy that you made before: a clone.",
    ),
    "starts anew at its fourth step": "Read more than three steps in one go, and in two pieces.",
    "hands on a cell that is too large by 1e-8 of it": "Read x in two pieces. Differences beyond "
    "1e-9 are differences: .double(), and rtol=0, atol=1e-9.",
    "cuts the gradient at each step": FAR,
    "cuts the gradient once": FAR,
    "cuts the gradient at its fourth step": "Ask backward() for the gradient of the first input, "
    "over more than three steps.",
    "cuts the gradient of all sequences but the first": "Ask backward() for the gradient of the "
    "first input, in each sequence by itself.",
    **dict.fromkeys(("LSTM", "GRU", "sum that fades", "LSTM with coupled gates"), OWN),
    "LSTM that shows o * c": OWN,
    "LSTM, one step at a time": "Differences below 1e-9 are rounding.",
}


def _found(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    with as_in_a_notebook():
        found = answer([_Layer((broken | right)[kind]()) for kind in kinds])
    return judged(found, kinds, broken, HINTS, "broken layers")


broken_layers = exercise(
    "broken_layers",
    cases=_layer_cases,
    run=_found,
    gradients=False,
    see='chapter 02, "The loop, one product for all gates, and the library"',
)
