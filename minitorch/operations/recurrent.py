"""Whole-sequence recurrent layers as one operation: the time loop runs inside it."""

from minitorch.autograd.dispatch import operation
from minitorch.backend import array_module


@operation()
def rnn(input, hidden, weight_ih, weight_hh, bias=None, nonlinearity="tanh", reverse=False):
    """h_t = f(W_ih x_t + b + W_hh h_(t-1)) over a sequence, f = tanh or relu (Elman, 1990).

    ``input`` (T, B, I), ``hidden`` h_0 (B, H), ``weight_ih`` (H, I), ``weight_hh`` (H, H), ``bias``
    (H). Returns all h_t (T, B, H) and the last one (B, H). ``reverse`` starts from the other end.

    Backward is backpropagation through time: with a_t = f^-1(h_t), d a_t = f'(a_t) * d h_t, and
    W_hh^T d a_t is added to d h_(t-1). The products for the weights are taken once, at the end.
    """
    xp = array_module(input)
    steps, batch, width = input.shape
    size = weight_hh.shape[0]
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    rows = input.reshape(steps * batch, width)
    out = rows @ weight_ih.T
    if bias is not None:
        out += bias
    out = out.reshape(steps, batch, size)
    recurrent = xp.ascontiguousarray(weight_hh.T)
    last = hidden
    for t in order:
        state = out[t]
        state += last @ recurrent
        if nonlinearity == "tanh":
            xp.tanh(state, out=state)
        else:
            xp.maximum(state, 0, out=state)
        last = state

    def vjp(grads):
        into_states, into_last = grads
        slopes = 1 - out * out if nonlinearity == "tanh" else (out > 0).astype(out.dtype)
        before_activation = xp.empty_like(out)
        carried = xp.zeros_like(hidden) if into_last is None else into_last
        for t in reversed(order):
            total = carried if into_states is None else carried + into_states[t]
            xp.multiply(total, slopes[t], out=before_activation[t])
            carried = before_activation[t] @ weight_hh
        previous = xp.empty_like(out)
        if reverse:
            previous[:-1], previous[-1:] = out[1:], hidden
        else:
            previous[1:], previous[:1] = out[:-1], hidden
        flat = before_activation.reshape(steps * batch, size)
        return (
            (flat @ weight_ih).reshape(input.shape),
            carried,
            flat.T @ rows,
            flat.T @ previous.reshape(steps * batch, size),
            flat.sum(axis=0),
        )

    return (out, last.copy()), vjp
