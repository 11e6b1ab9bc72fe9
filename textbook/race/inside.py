"""The fresh process of a race: python -m textbook.race.inside PROGRAM SECONDS SEED RESULT.

On its input stand two lines of JSON: what the program learns from, then what it is measured on.
"""

import json
import platform
import runpy
import sys
import traceback
from pathlib import Path

import numpy as np

from textbook.race.clock import Clock
from textbook.race.measure import RaceError, as_numbers, nats_a_letter, refuse_unfair

CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".dylib")
STARTED = (
    "subprocess.",
    "socket.",
    "os.fork",
    "os.exec",
    "os.posix_spawn",
    "os.system",
    "ctypes.dl",
)


class Guard:
    """While it is up, no file is opened but code that is imported, and no process or socket."""

    def __init__(self) -> None:
        self.up = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple) -> None:
        if not self.up:
            return
        if event.startswith(STARTED):
            raise RaceError(f"the program asks for {event}: it must stay within its process")
        if event == "open" and isinstance(arguments[0], str | bytes):
            name = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode()
            if not name.endswith(CODE):
                raise RaceError(f"the program opens {name}: what it learns from is `text` alone")


def race(path: str, league: float, seed: int, guard: Guard) -> dict:
    """Train by the program, then read the held-out text and measure."""
    training = json.loads(sys.stdin.readline())
    letters = training["letters"]
    train = runpy.run_path(path)["train"]
    clock = Clock(league)
    guard.up = True
    predict = train(training["text"], letters, seed, clock)
    guard.up = False
    seconds = clock.done * league
    if not callable(predict):
        raise RaceError(f"train must return the function predict, it returned {predict!r:.60}")
    held_out = {
        name: as_numbers(text, letters) for name, text in json.loads(sys.stdin.readline()).items()
    }
    refuse_unfair(predict, held_out["closed"], len(letters))
    return {
        "nats": {name: nats_a_letter(predict, x, len(letters)) for name, x in held_out.items()},
        "steps": clock.steps,
        "seconds": round(seconds, 3),
        "processor seconds": round(clock.spent, 3),
        "reference step": round(clock.reference_step, 5),
        "processor": platform.processor() or platform.machine(),
        "numpy": np.__version__,
        "written": written(predict, letters, np.random.default_rng(seed)),
    }


def written(predict, letters: str, rng: np.random.Generator, length: int = 400) -> str:
    """What the model writes after an empty line, at temperature 0.5."""
    numbers = [letters.find("\n") if "\n" in letters else 0]
    for _ in range(length):
        scores = 2 * predict(np.array([numbers[-128:]]))[0, -1].astype(np.float64)
        chances = np.exp(scores - scores.max())
        numbers.append(rng.choice(len(letters), p=chances / chances.sum()))
    return "".join(letters[i] for i in numbers).strip()


def where(error: Exception, path: str) -> str:
    """The error with the program's line that it comes from."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return f"{type(error).__name__}: {error}" + (f" (line {lines[-1]})" if lines else "")


def main(path: str, league: str, seed: str, out: str) -> None:
    """Write what came out, or the error, to the file ``out``."""
    guard = Guard()
    try:
        found = race(path, float(league), int(seed), guard)
    except (Exception, SystemExit) as error:
        guard.up = False
        found = {"error": str(error) if isinstance(error, RaceError) else where(error, path)}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
