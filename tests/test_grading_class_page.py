"""The page about a class: what it counts, whom it names, and that it holds nothing live."""

import re
from html.parser import HTMLParser

import nbformat
import pytest

from authoring.grading import class_page as class_page_module
from authoring.grading.class_page import alike, class_page, plain_form

LONG = """def total(values):
    # a comment
    found = 0.0
    for position, value in enumerate(values):
        if position % 2 == 0:
            found = found + 1.5 * value
        else:
            found = found - 0.5 * value
    return found"""
RENAMED = LONG.replace("found", "s").replace("position", "i").replace("    # a comment\n", "")
OWN = LONG.replace("1.5 * value", "value * 1.5")


def cell(name, source, points=0):
    mark = {"schema_version": 3, "grade_id": name, "task": False, "locked": bool(points)}
    mark |= {"grade": bool(points), "solution": not points}
    mark |= {"points": points} if points else {}
    return nbformat.v4.new_code_cell(source, metadata={"nbgrader": mark})


@pytest.fixture
def source():
    solution = LONG.replace("% 2", "& 1")
    return nbformat.v4.new_notebook(
        cells=[
            cell("hard", f"### BEGIN SOLUTION\n{solution}\n### END SOLUTION"),
            cell("test_hard", "assert total([1]) == 1.5", 4),
            cell("easy", "### BEGIN SOLUTION\neasy = 1\n### END SOLUTION"),
            cell("test_easy", "assert easy == 1", 2),
        ]
    )


def row(student, hard, easy, said=(), /, **answers):
    found = {"student": student, "set": "01_short", "total": hard + easy, "max": 6, "problem": ""}
    found |= {"said": dict(said), "answers": {"easy": "easy = 1"} | answers}
    return found | {"hard": hard, "easy": easy}


@pytest.fixture
def rows():
    wrong = {"hard": "not right yet. Your answer is a plain sum."}
    return [
        row("anna", 4, 2, hard=LONG),
        row("ben", 4, 2, hard=RENAMED),
        row("carla", 0, 2, wrong, hard=OWN),
        row("dora", 0, 0, wrong | {"easy": "<script>alert(1)</script>"}, hard="def total("),
        {**row("<b>eve", 0, 0), "said": {}, "answers": {}},
    ]


def test_plain_form_forgets_names_and_comments():
    assert plain_form(LONG) == plain_form(RENAMED) != plain_form(OWN)
    assert plain_form('def f(x):\n    "What it does."\n    return x') == plain_form(
        "def f(y):\n    pass\n    return y"
    )
    assert plain_form("def f(") is None
    assert plain_form(f"large = 0x{'f' * 5000}") is None
    plain_form("name = f\"{'\u200b'.join('ab')}\"")  # which Python 3.11 cannot write


def test_what_cannot_be_shown_is_named(rows, source, monkeypatch):
    monkeypatch.setattr(class_page_module, "alike", lambda *_: 1 / 0)
    page = class_page(rows, {"01_short": source})
    assert page.count("A part could not be shown: see grading.log") == 1
    assert "Points lost, on average" in page and "Who may need help" in page


def test_those_who_wrote_the_same_are_shown(rows, source):
    assert alike(rows, source) == [("hard", {"anna": LONG, "ben": RENAMED})]
    crowd = [row(f"student {i}", 4, 2, hard=LONG) for i in range(5)]
    assert alike(crowd, source) == []
    solved = LONG.replace("% 2", "& 1")
    assert alike([row(name, 4, 2, hard=solved) for name in "ab"], source) == []


def test_the_page_counts_and_names(rows, source):
    page = class_page(rows, {"01_short": source})
    texts = re.findall(r"<text[^>]*>(.*?)</text>", page)
    assert texts[:4] == ["hard", "2.0 of 4", "easy", "0.5 of 2"]
    assert texts[4:6] == ["hard: not right yet. Your answer is a plain sum.", "2"]
    assert "4 notebooks of 5 students." in page and "Not in what follows: 1" in page
    need = page.partition("Who may need help")[2]
    assert re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td>", need) == [
        ("&lt;b&gt;eve", "0%"),
        ("dora", "0%"),
        ("carla", "33%"),
    ]
    assert "01_short not handed in" in need


def test_the_page_holds_nothing_live(rows, source):
    page = class_page(rows, {"01_short": source})
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)
    parser.feed(page)
    assert not {"script", "b", "img", "link"} & set(tags)
    assert "default-src 'none'" in page


def test_a_page_of_nobody(source):
    assert "nobody has less" in class_page([], {"01_short": source})
