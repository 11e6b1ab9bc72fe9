"""`book.py check` tells what is out of step, and where."""

import json

import mini_book
import nbformat
import pytest
from mini_book import edit

from authoring import experiments
from authoring.__main__ import main
from authoring.build import build
from authoring.check import check, output_problems

CHAPTER = "notebooks/01_double.py"
NOTEBOOK = "notebooks/01_double.ipynb"
EXERCISES = "solutions/01_double/01_double.py"
RELEASE = "exercises/01_double/01_double.ipynb"
RESULTS = "notebooks/results/01.json"
BUILD = "run: python book.py build 01"
EXPERIMENT = "run: python book.py experiment 01"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = mini_book.write(tmp_path_factory.mktemp("book"))
    experiments.record(root, "01")
    build(root)
    return root


@pytest.fixture
def book(finished, tmp_path):
    return mini_book.copy(finished, tmp_path / "book")


def only_problem(root):
    [problem] = check(root)
    return problem


def test_a_finished_book_has_no_problem(book):
    assert check(book) == []


@pytest.mark.parametrize("source", [CHAPTER, EXERCISES])
def test_an_edited_source_is_told(book, source):
    edit(book / source, "# %% [markdown]\n", "# %% [markdown]\n# new\n", 1)
    problems = check(book)
    assert any(problem.startswith(source.replace(".py", ".ipynb")) for problem in problems)
    assert all(problem.endswith(BUILD) for problem in problems)


def test_an_edited_notebook_is_told(book):
    edit(book / NOTEBOOK, "double(1.25)", "double(1.26)")
    assert only_problem(book).endswith(
        f"the source of cell 'double(1.25)' is not what the source says: {BUILD}"
    )


def test_a_cell_too_many_is_told(book):
    with open(book / CHAPTER, "a", encoding="utf-8") as file:
        file.write("\n# %%\n1 + 1\n")
    assert only_problem(book) == f"{NOTEBOOK} has 6 cells, its source 7: {BUILD}"


def test_changed_metadata_is_told(book):
    edit(book / NOTEBOOK, '"kernelspec"', '"jupytext": {}, "kernelspec"')
    assert "other metadata than a build writes" in only_problem(book)


@pytest.mark.parametrize("path", [NOTEBOOK, EXERCISES.replace(".py", ".ipynb"), RELEASE])
def test_a_missing_file_is_told(book, path):
    (book / path).unlink()
    assert only_problem(book) == f"{path} is missing: {BUILD}"


def test_a_solution_in_the_release_is_told(book):
    edit(book / RELEASE, "raise NotImplementedError(", "successor = number + 1 (")
    problems = check(book)
    assert f"{RELEASE} is not what its source gives: {BUILD}" in problems
    assert any("shows a line of a solution or hidden test: successor =" in p for p in problems)


def test_a_hidden_test_beside_the_release_is_told(book):
    copy = (book / RELEASE).with_name("01_double.py")
    copy.write_text('assert add_one(41) == 42, "hidden"\n')
    problems = check(book)
    assert any("is in no exercise set: delete it" in problem for problem in problems)
    assert any("shows a line of a solution or hidden test: assert" in p for p in problems)


def test_a_notebook_without_a_source_is_told(book):
    (book / CHAPTER).rename(book / "notebooks/02_other.py")
    assert f"{NOTEBOOK} has no source: delete it or write the source" in check(book)


def test_a_mistake_in_a_source_is_told_and_not_raised(book):
    edit(book / EXERCISES, "points=3", "points=-3")
    assert "points=-3, expected a whole number above 0" in only_problem(book)


def test_an_exercise_without_mistakes_and_right_answers_is_told(book):
    edit(book / EXERCISES, mini_book.EXERCISES.split("# %%")[3], ' solution="unroll"\n\n')
    edit(book / EXERCISES, 'tests="add_one"', 'tests="unroll"')
    mistakes, answers, *_ = check(book)
    assert mistakes == (
        "textbook/checks/chapter_01/unroll.txt is missing: write three usual mistakes of unroll or "
        "more"
    )
    assert answers.startswith("textbook/checks/chapter_01 has no key with right answers of unroll")


def test_missing_outputs_are_told(book):
    edit(book / NOTEBOOK, '"execution_count": 3', '"execution_count": null')
    assert "cell 'runs = doubling.run()" in only_problem(book)


