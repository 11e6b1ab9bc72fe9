"""Run an experiment over its grid, small in the chapter and large when it is recorded."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from textbook.installed import BOOK
from textbook.lab.measuring import Budgets, measure, plain, seed_for
from textbook.lab.report import measured, verdict
from textbook.lab.rows import Rows
from textbook.lab.runs import Runs
from textbook.lab.tuned import Tuned, choices

BUDGETS = ("steps", "batches", "budget", "gflops")  # what a setting is called that is a budget

NO_RECORD = "No record of this chapter was found: only this run is shown."


class Lab:
    """The experiments of one chapter; ``Lab("05")`` keeps its records in ``results/05.json``."""

    def __init__(self, chapter: str) -> None:
        self.chapter = chapter

    def experiment(
        self,
        claim: str,
        *,
        full: dict[str, Any],
        lacks: Callable[[], str | None] = lambda: None,
        **settings: Any,
    ) -> Callable[[Callable], Experiment]:
        """Make the decorated function, which measures one run, an experiment for this claim.

        ``settings`` are those of the quick run: a list is an axis of the grid, ``Tuned(...)`` a
        setting that is chosen, ``Budgets(...)`` one at which a run is read while it goes on,
        ``seeds`` the number of seeds (1), anything else fixed. ``full`` replaces some of them in
        the recorded run. ``lacks()`` names what the full setting needs and this machine does not
        have ("a GPU"); then the experiment stays quick.

        The function returns a dict of numbers, lists of numbers (a curve), or None (never reached).
        Before each run ``minitorch.manual_seed(seed)`` is set; a parameter ``seed`` gets it too.
        """

        def decorate(function: Callable) -> Experiment:
            return Experiment(function, claim, settings, settings | full, self, lacks)

        return decorate

    def path(self, function: Callable) -> Path:
        """Where results are kept: beside the script that defines the function, or the notebook.

        A notebook that is alone in its folder finds those that came with the package.
        """
        script = inspect.unwrap(function).__globals__.get("__file__")
        folder = Path(script).parent if script else Path.cwd()
        if not script and not (folder / "results").is_dir():
            folder = BOOK / "notebooks"
        return folder / "results" / f"{self.chapter}.json"

    def holds(
        self, claim: str, sentence: str, value: Any, *, derived: str | None = None, **bounds: Any
    ) -> None:
        """Judge what was measured without a grid: see ``Runs.holds``."""
        verdict(claim, sentence, {"here": value}, bounds, derived)


class Experiment:
    """A function that measures one run, with the grids of its quick and its full setting.

    Called as a function it measures one run with any settings: ``softmax_at(d=7, divided=True)``.
    """

    def __init__(
        self,
        function: Callable,
        claim: str,
        quick: dict[str, Any],
        full: dict[str, Any],
        lab: Lab,
        lacks: Callable[[], str | None],
    ) -> None:
        for settings in (quick, full):
            names = dict.fromkeys(settings.keys() - {"seeds"})
            inspect.signature(function).bind(**names | seed_for(function, 0))
        self.function, self.claim, self.name = function, claim, function.__name__
        self.quick, self.full, self.lacks = quick, full, lacks
        self.path = lab.path(function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.function(*args, **kwargs)

    def run(self) -> Runs:
        """Measure the quick grid, and return it with what was recorded of the full one.

        Under ``python book.py experiment NN [NAME ...]`` the full grid is measured and recorded.
        Runs that an interrupted recording has finished are not measured again.
        """
        settings, folder = self.quick, None
        if _in_full(self.name, self.claim):
            folder = os.environ.get("MINITORCH_RECORD")
            lacking = self.lacks()
            if lacking and folder:
                Path(folder, f"{self.name}.lacking").write_text(lacking, encoding="utf-8")
            if not lacking:
                settings = self.full
        recording = folder is not None and settings is self.full
        finished = Path(folder, f"{self.name}.jsonl") if recording else None
        seeds = range(settings.get("seeds", 1))
        rows, tried, seconds = measure(self.function, settings, seeds, finished)
        made = {"claim": self.claim, "settings": settings, "rows": rows, "tried": tried}
        if recording:
            text = json.dumps(made | {"seconds": round(seconds, 1)}, default=plain)
            Path(folder, f"{self.name}.json").write_text(text, encoding="utf-8")
        made = json.loads(json.dumps(made, default=plain))
        self.last = self._runs(made, made if recording else self.recorded())
        return self.last

    def elsewhere(self, budget: float, seeds: Sequence[int]) -> Runs:
        """Measure the full grid with these seeds, at ``budget`` times the budget of the record.

        The rows stand under the budgets of the record, so that the two can be compared.
        """
        settings, meant = self.full, {}
        if budget != 1:
            name, values = self._budget()
            meant = {round(value * budget): value for value in values}
            settings = settings | {name: type(values)(meant)}
        rows, tried, _ = measure(self.function, settings, seeds)
        if meant:
            rows = [row | {name: meant[row[name]]} for row in rows]
        made = {"settings": self.full, "rows": rows, "tried": tried}
        return self._runs(json.loads(json.dumps(made, default=plain)), self.recorded())

    def _runs(self, here: dict[str, Any], full: dict[str, Any] | None) -> Runs:
        """What was measured here and what is recorded; the same if this is the recording."""
        defaults = inspect.signature(self.function).parameters
        rows = Rows(here["rows"])
        recorded = rows if full is here else Rows(full["rows"]) if full else None
        return Runs(
            self.claim,
            rows,
            recorded,
            fixed={
                name: defaults[name].default
                for name, value in self.full.items()
                if name != "seeds" and not isinstance(value, Tuned)
            },
            choices=choices(full or here),
        )

    def _budget(self) -> tuple[str, list]:
        """The setting that is the budget, and its values in full."""
        defaults = inspect.signature(self.function).parameters
        for name, value in self.full.items():
            if isinstance(value, Budgets):
                return name, value
        for name in BUDGETS:
            if name in defaults:
                value = self.full.get(name, defaults[name].default)
                return name, value if isinstance(value, list) else [value]
        raise ValueError(
            f"{self.name} has no budget: none of its settings is of kind Budgets(...) or called "
            f"{', '.join(BUDGETS)}; only its seeds can be others"
        )

    def recorded(self) -> dict[str, Any] | None:
        """What the full setting gave, if it is recorded."""
        if not self.path.exists():
            measured(NO_RECORD)
            return None
        return json.loads(self.path.read_text(encoding="utf-8")).get(self.name)


def _in_full(name: str, claim: str) -> bool:
    """Whether this experiment is to be measured in full."""
    book = os.environ.get("MINITORCH_BOOK", "quick")
    if book not in ("quick", "full"):
        raise ValueError(f"MINITORCH_BOOK is {book!r}, expected 'quick' or 'full'")
    wanted = os.environ.get("MINITORCH_CLAIMS", "").split()
    return book == "full" and (not wanted or bool({name, claim} & set(wanted)))
