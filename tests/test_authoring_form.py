"""The form of a chapter, what it saves, and the kinds of its cells."""

import functools
import json
import shutil
from types import SimpleNamespace

import mini_book
import nbformat
import pytest
from mini_book import edit

from authoring import code_hash, form
from authoring.alone import INSTALLING
from authoring.check import check
from authoring.experiments import declared, record
from authoring.form import form_of
from authoring.saved import saved_module
from authoring.sources import BookError, read_chapter
from textbook.lab.report import COMPARED

CHAPTER = "notebooks/01_double.py"
NOTEBOOK = "notebooks/01_double.ipynb"

CELLS = """\
# %% [markdown]
# # A chapter
#
# ## Doubling (C1)

# %%
import math

from textbook.lab import Lab

lab = Lab("01")


# %% save
def area(radius):
    return math.pi * square(radius)


def square(number):
    return number**2


# %%
@lab.experiment("C1", radius=[1.0, 2.0], full=dict(radius=[3.0]))
def growing(radius):
    return {"area": area(radius)}


print("area:", round(area(1.0), 2))

# %% evidence
# areas against the radius
runs = growing.run()
runs.holds("it grows", lambda rows: rows.values("area"), above=1)
"""


@pytest.fixture
def book(tmp_path):
    root = mini_book.write(tmp_path)
    (root / CHAPTER).write_text(CELLS)
    return root


def problems(book):
    """What is wrong with the chapter's form."""
    return list(form.form_problems(book))


def test_lines_are_counted_by_what_they_do(book):
    counted = form_of(read_chapter(book / CHAPTER))
    assert (counted.visible, counted.folded, counted.longest) == (11, 11, 4)
    assert counted.folded == 3 + len(INSTALLING.splitlines())
    assert counted.idea == 7  # without two imports, a decorator and a print
    assert str(counted).startswith("11 lines of code shown (64% of them idea), 11 folded")


def test_evidence_is_folded_and_tagged(book):
    cell = read_chapter(book / CHAPTER).cells[-1]
    assert cell.metadata == {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}


def test_an_unknown_kind_of_cell_is_told(book):
    edit(book / CHAPTER, "# %% evidence", "# %% evidenz")
    with pytest.raises(BookError, match="starts with '# %% evidenz'; known are evidence, save"):
        read_chapter(book / CHAPTER)


def test_a_chapter_in_form_has_no_problem(book):
    assert problems(book) == []


def test_too_much_code_and_too_long_a_cell_are_told(book):
    edit(book / CHAPTER, 'lab = Lab("01")\n', 'lab = Lab("01")\n' + "x = 1\n" * 22)
    assert problems(book) == []
    edit(book / CHAPTER, 'lab = Lab("01")\n', 'lab = Lab("01")\n' + "x = 1\n")
    [problem] = problems(book)
    assert "the cell 'import math' shows 26 lines: cut it in two" in problem
    edit(book / CHAPTER, "# %% save", "x = 1\n\n# %%\n" * 450 + "# %% save")
    assert any("lines of code, at most 450: fold" in problem for problem in problems(book))


def test_code_that_draws_or_prints_is_no_idea_whatever_its_cell_is_called(book):
    edit(book / CHAPTER, "# %% evidence", "print(1)\nprint(2)\nprint(3)\nprint(4)\n\n# %% evidence")
    [problem] = problems(book)
    assert "of 15 lines shown 7 are idea" in problem


def test_what_two_chapters_define_is_told(book):
    (book / "notebooks/02_more.py").write_text("# %%\ndef square(x):\n    return x * x\n")
    assert any(
        "square is defined in notebooks/01_double.py and notebooks/02_more.py" in problem
        for problem in problems(book)
    )


def outputs(book, *verdicts):
    """Store these verdicts as the outputs of the chapter's last cell."""
    notebook = read_chapter(book / CHAPTER)
    notebook.cells[-1].outputs = [
        nbformat.v4.new_output("display_data", {"text/plain": "x", COMPARED: verdict})
        for verdict in verdicts
    ]
    nbformat.write(notebook, book / NOTEBOOK)


def test_a_claim_without_a_verdict_and_a_verdict_that_fails_are_told(book):
    outputs(book)
    assert any("C1 has no verdict: write runs.holds" in problem for problem in problems(book))
    edit(book / CHAPTER, "above=1)", "above=2)")
    [problem] = [each for each in problems(book) if "verdict" in each]
    assert "the built page has no verdict on C1: build first, python book.py build 01" in problem
    edit(book / CHAPTER, "above=2)", "above=1)")
    outputs(book, None, {"claim": "C1", "sentence": "it grows", "holds": True})
    assert problems(book) == []
    outputs(book, {"claim": "C1", "sentence": "it grows", "holds": False})
    assert any("C1 does not hold: it grows" in problem for problem in problems(book))


