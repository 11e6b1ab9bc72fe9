"""One step: a cell whose gates see the memory, and a GRU of another library's form."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.compare import brief
from textbook.checks.exercise import exercise

# Gates that see the memory


def stacked_weights(draw, inputs, size, gates):
    """W_ih (gates H, d), W_hh (gates H, H) and b (gates H)."""
    return (
        draw.normal(gates * size, inputs) / inputs**0.5,
        draw.normal(gates * size, size) / size**0.5,
        draw.normal(gates * size),
    )


def _cell_cases(draw, hidden):
    """The last weights make sums in the thousands."""
    sizes = [(1, 1, 2, 1), (3, 2, 4, 1), (2, 3, 5, 1000)] + [(5, 4, 3, 1)] * hidden
    for batch, inputs, size, scale in sizes:
        W_ih, W_hh, b = stacked_weights(draw, inputs, size, 4)
        states = draw.normal(batch, size), draw.normal(batch, size)
        yield draw.normal(batch, inputs), *states, scale * W_ih, W_hh, b, draw.normal(3, size)


def _blocks(a, order="ifgo"):
    """i, f, g, o out of four blocks of H columns that hold the gates in this order."""
    named = dict(zip(order, a.chunk(4, dim=-1), strict=True))
    return [named[gate] for gate in "ifgo"]


def _sum(x_t, h, W_ih, W_hh, b):
    return x_t @ W_ih.T + h @ W_hh.T + b


def _peephole(
    add=_sum,
    blocks=_blocks,
    seen=lambda p, c: p * c,
    rows=(0, 1, 2),
    shown=lambda c, c_new: c_new,
    early=lambda c, c_new: c,
    sigmoid=mt.sigmoid,
    candidate=lambda g, p, c: g.tanh(),
    memory=lambda i, f, g, c, h: f * c + i * g,
    output=lambda o, c_new, c: o * c_new.tanh(),
):
    """The step with one of its pieces exchanged."""

    def cell(x_t, h, c, W_ih, W_hh, b, peepholes):
        p_i, p_f, p_o = (0 * peepholes[0] if row is None else peepholes[row] for row in rows)
        i, f, g, o = blocks(add(x_t, h, W_ih, W_hh, b))
        written = candidate(g, p_i, c)

        def new(past):
            gates = sigmoid(i + seen(p_i, past)), sigmoid(f + seen(p_f, past))
            return memory(*gates, written, c, h)

        c_new = new(early(c, new(c)))
        return output(sigmoid(o + seen(p_o, shown(c, c_new))), c_new, c), c_new

    return cell


def _two_products_at_most(answer, *case):
    with record_operations() as names:
        answer(*case)
    count = sum(name in ("matmul", "einsum_") for name in names)
    if count <= 2:
        return None
    return (
        f"The numbers are right, but your answer multiplies by matrices {count} times. One product "
        "with W_ih and one with W_hh give the sums of all four; cut their sum into four."
    )


@exercise(
    cases=_cell_cases,
    forbidden=("linear", "lstm"),
    instead="@, .T and chunk",
    properties=(_two_products_at_most,),
    see='chapter 02, "The memory cell and its gates"',
)
def peephole_cell(x_t, h, c, W_ih, W_hh, b, peepholes):
    """Input (B, d) and old states (B, H) give the new h and the new c, each (B, H)."""
    p_i, p_f, p_o = peepholes  # (H) each
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)  # (B, H) each
    c = (f + p_f * c).sigmoid() * c + (i + p_i * c).sigmoid() * g.tanh()
    return (o + p_o * c).sigmoid() * c.tanh(), c


ORDER = (
    "The rows of the weights belong to i, f, g, o, in this order; those of peepholes to i, f, o."
)
SQUASH = (
    "A gate says how much passes, from 0 to 1: a sigmoid. What is written may be negative: tanh."
)
for name, hint, pieces in (
    (
        "a cell whose gates do not see the memory: peepholes are not used",
        "Each gate has one number a unit more: p * c goes into its sum, before the sigmoid.",
        {"seen": lambda p, c: 0 * p * c},
    ),
    (
        "right but for the output gate, which sees the old memory",
        "When o is computed, the new cell is there: o looks at c_t.",
        {"shown": lambda c, c_new: c},
    ),
    (
        "right but for input and forget gate, which see the new memory",
        "They decide what the new cell will be, so they can only look at the old one.",
        {"early": lambda c, c_new: c_new},
    ),
    (
        "right but for the peepholes: the gates see tanh(c)",
        "What goes into the sums is p * c, with the cell as it is.",
        {"seen": lambda p, c: p * c.tanh()},
    ),
    (
        "right but for the forget gate, which has no peephole",
        "All three gates have one.",
        {"rows": (0, None, 2)},
    ),
    (
        "right but for the input gate, which has no peephole",
        "All three gates have one.",
        {"rows": (None, 1, 2)},
    ),
    (
        "right but for the output gate, which has no peephole",
        "All three gates have one.",
        {"rows": (0, 1, None)},
    ),
    (
        "right but for the output gate, which sees tanh of the new cell",
        "What goes into its sum is p * c_t, with the cell as it is.",
        {"shown": lambda c, c_new: c_new.tanh()},
    ),
    (
        "right but for the peepholes, of which input and forget gate have each other's",
        ORDER,
        {"rows": (1, 0, 2)},
    ),
    (
        "right but for the candidate, which sees the memory, too",
        "Three of the four have a peephole; g has none.",
        {"candidate": lambda g, p, c: (g + p * c).tanh()},
    ),
    (
        "right but for the candidate: a sigmoid in place of the tanh",
        SQUASH,
        {"candidate": lambda g, p, c: g.sigmoid()},
    ),
    (
        "right but for the candidate: its tanh is missing",
        SQUASH,
        {"candidate": lambda g, p, c: g},
    ),
    (
        "right but for the three gates: tanh in place of the sigmoid",
        SQUASH,
        {"sigmoid": mt.tanh},
    ),
    (
        "right for small sums, but exp of a large one is infinite",
        "The library's sigmoid and tanh take large numbers; (e^a - e^-a) / (e^a + e^-a) is "
        "inf / inf.",
        {
            "candidate": lambda g, p, c: (g.exp() - (-g).exp()) / (g.exp() + (-g).exp()),
        },
    ),
    (
        "right in its values, but 1 / (1 + exp(-a)) has no gradient where a sum is far below zero",
        "exp(-a) is infinite there, and the gradient 0 * inf is not a number. The library's "
        "sigmoid takes large numbers.",
        {"sigmoid": lambda a: 1 / (1 + (-a).exp())},
    ),
    (
        "right but for the biases, which are missing",
        "Each sum has the bias b beside the two products.",
        {"add": lambda x_t, h, W_ih, W_hh, b: x_t @ W_ih.T + h @ W_hh.T},
    ),
    (
        "right but for the old hidden state, which is missing",
        "Each sum looks at the input and at h: add h @ W_hh.T.",
        {"add": lambda x_t, h, W_ih, W_hh, b: x_t @ W_ih.T + b},
    ),
    (
        "right but for the input gate and the forget gate, which are exchanged",
        "The first block of rows belongs to i, which multiplies g; the second to f, which "
        "multiplies the old c.",
        {"blocks": lambda a: _blocks(a, "figo"), "rows": (1, 0, 2)},
    ),
    (
        "right but for the order of the blocks: f, i, g, o",
        ORDER,
        {"blocks": lambda a: _blocks(a, "figo")},
    ),
    (
        "right but for the order of the blocks: i, f, o, g",
        ORDER,
        {"blocks": lambda a: _blocks(a, "ifog")},
    ),
    (
        "right but for the order of the blocks: i, g, f, o",
        ORDER,
        {"blocks": lambda a: _blocks(a, "igfo")},
    ),
    (
        "right but for the blocks: the gates are read from every fourth column",
        "All H columns of i come first, then all of f: chunk(4, dim=-1), or slices of H columns.",
        {"blocks": lambda a: a.reshape(len(a), -1, 4).unbind(-1)},
    ),
    (
        "right but for the output: the tanh around c is missing",
        "h = o * c is the form of some lectures. Here it is o * tanh(c).",
        {"output": lambda o, c_new, c: o * c_new},
    ),
    (
        "right but for the output, which shows the old cell",
        "First the new c, then h = o * tanh(c) with the new one.",
        {"output": lambda o, c_new, c: o * c.tanh()},
    ),
    (
        "right but for the memory: h goes on in place of c",
        "The forget gate multiplies the old cell c.",
        {"memory": lambda i, f, g, c, h: f * h + i * g},
    ),
    (
        "right but for the memory: the input gate is 1 - f",
        "That is a cell with coupled gates. Here the input gate i has weights of its own.",
        {"memory": lambda i, f, g, c, h: f * c + (1 - f) * g},
    ),
    (
        "right but for the memory: the forget gate is missing",
        "The new cell is f * c + i * g. (Without f it is the cell of 1997, which cannot forget.)",
        {"memory": lambda i, f, g, c, h: c + i * g},
    ),
    (
        "right but for the memory: a tanh around the new cell",
        "Nothing squashes the cell from step to step. tanh(c) is only for the output h.",
        {"memory": lambda i, f, g, c, h: (f * c + i * g).tanh()},
    ),
):
    peephole_cell.wrong(name, hint)(_peephole(**pieces))


@peephole_cell.wrong("right but for the order: c comes before h", "Return h first, then c.")
def _(*case):
    h, c = peephole_cell.reference(*case)
    return c, h


@peephole_cell.wrong(
    "right but for the peepholes: the gates see the old h in place of the cell",
    "A peephole looks at the memory: p * c.",
)
def _(x_t, h, c, W_ih, W_hh, b, peepholes):
    i, f, g, o = _blocks(_sum(x_t, h, W_ih, W_hh, b))
    p_i, p_f, p_o = peepholes
    c = (f + p_f * h).sigmoid() * c + (i + p_i * h).sigmoid() * g.tanh()
    return (o + p_o * h).sigmoid() * c.tanh(), c


def lstm_step(x_t, h, c, W_ih, W_hh, b):
    """The step of the usual LSTM."""
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


# A GRU that was trained elsewhere


def gru_step(x_t, h, W_ih, W_hh, b_ih, b_hh):
    """The step of the book's GRU, which is PyTorch's."""
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (
        (x_t @ W_ih.T + b_ih).chunk(3, dim=-1),
        (h @ W_hh.T + b_hh).chunk(3, dim=-1),
    )
    z = (z_x + z_h).sigmoid()
    n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    return (1 - z) * n + z * h


def elsewhere_step(x_t, h, kernel, recurrent, bias):
    """The step of the other program: blocks z, r, n side by side, and z says how much is new."""
    (z_x, r_x, n_x), (z_h, r_h, n_h) = (
        (x @ matrix + b).chunk(3, dim=-1)
        for x, matrix, b in ((x_t, kernel, bias[0]), (h, recurrent, bias[1]))
    )
    z = (z_x + z_h).sigmoid()
    n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    return z * n + (1 - z) * h


def _moving_cases(draw, hidden):
    for inputs, size in [(2, 3), (3, 4)] + [(6, 2), (1, 5)] * hidden:
        kernel = draw.normal(inputs, 3 * size)
        yield kernel, draw.normal(size, 3 * size), draw.normal(2, 3 * size)


def _moved(answer, kernel, recurrent, bias):
    """The shapes of what is returned, and what a GRU with these weights does."""
    found = answer(kernel, recurrent, bias)
    (d, _), (size, _) = kernel.shape, recurrent.shape
    expected = [(3 * size, d), (3 * size, size), (3 * size,), (3 * size,)]
    if not (
        isinstance(found, (list, tuple))
        and len(found) == 4
        and all(isinstance(x, mt.Tensor) for x in found)
    ):
        return {"what is returned": brief(found)}
    shapes = {"what is returned": ", ".join(str(tuple(x.shape)) for x in found)}
    if [tuple(x.shape) for x in found] != expected:
        return shapes | {"the weights": [*found]}
    x, h = mt.linspace(-1, 1, 4 * d).reshape(4, d), mt.linspace(1, -1, 4 * size).reshape(4, size)
    weights = [weight.detach().double() for weight in found]
    return shapes | {"the new state of a GRU with these weights": gru_step(x, h, *weights)}


def _moving(
    order="rzn",
    turned="z",
    turn=lambda x: -x,
    turned_matrices=(0, 1),
    turned_biases=(0, 1),
    matrix=lambda blocks: mt.cat([block.T for block in blocks]),
    biases=lambda b_ih, b_hh: (b_ih, b_hh),
    stands="zrn",
):
    """The weights with one of the pieces exchanged."""

    def moving(kernel, recurrent, bias):
        def parts(x, turning=True):
            named = dict(zip(stands, x.chunk(3, dim=-1), strict=True))
            return [turn(named[k]) if k in turned and turning else named[k] for k in order]

        b_ih, b_hh = (mt.cat(parts(b, k in turned_biases)) for k, b in enumerate(bias))
        W_ih, W_hh = (
            matrix(parts(x, k in turned_matrices)) for k, x in enumerate((kernel, recurrent))
        )
        return W_ih, W_hh, *biases(b_ih, b_hh)

    return moving


@exercise(
    cases=_moving_cases,
    run=_moved,
    gradients=False,
    see='chapter 02, "The gated recurrent unit"',
)
def moved_gru(kernel, recurrent, bias):
    """kernel (d, 3 H), recurrent (H, 3 H), bias (2, 3 H) give W_ih, W_hh, b_ih and b_hh."""

    def moved(columns):
        z, r, n = columns.chunk(3, dim=-1)
        return mt.cat([r, -z, n], dim=-1)  # sigmoid(-a) is 1 - sigmoid(a)

    b_ih, b_hh = moved(bias)
    return moved(kernel).T, moved(recurrent).T, b_ih, b_hh


TURN = (
    "What is new here is old there: z becomes 1 - z. sigmoid(-a) is 1 - sigmoid(a), so all that "
    "goes into the sum of z changes its sign."
)
BLOCKS = "The blocks stand as z, r, n and have to stand as r, z, n."
for name, hint, pieces in (
    ("right but for z, which keeps what it should renew", TURN, {"turned": ""}),
    (
        "right but for the sign, which is that of the reset gate",
        "It is z that has the opposite meaning; r is the same in both. " + BLOCKS,
        {"turned": "r"},
    ),
    (
        "right but for the sign, which changes in the candidate",
        "It is z that has the opposite meaning. " + BLOCKS,
        {"turned": "n"},
    ),
    (
        "right but for the biases of z, whose signs have not changed",
        TURN,
        {"turned_biases": ()},
    ),
    (
        "right but for z, whose signs have changed in kernel alone",
        "They change in recurrent and in both biases, too. " + TURN,
        {"turned_matrices": (0,), "turned_biases": ()},
    ),
    (
        "right but for z in recurrent, whose signs have not changed",
        TURN,
        {"turned_matrices": (0,)},
    ),
    (
        "right but for z in kernel, whose signs have not changed",
        TURN,
        {"turned_matrices": (1,)},
    ),
    (
        "right but for the second bias of z, whose sign has not changed",
        TURN,
        {"turned_biases": (0,)},
    ),
    (
        "right but for the first bias of z, whose sign has not changed",
        TURN,
        {"turned_biases": (1,)},
    ),
    (
        "right but for z: its weights are replaced by 1 minus them",
        "1 - z is no matter of 1 - weights. " + TURN,
        {"turn": lambda x: 1 - x},
    ),
    (
        "right but for the signs, which have changed in all blocks",
        TURN,
        {"turned": "rzn"},
    ),
    (
        "right but for the signs, which have changed in the candidate as well",
        "It is z alone that has the opposite meaning.",
        {"turned": "zn"},
    ),
    (
        "right but for the signs, which have changed in the reset gate as well",
        "It is z alone that has the opposite meaning.",
        {"turned": "rz"},
    ),
    ("right but for the order of the blocks, which is still z, r, n", BLOCKS, {"order": "zrn"}),
    (
        "right but for the order of the blocks, which is still z, r, n, and for the sign of z",
        BLOCKS + " " + TURN,
        {"order": "zrn", "turned": ""},
    ),
    ("right but for the order of the blocks: r, n, z", BLOCKS, {"order": "rnz"}),
    ("right but for the order of the blocks: n, r, z", BLOCKS, {"order": "nrz"}),
    ("right but for the order of the blocks: z, n, r", BLOCKS, {"order": "znr"}),
    ("right but for the order of the blocks: n, z, r", BLOCKS, {"order": "nzr"}),
    (
        "right but for the matrices, which are reshaped and not transposed",
        "reshape keeps the numbers in the order in which they are read, row by row. Rows have to "
        "become columns: .T.",
        {"matrix": lambda blocks: mt.cat(blocks, dim=-1).reshape(-1, len(blocks[0]))},
    ),
    (
        "right but for the two biases, which are exchanged",
        "The first row of bias stands beside kernel, the second beside recurrent; in the candidate "
        "it matters, since r multiplies one of them.",
        {"biases": lambda b_ih, b_hh: (b_hh, b_ih)},
    ),
    (
        "right but for the two biases, which are added up into one",
        "For r and z only the sum counts. In the candidate the second one stands inside the "
        "brackets, which r multiplies.",
        {"biases": lambda b_ih, b_hh: (b_ih + b_hh, 0 * b_hh)},
    ),
    (
        "right but for the second bias, which is 0",
        "bias has two rows: b_ih and b_hh.",
        {"biases": lambda b_ih, b_hh: (b_ih, 0 * b_hh)},
    ),
    (
        "right but for the matrices, which are not transposed",
        "Here vectors are rows and a matrix stands as PyTorch stores it, (3 H, d): .T.",
        {"matrix": lambda blocks: mt.cat(blocks, dim=-1)},
    ),
):
    moved_gru.wrong(name, hint)(_moving(**pieces))


@moved_gru.wrong(
    "right but for W_hh, whose blocks are not transposed",
    "A block of recurrent is square, so it fits either way: transpose it as that of kernel.",
)
def _(kernel, recurrent, bias):
    W_ih, _, b_ih, b_hh = moved_gru.reference(kernel, recurrent, bias)
    z, r, n = recurrent.chunk(3, dim=-1)
    return W_ih, mt.cat([r, -z, n]), b_ih, b_hh
