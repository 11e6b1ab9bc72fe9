"""Gradients of what is used several times: copies of a tensor, and a weight in two places."""

from textbook.checks.compare import difference
from textbook.checks.exercise import exercise

# Copies


def _copy_cases(draw, more=()):
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
    shapes += more
    for shape, copied in shapes:
        yield draw.normal(*copied), shape


def _all_in_front(check, answer, g, shape):
    """Whether it would be right with one axis fewer in front."""
    front = g.ndim - len(shape)
    if front < 2 or difference(answer(g.sum(dim=0), shape), check.reference(g, shape), ""):
        return None
    return f"g has {front} axes more than `shape`: sum over all of those in front."


@exercise(
    cases=_copy_cases,
    hidden_cases=lambda draw: _copy_cases(
        draw, more=[((2, 1, 3), (5, 8, 4, 9)), ((1, 1), (7, 3)), ((3, 2), (2, 1, 3, 6))]
    ),
    gradients=False,
    forbidden=("backward",),
    instead="sums over the copies",
    reasons=(_all_in_front,),
    after_passing=(
        "Shorter: one unflatten to copies and size for all axes, and one sum over all axes of "
        "copies."
    ),
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


# A weight that is used twice


def _tied_cases(draw, more=()):
    for leading in [(3,), (2, 4), (2, 1, 3), *more]:
        yield draw.normal(*leading, 4), draw.normal(4, 5), draw.normal(5), draw.normal(*leading, 4)
    yield draw.normal(4, 3), draw.normal(3, 3), draw.normal(3), draw.normal(4, 3)
    yield draw.normal(1, 2), draw.normal(2, 4), draw.normal(4), draw.normal(1, 2)


@exercise(
    cases=_tied_cases,
    hidden_cases=lambda draw: _tied_cases(draw, more=[(2, 1, 3, 2)]),
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