def test_an_experiment_that_is_not_written_whole_is_told(book):
    source = book / CHAPTER
    for old, new, told in (
        ('"C1", radius', "radius", "growing has no claim: write @lab.experiment"),
        (
            ", full=dict(radius=[3.0])",
            "",
            r"growing has no full=dict\(...\): write @lab.experiment",
        ),
        (
            "full=dict(radius=[3.0])",
            'full={"radius": 3}',
            "01_double.py: experiment growing has full=",
        ),
        ('lab = Lab("01")', "", "lab is not bound at the top level: write lab = Lab"),
    ):
        before = source.read_text()
        edit(source, old, new)
        with pytest.raises(BookError, match=told):
            declared(source)
        source.write_text(before)


def test_two_experiments_of_one_name_are_told(book):
    text = (book / CHAPTER).read_text()
    again = '\n\n# %%\n@lab.experiment("C1", full={})\ndef growing():\n    return {"area": 1.0}\n'
    assert not any("twice" in problem for problem in check(book))
    (book / CHAPTER).write_text(text + again)
    assert any("defines growing twice: give the experiment" in problem for problem in check(book))


def test_code_that_is_no_python_hides_no_other_problem(book):
    edit(book / CHAPTER, "import math\n", "import math math\n")
    told = check(book)
    assert [problem for problem in told if "syntax" in problem] == [
        "invalid syntax (01_double.py, line 7)"
    ]
    assert any("claims.md is not what the boxes say" in problem for problem in told)


def test_an_interrupted_recording_says_how_it_goes_on(book, monkeypatch):
    def interrupted(command, cwd, env):
        with open(env["MINITORCH_RECORD"] + "/growing.jsonl", "w") as file:
            file.write("[]\n")
        raise KeyboardInterrupt

    monkeypatch.setattr("authoring.experiments.subprocess.call", interrupted)
    with pytest.raises(BookError, match="nothing; begun: growing; the same command goes on"):
        record(book, "01")


def test_a_chapter_saves_its_cells_with_the_imports_that_they_need(book):
    text = saved_module(book / CHAPTER)
    names = {}
    exec(text, names)
    assert round(names["area"](1.0), 2) == 3.14
    assert "import math" in text and "Lab" not in text


def test_a_saved_cell_that_needs_more_is_told(book):
    edit(book / CHAPTER, "square(radius)", "growing(radius)")
    with pytest.raises(BookError, match="uses growing, which is neither saved nor imported"):
        saved_module(book / CHAPTER)


def test_a_saved_module_that_is_out_of_step_is_told(book):
    path = book / "textbook" / "chapter_01.py"
    path.parent.mkdir()
    told = "textbook/chapter_01.py is not what notebooks/01_double.py saves"
    assert any(told in problem for problem in check(book))
    path.write_text(saved_module(book / CHAPTER))
    assert not any(told in problem for problem in check(book))
    (path.parent / "chapter_07.py").write_text("")
    assert any("textbook/chapter_07.py has no source" in problem for problem in check(book))


def test_an_experiment_is_recorded_under_its_name(book):
    record(book, "01", ["growing"])
    text = (book / "notebooks/results/01.json").read_text()
    assert json.loads(text)["growing"]["rows"][0]["seed"] == 0
    assert [line for line in text.splitlines() if '"area"' in line and '"radius": 3.0' in line]
    assert not list((book / "notebooks/results").glob(".unfinished*"))
    record(book, "01", ["C1"])
    with pytest.raises(BookError, match="has the experiments growing, and not shrinking"):
        record(book, "01", ["shrinking"])


def changed(book, path, old, new):
    """Whether the hashes of the code and of the library change with this edit."""
    [before] = declared(book / CHAPTER)
    edit(path, old, new)
    [after] = declared(book / CHAPTER)
    return before.code_hash != after.code_hash, before.library_hash != after.library_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("radius=[3.0]", "radius=[3.5]"),
        ("return number**2", "return number**3"),
    ],
)
def test_settings_and_code_are_in_the_hash(book, old, new):
    assert changed(book, book / CHAPTER, old, new) == (True, False)


