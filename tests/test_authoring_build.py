"""The build writes what nbgrader would, the same each time, and refuses errors and warnings."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mini_book
import nbformat
import pytest
from mini_book import edit
from nbclient import NotebookClient

from authoring.build import build, execute, join_streams
from authoring.model_answers import model_answer
from authoring.release import release
from authoring.sources import BookError, read_chapter, read_exercises, to_text

CHAPTER = "notebooks/01_double.py"
EXERCISES = "solutions/01_double/01_double.py"
ANSWER = re.search(r"^def add_one.*?END SOLUTION$", mini_book.EXERCISES, re.M | re.S)[0]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = mini_book.write(tmp_path_factory.mktemp("book"))
    build(root)
    return root


@pytest.fixture
def book(tmp_path):
    return mini_book.write(tmp_path)


def generated(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.ipynb")}


def test_a_second_build_changes_only_outputs_that_are_not_compared(built, tmp_path):
    again = tmp_path / "again"
    mini_book.copy(built, again)
    build(again, "01")
    first, second = generated(built), generated(again)
    assert set(first) == {
        "notebooks/01_double.ipynb",
        "solutions/01_double/01_double.ipynb",
        "exercises/01_double/01_double.ipynb",
    }
    chapter = "notebooks/01_double.ipynb"
    one, other = json.loads(first.pop(chapter)), json.loads(second.pop(chapter))
    assert first == second
    for notebook in (one, other):
        notebook["cells"][-1]["outputs"] = []
    assert one == other


@pytest.mark.thorough
def test_nbgrader_generates_the_same_release(built, tmp_path):
    course = tmp_path / "course"
    mini_book.copy(built, course)
    shutil.rmtree(course / "exercises")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "01_double"]
    subprocess.run(command, cwd=course, env=os.environ | {"PATH": path}, check=True)
    release = "exercises/01_double/01_double.ipynb"
    assert (course / release).read_bytes() == (built / release).read_bytes()
    assert [path.name for path in (course / release).parent.iterdir()] == ["01_double.ipynb"]


def test_the_release_keeps_the_task_and_hides_the_answer(built):
    notebook = nbformat.read(built / "exercises/01_double/01_double.ipynb", as_version=4)
    solution, tests = notebook.cells[-2:]
    assert "def add_one(number):" in solution.source
    assert "raise NotImplementedError(" in solution.source
    assert "successor" not in solution.source
    assert "add_one(1) == 2" in tests.source
    assert "hidden" not in tests.source.lower()
    assert (tests.metadata.editable, tests.metadata.nbgrader.points) == (False, 3)
    assert (solution.id, tests.id) == ("add_one", "test_add_one")
    assert solution.metadata.tags == tests.metadata.tags == ["raises-exception"]


@pytest.mark.parametrize("answer", [None, "return number", "return number +"])
def test_a_run_of_all_cells_goes_on_past_what_is_not_solved(built, answer):
    path = built / "exercises/01_double/01_double.ipynb"
    notebook = nbformat.read(path, as_version=4)
    if answer:
        notebook.cells[-2].source = f"def add_one(number):\n    {answer}\n"
    notebook.cells.append(nbformat.v4.new_code_cell("print('the end')"))
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": path.parent}}).execute()
    *_, check, last = notebook.cells
    assert check.outputs[0].output_type == "error"
    assert last.outputs[0].text == "the end\n"


def test_an_error_in_a_solved_set_is_refused_though_a_students_run_goes_on(book):
    edit(book / EXERCISES, "number + 1", "number + 2")
    with pytest.raises(BookError, match="cell 'assert add_one.* failed(.|\n)*AssertionError"):
        build(book)
    assert set(generated(book)) == {"notebooks/01_double.ipynb"}


def test_notebooks_end_with_one_newline_and_have_no_carriage_returns(built):
    for text in generated(built).values():
        assert text.endswith(b"}\n") and b"\r" not in text


def test_cell_ids_survive_an_insertion(book):
    source = book / CHAPTER
    before = {cell.source: cell.id for cell in read_chapter(source).cells}
    edit(source, "# %%\nfrom", "# %%\n1 + 1\n\n# %%\n1 + 1\n\n# %%\nfrom")
    cells = read_chapter(source).cells
    assert len({cell.id for cell in cells}) == len(cells) == len(before) + 2
    assert {cell.source: cell.id for cell in cells}.items() >= before.items()


def test_a_failing_cell_is_named_and_only_its_notebook_is_not_written(book):
    edit(book / CHAPTER, "double(1.25)\n", "double(1.25) / 0\n")
    with pytest.raises(
        BookError, match=r"01_double.py: cell 'double\(1.25\) / 0' failed(.|\n)*Zero"
    ):
        build(book)
    assert set(generated(book)) == {
        "solutions/01_double/01_double.ipynb",
        "exercises/01_double/01_double.ipynb",
    }


def test_a_warning_is_refused(book):
    edit(book / CHAPTER, "double(1.25)\n", "import warnings\nwarnings.warn('beware')\n")
    with pytest.raises(BookError, match="cell 'import warnings' wrote to stderr(.|\n)*beware"):
        build(book)


@pytest.mark.parametrize(
    ("line", "timeout", "message"),
    [
        ("import time\nwhile True: time.sleep(0.1)", 10, "timed out"),
        ("import os; os._exit(1)", 60, "Kernel died"),
    ],
)
def test_an_endless_cell_and_a_dead_kernel_end_the_build(book, line, timeout, message):
    edit(book / CHAPTER, "double(1.25)\n", f"{line}\n")
    source = book / CHAPTER
    with pytest.raises(BookError, match=f"failed:(.|\n)*{message}"):
        execute(read_chapter(source), source, timeout=timeout)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("points=3", "points=0", "points=0, expected a whole number above 0"),
        (" points=3", "", "points=None, expected a whole number above 0"),
        ('solution="add_one"', 'solution="add_two"', "has no cell"),
        ('solution="add_one"', 'solution="add one"', "no Python name"),
        ('solution="add_one"', 'solution="add_one" points=3', "they belong to tests"),
        ('solution="add_one"', 'solutions="add_one"', "option 'solutions'"),
        ("    ### END SOLUTION\n", "", "each BEGIN SOLUTION needs its END SOLUTION"),
        ('solution="add_one"', 'solution="add_one" given="__init__"', "has given= or own="),
        (ANSWER, "", "is empty, and textbook.checks.chapter_01 has no exercise add_one"),
        ("### BEGIN HIDDEN TESTS\n", "", "each BEGIN HIDDEN TESTS needs"),
        (' solution="add_one"', "", "has BEGIN SOLUTION: start it with"),
        (' solution="add_one"', ' criterion="clear" points=1', "a criterion is a text cell"),
        ("]\n# ## 1", '] criterion="clear"\n# ## 1', "points=None, expected a whole number"),
        ("]\n# ## 1", '] criterion="c l" points=1\n# ## 1', "no Python name"),
    ],
)
def test_mistakes_in_the_short_form_are_told(book, old, new, message):
    edit(book / EXERCISES, old, new)
    with pytest.raises(BookError, match=message):
        read_exercises(book / EXERCISES)


def test_an_empty_cell_gets_the_model_answer_between_marks():
    def outline(text):
        text = re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "BLANK", text, flags=re.DOTALL)
        return re.findall(r"def \w+|super|BLANK", text)

    given = outline(model_answer("06", "GroupedAttention", given=["__init__"]))
    assert given == ["def __init__", "super", "def forward", "BLANK"]
    own = outline(model_answer("12", "OwnMixer", own=["roles"]))
    assert own[:5] == ["def __init__", "super", "BLANK", "def forward", "BLANK"]
    assert outline(model_answer("00", "softmax")) == ["def softmax", "BLANK"]
    with pytest.raises(LookupError, match="softmax has no method forward"):
        model_answer("00", "softmax", given=["forward"])


def test_an_exercise_may_have_parts_and_an_open_question_a_rubric(book):
    tests = mini_book.EXERCISES[mini_book.EXERCISES.index('# %% tests="add_one"') :]
    source = book / EXERCISES
    with open(source, "a", encoding="utf-8") as file:
        part = tests.replace("add_one", "add_one_sign", 1).replace("points=3", "points=1")
        file.write(f"\n{part}")
        file.write('\n# %% [markdown] criterion="clear" points=2\n# Is the claim clear?\n')
    found = {cell.id: cell for cell in read_exercises(source).cells if "nbgrader" in cell.metadata}
    assert {name: cell.metadata.nbgrader.get("points") for name, cell in found.items()} == {
        "add_one": None,
        "test_add_one": 3,
        "test_add_one_sign": 1,
        "clear": 2,
    }
    released = release(book, read_exercises(source))
    clear = next(cell for cell in released.cells if cell.id == "clear")
    assert clear.metadata.nbgrader.task and not clear.metadata.editable
    assert clear.source == "Is the claim clear?"
    edit(source, 'tests="add_one_sign"', 'tests="sub_one_sign"')
    with pytest.raises(BookError, match="test_sub_one_sign has no cell sub_one_sign"):
        read_exercises(source)


def test_an_exercise_name_used_twice_is_told(book):
    tests = mini_book.EXERCISES[mini_book.EXERCISES.index('# %% tests="add_one"') :]
    with open(book / EXERCISES, "a", encoding="utf-8") as file:
        file.write("\n" + tests)
    with pytest.raises(BookError, match="test_add_one is there twice"):
        read_exercises(book / EXERCISES)


def test_what_is_printed_in_a_row_becomes_one_output():
    def printed(text):
        return nbformat.v4.new_output("stream", name="stdout", text=text)

    figure = nbformat.v4.new_output("display_data")
    joined = join_streams([printed("a"), printed("b"), figure, printed("c")])
    assert [output.get("text") for output in joined] == ["ab", None, "c"]


def test_reading_a_source_gives_no_traces_of_jupytext(book):
    text = to_text(read_chapter(book / CHAPTER))
    assert "jupytext" not in text and "lines_to_next_cell" not in text


def test_a_build_of_texts_keeps_the_outputs_and_executes_nothing(built, tmp_path, monkeypatch):
    book = mini_book.copy(built, tmp_path / "book")
    before = generated(book)
    edit(book / CHAPTER, "# # A chapter", "# # A chapter of few words")
    edit(book / EXERCISES, "Add one", "Add just one")
    monkeypatch.setattr("authoring.build.execute", lambda notebook, source: pytest.fail("executed"))
    build(book, "01", texts_only=True)
    for name, text in generated(book).items():
        old, new = (nbformat.reads(each, as_version=4).cells for each in (before[name], text))
        assert [cell for cell in old if cell.cell_type == "code"] == [
            cell for cell in new if cell.cell_type == "code"
        ]
        assert ("few words" if "notebooks" in name else "just one") in text.decode()


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (CHAPTER, "double(1.25)\n", "double(1.75)\n"),
        (CHAPTER, "# %%\ndouble(1.25)\n", ""),
        (CHAPTER, "# %%\ndouble(1.25)\n", "# %%\ndouble(1.25)\n\n# %%\n1\n"),
        (EXERCISES, "number + 1", "1 + number"),
    ],
)
def test_a_build_of_texts_refuses_other_code(built, tmp_path, path, old, new):
    book = mini_book.copy(built, tmp_path / "book")
    before = generated(book)
    edit(book / path, old, new)
    with pytest.raises(BookError, match="is not the stored one: run: python book.py build 01"):
        build(book, texts_only=True)
    assert generated(book)[path.replace(".py", ".ipynb")] == before[path.replace(".py", ".ipynb")]
