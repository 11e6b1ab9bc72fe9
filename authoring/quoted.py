"""Numbers that a text takes from a chapter's record, filled in when it is built.

In the source of a chapter stands the record and what of it is meant, settings behind semicolons:

    {{04 right_with_attention: 16-18 words; hidden=32; reads=attention}}

and in its notebook what was measured, from smallest to largest: "0.877 to 0.941". Of a curve it is
the last number, or with `right[0]` the first; `said[1:4]` are the first four lines of the second
text (of the only one, where there is one). Documents hold both, the first in a comment:

    <!--{{11 captions: BLEU; model=Transformer}}-->38.1 to 38.8<!---->
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from textbook.lab.report import number, shown

from .alone import with_links

QUOTE = re.compile(r"\{\{(\d\d) (\w+): ([^{}]+)\}\}")
SHOWN = re.compile(r"(<!--(\{\{\d\d \w+: [^{}]+\}\})-->)[^<]*(<!---->)")
ANOTHER = re.compile(r"\bchapters? (\d\d)|^\| (\d\d) \|", re.IGNORECASE | re.MULTILINE)
MEASURED = re.compile(r"(?<![\d.§])\d+\.\d+|\d+ %|\d+e-?\d+")


def filled(results: Path, text: str) -> str:
    """The text with each quotation replaced by the numbers; ``results`` is the records' folder.

    LookupError if nothing is recorded under its name or with its settings.
    """
    return QUOTE.sub(lambda found: _numbers(results, found), text)


def write(root: Path) -> None:
    """Fill the numbers of README.md and of docs/ in, and README.md's links to hosts."""
    for path, before, after in _documents(root):
        if after != before:
            path.write_text(after, encoding="utf-8", newline="\n")


def problems(root: Path) -> Iterator[str]:
    """The documents whose numbers no record has, or whose links nobody asks for."""
    for path, before, after in _documents(root):
        if after != before:
            name = path.relative_to(root).as_posix()
            yield (
                f"{name} has numbers that no record has, or links that pyproject.toml does not ask "
                "for: run: python book.py build NN, any"
            )


def _documents(root: Path) -> Iterator[tuple[Path, str, str]]:
    """README.md and the pages of docs/, with their texts as they are and as they should be."""
    results = root / "notebooks" / "results"
    for path in [*root.glob("README.md"), *sorted(root.glob("docs/*.md"))]:
        text = path.read_text(encoding="utf-8")
        fill = SHOWN.sub(lambda found: found[1] + filled(results, found[2]) + found[3], text)
        yield path, text, with_links(root, fill)


def unfilled(number: str, text: str) -> Iterator[str]:
    """Sentences and rows that name another chapter and hold a number of their own."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\|)|\n(?=[-*] )", text):
        joined = " ".join(line.lstrip("> ") for line in paragraph.split("\n")).strip()
        for sentence in re.split(r"(?<=[.;]) (?=[A-Z(*])", joined):
            others = {one or other for one, other in ANOTHER.findall(sentence)} - {number}
            settings = {part for quote in QUOTE.finditer(sentence) for part in quote[3].split("=")}
            own = QUOTE.sub("", sentence)
            if others and set(MEASURED.findall(own)) - settings:
                yield sentence


def _numbers(results: Path, found: re.Match) -> str:
    where, (chapter, name, asked) = found[0], found.groups()
    path = results / f"{chapter}.json"
    records = _records(path, path.stat().st_mtime_ns) if path.exists() else {}
    if name not in records:
        raise LookupError(
            f"{where}: {path.name} has no record {name!r}; it has {', '.join(records)}"
        )
    measured, *settings = (part.strip() for part in asked.split(";"))
    wanted = dict(setting.split("=", 1) for setting in settings)
    measured, _, index = measured.partition("[")
    rows = records[name]["rows"]
    if unknown := sorted({measured, *wanted} - rows[0].keys()):
        raise LookupError(f"{where}: no run has {unknown[0]!r}; there is {', '.join(rows[0])}")
    chosen = [row for row in rows if all(shown(row[key]) == x for key, x in wanted.items())]
    if not chosen:
        raise LookupError(f"{where}: no run has all of these settings")
    values = [row[measured] for row in chosen]
    index, _, lines = index.rstrip("]").partition(":")
    if lines:
        text = values[0] if isinstance(values[0], str) else values[0][int(index)]
        return "<br>".join(text.split("\n")[: int(lines)])
    at = int(index) if index else -1
    values = sorted(value[at] if isinstance(value, list) else value for value in values)
    low, high = number(values[0]), number(values[-1])
    return low if low == high else f"{low} to {high}"


@lru_cache(maxsize=32)
def _records(path: Path, changed: int) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))
