"""textbook.lab: settings that are chosen, budgets, and when a difference is a finding."""

import math

import pytest

import minitorch as mt
from textbook.lab import Budgets, Rows, Runs, Tuned, finding, report
from textbook.lab.tuned import choices


def tuned(lab, best, *values, seeds=1, **by):
    """The rate that is chosen where the loss is smallest at ``best``, and the rates tried."""
    tried = []

    @lab.experiment("C1", rate=Tuned(*values, seeds=seeds, **by), full={})
    def trained(rate, seed):
        tried.append((rate, seed))
        distance = abs(math.log(rate / best))
        return {"elsewhere": distance, "accuracy": -distance, "loss": 0.0}

    [row] = trained.run().here
    return row["rate"], tried


def test_a_setting_is_chosen_with_seeds_of_its_own(lab):
    rate, tried = tuned(lab, 2.1, 1.0, 2.0, 4.0, lowest="elsewhere", seeds=2)
    assert rate == 2.0 and tuned(lab, 2.1, 1.0, 2.0, 4.0, highest="accuracy")[0] == 2.0
    assert {seed for _, seed in tried[:-1]} == {1000, 1001} and tried[-1] == (2.0, 0)


def test_a_grid_is_widened_until_its_best_lies_inside(lab):
    rate, tried = tuned(lab, 15.0, 1.0, 2.0, 4.0, lowest="elsewhere")
    assert rate == 16.0 and [value for value, _ in tried] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 16.0]
    assert tuned(lab, 0.26, 1.0, 2.0, 4.0, lowest="elsewhere")[0] == 0.25


def test_values_can_be_tried_in_shorter_runs(lab, tmp_path):
    made = []

    @lab.experiment("C1", rate=Tuned(1.0, 2.0, 4.0, lowest="loss", steps=5), steps=100, full={})
    def trained(rate, steps):
        made.append((rate, steps))
        return {"loss": abs(rate - 2.0)}

    [row] = trained.run().here
    assert made == [(1.0, 5), (2.0, 5), (4.0, 5), (2.0, 100)] and row["steps"] == 100


def arriving(lab, steps, *values, seeds=3, **full):
    """What is chosen where a run with ``rate`` and ``seed`` arrives after ``steps(rate, seed)``."""

    @lab.experiment("C1", rate=Tuned(*values, lowest="steps", seeds=seeds), full=full)
    def trained(rate, seed):
        return {"steps": steps(rate, seed)}

    runs = trained.run()
    [(cell, choice)] = runs.choices[1]
    assert cell == {} and runs.here[0]["rate"] == choice.value
    return choice


def test_arriving_counts_before_speed(lab):
    slow_but_sure = lambda rate, seed: {1.0: None, 2.0: 90}.get(rate, 5 if seed == 1000 else None)  # noqa: E731
    choice = arriving(lab, slow_but_sure, 1.0, 2.0, 4.0)
    assert choice.value == 2.0 and choice.told_apart and not choice.at_edge
    assert choice.numbers[4.0] == [5, None, None]


def test_where_arriving_is_luck_values_that_ever_arrived_are_tried_in_fresh_seeds(lab):
    def luck(rate, seed):
        return (
            {2.0: 90, 4.0: 5}[rate]
            if rate in (2.0, 4.0) and (seed % 3 == 1 or rate == 2.0 and seed > 1002)
            else None
        )

    choice = arriving(lab, luck, 1.0, 2.0, 4.0, 8.0)
    assert choice.value == 2.0
    assert {rate: len(numbers) for rate, numbers in choice.numbers.items()} == {
        1.0: 3, 2.0: 12, 4.0: 12, 8.0: 3,
    }  # fmt: skip


def test_a_grid_is_widened_as_long_as_an_edge_ties_with_the_best(lab):
    choice = arriving(lab, lambda rate, seed: 30 if 1.0 <= rate <= 8.0 else 60, 1.0, 2.0, 4.0)
    assert list(choice.numbers) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert choice.best == [1.0, 2.0, 4.0, 8.0] and choice.value == 2.0


