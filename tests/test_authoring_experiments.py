"""Experiments are recorded, what a failure leaves, and which code a record depends on."""

import json
import re

import mini_book
import pytest
from mini_book import edit

from authoring.__main__ import main
from authoring.experiments import _in_words, declared, record
from authoring.sources import BookError

CHAPTER = "notebooks/01_double.py"
RESULTS = "notebooks/results/01.json"
DOUBLED = [{"number": x, "seed": 0, "doubled": 2 * x} for x in (1.5, 2.5)]
OLD = {"settings": {}, "rows": [], "tried": []}


@pytest.fixture
def book(tmp_path):
    return mini_book.write(tmp_path)


def add(book, experiment):
    with open(book / CHAPTER, "a", encoding="utf-8") as file:
        file.write(experiment)


def recorded(book):
    """The rows of each record."""
    results = json.loads((book / RESULTS).read_text(encoding="utf-8"))
    return {name: record["rows"] for name, record in results.items()}


def test_a_failure_keeps_what_was_measured_before_it_and_the_old_results(book):
    (book / RESULTS).parent.mkdir()
    (book / RESULTS).write_text(json.dumps({"doubling": OLD, "broken": OLD, "gone": OLD}))
    add(book, '@lab.experiment("C2", full={})\ndef broken():\n    return 1 / 0\n\nbroken.run()\n')
    with pytest.raises(BookError, match="status 1; recorded: doubling; not recorded: broken"):
        record(book, "01")
    assert recorded(book) == {"doubling": DOUBLED, "broken": []}


SIZED = """
@lab.experiment("C2", size=1, full=dict(size=100), lacks=lambda: None)
def sized(size):
    return {"twice": 2 * size}

print(sized.run().here)
"""


def test_only_the_claims_that_are_named_are_recorded(book):
    add(book, SIZED)
    record(book, "01", ["C2"])
    assert recorded(book) == {"sized": [{"size": 100, "seed": 0, "twice": 200}]}
    with pytest.raises(BookError, match="has the experiments doubling, sized, and not C5"):
        record(book, "01", ["C2", "C5"])


def test_what_lacks_something_here_runs_quick_keeps_its_record_and_stops_nothing(book, capfd):
    add(book, SIZED.replace("None", "'a GPU'"))
    (book / RESULTS).parent.mkdir()
    (book / RESULTS).write_text(json.dumps({"sized": OLD}))
    record(book, "01")
    told = capfd.readouterr().out
    assert "'twice': 2}" in told and "sized in full needs a GPU: not recorded" in told
    assert recorded(book) == {"doubling": DOUBLED, "sized": []}
    with pytest.raises(BookError, match="status 0; recorded: nothing; not recorded: sized"):
        record(book, "01", ["C2"])


COUNTED = """
from time import perf_counter

@lab.experiment("C2", size=[1], full=dict(size=[1, 2], seeds=2))
def counted(size, seed):
    with open("made.txt", "a") as file:
        print(size, seed, file=file)
    return {"twice": factor * size, "seconds": perf_counter()}

counted.run()
"""


def made(book):
    """The runs that were made since the last look."""
    path = book / "notebooks" / "made.txt"
    runs = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
    path.unlink()
    return runs


