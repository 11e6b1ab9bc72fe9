"""Experiments that run small in the chapter and large when they are recorded."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any


class Experiments:
    """The experiments of one chapter.

    ``Experiments("01")`` reads what was recorded from ``results/01.json`` beside the notebook::

        lab = Experiments("01")

        @lab.experiment("C2", quick=dict(seeds=[0]), full=dict(seeds=[0, 1, 2]))
        def clipping(seeds):
            return {"with clipping": [train(seed, clip=1.0) for seed in seeds]}

        here = clipping.run()
        full = clipping.recorded
    """

    def __init__(self, chapter: str) -> None:
        caller = sys._getframe(1).f_globals.get("__file__")
        folder = Path(caller).parent if caller else Path.cwd()
        self.path = folder / "results" / f"{chapter}.json"

    def experiment(
        self,
        claim: str,
        *,
        quick: dict[str, Any],
        full: dict[str, Any],
        lacks: Callable[[], str | None] = lambda: None,
    ) -> Callable[[Callable], Experiment]:
        """Make the decorated function the experiment for a claim, with its two settings.

        ``lacks()`` names what the full setting needs and this machine does not have, such as "a
        GPU"; where it names something, the experiment stays quick and is not recorded.
        """

        def decorate(function: Callable) -> Experiment:
            return Experiment(function, claim, quick, full, self.path, lacks)

        return decorate


class Experiment:
    """A function that measures a claim, in a quick and a full setting.

    Called as a function it runs with any setting: ``clipping(seeds=[7])``.
    """

    def __init__(
        self,
        function: Callable,
        claim: str,
        quick: dict[str, Any],
        full: dict[str, Any],
        path: Path,
        lacks: Callable[[], str | None] = lambda: None,
    ) -> None:
        for settings in (quick, full):
            inspect.signature(function).bind(**settings)
        self.function = function
        self.claim = claim
        self.quick = quick
        self.full = full
        self.path = path
        self.lacks = lacks
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def run(self) -> Any:
        """Measure, and return the result as it looks after a trip through JSON.

        The setting is the quick one; under ``python book.py experiment NN [CLAIM ...]`` it is the
        full one for these claims (all), and what was measured is recorded, or what was lacking.
        """
        book = os.environ.get("MINITORCH_BOOK", "quick")
        if book not in ("quick", "full"):
            raise ValueError(f"MINITORCH_BOOK is {book!r}, expected 'quick' or 'full'")
        claims = os.environ.get("MINITORCH_CLAIMS", "").split() or [self.claim]
        in_full = book == "full" and self.claim in claims
        folder = os.environ.get("MINITORCH_RECORD")
        if in_full and (lacking := self.lacks()):
            in_full = False
            if folder:
                Path(folder, f"{self.claim}.lacking").write_text(lacking, encoding="utf-8")
        settings = self.full if in_full else self.quick
        start = perf_counter()
        result = json.loads(json.dumps(self.function(**settings), default=_plain))
        if in_full and folder:
            measured = {
                "settings": settings,
                "result": result,
                "seconds": round(perf_counter() - start, 1),
            }
            text = json.dumps(measured, default=_plain)
            Path(folder, f"{self.claim}.json").write_text(text, encoding="utf-8")
        return result

    @property
    def recorded(self) -> dict[str, Any] | None:
        """The full result with settings, machine, versions and date; None before it was recorded.

        Keys: settings, result, seconds, machine, versions, date, code_hash.
        """
        if not self.path.exists():
            return None
        return json.loads(self.path.read_text(encoding="utf-8")).get(self.claim)


def _plain(value: Any) -> Any:
    """What JSON does not know: tensors and NumPy's arrays and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"an experiment returned {type(value).__name__}: return numbers, strings, lists and dicts"
    )
