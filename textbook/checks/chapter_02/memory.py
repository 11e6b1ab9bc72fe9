"""The path of the gradient through the cell, a bit kept by hand-set weights, one step backward."""

from itertools import groupby

import minitorch as mt
from minitorch.operations.recurrent import lstm
from textbook.checks.compare import brief
from textbook.checks.exercise import exercise

# The path of the gradient


def _path_cases(draw, hidden):
    yield (mt.tensor([[[0.5]], [[0.25]], [[0.75]]], dtype=mt.float64),)
    for steps, batch, size in [(1, 2, 1), (3, 1, 2), (5, 2, 3)] + [(9, 4, 2)] * hidden:
        yield (draw.normal(steps, batch, size).sigmoid(),)
    shut = draw.normal(4, 1, 2).sigmoid()
    shut[2, 0, 1] = 0.0
    yield (shut,)


def _products_from_the_end(forget):
    return forget.flip(0).cumprod(0).flip(0)


@exercise(cases=_path_cases, gradients=False, see='chapter 02, "What keeps a gradient alive"')
def cell_path(forget):
    """Forget gates (T, B, H) give d c_T / d c_t for each t, (T, B, H)."""
    paths = [mt.ones_like(forget[0])]  # (B, H)
    for f in forget[1:].flip(0):
        paths.append(paths[-1] * f)
    return mt.stack(paths).flip(0)


@cell_path.wrong(
    "one gate too long: it includes f_t itself",
    "f_t has already been used to make c_t. From c_t to c_T lie the gates f_(t+1) to f_T.",
)
def _(forget):
    return _products_from_the_end(forget)


@cell_path.wrong(
    "one gate too short: it leaves out f_T",
    "c_T = f_T * c_(T-1) + ...: the last gate lies on the way too. Only at t = T is there none.",
)
def _(forget):
    ones = mt.ones_like(forget[:1])
    return _products_from_the_end(mt.cat([forget[1:-1], ones, ones])[: len(forget)])


@cell_path.wrong(
    "the product from the start, f_1 to f_t",
    "That is d c_t / d c_0. The way from c_t to the end goes through the later gates, f_(t+1) to "
    "f_T.",
)
def _(forget):
    return forget.cumprod(0)


@cell_path.wrong(
    "the next gate alone, f_(t+1)",
    "That is one step. From c_t to c_T there are T - t of them, and they multiply.",
)
def _(forget):
    return mt.cat([forget[1:], mt.ones_like(forget[:1])])


@cell_path.wrong(
    "the product of all gates, for every t",
    "Only the gates after step t lie between c_t and c_T.",
)
def _(forget):
    return forget.prod(0, keepdim=True).expand(*forget.shape)


@cell_path.wrong(
    "a sum of gates",
    "Each step multiplies by its gate, so along the path the gates multiply (chain rule).",
)
def _(forget):
    after = mt.cat([forget[1:], mt.ones_like(forget[:1])])
    return after.flip(0).cumsum(0).flip(0)


@cell_path.wrong(
    "right but for the last row, which is 0",
    "d c_T / d c_T is 1: the product of no gates.",
)
def _(forget):
    return mt.cat([cell_path.reference(forget)[:-1], mt.zeros_like(forget[:1])])


@cell_path.wrong(
    "right but for gates that are shut: a division by a product that is 0",
    "f_1 ... f_T divided by f_1 ... f_t is 0 / 0 behind a gate that is 0. Multiply from the end.",
)
def _(forget):
    return forget.prod(0, keepdim=True) / forget.cumprod(0)


# A bit behind a shut gate


def _bit_cases(draw, hidden):
    """Sequences (T, 3) of (write, bit, read); the first step writes."""
    written = [[1, 1, 0], [0, -1, 0], [0, 1, 0], [0, -1, 1]]
    yield (mt.tensor(written, dtype=mt.float64),)
    yield (mt.tensor([[1, -1, 1]], dtype=mt.float64),)
    for steps, often in [(12, 0.4), (100, 0.02)] + [(250, 0.0)] * hidden:
        write, read = mt.tensor(draw.random.random((2, steps))) < mt.tensor([[often], [0.1]])
        write[0] = read[-1] = True
        bits = 2 * draw.integers(2, steps) - 1
        yield (mt.stack([write, bits, read], dim=1).double(),)


