"""What a check says to the person whose answer it refuses."""

import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from tests.checks.odd_answers import after
from tests.checks.small import exercise
from textbook.checks import CheckFailed, chapter_05, chapter_06, errors
from textbook.checks.compare import brief, difference
from textbook.checks.exercise import exercises_in
from textbook.checks.mistakes import Mistake


def _cases(draw, sizes=(2, 20)):
    for n in sizes:
        yield draw.normal(n, 3), 2.0


def _keeps_sign(answer, x, factor):
    if not (mt.sign(answer(x, factor)) == mt.sign(x)).all():
        return "No sign may change."


@exercise(
    cases=_cases,
    hidden_cases=lambda draw: _cases(draw, sizes=(2, 30)),
    forbidden=("mul", "gelu", "backward"),
    instead="division",
    properties=(_keeps_sign,),
    see='chapter 99, "Scaling"',
)
def scale(x, factor):
    return x * factor


def _odd(x, factor):
    raise ValueError("odd")


scale.mistakes += [
    Mistake("a sum", lambda x, factor: x + factor, "Multiply."),
    Mistake("the double", lambda x, factor: x / 0.25, "Use the factor's size."),
    Mistake("an answer that stops at odd sizes", _odd, "Any size will do."),
]


def right(x, factor):
    return x / (1 / factor)


def refusal(answer, hidden=False, check=scale):
    with pytest.raises(CheckFailed) as caught:
        check(answer, hidden)
    return str(caught.value)


def blank(x, factor):
    raise NotImplementedError("write your solution here")


def divide_by_three(x, factor):
    return x / 3


def changed(x, factor):
    x.array[0] += 1
    return right(x, factor)


def with_loop(x, factor):
    """Uses neither x * factor nor mul(x, factor)."""
    return mt.stack([row / (1 / factor) for row in x])  # no mul here


@pytest.mark.parametrize("answer", [right, with_loop])
@pytest.mark.parametrize("hidden", [False, True])
def test_right_answers_pass_and_the_line_says_which_check(answer, hidden, capsys):
    scale(answer, hidden)
    kind = "hidden" if hidden else "public"
    assert capsys.readouterr().out == f"scale: all {kind} checks passed\n"


def test_who_has_passed_reads_one_line_more(capsys):
    told = exercise(cases=_cases, see="", after_passing="Shorter: x * factor.")(right)
    told(with_loop)
    assert capsys.readouterr().out == "right: all public checks passed\nShorter: x * factor.\n"
    told(with_loop, hidden=True)
    assert capsys.readouterr().out == "right: all hidden checks passed\n"
    with pytest.raises(CheckFailed):
        told(divide_by_three)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (blank, "scale: not solved yet.\nReplace 'raise NotImplementedError' in blank by"),
        (mt.ones(2), "expected your function, got tensor of shape (2,) [1. 1.]\nGive the check"),
        (lambda x: x, "expected a function of (x, factor), got one of (x)"),
        (lambda x, factor: None, "The result is None: does your code end with a return?"),
        (lambda x, factor: 3.0, "wrong type\n  expected: tensor of shape (2, 3)"),
        (lambda x, factor: right(x, factor).detach().numpy(), "got:      NumPy array of shape"),
        (lambda x, factor: right(x, factor)[0], "wrong shape\n  expected: shape (2, 3)\n  got:  "),
        (lambda x, factor: 0 - right(x, factor)[:1], "not right yet. The result has the wrong sh"),
        (lambda x, factor: right(x, factor).long(), "expected: floating-point\n  got:      int"),
        (lambda x, factor: mt.tensor((x / 0.5).tolist()), "the result carries no gradient"),
        (lambda x, factor: x.detach() / 0.5 + 0 / (1 + x**2), "not the gradient.\nThe gradient w"),
        (changed, "your code changes its argument x"),
        (lambda x, factor: x + 2, "Your answer is a sum.\nMultiply.\nSee chapter 99"),
        (lambda x, factor: 0 - right(x, factor), "No sign may change. The result differs"),
        (divide_by_three, "The result differs\n  expected: [["),
    ],
)
def test_wrong_answers_are_told_what_is_wrong(answer, message):
    assert message in refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, factor: x * factor,
        lambda x, factor: factor * x,
        lambda x, factor: x.mul(factor),
        lambda x, factor: mt.mul(x, factor),
        lambda x, factor: getattr(x, "__m" + "ul__")(factor),
        lambda x, factor: right(x, factor) + 0 / (1 + F.gelu(x) ** 2),
    ],
)
def test_forbidden_operations_are_refused_by_every_route(answer):
    assert "which this exercise asks you to write yourself.\nUse instead: division." in refusal(
        answer
    )


