"""A blank cell of set 10 gets the student's own answer from the set beside it, never another."""

import json
import os
from pathlib import Path

import pytest

from textbook.checks.chapter_10 import own_answers
from textbook.checks.chapter_10.assembly import CHECKS

BLANK = "def attention(query, key, value):\n    raise NotImplementedError('write it here')"
FIRST = "def attention(query, key, value):\n    return value"
MINE = "import math\n\n\n@math.cos\ndef attention(query, key, value):\n    return query"


def notebook(*texts):
    cells = [{"cell_type": "markdown", "source": [MINE]}]
    cells += [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in texts]
    return json.dumps({"cells": cells})


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A function that writes the student's set 05; the set 10 beside it is the current folder."""
    (tmp_path / "10_transformer").mkdir()
    (tmp_path / "05_self_attention").mkdir()
    monkeypatch.chdir(tmp_path / "10_transformer")

    def write(text, name="05_self_attention"):
        path = tmp_path / f"05_self_attention/{name}.ipynb"
        path.write_text(text, encoding="utf-8")

    return write


def found(folder):
    return own_answers.own_answer(folder, "05", "attention")


def test_the_last_answer_is_taken_as_its_cell_stands(tmp_path, beside):
    beside(notebook(BLANK, FIRST, "%timeit attention()", MINE, "attention(1, 2, 3)", BLANK))
    assert found(tmp_path) == (MINE, "from 05_self_attention.ipynb")


@pytest.mark.parametrize(
    "text",
    [
        notebook(),
        notebook(BLANK),
        notebook("def other():\n    pass"),
        notebook(
            "def attention(query):\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
        ),
    ],
)
def test_without_an_answer_of_the_students_own_there_is_none(tmp_path, beside, text):
    beside(text)
    answer, why = found(tmp_path)
    assert answer is None
    assert "05_self_attention.ipynb has no answer of yours" in why


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}'])
def test_a_file_that_cannot_be_read_is_told(tmp_path, beside, text):
    beside(text)
    assert found(tmp_path) == (
        None,
        "not found, 05_self_attention.ipynb cannot be read",
    )


def test_where_there_is_no_set_it_says_where_it_looked(tmp_path, beside, capsys):
    beside(notebook(FIRST), "05_self_attention.new")
    own_answers.copy_my_answers()
    shown = capsys.readouterr().out.splitlines()
    earlier = [check.name for n, checks in CHECKS.items() if n != "10" for check in checks]
    assert [line.split(":")[0] for line in shown] == earlier
    assert shown[0] == f"attention: not found, there is no set 05 in {tmp_path}"


def replaced(texts, folder):
    """What the cells hold after they have run, one after the other, in a kernel."""
    manager = pytest.importorskip("jupyter_client.manager")
    environment = os.environ | {"PYTHONPATH": str(Path(own_answers.__file__).parents[3])}
    kernel, client = manager.start_new_kernel(
        kernel_name="python3", cwd=str(folder), env=environment
    )
    try:
        for i, text in enumerate(texts):
            reply = client.execute_interactive(text, timeout=120, output_hook=lambda message: None)
            content = reply["content"]
            assert content["status"] == "ok", content
            for order in content["payload"]:
                assert order["source"] == "set_next_input" and order["replace"]
                texts[i] = order["text"]
        return texts
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_in_a_notebook_blank_cells_are_replaced_and_run_and_no_others(tmp_path, beside):
    mine = MINE.replace("@math.cos\n", "")
    beside(notebook(mine))
    call = "from textbook.checks import chapter_10 as check\ncheck.copy_my_answers()"
    other = "def layer_norm(x):\n    raise NotImplementedError"
    test = "assert attention(1, 2, 3) == 1"
    changed = "attention = None\ndef attention_of(x):\n    pass"
    cells = [call, BLANK, test, other, FIRST, "assert attention(1, 2, 3) == 3", changed]
    expected = [call, mine, *cells[2:]]
    assert replaced(list(cells), tmp_path / "10_transformer") == expected
