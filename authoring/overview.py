"""Tell where README.md's table of chapters differs from what chapters and exercise sets say."""

import re
from collections.abc import Iterator
from pathlib import Path

from .sources import chapters, exercise_sets, number_of

TABLE = 'README.md, "Chapters",'
ROW = re.compile(
    r"^\| (\d\d) \| \[.*notebooks/.*\| (\d+) \| "
    r"(?:\[(\d+)\]\(.*\)|\[\d projects\]\(.*\)|planned) \|$",
    re.MULTILINE,
)


def problems(root: Path) -> Iterator[str]:
    """Every problem as one line that says what to do."""
    text = (root / "README.md").read_text(encoding="utf-8")
    told = {
        number: (int(minutes), int(count) if count else None)
        for number, minutes, count in ROW.findall(text)
    }
    sources = {number_of(source): source for source in chapters(root)}
    sets = {number_of(source): source for source in exercise_sets(root)}
    for number in sorted(told.keys() - sources):
        yield f"{TABLE} has a row {number}, but no chapter has that number: remove it"
    for number in sorted(sets.keys() - sources):
        yield f"{sets[number].relative_to(root)} has no chapter: write notebooks/{number}_....py"
    for number, chapter in sources.items():
        where = chapter.relative_to(root)
        stem = chapter.stem
        minutes = re.search(r"\*\*Time\*\*: about (\d+) minutes", chapter.read_text("utf-8"))
        if minutes is None:
            yield f'{where} does not say how long it takes: write "**Time**: about 100 minutes"'
        elif number not in sets:
            if told.get(number) != (int(minutes[1]), None):
                yield (
                    f"{where} has no exercise set: write solutions/{stem}/{stem}.py, with a "
                    f'heading "## 1. Name" an exercise, and run: python book.py build {number}; '
                    f"until then its row in {TABLE} ends | {minutes[1]} | planned |"
                )
        else:
            answers = sets[number].read_text(encoding="utf-8")
            found = int(minutes[1]), len(re.findall(r"^# ## \d+\. ", answers, re.MULTILINE))
            end = f"| {found[0]} | [{found[1]}](exercises/{stem}/{stem}.ipynb) |"
            if number not in told:
                yield (
                    f"{TABLE} has no row of {where}: write "
                    f"| {number} | [Title](notebooks/{stem}.ipynb) | what it builds {end}"
                )
            elif told[number] != found:
                yield f"{TABLE} says other minutes or exercises than chapter {number}: write {end}"
