"""Whole-sequence recurrent layers, each as one operation: the time loop runs inside it.

The input holds the tokens in the order of time: (T, B, I), or, for sequences of different lengths,
(N, I) with ``batch_sizes``: how many sequences, longest first, are still running at each step (see
``minitorch.nn.utils.rnn``). What does not depend on the state is one product over all steps before
the loop, and the gradients of the weights are one product each after it. Inside the loop a state is
a matrix with a column a sequence, (H, B), since W h is then a product that BLAS does fastest.

Equations and the order of the gates are PyTorch's. Each operation is tested to equal, in value and
gradient, its docstring written out step by step.
"""

from minitorch.autograd.dispatch import operation
from minitorch.axes import fold
from minitorch.backend import array_module, sum_of


def _prepare(input, weight_ih, biases, batch_sizes, reverse):
    """The tokens as rows (N, I), the rows of each step as (start, stop), and W_ih x + b (., N).

    The steps are in the order in which they are run.
    """
    rows = fold(input)
    if batch_sizes is None:
        batch_sizes = [input.shape[1]] * input.shape[0]
    steps, start = [], 0
    for size in batch_sizes:
        steps.append((start, start + size))
        start += size
    projected = weight_ih @ rows.T
    biases = [bias for bias in biases if bias is not None]
    if biases:
        projected += sum(biases)[:, None]
    return rows, steps[::-1] if reverse else steps, projected


def _at(saved, start, stop):
    """The rows of one step of ``saved`` (N, F), used as the contiguous matrix (F, n)."""
    return saved[start:stop].reshape(saved.shape[1], stop - start)


def _sigmoid_(xp, x):
    """sigmoid(x) = (1 + tanh(x / 2)) / 2, written into x: it cannot overflow."""
    x *= 0.5
    xp.tanh(x, out=x)
    x += 1
    x *= 0.5


def _as_rows(into_states):
    """The gradient of all states as rows (N, H), or None."""
    return None if into_states is None else fold(into_states)


def _carried(grad, like):
    """The gradient of a final state as columns (H, B), in memory of its own."""
    return (array_module(like).zeros_like(like) if grad is None else grad).T.copy()


def _gradients(input, rows, weight_ih, delta_ih, delta_hh, states, first, steps):
    """Gradients of the input, both weights and both biases from those of W_ih x and W_hh h (N, .).

    ``states`` holds the state after each token, ``first`` is h_0 (B, H).
    """
    states = fold(states)
    before, last = array_module(states).empty_like(states), first.copy()
    for start, stop in steps:
        before[start:stop] = last[: stop - start]
        last[: stop - start] = states[start:stop]
    return (
        (delta_ih @ weight_ih).reshape(input.shape),
        delta_ih.T @ rows,
        delta_hh.T @ before,
        sum_of(delta_ih, 0),
        sum_of(delta_hh, 0),
    )


@operation()
def rnn(
    input,
    hidden,
    weight_ih,
    weight_hh,
    bias_ih=None,
    bias_hh=None,
    batch_sizes=None,
    reverse=False,
    nonlinearity="tanh",
):
    """h_t = f(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh) with f = tanh or relu (Elman, 1990).

    ``input`` (T, B, I), ``hidden`` h_0 (B, H), ``weight_ih`` (H, I), ``weight_hh`` (H, H), biases
    (H). Returns all h_t (T, B, H) and the last one (B, H). ``reverse`` starts from the other end.

    Backward is backpropagation through time: with a_t = f^-1(h_t), d a_t = f'(a_t) * d h_t, and
    W_hh^T d a_t is added to d h_(t-1).
    """
    xp = array_module(input)
    biases = bias_ih, bias_hh
    rows, steps, projected = _prepare(input, weight_ih, biases, batch_sizes, reverse)
    size = weight_hh.shape[0]
    states = xp.empty((len(rows), size), dtype=input.dtype)
    saved = xp.empty_like(states)
    state = hidden.T.copy()
    for start, stop in steps:
        h, new = state[:, : stop - start], _at(saved, start, stop)
        xp.matmul(weight_hh, h, out=new)
        new += projected[:, start:stop]
        if nonlinearity == "tanh":
            xp.tanh(new, out=new)
        else:
            xp.maximum(new, 0, out=new)
        h[...] = new
        states[start:stop] = new.T

    def vjp(grads):
        into_states, into_last = _as_rows(grads[0]), grads[1]
        weight = xp.ascontiguousarray(weight_hh.T)
        delta = xp.empty_like(saved)
        carried = _carried(into_last, hidden)
        for start, stop in reversed(steps):
            d_h, h = carried[:, : stop - start], _at(saved, start, stop)
            if into_states is not None:
                d_h += into_states[start:stop].T
            if nonlinearity == "tanh":
                slope = h * h
                xp.subtract(1, slope, out=slope)
            else:
                slope = h > 0
            slope = slope * d_h
            delta[start:stop] = slope.T
            xp.matmul(weight, slope, out=d_h)
        d_input, *d_weights = _gradients(input, rows, weight_ih, delta, delta, out, hidden, steps)
        return d_input, carried.T, *d_weights

    out = states.reshape(*input.shape[:-1], size)
    return (out, state.T.copy()), vjp


