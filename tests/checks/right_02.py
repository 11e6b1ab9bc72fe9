"""Right answers to the exercises of chapter 02, and forbidden ones."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd import grad
from minitorch.operations.recurrent import lstm as whole_lstm

# lstm_gates


def gates_one_after_the_other(x_t, h, weights_i, weights_f, weights_g, weights_o):
    """F.linear(x_t, W_ih, b) would do the same."""
    W, U, b = weights_i
    i = mt.sigmoid(x_t.matmul(W.t()) + h.matmul(U.t()) + b)
    W, U, b = weights_f
    f = mt.sigmoid(x_t.matmul(W.t()) + h.matmul(U.t()) + b)
    W, U, b = weights_g
    g = mt.tanh(x_t.matmul(W.t()) + h.matmul(U.t()) + b)
    W, U, b = weights_o
    o = mt.sigmoid(x_t.matmul(W.t()) + h.matmul(U.t()) + b)
    return [i, f, g, o]


def gates_stacked(x_t, h, *weights):
    W_ih, W_hh, b = (mt.cat(parts) for parts in zip(*weights, strict=True))
    a = mt.einsum("bd,kd->bk", x_t, W_ih) + mt.einsum("bh,kh->bk", h, W_hh) + b
    size = h.shape[1]
    i, f, g, o = (a[:, k * size : (k + 1) * size] for k in range(4))
    return 1 / (1 + (-i).exp()), 1 / (1 + (-f).exp()), 2 * (2 * g).sigmoid() - 1, F.sigmoid(o)


def gates_by_linear(x_t, h, *weights):
    sums = [F.linear(x_t, W_ih, b) + F.linear(h, W_hh) for W_ih, W_hh, b in weights]
    return sums[0].sigmoid(), sums[1].sigmoid(), sums[2].tanh(), sums[3].sigmoid()


# lstm_cell


def cell_with_one_matrix(x_t, h, c, W_ih, W_hh, b):
    a = mt.cat([x_t, h], dim=1) @ mt.cat([W_ih, W_hh], dim=1).T + b
    gates, size = a.sigmoid(), h.shape[1]
    c = gates[:, size : 2 * size] * c + gates[:, :size] * a[:, 2 * size : 3 * size].tanh()
    return gates[:, 3 * size :] * mt.tanh(c), c


def cell_with_a_gate_axis(x_t, h, c, W_ih, W_hh, b):
    a = mt.einsum("bd,kd->bk", x_t, W_ih) + mt.einsum("bh,kh->bk", h, W_hh) + b
    i, f, g, o = a.reshape(len(h), 4, -1).unbind(1)
    c = c * mt.sigmoid(f) + mt.sigmoid(i) * mt.tanh(g)
    return mt.tanh(c) * mt.sigmoid(o), c


def cell_unit_by_unit(x_t, h, c, W_ih, W_hh, b):
    """Without any matrix product."""
    rows = [(x_t * W_ih[k]).sum(1) + (h * W_hh[k]).sum(1) + b[k] for k in range(len(b))]
    i, f, g, o = mt.stack(rows, dim=1).split(h.shape[1], dim=1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def cell_by_linear(x_t, h, c, W_ih, W_hh, b):
    i, f, g, o = (F.linear(x_t, W_ih, b) + F.linear(h, W_hh)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _loaded(module, W_ih, W_hh, b_ih, b_hh=None, suffix=""):
    """The library's module with these weights."""
    values = {"weight_ih": W_ih, "weight_hh": W_hh, "bias_ih": b_ih}
    values["bias_hh"] = mt.zeros_like(b_ih) if b_hh is None else b_hh
    module.to(W_ih.dtype).load_state_dict({k + suffix: v.detach() for k, v in values.items()})
    return module


def cell_from_the_library(x_t, h, c, W_ih, W_hh, b):
    return _loaded(nn.LSTMCell(W_ih.shape[1], W_hh.shape[1]), W_ih, W_hh, b)(x_t, (h, c))


def cell_from_the_layer(x_t, h, c, W_ih, W_hh, b):
    layer = _loaded(nn.LSTM(W_ih.shape[1], W_hh.shape[1]), W_ih, W_hh, b, suffix="_l0")
    _, (h, c) = layer(x_t[None], (h[None], c[None]))
    return h[0], c[0]


# lstm


def run_with_lists(x, W_ih, W_hh, b, state=None):
    batch, size = x.size(1), W_hh.size(1)
    h, c = (mt.zeros(batch, size), mt.zeros(batch, size)) if state is None else state
    hidden, cells = [h], [c]
    for t in range(x.size(0)):
        h, c = cell_with_a_gate_axis(x[t], hidden[-1], cells[-1], W_ih, W_hh, b)
        hidden.append(h)
        cells.append(c)
    return mt.stack(hidden[1:]), (hidden[-1], cells[-1])