@pytest.mark.parametrize("single", [mt.float32, mt.float])
def test_an_answer_that_names_float32_computes_in_the_type_of_its_arguments(single):
    def answer(x, factor):
        ones = (mt.arange(len(x)) >= 0).float().to(single).diag_embed()
        return mt.zeros(1, dtype=single) + ones @ x * factor

    _without_forbidden(answer)
    assert mt.ones(1).float().array.dtype == np.float32


@pytest.mark.parametrize(
    "change", [lambda x: x.add_(1), lambda x: x.__itruediv__(2), lambda x: x.__setitem__(0, 0)]
)
def test_a_change_in_place_is_told_as_such(change):
    """And not as the engine does, whose advice is about leaves."""

    def answer(x, factor):
        change(x)
        return x + factor

    assert "your code changes its argument x; work on a copy of it" in refusal(answer)


def test_a_changed_argument_is_told_before_a_mistake():
    def answer(x, factor):
        result = x + factor
        x.array[0] += 1
        return result

    assert "your code changes its argument x" in refusal(answer)


def test_an_answer_that_leaves_python_is_refused():
    def answer(x, factor):
        sys.exit()

    assert "your code stopped with SystemExit: \nin the line: sys.exit()" in refusal(answer)


def test_an_answer_is_not_asked_more_than_it_takes():
    """Each public case once, and the one that fails twice more; no hidden one.

    That is for its property, and to see whether the answer draws at random.
    """
    calls = []

    def answer(x, factor):
        calls.append(len(x))
        return x / 3

    refusal(answer)
    assert sorted(calls) == 5 * [2] + 3 * [20]


def test_backward_can_be_forbidden():
    def answer(x, factor):
        y = x.detach().requires_grad_()
        (y / 0.5).sum().backward()
        return right(x, factor)

    assert "the library's 'backward'" in refusal(answer)


def test_a_mistake_with_wrong_values_is_named_although_it_carries_no_gradient():
    assert "Your answer is a sum." in refusal(lambda x, factor: mt.tensor((x + factor).tolist()))


def test_a_mistake_is_named_only_if_it_is_made_on_hidden_cases_too():
    def mostly_a_sum(x, factor):
        return x + factor if len(x) < 25 else x - factor

    for hidden in (False, True):
        assert "Your answer is" not in refusal(mostly_a_sum, hidden)


@pytest.mark.parametrize("elsewhere", [lambda x: x @ x, lambda x: x / 0.5])  # it stops; is right
def test_a_mistake_is_named_though_the_answer_does_something_else_at_an_edge(elsewhere):
    def answer(x, factor):
        return x + factor if len(x) < 20 else elsewhere(x)

    assert "Your answer is, in some cases, a sum.\nMultiply." in refusal(answer)


def test_words_and_whole_numbers_name_no_mistake_in_part():
    @exercise(cases=_cases, see='chapter 99, "Scaling"', gradients=False)
    def rows(x, factor):
        return len(x)

    rows.mistakes.append(Mistake("one too many", lambda x, factor: len(x) + 1, "Count from 0."))
    assert "Your answer is" not in refusal(lambda x, factor: 3 if len(x) < 20 else 20, check=rows)


def test_a_mistake_without_a_gradient_is_not_one_with_another_gradient():
    @exercise(cases=_cases, see='chapter 99, "Scaling"')
    def scaled(x, factor):
        return x * factor

    scaled.mistakes.append(Mistake("cut off", lambda x, factor: x.detach() * factor, "No detach."))
    assert "Your answer is cut off." in refusal(lambda x, factor: x.detach() * factor, check=scaled)
    said = refusal(lambda x, factor: x.detach() * factor + (x - x.detach()), check=scaled)
    assert "Your answer is" not in said


def test_an_answer_that_draws_at_random_is_told_so():
    assert "does it draw at random" in refusal(lambda x, factor: x / (0.1 + mt.rand(1)))


def test_no_gradient_is_right_where_all_gradients_are_zero():
    @exercise(cases=_cases, see='chapter 99, "Scaling"')
    def flat(x, factor):
        return 0 * x + 1

    flat(lambda x, factor: mt.ones_like(x))


def test_no_mistake_is_named_where_two_fit():
    @exercise(cases=_cases, see='chapter 99, "Scaling"')
    def scaled(x, factor):
        return x * factor

    for name in ("a sum", "an addition"):
        scaled.mistakes.append(Mistake(name, lambda x, factor: x + factor, "Multiply."))
    assert "Your answer is" not in refusal(lambda x, factor: factor + x, check=scaled)


def test_an_error_shows_its_line_and_the_smallest_input_and_is_chained():
    def answer(x, factor):
        return x @ x

    with pytest.raises(CheckFailed) as caught:
        scale(answer)
    assert "stopped with RuntimeError: matmul of shapes (2, 3)" in str(caught.value)
    assert "in the line: return x @ x\nfor\n  x = tensor of shape (2, 3)\n" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_that_a_known_mistake_makes_is_named():
    def answer(x, factor):
        raise ValueError("odd")

    assert "Your answer is an answer that stops at odd sizes." in refusal(answer)


def test_the_first_difference_of_a_large_result_is_shown():
    def answer(x, factor):
        result = right(x, factor)
        if len(x) > 2:
            result = result + (mt.arange(60).reshape(20, 3) == 19)
        return result

    message = refusal(answer)
    assert "of shape (20, 3), differs in 1 of 60 elements, first at [6, 1]" in message
    assert "  x = tensor of shape (20, 3)\n  factor = 2.0" not in message
    assert "  x = tensor of shape (20, 3)\n  factor = 2\n" in message


def test_an_answer_that_stops_in_a_property_is_refused_with_its_line():
    calls = []

    def answer(x, factor):
        calls.append(x)
        1 / (len(calls) - 3)
        return right(x, factor)

    message = refusal(answer)
    assert "your code stopped with ZeroDivisionError: division by zero" in message
    assert "in the line: 1 / (len(calls) - 3)\n(the check asked once more" in message


def _unpack(answer, x, factor):
    one, two = answer(x, factor)
    return {"the first": one, "the second": two}


def test_an_answer_of_another_form_is_not_blamed_for_an_error_in_its_code(monkeypatch):
    monkeypatch.setattr(errors, "NOT_THE_STUDENTS", [*errors.NOT_THE_STUDENTS, __file__])

    @exercise(cases=_cases, run=_unpack, see='chapter 99, "Scaling"')
    def twice(x, factor):
        return x * factor, x

    twice(lambda x, factor: (x * factor, x))
    message = refusal(lambda x, factor: 3.0, check=twice)
    assert "cannot use what your code returned, 3, where the check found TypeError: " in message
    assert "in the line" not in message
    message = refusal(lambda x, factor: None, check=twice)
    assert "cannot use what your code returned, None: does it end with a return?\nfor" in message


def test_an_answer_that_remembers_its_first_call_is_told_so():
    def answer(x, factor, seen=[]):  # noqa: B006
        seen.append(x)
        return right(x, factor) + len(seen) - 1

    message = refusal(answer)
    assert "called a second time with the same arguments, your code does something" in message


PATTERNS = {
    "It is 0.5 times what is expected, everywhere.": lambda x, factor: x,
    "The sign is the other one, everywhere.": lambda x, factor: 0 - right(x, factor),
    "It is 1 / the length of axis 0 of x times": lambda x, factor: right(x, factor) / len(x),
    "It is +3 away from what is expected": lambda x, factor: right(x, factor) + 3,
    "in the opposite order along axis 0": lambda x, factor: right(x, factor).flip(0),
    "one place too late along axis 1": lambda x, factor: right(x, factor).roll(1, 1),
    "It is right but for signs.": lambda x, factor: right(x, factor).abs(),
    "It is the square of what is expected.": lambda x, factor: right(x, factor) ** 2,
    "It is right but for the first place along axis 1.": lambda x, factor: mt.cat(
        [x[:, :1], right(x, factor)[:, 1:]], 1
    ),
    "It is wrong only below the diagonal": lambda x, factor: right(x, factor).triu(),
    "It is the same all along axis 0": lambda x, factor: right(x, factor)[:1].expand(len(x), 3),
}


@pytest.mark.parametrize("sentence", PATTERNS)
def test_what_wrong_results_have_in_common_is_told(sentence):
    assert sentence in refusal(PATTERNS[sentence], check=_without_forbidden)


def test_what_the_first_results_alone_have_in_common_is_not_told():
    def answer(x, factor):
        return x if len(x) == 2 else x / 3

    assert "everywhere" not in refusal(answer, check=_without_forbidden)


def test_an_argument_that_does_not_matter_but_should_is_named():
    @exercise(
        cases=lambda draw: [(draw.normal(4), draw.normal(4))],
        see='chapter 99, "Sums"',
    )
    def root_of_squares(x, y):
        return (x**2 + y**2).sqrt()

    message = refusal(lambda x, y: x.abs() + 1, check=root_of_squares)
    assert "\nYour result does not depend on y, and it should." in message
    assert "depend on" not in refusal(lambda x, y: x.abs() + y.abs(), check=root_of_squares)


@pytest.mark.parametrize(
    ("answer", "told"),
    [(lambda x, pieces: x.abs() + 1, False), (lambda x, noise: x.abs() + 1, True)],
)
def test_only_arguments_that_the_answer_takes_are_said_to_be_ignored(answer, told):
    @exercise(
        cases=lambda draw: [(draw.normal(9), draw.normal(9))],
        run=lambda answer, x, noise: {"the result": answer(x, noise)},
        see='chapter 99, "Sums"',
    )
    def total(x, noise):
        return x + noise

    assert ("does not depend on noise" in refusal(answer, check=total)) == told


def test_items_of_a_result_are_told_apart():
    @exercise(cases=lambda draw: [(draw.normal(4),)], see='chapter 99, "Pairs"')
    def double_and_square(x):
        return x + x, x * x

    message = refusal(lambda x: (x * x, x + x), check=double_and_square)
    assert "The items are right, but they stand in the order [1, 0]." in message
    message = refusal(lambda x: (x + x, 3 * x * x), check=double_and_square)
    assert "The result[1] differs" in message
    assert "Only item [1] is wrong. It is 3 times what is expected, everywhere." in message


@pytest.mark.parametrize(("wrong", "word"), [(mt.nan, "nan"), (mt.inf, "inf")])
def test_what_is_no_number_is_told_before_a_property(wrong, word):
    message = refusal(lambda x, factor: wrong - right(x, factor))
    assert f"not right yet. The result holds {word} where a number belongs\n" in message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda x, factor: (right(x, factor) / 1e-4).exp().log(), "inf first comes out of exp."),
        (
            lambda x, factor: right(x, factor) / (x - x),
            "inf first comes out of /, where 0 goes in.",
        ),
        (
            lambda x, factor: right(x, factor) - (x.abs() / 1e-9).exp() / mt.inf,
            "nan first comes out of /, where infinity goes in.",
        ),
        (
            lambda x, factor: (-x.abs()).sqrt().sum() + right(x, factor),
            "nan first comes out of sqrt, where a number below 0 goes in.",
        ),
        (
            lambda x, factor: mt.where(x > 9, (9e4 - x).exp(), right(x, factor)),
            "nan first comes out of the gradient of exp.",
        ),
        (
            lambda x, factor: x.detach().clone().copy_((-1 - x.abs()).sqrt().detach()),
            "nan first comes out of sqrt, where a number below 0 goes in.",
        ),
    ],
)
def test_what_makes_a_nan_or_an_infinity_is_named(answer, told):
    assert f"\nThe {told}\n" in refusal(answer)


def test_a_nan_of_an_argument_that_is_read_is_told():
    @exercise(cases=lambda draw: [(mt.tensor([1.0, mt.nan]),)], see='chapter 99, "Sums"')
    def first(x):
        return x[:1]

    message = refusal(lambda x: (x * mt.tensor([1.0, 0.0])).sum().unsqueeze(0), check=first)
    assert "The nan comes from an argument: replace it" in message


def test_hidden_checks_see_other_numbers():
    seen = {False: [], True: []}
    for hidden, list_of_inputs in seen.items():

        def answer(x, factor, inputs=list_of_inputs):
            inputs.append(x.array.copy())
            return right(x, factor)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scale, "properties", ())
            patch.setattr(type(scale), "_refuse_what_is_no_answer", lambda self, answer: None)
            scale(answer, hidden)
    assert len(seen[False]) == len(seen[True]) == 7  # six cases, and the first one once more
    assert not {x.tobytes() for x in seen[False]} & {x.tobytes() for x in seen[True]}


def test_cases_come_smallest_first_and_are_the_same_each_time():
    first = scale.all_cases()
    scale.drawn.clear()
    second = scale.all_cases()
    assert [len(x) for x, _ in first] == [2, 2, 2, 20, 20, 20]
    assert all(mt.equal(x, y) for (x, _), (y, _) in zip(first, second, strict=True))


def test_what_an_answer_does_to_its_arguments_reaches_no_later_case():
    def spoils(rows, table, model):
        rows.append(7)
        table["x"][0] = 7
        model.weight.array[...] = 7
        return 1

    def cases(draw):
        yield [[draw.normal(2)]], {"x": [1]}, mt.nn.Linear(2, 2)

    check = exercise(cases=cases, see="")(lambda rows, table, model: 1)
    kept = [
        (len(case[0][0]), case[1]["x"][0], case[2].weight.clone()) for case in check.all_cases()
    ]
    with pytest.raises(CheckFailed, match="changes its argument"):
        check(spoils)
    for case, (length, first, weight) in zip(check.all_cases(), kept, strict=True):
        assert (len(case[0][0]), case[1]["x"][0]) == (length, first)
        assert mt.equal(case[2].weight, weight)


def test_a_list_that_has_lost_its_items_is_a_changed_argument():
    """They are gone when the gradients are asked for."""
    check = chapter_06.heads_in_a_loop
    with pytest.raises(CheckFailed, match="changes its argument Q; work on a copy"):
        check(after(check.reference, lambda case: case[1].clear()))


def test_a_case_that_draws_nothing_comes_once():
    check = exercise(cases=lambda draw: [(2,), (3,)], see="")(lambda n: n)
    assert check.all_cases() == [(2,), (3,)]


def test_what_a_wrong_answer_prints_appears_once(capsys):
    def answer(x, factor):
        print("looking at", len(x))
        return x / 3

    refusal(answer)
    assert capsys.readouterr().out == "looking at 2\n"


def test_a_notebook_shows_the_message_alone():
    failure = CheckFailed("scale: not right yet.\nSee chapter 99.")
    assert failure._render_traceback_() == ["scale: not right yet.", "See chapter 99."]


def test_a_mistake_in_the_gradient_alone_is_named():
    assert "Your answer is something that detaches." in refusal(
        lambda x, factor: (x * factor).detach(), check=_without_forbidden
    )


def test_digits_appear_until_a_small_difference_shows():
    message = refusal(lambda x, factor: right(x, factor) * 1.00002, check=_without_forbidden)
    expected, got = (line.split(":")[1] for line in message.split("\n")[1:4:2])
    assert expected.strip() != got.strip()


@exercise(cases=_cases, see='chapter 99, "Scaling"')
def _without_forbidden(x, factor):
    return x * factor


_without_forbidden.mistakes.append(
    Mistake("something that detaches", lambda x, factor: x.detach() * factor, "Do not detach.")
)


def _drive(make_counter, steps):
    counter = make_counter()
    return {"the count": [counter() for _ in range(steps)], "the list": [counter.start]}


@exercise(
    cases=lambda draw: [(2,), (4,)],
    run=_drive,
    gradients=False,
    see='chapter 99, "Classes"',
)
class Counter:
    def __init__(self):
        self.start = self.count = 0

    def __call__(self):
        self.count += 1
        return self.count


def test_an_answer_can_be_a_class(capsys):
    class Right(Counter.reference):
        def __call__(self):
            return super().__call__()

    class Stuck(Counter.reference):
        def __call__(self):
            return 1

    class Forgotten:
        pass

    Counter(Right)
    assert capsys.readouterr().out == "Counter: all public checks passed\n"
    message = refusal(Stuck, check=Counter)
    assert "The count differs\n  expected: [1, 2]\n  got:      [1, 1]\nfor\n  steps = 2" in message
    assert "TypeError: 'Forgotten' object is not callable" in refusal(Forgotten, check=Counter)


@pytest.mark.parametrize(
    ("got", "right"),
    [
        (3, 3.0),
        (np.float64(3), 3),
        (mt.tensor(3.0), 3),
        (3.0, mt.tensor(3.0)),
        (np.bool_(True), True),
        (np.array([3.0]), 3),
        (Fraction(1, 3), 1 / 3),
        (Decimal("0.1"), 0.1),
        (10**400, 10**400),
        (3.0, 3),
        ([1, 2], (1, 2)),
        (math.nan, math.nan),
        (np.ones(2, np.float32), np.ones(2)),
        ({"a": None}, {"a": None}),
    ],
)
def test_equal_results_may_come_in_other_types(got, right):
    assert difference(got, right, "it") is None


@pytest.mark.parametrize(
    ("got", "right", "message"),
    [
        ([1], (1, 2), "it has the wrong form\n  expected: a tuple of 2 items\n  got:      a list"),
        (3, [1, 2], "expected: a list of 2 items\n  got:      3"),
        ({"a": 1}, {"b": 1}, "the keys ['b']\n  got:      a dict with the keys ['a']"),
        ({"a": 1}, {"a": 2}, "it['a'] differs"),
        (object(), 3, "got:      an object of type object"),
        ("ab", "abc", "expected: 'abc'"),
        (10**400, 3.0, "expected: 3\n  got:      1000"),
        (Fraction(10**400), 3.0, "it differs"),
        (Decimal("sNaN"), 3.0, "got:      Decimal('sNaN')"),
        (1j, 1.0, "got:      1j"),
        (10**9 + 1, 10**9, "it differs"),
        (mt.tensor([10**9 + 1]), mt.tensor([10**9]), "it differs"),
        (np.array(["a", "b"]), np.ones(2), "got:      neither"),
        (mt.ones(2), 3.0, "got:      tensor of shape (2,) [1. 1.]"),
        (mt.ones(()), 3.0, "expected: 3\n  got:      1"),
        ((3.0,), 3.0, "got:      (3,)"),
        (None, mt.ones(2), "it is None: does your code end with a return?"),
        ({"a": None}, {"a": 3}, "it['a'] differs\n  expected: 3\n  got:      None"),
        ([None], [mt.ones(2)], "it[0] has the wrong type"),
    ],
)
def test_differences_are_put_in_words(got, right, message):
    assert message in difference(got, right, "it")


def test_small_tensors_in_a_list_are_shown_with_their_numbers():
    pair = [mt.tensor([3.0, 0.0]), mt.tensor([[0.0], [4.0]]), None, mt.zeros(5, 5)]
    assert brief(pair) == (
        "[tensor of shape (2,) [3. 0.], tensor of shape (2, 1) [[0.] [4.]], None, "
        "tensor of shape (5, 5)]"
    )
    assert brief((mt.zeros(6),) * 20).endswith("...") and len(brief([mt.zeros(6)] * 20)) == 400


DEFINITION = """
from textbook.checks import exercise

{name} = exercise("{name}", cases=lambda draw: [(1,)], see="")
"""
KEY = """
from {home} import {name}

@{name}.answer()
def {answer}(n):
    return n
"""


def package(folder, monkeypatch, **modules):
    """The name and the path of a new package of these modules."""
    (folder / folder.name).mkdir()
    for name, text in modules.items():
        (folder / folder.name / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return folder.name, [str(folder / folder.name)]


def test_the_exercises_of_a_package_are_those_that_its_modules_define(tmp_path, monkeypatch):
    name, path = package(
        tmp_path,
        monkeypatch,
        first=DEFINITION.format(name="one"),
        first_key=KEY.format(home=f"{tmp_path.name}.first", name="one", answer="one"),
        second=f"from {tmp_path.name}.first import one" + DEFINITION.format(name="two"),
        second_key=KEY.format(home=f"{tmp_path.name}.second", name="two", answer="two"),
        third="from textbook.checks.chapter_05 import attention",
    )
    assert exercises_in(name, path).keys() == {"one", "two"}


def test_an_exercise_without_a_model_answer_is_refused(tmp_path, monkeypatch):
    name, path = package(tmp_path, monkeypatch, first=DEFINITION.format(name="one"))
    with pytest.raises(ValueError, match=f"{name}.first_key has no model answer of 'one'"):
        exercises_in(name, path)


def test_an_answer_of_another_name_is_refused(tmp_path, monkeypatch):
    name, path = package(
        tmp_path,
        monkeypatch,
        first=DEFINITION.format(name="one"),
        first_key=KEY.format(home=f"{tmp_path.name}.first", name="one", answer="two"),
    )
    with pytest.raises(ValueError, match="expected an answer named one, got two"):
        exercises_in(name, path)


def test_two_exercises_of_one_name_are_refused(tmp_path, monkeypatch):
    one = DEFINITION.format(name="one")
    name, path = package(tmp_path, monkeypatch, first=one, second=one)
    message = f"{name}.first and {name}.second both define the exercise 'one': rename one"
    with pytest.raises(ValueError, match=message):
        exercises_in(name, path)


def test_a_chapter_offers_its_exercises_by_name():
    assert "attention" in dir(chapter_05)
    with pytest.raises(AttributeError, match="has no attribute 'atention'"):
        chapter_05.atention  # noqa: B018
