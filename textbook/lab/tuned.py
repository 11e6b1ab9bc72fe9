"""A setting whose value is chosen, before the runs that are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

FIRST_SEED = 1000  # what is reported starts from the seeds 0, 1, 2, ...
WIDENED_AT_MOST = 4  # times that a grid grows where its edge does not lose
WIDENED_IN_VAIN = 1  # times that it grows where no run of any value arrives
DOUBLED_AT_MOST = 2  # times that the seeds are doubled where arriving is a matter of luck


@dataclass
class Choice:
    """What was tried for one setting: the measured numbers by value, and the values that won.

    ``best`` are the values that the numbers do not tell apart, all as good as the best.
    """

    numbers: dict[float, list[float | None]]
    best: list[float]

    @property
    def value(self) -> float:
        """The one in the middle of the best."""
        return self.best[(len(self.best) - 1) // 2]

    @property
    def told_apart(self) -> bool:
        """Whether the numbers choose at all: not where all values are equally good."""
        return len(self.best) < len(self.numbers)

    @property
    def at_edge(self) -> bool:
        """Whether the grid ends at one of the best, however often it was widened."""
        return bool({min(self.numbers), max(self.numbers)} & set(self.best))

    @property
    def runs(self) -> int:
        """How many runs stand behind the choice."""
        return sum(map(len, self.numbers.values()))


class Tuned:
    """A setting whose value is chosen for each other setting, before the runs that are reported.

    Each of ``values`` is tried in ``seeds`` runs, with seeds that no reported run has. It is judged
    by the measured number ``lowest`` (or ``highest``), which must come from data that is not
    reported. Four rules:

    1. *Arriving counts before speed.* A run whose number is None has not arrived. The value of
       which the larger share of runs arrives is better; of equal shares, the better median of the
       runs that did.
    2. *Both edges must lose.* As long as a value at an edge is as good as the best, the grid is
       widened there, by the ratio of its last two values (four times; if nothing arrives, once).
    3. *Luck is tried again.* As long as the best value arrives in some runs and not in others, each
       value that ever arrived gets as many fresh seeds again.
    4. *A tie is no choice.* If all values are equally good at last, the one in the middle is taken,
       and the page says that nothing was chosen.

    Other settings can be replaced while values are tried: ``Tuned(..., steps=100)`` tries them in
    shorter runs. ::

        @lab.experiment("C31", pooling=["last", "mean"], rate=4e-3,
                        full=dict(rate=Tuned(2e-3, 4e-3, 8e-3, lowest="loss elsewhere"), seeds=5))
    """

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
        """The chosen value, and every run that was tried; ``measure(value, seed)`` makes one."""
        values, tried = list(self.values), {}
        seeds, widened = self.seeds, 0
        while True:
            for value in values:
                rows = tried.setdefault(value, [])
                while len(rows) < self.seeds or len(rows) < seeds and any(self._arrived(rows)):
                    rows.append(measure(value, FIRST_SEED + len(rows)))
            choice = self.judge({value: tried[value] for value in values})
            low, high = values[0] in choice.best, values[-1] in choice.best
            hope = any(map(self._arrived, tried.values()))
            if (low or high) and widened < (WIDENED_AT_MOST if hope else WIDENED_IN_VAIN):
                below, above = values[0] ** 2 / values[1], values[-1] ** 2 / values[-2]
                values = [_rounded(below)] * low + values + [_rounded(above)] * high
                widened += 1
            elif seeds < self.seeds * 2**DOUBLED_AT_MOST and self._luck(tried[choice.value]):
                seeds *= 2
            else:
                return choice.value, [row for value in values for row in tried[value]]

    def judge(self, tried: dict[float, list[dict]]) -> Choice:
        """What the runs of each value say; rules 1 and 4."""
        sign = 1 if self.lowest else -1

        def badness(value: float) -> tuple[float, float]:
            arrived = self._arrived(tried[value])
            share = len(arrived) / len(tried[value])
            return -share, sign * median(arrived) if arrived else 0.0

        least = min(map(badness, tried))
        name = self.lowest or self.highest
        return Choice(
            numbers={value: [row[name] for row in rows] for value, rows in tried.items()},
            best=[value for value in tried if badness(value) == least],
        )

    def _arrived(self, rows: list[dict]) -> list[float]:
        numbers = [row[self.lowest or self.highest] for row in rows]
        return [number for number in numbers if number is not None and number == number]

    def _luck(self, rows: list[dict]) -> bool:
        return 0 < len(self._arrived(rows)) < len(rows)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Tuned:
        """The one that ``as_json`` kept."""
        options = dict(kept)
        return cls(*options.pop("tuned"), **options)

    def as_json(self) -> dict[str, Any]:
        """How it stands in a record."""
        by = {"lowest": self.lowest} if self.lowest else {"highest": self.highest}
        return {"tuned": list(self.values), "seeds": self.seeds, **by, **self.replaced}


def choices(record: dict[str, Any]) -> tuple[str, list[tuple[dict, Choice]]] | None:
    """The setting that was chosen, and for each combination of the others the choice.

    ``record`` has the experiment's settings as JSON keeps them, its rows and those tried.
    """
    settings, rows, tried = record["settings"], record["rows"], record["tried"]
    for name, kept in settings.items():
        if isinstance(kept, dict) and "tuned" in kept:
            tuned = Tuned.from_json(kept)
            apart = {name, "seeds", *tuned.replaced}
            others = [other for other in settings if other not in apart]
            cells = _distinct({other: row[other] for other in others} for row in rows)
            return name, [
                (cell, tuned.judge(_by_value(name, tried, cell | tuned.replaced))) for cell in cells
            ]
    return None


def _distinct(cells: Iterable[dict]) -> list[dict]:
    found = []
    for cell in cells:
        if cell not in found:
            found.append(cell)
    return found


def _by_value(name: str, tried: list[dict], cell: dict) -> dict[float, list[dict]]:
    found: dict[float, list[dict]] = {}
    for row in tried:
        if all(row[other] == value for other, value in cell.items()):
            found.setdefault(row[name], []).append(row)
    return dict(sorted(found.items()))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
