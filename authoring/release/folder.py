"""The book as students get it, in a folder of its own."""

import os
import re
import shutil
from pathlib import Path

from ..sources import BookError
from .checks import hand_out_checks

HANDED_OUT = (
    "README.md",
    "LICENSE",
    "LICENSE-text",
    "book.py",
    "docs",
    "environment.yml",
    "pyproject.toml",
    "exercises",
    "minitorch",
    "notebooks",
    "textbook",
    "benchmarks/README.md",
    "benchmarks/parity/chapter_10.py",
)
NOT_HANDED_OUT = ("__pycache__", ".*", "instructors.md")
WHOLE_BOOK = re.compile("<!-- whole book -->.*?<!-- /whole book -->\n?", re.DOTALL)


def from_shell(folder: Path) -> Path:
    """A folder as the user named it: book.py, which runs us in its own folder, says from where."""
    return Path(os.environ.get("BOOK_CALLED_FROM", "."), folder)


def hand_out(root: Path, folder: Path) -> None:
    """Copy the book without solutions, tests and author's tools into a new or empty folder."""
    folder = from_shell(folder)
    if folder.exists() and any(folder.iterdir()):
        raise BookError(f"{folder} is not empty: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name in HANDED_OUT:
        if (root / name).is_dir():
            unwanted = shutil.ignore_patterns(*NOT_HANDED_OUT)
            shutil.copytree(root / name, folder / name, ignore=unwanted)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    for path in [folder / "README.md", *(folder / "docs").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        path.write_text(WHOLE_BOOK.sub("", text), encoding="utf-8")
    hand_out_checks(folder)
