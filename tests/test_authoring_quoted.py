"""Numbers that a text takes from a record are the record's."""

import json
import re
from pathlib import Path

import jupytext
import mini_book
import pytest
from mini_book import edit

from authoring import quoted
from authoring.sources import BookError, chapters, number_of, read_chapter

ROOT = Path(__file__).resolve().parent.parent
RECORD = {
    "doubling": {
        "rows": [
            {
                "number": 1.5,
                "kind": "a, b = 2",
                "doubled": 3.0,
                "curve": [1.0, 0.25],
                "says": ["v", "x\ny\nz"],
                "says once": "p\nq\nr",
            },
            {"number": 2.5, "kind": "a, b = 2", "doubled": 5.0004, "curve": [2.0, 0.5]},
            {"number": 7.0, "kind": "c", "doubled": 14000.2, "curve": [4.0, 0.5]},
        ]
    }
}


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "notebooks" / "results"
    folder.mkdir(parents=True)
    (folder / "01.json").write_text(json.dumps(RECORD), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("quotation", "text"),
    [
        ("{{01 doubling: doubled}}", "3 to 14,000"),
        ("{{01 doubling: doubled; kind=a, b = 2}}", "3 to 5"),
        ("x {{01 doubling: doubled; number=7}} y {{01 doubling: number}}", "x 14,000 y 1.5 to 7"),
        ("{{01 doubling: curve; kind=c}} of {{01 doubling: curve[0]}}", "0.5 of 1 to 4"),
        ("> {{01 doubling: says[1:2]; number=1.5}}", "> x<br>y"),
        ("> {{01 doubling: says once[0:2]; number=1.5}}", "> p<br>q"),
        ("$\\frac{{a}}{b}$ {{1 b: c}}", "$\\frac{{a}}{b}$ {{1 b: c}}"),
    ],
)
def test_a_quotation_becomes_the_smallest_and_the_largest_of_its_runs(results, quotation, text):
    assert quoted.filled(results, quotation) == text


@pytest.mark.parametrize(
    ("quotation", "told"),
    [
        ("{{02 doubling: doubled}}", "02.json has no record 'doubling'"),
        ("{{01 halving: doubled}}", "has no record 'halving'; it has doubling"),
        ("{{01 doubling: tripled}}", "no run has 'tripled'; there is number, kind, doubled"),
        ("{{01 doubling: doubled; size=1}}", "no run has 'size'"),
        ("{{01 doubling: doubled; number=9}}", "no run has all of these settings"),
    ],
)
def test_a_quotation_of_nothing_is_told(results, quotation, told):
    with pytest.raises(LookupError, match=told):
        quoted.filled(results, quotation)


def test_a_notebook_has_the_numbers_and_follows_the_record(tmp_path):
    book = mini_book.write(tmp_path)
    source = book / "notebooks/01_double.py"
    edit(source, "# # A chapter", "# # A chapter\n#\n# It is {{01 doubling: doubled; number=2.5}}.")
    with pytest.raises(BookError, match="01_double.py: .* has no record 'doubling'"):
        read_chapter(source)
    results = book / "notebooks" / "results"
    results.mkdir()
    (results / "01.json").write_text(json.dumps(RECORD), encoding="utf-8")
    before = read_chapter(source).cells[0]
    assert "It is 5." in before.source
    changed = json.dumps(RECORD).replace("5.0004", "6")
    (results / "01.json").write_text(changed, encoding="utf-8")
    after = read_chapter(source).cells[0]
    assert "It is 6." in after.source and after.id == before.id


@pytest.mark.parametrize("name", ["README.md", "docs/page.md"])
def test_the_numbers_of_a_document_are_filled_in(tmp_path, results, name):
    readme = tmp_path / name
    readme.parent.mkdir(exist_ok=True)
    readme.write_text("It is <!--{{01 doubling: number; kind=c}}-->8.1<!---->, and 8.1 is not.\n")
    [problem] = quoted.problems(tmp_path)
    assert problem.startswith(f"{name} has numbers that no record has")
    quoted.write(tmp_path)
    assert "c}}-->7<!---->, and 8.1 is not." in readme.read_text()
    assert not list(quoted.problems(tmp_path))


def test_readme_leads_to_hosts_where_the_repository_is_named(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "00_first.ipynb").touch()
    readme, project = tmp_path / "README.md", tmp_path / "pyproject.toml"
    project.write_text('[tool.minitorch-book]\nrepository = ""\n')
    readme.write_text("Start.<!-- hosts --><!-- /hosts -->\n")
    assert not list(quoted.problems(tmp_path))
    project.write_text('[tool.minitorch-book]\nrepository = "owner/name"\n')
    [problem] = quoted.problems(tmp_path)
    assert "links that pyproject.toml does not ask for" in problem
    quoted.write(tmp_path)
    colab, binder = re.findall(r"\[(?:Colab|Binder)\]\((.*?)\)", readme.read_text())
    assert colab.endswith("/github/owner/name/blob/main/notebooks/00_first.ipynb")
    assert binder.endswith("/gh/owner/name/main?urlpath=lab/tree/my/notebooks/00_first.ipynb")
    project.write_text('[tool.minitorch-book]\nrepository = ""\n')
    quoted.write(tmp_path)
    assert readme.read_text() == "Start.<!-- hosts --><!-- /hosts -->\n"


def test_a_number_of_another_chapter_that_is_not_filled_in_is_found():
    text = """\
An RNN has 1.4 here. In chapter 01 it had 1.3. Rates of 0.01 are ours.

| 01 | a row | 2e-12 |
| 02 | a row | {{02 a: b; gain=0.5}} at gain 0.5, and chapter 01 |
| 04 | {{04 a: b}}, and 3 % |
"""
    found = list(quoted.unfilled("02", text))
    assert found == [
        "In chapter 01 it had 1.3.",
        "| 01 | a row | 2e-12 |",
        "| 04 | {{04 a: b}}, and 3 % |",
    ]


OWN = {  # begin sentences that name another chapter beside numbers of their own
    "01": ["**Perplexity** is"],
    "02": ["(Chapter 01's network of gain 1.5", "A plain RNN as it comes"],
    "04": ["**E1 "],
    "06": ["Processor time of a pass"],
    "10": ["**E3 "],
}


@pytest.mark.parametrize("source", chapters(ROOT), ids=number_of)
def test_no_chapter_has_a_number_of_another_one_that_is_not_filled_in(source):
    number = number_of(source)
    cells = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py").cells
    found = [
        sentence
        for cell in cells
        if cell.cell_type == "markdown"
        for sentence in quoted.unfilled(number, cell.source)
        if not sentence.startswith(tuple(OWN.get(number, ["nothing"])))
    ]
    assert not found, "write {{NN record: number; setting=value}} in place of the number"
