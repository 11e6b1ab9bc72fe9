"""Experiments: the quick run, the recorded one, and what a failure leaves."""

import json

import mini_book
import numpy as np
import pytest
from mini_book import edit

from authoring.experiments import _in_words, declared, record
from authoring.sources import BookError
from textbook.experiments import Experiment, Experiments

CHAPTER = "notebooks/01_double.py"
RESULTS = "notebooks/results/01.json"


@pytest.fixture
def book(tmp_path):
    return mini_book.write(tmp_path)


def experiment(function, path="nowhere.json", **settings):
    return Experiment(function, "C1", settings, settings, mini_book.REPOSITORY / path)


def test_quick_and_full_run_with_their_settings(monkeypatch, tmp_path):
    lab = Experiments("01")

    @lab.experiment("C7", quick=dict(size=1), full=dict(size=100))
    def measure(size):
        return {"size": size}

    assert measure.run() == {"size": 1}
    monkeypatch.setenv("MINITORCH_BOOK", "full")
    monkeypatch.setenv("MINITORCH_RECORD", str(tmp_path))
    assert measure.run() == {"size": 100}
    measured = json.loads((tmp_path / "C7.json").read_text())
    assert (measured["settings"], measured["result"]) == ({"size": 100}, {"size": 100})
    assert measure(size=3) == {"size": 3}


def test_an_unknown_book_setting_is_told(monkeypatch):
    monkeypatch.setenv("MINITORCH_BOOK", "long")
    with pytest.raises(ValueError, match="MINITORCH_BOOK is 'long', expected 'quick' or 'full'"):
        experiment(lambda: 1).run()


def test_settings_that_the_function_does_not_take_are_told():
    with pytest.raises(TypeError, match="seed"):
        experiment(lambda seeds: seeds, seed=1)


def test_a_result_looks_the_same_before_and_after_it_is_recorded():
    result = {1: np.float32(0.5), "rows": np.arange(2), "pair": (1, 2)}
    assert experiment(lambda: result).run() == {"1": 0.5, "rows": [0, 1], "pair": [1, 2]}


def test_a_result_that_json_cannot_hold_is_told():
    with pytest.raises(TypeError, match="an experiment returned set: return numbers"):
        experiment(lambda: {1, 2}).run()


def test_nothing_recorded_is_none_and_the_rest_is_read(tmp_path):
    assert experiment(lambda: 1).recorded is None
    path = tmp_path / "01.json"
    path.write_text('{"C1": {"result": 5}}')
    assert experiment(lambda: 1, path).recorded == {"result": 5}
    path.write_text('{"C2": {"result": 5}}')
    assert experiment(lambda: 1, path).recorded is None


def test_results_lie_beside_the_script_that_declares_them(tmp_path):
    script = tmp_path / "chapter.py"
    names = {"__file__": str(script)}
    exec(compile("from textbook.experiments import Experiments\nlab = Experiments('01')",
                 str(script), "exec"), names)  # fmt: skip
    assert names["lab"].path == tmp_path / "results" / "01.json"


def add_failing_experiment(book):
    with open(book / CHAPTER, "a", encoding="utf-8") as file:
        file.write(
            '\n@lab.experiment("C2", quick=dict(), full=dict())\n'
            "def broken():\n    return 1 / 0\n\nbroken.run()\n"
        )


def test_a_failure_keeps_what_was_measured_before_it_and_the_old_results(book):
    (book / RESULTS).parent.mkdir()
    old = {"C1": {"result": "old"}, "C2": {"result": "kept"}, "C9": {"result": "gone"}}
    (book / RESULTS).write_text(json.dumps(old))
    add_failing_experiment(book)
    with pytest.raises(BookError, match="status 1; recorded: C1; not recorded: C2"):
        record(book, "01")
    results = json.loads((book / RESULTS).read_text())
    assert results["C1"]["result"] == {"doubled": [3.0, 5.0]}
    assert results["C2"] == {"result": "kept"}
    assert "C9" not in results


def test_only_the_claims_that_are_named_are_recorded(book):
    with open(book / CHAPTER, "a", encoding="utf-8") as file:
        file.write(
            '\n@lab.experiment("C2", quick=dict(size=1), full=dict(size=100))\n'
            "def sized(size):\n    return size\n\nsized.run()\n"
        )
    record(book, "01", ["C2"])
    results = json.loads((book / RESULTS).read_text())
    assert results.keys() == {"C2"} and results["C2"]["result"] == 100
    with pytest.raises(BookError, match="has the experiments C1, C2, and not C5"):
        record(book, "01", ["C2", "C5"])


def add_experiment_for_a_gpu(book, lacks):
    with open(book / CHAPTER, "a", encoding="utf-8") as file:
        file.write(
            f'\n@lab.experiment("C2", quick=dict(size=1), full=dict(size=100), lacks={lacks})\n'
            "def sized(size):\n    return size\n\nprint('size', sized.run())\n"
        )


def test_what_lacks_something_here_runs_quick_keeps_its_record_and_stops_nothing(book, capfd):
    add_experiment_for_a_gpu(book, lacks="lambda: 'a GPU'")
    (book / RESULTS).parent.mkdir()
    (book / RESULTS).write_text(json.dumps({"C2": {"result": "kept"}}))
    record(book, "01")
    told = capfd.readouterr().out
    assert "size 1\n" in told and "C2 in full needs a GPU: not recorded" in told
    results = json.loads((book / RESULTS).read_text())
    assert results["C1"]["result"] == {"doubled": [3.0, 5.0]}
    assert results["C2"] == {"result": "kept"}
    with pytest.raises(BookError, match="status 0; recorded: nothing; not recorded: C2"):
        record(book, "01", ["C2"])


def test_what_lacks_nothing_is_recorded(book):
    add_experiment_for_a_gpu(book, lacks="lambda: None")
    record(book, "01")
    assert json.loads((book / RESULTS).read_text())["C2"]["result"] == 100


def test_a_failure_before_the_first_measurement_changes_nothing(book):
    (book / RESULTS).parent.mkdir()
    (book / RESULTS).write_text('{"C1": {"result": "old"}}')
    edit(book / CHAPTER, "factor = 2", "factor = 2 / 0")
    with pytest.raises(BookError, match="recorded: nothing; not recorded: C1"):
        record(book, "01")
    assert (book / RESULTS).read_text() == '{"C1": {"result": "old"}}'


def test_an_experiment_that_never_runs_is_told(book):
    edit(book / CHAPTER, 'doubling.run()["doubled"][0]', "0")
    with pytest.raises(BookError, match="status 0; recorded: nothing; not recorded: C1"):
        record(book, "01")


def test_the_time_of_a_record_is_told_in_minutes_once_there_are_some():
    assert _in_words(119.4) == "119 s" and _in_words(1834.5) == "31 minutes"


def test_a_missing_chapter_is_told(book):
    with pytest.raises(BookError, match="no chapter with number '07'"):
        record(book, "07")


def hash_of(path, text):
    path.write_text(f"lab = Experiments('01')\n{text}")
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
@lab.experiment("C1", quick={}, full={})
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