def test_the_library_that_is_used_has_a_hash_of_its_own(book):
    [plain] = declared(book / CHAPTER)
    edit(book / CHAPTER, "import math\n", "import math\nimport minitorch as mt\n")
    edit(book / CHAPTER, "return number**2", "return mt.tensor(number) ** 2")
    [with_tensors] = declared(book / CHAPTER)
    edit(book / CHAPTER, "mt.tensor(number) ** 2", "mt.nn.Linear(1, 1)(mt.tensor(number))")
    [with_layers] = declared(book / CHAPTER)
    assert with_layers.library_hash != with_tensors.library_hash


def of_softmax():
    return code_hash.library_hash({"import functional as F", "F.softmax(2 * x, 1)"})


@pytest.fixture(scope="module")
def before():
    return of_softmax()


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("compat/functions.py", "\n\ndef ", "\n\ndef hypot(x):\n    return x\n\n\ndef ", False),
        ("methods.py", "    add = ", "    hypot = elementwise.add\n    add = ", False),
        (
            "nn/recurrent.py",
            "\n    def ",
            "\n    def unheard(self):\n        pass\n\n    def ",
            False,
        ),
        ("operations/reductions.py", '"""', '"""Another text. ', False),
        ("operations/reductions.py", "def softmax(input, dim,", "def softmax(input, dim=1,", True),
        ("operations/elementwise.py", "def mul(input, other):", "def mul(input, other=1):", True),
        ("autograd/backward.py", "receive, oldest=0", "receive, oldest=1", True),
        ("tensor.py", "TensorBase.result_class = Tensor", "TensorBase.result_class = 7", True),
    ],
)
def test_what_is_not_reached_in_the_library_is_not_in_its_hash(
    tmp_path, monkeypatch, before, file, old, new, changes
):
    folder = shutil.copytree(mini_book.REPOSITORY / "minitorch", tmp_path / "minitorch")
    spec = SimpleNamespace(submodule_search_locations=[folder])
    monkeypatch.setattr(code_hash.importlib.util, "find_spec", lambda name: spec)

    monkeypatch.setattr(code_hash, "_library", functools.cache(code_hash._library.__wrapped__))
    edit(folder / file, old, new, 1)
    assert (of_softmax() != before) == changes


def test_what_another_chapter_saved_is_in_the_hash(book):
    saved = book / "textbook" / "chapter_00.py"
    saved.parent.mkdir()
    saved.write_text("def cube(x):\n    return x**3\n\n\ndef unrelated(x):\n    return x\n")
    edit(book / CHAPTER, "import math\n", "import math\n\nfrom textbook.chapter_00 import cube\n")
    edit(book / CHAPTER, '{"area": area(radius)}', '{"area": cube(radius)}')
    assert changed(book, saved, "return x\n", "return 2 * x\n") == (False, False)
    assert changed(book, saved, "x**3", "x**4") == (True, False)


def test_only_settings_that_the_full_run_has_are_in_the_hash(book):
    path = book / CHAPTER
    assert changed(book, path, "radius=[1.0, 2.0]", "radius=[1.0, 2.5]") == (False, False)
    edit(path, "radius=[1.0, 2.5]", "radius=[1.0, 2.5], size=3")
    assert changed(book, path, "size=3", "size=4")[0]


def test_a_record_of_another_library_is_a_warning_and_no_problem(book):
    record(book, "01")
    warned = []
    check(book, warned.append)
    assert warned == []
    edit(book / "notebooks/results/01.json", '"library_hash": "', '"library_hash": "0')
    problems = check(book, warned.append)
    assert not any("growing" in problem for problem in problems)
    [warning] = warned
    assert "recorded with other code of the library that they use: growing" in warning


NOTATION = """\
| symbol | shape | meaning | chapters |
| --- | --- | --- | --- |
| $V$ | | size of the vocabulary | 00-03, 07 |
| $Q$, $K$, $V$ | $(d, d)$ | matrices of queries, keys and values | 01, 05 |
| $d$ | | size of a token's vector | all |
"""


def test_a_letter_with_two_meanings_in_one_chapter_is_told(book):
    (book / "docs").mkdir()
    (book / "docs/notation.md").write_text(NOTATION)
    [problem] = [problem for problem in problems(book) if "notation" in problem]
    assert "$V$ has two meanings in chapter 01, 'size of the vocabulary' and 'matrices" in problem
    (book / "docs/notation.md").write_text(NOTATION.replace("01, 05", "04-06"))
    assert not any("notation" in problem for problem in problems(book))
