"""The race: its clock, its judge, its table, and the two programs that come with the book."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import minitorch as mt
from textbook.chapter_14 import raced
from textbook.data import first_edition
from textbook.race import RaceError, clock, inside, measure, nats_a_letter, parts, refuse_unfair
from textbook.race.__main__ import main
from textbook.race.judge import judge, lines_of, refuse_program
from textbook.race.table import read_results, table

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted((ROOT / "exercises/14_the_race").glob("*.py"))
TEXT = first_edition()[:60_000]

# A program that counts pairs of letters, fast; what a wrong one does otherwise is put in.
PAIRS = """
import numpy as np

def train(text, letters, seed, clock):
    numbers = np.array([letters.index(letter) for letter in text])
    counts = np.full((len(letters), len(letters)), 0.1)
    np.add.at(counts, (numbers[:-1], numbers[1:]), 1)
    table = np.log(counts / counts.sum(1, keepdims=True))
    rest = None
    for done in clock:
        table = table + 0.0
    #TRAIN
    def predict(numbers):
        found = table[numbers]
        #PREDICT
        return found
    return predict
"""


def program(folder, train="", predict="", name="pairs"):
    path = folder / f"{name}.py"
    path.write_text(PAIRS.replace("#TRAIN", train).replace("#PREDICT", predict), encoding="utf-8")
    return path


class SlowMachine:
    """Stands for the reference: its step takes so many seconds each time."""

    def __init__(self, seconds):
        self.left = iter(seconds)

    def seconds(self):
        return next(self.left)


def paced(monkeypatch, steps, league=10, pace=0.5):
    """A clock on a machine with these reference steps, where each step of training takes pace."""
    now = [0.0]
    monkeypatch.setattr(clock, "process_time", lambda: now[0])
    monkeypatch.setattr(clock, "reference", lambda: SlowMachine(steps))
    watch = clock.Clock(league)
    for done in watch:
        now[0] += pace
        yield watch, done


def test_a_machine_that_is_half_as_fast_gets_twice_the_time(monkeypatch):
    for reference, seconds in ((0.1, 10), (0.2, 20), (0.05, 5)):
        told = [*paced(monkeypatch, [reference] * 100)]
        watch = told[-1][0]
        assert len(told) == watch.steps == round(seconds / 0.5)
        assert watch.spent == pytest.approx(seconds)
        assert [done for _, done in told] == pytest.approx(np.arange(0, 1, 0.5 / seconds))


def test_where_other_programs_slow_the_machine_down_time_runs_more_slowly(monkeypatch):
    told = [*paced(monkeypatch, [0.1] * 3 + [0.2] * 100, league=30)]
    assert told[-1][0].spent == pytest.approx(5 + 2 * 25)  # it takes two looks to believe it


def test_a_look_does_not_count(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock, "process_time", lambda: now[0])
    monkeypatch.setattr(clock, "reference", lambda: SlowMachine([0.1] * 9))
    watch = clock.Clock(10)
    now[0] = 3.0
    with watch.stopped():
        now[0] = 500.0
    now[0] += 1.0
    assert watch.done == pytest.approx(0.4)


def test_the_reference_is_one_step_of_chapter_11s_model_and_draws_nothing_of_the_programs():
    mt.manual_seed(0)
    expected = mt.rand(3).tolist()
    mt.manual_seed(0)
    reference = clock.Reference(letters=5, width=32, windows=2)
    assert reference.seconds() > 0
    assert mt.rand(3).tolist() == expected
    assert sum(weight.numel() for weight in clock.Reference().model.parameters()) == 808_001


def test_lines_are_those_that_hold_more_than_a_comment():
    assert lines_of("# a comment\n\nx = 1  # one\n\n'''two\nlines'''\ny = (\n    2\n)\n") == 6


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_books_programs_keep_the_rules(path):
    refuse_program(path.read_text(encoding="utf-8"))


class Moments(list):
    """Stands for a clock that tells these shares of the time."""

    league = 600


def test_the_best_program_is_the_chapters_recipe_to_the_last_digit(monkeypatch):
    program = runpy.run_path(str(ROOT / "exercises/14_the_race/best.py"))
    made, begin = [], program["Model"].__init__
    monkeypatch.setattr(
        program["Model"], "__init__", lambda self, *args: (made.append(self), begin(self, *args))[1]
    )
    cut, moments = parts(TEXT[:5000]), Moments([0.0, 0.1, 0.4])
    program["train"](cut.training, cut.letters, 3, moments)
    mt.manual_seed(3)
    numbers = mt.tensor(cut.numbers(cut.training))
    model = raced(numbers, len(cut.letters), moments, dropout=0.1, decay=0.1)
    [other] = made
    for one, same in zip(model.parameters(), other.parameters(), strict=True):
        assert mt.equal(one, same)


BROKEN = {
    "x = 1\n" * 201: "at most 200 lines may hold code, here 201 do",
    "x = '" + "a" * 100 + "'": "line 1 has 106 characters",
    "def train(:": "line 1 is no Python",
    "x = 1": r"defines train\(text, letters, seed, clock\)",
    "def train(text, seed): ...": r"defines train\(text, letters, seed, clock\)",
    "import torch": "line 1 imports torch",
    "from textbook.data import tiny_shakespeare": "imports textbook.data",
    "def train(text, letters, seed, clock):\n    import os": "line 2 imports os",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:30])
def test_a_program_that_may_not_race_is_told_why(text):
    with pytest.raises(RaceError, match=BROKEN[text]):
        refuse_program(text)


def test_the_measure_is_minus_the_log_of_the_next_letter_read_in_windows():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 4, 1000)
    chances = rng.dirichlet(np.ones(4), 4)  # of the next letter, by this one
    expected = [-np.log(chances[numbers[i], numbers[i + 1]]) for i in range(7 * 128)]
    found = nats_a_letter(lambda windows: np.log(chances)[windows], numbers, 4)
    assert found == pytest.approx(np.mean(expected))


def uniform(windows):
    return np.full((*windows.shape, 4), np.log(0.25))


def looks_ahead(windows):
    """Knows the next letter, but for the last of a window."""
    found = uniform(windows)
    found[:, :-1] = np.log(0.97 * np.eye(4)[windows[:, 1:]] + 0.0075)
    return found


def mixes_windows(windows):
    """Believes that each letter is followed by the one that the window above has there."""
    return np.log(0.97 * np.eye(4)[np.roll(windows, 1, axis=0)] + 0.0075)


class Adapting:
    def __init__(self):
        self.counts = np.ones(4)

    def __call__(self, windows):
        self.counts += np.bincount(windows[:, :8].ravel(), minlength=4) ** 2
        return np.broadcast_to(np.log(self.counts / self.counts.sum()), (*windows.shape, 4))


UNFAIR = {
    "looks ahead": (looks_ahead, "change with the letters behind them"),
    "mixes windows": (mixes_windows, "or with the other windows"),
    "adapts": (Adapting(), "change with the letters|predicted otherwise"),
    "scores": (lambda windows: uniform(windows) + 1, "a sum is 2.718. Scores become"),
    "nan": (lambda windows: uniform(windows) * np.nan, "a sum is nan"),
    "shape": (lambda windows: uniform(windows)[:, -1], "expected floating-point"),
    "integers": (lambda windows: np.zeros((*windows.shape, 4), int), "got int64"),
}


@pytest.mark.parametrize("name", UNFAIR)
def test_improper_probabilities_are_caught(name):
    numbers = np.random.default_rng(0).integers(0, 4, 2000)
    refuse_unfair(uniform, numbers, 4)
    predict, message = UNFAIR[name]
    with pytest.raises(RaceError, match=message):
        refuse_unfair(predict, numbers, 4)


def test_a_program_is_judged_in_a_process_of_its_own_and_its_result_is_kept(tmp_path):
    path = program(tmp_path)
    results = [judge(path, 0.2, TEXT, tmp_path / "race") for _ in range(2)]
    assert results[0]["seed"] != results[1]["seed"]
    kept = read_results(tmp_path / "race")
    assert sorted(kept, key=lambda r: r["seed"]) == sorted(results, key=lambda r: r["seed"])
    cut, names = parts(TEXT), {}
    exec(path.read_text(encoding="utf-8"), names)
    predict = names["train"](cut.training, cut.letters, 0, iter([0.0]))
    for half in ("open", "closed"):
        expected = nats_a_letter(predict, cut.numbers(getattr(cut, half)), len(cut.letters))
        assert results[0]["nats"][half] == pytest.approx(expected)
    assert results[0]["nats"]["closed"] < np.log(len(cut.letters)) - 1
    assert 0.2 <= results[0]["seconds"] < 0.21 and results[0]["steps"] > 10


def ways_to_fail(folder):
    """What a program does otherwise, and what is said of it."""
    return {
        "raises": (dict(train="1 / 0"), r"ZeroDivisionError: division by zero \(line 12\)"),
        "returns nothing": (dict(train="return None"), "must return the function predict"),
        "reads": (dict(train=f"np.load({str(folder / 'w.npy')!r})"), "the program opens"),
        "scores": (dict(predict="found = found + 1"), "must give log-probabilities"),
        "ends": (dict(train="raise SystemExit(0)"), "SystemExit"),
    }


@pytest.mark.parametrize("name", ways_to_fail(Path()))
def test_a_program_that_goes_wrong_is_told_how_and_leaves_no_result(name, tmp_path, monkeypatch):
    np.save(tmp_path / "w.npy", np.ones(3))
    changes, message = ways_to_fail(tmp_path)[name]
    path = program(tmp_path, **changes)
    text = parts(TEXT)
    monkeypatch.setattr(clock, "reference", lambda: SlowMachine([0.1] * 1000))
    given = [{"letters": text.letters, "text": text.training}]
    given += [{"open": text.open, "closed": text.closed}]
    _within(path, given, monkeypatch, tmp_path / "out")
    found = json.loads((tmp_path / "out").read_text(encoding="utf-8"))
    assert [*found] == ["error"] and re.search(message, found["error"])


def _within(path, given, monkeypatch, out):
    """What the fresh process does, in this one."""
    lines = iter([json.dumps(part) for part in given])
    monkeypatch.setattr(inside.sys, "stdin", type("Given", (), {"readline": lambda: next(lines)}))
    inside.main(str(path), "0.1", "0", str(out))


def test_training_that_takes_too_long_is_no_result(tmp_path):
    path = program(tmp_path, train="for _ in range(10**7): _ = _ * 2 % 7")
    with pytest.raises(RaceError, match=r"training took .* of 0.05 seconds: ask the clock"):
        judge(path, 0.05, TEXT, tmp_path / "race")
    assert not (tmp_path / "race").exists()


def result(program, nats, seed, code="c", league=40):
    told = {"closed": nats, "open": nats}
    more = {"nats": told, "seed": seed, "league": league, "steps": 300, "lines": 9}
    return {"program": program, "code": code} | more


def places(results):
    return {line.split()[1]: line.split()[0] for line in table(results).splitlines()[2:]}


def test_programs_that_the_seeds_do_not_tell_apart_share_a_place():
    one = [result("one", 1.60 + 0.01 * s, s) for s in range(3)]
    two = [result("two", 1.615 + 0.01 * s, s) for s in range(3)]
    three = [result("three", 1.625 + 0.01 * s, s) for s in range(3)]
    assert places([*three, *two, *one]) == {"one": "1", "two": "1", "three": "3"}
    few = [result("few", 1.0, s) for s in range(2)]
    assert places([*one, *few, few[0]])["few"] == "-"


def test_each_league_and_each_change_of_a_program_has_a_row_of_its_own():
    told = table([result("a", 1.5, 0), result("a", 1.4, 1, "d"), result("a", 1.2, 2, league=600)])
    assert told.count("a (c)") == 2 and told.count("a (d)") == 1
    assert told.index("40 seconds") < told.index("600 seconds")


def test_the_command_prints_a_table_and_says_what_it_cannot_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BOOK_CALLED_FROM", str(tmp_path))
    (tmp_path / "race").mkdir()
    assert "no results in" in main(["--table", "race"])
    (tmp_path / "race/a.json").write_text(json.dumps(result("a", 1.5, 0)))
    assert main(["--table", "race"]) is None
    assert "a (c)" in capsys.readouterr().out
    (tmp_path / "race/b.json").write_text("{}")
    assert "b.json is no result of a race" in main(["--table", "race"])
    with pytest.raises(SystemExit):
        main(["a.py", "--seconds", "50"])


def test_the_letters_after_a_cut_text_are_known_and_the_parts_make_the_text():
    cut = parts(TEXT)
    assert cut.training + cut.open + cut.closed == TEXT
    assert abs(len(cut.open) - len(cut.closed)) <= 1
    assert "".join(cut.letters[i] for i in cut.numbers(cut.open)) == cut.open
    assert measure.CONTEXT == 128
