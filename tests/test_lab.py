"""textbook.lab: grids, seeds, chosen settings, records, verdicts, tables and figures."""

import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import minitorch as mt
from textbook.lab import Lab, Rows, Runs, Tuned, measured, report


def scores(lab, **full):
    @lab.experiment("C11", d=[4, 16], divided=[False, True], full=full)
    def spread_of_scores(d, divided, n=3):
        return {"draw": mt.randn(1).item(), "size": d * n}

    return spread_of_scores


def test_the_grid_is_run_in_its_order_and_each_run_is_seeded(lab):
    rows = scores(lab).run().here
    settings = [(row["d"], row["divided"], row["seed"]) for row in rows]
    assert settings == [(4, False, 0), (4, True, 0), (16, False, 0), (16, True, 0)]
    assert len({row["draw"] for row in rows}) == 1  # the same seed before each run
    assert [row["size"] for row in rows] == [12, 12, 48, 48]


def test_full_replaces_settings_and_is_recorded(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("MINITORCH_BOOK", "full")
    monkeypatch.setenv("MINITORCH_RECORD", str(tmp_path))
    runs = scores(lab, d=[4], seeds=2).run()
    rows = runs.here
    assert runs.full is rows  # not the old record, whose names may be others
    assert [(row["divided"], row["seed"]) for row in rows] == [
        (False, 0), (False, 1), (True, 0), (True, 1),
    ]  # fmt: skip
    record = json.loads((tmp_path / "spread_of_scores.json").read_text())
    assert record["claim"] == "C11" and record["rows"] == rows
    assert record["settings"] == {"d": [4], "divided": [False, True], "seeds": 2}


def test_runs_that_were_finished_are_not_measured_again(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("MINITORCH_BOOK", "full")
    monkeypatch.setenv("MINITORCH_RECORD", str(tmp_path))
    done = []

    @lab.experiment("C1", step=[1, 2, 3], full={})
    def interrupted(step):
        if step == 3 and len(done) < 3:
            done.append("stop")
            raise KeyboardInterrupt
        done.append(step)
        return {"square": step**2}

    with pytest.raises(KeyboardInterrupt):
        interrupted.run()
    with (tmp_path / "interrupted.jsonl").open("a") as file:
        file.write('["cut off')
    assert interrupted.run().here.values("square").tolist() == [1, 4, 9]
    assert done == [1, 2, "stop", 3]


def test_only_what_was_asked_for_runs_in_full(lab, monkeypatch):
    monkeypatch.setenv("MINITORCH_BOOK", "full")
    for wanted, count in (("C2", 4), ("C11", 2), ("spread_of_scores other", 2), ("", 2)):
        monkeypatch.setenv("MINITORCH_CLAIMS", wanted)
        assert len(scores(lab, d=[4]).run().here) == count, wanted


def test_what_this_machine_lacks_is_told_and_runs_quick(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("MINITORCH_BOOK", "full")
    monkeypatch.setenv("MINITORCH_RECORD", str(tmp_path))

    @lab.experiment("C1", size=1, full=dict(size=100), lacks=lambda: "a GPU")
    def sized(size):
        return {"twice": 2 * size}

    assert sized.run().here.values("twice").tolist() == [2]
    assert (tmp_path / "sized.lacking").read_text() == "a GPU"
    assert not (tmp_path / "sized.json").exists()


def test_an_unknown_book_setting_is_told(lab, monkeypatch):
    monkeypatch.setenv("MINITORCH_BOOK", "long")
    with pytest.raises(ValueError, match="MINITORCH_BOOK is 'long', expected 'quick' or 'full'"):
        scores(lab).run()


def test_a_run_looks_the_same_before_and_after_it_is_recorded(lab):
    @lab.experiment("C1", full={})
    def arrays():
        return {"loss": np.float32(0.5), "curve": np.arange(2), "sizes": mt.ones(2)}

    assert arrays.run().here == [{"seed": 0, "loss": 0.5, "curve": [0, 1], "sizes": [1.0, 1.0]}]
    assert arrays()["loss"].dtype == np.float32  # called as a function it is the function


def test_nothing_recorded_is_none_and_no_file_of_records_is_told(lab, tmp_path, shown):
    assert scores(lab).run().full is None
    [told] = shown
    assert "No record of this chapter was found: only this run is shown." in told["text/plain"]
    assert told[report.COMPARED] is None
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "05.json").write_text('{"another": {"rows": []}}')
    assert scores(lab).run().full is None
    assert len(shown) == 1


def test_the_recorded_rows_come_with_those_made_here(lab, tmp_path):
    (tmp_path / "results").mkdir()
    row = {"d": 4, "divided": True, "seed": 0, "draw": None, "size": 7}
    record = {"spread_of_scores": {"settings": {}, "rows": [row], "tried": []}}
    (tmp_path / "results" / "05.json").write_text(json.dumps(record))
    runs = scores(lab).run()
    assert runs.full == [row] and runs.best is runs.full and len(runs.here) == 4
    assert math.isnan(runs.full.values("draw")[0])


def test_results_lie_beside_the_script_that_defines_the_experiment():
    @Lab("05").experiment("C1", full={})
    @mt.no_grad()  # its wrapper is the library's
    def wrapped():
        return {"one": 1}

    assert wrapped.path == Path(__file__).parent / "results" / "05.json"


def test_mistakes_of_an_author_are_told(lab):
    with pytest.raises(ValueError, match="at least three values"):
        Tuned(1.0, 2.0, lowest="loss")
    with pytest.raises(ValueError, match="lowest= or highest="):
        Tuned(1.0, 2.0, 3.0)
    with pytest.raises(TypeError, match="width"):
        lab.experiment("C1", d=4, width=3, full={})(lambda d: {})

    @lab.experiment("C1", d=[1], full={})
    def clash(d):
        return {"d": 2}

    with pytest.raises(ValueError, match="clash returns 'd', which is one of its settings"):
        clash.run()
    with pytest.raises(TypeError, match="nothing returned NoneType"):
        lab.experiment("C1", full={})(named("nothing", lambda: None)).run()
    with pytest.raises(TypeError, match="returned set: return numbers"):
        lab.experiment("C1", full={})(named("sets", lambda: {"a": {1}})).run()


def named(name, function):
    function.__name__ = name
    return function


ROWS = Rows(
    {"d": d, "model": model, "seed": seed, "loss": d + seed + (10 if model == "b" else 0)}
    for d in (1, 2)
    for model in ("a", "b")
    for seed in (0, 1)
)


def test_rows_give_values_in_order_and_say_what_there_is():
    assert ROWS.values("loss", d=2).tolist() == [2, 3, 12, 13]
    assert (ROWS.values("loss", d=2, model="b") - ROWS.values("loss", d=2, model="a") == 10).all()
    assert ROWS.settings_of("model") == ["a", "b"]
    with pytest.raises(KeyError, match=r"no run has d = 3; there is d = \[1, 2\]"):
        ROWS.values("loss", d=3)
    with pytest.raises(KeyError, match="nothing is called 'los'; there is d, model, seed, loss"):
        ROWS.values("los")


@pytest.mark.parametrize(
    ("value", "bounds", "holds"),
    [
        (0.5, dict(above=0.4), True),
        (0.4, dict(above=0.4), False),
        ([0.5, 0.3], dict(above=0.4), False),
        (0.3, dict(below=0.4), True),
        (0.4, dict(between=(0.4, 0.5)), True),
        (0.6, dict(between=(0.4, 0.5)), False),
        (math.nan, dict(below=0.4), False),
        (np.float32(0.3), dict(below=0.4), True),
    ],
)
def test_a_verdict_holds_if_every_number_keeps_the_bounds(capsys, value, bounds, holds):
    Lab("05").holds("C7", "it is so", value, **bounds)
    text = capsys.readouterr().out
    assert text.startswith("C7 measured: it is so [" if holds else "C7 OUT OF BOUNDS: it is so [")
    assert ("NOT within the bound" in text) != holds


def test_a_verdict_judges_what_was_measured_here_and_what_is_recorded(capsys, shown):
    good, bad = Rows([{"seed": 0, "loss": 1}]), Rows([{"seed": 0, "loss": 5}])
    for here, full, holds in ((good, good, True), (bad, good, False), (good, bad, False)):
        Runs("C7", here, full).holds("it is low", lambda rows: rows.values("loss"), below=2)
        assert shown[-1][report.COMPARED] == {
            "claim": "C7", "sentence": "it is low", "holds": holds,
        }  # fmt: skip
    told = "here 1; recorded 5; NOT within the bound: below 2, set after a look"
    assert told in shown[-1]["text/plain"]
    Runs("C7", good, None).holds("it is low", 1, below=2, derived="two guesses")
    assert "within the bound: below 2, derived: two guesses" in shown[-1]["text/plain"]


def test_what_the_quick_grid_lacks_is_judged_by_the_record_alone(capsys):
    small, large = ([{"seed": 0, "d": d, "loss": d} for d in grid] for grid in ((1,), (1, 8)))
    for full, said in ((Rows(large), "OUT OF BOUNDS: it is low [recorded 8;"), (None, "only a")):
        runs = Runs("C7", Rows(small), full)
        runs.holds("it is low", lambda rows: rows.values("loss", d=8), below=2)
        assert said in capsys.readouterr().out
    Runs("C7", Rows(small), None).finding("more", "loss", larger=dict(d=8), smaller=dict(d=1))
    assert "only a recorded run can tell: more" in capsys.readouterr().out
    with pytest.raises(KeyError, match="no run has d = 9"):
        Runs("C7", Rows(small), Rows(large)).holds("no", lambda r: r.values("loss", d=9), below=2)


@pytest.mark.parametrize("bounds", [{}, dict(above=1, below=2), dict(near=1)])
def test_a_verdict_without_one_bound_is_told(bounds):
    with pytest.raises(ValueError, match="one of above=, below=, between="):
        Lab("05").holds("C7", "it is so", 1.0, **bounds)


def test_a_verdict_on_nothing_is_told():
    with pytest.raises(ValueError, match="nothing was measured"):
        Lab("05").holds("C7", "it is so", [], above=0)


def test_digits_are_shown_and_not_compared(capsys, shown):
    measured("ms", 3.25)
    assert shown[-1]["text/plain"] == "ms 3.25" and shown[-1][report.COMPARED] is None
    Runs("C7", ROWS, None).table("model", "loss", columns="d")
    lines = shown[-1]["text/plain"].splitlines()
    assert lines[0] == "loss, by d: measured here, 2 seeds"
    assert [line.split() for line in lines[1:]] == [
        ["model", "1", "2"],
        ["a", "1", "and", "2", "2", "and", "3"],
        ["b", "11", "and", "12", "12", "and", "13"],
    ]
    assert shown[-1][report.COMPARED] is None
    Runs("C7", ROWS, ROWS).table("model", "loss")
    recorded, here = (output["text/html"] for output in shown[-2:])
    assert "model: recorded" in recorded and "<details>" not in recorded
    assert here.startswith("<details><summary>model: measured here")


def test_a_table_of_part_of_the_runs_says_of_which(shown):
    Runs("C7", ROWS, None).table("d", "loss", model="b")
    lines = shown[-1]["text/plain"].splitlines()
    assert lines[0] == "d: measured here, 2 seeds, model = b"
    assert lines[2].split() == ["1", "11", "and", "12"]


@pytest.mark.parametrize(
    ("setting", "text"), [(1e10, "1e+10"), (0.003, "0.003"), (2.0, "2"), (64, "64"), ("rnn", "rnn")]
)
def test_a_setting_is_shown_without_needless_zeros(setting, text):
    assert report.shown(setting) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.95], "0.95"),
        ([3, 1, 2], "2 (1 to 3)"),
        ([1, 1, 1], "1"),
        ([40, math.nan, 60], "60 (40 to never)"),
        ([1234.5], "1,234"),
        ([1e-9], "1e-09"),
    ],
)
def test_a_spread_is_the_median_with_the_smallest_and_the_largest(values, text):
    assert report.spread(values) == text


