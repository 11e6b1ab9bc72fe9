"""The source of Python's standard library: the longest text that every Python carries."""

import os
import re
import sysconfig
from pathlib import Path

SKIPPED = {"__pycache__", "encodings", "idlelib", "site-packages", "test", "tests", "turtledemo"}
LONGEST_LINE = 200  # longer ones are tables of data


def library_source() -> tuple[str, str]:
    """The standard library's source, about six million characters, and files of it kept aside.

    Files in ASCII alone, in the order of their paths, without tests, encodings and data; every
    tenth file is kept aside. Indentation is left out. The text is that of the
    Python that runs (``platform.python_version()``), so numbers differ a little from one Python to
    the next. FileNotFoundError for a Python without its source.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    texts = []
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(names):
            if name.endswith(".py"):
                text = Path(path, name).read_text(encoding="utf-8", errors="replace")
                if text.isascii() and max(map(len, text.split("\n"))) <= LONGEST_LINE:
                    texts.append(_without_indentation(text))
    if len(texts) < 100:
        raise FileNotFoundError(
            f"{folder} holds {len(texts)} source files: this Python comes without the source of "
            "its standard library, so take another text (textbook.data.read_text)"
        )
    aside = texts[5::10]
    del texts[5::10]
    return "\n".join(texts), "\n".join(aside)


def _without_indentation(text: str) -> str:
    return re.sub(r"\n\s+", "\n", text).strip()
