"""What an experiment shows beside its figures: verdicts, tables and digits.

Stored outputs are compared when the book is tested, and digits differ from machine to machine. So
each output made here says what of it is to be compared, under a mimetype of its own: of a verdict
the sentence and whether it holds, of digits nothing.
"""

import html
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from textbook.lab.finding import FEWEST, Finding
from textbook.lab.tuned import Choice
from textbook.notebook import notebook_display

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


def verdict(
    claim: str,
    sentence: str,
    numbers: dict[str, Any],
    bounds: dict[str, Any],
    derived: str | None = None,
    below: Sequence[tuple[str, str]] = (),
) -> None:
    """Print what was measured, and whether all of it lies within the bounds that were asked for.

    ``derived`` says what the bound follows from; without it the bound was set after a look. Tables
    ``below`` follow, as text and markup.
    """
    within, text = _within(bounds)
    shown, holds = [], True
    for setting, values in numbers.items():
        values = np.atleast_1d(np.asarray(values, dtype=float))
        if values.size == 0:
            raise ValueError(f"{claim}: nothing was measured for {sentence!r}")
        holds &= all(within(value) for value in values)
        shown.append(f"{setting} {spread(values)}")
    origin = f"derived: {derived}" if derived else "set after a look"
    told = "within" if holds else "NOT within"
    _judge(
        claim,
        "measured" if holds else "OUT OF BOUNDS",
        sentence,
        f"{'; '.join(shown)}; {told} the bound: {text}, {origin}",
        holds,
        below,
    )


def compare(
    claim: str,
    sentence: str,
    found: dict[str, Finding],
    below: Sequence[tuple[str, str]] = (),
) -> None:
    """Print whether a difference is a finding, by the runs that are the last of ``found``."""
    shown = []
    for setting, difference in found.items():
        agree = int((difference.differences > 0).sum())
        seeds = f"in {agree} of {difference.seeds} seeds, " if difference.seeds > 1 else ""
        shown.append(f"{setting} {seeds}by {spread(difference.differences)}")
    last = list(found.values())[-1]
    few = f"; a finding needs {FEWEST} seeds" if last.seeds < FEWEST else f", p = {last.p:.2g}"
    result = "finding" if last.found else "too few seeds" if few[0] == ";" else "NO FINDING"
    _judge(claim, result, sentence, "; ".join(shown) + few, last.found, below)


def _judge(
    claim: str,
    result: str,
    sentence: str,
    numbers: str,
    holds: bool,
    below: Sequence[tuple[str, str]],
) -> None:
    """Print a judged sentence; the tests compare it and whether it holds, not the numbers."""
    mark = "" if holds else "&#10007; "
    emit(
        "\n".join([f"{claim} {result}: {sentence} [{numbers}]", *(text for text, _ in below)]),
        markup=f"{mark}<b>{claim} {result}</b>: {html.escape(sentence)} "
        f"<small>({html.escape(numbers)})</small>" + "".join(markup for _, markup in below),
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
    text, markup = laid_out(header, rows, caption, folded)
    emit(text, markup=markup)


def how_chosen(name: str, choices: Sequence[tuple[dict, Choice]]) -> tuple[str, str]:
    """How a setting was chosen, a line for each combination of the others, as text and markup."""
    runs = [choice.runs for _, choice in choices]
    open_ = sum(not choice.told_apart for _, choice in choices)
    edge = sum(choice.told_apart and choice.at_edge for _, choice in choices)
    count = str(min(runs)) + (f" to {max(runs)}" if max(runs) > min(runs) else "")
    caption = f"how {name} was chosen: by {count} runs in other seeds"
    if open_:
        caption += f"; not chosen in {open_} of {len(choices)}: all values are equally good there"
    if edge:
        caption += f"; in {edge} of {len(choices)} the grid ends at the best"
    varied = [key for key in choices[0][0] if len({str(cell[key]) for cell, _ in choices}) > 1]
    rows = [
        [
            *(shown(cell[key]) for key in varied),
            shown(choice.value) if choice.told_apart else f"none; {shown(choice.value)} taken",
            str(choice.runs),
            "; ".join(f"{shown(v)}: {_tries(numbers)}" for v, numbers in choice.numbers.items()),
        ]
        for cell, choice in choices
    ]
    return laid_out([*varied, "chosen", "runs", "what each gave"], rows, caption, folded=True)


def _tries(numbers: Sequence[float | None]) -> str:
    """The median of the runs that arrived, and how many did if not all."""
    arrived = [x for x in numbers if x is not None and x == x]
    share = "" if len(arrived) == len(numbers) else f" ({len(arrived)} of {len(numbers)} arrive)"
    return (number(median(arrived)) if arrived else "-") + share


def laid_out(
    header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, folded: bool
) -> tuple[str, str]:
    """A table as text and as markup."""
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
    return "\n".join([caption, *lines]), markup
