"""When each set was due, how late it came, and what that costs: ``deadlines.toml``."""

import math
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nbgrader.utils import parse_utc

from authoring.grading.isolation import GradingError

FILE = "deadlines.toml"
KEYS = {"due": dict, "late_days": int, "penalty": (int, float), "extra": dict, "file_times": bool}
COLUMNS = ["days late", "penalty", "counts"]


@dataclass
class Deadlines:
    """What ``deadlines.toml`` in the folder of a class says; without one nothing is ever late."""

    due: dict[str, datetime] = field(default_factory=dict)
    late_days: int = 0
    penalty: float = 0.0
    extra: dict[str, dict[str, int]] = field(default_factory=dict)
    file_times: bool = False

    def late(self, handed_in: dict[str, datetime], student: str) -> dict[str, tuple[int, int]]:
        """By set, the days that it came late, and those of them that are not free.

        The student's own days are added to each deadline; then the free days of all sets are used
        up, in the order in which the sets were due.
        """
        free, found = self.late_days, {}
        for name in sorted(self.due.keys() & handed_in.keys(), key=self.due.get):
            due = self.due[name] + timedelta(days=self.extra.get(student, {}).get(name, 0))
            days = max(0, math.ceil((handed_in[name] - due) / timedelta(days=1)))
            found[name] = days, max(0, days - free)
            free = max(0, free - days)
        return found

    def columns(self, row: dict, late: tuple[int, int] | None) -> dict:
        """What the table says of a row's lateness: days, points lost, and the points that count."""
        if not self.due:
            return {}
        days, paid = late or (0, 0)
        lost = min(row["total"], round(paid * self.penalty * row["max"], 2))
        return dict(zip(COLUMNS, (days, lost, row["total"] - lost), strict=True))


def read(folder: Path, sets: list[str]) -> Deadlines:
    """The deadlines of a class; raises `GradingError` where the file says what cannot be."""
    path = folder / FILE
    if not path.is_file():
        return Deadlines()
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GradingError(f"{path} cannot be read: {error}") from None
    for name, value in told.items():
        if not isinstance(value, KEYS.get(name, ())):
            raise GradingError(f"{path}: {name} = {value!r}, but it may hold {', '.join(KEYS)}")
    for name, due in told.get("due", {}).items():
        if name not in sets or not isinstance(due, datetime):
            raise GradingError(
                f"{path}: [due] has {name} = {due}, expected a set ({', '.join(sets)}) "
                "and a time like 2026-10-20T18:00:00"
            )
        told["due"][name] = due.astimezone()  # without a zone it is this machine's
    return Deadlines(**told)


def handed_in(notebook: Path, file_times: bool = False) -> datetime | None:
    """When nbgrader's exchange took a notebook, or else, if that counts, when it was changed."""
    try:
        told = notebook.with_name("timestamp.txt").read_text(encoding="utf-8").strip()
        return parse_utc(told).replace(tzinfo=UTC)
    except (OSError, ValueError, OverflowError):
        return datetime.fromtimestamp(notebook.stat().st_mtime).astimezone() if file_times else None
