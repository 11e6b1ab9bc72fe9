"""One step of an LSTM backward."""

from textbook.checks.compare import difference
from textbook.checks.released import exercise


def _backward_cases(draw, more=()):
    for batch, size in [(2, 3), (3, 4), *more]:
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


lstm_step_backward = exercise(
    "lstm_step_backward",
    cases=_backward_cases,
    reasons=(_which_rows,),
    forbidden=("lstm", "backward"),
    instead="the chain rule on the formulas of the step, from the last to the first",
    gradients=False,
    see='chapter 02, "What keeps a gradient alive"',
)