def run_with_inputs_first(x, W_ih, W_hh, b, state=None):
    a = x @ W_ih.T + b
    zero = x.new_zeros((x.shape[1], W_hh.shape[1]))
    h, c = state or (zero, zero)
    states = mt.zeros(len(x), *zero.shape, dtype=x.dtype)
    for t, a_t in enumerate(a):
        i, f, g, o = (a_t + h @ W_hh.T).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states[t] = h
    return [states, [h, c]]


def run_recursively(x, W_ih, W_hh, b, state=None):
    if state is None:
        zero = 0 * (x[0, :, :1] * W_hh[0])
        state = zero, zero
    state = cell_with_one_matrix(x[0], *state, W_ih, W_hh, b)
    if len(x) == 1:
        return state[0][None], state
    states, last = run_recursively(x[1:], W_ih, W_hh, b, state)
    return mt.cat([state[0][None], states]), last


def run_of_the_layer(x, W_ih, W_hh, b, state=None):
    layer = _loaded(nn.LSTM(W_ih.shape[1], W_hh.shape[1]), W_ih, W_hh, b, suffix="_l0")
    states, (h, c) = layer(x, state and (state[0][None], state[1][None]))
    return states, (h[0], c[0])


def run_of_the_cell(x, W_ih, W_hh, b, state=None):
    cell = _loaded(nn.LSTMCell(W_ih.shape[1], W_hh.shape[1]), W_ih, W_hh, b)
    states = []
    for x_t in x:
        state = cell(x_t, state)
        states.append(state[0])
    return mt.stack(states), state


# gru_cell


def gru_gate_by_gate(x_t, h, W_ih, W_hh, b_ih, b_hh):
    size = h.shape[1]
    r_rows, z_rows, n_rows = (slice(k * size, (k + 1) * size) for k in range(3))

    def x_part(rows):
        return x_t @ W_ih[rows].T + b_ih[rows]

    def h_part(rows):
        return h @ W_hh[rows].T + b_hh[rows]

    r = mt.sigmoid(x_part(r_rows) + h_part(r_rows))
    z = mt.sigmoid(x_part(z_rows) + h_part(z_rows))
    n = mt.tanh(x_part(n_rows) + r * h_part(n_rows))
    return n + z * (h - n)


def gru_with_einsum(x_t, h, W_ih, W_hh, b_ih, b_hh):
    x_parts = mt.einsum("bd,khd->kbh", x_t, W_ih.reshape(3, -1, W_ih.shape[1]))
    h_parts = mt.einsum("bj,khj->kbh", h, W_hh.reshape(3, -1, W_hh.shape[1]))
    x_parts = x_parts + b_ih.reshape(3, 1, -1)
    h_parts = h_parts + b_hh.reshape(3, 1, -1)
    r, z = (x_parts[:2] + h_parts[:2]).sigmoid()
    return mt.lerp((x_parts[2] + r * h_parts[2]).tanh(), h, z)


def gru_by_linear(x_t, h, W_ih, W_hh, b_ih, b_hh):
    x_parts = F.linear(x_t, W_ih, b_ih).chunk(3, 1)
    h_parts = F.linear(h, W_hh, b_hh).chunk(3, 1)
    r, z = ((x_parts[k] + h_parts[k]).sigmoid() for k in range(2))
    return (1 - z) * (x_parts[2] + r * h_parts[2]).tanh() + z * h


def gru_from_the_library(x_t, h, *weights):
    return _loaded(nn.GRUCell(weights[0].shape[1], h.shape[1]), *weights)(x_t, h)


def gru_from_the_layer(x_t, h, *weights):
    layer = _loaded(nn.GRU(weights[0].shape[1], h.shape[1]), *weights, suffix="_l0")
    return layer(x_t[None], h[None])[1][0]


# count_parameters


