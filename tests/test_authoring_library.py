"""What `book.py check` says of the library and of the table of chapters, in a made-up book."""

import pytest

from authoring import library, overview
from authoring.__main__ import main

FILES = {
    "minitorch/__init__.py": '''"""A library, in this order::

    operations/sums.py  sums
    nn.py  layers
"""
''',
    "minitorch/operations/sums.py": '''"""Sums."""

__all__ = ["add"]


@operation()
def add(input, other):
    """input + other."""
    return input + other


@dispatch.operation(view=True)
def same_(input):
    return input


def same(input):
    return same_(input)
''',
    "minitorch/nn.py": '"""Layers."""\n\nlayer = sums.same\n',
    "tests/library/rows/sums.py": 'unary(sums.add, np.add)\nrow("same_")\n',
    "notebooks/01_rnn.py": "# **Time**: about 90 minutes.\n",
    "solutions/01_rnn/01_rnn.py": "# ## 1. A cell\n# ## 2. Two\n",
    "docs/library.md": """\
| [`operations/sums.py`](../minitorch/operations/sums.py) | 10 | sums |
| [`nn.py`](../minitorch/nn.py) | 0 | layers |
| together | 10 | 0 with comments and docstrings |
""",
    "README.md": """\
| 01 | [RNN](notebooks/01_rnn.ipynb) | a cell | 90 | [2](exercises/01_rnn/01_rnn.ipynb) |
""",
}
ROOM = "docs/library.md"
CHAPTERS = 'README.md, "Chapters",'


@pytest.fixture
def book(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def change(book, name, old, new):
    text = (book / name).read_text()
    assert old in text
    (book / name).write_text(text.replace(old, new))


def problems(book):
    return [*overview.problems(book), *library.problems(book)]


def test_nothing_to_say(book):
    assert problems(book) == []
    assert [name for name, _ in library.operations(book)] == ["add", "same_"]


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "tests/library/rows/sums.py",
            "unary(sums.add",
            "unary(sums.sub",
            "operation add of minitorch/operations/sums.py has no row in "
            "tests/library/rows/sums.py: add one there, unary(sums.add, np.add) or "
            'binary(sums.add, np.add), or under @row("add") a function that draws a Case',
        ),
        (
            "minitorch/operations/sums.py",
            '["add"]',
            "[]",
            "operation add of minitorch/operations/sums.py is exported nowhere: as PyTorch has it, "
            "add it to __all__ there, for minitorch.add, and as a method to minitorch/methods.py, "
            "add = sums.add; or to minitorch/nn/functional.py",
        ),
        (
            "minitorch/nn.py",
            "layer = sums.same",
            "@operation()\ndef add(): ...",
            "operation add stands in minitorch/nn.py and in minitorch/operations/sums.py: "
            "rename one",
        ),
        (
            "minitorch/__init__.py",
            "nn.py",
            "nnn.py",
            "minitorch/__init__.py names nnn.py, which is not there: correct the list in its "
            "docstring",
        ),
        (
            "docs/library.md",
            "| [`nn.py`]",
            "| `nn.py`",
            f"{ROOM} lists other files than the docstring of minitorch/__init__.py, or in another "
            "order: list operations/sums.py, nn.py",
        ),
        (
            "docs/library.md",
            "| 0 | layers |",
            "| 0 | [layers](x) | 90 |",
            f"{ROOM} lists other files than the docstring of minitorch/__init__.py, or in another "
            "order: list operations/sums.py, nn.py",
        ),
        (
            "docs/library.md",
            "| 10 | sums |",
            "| 20 | sums |",
            f"{ROOM} says 20 lines of operations/sums.py, which has 8: write 10",
        ),
        (
            "docs/library.md",
            "| together | 10 |",
            "| together | 20 |",
            f"{ROOM} has another sum than its files: write "
            "| together | 10 | 0 with comments and docstrings |",
        ),
        (
            "README.md",
            "| 01 |",
            "| 1 |",
            f"{CHAPTERS} has no row of notebooks/01_rnn.py: write | 01 | "
            "[Title](notebooks/01_rnn.ipynb) | what it builds | 90 | "
            "[2](exercises/01_rnn/01_rnn.ipynb) |",
        ),
        (
            "README.md",
            "| 90 |",
            "| 80 |",
            f"{CHAPTERS} says other minutes or exercises than chapter 01: write "
            "| 90 | [2](exercises/01_rnn/01_rnn.ipynb) |",
        ),
        (
            "notebooks/01_rnn.py",
            "Time",
            "Tea",
            "notebooks/01_rnn.py does not say how long it takes: "
            'write "**Time**: about 100 minutes"',
        ),
    ],
)
def test_each_problem_says_what_to_write_where(book, name, old, new, said):
    change(book, name, old, new)
    assert said in problems(book)


def test_sets_chapters_and_rows_without_each_other(book):
    (book / "solutions/01_rnn/01_rnn.py").rename(book / "01_rnn.py")
    assert problems(book) == [
        "notebooks/01_rnn.py has no exercise set: write solutions/01_rnn/01_rnn.py, with a heading "
        '"## 1. Name" an exercise, and run: python book.py build 01; until then its row in '
        f"{CHAPTERS} ends | 90 | planned |"
    ]
    change(book, "README.md", "| 90 | [2](exercises/01_rnn/01_rnn.ipynb) |", "| 90 | planned |")
    assert problems(book) == []
    change(book, "README.md", "| 90 | planned |", "| 90 | [2](exercises/01_rnn/01_rnn.ipynb) |")
    (book / "01_rnn.py").rename(book / "solutions/01_rnn/01_rnn.py")
    (book / "notebooks/01_rnn.py").unlink()
    assert problems(book) == [
        f"{CHAPTERS} has a row 01, but no chapter has that number: remove it",
        "solutions/01_rnn/01_rnn.py has no chapter: write notebooks/01_....py",
    ]


def test_the_core_stays_an_evenings(book, monkeypatch):
    monkeypatch.setattr(library, "MOST_LINES", 8)
    [problem] = problems(book)
    assert problem.startswith("the core has 9 lines of code, more than the 8 of an evening: move")


def test_a_row_of_nothing(book):
    assert list(library.missing_rows(book, {"add", "same_", "sub"})) == [
        "tests/library/rows has a row sub, which is no operation of the library: rename or "
        "remove it"
    ]


def test_the_command_says_so(book, monkeypatch, capsys):
    monkeypatch.setattr("authoring.__main__.ROOT", book)
    change(book, "README.md", "| 90 |", "| 80 |")
    change(book, "minitorch/operations/sums.py", '["add"]', "[]")
    assert main(["check"]) == 1
    told = capsys.readouterr().out
    assert f"\n{CHAPTERS} says other" in told and "\noperation add of" in told
