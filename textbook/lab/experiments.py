"""Run an experiment over its grid, small in the chapter and large when it is recorded."""

from __future__ import annotations

import inspect
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import minitorch as mt
from textbook.lab.progress import tqdm
from textbook.lab.report import measured, verdict
from textbook.lab.rows import Rows
from textbook.lab.runs import Runs

FIRST_TUNING_SEED = 1000  # what is reported starts from the seeds 0, 1, 2, ...
WIDENED_AT_MOST = 4  # times that a grid grows when its best value lies at an edge
NO_RECORD = (
    "No record beside this notebook: only this run is shown. Records, exercises and linked pages "
    "come with the whole book, not with the installed package."
)


@dataclass
class Tuned:
    """A setting whose value is chosen for each other setting, before the runs that are reported.

    Each of ``values`` is tried with ``seeds`` seeds that no reported run has; the one with the best
    median of the measured number ``lowest`` (or ``highest``) is taken. That number must come from
    data that is not reported. If the best lies at an edge, the grid is widened by the ratio of its
    last two values there, so that nothing is chosen at an edge unseen. Other settings can be
    replaced while values are tried: ``Tuned(..., steps=100)`` tries them in shorter runs. ::

        @lab.experiment("C31", pooling=["last", "mean"], rate=4e-3,
                        full=dict(rate=Tuned(2e-3, 4e-3, 8e-3, lowest="loss elsewhere"), seeds=3))
    """

    values: tuple[float, ...]
    lowest: str | None
    highest: str | None
    seeds: int
    replaced: dict[str, Any]

    def __init__(
        self,
        *values: float,
        lowest: str | None = None,
        highest: str | None = None,
        seeds: int = 1,
        **replaced: Any,
    ) -> None:
        if len(values) < 3:
            raise ValueError(f"Tuned needs at least three values to choose from, got {values}")
        if (lowest is None) == (highest is None):
            raise ValueError("Tuned needs the measured number to choose by: lowest= or highest=")
        self.values, self.seeds = tuple(sorted(values)), seeds
        self.lowest, self.highest, self.replaced = lowest, highest, replaced

    def choose(self, measure: Callable[[float, int], dict]) -> tuple[float, list[dict]]:
        """The best value, and every run that was tried; ``measure(value, seed)`` makes one."""
        values, tried = list(self.values), {}
        for widened in range(WIDENED_AT_MOST + 1):
            for value in values:
                if value not in tried:
                    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.seeds)
                    tried[value] = [measure(value, seed) for seed in seeds]
            best = self._best(values, tried)
            at = values.index(best)
            if 0 < at < len(values) - 1 or widened == WIDENED_AT_MOST:
                break
            if at == 0:
                values.insert(0, _rounded(values[0] ** 2 / values[1]))
            else:
                values.append(_rounded(values[-1] ** 2 / values[-2]))
        return best, [row for value in values for row in tried[value]]

    def _best(self, values: list[float], tried: dict[float, list[dict]]) -> float:
        """The best value; of equally good ones that nearest to the middle of the grid."""
        name, sign = (self.lowest, 1) if self.lowest else (self.highest, -1)
        middle = (len(values) - 1) / 2

        def badness(value: float) -> tuple[float, float]:
            numbers = [row[name] for row in tried[value]]
            worst = any(number is None or number != number for number in numbers)
            centre = abs(values.index(value) - middle)
            return (float("inf") if worst else sign * median(numbers)), centre

        return min(values, key=badness)

    def as_json(self) -> dict[str, Any]:
        """How it stands in a record."""
        by = {"lowest": self.lowest} if self.lowest else {"highest": self.highest}
        return {"tuned": list(self.values), "seeds": self.seeds, **by, **self.replaced}


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


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
        setting that is chosen, ``seeds`` the number of seeds (1), anything else fixed. ``full``
        replaces some of them in the recorded run. ``lacks()`` names what the full setting needs and
        this machine does not have ("a GPU"); then the experiment stays quick.

        The function returns a dict of numbers, lists of numbers (a curve), or None (never reached).
        Before each run ``minitorch.manual_seed(seed)`` is set; a parameter ``seed`` gets it too.
        """

        def decorate(function: Callable) -> Experiment:
            return Experiment(function, claim, settings, settings | full, self, lacks)

        return decorate

    def path(self, function: Callable) -> Path:
        """Where results are kept: beside the script that defines the function, or the notebook."""
        script = inspect.unwrap(function).__globals__.get("__file__")
        folder = Path(script).parent if script else Path.cwd()
        return folder / "results" / f"{self.chapter}.json"

    def holds(self, claim: str, sentence: str, value: Any, **bounds: Any) -> None:
        """Judge what was measured without a grid: see ``Runs.holds``."""
        verdict(claim, sentence, {"here": value}, bounds)


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
            inspect.signature(function).bind(**names | _seed_for(function, 0))
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
        start = perf_counter()
        rows, tried = self._measure(settings, finished)
        if recording:
            record = {
                "claim": self.claim,
                "settings": settings,
                "rows": rows,
                "tried": tried,
                "seconds": round(perf_counter() - start, 1),
            }
            text = json.dumps(record, default=_plain)
            Path(folder, f"{self.name}.json").write_text(text, encoding="utf-8")
        rows = Rows(rows)
        return Runs(self.claim, rows, rows if recording else self._recorded())

    def _recorded(self) -> Rows | None:
        if not self.path.exists():
            measured(NO_RECORD)
            return None
        record = json.loads(self.path.read_text(encoding="utf-8")).get(self.name)
        return Rows(record["rows"]) if record else None

    def _measure(
        self, settings: dict[str, Any], finished: Path | None
    ) -> tuple[list[dict], list[dict]]:
        """The rows of the grid, and those that were tried to choose a setting."""
        seeds = settings.get("seeds", 1)
        tuned = {name: value for name, value in settings.items() if isinstance(value, Tuned)}
        if len(tuned) > 1:
            raise ValueError(f"one setting can be Tuned, got {', '.join(tuned)}")
        before = _read(finished)

        def one(chosen: dict[str, Any], seed: int) -> dict[str, Any]:
            key = json.dumps([chosen, seed], default=_plain, sort_keys=True)
            if key not in before:
                before[key] = self._one(chosen, seed)
                if finished:
                    with finished.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, before[key]]) + "\n")
            return before[key]

        rows: list[dict] = []
        tried: list[dict] = []
        grid = list(_grid({name: x for name, x in settings.items() if name != "seeds"}))
        with tqdm(total=len(grid) * seeds, desc=self.name) as progress:
            for chosen in grid:
                for name, values in tuned.items():
                    tried_with = chosen | values.replaced
                    best, more = values.choose(
                        lambda value, seed, c=tried_with, n=name: one(c | {n: value}, seed)
                    )
                    chosen, tried = chosen | {name: best}, tried + more
                for seed in range(seeds):
                    rows.append(one(chosen, seed))
                    progress.update()
        return rows, tried

    def _one(self, chosen: dict[str, Any], seed: int) -> dict[str, Any]:
        """One run as a row: its settings, its seed and what was measured, as JSON keeps them."""
        mt.manual_seed(seed)
        found = self.function(**chosen | _seed_for(self.function, seed))
        if not isinstance(found, dict):
            kind = type(found).__name__
            raise TypeError(f"{self.name} returned {kind}: return a dict of measured numbers")
        if both := sorted(found.keys() & {*chosen, "seed"}):
            raise ValueError(f"{self.name} returns {both[0]!r}, which is one of its settings")
        return json.loads(json.dumps(chosen | {"seed": seed} | found, default=_plain))


def _grid(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the lists, the first varying slowest."""
    axes = {name: x if isinstance(x, list) else [x] for name, x in settings.items()}
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _seed_for(function: Callable, seed: int) -> dict[str, int]:
    return {"seed": seed} if "seed" in inspect.signature(function).parameters else {}


def _in_full(name: str, claim: str) -> bool:
    """Whether this experiment is to be measured in full."""
    book = os.environ.get("MINITORCH_BOOK", "quick")
    if book not in ("quick", "full"):
        raise ValueError(f"MINITORCH_BOOK is {book!r}, expected 'quick' or 'full'")
    wanted = os.environ.get("MINITORCH_CLAIMS", "").split()
    return book == "full" and (not wanted or bool({name, claim} & set(wanted)))


def _read(finished: Path | None) -> dict[str, dict]:
    """The runs that an interrupted recording has finished, by their settings."""
    if finished is None or not finished.exists():
        return {}
    lines = finished.read_text(encoding="utf-8").split("\n")[:-1]  # the last may be cut off
    return dict(json.loads(line) for line in lines)


def _plain(value: Any) -> Any:
    """What JSON does not know: tensors, NumPy's arrays and numbers, and a setting to be chosen."""
    if isinstance(value, Tuned):
        return value.as_json()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"an experiment returned {type(value).__name__}: return numbers, or lists of numbers"
    )
