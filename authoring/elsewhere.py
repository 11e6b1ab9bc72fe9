"""Run a chapter's experiment at other seeds and budgets, and print it beside the record."""

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from textbook.lab import Experiment, Runs
from textbook.lab.report import number as rounded
from textbook.lab.report import shown, spread, table

from .experiments import declared, read_results, took
from .sources import BookError, chapters

MOST = 12  # numbers of a list that a line of a table has room for


def elsewhere(root: Path, number: str, wanted: Sequence[str], budget: float, seeds: range) -> None:
    """Measure the experiments of these names or claims in full, with these seeds.

    ``budget`` times as many steps are taken as in the record. Nothing is written.
    """
    sources = chapters(root, number)
    if not sources:
        raise BookError(f"no chapter with number {number!r} in {root / 'notebooks'}")
    [source] = sources
    known = declared(source)
    chosen = [e for e in known if {e.name, e.claim} & set(wanted)]
    if not chosen:
        names = ", ".join(f"{e.name} ({e.claim})" for e in known)
        raise BookError(f"say which experiments of {source} to run: {names}")
    print(f"{source.name} runs once in its quick setting, then:", flush=True)
    record = read_results(source)
    for experiment in chosen:
        print(f"{experiment.name} ({experiment.claim}): {took(record.get(experiment.name, {}))}")
    experiments = _experiments(source)
    for name in (experiment.name for experiment in chosen):
        experiment = experiments[name]
        if lacking := experiment.lacks():
            raise BookError(f"{name} in full needs {lacking}")
        times = f"{budget:g} times the budget" if budget != 1 else "the budget of the record"
        told = f"here with seeds {seeds.start} to {seeds.stop - 1} and {times}"
        print(f"\n{name} ({experiment.claim}), {told}:", flush=True)
        try:
            runs = experiment.elsewhere(budget, seeds)
        except ValueError as error:
            raise BookError(str(error)) from None
        _print_beside(runs)
        for judge in experiment.last.judged:
            judge(runs)


def _experiments(source: Path) -> dict[str, Experiment]:
    """Those that the chapter defines, by name, after its quick run, of which nothing is shown."""
    os.environ |= {"MPLBACKEND": "Agg", "MINITORCH_BOOK": "quick"}
    chapter = ModuleType("__main__")
    chapter.__file__ = str(source)
    code = compile(source.read_text(encoding="utf-8"), str(source), "exec")
    unseen = io.StringIO()
    with (
        contextlib.chdir(source.parent),
        contextlib.redirect_stdout(unseen),
        contextlib.redirect_stderr(unseen),
    ):
        exec(code, vars(chapter))
    return {value.name: value for value in vars(chapter).values() if isinstance(value, Experiment)}


def _print_beside(runs: Runs) -> None:
    """A table for each measured number: a line for each combination of settings."""
    names = list(runs.fixed)
    cells = list(dict.fromkeys(tuple(row[name] for name in names) for row in runs.here))
    varied = [i for i in range(len(names)) if len({cell[i] for cell in cells}) > 1]
    for name, value in runs.here[0].items():
        if name in (*names, "seed") or not _is_number(value):
            continue
        lines = []
        for cell in cells:
            settings = dict(zip(names, cell, strict=True))
            found = [
                _told(rows.values(name, **settings)) if rows and rows.has(**settings) else "-"
                for rows in (runs.here, runs.full)
            ]
            lines.append([*(shown(cell[i]) for i in varied), *found])
        header = [*(names[i] for i in varied), "here", "recorded"]
        of_places = ", median at each place" if isinstance(value, list) else ""
        table(header, lines, name + of_places, folded=False)


def _is_number(value: Any) -> bool:
    """Whether a table can hold it: a number, None for never, or a list of at most MOST numbers."""
    if isinstance(value, list):
        return len(value) <= MOST and all(isinstance(v, int | float) for v in value)
    return value is None or isinstance(value, int | float)


def _told(values: np.ndarray) -> str:
    """A number with its spread over the seeds; of a list the median at each place."""
    if values.ndim == 1:
        return spread(values)
    return "  ".join(map(rounded, np.median(values, axis=0)))
