"""Figures of experiments: quick and recorded runs together, with the spread over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from textbook.lab.report import shown, spread, table
from textbook.lab.rows import Rows
from textbook.plot import COLORS, LINES, show, subplots
from textbook.plot import spread as draw_spread

SETTINGS = {"here": "measured here", "recorded": "recorded"}


def draw(
    by_setting: dict[str, Rows],
    drawn: dict[str, Rows],
    *,
    y: str | Sequence[str],
    alt: str,
    x: str | None = None,
    by: str | None = None,
    labels: dict[Any, str] | None = None,
    log: str = "",
    lines: dict[str, float] | None = None,
    limits: tuple[float, float] | None = None,
    width: float | None = None,
    height: float = 3.0,
    **where: Any,
) -> None:
    """Draw ``y`` (several: a panel each) against ``x``, a curve for each value of ``by``.

    ``x`` is a setting, or the name of a measured list where ``y`` is a curve; without it each
    value of ``by`` gets a bar (a dot where ``limits`` leave out the zero). Recorded runs are a
    line (median) in a band (smallest to largest), or marks at a bar; those made here are circles,
    dotted where they are curves, if their settings are the record's (``drawn``): a figure has one
    task, one width, one budget. ``labels`` are the words for values of ``by``, ``log`` the
    logarithmic axes ("x", "y", "xy"), ``lines`` values to compare with, by name. ``limits`` are
    those of y; ``where`` keeps the runs with these settings, which the quick grid need not have.
    The numbers follow in a table, folded.
    """
    names = [y] if isinstance(y, str) else list(y)
    labels = labels or {}
    told, both = chosen(by_setting, where), chosen(drawn, where)
    values = list(both.values())[-1].settings_of(by) if by else [None]
    columns, from_zero = len(names), not limits or limits[0] <= 0
    figure, panels = subplots(
        1, columns, width=width or min(9.0, 3.4 + 3.2 * columns), height=height, squeeze=False
    )
    for axes, name in zip(panels[0], names, strict=True):
        if x is None:
            _bars(axes, both, name, by, values, labels, from_zero)
            axes.set(xlabel=name, **({"xlim": limits} if limits else {}))
        else:
            for i, value in enumerate(values):
                label = _label(by, value, labels)
                for setting, rows in both.items():
                    if by is None or value in rows.settings_of(by):
                        part = rows.where(**{by: value}) if by else rows
                        _curve(axes, part, x, name, i, label, setting, alone=len(both) == 1)
            axes.set(xlabel=x, ylabel=name, **({"ylim": limits} if limits else {}))
            if "x" in log:
                axes.set_xscale("log")
                _name_places(axes, list(both.values())[-1], x)
            if "y" in log:
                axes.set_yscale("log")
        for i, (label, at) in enumerate((lines or {}).items()):
            mark = axes.axvline if x is None else axes.axhline
            mark(at, color="0.4", linewidth=1, linestyle=LINES[1 + i], label=label)
    if by and x is not None or lines:
        panels[0][-1].legend(fontsize=9)
    explanation = _explanation(both, x, "bar" if from_zero else "dot")
    if len(told.get("here", [])) > len(both.get("here", [])):
        explanation += "; measured here at other settings: in the table below"
    figure.suptitle(explanation, fontsize=9, color="0.35")
    show(figure, alt=alt)
    for name in names:
        _numbers(told, name, x, by, labels)


def chosen(by_setting: dict[str, Rows], where: dict[str, Any]) -> dict[str, Rows]:
    """The runs with these settings; the quick grid may have none of them."""
    list(by_setting.values())[-1].where(**where)
    return {name: rows.where(**where) for name, rows in by_setting.items() if rows.has(**where)}


def _curve(
    axes: Any, rows: Rows, x: str, y: str, i: int, label: str, setting: str, alone: bool
) -> None:
    """One curve of one setting: lines for recorded runs, circles for those made here."""
    ys = rows.values(y)
    curve = ys.ndim == 2
    if curve:
        xs = rows[0][x]
    else:
        xs = rows.settings_of(x)
        by_x = [rows.values(y, **{x: at}) for at in xs]
        ys = np.array([[of_x[k] for of_x in by_x] for k in range(min(map(len, by_x)))])
    style = {"color": COLORS[i % len(COLORS)]}
    if setting == "recorded" or alone:
        draw_spread(axes, xs, ys, label=label, **style)
    elif curve:
        axes.plot(xs, np.median(ys, axis=0), linestyle=":", linewidth=1.2, **style)
    else:
        style |= {"linestyle": "", "marker": "o", "fillstyle": "none"}
        axes.plot(xs, np.median(ys, axis=0), **style)


def _name_places(axes: Any, rows: Rows, x: str) -> None:
    """Ticks where something was measured, unless they are many: powers of ten alone say little."""
    places = rows[0][x] if isinstance(rows[0][x], list) else rows.settings_of(x)
    if len(places) <= 10:
        axes.set_xticks(places, places)
        axes.minorticks_off()


def _bars(
    axes: Any,
    both: dict[str, Rows],
    name: str,
    by: str,
    values: list,
    labels: dict,
    from_zero: bool,
) -> None:
    """The median of the recorded runs, a mark for each seed, a circle for those here.

    The median is a bar where the axis begins at zero, else a dot: a bar's length would mislead.
    """
    places = np.arange(len(values))[::-1]
    for place, value in zip(places, values, strict=True):
        for setting, rows in both.items():
            if value not in rows.settings_of(by):
                continue
            found = rows.values(name, **{by: value})
            if setting == "recorded" or len(both) == 1:
                middle = np.median(found)
                if from_zero:
                    axes.barh(place, middle, color=COLORS[5], height=0.65)
                else:
                    axes.plot(middle, place, "o", color=COLORS[5], markersize=11)
            if setting == "recorded":
                axes.plot(found, [place] * len(found), "|", color="black", markersize=13)
            elif len(both) > 1:
                axes.plot(found, [place] * len(found), "o", color="black", fillstyle="none")
    axes.set_yticks(places, [_label(by, value, labels) for value in values])
    axes.grid(axis="y", visible=False)


def _numbers(both: dict[str, Rows], name: str, x: str | None, by: str | None, labels: dict) -> None:
    """The numbers of a figure as a folded table."""
    first = next(iter(both.values()))[0]
    curve = isinstance(first[name], list)
    longest = list(both.values())[-1]
    across = [] if x is None or curve else longest.settings_of(x)
    header = [by or "", "", *([*map(shown, across)] or ["at the end" if curve else name])]
    lines = []
    for value in longest.settings_of(by) if by else [None]:
        for setting, rows in both.items():
            if by and value not in rows.settings_of(by):
                continue
            part = rows.where(**{by: value}) if by else rows
            if across:
                known = part.settings_of(x)
                cells = [
                    spread(part.values(name, **{x: at})) if at in known else "-" for at in across
                ]
            else:
                found = part.values(name)
                cells = [spread(found[:, -1] if curve else found)]
            lines.append([_label(by, value, labels) if by else name, SETTINGS[setting], *cells])
    caption = f"the numbers: {name}" + (f" against {x}" if across else "")
    table(header, lines, caption, folded=True)


def _label(by: str | None, value: Any, labels: dict[Any, str]) -> str:
    if by is None:
        return ""
    return labels.get(value, value if isinstance(value, str) else f"{by} = {shown(value)}")


def _explanation(both: dict[str, Rows], x: str | None, median: str) -> str:
    """What lines, bands and circles are; without x the ``median`` is a bar or a dot."""
    if "recorded" not in both:
        return "measured here"
    seeds = len(both["recorded"].settings_of("seed"))
    if x is None:
        recorded = f"{median}: recorded median" + (
            f", marks: its {seeds} seeds" if seeds > 1 else ""
        )
        here = "circle"
    else:
        recorded = "line: recorded" + (f", band: {seeds} seeds" if seeds > 1 else "")
        curve = "here" in both and isinstance(both["here"][0].get(x), list)
        here = "dotted" if curve else "circles"
    return f"{recorded}; {here}: measured here" if "here" in both else recorded
