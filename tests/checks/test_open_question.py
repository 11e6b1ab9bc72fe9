"""An open question: runs that can be repeated, and sentences with the numbers of these runs."""

import random
import statistics

import pytest

import minitorch as mt
from textbook.checks import CheckFailed
from textbook.checks.open_question import find_out
from textbook.lab import finding

MEANS = {"few steps": 0.6, "many steps": 0.8}


def run(setting, seed):
    mt.manual_seed(seed)
    return MEANS[setting] + 0.05 * mt.rand(()).item()


VALUES = {setting: [run(setting, seed) for seed in range(5)] for setting in MEANS}
FEW, MANY = (statistics.mean(values) for values in VALUES.values())


def report(**changed):
    said = {
        "question": "Does a longer training help where the rate is 0.1?",
        "settings": ["few steps", "many steps"],
        "seeds": [0, 1, 2, 3, 4],
        "fixed": {"rate": 0.1},
        "sentences": [
            f"With few steps {FEW:.1%} are right, with many steps {MANY:.1%}.",
            f"From few steps to many steps it gains {MANY - FEW:.2f} (p = 0.03, all 5 seeds).",
            "No other rate than 0.1 was tried, so each may have a better one.",
        ],
    }
    return lambda: said | changed


def sentences(*changed):
    return {"sentences": [*changed, *report()()["sentences"][len(changed) :]]}


def with_numpy(setting, seed):
    """Another right one: a tensor of one element, drawn otherwise."""
    return mt.tensor(MEANS[setting] + random.Random(seed).gauss(0, 0.02))


def test_right_answers_pass(capsys):
    find_out(run, report())
    assert "few steps: mean 0.6" in capsys.readouterr().out
    values = {s: [with_numpy(s, seed).item() for seed in range(7)] for s in MEANS}
    low, high = (min(v) for v in values.values())
    first = f"The worst run had many steps: {high:.3f}; few steps: {low:.3f}."
    second = f"With few steps the spread is {statistics.stdev(values['few steps']):.3f} or so."
    assert finding(values["many steps"], values["few steps"]).found
    find_out(with_numpy, report(seeds=range(7), **sentences(first, second)))


def near(setting, seed):
    """Two settings that differ by less than the seeds."""
    return run(setting, seed) + 0.04 * seed - {"few steps": 0.0, "many steps": 0.16}[setting]


NEAR = [statistics.mean(near(setting, seed) for seed in range(5)) for setting in MEANS]
calls = []


def never_the_same(setting, seed):
    calls.append(seed)
    return run(setting, seed) + len(calls)


WRONG = {
    "the numbers of two settings exchanged": (
        run,
        sentences(f"With few steps {MANY:.1%} are right, with many steps {FEW:.1%}."),
        r"stands 82.* behind 'few steps', which has mean 0\.6",
    ),
    "the numbers of two settings exchanged, where seeds differ more than settings": (
        near,
        sentences(f"With few steps {NEAR[1]:.2f}, with many steps {NEAR[0]:.2f}."),
        r"the numbers of 'few steps' and 'many steps' look exchanged",
    ),
    "a number that nobody measured": (
        run,
        sentences("With few steps 61 % are right, with many steps 97 %."),
        "stands 97 % behind 'many steps'",
    ),
    "a p that was not found": (
        run,
        sentences(report()()["sentences"][0], "From few steps to many steps, p = 0.2."),
        "stands 0.2 behind 'many steps'",
    ),
    "a run that draws without its seed": (never_the_same, {}, "when it is called once more"),
    "a seed that changes nothing": (lambda setting, seed: MEANS[setting], {}, "the seed changes"),
    "three seeds": (run, {"seeds": [1, 2, 3]}, "5 different seeds or more"),
    "one seed five times": (run, {"seeds": [1] * 5}, "5 different seeds or more"),
    "one setting": (run, {"settings": ["few steps"]}, "two to four different names"),
    "a grid too large": (run, {"seeds": range(30)}, "40 runs at most"),
    "no question": (run, {"question": "More steps help."}, "ends with"),
    "two sentences": (run, {"sentences": report()()["sentences"][:2]}, "three sentences"),
    "a number before its setting": (
        run,
        sentences(f"{FEW:.2f} are right with few steps, and more with many steps."),
        "before any setting is named",
    ),
    "nothing about one of the settings": (
        run,
        sentences(f"With few steps {FEW:.2f} of all answers are right."),
        "names two settings",
    ),
    "nothing on how sure it is": (
        run,
        sentences(report()()["sentences"][0], "We are very sure that this is true."),
        "a spread, a p",
    ),
    "a text for a number": (lambda setting, seed: "0.6", {}, "expected a finite number"),
    "a blank": (run, {"question": None}, "ends with"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_told_why(name):
    its_run, changed, message = WRONG[name]
    with pytest.raises(CheckFailed, match=message):
        find_out(its_run, report(**changed))


def test_the_smallest_of_one_may_be_below_the_largest_of_the_other():
    few, many = ([near(setting, seed) for seed in range(5)] for setting in MEANS)
    assert min(many) < statistics.mean(few) < statistics.mean(many) < max(few)
    first = f"Of few steps the best is {max(few):.4f}, of many steps the worst {min(many):.4f}."
    second = f"With few steps they spread by {statistics.stdev(few):.3f}."
    find_out(near, report(**sentences(first, second)))


def test_a_blank_is_not_solved_yet():
    def blank(*arguments):
        raise NotImplementedError

    for its_run, its_report in ((blank, report()), (run, blank)):
        with pytest.raises(CheckFailed, match="not solved yet"):
            find_out(its_run, its_report)


def test_a_number_may_come_out_a_little_differently_on_another_processor():
    def elsewhere(setting, seed):
        return run(setting, seed) + 0.004 * (-1) ** seed

    find_out(elsewhere, report())
