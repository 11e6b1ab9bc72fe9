"""What an experiment measured, here and in its record: tables, figures and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textbook.lab import drawing
from textbook.lab.report import measured, shown, spread, table, verdict
from textbook.lab.rows import NoRun, Rows


class Runs:
    """What an experiment measured ``here``, quick, and what is recorded in ``full`` (or None)."""

    def __init__(self, claim: str, here: Rows, full: Rows | None) -> None:
        self.claim, self.here, self.full = claim, here, full

    @property
    def best(self) -> Rows:
        """The recorded runs where there are any, else those made here."""
        return self.full or self.here

    @property
    def by_setting(self) -> dict[str, Rows]:
        """Both as they are called in figures and tables."""
        return {"here": self.here} | ({"recorded": self.full} if self.full else {})

    def holds(self, sentence: str, measure: Callable[[Rows], Any] | Any, **bounds: Any) -> None:
        """Print a verdict, the number that it judges, and the bounds that were asked for.

        ``measure(rows)`` gives a number, or one a seed, and judges both what was measured here and
        what is recorded; settings that the quick grid lacks are judged by the record alone. A
        number judges itself. Bounds are ``above=``, ``below=`` or ``between=(low, high)``, and
        every number must keep them. ::

            runs.holds("with attention the long ones are right, too",
                       lambda rows: rows.values("exact match", model="attention"), above=0.9)
        """
        if callable(measure):
            numbers = {}
            for name, rows in self.by_setting.items():
                try:
                    numbers[name] = measure(rows)
                except NoRun:
                    if rows is self.full:
                        raise
            if not numbers:
                return measured(f"{self.claim}: only a recorded run can tell: {sentence}")
        else:
            numbers = {"measured": measure}
        verdict(self.claim, sentence, numbers, bounds)

    def table(
        self, rows: str, values: str | Sequence[str], *, columns: str | None = None, **where: Any
    ) -> None:
        """Show medians with their spread over the seeds: a line for each value of ``rows``.

        A column for each of ``values``; or, with one of them, for each value of the setting
        ``columns``. ``where`` keeps the runs with these settings, and the caption says so. Of
        recorded runs and those made here the recorded ones are shown, the others folded below.
        """
        names = [values] if isinstance(values, str) else list(values)
        tables = drawing.chosen(self.by_setting, where)
        for i, (setting, chosen) in enumerate(reversed(tables.items())):
            heads = chosen.settings_of(columns) if columns else names
            lines = []
            for value in chosen.settings_of(rows):
                of_line = chosen.where(**{rows: value})
                cells = [
                    _cell(of_line, names[0], columns, head) if columns else _cell(of_line, head)
                    for head in heads
                ]
                lines.append([shown(value), *cells])
            title = f"{names[0]}, by {columns}" if columns else rows
            kept = "".join(f", {name} = {shown(value)}" for name, value in where.items())
            caption = f"{title}: {drawing.SETTINGS[setting]}{_seeds(chosen)}{kept}"
            table([rows, *map(shown, heads)], lines, caption, folded=i > 0)

    def draw(self, **options: Any) -> None:
        """Draw what was measured: see ``textbook.lab.drawing.draw``."""
        drawing.draw(self.by_setting, **options)


def _cell(rows: Rows, name: str, columns: str | None = None, head: Any = None) -> str:
    """One cell of a table; a curve counts by its last number."""
    if columns and head not in [row[columns] for row in rows]:
        return "-"
    values = rows.values(name, **({columns: head} if columns else {}))
    return spread(values[:, -1] if values.ndim == 2 else values)


def _seeds(rows: Rows) -> str:
    count = len(rows.settings_of("seed"))
    return f", {count} seeds" if count > 1 else ""
