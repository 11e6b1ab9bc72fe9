"""Run a chapter's experiment at other seeds and budgets, and print it beside the record."""

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from textbook.lab import Experiment, Runs
from textbook.lab.report import shown, spread, table

from .sources import BookError, chapters


def elsewhere(root: Path, number: str, wanted: Sequence[str], budget: float, seeds: range) -> None:
    """Measure the experiments of these names or claims in full, with these seeds.

    ``budget`` times as many steps are taken as in the record. Nothing is written.
    """
    sources = chapters(root, number)
    if not sources:
        raise BookError(f"no chapter with number {number!r} in {root / 'notebooks'}")
    known = _experiments(sources[0])
    chosen = [e for e in known if {e.name, e.claim} & set(wanted)]
    if not chosen:
        names = ", ".join(f"{e.name} ({e.claim})" for e in known)
        raise BookError(f"say which experiments of {sources[0]} to run: {names}")
    for experiment in chosen:
        if lacking := experiment.lacks():
            raise BookError(f"{experiment.name} in full needs {lacking}")
        print(
            f"{experiment.name} ({experiment.claim}), here with seeds {seeds.start} to "
            f"{seeds.stop - 1} and {budget:g} times the budget:",
            flush=True,
        )
        try:
            runs = experiment.elsewhere(budget, seeds)
        except ValueError as error:
            raise BookError(str(error)) from None
        _print_beside(runs)
        for judge in experiment.last.judged:
            judge(runs)


def _experiments(source: Path) -> list[Experiment]:
    """Those that the chapter defines, after its quick run, whose output is not shown."""
    os.environ |= {"MPLBACKEND": "Agg", "MINITORCH_BOOK": "quick"}
    chapter = ModuleType("__main__")
    chapter.__file__ = str(source)
    code = compile(source.read_text(encoding="utf-8"), str(source), "exec")
    with contextlib.chdir(source.parent), contextlib.redirect_stdout(io.StringIO()):
        exec(code, vars(chapter))
    return [value for value in vars(chapter).values() if isinstance(value, Experiment)]


def _print_beside(runs: Runs) -> None:
    """A table for each measured number: a line for each combination of settings."""
    names = list(runs.fixed)
    cells = list(dict.fromkeys(tuple(row[name] for name in names) for row in runs.here))
    varied = [i for i in range(len(names)) if len({cell[i] for cell in cells}) > 1]
    for name, value in runs.here[0].items():
        if name in (*names, "seed") or isinstance(value, list):
            continue
        lines = []
        for cell in cells:
            settings = dict(zip(names, cell, strict=True))
            found = [
                spread(rows.values(name, **settings)) if rows and rows.has(**settings) else "-"
                for rows in (runs.here, runs.full)
            ]
            lines.append([*(shown(cell[i]) for i in varied), *found])
        header = [*(names[i] for i in varied), "here", "recorded"]
        table(header, lines, name, folded=False)
