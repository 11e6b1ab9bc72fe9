"""The table of a class: the results that lie in a folder, the best program first."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median

from textbook.race.measure import RaceError

SEEDS = 3  # a program with fewer has no place


def read_results(folder: Path) -> list[dict]:
    """The results in a folder and below it; RaceError where one is none."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            result["nats"]["closed"] + result["league"] + result["seed"]
            found.append(result)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RaceError(f"{path} is no result of a race ({error!r}): remove it") from None
    if not found:
        raise RaceError(f"no results in {folder}: each is a file that `race PROGRAM` has written")
    return found


def table(results: list[dict]) -> str:
    """One table a league: place, program, median, smallest and largest of the seeds.

    A program is told by its name and its code: after a change it is another one. It shares the
    place of the program above if its smallest loss is not above the largest of the first of that
    place: then the seeds do not tell the two apart.
    """
    lines = []
    of_league = itemgetter("league")
    for league, found in groupby(sorted(results, key=of_league), of_league):
        lines += [f"{league:g} seconds", ROW.format(*HEADER)]
        lines += [ROW.format(*row).rstrip() for row in _places(list(found))] + [""]
    return "\n".join(lines).rstrip()


HEADER = ("place", "program", "nats a letter", "smallest to largest", "seeds", "steps", "lines")
ROW = "{:>5}  {:24}  {:>13}  {:>19}  {:>5}  {:>6}  {:>5}"


def _places(results: list[dict]) -> list[tuple]:
    entries = []
    of_program = itemgetter("program", "code")
    for (program, code), runs in groupby(sorted(results, key=of_program), of_program):
        by_seed = {run["seed"]: run for run in runs}  # one that was handed in twice counts once
        nats = sorted(run["nats"]["closed"] for run in by_seed.values())
        steps, count = median(run["steps"] for run in by_seed.values()), len(by_seed)
        lines = next(iter(by_seed.values()))["lines"]
        entries.append((count < SEEDS, median(nats), f"{program} ({code})", nats, steps, lines))
    rows, place, worst_of_first = [], 0, float("-inf")
    for i, (few, middle, name, nats, steps, lines) in enumerate(sorted(entries), start=1):
        if not few and nats[0] > worst_of_first:
            place, worst_of_first = i, nats[-1]
        spread = f"{nats[0]:.3f} to {nats[-1]:.3f}" if len(nats) > 1 else ""
        told = "-" if few else str(place)
        rows.append((told, name, f"{middle:.3f}", spread, len(nats), f"{steps:.0f}", lines))
    return rows