def _sign(h):
    """What an output says: nothing, one of the two bits, or neither."""
    if abs(h) < 0.05:
        return "."
    if abs(h) < 0.5:
        return "?"
    return "+" if h > 0 else "-"


def _said(outputs):
    """The signs of all outputs, those that repeat with their number."""
    runs = [(sign, len(list(same))) for sign, same in groupby(map(_sign, outputs))]
    return " ".join(sign if count == 1 else f"{sign} x{count}" for sign, count in runs)


def _form(weights):
    """The shapes of several tensors in a text; anything else as it is."""
    if isinstance(weights, (list, tuple)) and all(isinstance(w, mt.Tensor) for w in weights):
        return ", ".join(str(tuple(w.shape)) for w in weights)
    return brief(weights)


def _kept(answer, x):
    weights = answer()
    form = {"what keep_a_bit returns": _form(weights)}
    if form["what keep_a_bit returns"] != "(4, 3), (4, 1), (4,)":
        return form | {"the output h": None}
    zero = mt.zeros(1, 1)
    states, _, _ = lstm(x.unsqueeze(1), zero, zero, *(w.double() for w in weights))
    return form | {"the output h": _said(states.flatten().tolist())}


def _decided(answer, x):
    if "?" not in _kept(answer, x)["the output h"]:
        return None
    return (
        "A ? is an output between 0.05 and 0.5: a gate is half open, a bit has faded, or it was "
        "written too weakly. Larger weights and biases help."
    )


_OFF, _ON = (0, 0, 0, -20), (0, 0, 0, 20)  # the weights of write, bit and read, and the bias
_WRITE, _UNLESS_WRITE = (40, 0, 0, -20), (-40, 0, 0, 20)
_BIT, _READ = (0, 5, 0, 0), (0, 0, 40, -20)


def _by_hand(i=_WRITE, f=_UNLESS_WRITE, g=_BIT, o=_READ):
    """Weights that do not look at h, one row a gate."""

    def weights():
        rows = mt.tensor([i, f, g, o], dtype=mt.float64)
        return rows[:, :3], mt.zeros(4, 1), rows[:, 3]

    return weights


@exercise(
    cases=_bit_cases,
    run=_kept,
    gradients=False,
    properties=(_decided,),
    see='chapter 02, "A bit behind a closed gate"',
)
def keep_a_bit():
    """W_ih (4, 3), W_hh (4, 1) and b (4) of an LSTM that keeps a bit."""
    W_ih = mt.tensor(
        [
            [30.0, 0.0, 0.0],  # i: open to write
            [-30.0, 0.0, 0.0],  # f: open unless we write
            [0.0, 4.0, 0.0],  # g: the bit
            [0.0, 0.0, 30.0],  # o: open to read
        ]
    )
    return W_ih, mt.zeros(4, 1), mt.tensor([-15.0, 15.0, 0.0, -15.0])