def test_what_outputs_must_not_hold_is_told():
    def problems(output):
        cell = nbformat.v4.new_code_cell("f()", execution_count=1, outputs=[output])
        return list(output_problems(nbformat.v4.new_notebook(cells=[cell])))

    new = nbformat.v4.new_output
    warning = "cell 'f()' has stored an error or a warning"
    assert problems(new("stream", name="stdout", text="fine")) == []
    assert problems(new("stream", name="stderr", text="beware")) == [warning]
    assert problems(new("error", ename="E", evalue="", traceback=[])) == [warning]
    assert problems(
        new("display_data", {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}})
    ) == ["cell 'f()' has stored a widget"]
    assert problems(new("display_data", {"image/png": "A"})) == [
        "cell 'f()' has a picture without alt text: use textbook.plot.show"
    ]
    for size, expected in (
        (70_000, []),
        (90_000, ["cell 'f()' has a picture of more than 60000 bytes: draw less"]),
    ):
        page = f'<img alt="a" src="data:image/png;base64,{"A" * size}">'
        assert problems(new("display_data", {"text/html": page})) == expected


def test_no_output_at_all_is_told():
    cell = nbformat.v4.new_code_cell("x = 1", execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    assert list(output_problems(notebook)) == ["no cell has a stored output"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("factor = 2\n", "factor = 3\n"),
        ("return factor * number", "return number * factor"),
        ('{"doubled":', '{"twice":'),
        ("full=dict(number=[1.5, 2.5])", "full=dict(number=[1.5, 3.5])"),
    ],
)
def test_a_result_of_other_code_is_stale(book, old, new):
    edit(book / CHAPTER, old, new)
    assert f"{RESULTS}: doubling was measured with other code: {EXPERIMENT} doubling" in check(book)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # twice", "  # two times"),
        ("factor = 2\n", "factor = 2\n\n# %%\n"),
        ("double(1.25)\n", "number = 7\ndouble(1.25)\n"),
    ],
)
def test_a_result_outlives_changes_elsewhere(book, old, new):
    edit(book / CHAPTER, old, new)
    assert not any("other code" in problem for problem in check(book))


def test_a_claim_without_heading_or_result_is_told(book):
    edit(book / CHAPTER, "Doubling (C1)", "Doubling")
    told = f"{CHAPTER}: experiment doubling has no heading with (C1): end the heading of its"
    assert any(problem.startswith(told) for problem in check(book))
    edit(book / CHAPTER, "def doubling", "def twice")
    problems = check(book)
    assert f"{CHAPTER}: experiment twice has no full result: {EXPERIMENT} twice" in problems
    assert f"{RESULTS}: doubling is no experiment of the chapter: {EXPERIMENT}" in problems


def test_a_claim_without_box_and_a_page_out_of_step_are_told(book):
    edit(book / CHAPTER, "C1 · holds: Twice", "C1 · holds: Always")
    assert any("docs/claims.md is not what" in problem for problem in check(book))
    edit(book / CHAPTER, "**C1 · holds: Always is 3.0.**", "C1 holds.")
    assert any("'1. Doubling (C1)' has no box" in problem for problem in check(book))


def test_an_experiment_that_not_every_machine_can_run_needs_no_result(book):
    edit(book / CHAPTER, '@lab.experiment("C1",', '@lab.experiment("C1", lacks=lambda: "a GPU",')
    edit(book / CHAPTER, "def doubling", "def twice")
    problems = check(book)
    assert not any("twice" in problem for problem in problems)
    assert f"{RESULTS}: doubling is no experiment of the chapter: {EXPERIMENT}" in problems


def test_an_experiment_of_another_chapter_is_told(book):
    edit(book / CHAPTER, 'Lab("01")', 'Lab("02")')
    assert f"{CHAPTER}: experiment doubling is recorded for chapter 02" in check(book)


def test_results_say_where_they_come_from(book):
    [doubling] = json.loads((book / RESULTS).read_text(encoding="utf-8")).values()
    assert [row["doubled"] for row in doubling["rows"]] == [3.0, 5.0]
    assert doubling["settings"] == {"number": [1.5, 2.5]}
    assert set(doubling) == {
        "claim", "settings", "rows", "tried", "seconds", "machine", "versions", "date",
        "code_hash", "run_hash", "library_hash",
    }  # fmt: skip
    assert set(doubling["machine"]) == {"cpu", "cores", "platform", "blas"}


def test_the_commands_end_with_a_status(book, monkeypatch, capsys):
    monkeypatch.setattr("authoring.__main__.ROOT", book)
    monkeypatch.setattr("authoring.overview.problems", lambda root: [])  # it has no README
    monkeypatch.setattr("authoring.quoted.problems", lambda root: [])
    monkeypatch.setattr("authoring.library.problems", lambda root: [])  # and no library
    assert main(["check"]) == 0
    (book / RELEASE).unlink()
    assert main(["check"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"{RELEASE} is missing: {BUILD}"
    assert main(["build", "77"]) == 1
    assert "no chapter and no exercise set with number '77'" in capsys.readouterr().err
