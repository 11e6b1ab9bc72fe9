"""Measure an experiment over its grid, a run at a time."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import minitorch as mt
from textbook.lab.progress import tqdm
from textbook.lab.tuned import Tuned


class Budgets(list):
    """A setting that grows while one run goes on, steps of training, say.

    The function gets the list, smallest first, and yields what it measures when each is reached. So
    one run is read at all of them, and each makes a row as if it had been run by itself. Nothing in
    the function may know the last one beforehand: a rate that falls to the end needs a run for each
    budget, which is a plain list. ::

        @lab.experiment("E1", steps=Budgets([200]), full=dict(steps=Budgets([200, 600, 2000])))
        def recall(steps):
            done = 0
            for budget in steps:
                for _ in range(done, budget):
                    ...  # train
                done = budget
                yield {"right": ...}
    """


def measure(
    function: Callable, settings: dict[str, Any], seeds: Sequence[int], finished: Path | None = None
) -> tuple[list[dict], list[dict], float]:
    """The rows of the grid, those that were tried to choose a setting, and the seconds it took.

    Runs that the file ``finished`` holds are not made again, and those that are made go there.
    Beside it may lie what was ``recorded`` of another grid: its runs with the smallest seed are
    made again, and if each gives the same digits the others are taken as they are.
    """
    tuned = {name: value for name, value in settings.items() if isinstance(value, Tuned)}
    if len(tuned) > 1:
        raise ValueError(f"one setting can be Tuned, got {', '.join(tuned)}")
    budgets = {name: value for name, value in settings.items() if isinstance(value, Budgets)}
    if inspect.isgeneratorfunction(function) != (len(budgets) == 1):
        raise ValueError(
            f"{function.__name__} has {len(budgets)} settings of kind Budgets: a function that "
            "yields needs one, any other none"
        )
    before = _read(finished) if finished else {}

    def one(chosen: dict[str, Any], seed: int, budgets: dict[str, list] = budgets) -> dict:
        if run_key(chosen, seed) not in before:
            start = perf_counter()
            for at_budget, row in _run(function, chosen, seed, budgets):
                key, seconds = run_key(at_budget, seed), perf_counter() - start
                before[key] = row, seconds
                if finished:
                    with finished.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, row, seconds]) + "\n")
                start = perf_counter()
        return before[run_key(chosen, seed)][0]

    if finished:
        before |= _repeated(_read(finished.with_suffix(".recorded")), one)

    rows: list[dict] = []
    tried: dict[int, dict] = {}  # by identity: one run may be tried for several budgets
    grid = list(_grid(settings))
    with tqdm(total=len(grid) * len(seeds), desc=function.__name__) as progress:
        for chosen in grid:
            for name, values in tuned.items():
                tried_with = chosen | values.replaced
                at = {
                    n: [values.replaced[n]] if n in values.replaced else b
                    for n, b in budgets.items()
                }
                best, more = values.choose(
                    lambda value, seed, c=tried_with, n=name, at=at: one(c | {n: value}, seed, at)
                )
                chosen |= {name: best}
                tried |= {id(row): row for row in more}
            for seed in seeds:
                rows.append(one(chosen, seed))
                progress.update()
    return rows, [*tried.values()], sum(seconds for _, seconds in before.values())


def run_key(chosen: dict[str, Any], seed: int) -> str:
    """What tells a run from others: its settings and its seed."""
    return _text([chosen, seed])


def _text(value: Any) -> str:
    return json.dumps(value, default=plain, sort_keys=True)


def seed_for(function: Callable, seed: int) -> dict[str, int]:
    """The seed as an argument, if the function asks for it."""
    return {"seed": seed} if "seed" in inspect.signature(function).parameters else {}


def plain(value: Any) -> Any:
    """What JSON does not know: tensors, NumPy's arrays and numbers, and a setting to be chosen."""
    if isinstance(value, Tuned):
        return value.as_json()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"an experiment returned {type(value).__name__}: return numbers, or lists of numbers"
    )


def _run(
    function: Callable, chosen: dict[str, Any], seed: int, budgets: dict[str, list]
) -> Iterator[tuple[dict, dict]]:
    """One run: its settings, and a row of them with what was measured, as JSON keeps it.

    A function that yields is run once for all budgets.
    """
    mt.manual_seed(seed)
    if not budgets:
        yield chosen, _row(function, chosen, seed, function(**chosen | seed_for(function, seed)))
        return
    [(name, values)] = budgets.items()
    found = function(**chosen | {name: list(values)} | seed_for(function, seed))
    for budget, numbers in zip(values, found, strict=True):
        at_budget = chosen | {name: budget}
        yield at_budget, _row(function, at_budget, seed, numbers)


def _row(function: Callable, chosen: dict[str, Any], seed: int, found: Any) -> dict[str, Any]:
    """A run as a row: its settings, its seed and what was measured."""
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise TypeError(f"{function.__name__} returned {kind}: return a dict of measured numbers")
    if both := sorted(found.keys() & {*chosen, "seed"}):
        raise ValueError(f"{function.__name__} returns {both[0]!r}, which is one of its settings")
    return json.loads(json.dumps(chosen | {"seed": seed} | found, default=plain))


def _grid(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the lists, the first varying slowest."""
    axes = {
        name: x if isinstance(x, list) else [x] for name, x in settings.items() if name != "seeds"
    }
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _repeated(
    recorded: dict[str, tuple[dict, float]], one: Callable[[dict, int], dict]
) -> dict[str, tuple[dict, float]]:
    """The recorded runs, if those with the smallest seed can be repeated to the last digit.

    What is called "seconds", or "milliseconds a token", is never repeated, and not compared.
    """

    def digits(row: dict) -> str:
        return _text({name: x for name, x in row.items() if "seconds" not in name})

    first = min((row["seed"] for row, _ in recorded.values()), default=None)
    again = {key: row for key, (row, _) in recorded.items() if row["seed"] == first}
    differ = sum(digits(one(*json.loads(key))) != digits(row) for key, row in again.items())
    if recorded:
        kept = f"not kept: {differ} differ" if differ else "the others are kept"
        print(f"of {len(recorded)} recorded runs {len(again)} were made again; {kept}", flush=True)
    return {} if differ else recorded


def _read(finished: Path) -> dict[str, tuple[dict, float]]:
    """The runs that were finished before, by their settings, and what each took."""
    if not finished.exists():
        return {}
    lines = finished.read_text(encoding="utf-8").split("\n")[:-1]  # the last may be cut off
    return {key: (row, seconds) for key, row, seconds in map(json.loads, lines)}
