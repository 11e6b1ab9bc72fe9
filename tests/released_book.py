"""Beside a released book: its public checks say what those of the repository say, and give nothing.

    python -P tests/released_book.py RELEASED 05 08
    python -P tests/released_book.py --beside RELEASED 05 08
    python -P tests/released_book.py --third RELEASED 05 08

asks chapters (all, if none is named) about all answers of the tests and all usual mistakes. It
prints, as JSON, a line for each: how many were checked, of which something else was said than
should be, the callables that are left and pass as an answer, the exercises that let hidden checks
run, and the seconds of the checks. The second form compares each word with the checks here, the
third does so for each third answer.
"""

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
SECONDS = 1  # for a callable that is no answer, and may run for ever


SHARED = "key", "modules", "recorded", "released", "stored", "suspects"  # know what copy they are
COPIED = rf"(?:chapter_\d\d|{'|'.join(SHARED)})\b"


def copied(folder: Path) -> None:
    """The repository's chapters, with their keys, as a package of another name, `home`."""
    checks = HOME / "textbook" / "checks"
    shared = [checks / f"{name}.py" for name in SHARED]
    for path in [*checks.glob("chapter_*/*.*"), *shared]:
        text = path.read_text(encoding="utf-8")
        text = re.sub(rf"textbook\.checks(\.| import )({COPIED})", r"home\1\2", text)
        place = folder / "home" / path.relative_to(checks)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def said(check: Callable, answer: object) -> tuple[str, float]:
    """What a check says of an answer, and its seconds."""
    began = time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            check(answer)
        text = "passed"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return text, time.process_time() - began


def answers_of(check) -> Iterator[tuple[object, str]]:
    """Answers of every kind, each with what has to be said of it."""
    key = importlib.import_module(f"{check.home}_key")
    yield check.reference, "passed"
    for answer in key.right[check.name]:
        yield answer, "passed"
    for answer in getattr(key, "refused", {}).get(check.name, []):
        yield answer, "your answer runs the library's"
    for mistake in check.mistakes:
        yield mistake.function, f"Your answer is {mistake.name}."


def compared(number: str, beside: bool, step: int) -> dict:
    """What the released checks of a chapter say otherwise than they should, or than those here."""
    framework = sys.modules["textbook.checks.exercise"]
    home = importlib.import_module(f"home.chapter_{number}")
    there = importlib.import_module(f"textbook.checks.chapter_{number}")
    found = {"answers": 0, "other": [], "given": [], "open": [], "home": 0.0, "released": 0.0}
    for check in [x for x in vars(home).values() if isinstance(x, framework.Exercise)]:
        released = getattr(there, check.name)
        for answer, expected in islice(answers_of(check), 0, None, step):
            text, seconds = said(released, answer)
            found["answers"] += 1
            found["released"] += seconds
            same = expected in text
            if beside:
                expected, seconds = said(check, answer)
                found["home"] += seconds
                same = text == expected
            if not same:
                found["other"].append([check.name, expected, text])
        if "instructor" not in said(lambda x, of=released: of(x, hidden=True), check.reference)[0]:
            found["open"].append(check.name)
        found["given"] += [[check.name, name] for name, f in left(there) if passes(released, f)]
    return found


def left(chapter) -> Iterator[tuple[str, object]]:
    """Everything that can be called in a chapter's modules, and what factories make."""
    for _, name, _ in pkgutil.iter_modules(chapter.__path__, f"{chapter.__name__}."):
        for key, value in vars(importlib.import_module(name)).items():
            if not getattr(value, "__module__", "").startswith(chapter.__name__):
                continue
            place = f"{value.__module__}.{key}"
            yield from ((place, each) for each in (value, *made(value)) if callable(each))


def made(value: object) -> Iterator[object]:
    """What a function without parameters returns, and what is in it."""
    if inspect.isfunction(value):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            result = value()
            yield result
            kinds = result if isinstance(result, tuple) else (result,)
            for programs in [each for each in kinds if isinstance(each, dict)]:
                yield from programs.values()
                yield from (next(made(each), None) for each in programs.values())


def passes(check: Callable, answer: object) -> bool:
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)  # again, if it falls on deaf ears
    try:
        return said(check, answer)[0] == "passed"
    except TooLong:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class TooLong(BaseException):
    """The seconds are over."""


def stop(*_) -> None:
    raise TooLong


def main(*arguments: str) -> None:
    third = arguments[0] == "--third"
    beside = third or arguments[0] == "--beside"
    released, *numbers = arguments[beside:]
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        sys.path[:0] = [released, folder]
        import textbook.checks

        assert Path(textbook.__file__).is_relative_to(released), textbook.__file__
        framework = sys.modules["textbook.checks.exercise"]
        assert list(framework.SEEDS) == [False]
        framework.SEEDS[True] = 100, 101, 102  # for the repository's chapters, which tell by both
        for number in numbers or [f"{n:02}" for n in range(14)]:
            print(
                json.dumps({"chapter": number, **compared(number, beside, 3 if third else 1)}),
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