def test_where_only_settings_change_recorded_runs_are_kept_if_they_can_be_repeated(book, capfd):
    add(book, COUNTED)
    record(book, "01", ["C2"])
    assert made(book) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    edit(book / CHAPTER, "full=dict(size=[1, 2], seeds=2)", "full=dict(size=[1, 2, 3], seeds=3)")
    record(book, "01", ["C2"])
    assert made(book) == [(1, 0), (2, 0), (1, 2), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert "of 4 recorded runs 2 were made again; the others are kept" in capfd.readouterr().out
    assert len(recorded(book)["counted"]) == 9
    results = json.loads((book / RESULTS).read_text(encoding="utf-8"))
    results["counted"]["rows"][0]["twice"] = 7  # as if the library had changed
    (book / RESULTS).write_text(json.dumps(results))
    edit(book / CHAPTER, "seeds=3", "seeds=4")
    record(book, "01", ["C2"])
    assert len(made(book)) == 12 and "not kept: 1 differ" in capfd.readouterr().out


def test_no_recorded_run_is_kept_where_the_code_of_a_run_changes_or_nothing_does(book):
    add(book, COUNTED)
    record(book, "01", ["C2"])
    record(book, "01", ["C2"])
    assert len(made(book)) == 8
    edit(book / CHAPTER, "factor * size,", "factor * size + seed,")  # the first seed gives the same
    edit(book / CHAPTER, "seeds=2", "seeds=3")
    record(book, "01", ["C2"])
    assert len(made(book)) == 6
    assert [row["twice"] for row in recorded(book)["counted"]] == [2, 3, 4, 4, 5, 6]


GROWING = """
@lab.experiment("C2", size=[1, 2], steps=[20], full=dict(seeds=5))
def growing(size, steps, seed):
    lists = {"by place": [size, 10 * size, 100 * size + seed], "every step": [0.5] * 13}
    return {"length": size * steps + seed, "says": "a"} | lists

growing_runs = growing.run()
growing_runs.holds("it is long", lambda rows: rows.values("length", size=2), above=30)
growing_runs.holds("one is small", 1, below=2)
growing_runs.finding("more is more", "length", larger=dict(size=2), smaller=dict(size=1))
"""


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_claim_runs_elsewhere_beside_its_record_and_no_file_is_touched(book, capsys, monkeypatch):
    monkeypatch.setattr("authoring.__main__.ROOT", book)
    monkeypatch.setenv("MINITORCH_BOOK", "quick")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    add(book, GROWING)
    record(book, "01", ["C2"])
    before = everything(book)
    capsys.readouterr()
    assert main(["experiment", "01", "C2", "--budget", "10", "--seeds", "100:105"]) == 0
    told = capsys.readouterr().out
    assert "01_double.py runs once in its quick setting, then:\ngrowing (C2): took" in told
    assert "growing (C2), here with seeds 100 to 104 and 10 times the budget:" in told
    assert "doubling" not in told and "one is small" not in told
    assert "2     502 (500 to 504)  42 (40 to 44)" in told
    table = "size        here    recorded\n1     1  10  202  1  10  102\n"
    assert f"by place, median at each place\n{table}" in told
    assert "every step" not in told and "says" not in told
    assert "C2 measured: it is long [here 502 (500 to 504); recorded 42 (40 to 44);" in told
    assert "here in 5 of 5 seeds, by 200; recorded in 5 of 5 seeds, by 20" in told
    assert main(["experiment", "01", "growing", "--seeds", "7:9"]) == 0
    told = capsys.readouterr().out
    assert "47 and 48" in told and "seeds 7 to 8 and the budget of the record:" in told
    assert everything(book) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["C9", "--seeds", "0:5"], "say which experiments of .* doubling .C1., sized .C2."),
        (["C1", "--budget", "10"], "doubling has no budget"),
        (["C2", "--budget", "10"], "sized in full needs a GPU"),
    ],
)
def test_what_cannot_run_elsewhere_is_told(book, capsys, monkeypatch, arguments, told):
    monkeypatch.setattr("authoring.__main__.ROOT", book)
    monkeypatch.setenv("MINITORCH_BOOK", "quick")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    add(book, SIZED.replace("None", "'a GPU'"))
    assert main(["experiment", "01", *arguments]) == 1
    assert re.search(told, capsys.readouterr().err)


def test_a_failure_before_the_first_measurement_changes_nothing(book):
    (book / RESULTS).parent.mkdir()
    (book / RESULTS).write_text('{"doubling": {"rows": []}}')
    edit(book / CHAPTER, "factor = 2", "factor = 2 / 0")
    with pytest.raises(BookError, match="recorded: nothing; not recorded: doubling"):
        record(book, "01")
    assert (book / RESULTS).read_text() == '{"doubling": {"rows": []}}'


def test_an_experiment_that_never_runs_is_told(book):
    text = (book / CHAPTER).read_text()
    (book / CHAPTER).write_text(text[: text.index("# %% evidence")])
    with pytest.raises(BookError, match="status 0; recorded: nothing; not recorded: doubling"):
        record(book, "01")


def test_the_time_of_a_record_is_told_in_minutes_once_there_are_some():
    assert _in_words(119.4) == "119 s" and _in_words(1834.5) == "31 minutes"


def test_a_missing_chapter_is_told(book):
    with pytest.raises(BookError, match="no chapter with number '07'"):
        record(book, "07")


def hash_of(path, text):
    path.write_text(f"lab = Lab('01')\n{text}")
    [experiment] = declared(path)
    return experiment.code_hash


BASE = """
import numpy as np
from scales import double as enlarge, halve
table = {}
table["width"] = 4
class Model:
    def forward(self, x):
        return scale(x)
def scale(x):
    return enlarge(x) * table["width"]
def unrelated(y):
    return y
@lab.experiment("C1", full={})
def measure():
    step = 1
    return [Model().forward(x) for x in range(3)]
"""


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("import numpy as np", "import math as np", False),
        ('table["width"] = 4', 'table["width"] = 5', True),
        ("from scales import", "from tools.scales import", False),
        ("double as enlarge, halve", "halve, double as enlarge", False),
        ("double as enlarge, halve", "double as enlarge", False),
        ("double as enlarge, halve", "halve as enlarge", True),
        ("return scale(x)", "return scale(2 * x)", True),
        ('enlarge(x) * table["width"]', 'table["width"] * enlarge(x)', True),
        ("return y", "return 2 * y", False),
        ("step = 1", "step = 2", True),
        ("def unrelated(y):", "step = 5\nx = 3\ndef unrelated(y):", False),
        ("    step = 1\n", "\n    # a remark\n    step = 1  # another\n", False),
    ],
)
def test_the_hash_follows_the_names_that_the_experiment_uses(tmp_path, old, new, counts):
    assert old in BASE
    path = tmp_path / "01_x.py"
    assert (hash_of(path, BASE) != hash_of(path, BASE.replace(old, new))) == counts
