"""The checks in a folder for students: stripped, and beside them what the references gave."""

import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from ..sources import BookError
from .outcomes import store
from .strip import CHECKS, stripped, without_answers

HIDDEN_SEEDS = re.compile(r"^(SEEDS = \{False: [^}]*?), True: [^}]*\}", re.MULTILINE)


def hand_out_checks(folder: Path, chapters: Sequence[str] = ()) -> None:
    """Strip the checks in the folder, and store what the references here give, in all chapters."""
    checks = folder / CHECKS.replace(".", "/")
    _strip(checks)
    (checks / "outcomes").mkdir()
    names = chapters or sorted(path.name for path in checks.glob("chapter_*"))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        running = {pool.submit(store, name, checks / "outcomes"): name for name in names}
        for done in as_completed(running):
            if error := done.exception():
                pool.shutdown(cancel_futures=True)
                raise BookError(f"The checks of {running[done]} cannot be stripped: {error}")
            print(f"{running[done]}: checks without references", flush=True)


def _strip(checks: Path) -> None:
    paths = modules_in(checks)
    for name, text in stripped(
        {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    ).items():
        paths[name].write_text(text, encoding="utf-8")
    modules = checks / "modules.py"
    modules.write_text(without_answers(modules.read_text(encoding="utf-8")), encoding="utf-8")
    for table in checks.glob("chapter_*/*.txt"):
        table.unlink()
    framework = checks / "exercise.py"
    text, changed = HIDDEN_SEEDS.subn(r"\1}", framework.read_text(encoding="utf-8"))
    if changed != 1:
        raise BookError("The seeds of the hidden checks were not found in exercise.py")
    framework.write_text(text, encoding="utf-8")


def modules_in(checks: Path) -> dict[str, Path]:
    """The files of all chapters by the names of their modules."""
    paths = sorted(checks.glob("chapter_*/*.py"))
    parts = [(CHECKS, *path.relative_to(checks).with_suffix("").parts) for path in paths]
    names = [".".join(part).removesuffix(".__init__") for part in parts]
    return dict(zip(names, paths, strict=True))
