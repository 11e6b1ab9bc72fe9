"""How tensors print: as in PyTorch, four digits after the point."""

import numpy as np


def _number_format(values):
    """The function that writes one element, chosen to suit all of them."""
    if values.dtype.kind != "f":
        return str
    finite = values[np.isfinite(values)]
    if not finite.size or np.all(finite == np.floor(finite)) and np.abs(finite).max() < 1e8:
        return lambda x: f"{x:.0f}." if np.isfinite(x) else f"{x}"
    sizes = np.abs(finite[finite != 0])
    if sizes.max() >= 1e8 or sizes.min() < 1e-4 or sizes.max() / sizes.min() > 1e5:
        return lambda x: f"{x:.4e}"
    return lambda x: f"{x:.4f}"


def format_tensor(array, details):
    """The text of a tensor: its numbers, then ``details`` such as the type."""
    write = _number_format(array)
    shown = array.reshape(-1)
    if array.size > 1000:
        ends = tuple(np.r_[0:3, n - 3 : n] if n > 6 else np.arange(n) for n in array.shape)
        shown = array[np.ix_(*ends)].reshape(-1)
    width = max((len(write(x)) for x in shown), default=0)
    body = np.array2string(
        array,
        separator=", ",
        prefix="tensor(",
        threshold=1000,
        max_line_width=88,
        formatter={"all": lambda x: write(x).rjust(width)},
    )
    if not array.size:
        body = "[]"
        details = [f"size={tuple(array.shape)}", *details] if array.ndim != 1 else details
    return "tensor(" + ", ".join([body, *details]) + ")"