@pytest.mark.parametrize(("steps", "values"), [(30, 11), (None, 5)])
def test_where_all_values_are_equally_good_nothing_is_chosen_and_the_page_says_so(
    lab, steps, values, shown
):
    choice = arriving(lab, lambda rate, seed: steps, 1.0, 2.0, 4.0)
    assert not choice.told_apart and choice.value == 2.0 and choice.runs == values * 3
    runs = Runs("C1", Rows([{"seed": 0, "rate": 2.0}]), None, choices=("rate", [({}, choice)]))
    runs.holds("it is", 1, above=0)
    runs.holds("it is", 1, above=0)
    first, second = (output["text/plain"] for output in shown[-2:])
    assert (
        f"how rate was chosen: by {3 * values} runs in other seeds; not chosen in 1 of 1" in first
    )
    assert "none; 2 taken" in first and "chosen" not in second


def test_the_page_tells_how_many_runs_stand_behind_a_choice(lab, shown):
    """From the runs that a record holds, other settings apart, with those that are replaced."""
    tried = [
        {"d": d, "steps": 5, "rate": rate, "seed": 1000, "loss": abs(rate - d)}
        for d in (2.0, 4.0)
        for rate in (1.0, 2.0, 4.0)
    ]
    kept = {"tuned": [1.0, 2.0, 4.0], "seeds": 1, "lowest": "loss", "steps": 5}
    rows = [{"d": d, "steps": 50, "rate": d, "seed": 0, "loss": 0.0} for d in (2.0, 4.0)]
    settings = {"d": [2.0, 4.0], "rate": kept, "steps": 50, "seeds": 1}
    found = choices({"settings": settings, "rows": rows, "tried": tried})
    assert [(cell["d"], choice.value) for cell, choice in found[1]] == [(2.0, 2.0), (4.0, 4.0)]
    Runs("C1", Rows(rows), None, choices=found).holds("it is", 1, above=0)
    [told] = shown
    assert "by 3 runs in other seeds; in 1 of 2 the grid ends at the best" in told["text/plain"]
    assert "1: 1; 2: 0; 4: 2" in told["text/html"] and told[report.COMPARED]["holds"]


@pytest.mark.parametrize(
    ("larger", "smaller", "paired", "p", "found"),
    [
        ([5, 6, 7, 8, 9], [4, 5, 6, 7, 8], True, 1 / 32, True),
        ([5, 6, 7, 8, 9], [4, 5, 6, 7, 8], False, 56 / 252, False),
        ([5, 6, 7, 8], [1, 1, 1, 1], True, 1 / 16, False),
        ([5, 6, 7, 8], [1, 1, 1, 1], False, 1 / 70, False),
        ([5, 6, 7, 8, 3.9], [4, 5, 6, 7, 4], True, 2 / 32, False),
        ([5, 6, 7, 8, 8, 9, 3.9], [4, 5, 6, 7, 7, 8, 4], True, 2 / 128, True),
        ([4, 5, 6, 7, 8], [5, 6, 7, 8, 9], True, 1.0, False),
        ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1], True, 1.0, False),
        ([7] * 5, [1] * 8, False, 1 / 1287, True),
    ],
)
def test_a_difference_is_a_finding_if_chance_orders_seldom_give_as_much(
    larger, smaller, paired, p, found
):
    result = finding(larger, smaller, paired=paired)
    assert result.p == pytest.approx(p) and result.found is found


