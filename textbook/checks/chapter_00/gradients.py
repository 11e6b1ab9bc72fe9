"""Gradients of what is used several times: copies of a tensor, and a weight in two places."""

from textbook.checks.compare import difference
from textbook.checks.exercise import exercise

# Copies


def _copy_cases(draw, hidden):
    shapes = [
        ((3,), (6,)),
        ((2, 3), (4, 2, 9)),
        ((1, 4), (3, 2, 4)),
        ((3, 1), (3, 5)),
        ((), (2, 3)),
        ((2, 3), (2, 3)),
        ((4,), (3, 4)),
        ((4, 2), (12, 2)),
        ((2, 3), (4, 6)),
    ]
    if hidden:
        shapes += [((2, 1, 3), (5, 8, 4, 9)), ((1, 1), (7, 3)), ((3, 2), (2, 1, 3, 6))]
    for shape, copied in shapes:
        yield draw.normal(*copied), shape


def _apart(axis, size, g):
    """Axis (copies * size) as two, copies first."""
    shape = [*g.shape]
    return g.reshape(*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])


def _summed(
    fold=lambda axis, size, g: _apart(axis, size, g).sum(dim=axis),
    in_front=lambda g: g.sum(dim=0),
):
    """The gradient with one of its pieces exchanged."""

    def summed(g, shape):
        while g.ndim > len(shape):
            g = in_front(g)
        for axis, size in enumerate(shape):
            g = fold(axis, size, g)
        return g

    return summed


def _all_in_front(check, answer, g, shape):
    """Whether it would be right with one axis fewer in front."""
    front = g.ndim - len(shape)
    if front < 2 or difference(answer(g.sum(dim=0), shape), check.reference(g, shape), ""):
        return None
    return f"g has {front} axes more than `shape`: sum over all of those in front."


@exercise(
    cases=_copy_cases,
    gradients=False,
    forbidden=("backward",),
    instead="sums over the copies",
    reasons=(_all_in_front,),
    see='chapter 00, "From numbers to arrays"',
)
def sum_copies(g, shape):
    """The gradient of the copies, and the shape of what was copied -> a tensor of that shape."""
    while g.ndim > len(shape):
        g = g.sum(dim=0)
    for axis, size in enumerate(shape):
        copies = g.shape[axis] // size
        g = g.unflatten(axis, (copies, size)).sum(dim=axis)
    return g


