"""One step: a cell whose gates see the memory, and a GRU of another library's form."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.compare import brief
from textbook.checks.released import exercise

# Gates that see the memory


def stacked_weights(draw, inputs, size, gates):
    """W_ih (gates H, d), W_hh (gates H, H) and b (gates H)."""
    return (
        draw.normal(gates * size, inputs) / inputs**0.5,
        draw.normal(gates * size, size) / size**0.5,
        draw.normal(gates * size),
    )


def _cell_cases(draw, more=()):
    """The last weights make sums in the thousands."""
    sizes = [(1, 1, 2, 1), (3, 2, 4, 1), (2, 3, 5, 1000), *more]
    for batch, inputs, size, scale in sizes:
        W_ih, W_hh, b = stacked_weights(draw, inputs, size, 4)
        states = draw.normal(batch, size), draw.normal(batch, size)
        yield draw.normal(batch, inputs), *states, scale * W_ih, W_hh, b, draw.normal(3, size)


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


peephole_cell = exercise(
    "peephole_cell",
    cases=_cell_cases,
    forbidden=("linear", "lstm"),
    instead="@, .T and chunk",
    properties=(_two_products_at_most,),
    see='chapter 02, "The memory cell and its gates"',
)


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


def _moving_cases(draw, more=()):
    for inputs, size in [(2, 3), (3, 4), *more]:
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


moved_gru = exercise(
    "moved_gru",
    cases=_moving_cases,
    run=_moved,
    gradients=False,
    see='chapter 02, "The gated recurrent unit"',
)
