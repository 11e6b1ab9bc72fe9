"""One step: the gates, the cell of the LSTM, the cell of the GRU."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.chapter_01.states import draw_weights
from textbook.checks.exercise import exercise

# The gates


def _step_sizes(hidden):
    """Batch, inputs and units of each case."""
    return [(1, 1, 2), (3, 2, 4)] + [(5, 4, 3)] * hidden


def _gate_cases(draw, hidden):
    for batch, inputs, size in _step_sizes(hidden):
        weights = [draw_weights(draw, inputs, size) for _ in range(4)]
        yield draw.normal(batch, inputs), draw.normal(batch, size), *weights


def _sum(x_t, h, weights):
    """(B, H): what goes into one gate."""
    W_ih, W_hh, b = weights
    return x_t @ W_ih.T + h @ W_hh.T + b


def _gates(add=_sum, gate=mt.sigmoid, candidate=mt.tanh):
    """The three gates and the candidate, with one of the pieces exchanged."""

    def gates(x_t, h, weights_i, weights_f, weights_g, weights_o):
        i, f, o = (gate(add(x_t, h, weights)) for weights in (weights_i, weights_f, weights_o))
        return i, f, candidate(add(x_t, h, weights_g)), o

    return gates


@exercise(
    cases=_gate_cases,
    forbidden=("linear",),
    instead="@ and .T",
    see='chapter 02, "The memory cell and its gates"',
)
def lstm_gates(x_t, h, weights_i, weights_f, weights_g, weights_o):
    """Input (B, d) and old state (B, H) give i, f, g, o, each (B, H)."""
    all_weights = [weights_i, weights_f, weights_g, weights_o]
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b for W_ih, W_hh, b in all_weights)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


lstm_gates.wrong(
    "right but for the candidate: a sigmoid in place of the tanh",
    "g is no gate but what is written, and that may be negative: its nonlinearity is tanh.",
)(_gates(candidate=mt.sigmoid))
lstm_gates.wrong(
    "right but for the three gates: tanh in place of the sigmoid",
    "A gate says how much passes, from 0 to 1: its nonlinearity is the sigmoid.",
)(_gates(gate=mt.tanh))
lstm_gates.wrong(
    "the other way round: tanh for the gates and the sigmoid for the candidate",
    "A gate says how much passes, from 0 to 1, so it is a sigmoid. The candidate may be negative, "
    "so it is a tanh.",
)(_gates(gate=mt.tanh, candidate=mt.sigmoid))
lstm_gates.wrong(
    "the sums that go into the gates, without sigmoid and tanh",
    "Squash the sums: i, f, o by the sigmoid, g by tanh.",
)(_gates(gate=lambda a: a, candidate=lambda a: a))
lstm_gates.wrong(
    "the gates without their biases",
    "Each sum has three terms; the bias is missing.",
)(_gates(add=lambda x_t, h, weights: x_t @ weights[0].T + h @ weights[1].T))
lstm_gates.wrong(
    "the gates without the old state",
    "A gate looks at the input and at h: add h @ W_hh.T.",
)(_gates(add=lambda x_t, h, weights: x_t @ weights[0].T + weights[2]))
lstm_gates.wrong(
    "the gates with W_hh not transposed",
    "W_hh is square, so h @ W_hh fits too, but row j of W_hh belongs to unit j of the gate: the "
    "product is h @ W_hh.T.",
)(_gates(add=lambda x_t, h, weights: x_t @ weights[0].T + h @ weights[1] + weights[2]))


@lstm_gates.wrong(
    "right but for the order: the candidate comes last",
    "The book and PyTorch list them as i, f, g, o.",
)
def _(*case):
    i, f, g, o = lstm_gates.reference(*case)
    return i, f, o, g


@lstm_gates.wrong(
    "right but for the order: the forget gate comes first",
    "The book and PyTorch list them as i, f, g, o.",
)
def _(*case):
    i, f, g, o = lstm_gates.reference(*case)
    return f, i, g, o


# The cell of the LSTM


def stacked_weights(draw, inputs, size, gates):
    """W_ih (gates H, d), W_hh (gates H, H) and b (gates H)."""
    parts = [draw_weights(draw, inputs, size) for _ in range(gates)]
    return tuple(mt.cat(blocks) for blocks in zip(*parts, strict=True))


def _cell_cases(draw, hidden):
    for batch, inputs, size in _step_sizes(hidden):
        states = draw.normal(batch, size), draw.normal(batch, size)
        yield draw.normal(batch, inputs), *states, *stacked_weights(draw, inputs, size, 4)


def _blocks(a, order="ifgo"):
    """i, f, g, o out of four blocks of H columns that hold the gates in this order."""
    named = dict(zip(order, a.chunk(4, dim=-1), strict=True))
    return [named[gate] for gate in "ifgo"]


def _lstm_cell(
    blocks=_blocks,
    candidate=mt.tanh,
    memory=lambda i, f, g, c, h: f * c + i * g,
    output=lambda o, c_new, c: o * c_new.tanh(),
):
    """The step with one of its pieces exchanged."""

    def cell(x_t, h, c, W_ih, W_hh, b):
        i, f, g, o = blocks(x_t @ W_ih.T + h @ W_hh.T + b)
        c_new = memory(i.sigmoid(), f.sigmoid(), candidate(g), c, h)
        return output(o.sigmoid(), c_new, c), c_new

    return cell


def _two_products_at_most(answer, *case):
    with record_operations() as names:
        answer(*case)
    count = sum(name in ("matmul", "einsum_") for name in names)
    if count <= 2:
        return None
    return (
        f"The numbers are right, but your answer multiplies by matrices {count} times. One product "
        "with W_ih and one with W_hh give all four gates; cut their sum into four."
    )


@exercise(
    cases=_cell_cases,
    forbidden=("linear", "lstm"),
    instead="@, .T and chunk",
    properties=(_two_products_at_most,),
    see='chapter 02, "The loop, one product for all gates, and the library"',
)
def lstm_cell(x_t, h, c, W_ih, W_hh, b):
    """Input (B, d) and old states (B, H) give the new h and the new c, each (B, H)."""
    sums = x_t @ W_ih.T + h @ W_hh.T + b  # (B, 4 H)
    i, f, g, o = sums.chunk(4, dim=-1)  # (B, H) each
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


lstm_cell.wrong(
    "right but for the input gate and the forget gate, which are exchanged",
    "The first block of rows belongs to i, which multiplies g; the second to f, which multiplies "
    "the old c.",
)(_lstm_cell(blocks=lambda a: _blocks(a, "figo")))
lstm_cell.wrong(
    "right but for the order of the blocks: i, f, o, g",
    "The candidate is the third block: i, f, g, o.",
)(_lstm_cell(blocks=lambda a: _blocks(a, "ifog")))
lstm_cell.wrong(
    "right but for the order of the blocks: i, g, f, o",
    "The forget gate is the second block: i, f, g, o.",
)(_lstm_cell(blocks=lambda a: _blocks(a, "igfo")))
lstm_cell.wrong(
    "right but for the blocks: the gates are read from every fourth column",
    "All H columns of i come first, then all of f: chunk(4, dim=-1), or slices of H columns.",
)(_lstm_cell(blocks=lambda a: a.reshape(len(a), -1, 4).unbind(-1)))
lstm_cell.wrong(
    "right but for the candidate: a sigmoid in place of the tanh",
    "What is written into the cell may be negative: g goes through tanh.",
)(_lstm_cell(candidate=mt.sigmoid))
lstm_cell.wrong(
    "right but for the output: the tanh around c is missing",
    "h = o * c is the form of some lectures. The usual cell, and PyTorch's, has h = o * tanh(c).",
)(_lstm_cell(output=lambda o, c_new, c: o * c_new))
lstm_cell.wrong(
    "right but for the output, which shows the old cell",
    "First the new c, then h = o * tanh(c) with the new one.",
)(_lstm_cell(output=lambda o, c_new, c: o * c.tanh()))
lstm_cell.wrong(
    "right but for the memory: h goes on in place of c",
    "The forget gate multiplies the old cell c. h enters only through the sums of the gates.",
)(_lstm_cell(memory=lambda i, f, g, c, h: f * h + i * g))
lstm_cell.wrong(
    "right but for the memory: the input gate is 1 - f",
    "That is a cell with coupled gates. Here the input gate i has weights of its own.",
)(_lstm_cell(memory=lambda i, f, g, c, h: f * c + (1 - f) * g))
lstm_cell.wrong(
    "right but for the memory: the forget gate is missing",
    "The new cell is f * c + i * g. (Without f it is the cell of 1997, which cannot forget.)",
)(_lstm_cell(memory=lambda i, f, g, c, h: c + i * g))
lstm_cell.wrong(
    "right but for the memory: the old cell is not in it",
    "The new cell is f * c + i * g: part of what was there stays.",
)(_lstm_cell(memory=lambda i, f, g, c, h: i * g))
lstm_cell.wrong(
    "right but for the memory: a tanh around the new cell",
    "Nothing squashes the cell from step to step; that is why its gradient lives. tanh(c) is only "
    "for the output h.",
)(_lstm_cell(memory=lambda i, f, g, c, h: (f * c + i * g).tanh()))


@lstm_cell.wrong("right but for the order: c comes before h", "Return h first, then c.")
def _(*case):
    h, c = lstm_cell.reference(*case)
    return c, h


# The cell of the GRU


def _gru_cases(draw, hidden):
    for batch, inputs, size in _step_sizes(hidden):
        W_ih, W_hh, b_ih = stacked_weights(draw, inputs, size, 3)
        h, b_hh = draw.normal(batch, size), draw.normal(3 * size)
        yield draw.normal(batch, inputs), h, W_ih, W_hh, b_ih, b_hh


def _candidate(r, x_n, h, W_n, b_n):
    """n, with the reset gate after the product."""
    return (x_n + r * (h @ W_n.T + b_n)).tanh()


def _gru_cell(order="rzn", candidate=_candidate, update=lambda z, n, h: (1 - z) * n + z * h):
    """The step with one of its pieces exchanged."""

    def cell(x_t, h, W_ih, W_hh, b_ih, b_hh):
        from_x = dict(zip(order, (x_t @ W_ih.T + b_ih).chunk(3, dim=-1), strict=True))
        weights = dict(zip(order, W_hh.chunk(3), strict=True))
        biases = dict(zip(order, b_hh.chunk(3), strict=True))
        r, z = ((from_x[k] + h @ weights[k].T + biases[k]).sigmoid() for k in "rz")
        return update(z, candidate(r, from_x["n"], h, weights["n"], biases["n"]), h)

    return cell


@exercise(
    cases=_gru_cases,
    forbidden=("linear", "gru"),
    instead="@, .T and chunk",
    see='chapter 02, "The gated recurrent unit"',
)
def gru_cell(x_t, h, W_ih, W_hh, b_ih, b_hh):
    """Input (B, d) and old state (B, H) give the new state (B, H)."""
    r_x, z_x, n_x = (x_t @ W_ih.T + b_ih).chunk(3, dim=-1)  # (B, H) each
    r_h, z_h, n_h = (h @ W_hh.T + b_hh).chunk(3, dim=-1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return (1 - z) * n + z * h


gru_cell.wrong(
    "the GRU of the first paper: the reset gate multiplies h before the product",
    "With W_hn (r * h) one more product must wait for r, and PyTorch's weights give other numbers. "
    "Here r multiplies the finished product: r * (h @ W_hn.T + b_hn).",
)(_gru_cell(candidate=lambda r, x_n, h, W, b: (x_n + (r * h) @ W.T + b).tanh()))
gru_cell.wrong(
    "right but for the bias of the candidate, which stands outside the reset",
    "The last third of b_hh belongs to the product with h, so r multiplies it too.",
)(_gru_cell(candidate=lambda r, x_n, h, W, b: (x_n + r * (h @ W.T) + b).tanh()))
gru_cell.wrong(
    "right but for the candidate: the reset gate multiplies the input's share too",
    "r closes the way from the old state alone; the input's share is outside.",
)(_gru_cell(candidate=lambda r, x_n, h, W, b: (r * (x_n + h @ W.T + b)).tanh()))
gru_cell.wrong(
    "right but for the candidate: the reset gate is not used",
    "The share of the old state in n is multiplied by r.",
)(_gru_cell(candidate=lambda r, x_n, h, W, b: (x_n + h @ W.T + b).tanh()))
gru_cell.wrong(
    "right but for the candidate: a sigmoid in place of the tanh",
    "n is no gate but a new state, and that may be negative: tanh.",
)(_gru_cell(candidate=lambda r, x_n, h, W, b: (x_n + r * (h @ W.T + b)).sigmoid()))
gru_cell.wrong(
    "right but for the update gate: z and 1 - z are exchanged",
    "Papers differ here. In PyTorch z = 1 keeps the old state: (1 - z) * n + z * h.",
)(_gru_cell(update=lambda z, n, h: z * n + (1 - z) * h))
gru_cell.wrong(
    "right but for the update: the candidate is added whole",
    "New and old share one unit of weight: (1 - z) * n + z * h.",
)(_gru_cell(update=lambda z, n, h: n + z * h))
gru_cell.wrong(
    "right but for the order of the blocks: z, r, n",
    "The first block of rows belongs to the reset gate r, the second to the update gate z.",
)(_gru_cell(order="zrn"))
