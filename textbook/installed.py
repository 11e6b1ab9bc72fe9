"""Where the book's files are, and its command where it was installed with pip.

In a clone they stand beside the packages. A wheel carries them inside: chapters, exercises, records
and pages of the docs (pyproject.toml says which), with the same book.py. So ::

    pip install minitorch-book
    minitorch-book lab

opens the book in ``my/`` of the folder where it is called, as ``python book.py lab`` in a clone.
"""

import runpy
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CARRIED = PACKAGE / "book"  # in a wheel only
BOOK = CARRIED if CARRIED.is_dir() else PACKAGE.parent


def command() -> None:
    """What ``minitorch-book`` does: run book.py."""
    sys.argv[0] = str(BOOK / "book.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
