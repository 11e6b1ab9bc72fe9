"""What an experiment measured, here and in its record: tables, figures and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from textbook.lab.finding import finding
from textbook.lab.report import compare, how_chosen, measured, shown, spread, table, verdict
from textbook.lab.rows import NoRun, Rows
from textbook.lab.tuned import Choice


class Runs:
    """What an experiment measured ``here``, quick, and what is recorded in ``full`` (or None).

    ``fixed`` names the settings in which the two must agree to be drawn into one figure, with what
    they are where a row does not say. ``choices`` tells how a setting of the best runs was chosen:
    see ``textbook.lab.tuned``.
    """

    def __init__(
        self,
        claim: str,
        here: Rows,
        full: Rows | None,
        fixed: dict[str, Any] | None = None,
        choices: tuple[str, list[tuple[dict, Choice]]] | None = None,
    ) -> None:
        self.claim, self.here, self.full = claim, here, full
        self.fixed, self.choices = fixed or {}, choices
        self.judged: list[Callable[[Runs], None]] = []  # its verdicts, to be asked of other runs

    @property
    def best(self) -> Rows:
        """The recorded runs where there are any, else those made here."""
        return self.full or self.here

    @property
    def by_setting(self) -> dict[str, Rows]:
        """Both as they are called in figures and tables."""
        return {"here": self.here} | ({"recorded": self.full} if self.full else {})

    @property
    def drawn(self) -> dict[str, Rows]:
        """What one figure may show: of the runs made here those with settings of the record."""
        if not self.full:
            return self.by_setting

        def settings(row: dict) -> list:
            return [row.get(name, default) for name, default in self.fixed.items()]

        recorded = [settings(row) for row in self.full]
        alike = [row for row in self.here if settings(row) in recorded]
        return ({"here": Rows(alike)} if alike else {}) | {"recorded": self.full}

    def holds(
        self,
        sentence: str,
        measure: Callable[[Rows], Any] | Any,
        *,
        derived: str | None = None,
        **bounds: Any,
    ) -> None:
        """Print what was measured for a sentence, and whether it keeps the bounds asked for.

        ``measure(rows)`` gives a number, or one a seed, and judges both what was measured here and
        what is recorded; settings that the quick grid lacks are judged by the record alone. A
        number judges itself. Bounds are ``above=``, ``below=`` or ``between=(low, high)``, and
        every number must keep them. ``derived`` says what the bound follows from ("chance is
        1/4"); without it the line says that it was set after a look. ::

            runs.holds("with attention the long ones are right, too",
                       lambda rows: rows.values("exact match", model="attention"), above=0.9)
        """
        if callable(measure):
            self.judged.append(
                lambda runs: runs.holds(sentence, measure, derived=derived, **bounds)
            )
            numbers = {}
            for name, rows in self.by_setting.items():
                try:
                    numbers[name] = measure(rows)
                except NoRun:
                    if rows is self.full:
                        raise
            if not numbers:
                return self._untold(sentence)
        else:
            numbers = {"measured": measure}
        verdict(self.claim, sentence, numbers, bounds, derived, self._how_chosen())

    def finding(
        self, sentence: str, name: str, *, larger: dict[str, Any], smaller: dict[str, Any]
    ) -> None:
        """Print whether ``name`` is larger with some settings than with others: a finding or not.

        The rule is ``textbook.lab.finding``'s, seed by seed. What is recorded is judged, where
        there is a record. ::

            runs.finding("attention helps", "exact match",
                         larger=dict(model="attention"), smaller=dict(model="one vector"))
        """
        self.judged.append(
            lambda runs: runs.finding(sentence, name, larger=larger, smaller=smaller)
        )
        found = {}
        for setting, rows in self.by_setting.items():
            if rows.has(**larger) and rows.has(**smaller):
                one, other = rows.values(name, **larger), rows.values(name, **smaller)
                if rows is self.best or np.isfinite([one, other]).all():
                    found[setting] = finding(one, other)
        if not found:
            return self._untold(sentence)
        compare(self.claim, sentence, found, self._how_chosen())

    def table(
        self, rows: str, values: str | Sequence[str], *, columns: str | None = None, **where: Any
    ) -> None:
        """Show medians with their spread over the seeds: a line for each value of ``rows``.

        A column for each of ``values``; or, with one of them, for each value of the setting
        ``columns``. ``where`` keeps the runs with these settings, and the caption says so. Of
        recorded runs and those made here the recorded ones are shown, the others folded below.
        """
        from textbook.lab import drawing

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
        from textbook.lab import drawing  # matplotlib, which checks do without

        drawing.draw(self.by_setting, self.drawn, **options)

    def _untold(self, sentence: str) -> None:
        """Say that the quick grid lacks what is judged, and that there is no record."""
        measured(f"{self.claim}: only a recorded run can tell: {sentence}")

    def _how_chosen(self) -> list[tuple[str, str]]:
        """How a setting of the best runs was chosen: below the first verdict, not again."""
        choices, self.choices = self.choices, None
        return [how_chosen(*choices)] if choices else []


def _cell(rows: Rows, name: str, columns: str | None = None, head: Any = None) -> str:
    """One cell of a table; a curve counts by its last number."""
    if columns and head not in [row[columns] for row in rows]:
        return "-"
    values = rows.values(name, **({columns: head} if columns else {}))
    return spread(values[:, -1] if values.ndim == 2 else values)


def _seeds(rows: Rows) -> str:
    count = len(rows.settings_of("seed"))
    return f", {count} seeds" if count > 1 else ""
