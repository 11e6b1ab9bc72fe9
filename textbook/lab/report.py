"""What an experiment shows beside its figures: verdicts, tables and digits.

Stored outputs are compared when the book is tested, and digits differ from machine to machine. So
each output made here says what of it is to be compared, under a mimetype of its own: of a verdict
the sentence and whether it holds, of digits nothing.
"""

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from textbook.plot.style import notebook_display

COMPARED = "application/vnd.minitorch.compared+json"


def emit(text: str, *, markup: str | None = None, compared: Any = None) -> None:
    """Show text, in a notebook ``markup`` instead; only ``compared`` is compared by the tests."""
    display = notebook_display()
    if display is None:
        print(text)
        return
    data = {"text/plain": text, COMPARED: compared}
    if markup is not None:
        data["text/html"] = markup
    display(data, raw=True)


def measured(*values: Any) -> None:
    """Print digits that differ from machine to machine, such as seconds; nothing compares them."""
    emit(" ".join(map(str, values)))


def verdict(claim: str, sentence: str, numbers: dict[str, Any], bounds: dict[str, Any]) -> None:
    """Print whether all numbers lie within the bounds, with the numbers and the bounds."""
    within, text = _within(bounds)
    shown, holds = [], True
    for setting, values in numbers.items():
        values = np.atleast_1d(np.asarray(values, dtype=float))
        if values.size == 0:
            raise ValueError(f"{claim}: nothing was measured for {sentence!r}")
        holds &= all(within(value) for value in values)
        shown.append(f"{setting} {spread(values)}")
    result = "holds" if holds else "DOES NOT HOLD"
    said = f"{claim} {result}: {sentence}"
    small = f"[{'; '.join(shown)}; asked: {text}]"
    mark = "&#10003;" if holds else "&#10007;"
    markup = f"{mark} <b>{claim} {result}</b>: {html.escape(sentence)} <small>{small}</small>"
    emit(
        f"{said} {small}",
        markup=markup.replace("[", "(").replace("]", ")"),
        compared={"claim": claim, "sentence": sentence, "holds": bool(holds)},
    )


def _within(bounds: dict[str, Any]) -> tuple[Callable[[float], bool], str]:
    """A test of one number, and the bounds in words."""
    if len(bounds) != 1:
        raise ValueError(f"a verdict needs one of above=, below=, between=, got {bounds}")
    [(kind, bound)] = bounds.items()
    if kind == "above":
        return lambda value: value > bound, f"above {bound:g}"
    if kind == "below":
        return lambda value: value < bound, f"below {bound:g}"
    if kind == "between":
        low, high = bound
        return lambda value: low <= value <= high, f"{low:g} to {high:g}"
    raise ValueError(f"a verdict needs one of above=, below=, between=, got {kind}=")


def number(value: float) -> str:
    """Three significant digits; "never" for what was never reached."""
    if value != value:
        return "never"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def shown(setting: Any) -> str:
    """A value of a setting as text, a floating-point number without zeros that say nothing."""
    return f"{setting:g}" if isinstance(setting, float) else str(setting)


def spread(values: Sequence[float]) -> str:
    """The median, and the smallest and largest where they differ: "0.95 (0.93 to 0.97)"."""
    values = np.sort(np.asarray(values, dtype=float))  # what was never reached comes last
    low, middle, high = (number(v) for v in (values[0], values[(len(values) - 1) // 2], values[-1]))
    if len(values) == 2:
        return low if low == high else f"{low} and {high}"
    return middle if low == high else f"{middle} ({low} to {high})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, folded: bool) -> None:
    """Show a table of words and digits, in a notebook folded under its caption if ``folded``."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]

    def cells(row: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    body = "".join(cells(row, "td") for row in rows)
    grid = f"<table><thead>{cells(header, 'th')}</thead><tbody>{body}</tbody></table>"
    title = html.escape(caption)
    markup = (
        f"<details><summary>{title}</summary>{grid}</details>"
        if folded
        else f"<p><b>{title}</b></p>{grid}"
    )
    emit("\n".join([caption, *lines]), markup=markup)