def drawn(monkeypatch, runs, **options):
    """The axes of a figure before it is closed."""
    figures = []
    monkeypatch.setattr(
        "textbook.lab.drawing.show", lambda figure, alt: figures.append((figure, alt))
    )
    runs.draw(alt="what is seen", **options)
    [(figure, alt)] = figures
    assert alt == "what is seen"
    plt.close(figure)
    return figure.axes


def test_recorded_runs_are_lines_and_those_made_here_circles(monkeypatch, capsys):
    runs = Runs("C7", ROWS.where(seed=0), ROWS)
    [axes] = drawn(monkeypatch, runs, x="d", y="loss", by="model", log="x", lines={"chance": 5.0})
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["a"].get_ydata().tolist() == [1.5, 2.5]
    circles = [line.get_ydata().tolist() for line in axes.get_lines() if line.get_marker() == "o"]
    assert circles == [[1, 2], [11, 12]]
    assert len(axes.collections) == 2 and axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2"]
    assert lines["chance"].get_ydata()[0] == 5.0
    assert "the numbers: loss against d" in capsys.readouterr().out


def test_curves_and_bars(monkeypatch, capsys):
    curves = Rows(
        {"model": m, "seed": s, "step": [1, 2], "loss": [3.0 + s, 1.0 + s]}
        for m in "ab"
        for s in (0, 1)
    )
    [axes] = drawn(monkeypatch, Runs("C7", curves, None), x="step", y="loss", by="model")
    assert [line.get_ydata().tolist() for line in axes.get_lines()] == [[3.5, 1.5]] * 2
    assert "at the end" in capsys.readouterr().out
    [axes] = drawn(monkeypatch, Runs("C7", ROWS, ROWS), y="loss", by="model", d=1)
    assert [bar.get_width() for bar in axes.patches] == [1.5, 11.5]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    cut = {"y": "loss", "by": "model", "d": 1, "limits": (1.0, None)}
    [axes] = drawn(monkeypatch, Runs("C7", ROWS, ROWS), **cut)
    assert not axes.patches  # a bar that does not begin at zero has a misleading length
    assert axes.figure.get_suptitle().startswith("dot: recorded median")


