"""Which exercises of a set pass, and their points: one line at the top of the set.

It is kept in ``my/``, the student's copy of the book. Anywhere else, as where answers are graded,
nothing is kept and nothing is shown. ::

    from textbook.checks import progress

    progress.show("07")  # from now on, each check brings the line up to date
"""

import json
import re
import sys
from pathlib import Path

from textbook.installed import BOOK

GIVEN_OUT = ".book.json"  # book.py notes there what it has put into the student's copy
_shown, _noted = None, set()  # the set that is worked at, and the checks noted in this cell


def show(number):
    """Show the line of the set of this chapter, where the student works."""
    global _shown
    if _mine():
        _shown = number
        _display(number, update=False)
        shell = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
        if shell:
            if after_cell in shell.events.callbacks["post_run_cell"]:
                shell.events.unregister("post_run_cell", after_cell)
            shell.events.register("post_run_cell", after_cell)


def note(module, name, passed):
    """Keep whether the check of this name, defined in this module, passed; renew the line."""
    found = re.match(r"textbook\.checks\.chapter_(\d\d)\.", module)
    if found and _shown in (None, found[1]) and _mine():
        _noted.add(name)
        _keep(found[1], {name: passed})


def after_cell(result):
    """Keep whether a cell passed whose checks are not noted one by one, such as a training."""
    text = result.info.raw_cell
    names = [name for name in _called(text) if name in _checks(_shown) and name not in _noted]
    _noted.clear()
    if names:
        _keep(_shown, dict.fromkeys(names, bool(result.success)))


def line(number):
    """The exercises of a set with their marks, and the points of those checks that passed."""
    passed = {name for name, does in _kept().get(number, {}).items() if does}
    checks = _checks(number)
    marks = {}
    for name, (exercise, _) in checks.items():
        marks[exercise] = marks.get(exercise, True) and name in passed
    shown = "  ".join(
        f"{exercise} {'✓' if all_of_it else '–'}" for exercise, all_of_it in marks.items()
    )
    points = sum(worth for name, (_, worth) in checks.items() if name in passed)
    return (
        f"Set {number}:  {shown}   {points} of {sum(worth for _, worth in checks.values())} points"
    )


def _checks(number):
    """The number of the exercise and the points of each check of a set, as it was given out."""
    [path] = BOOK.glob(f"exercises/{number}_*/{number}_*.ipynb")
    checks, exercise = {}, 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if heading := re.match(r"## (\d+)\. ", text):
            exercise = int(heading[1])
        *before, last = _called(text) or [None]
        checks |= dict.fromkeys(before, (exercise, 0))
        if last:
            checks[last] = exercise, cell["metadata"].get("nbgrader", {}).get("points", 0)
    return checks


def _called(text):
    """The checks that a cell calls, one line each; those of other sets with their chapter."""
    calls = re.findall(r"^(check|chapter_\d\d)\.(\w+)\(", text, re.MULTILINE)
    return [name if of == "check" else f"{of}.{name}" for of, name in calls]


def _keep(number, passed):
    """Write down which of these checks of a set passed, and renew the line."""
    kept = _kept()
    kept.setdefault(number, {}).update(passed)
    _file().write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
    _display(number, update=True)


def _mine():
    """The student's copy of the book that we are in, or None."""
    here = Path.cwd()
    return next((f for f in (here, *here.parents) if (f / GIVEN_OUT).is_file()), None)


def _file():
    return _mine() / ".progress.json"


def _kept():
    try:
        return json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _display(number, update):
    if "IPython" in sys.modules:
        from IPython.display import display

        text = {"text/plain": line(number)}
        display(text, raw=True, display_id=f"progress-{number}", update=update)