keep_a_bit.wrong(
    "a cell that always shows its bit: its output gate is open at every step",
    "o must be shut unless x reads: a large negative bias, and a larger weight for read.",
)(_by_hand(o=_ON))
keep_a_bit.wrong(
    "a cell that shows its bit when it is not asked: read shuts the output gate",
    "The weight of read in o must be positive, and the bias negative.",
)(_by_hand(o=(0, 0, -40, 20)))
keep_a_bit.wrong(
    "a cell that shows its bit at writing, not at reading",
    "The output gate looks at the third input, read.",
)(_by_hand(o=_WRITE))
keep_a_bit.wrong(
    "a cell whose output gate is never shut tightly",
    "sigmoid(-2) is still 0.12. Make the bias of o more negative, and the weight of read larger.",
)(_by_hand(o=(0, 0, 22, -2)))
keep_a_bit.wrong(
    "a cell whose output gate never opens",
    "When x reads, the sum that goes into o must be large and positive: the weight of read has to "
    "be larger than minus the bias.",
)(_by_hand(o=_OFF))
keep_a_bit.wrong(
    "a cell that takes every bit that passes by: its input gate is open at every step",
    "i must be shut unless x writes: a large negative bias, and a larger weight for write.",
)(_by_hand(i=_ON, f=_OFF))
keep_a_bit.wrong(
    "a cell that adds what it writes to what was there",
    "When x writes, the old bit must go: then the forget gate is near 0.",
)(_by_hand(f=_ON))
keep_a_bit.wrong(
    "a cell that forgets at once: its forget gate is shut",
    "f is the share of the old cell that stays. Near 1 it keeps, near 0 it forgets.",
)(_by_hand(f=_OFF))
keep_a_bit.wrong(
    "a cell whose forget gate is the wrong way round: shut while it should keep",
    "f is the share of the old cell that stays: near 0 when x writes, near 1 otherwise.",
)(_by_hand(f=_WRITE))
keep_a_bit.wrong(
    "a cell that leaks: after many steps the bit is gone",
    "sigmoid(3) to the power of 100 is 0.008. Make the bias of f larger.",
)(_by_hand(f=(-23, 0, 0, 3)))
keep_a_bit.wrong(
    "a cell that keeps the opposite bit",
    "The weight of bit in g must be positive.",
)(_by_hand(g=(0, -5, 0, 0)))
keep_a_bit.wrong(
    "a cell that keeps the same bit, whatever x says",
    "The candidate g is what is written: let it look at the second input, bit.",
)(_by_hand(g=_ON))
keep_a_bit.wrong(
    "right but for the order of the rows: the output gate stands third",
    "The rows belong to i, f, g, o, in this order.",
)(_by_hand(g=_READ, o=_BIT))
keep_a_bit.wrong(
    "right but for the order of the rows: the forget gate stands first",
    "The rows belong to i, f, g, o, in this order.",
)(_by_hand(i=_UNLESS_WRITE, f=_WRITE))


# One step backward


def _backward_cases(draw, hidden):
    for batch, size in [(1, 1), (3, 2)] + [(4, 5)] * hidden:
        i, f, o = (draw.normal(batch, size).sigmoid() for _ in range(3))
        gates = i, f, draw.normal(batch, size).tanh(), o
        h, c = draw.normal(batch, size), draw.normal(batch, size)
        yield (
            h,
            c,
            draw.normal(4 * size, size),
            gates,
            draw.normal(batch, size),
            draw.normal(batch, size),
        )


def _sigmoid_slope(s):
    return s * (1 - s)


def _tanh_slope(t):
    return 1 - t**2


def _backward(
    into_cell=lambda grad_h, grad_c, o, t: grad_c + grad_h * o * _tanh_slope(t),
    parts=lambda d_c, grad_h, i, g, c, c_new, t: (d_c * g, d_c * c, d_c * i, grad_h * t),
    gate_slope=_sigmoid_slope,
    candidate_slope=_tanh_slope,
    order=(0, 1, 2, 3),
    through=lambda d_c, f: d_c * f,
):
    """The step backward with one of its pieces exchanged."""

    def backward(h, c, W_hh, gates, grad_h_new, grad_c_new):
        i, f, g, o = gates
        c_new = f * c + i * g
        t = c_new.tanh()
        d_c = into_cell(grad_h_new, grad_c_new, o, t)
        d_i, d_f, d_g, d_o = parts(d_c, grad_h_new, i, g, c, c_new, t)
        sums = [
            d_i * gate_slope(i),
            d_f * gate_slope(f),
            d_g * candidate_slope(g),
            d_o * gate_slope(o),
        ]
        d_a = mt.cat([sums[k] for k in order], dim=1)  # (B, 4 H)
        return d_a @ W_hh, through(d_c, f), d_a.T @ h

    return backward


@exercise(
    cases=_backward_cases,
    forbidden=("lstm", "backward"),
    instead="the chain rule on the formulas of the step, from the last to the first",
    gradients=False,
    see='chapter 02, "What keeps a gradient alive"',
)
def lstm_step_backward(h, c, W_hh, gates, grad_h_new, grad_c_new):
    """The gradients with respect to h (B, H), c (B, H) and W_hh (4 H, H)."""
    i, f, g, o = gates
    shown = (f * c + i * g).tanh()  # tanh(c'), (B, H)
    grad_c_new = grad_c_new + grad_h_new * o * (1 - shown**2)
    grad_sums = mt.cat(
        [
            grad_c_new * g * i * (1 - i),
            grad_c_new * c * f * (1 - f),
            grad_c_new * i * (1 - g**2),
            grad_h_new * shown * o * (1 - o),
        ],
        dim=-1,
    )  # (B, 4 H)
    return grad_sums @ W_hh, grad_c_new * f, grad_sums.T @ h