def test_what_is_not_measured_cannot_be_drawn(monkeypatch):
    with pytest.raises(KeyError, match="nothing is called 'accuracy'"):
        Runs("C7", ROWS, None).draw(x="d", y="accuracy", alt="nothing")
    plt.close("all")


def test_recorded_runs_are_shown_where_the_quick_grid_has_none(monkeypatch, capsys):
    runs = Runs("C7", ROWS.where(d=1), ROWS)
    [axes] = drawn(monkeypatch, runs, y="loss", by="model", d=2)
    assert axes.figure.get_suptitle() == "bar: recorded median, marks: its 2 seeds"
    [axes] = drawn(monkeypatch, runs, x="d", y="loss", by="model", d=2)
    assert axes.figure.get_suptitle() == "line: recorded, band: 2 seeds"
    runs.table("model", "loss", d=2)
    assert "measured here" not in capsys.readouterr().out
    with pytest.raises(KeyError, match="no run has d = 7"):
        runs.table("model", "loss", d=7)


def test_what_was_measured_here_at_other_settings_is_not_drawn_but_told(monkeypatch, capsys):
    rows = [
        {"steps": steps, "d": d, "seed": 0, "loss": float(steps)}
        for steps in (10, 600)
        for d in (1, 2)
    ]
    here, full = Rows(rows[:2]), Rows(rows[2:])
    [axes] = drawn(
        monkeypatch, Runs("C7", here, full, fixed={"steps": 600, "d": 1}), x="d", y="loss"
    )
    assert [line.get_ydata().tolist() for line in axes.get_lines()] == [[600, 600]]
    assert "measured here at other settings: in the table" in axes.figure.get_suptitle()
    assert "measured here   10   10" in capsys.readouterr().out
    by_default = Rows({key: x for key, x in row.items() if key != "steps"} for row in here)
    for steps, lines in ((600, 2), (10, 1)):
        runs = Runs("C7", by_default, full, fixed={"steps": steps, "d": 1})
        assert len(drawn(monkeypatch, runs, x="d", y="loss")[0].get_lines()) == lines
    [axes] = drawn(
        monkeypatch, Runs("C7", full, full, fixed={"steps": 600, "d": 1}), x="d", y="loss"
    )
    assert len(axes.get_lines()) == 2 and "other settings" not in axes.figure.get_suptitle()
