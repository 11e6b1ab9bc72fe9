"""A made-up book of one chapter and one exercise set, for tests of the author's tools."""

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

CHAPTER = """\
# %% [markdown]
# # A chapter
#
# ## 1. Doubling (C1)
#
# > **C1 · holds: Twice is 3.0.** *The lectures* (deck 2, "Doubling"): doubling doubles.
# >
# > *Measured*: 3.0 from 1.5.

# %%
from textbook.lab import Lab

lab = Lab("01")
factor = 2


def double(number):
    return factor * number  # twice


@lab.experiment("C1", number=[1.5], full=dict(number=[1.5, 2.5]))
def doubling(number):
    return {"doubled": double(number)}


# %% evidence
runs = doubling.run()
runs.holds(
    "the result is twice as large",
    lambda rows: rows.values("doubled") / rows.values("number"),
    between=(1.9, 2.1),
)
print("doubled:", runs.here.values("doubled")[0])
print("steps: 1000, loss 0.12345")

# %%
double(1.25)

# %% tags=["nbval-ignore-output"]
import time

print(time.time())
"""

EXERCISES = '''\
# %% [markdown]
# # Exercises

# %% [markdown]
# ## 1. Add one

# %% solution="add_one"
def add_one(number):
    """The number after this one."""
    ### BEGIN SOLUTION
    successor = number + 1
    return successor
    ### END SOLUTION


# %% tests="add_one" points=3
assert add_one(1) == 2
print("add_one: all public checks passed")
### BEGIN HIDDEN TESTS
assert add_one(41) == 42, "hidden"
### END HIDDEN TESTS
'''


def write(root: Path) -> Path:
    """Write the sources into the folder and return it."""
    for name in ("nbgrader_config.py", "conftest.py"):
        shutil.copy(REPOSITORY / name, root / name)
    for name, text in (
        ("pytest.ini", "[pytest]\naddopts = -p no:nbval\n"),
        ("notebooks/01_double.py", CHAPTER),
        ("solutions/01_double/01_double.py", EXERCISES),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def copy(root: Path, to: Path) -> Path:
    """Copy a book and return the copy."""
    return Path(shutil.copytree(root, to))


def edit(path: Path, old: str, new: str, times: int = -1) -> None:
    """Replace text that has to be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path.name}"
    path.write_text(text.replace(old, new, times), encoding="utf-8")