def count_by_shapes(kind, inputs, hidden, layers, bidirectional):
    rows = hidden * {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
    shapes, width = [], inputs
    for _ in range(layers):
        for _ in range(2 if bidirectional else 1):
            shapes += [(rows, width), (rows, hidden), (rows, 1), (rows, 1)]
        width = 2 * hidden if bidirectional else hidden
    return sum(a * b for a, b in shapes)


def count_in_closed_form(kind, inputs, hidden, layers, bidirectional):
    directions = 1 + int(bidirectional)
    one = len({"RNN": "h", "GRU": "rzn", "LSTM": "ifgo"}[kind]) * hidden
    first = inputs + hidden + 2
    above = directions * hidden + hidden + 2
    return float(directions * one * (first + (layers - 1) * above))


def count_of_the_module(kind, inputs, hidden, layers, bidirectional):
    module = getattr(nn, kind)(inputs, hidden, layers, bidirectional=bidirectional)
    return sum(parameter.numel() for parameter in module.parameters())


# set_forget_bias


def bias_by_halves(lstm, value):
    H = lstm.hidden_size
    for name, parameter in lstm.named_parameters():
        if "bias" in name:
            parameter.data[H : 2 * H] = value / 2


def bias_by_a_difference(lstm, value):
    """The other bias stays as it was."""
    H = lstm.hidden_size
    parameters = dict(lstm.named_parameters())
    with mt.no_grad():
        for name in list(parameters):
            if name.startswith("bias_ih"):
                other = parameters[name.replace("ih", "hh")]
                parameters[name][H : 2 * H] = value - other[H : 2 * H]


def bias_by_state_dict(lstm, value):
    weights = {}
    for name, tensor in lstm.state_dict().items():
        if name.startswith("bias"):
            i, _, g, o = tensor.chunk(4)
            new = mt.full_like(i, value if "hh" in name else 0.0)
            tensor = mt.cat([i, new, g, o])
        weights[name] = tensor
    lstm.load_state_dict(weights)


def bias_by_getattr(lstm, value):
    H = lstm.hidden_size
    for layer in range(lstm.num_layers):
        for suffix in ["", "_reverse"] if lstm.bidirectional else [""]:
            getattr(lstm, f"bias_ih_l{layer}{suffix}").data[H : 2 * H].fill_(value)
            getattr(lstm, f"bias_hh_l{layer}{suffix}").data[H : 2 * H].zero_()


# cell_path


def path_by_slices(forget):
    return mt.stack([forget[t + 1 :].prod(dim=0) for t in range(len(forget))])


def path_by_cumprod(forget):
    ones = mt.ones(1, *forget.shape[1:], dtype=forget.dtype)
    return mt.cat([ones, forget.flip(0)[:-1]]).cumprod(dim=0).flip(0)


def path_by_numpy(forget):
    path = np.ones(forget.shape)
    for t in range(len(forget) - 2, -1, -1):
        path[t] = path[t + 1] * forget[t + 1].numpy()
    return mt.tensor(path)


def path_by_the_engine(forget):
    rows = []
    for t in range(len(forget)):
        start = mt.ones_like(forget[0]).requires_grad_()
        c = start
        for f in forget[t + 1 :]:
            c = f * c + 0.3
        rows.append(grad(c.sum(), start)[0])
    return mt.stack(rows)


# deep_bidirectional


def layers_in_a_loop(x, layers):
    finals = []
    for pair in layers:
        past, end = pair[0](x)
        future, start = pair[1](mt.flip(x, (0,)))
        x = mt.cat((past, mt.flip(future, (0,))), 2)
        finals.extend([end, start])
    return [x, mt.stack([h for h, _ in finals]), mt.stack([c for _, c in finals])]


def layers_recursively(x, layers):
    """The last hidden states are read from the outputs."""
    (forward, backward), *above = layers
    reverse = list(range(len(x) - 1, -1, -1))
    (past, (_, c)), (future, (_, other_c)) = forward(x), backward(x[reverse])
    output = mt.cat([past, future[reverse]], dim=-1)
    size = past.shape[-1]
    h = mt.stack([output[-1, :, :size], output[0, :, size:]])
    c = mt.stack([c, other_c])
    if not above:
        return output, h, c
    output, h_above, c_above = layers_recursively(output, above)
    return output, mt.cat([h, h_above]), mt.cat([c, c_above])


# keep_a_bit


def bit_with_moderate_weights():
    W_ih = mt.tensor([[24.0, 0, 0], [-24.0, 0, 0], [0, 2.0, 0], [0, 0, 16.0]])
    return W_ih, mt.zeros(4, 1), mt.tensor([-12.0, 12.0, 0.0, -8.0])


def bit_with_a_state_that_is_read():
    """The candidate and the gates look at h, and the cell holds the bit with its sign turned."""
    W_ih = mt.zeros(4, 3)
    W_ih[0, 0], W_ih[1, 0], W_ih[2, 1], W_ih[3, 2] = 100.0, -100.0, 50.0, 100.0
    return W_ih, mt.ones(4, 1), mt.tensor([-50.0, 50.0, 1.0, -50.0])


def bit_without_zeros():
    W_ih = mt.tensor(
        [[40, 0.1, -0.1], [-40, -0.1, 0.1], [0.05, 3, 0.05], [0.3, -0.2, 18]], dtype=mt.float64
    )
    return [W_ih, 0.1 * mt.ones(4, 1), mt.tensor([-20.0, 20.0, 0.01, -9.0])]


# lstm_step_backward


def backward_by_jacobians(h, c, W_hh, gates, grad_h_new, grad_c_new):
    """Number by number."""
    i, f, g, o = (gate.numpy() for gate in gates)
    old, cell, W = h.numpy(), c.numpy(), W_hh.numpy()
    into_h, into_c = grad_h_new.numpy(), grad_c_new.numpy()
    batch, size = old.shape
    grad_h, grad_c, grad_W = np.zeros_like(old), np.zeros_like(cell), np.zeros_like(W)
    for b in range(batch):
        for k in range(size):
            t = np.tanh(f[b, k] * cell[b, k] + i[b, k] * g[b, k])
            d_c = into_c[b, k] + into_h[b, k] * o[b, k] * (1 - t * t)
            grad_c[b, k] = d_c * f[b, k]
            sums = {
                k: d_c * g[b, k] * i[b, k] * (1 - i[b, k]),
                size + k: d_c * cell[b, k] * f[b, k] * (1 - f[b, k]),
                2 * size + k: d_c * i[b, k] * (1 - g[b, k] * g[b, k]),
                3 * size + k: into_h[b, k] * t * o[b, k] * (1 - o[b, k]),
            }
            for row, value in sums.items():
                grad_h[b] += value * W[row]
                grad_W[row] += value * old[b]
    return mt.tensor(grad_h), mt.tensor(grad_c), mt.tensor(grad_W)


def backward_gate_by_gate(h, c, W_hh, gates, grad_h_new, grad_c_new):
    i, f, g, o = gates
    t = mt.tanh(c * f + g * i)
    total = grad_c_new + (grad_h_new * o - grad_h_new * o * t * t)
    parts = [total * g * (i - i * i), total * c * (f - f * f)]
    parts += [total * i * (1 - g) * (1 + g), grad_h_new * t * (o - o * o)]
    blocks = W_hh.chunk(4)
    grad_h = sum(part @ block for part, block in zip(parts, blocks, strict=True))
    return grad_h, f * total, mt.cat([mt.einsum("bk,bj->kj", part, h) for part in parts])


def _logits(gates):
    """The sums that went into the gates, (B, 4 H)."""
    i, f, g, o = gates
    parts = [(s / (1 - s)).log() for s in (i, f, o)]
    parts.insert(2, 0.5 * ((1 + g) / (1 - g)).log())
    return mt.cat(parts, dim=1)


def backward_by_the_engine(h, c, W_hh, gates, grad_h_new, grad_c_new):
    from_x = _logits(gates) - h @ W_hh.T
    h, c, W_hh = (x.clone().requires_grad_() for x in (h, c, W_hh))
    i, f, g, o = (from_x + h @ W_hh.T).chunk(4, dim=1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    ((o.sigmoid() * new.tanh()) * grad_h_new + new * grad_c_new).sum().backward()
    return h.grad, c.grad, W_hh.grad


def backward_by_the_library(h, c, W_hh, gates, grad_h_new, grad_c_new):
    from_x = _logits(gates) - h @ W_hh.T
    leaves = [x.clone().requires_grad_() for x in (h, c, W_hh)]
    eye = mt.eye(len(W_hh), dtype=W_hh.dtype)
    _, h_new, c_new = whole_lstm(from_x[None], leaves[0], leaves[1], eye, leaves[2])
    return grad((h_new * grad_h_new + c_new * grad_c_new).sum(), leaves)


right = {
    "lstm_gates": [gates_one_after_the_other, gates_stacked],
    "lstm_cell": [cell_with_one_matrix, cell_with_a_gate_axis, cell_unit_by_unit],
    "lstm": [run_with_lists, run_with_inputs_first, run_recursively],
    "gru_cell": [gru_gate_by_gate, gru_with_einsum],
    "count_parameters": [count_by_shapes, count_in_closed_form],
    "set_forget_bias": [
        bias_by_halves,
        bias_by_a_difference,
        bias_by_state_dict,
        bias_by_getattr,
    ],
    "cell_path": [path_by_slices, path_by_cumprod, path_by_numpy, path_by_the_engine],
    "deep_bidirectional": [layers_in_a_loop, layers_recursively],
    "keep_a_bit": [bit_with_moderate_weights, bit_with_a_state_that_is_read, bit_without_zeros],
    "lstm_step_backward": [backward_by_jacobians, backward_gate_by_gate],
}
refused = {
    "lstm_gates": [gates_by_linear],
    "lstm_cell": [cell_by_linear, cell_from_the_library, cell_from_the_layer],
    "lstm": [run_of_the_layer, run_of_the_cell],
    "gru_cell": [gru_by_linear, gru_from_the_library, gru_from_the_layer],
    "lstm_step_backward": [backward_by_the_engine, backward_by_the_library],
}
