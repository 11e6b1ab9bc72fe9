"""The first edition of this book as text: what its language models learn to write.

Prose and code were taken from the book when its second edition began and do not change with it, so
that every machine trains on the same characters. Both are our own, in ASCII.
"""

import gzip
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("first_edition")


@cache
def first_edition() -> str:
    """The prose of the first edition: a paragraph a line, about 300,000 characters.

    Chapters, exercise sets and documents, without markup, formulas that stand alone, tables and
    programs; of paragraphs that are nearly alike one is kept. Sections are whole and stand in an
    order that was drawn, so that the end of the text is a sample of all of it (``split``).
    """
    return _text("prose.txt.gz")


@cache
def first_edition_code() -> tuple[str, str]:
    """The code of the first edition, about two million characters, and files of it kept aside.

    The library, its tests, the chapters' cells and the tools, in an order that was drawn, without
    indentation and empty lines; every tenth file is kept aside. Nothing that solves an exercise is
    in it.
    """
    files = _text("code.txt.gz").split("\f")
    plain = [re.sub(r"\n\s+", "\n", file).strip() for file in files]
    aside = plain[5::10]
    del plain[5::10]
    return "\n".join(plain), "\n".join(aside)


def _text(name: str) -> str:
    return gzip.decompress((FOLDER / name).read_bytes()).decode("ascii")
