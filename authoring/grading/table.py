"""grades.csv, a row at a time, and what is known of the rows of an earlier run."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

from authoring.grading.course import maximum

FORMULA = ("=", "+", "-", "@")  # how what a spreadsheet computes begins


class Table:
    """grades.csv, a row at a time.

    The first row replaces the table of an earlier run. Each row is added by one write and is on the
    disk before the next one, so that a reader, or a broken run, finds whole rows only.
    """

    def __init__(self, path: Path, sets: Iterable[NotebookNode], more: Iterable[str] = ()):
        exercises = [name for source in sets for name in maximum(source)]
        columns = ["student", "set", "total", "max", "problem", *more, *exercises]
        self.path, self.columns = path, list(dict.fromkeys(columns))
        self.rows: list[dict] = []

    def add(self, row: dict):
        if not self.rows:
            begun = self.path.with_name(self.path.name + ".part")
            begun.unlink(missing_ok=True)
            self._append(begun, dict(zip(self.columns, self.columns, strict=True)), row)
            os.replace(begun, self.path)
        else:
            self._append(self.path, row)
        self.rows.append(row)

    def _append(self, path: Path, *rows: dict):
        text = io.StringIO()
        rows = [{name: no_formula(value) for name, value in row.items()} for row in rows]
        csv.DictWriter(text, self.columns, extrasaction="ignore").writerows(rows)
        append(path, text.getvalue())


def no_formula(value):
    """A text with a quote before it where a spreadsheet would compute it; all else as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def append(path: Path, text: str) -> None:
    """Add text to a file by one write, and see it on the disk."""
    with path.open("ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())


class Memory:
    """The rows that were graded, each under the hash of all that it came from.

    A line of grades.jsonl is one row; a line that was broken off counts for nothing. ``last`` has
    the latest of each student and set.
    """

    def __init__(self, path: Path, resume: bool):
        self.path, self.known, self.last = path, {}, {}
        if not resume:
            path.unlink(missing_ok=True)
        elif path.exists():
            content = path.read_bytes()
            if content and not content.endswith(b"\n"):
                append(path, "\n")
            for line in content.splitlines():
                try:
                    key, row = json.loads(line)
                    self.last[row.get("student"), row.get("set")] = self.known[key] = row
                except (ValueError, TypeError, AttributeError):
                    continue

    def add(self, key: str, row: dict):
        self.known[key] = row
        append(self.path, json.dumps([key, row]) + "\n")


def content_hash(*parts: bytes | str) -> str:
    """A hash of several texts or contents, in their order."""
    found = hashlib.sha256()
    for part in parts:
        part = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()