@operation()
def lstm(
    input,
    hidden,
    cell,
    weight_ih,
    weight_hh,
    bias_ih=None,
    bias_hh=None,
    batch_sizes=None,
    reverse=False,
):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000).

    (i, f, g, o) = W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, four blocks of H rows in this order;
    c_t = sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g) and h_t = sigmoid(o) * tanh(c_t).

    ``input`` (T, B, I), ``hidden`` h_0 and ``cell`` c_0 (B, H), ``weight_ih`` (4H, I),
    ``weight_hh`` (4H, H), biases (4H). Returns all h_t (T, B, H), and the last h and c (B, H).
    """
    xp = array_module(input)
    biases = bias_ih, bias_hh
    rows, steps, projected = _prepare(input, weight_ih, biases, batch_sizes, reverse)
    size = weight_hh.shape[1]
    states = xp.empty((len(rows), size), dtype=input.dtype)
    gates = xp.empty((len(rows), 4 * size), dtype=input.dtype)
    cells_before, cells_tanh = xp.empty_like(states), xp.empty_like(states)
    state, memory = hidden.T.copy(), cell.T.copy()
    scratch = xp.empty_like(state)
    for start, stop in steps:
        n = stop - start
        h, c, new = state[:, :n], memory[:, :n], scratch[:, :n]
        block = _at(gates, start, stop)
        xp.matmul(weight_hh, h, out=block)
        block += projected[:, start:stop]
        i, f, g, o = block.reshape(4, size, n)
        _sigmoid_(xp, block[: 2 * size])
        xp.tanh(g, out=g)
        _sigmoid_(xp, o)
        _at(cells_before, start, stop)[...] = c
        c *= f
        c += xp.multiply(i, g, out=new)
        c_tanh = xp.tanh(c, out=_at(cells_tanh, start, stop))
        xp.multiply(o, c_tanh, out=h)
        states[start:stop] = h.T

    def vjp(grads):
        into_states, into_last, into_memory = _as_rows(grads[0]), *grads[1:]
        weight = xp.ascontiguousarray(weight_hh.T)
        delta = xp.empty_like(gates)
        carried, carried_memory = _carried(into_last, hidden), _carried(into_memory, cell)
        for start, stop in reversed(steps):
            n = stop - start
            d_h, d_c = carried[:, :n], carried_memory[:, :n]
            c_tanh = _at(cells_tanh, start, stop)
            i, f, g, o = block = _at(gates, start, stop).reshape(4, size, n)
            if into_states is not None:
                d_h += into_states[start:stop].T
            d_i, d_f, d_g, d_o = d = 1 - block
            d *= block  # s (1 - s), the derivative of the three sigmoids
            xp.multiply(g, g, out=d_g)
            xp.subtract(1, d_g, out=d_g)
            d_o *= c_tanh
            d_o *= d_h
            d_h *= o
            d_c += d_h
            d_h *= c_tanh
            d_h *= c_tanh
            d_c -= d_h  # d h * o * (1 - tanh(c)^2)
            d_i *= g
            d_f *= _at(cells_before, start, stop)
            d_g *= i
            d[:3] *= d_c
            d_c *= f
            d = d.reshape(4 * size, n)
            delta[start:stop] = d.T
            xp.matmul(weight, d, out=d_h)
        d_input, *d_weights = _gradients(input, rows, weight_ih, delta, delta, out, hidden, steps)
        return d_input, carried.T, carried_memory.T, *d_weights

    out = states.reshape(*input.shape[:-1], size)
    return (out, state.T.copy(), memory.T.copy()), vjp


@operation()
def gru(
    input,
    hidden,
    weight_ih,
    weight_hh,
    bias_ih=None,
    bias_hh=None,
    batch_sizes=None,
    reverse=False,
):
    """Gated recurrent unit (Cho et al., 2014), with the reset gate after the product.

    (r, z, n) = W_ih x_t + b_ih and (r', z', n') = W_hh h_(t-1) + b_hh, blocks of H rows in this
    order; R = sigmoid(r + r'), Z = sigmoid(z + z'), N = tanh(n + R * n') and
    h_t = (1 - Z) * N + Z * h_(t-1). The last block of b_hh lies inside the product with R.

    ``input`` (T, B, I), ``hidden`` h_0 (B, H), ``weight_ih`` (3H, I), ``weight_hh`` (3H, H), biases
    (3H). Returns all h_t (T, B, H) and the last one (B, H).
    """
    xp = array_module(input)
    rows, steps, projected = _prepare(input, weight_ih, (bias_ih,), batch_sizes, reverse)
    size = weight_hh.shape[1]
    states = xp.empty((len(rows), size), dtype=input.dtype)
    saved = xp.empty((len(rows), 4 * size), dtype=input.dtype)
    states_before = xp.empty_like(states)
    state = hidden.T.copy()
    for start, stop in steps:
        h, block = state[:, : stop - start], _at(saved, start, stop)
        gates, product, new = block[: 2 * size], block[2 * size : 3 * size], block[3 * size :]
        xp.matmul(weight_hh, h, out=block[: 3 * size])
        if bias_hh is not None:
            block[: 3 * size] += bias_hh[:, None]
        gates += projected[: 2 * size, start:stop]
        _sigmoid_(xp, gates)
        xp.multiply(gates[:size], product, out=new)
        new += projected[2 * size :, start:stop]
        xp.tanh(new, out=new)
        _at(states_before, start, stop)[...] = h
        h -= new
        h *= gates[size:]
        h += new  # n + z (h - n)
        states[start:stop] = h.T

    def vjp(grads):
        into_states, into_last = _as_rows(grads[0]), grads[1]
        weight = xp.ascontiguousarray(weight_hh.T)
        delta_ih = xp.empty((len(rows), 3 * size), dtype=input.dtype)
        delta_hh = xp.empty_like(delta_ih)
        carried = _carried(into_last, hidden)
        for start, stop in reversed(steps):
            n = stop - start
            d_h = carried[:, :n]
            r, z, product, new = block = _at(saved, start, stop).reshape(4, size, n)
            if into_states is not None:
                d_h += into_states[start:stop].T
            d_r, d_z, d_n = d = xp.empty((3, size, n), dtype=input.dtype)
            xp.multiply(new, new, out=d_n)
            xp.subtract(1, d_n, out=d_n)
            d_n *= d_h
            xp.subtract(1, block[:2], out=d[:2])
            d_n *= d_z
            d[:2] *= block[:2]
            d_z *= d_h
            d_z *= _at(states_before, start, stop) - new
            d_r *= product
            d_r *= d_n
            d = d.reshape(3 * size, n)
            delta_ih[start:stop] = d.T
            d_n *= r
            delta_hh[start:stop] = d.T
            d_h *= z
            d_h += weight @ d
        d_input, *d_weights = _gradients(
            input, rows, weight_ih, delta_ih, delta_hh, out, hidden, steps
        )
        return d_input, carried.T, *d_weights

    out = states.reshape(*input.shape[:-1], size)
    return (out, state.T.copy()), vjp
