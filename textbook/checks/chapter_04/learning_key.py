"""Answers to the exercises of ``learning.py``."""

import itertools

import numpy as np

from textbook.checks.chapter_04.learning import _table_cases, learns_faster


@learns_faster.answer(hidden_cases=lambda draw: _table_cases(draw, shift=7))
def learns_faster(rows):
    """Pairs (faster, slower) of score functions, as far as the table allows."""
    fair = [
        row
        for row in rows
        if row["chosen on"] != row["tested on"] and len(row["steps to 90 %"]) >= 5
    ]
    found = []
    for a in fair:
        for b in fair:
            if a["width"] != b["width"] or a["tested on"] != b["tested on"]:
                continue
            if None in a["steps to 90 %"]:
                continue
            later = [b["steps run"] + 1 if s is None else s for s in b["steps to 90 %"]]
            if max(a["steps to 90 %"]) < min(later):
                found.append((a["score"], b["score"]))
    return found


# Right in another way


def faster_with_numpy(rows):
    found = set()
    for a, b in itertools.permutations(rows, 2):
        x, y = (
            np.array([np.nan if s is None else s for s in row["steps to 90 %"]], dtype=float)
            for row in (a, b)
        )
        fair = all(row["chosen on"] != row["tested on"] for row in (a, b))
        same = (a["width"], a["tested on"]) == (b["width"], b["tested on"])
        if fair and same and min(len(x), len(y)) >= 5 and not np.isnan(x).any():
            if x.max() < np.where(np.isnan(y), b["steps run"] + 1, y).min():
                found.add((a["score"], b["score"]))
    return found


def faster_one_by_one(rows):
    def before(s, t, run):
        """Whether s steps are known to be fewer than t, where None is more than were run."""
        return s is not None and (s <= run if t is None else s < t)

    found = []
    for a in rows:
        for b in rows:
            x, y = a["steps to 90 %"], b["steps to 90 %"]
            if a["tested on"] in (a["chosen on"], b["chosen on"]) or len(x) < 5 or len(y) < 5:
                continue
            if a["tested on"] != b["tested on"] or a["width"] != b["width"]:
                continue
            if all(before(s, t, b["steps run"]) for s in x for t in y):
                found.append([a["score"], b["score"]])
    return found


right = {
    "learns_faster": [faster_with_numpy, faster_one_by_one],
}