lstm_step_backward.wrong(
    "right but for the cell: what comes through h_new is missing",
    "c_new enters the loss twice: through the next cell (grad_c_new), and through "
    "h_new = o * tanh(c_new). Add both.",
)(_backward(into_cell=lambda grad_h, grad_c, o, t: grad_c))
lstm_step_backward.wrong(
    "right but for the cell: what comes from the next cell is missing",
    "c_new enters the loss twice: through h_new, and through the next cell. Add grad_c_new.",
)(_backward(into_cell=lambda grad_h, grad_c, o, t: grad_h * o * _tanh_slope(t)))
lstm_step_backward.wrong(
    "right but for the cell: the slope of tanh(c_new) is missing",
    "h_new = o * tanh(c_new): on the way to c_new multiply by 1 - tanh(c_new) ** 2.",
)(_backward(into_cell=lambda grad_h, grad_c, o, t: grad_c + grad_h * o))
lstm_step_backward.wrong(
    "right but for the cell: the output gate is missing on the way from h_new",
    "h_new = o * tanh(c_new): on the way to c_new multiply by o.",
)(_backward(into_cell=lambda grad_h, grad_c, o, t: grad_c + grad_h * _tanh_slope(t)))
lstm_step_backward.wrong(
    "right but for the slopes of the sigmoids, which are missing",
    "i, f, o are sigmoids of the sums: multiply by s * (1 - s).",
)(_backward(gate_slope=mt.ones_like))
lstm_step_backward.wrong(
    "right but for the slope of the candidate, which is missing",
    "g is the tanh of its sum: multiply by 1 - g * g.",
)(_backward(candidate_slope=mt.ones_like))
lstm_step_backward.wrong(
    "right but for the slope of the candidate: that of a sigmoid",
    "g is the tanh of its sum: its slope is 1 - g * g.",
)(_backward(candidate_slope=_sigmoid_slope))
lstm_step_backward.wrong(
    "right but for the forget gate: it multiplied the old cell, not the new one",
    "c_new = f * c + i * g: the gradient of f is that of c_new times the old c.",
)(
    _backward(
        parts=lambda d_c, grad_h, i, g, c, c_new, t: (d_c * g, d_c * c_new, d_c * i, grad_h * t)
    )
)
lstm_step_backward.wrong(
    "right but for the input gate and the candidate, whose factors are exchanged",
    "In i * g, the gradient of i is multiplied by g, and that of g by i.",
)(_backward(parts=lambda d_c, grad_h, i, g, c, c_new, t: (d_c * i, d_c * c, d_c * g, grad_h * t)))
lstm_step_backward.wrong(
    "right but for the output gate: c_new in place of tanh(c_new)",
    "h_new = o * tanh(c_new): the gradient of o is that of h_new times tanh(c_new).",
)(
    _backward(
        parts=lambda d_c, grad_h, i, g, c, c_new, t: (d_c * g, d_c * c, d_c * i, grad_h * c_new)
    )
)
lstm_step_backward.wrong(
    "right but for the order of the blocks: i, f, o, g",
    "The rows of W_hh belong to i, f, g, o; put the gradients of the sums in this order.",
)(_backward(order=(0, 1, 3, 2)))
lstm_step_backward.wrong(
    "right but for the old cell: the forget gate is missing on the way back",
    "c_new = f * c + i * g: the gradient of the old c is that of c_new times f.",
)(_backward(through=lambda d_c, f: d_c))


@lstm_step_backward.wrong(
    "right but for W_hh, whose gradient is transposed",
    "Row k of W_hh makes sum k: the gradient is d_a.T @ h, of shape (4 H, H).",
)
def _(*case):
    d_h, d_c, d_W = lstm_step_backward.reference(*case)
    return d_h, d_c, d_W.T


@lstm_step_backward.wrong(
    "right but for W_hh, whose gradient is the mean over the batch",
    "The gradient of a sum over the batch is a sum: the product d_a.T @ h adds it up.",
)
def _(h, *rest):
    d_h, d_c, d_W = lstm_step_backward.reference(h, *rest)
    return d_h, d_c, d_W / len(h)
