"""Recurrent layers: whole sequences as one operation."""

import autograd.numpy as anp
import numpy as np
from gradients import Case

from minitorch.operations.recurrent import gru, lstm, rnn
from rows.table import row, sigmoid

# Sequences that still run at each step, longest first.
_SIZES = ([1], [2, 2], [2, 1], [3, 1, 1], [0, 0])


def recurrent(operation, gates, cells, reference_step):
    """A row for a whole-sequence operation: ``reference_step`` computes a step of all sequences."""

    @row(operation.__name__)
    def case(draw):
        sizes, packed, reverse = draw.pick(*_SIZES), draw.flag(), draw.flag()
        sizes = sizes if packed else [sizes[0]] * len(sizes)
        width, size = draw.int(0, 2), draw.int(1, 2)
        options = (draw.pick("tanh", "relu"),) if operation is rnn else ()
        lead = (sum(sizes),) if packed else (len(sizes), sizes[0])
        shapes_ = [(*lead, width)] + [(sizes[0], size)] * (1 + cells)
        shapes_ += [(gates * size, width), (gates * size, size)]
        shapes_ += [(gates * size,)] * draw.pick(0, 2)
        biases = len(shapes_) == 6 + cells
        start = np.cumsum([0, *sizes])

        def reference(x, *rest):
            states, weights = list(rest[: 1 + cells]), rest[1 + cells :]
            w_ih, w_hh, b_ih, b_hh = weights if biases else (*weights, 0.0, 0.0)
            rows, results = anp.reshape(x, (sum(sizes), width)), [None] * len(sizes)
            for t in range(len(sizes))[:: -1 if reverse else 1]:
                n = sizes[t]
                from_x = anp.dot(rows[start[t] : start[t] + n], w_ih.T) + b_ih
                from_h = anp.dot(states[0][:n], w_hh.T) + b_hh
                blocks = [
                    [a[:, k * size : (k + 1) * size] for k in range(gates)]
                    for a in (from_x, from_h)
                ]
                new = reference_step(*blocks, *(s[:n] for s in states), *options)
                states = [anp.concatenate([a, s[n:]]) for a, s in zip(new, states, strict=True)]
                results[t] = new[0]
            return anp.reshape(anp.concatenate(results), (*lead, size)), *states

        def function(*inputs):
            none = () if biases else (None, None)
            return operation(*inputs, *none, sizes if packed else None, reverse, *options)

        inputs = [draw.array(shape) for shape in shapes_]
        return Case(function, inputs, reference, repeatable=False)


def _rnn_step(x, h, state, nonlinearity):
    total = x[0] + h[0]
    return (anp.tanh(total) if nonlinearity == "tanh" else anp.maximum(total, 0),)


def _lstm_step(x, h, state, cell):
    i, f, g, o = (a + b for a, b in zip(x, h, strict=True))
    cell = sigmoid(f) * cell + sigmoid(i) * anp.tanh(g)
    return sigmoid(o) * anp.tanh(cell), cell


def _gru_step(x, h, state):
    r, z = (sigmoid(a + b) for a, b in zip(x[:2], h[:2], strict=True))
    new = anp.tanh(x[2] + r * h[2])
    return ((1 - z) * new + z * state,)


recurrent(rnn, 1, 0, _rnn_step)
recurrent(lstm, 4, 1, _lstm_step)
recurrent(gru, 3, 0, _gru_step)
