"""The checks in a folder for students: without keys and tables, but with what the answers gave."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from ..sources import BookError
from .outcomes import store

CHECKS = Path("textbook/checks")
ONLY_FOR_INSTRUCTORS = "**/*_key.py", "chapter_*/*.txt"


def hand_out_checks(folder: Path, chapters: Sequence[str] = ()) -> None:
    """Take the keys out of the folder, and store what the answers here give, in all chapters."""
    checks = folder / CHECKS
    for pattern in ONLY_FOR_INSTRUCTORS:
        for path in checks.glob(pattern):
            path.unlink()
    (checks / "outcomes").mkdir()
    names = chapters or sorted(path.name for path in checks.glob("chapter_*"))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        running = {pool.submit(store, name, checks / "outcomes"): name for name in names}
        for done in as_completed(running):
            if error := done.exception():
                pool.shutdown(cancel_futures=True)
                raise BookError(f"The answers of {running[done]} cannot be stored: {error}")
            print(f"{running[done]}: checks without answers", flush=True)