def test_what_cannot_be_compared_is_told():
    with pytest.raises(ValueError, match="got nan .never reached."):
        finding([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="a pair for each seed, got 2 and 3"):
        finding([1, 2], [1, 2, 3])


def test_a_verdict_on_a_difference_says_finding_only_where_it_is_one(shown):
    rows = [
        {"model": model, "seed": seed, "right": 0.5 + 0.01 * seed + 0.1 * (model == "b")}
        for model in "ab"
        for seed in range(5)
    ]
    full, few = Rows(rows), Rows(row for row in rows if row["seed"] < 2)
    b, a = dict(model="b"), dict(model="a")
    Runs("E1", few, full).finding("b is better", "right", larger=b, smaller=a)
    Runs("E1", few, full).finding("a is better", "right", larger=a, smaller=b)
    Runs("E1", few, None).finding("b is better", "right", larger=b, smaller=a)
    never = Rows([row | {"right": None} for row in few])
    Runs("E1", never, full).finding("b is better", "right", larger=b, smaller=a)
    assert "here" not in shown.pop()["text/plain"]
    assert [output["text/plain"] for output in shown] == [
        "E1 finding: b is better [here in 2 of 2 seeds, by 0.1; "
        "recorded in 5 of 5 seeds, by 0.1, p = 0.031]",
        "E1 NO FINDING: a is better [here in 0 of 2 seeds, by -0.1; "
        "recorded in 0 of 5 seeds, by -0.1, p = 1]",
        "E1 too few seeds: b is better [here in 2 of 2 seeds, by 0.1; a finding needs 5 seeds]",
    ]
    assert [output[report.COMPARED]["holds"] for output in shown] == [True, False, False]


def doubled(lab):
    @lab.experiment("E2", number=[1, 2], full={})
    def twice(number):
        return {"result": 2 * number}

    return twice


def growing(lab, made, **full):
    @lab.experiment("E1", width=[1], steps=Budgets([10]), full=full)
    def learned(width, steps):
        done = 0
        for budget in steps:
            done += budget - done
            made.append((width, done))
            yield {"right": width * done, "draw": mt.randn(1).item()}

    return learned


def test_a_run_is_read_at_several_budgets(lab, monkeypatch):
    made = []
    experiment = growing(lab, made, steps=Budgets([10, 30, 100]), width=[1, 2])
    assert [(row["steps"], row["right"]) for row in experiment.run().here] == [(10, 10)]
    monkeypatch.setenv("MINITORCH_BOOK", "full")
    monkeypatch.setenv("MINITORCH_RECORD", str(lab.path(None).parent.parent))
    made.clear()
    rows = experiment.run().here
    assert made == [(width, done) for width in (1, 2) for done in (10, 30, 100)]
    assert rows.values("right", steps=100).tolist() == [100, 200]
    assert len(set(rows.values("draw", width=1))) == 3  # one run, which goes on


def test_a_rate_is_chosen_for_each_budget_in_runs_that_are_made_once(lab):
    made = []

    @lab.experiment(
        "E1", rate=Tuned(1.0, 2.0, 4.0, 8.0, highest="right"), steps=Budgets([10, 100]), full={}
    )
    def learned(rate, steps, seed):
        for budget in steps:
            made.append((rate, seed, budget))
            yield {"right": -abs(rate - (4.0 if budget == 10 else 2.0))}

    rows = learned.run().here
    assert [(row["steps"], row["rate"]) for row in rows] == [(10, 4.0), (100, 2.0)]
    assert len(made) == len(set(made)) == 2 * (4 + 2)


def test_values_can_be_tried_at_one_of_the_budgets_alone(lab):
    made = []

    @lab.experiment(
        "E1",
        rate=Tuned(1.0, 2.0, 4.0, highest="right", steps=20),
        steps=Budgets([10, 20, 100]),
        full={},
    )
    def learned(rate, steps, seed):
        made.append((rate, seed, *steps))
        for _ in steps:
            yield {"right": -abs(rate - 2.0)}

    [first, *_] = learned.run().choices[1]
    assert first[1].runs == 3  # each of the budgets has been chosen for by the same three
    assert made == [(rate, 1000, 20) for rate in (1.0, 2.0, 4.0)] + [(2.0, 0, 10, 20, 100)]


def test_yielding_and_budgets_belong_together(lab):
    with pytest.raises(ValueError, match="0 settings of kind Budgets"):
        lab.experiment("E1", width=[1], steps=[1], full={})(growing(lab, []).function).run()
    with pytest.raises(ValueError, match="1 settings of kind Budgets"):
        lab.experiment("E1", number=Budgets([1]), full={})(doubled(lab).function).run()


def test_an_experiment_runs_elsewhere_at_other_seeds_and_budgets(lab):
    made = []
    experiment = growing(lab, made, steps=Budgets([10, 30]), width=[1, 2])
    runs = experiment.elsewhere(10, range(100, 102))
    assert made == [(width, done) for width in (1, 2) for _ in range(2) for done in (100, 300)]
    assert [(row["steps"], row["seed"], row["right"]) for row in runs.here.where(width=1)] == [
        (10, 100, 100), (10, 101, 100), (30, 100, 300), (30, 101, 300),
    ]  # fmt: skip

    @lab.experiment("E2", width=[1], full={})
    def by_default(width, steps=7):
        return {"right": width * steps}

    assert by_default.elsewhere(3, range(1)).here == [
        {"width": 1, "steps": 7, "seed": 0, "right": 21}
    ]
    with pytest.raises(ValueError, match="twice has no budget"):
        doubled(lab).elsewhere(10, range(1))
    assert len(doubled(lab).elsewhere(1, range(5, 8)).here) == 6