sum_copies.wrong(
    "right for broadcasting alone, where an axis has length 1 or keeps its length",
    "An axis of length k may come back with length 2k or 3k: sum over its copies.",
)(
    _summed(
        fold=lambda axis, size, g: g.sum(dim=axis, keepdim=True) if size == 1 else g,
    )
)
sum_copies.wrong(
    "the sum of the whole axis at each of its places",
    "Only the copies of one place belong together: those that are `size` places apart.",
)(
    _summed(
        fold=lambda axis, size, g: (
            g
            if g.shape[axis] == size
            else g.sum(dim=axis, keepdim=True).expand(*g.shape[:axis], size, *g.shape[axis + 1 :])
        ),
    )
)
sum_copies.wrong(
    "right but for the order of the copies: it sums neighbors",
    "a b c becomes a b c a b c, not a a b b c c: the copies of a are `size` places apart. Split "
    "the axis into (copies, size), in this order.",
)(
    _summed(
        fold=lambda axis, size, g: g.unflatten(axis, (size, g.shape[axis] // size)).sum(
            dim=axis + 1
        ),
    )
)
sum_copies.wrong(
    "the mean over the copies",
    "Each copy has acted on the loss, and what they did adds up: a sum.",
)(
    _summed(
        fold=lambda axis, size, g: _apart(axis, size, g).mean(dim=axis),
        in_front=lambda g: g.mean(dim=0),
    )
)
sum_copies.wrong(
    "the gradient of the first copy alone",
    "All copies have acted on the loss: add their gradients up.",
)(
    _summed(
        fold=lambda axis, size, g: g.narrow(axis, 0, size),
        in_front=lambda g: g[0],
    )
)
sum_copies.wrong(
    "the gradient of the last copy alone",
    "All copies have acted on the loss: add their gradients up.",
)(
    _summed(
        fold=lambda axis, size, g: g.narrow(axis, g.shape[axis] - size, size),
        in_front=lambda g: g[-1],
    )
)
sum_copies.wrong(
    "right but for axes that are longer than they were, over whose copies it averages",
    "Each copy has acted on the loss, and what they did adds up: a sum.",
)(_summed(fold=lambda axis, size, g: _apart(axis, size, g).mean(dim=axis)))
sum_copies.wrong(
    "the sum over blocks of `shape` as they lie in memory",
    "Copies lie along each axis by themselves: reshape(-1, *shape) cuts across them. Go axis by "
    "axis.",
)(lambda g, shape: g.reshape(-1, *shape).sum(dim=0))
sum_copies.wrong(
    "right but for the axes in front, of which it takes the first place alone",
    "Along an added axis all is the same, so each place is a copy: sum.",
)(_summed(in_front=lambda g: g[0]))
sum_copies.wrong(
    "right but for the axes in front, over which it averages",
    "Along an added axis all is the same, so each place is a copy: sum.",
)(_summed(in_front=lambda g: g.mean(dim=0)))
sum_copies.wrong(
    "right but for axes that are longer than they were, of which it takes the first copy",
    "All copies have acted on the loss: add their gradients up.",
)(_summed(fold=lambda axis, size, g: g.narrow(axis, 0, size)))
sum_copies.wrong(
    "right but for axes of length 1, which are gone",
    "The result has the shape of what was copied: keepdim=True.",
)(lambda g, shape: _summed()(g, shape).reshape(*[size for size in shape if size != 1]))
sum_copies.wrong(
    "right for axes of length 1; of the copies of others it takes the first alone",
    "An axis of length k may come back with length 2k or 3k: sum over its copies.",
)(
    _summed(
        fold=lambda axis, size, g: (
            g.sum(dim=axis, keepdim=True) if size == 1 else g.narrow(axis, 0, size)
        )
    )
)
sum_copies.wrong(
    "right but for axes that come back longer than twice, of whose copies it takes two",
    "There may be any number of copies: g.shape[axis] // size.",
)(
    _summed(
        fold=lambda axis, size, g: (
            g.sum(dim=axis, keepdim=True)
            if size == 1
            else sum(
                g.narrow(axis, at, size) for at in range(0, min(g.shape[axis], 2 * size), size)
            )
        )
    )
)


@sum_copies.wrong(
    "right but for the axes in front, of which it sums one at most",
    "There may be several axes in front: sum while g.ndim > len(shape).",
)
def _(g, shape):
    return sum_copies.reference(g, shape) if g.ndim <= len(shape) + 1 else g.sum(dim=0)


@sum_copies.wrong(
    "right where one axis has copies; where several have, it stops behind the first of them",
    "Each axis of `shape` may have copies: go through all of them.",
)
def _(g, shape):
    while g.ndim > len(shape):
        g = g.sum(dim=0)
    for axis, size in enumerate(shape):
        if g.shape[axis] != size:
            return _apart(axis, size, g).sum(dim=axis)
    return g


def _in_place_of_front(g, shape):
    """Each axis by its number, as if there were none in front."""
    for axis, size in enumerate(shape):
        g = g.unflatten(axis, (g.shape[axis] // size, size)).sum(dim=axis)
    return g


sum_copies.wrong(
    "the sum over the copies as if no axis had been put in front",
    "Axis 0 of `shape` is not axis 0 of g then: sum over the axes in front first.",
)(_in_place_of_front)


@sum_copies.wrong(
    "right for the last axis and those in front alone",
    "Each axis of `shape` may have copies: go through all of them.",
)
def _(g, shape):
    while g.ndim > len(shape):
        g = g.sum(dim=0)
    if not shape:
        return g
    return g.unflatten(-1, (g.shape[-1] // shape[-1], shape[-1])).sum(dim=-2)


sum_copies.wrong(
    "the sum over everything",
    "Each element of what was copied has copies of its own.",
)(lambda g, shape: g.sum())
sum_copies.wrong(
    "the gradient of the copies as it came",
    "A gradient has the shape of what it belongs to.",
)(lambda g, shape: g)

# A weight that is used twice


def _tied_cases(draw, hidden):
    for leading in [(3,), (2, 4), (2, 1, 3)] + [(2, 1, 3, 2)] * hidden:
        yield draw.normal(*leading, 4), draw.normal(4, 5), draw.normal(5), draw.normal(*leading, 4)
    yield draw.normal(4, 3), draw.normal(3, 3), draw.normal(3), draw.normal(4, 3)
    yield draw.normal(1, 2), draw.normal(2, 4), draw.normal(4), draw.normal(1, 2)


def _rows(x):
    return x.reshape(-1, x.shape[-1])


def _tied(
    back=lambda g, weight: g @ weight,
    first=lambda x, g_h: _rows(x).T @ _rows(g_h),
    second=lambda h, g: _rows(g).T @ _rows(h),
    add=lambda first, second: first + second,
    bias=lambda g_h: _rows(g_h).sum(dim=0),
    hidden=lambda x, weight, bias: x @ weight + bias,
    down=lambda g_h, weight: g_h @ weight.T,
):
    """The gradients with one of their pieces exchanged."""

    def gradients(x, weight, b, g):
        g_h = back(g, weight)
        both = add(first(x, g_h), second(hidden(x, weight, b), g))
        return down(g_h, weight), both, bias(g_h)

    return gradients


@exercise(
    cases=_tied_cases,
    gradients=False,
    forbidden=("backward",),
    instead="matrix products and sums",
    see='chapter 00, "From numbers to arrays"',
)
def tied_gradients(x, weight, bias, g):
    """(..., k), (k, m), (m), (..., k) -> gradients of shape (..., k), (k, m) and (m)."""
    k, m = weight.shape
    h = x @ weight + bias  # (..., m)
    g_h = g @ weight  # (..., m)
    x_rows, g_rows = x.reshape(-1, k), g.reshape(-1, k)  # all leading axes as one
    h_rows, g_h_rows = h.reshape(-1, m), g_h.reshape(-1, m)
    toward_weight = x_rows.T @ g_h_rows + g_rows.T @ h_rows  # both uses
    return g_h @ weight.T, toward_weight, g_h_rows.sum(dim=0)


ONCE = "The weight acts on the loss in two places: add both shares."
tied_gradients.wrong(
    "right but for the weight, of whose two uses it counts the second alone", ONCE
)(_tied(add=lambda first, second: second))
tied_gradients.wrong("right but for the weight, of whose two uses it counts the first alone", ONCE)(
    _tied(add=lambda first, second: first)
)
tied_gradients.wrong(
    "right but for the weight, whose two shares it averages", "Shares are added, not averaged."
)(_tied(add=lambda first, second: (first + second) / 2))
tied_gradients.wrong(
    "right but for the weight, of whose two shares one is subtracted", "Shares are added."
)(_tied(add=lambda first, second: first - second))
tied_gradients.wrong(
    "right but for the weight, whose gradient comes out transposed",
    "A gradient has the shape of what it belongs to: (k, m).",
)(_tied(add=lambda first, second: (first + second).T))
tied_gradients.wrong(
    "right but for the weight, whose second share is h^T g, brought to its shape by reshape",
    "reshape puts numbers to other places. The share is g^T h, which has the shape (k, m).",
)(_tied(second=lambda h, g: (_rows(h).T @ _rows(g)).reshape(g.shape[-1], h.shape[-1])))
tied_gradients.wrong(
    "right but for the weight and the bias, whose gradients are averaged over the rows",
    "g is the gradient of the loss already, with its mean if it has one: the rows' shares are "
    "added.",
)(
    _tied(
        first=lambda x, g_h: _rows(x).T @ _rows(g_h) / len(_rows(x)),
        second=lambda h, g: _rows(g).T @ _rows(h) / len(_rows(h)),
        bias=lambda g_h: _rows(g_h).mean(dim=0),
    )
)
tied_gradients.wrong(
    "right but for the weight, whose gradient is averaged over the rows",
    "The rows' shares are added; a mean belongs into the loss, not here.",
)(
    _tied(
        first=lambda x, g_h: _rows(x).T @ _rows(g_h) / len(_rows(x)),
        second=lambda h, g: _rows(g).T @ _rows(h) / len(_rows(h)),
    )
)
tied_gradients.wrong(
    "right but for the weight, in whose second share the bias is forgotten",
    "What the second product multiplies is h = x W + b.",
)(_tied(hidden=lambda x, weight, bias: x @ weight))
tied_gradients.wrong(
    "right but for the weight, in whose second share stands x W W in place of h",
    "What the second product multiplies is h = x W + b.",
)(_tied(hidden=lambda x, weight, bias: (x @ weight + bias) @ weight.T @ weight))
tied_gradients.wrong(
    "right but for the weight, which gets a gradient for each matrix of the batch",
    "One weight serves the whole batch, so its gradient is the sum over the batch. Fold the "
    "leading axes into one first: x.reshape(-1, k).",
)(_tied(first=lambda x, g_h: x.mT @ g_h, second=lambda h, g: g.mT @ h))
tied_gradients.wrong(
    "right but for the bias, whose gradient you average",
    "The bias was added to each row, so its gradient is the sum over the rows.",
)(_tied(bias=lambda g_h: _rows(g_h).mean(dim=0)))
tied_gradients.wrong(
    "right but for the bias, whose gradient keeps leading axes",
    "The bias has shape (m): sum over all axes but the last.",
)(_tied(bias=lambda g_h: g_h.sum(dim=0)))
tied_gradients.wrong(
    "right but for the bias, whose gradient is not summed over the rows",
    "The bias was added to each row, so its gradient is the sum over the rows.",
)(_tied(bias=lambda g_h: g_h))
tied_gradients.wrong(
    "right but for the bias, whose gradient has an axis too many",
    "The bias has shape (m): no keepdim.",
)(_tied(bias=lambda g_h: _rows(g_h).sum(dim=0, keepdim=True)))
tied_gradients.wrong(
    "right but for the bias, whose gradient is summed over everything",
    "The bias has shape (m): sum over all axes but the last.",
)(_tied(bias=lambda g_h: g_h.sum()))
tied_gradients.wrong(
    "right but for the weight, to which both uses are taken for the same",
    "The two uses have different shares: x^T g_h for the first, g^T h for the second.",
)(_tied(add=lambda first, second: 2 * first))
tied_gradients.wrong(
    "right but for x, to which g is added as it is",
    "x acts on the loss through h alone: there is no way past both products.",
)(lambda x, *rest: (_tied()(x, *rest)[0] + rest[-1], *_tied()(x, *rest)[1:]))
tied_gradients.wrong(
    "right but for x, which gets g itself",
    "g is the gradient of y. Send it back through both products.",
)(lambda x, weight, bias, g: (g, *_tied()(x, weight, bias, g)[1:]))
tied_gradients.wrong(
    "right but for x, whose gradient stops at h",
    "From h it goes on through the first product: g_h @ W.T.",
)(_tied(down=lambda g_h, weight: g_h))


@tied_gradients.wrong(
    "right but for x and the bias: g has not been sent back through the second product",
    "g is the gradient of y. That of h is g @ W.",
)
def _(x, weight, bias, g):
    _, toward_weight, _ = tied_gradients.reference(x, weight, bias, g)
    return g, toward_weight, g.reshape(-1, g.shape[-1]).sum(dim=0)


@tied_gradients.wrong(
    "the gradients in another order", "Return those of x, of the weight and of the bias."
)
def _(x, weight, bias, g):
    toward_x, toward_weight, toward_bias = tied_gradients.reference(x, weight, bias, g)
    return toward_weight, toward_bias, toward_x
