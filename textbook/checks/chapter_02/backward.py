"""One step of an LSTM backward."""

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


def _backward_cases(draw, hidden):
    for batch, size in [(2, 3), (3, 4)] + [(1, 1), (4, 5)] * hidden:
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


def _which_rows(check, answer, h, c, W_hh, gates, grad_h_new, grad_c_new):
    """Which of the results are wrong, of W_hh which rows."""
    case = h, c, W_hh, gates, grad_h_new, grad_c_new
    found, right = answer(*case), check.reference(*case)
    if difference(found, right, "[]") is None:
        return None
    cell = "wrong" if difference(found[1], right[1], "[]") else "right"
    rows = zip("ifgo", found[2].chunk(4), right[2].chunk(4), strict=True)
    wrong = [name for name, one, other in rows if difference(one, other, "[]")]
    if not wrong:
        return f"The gradient of W_hh is right, that of c is {cell}."
    return f"The gradient of c is {cell}; in that of W_hh the rows of {', '.join(wrong)} are wrong."


@exercise(
    cases=_backward_cases,
    reasons=(_which_rows,),
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
    "right but for the cell: what comes from the next cell goes through tanh(c_new), too",
    "grad_c_new belongs to c_new itself: add it behind the slope of tanh.",
)(_backward(into_cell=lambda grad_h, grad_c, o, t: (grad_c + grad_h * o) * _tanh_slope(t)))
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
    "right but for the slope of tanh(c_new), for which c_new is squared, not its tanh",
    "The slope of tanh at c_new is 1 - tanh(c_new) ** 2.",
)
def _(h, c, W_hh, gates, *grads):
    c_new = gates[1] * c + gates[0] * gates[2]
    return _backward(
        into_cell=lambda grad_h, grad_c, o, t: grad_c + grad_h * o * _tanh_slope(c_new)
    )(h, c, W_hh, gates, *grads)


@lstm_step_backward.wrong(
    "right but for tanh, which is taken of the old cell",
    "h_new = o * tanh(c_new): first compute c_new = f * c + i * g.",
)
def _(h, c, *rest):
    return _backward(
        into_cell=lambda grad_h, grad_c, o, t: grad_c + grad_h * o * _tanh_slope(c.tanh()),
        parts=lambda d_c, grad_h, i, g, c, c_new, t: (d_c * g, d_c * c, d_c * i, grad_h * c.tanh()),
    )(h, c, *rest)


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


@lstm_step_backward.wrong(
    "right but for W_hh, for which the new h is taken",
    "The sums were made with the old h: its gradient is d_a.T @ h.",
)
def _(h, c, W_hh, gates, grad_h_new, grad_c_new):
    i, f, g, o = gates
    d_h, d_c, _ = lstm_step_backward.reference(h, c, W_hh, gates, grad_h_new, grad_c_new)
    new = o * (f * c + i * g).tanh()
    return d_h, d_c, lstm_step_backward.reference(new, c, W_hh, gates, grad_h_new, grad_c_new)[2]


@lstm_step_backward.wrong(
    "right but for the old cell, to which only what comes from the next cell goes back",
    "What reaches c_new through h_new goes back to the old c as well: (grad_c_new + ...) * f.",
)
def _(h, c, W_hh, gates, grad_h_new, grad_c_new):
    d_h, _, d_W = lstm_step_backward.reference(h, c, W_hh, gates, grad_h_new, grad_c_new)
    return d_h, grad_c_new * gates[1], d_W


@lstm_step_backward.wrong(
    "right but for grad_c_new, which goes straight to the old cell",
    "It belongs to c_new: add it to what comes through h_new, before the gates, and multiply by f.",
)
def _(*case):
    *others, grad_c_new = case
    d_h, d_c, d_W = lstm_step_backward.reference(*others, 0 * grad_c_new)
    return d_h, d_c + grad_c_new, d_W


lstm_step_backward.wrong(
    "right but for the slopes, for which the gates are squashed once more",
    "`gates` are what sigmoid and tanh have given: the slopes are s * (1 - s) and 1 - g * g.",
)(
    _backward(
        gate_slope=lambda s: s.sigmoid() * (1 - s.sigmoid()),
        candidate_slope=lambda g: 1 - g.tanh() ** 2,
    )
)
lstm_step_backward.wrong(
    "right but for the output gate, which gets the gradient of the cell",
    "o enters through h_new = o * tanh(c_new) alone: grad_h_new * tanh(c_new).",
)(
    _backward(
        parts=lambda d_c, grad_h, i, g, c, c_new, t: (d_c * g, d_c * c, d_c * i, d_c * t),
    )
)


for name, order in {"c comes before h": (1, 0, 2), "W_hh comes first": (2, 0, 1)}.items():

    @lstm_step_backward.wrong(
        f"right but for the order: {name}", "Return the gradients of h, of c and of W_hh."
    )
    def _(*case, order=order):
        found = lstm_step_backward.reference(*case)
        return tuple(found[k] for k in order)
