"""The texts that numbers hang on: the same on every Python, and free of solutions."""

import ast
import hashlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from authoring.sources import exercise_sets, read_exercises
from textbook.data import first_edition, first_edition_code

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a Python, a locale or an installed package may have otherwise than ours.
ELSEWHERE = {
    "babel",
    "importlib.metadata",
    "importlib.resources",
    "keyword",
    "locale",
    "platform",
    "pydoc",
    "pydoc_data",
    "sysconfig",
    "token",
    "tokenize",
    "unicodedata",
}
# None of these shows in a number: which lines of a traceback are a student's own.
ALLOWED = {
    "textbook/checks/errors.py": {"sysconfig"},
    "textbook/race/inside.py": {"platform"},  # a result names its processor
    "textbook/race/judge.py": {"tokenize"},  # to count the lines of a program
}

# All data that the book makes or keeps, in one number.
DIGEST = """
import hashlib
from textbook import data
made = [
    data.first_edition(),
    data.first_edition_code(),
    [tuple(pair) for pair in data.number_pairs(500, source="fr", seed=1)],
    data.date_pairs(500, languages=("en", "de", "fr", "es", "it"), seed=1),
    data.BytePairEncoding.learn(data.first_edition()[:20_000], 80).tokens,
]
print(hashlib.sha256(repr(made).encode()).hexdigest())
"""


def digest(**variables):
    """The number of all data, made by a Python with these variables."""
    done = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_another_python_and_locale_give_the_same_texts(tmp_path):
    """A manual in other words, a standard library without source, Turkish letters."""
    package = tmp_path / "pydoc_data"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "topics.py").write_text("topics = {'a': 'Another manual. ' * 99}\n")
    (tmp_path / "keyword.py").write_text(
        "kwlist, softkwlist = ['otherwise'], []\niskeyword = issoftkeyword = kwlist.__contains__\n"
    )
    (tmp_path / "sitecustomize.py").write_text(
        "import locale, sysconfig\n"
        f"sysconfig.get_path = lambda *a, **k: {str(tmp_path)!r}\n"
        "for name in ('tr_TR.UTF-8', 'de_DE.UTF-8', 'C'):\n"
        "    try:\n"
        "        locale.setlocale(locale.LC_ALL, name)\n"
        "        break\n"
        "    except locale.Error:\n"
        "        continue\n"
    )
    shifted = dict(PYTHONPATH=str(tmp_path), LANG="tr_TR.UTF-8", PYTHONHASHSEED="7")
    assert digest(**shifted) == digest()


def used_modules(tree):
    for item in ast.walk(tree):
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            yield from {item.module, *(f"{item.module}.{alias.name}" for alias in item.names)}


def test_nothing_is_read_from_the_python_that_runs():
    sources = [
        *ROOT.glob("notebooks/*.py"),
        *ROOT.glob("solutions/*/*.py"),
        *ROOT.glob("minitorch/**/*.py"),
        *ROOT.glob("textbook/**/*.py"),
    ]
    for path in sources:
        name = path.relative_to(ROOT).as_posix()
        modules = set(used_modules(ast.parse(path.read_text(encoding="utf-8"))))
        found = {module for module in modules if {module, module.split(".")[0]} & ELSEWHERE}
        assert found <= ALLOWED.get(name, set()), f"{name} uses {found}: not the same everywhere"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("prose.txt.gz", "898b542481c2760abb848f5bfe04b50a028a701be34cd16906afcb3a2b28a790"),
        ("code.txt.gz", "6c252dc1f068408cc39cbfe123db9aa37e7cdd65dd52a72d3cf77f4ccb936321"),
    ],
)
def test_the_first_edition_is_frozen(name, expected):
    """Every recorded number that hangs on it would have to be measured again."""
    path = ROOT / "textbook" / "data" / "first_edition" / name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == expected


def test_prose_is_english_without_copies():
    text = first_edition()
    paragraphs = text.splitlines()
    assert text.isascii() and len(text) > 300_000
    assert len(set(paragraphs)) == len(paragraphs)
    assert all(paragraph == " ".join(paragraph.split()) for paragraph in paragraphs)
    words = text.lower().split()
    assert 0.04 < words.count("the") / len(words) < 0.12


def test_code_is_plain_and_its_parts_share_no_file():
    training, aside = first_edition_code()
    assert training.isascii() and aside.isascii()
    assert 0.05 < len(aside) / len(training) < 0.2
    assert not re.search(r"\n\s", training + aside)
    lines = [set(part.split("\n")) for part in (training, aside)]
    shared = [line for line in lines[0] & lines[1] if len(line) > 70]
    assert len(shared) < 0.01 * len(lines[1]), shared


def solutions():
    for path in exercise_sets(ROOT):
        text = "\n".join(cell.source for cell in read_exercises(path).cells)
        for block in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", text, re.DOTALL):
            yield path.stem, re.sub(r"\n\s+", "\n", block.strip())


def test_no_solution_can_be_read_in_the_code():
    text = "\n".join(first_edition_code())
    long = [(stem, block) for stem, block in solutions() if len(block) > 80]
    assert len(long) > 100
    found = [f"{stem}: {block}" for stem, block in long if block in text]
    assert not found, found
