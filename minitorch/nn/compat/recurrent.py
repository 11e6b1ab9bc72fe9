"""The LSTM whose hidden state is projected to a smaller one, written step by step."""

from minitorch.nn import functional as F
from minitorch.operations.shapes import cat


def projected_lstm(
    input,
    hidden,
    cell,
    weight_ih,
    weight_hh,
    bias_ih,
    bias_hh,
    weight_hr,
    batch_sizes=None,
    reverse=False,
):
    """``operations.recurrent.lstm`` with h_t = W_hr (o * tanh(c_t)), W_hr (P, H), h_0 (B, P)."""
    rows = input.flatten(0, -2)
    sizes = [input.shape[1]] * input.shape[0] if batch_sizes is None else batch_sizes
    steps = F.linear(rows, weight_ih, bias_ih).split(sizes)
    outputs = [None] * len(steps)
    for t in range(len(steps))[:: -1 if reverse else 1]:
        n = sizes[t]
        i, f, g, o = (steps[t] + F.linear(hidden[:n], weight_hh, bias_hh)).chunk(4, -1)
        memory = f.sigmoid() * cell[:n] + i.sigmoid() * g.tanh()
        outputs[t] = F.linear(o.sigmoid() * memory.tanh(), weight_hr)
        hidden, cell = cat([outputs[t], hidden[n:]]), cat([memory, cell[n:]])
    return cat(outputs).reshape(*input.shape[:-1], -1), hidden, cell
