"""What is known of each exercise: in one grading, and side by side in several, such as of years."""

import csv
from pathlib import Path

import numpy as np

COLUMNS = ["set", "exercise", "points", "notebooks", "solved", "mean", "tells apart"]


def statistics(rows: list[dict], maximum: dict[str, dict[str, float]]) -> list[dict]:
    """A line for each exercise of each set, from the rows of a grading.

    ``solved`` is the share of the notebooks with full points, ``mean`` the mean of the points, and
    ``tells apart`` the correlation of this exercise's points with those of all others of the set:
    near 0 or below, the exercise is worth a look. It is None where nobody, or everybody, differs.
    """
    found = []
    for name, exercises in maximum.items():
        graded = [row for row in rows if row["set"] == name and row["answers"]]
        for exercise, points in exercises.items():
            got = np.array([row[exercise] for row in graded], float)
            others = np.array([row["total"] - row[exercise] for row in graded], float)
            found.append(
                {
                    "set": name,
                    "exercise": exercise,
                    "points": points,
                    "notebooks": len(graded),
                    "solved": round(float((got >= points).mean()), 3) if graded else None,
                    "mean": round(float(got.mean()), 3) if graded else None,
                    "tells apart": _correlation(got, others),
                }
            )
    return found


def _correlation(one, other):
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return None
    return round(float(np.corrcoef(one, other)[0, 1]), 2)


def write(path: Path, lines: list[dict]) -> None:
    """Write the lines as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(lines)


def compare(folders: list[Path]) -> str:
    """The share that solved each exercise, a column for each folder of results."""
    solved, exercises = [], {}
    for folder in folders:
        path = folder / "statistics.csv"
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        solved.append({(line["set"], line["exercise"]): line for line in lines})
        exercises |= dict.fromkeys(solved[-1])
    head = ["set", "exercise", *(folder.name.removesuffix("-results") for folder in folders)]
    table = [head]
    for key in exercises:
        shares = [
            f"{float(line['solved']):.0%} of {line['notebooks']}"
            if (line := year.get(key)) and line["solved"]
            else "-"
            for year in solved
        ]
        table.append([*key, *shares])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )
