"""``Exercise``: run an answer on many cases, compare it with the reference, name the mistake."""

import importlib
import inspect
import io
import pkgutil
import traceback
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import thread_time
from typing import ClassVar

import numpy as np

from minitorch.autograd import grad, record_operations
from minitorch.autograd.modes import listening
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import float64
from minitorch.creation import tensor
from textbook.checks import progress
from textbook.checks.arguments import (
    copied,
    detached,
    exchanged,
    exchanges,
    is_plain,
    leaf,
    lengths,
    names,
    size,
    tensors,
)
from textbook.checks.compare import brief, difference, indented
from textbook.checks.describe import in_common
from textbook.checks.errors import stopped
from textbook.checks.mistakes import mistakes_of, pairs_of
from textbook.checks.origin import Origin
from textbook.checks.precision import in_float64
from textbook.checks.trial import Outcome, Trial, how_it_differs, how_values_differ, watched

SEEDS = {False: (0, 1, 2)}  # of public cases, and of hidden ones where these are
with suppress(ModuleNotFoundError):
    SEEDS[True] = importlib.import_module("textbook.checks.exercise_key").SEEDS
SECONDS_FOR_PAIRS = 3
DRAWN = (
    "Called again with the same arguments, your code gives something else: does it draw at random, "
    "or keep something from an earlier call? "
)
EXPLAINS = True  # else a wrong answer is only refused
MUTABLE = (TensorBase, np.ndarray, list, tuple, dict)


class CheckFailed(AssertionError):
    """An answer is not right; the message says why. A notebook shows the message alone."""

    def _render_traceback_(self):
        return str(self).split("\n")


class Draw:
    """Random inputs for the cases of one seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def normal(self, *shape):
        """A float64 tensor from the standard normal distribution."""
        return tensor(self.random.standard_normal(shape), dtype=float64)

    def integers(self, high, *shape):
        """An int64 tensor of integers from 0 to ``high - 1``."""
        return tensor(self.random.integers(high, size=shape))

    def state(self, module):
        """A ``state_dict`` for this module, from the standard normal distribution."""
        return {name: self.normal(*x.shape) for name, x in module.state_dict().items()}


def exercises_in(package, path):
    """The exercises that the modules of a package define, by name, with their answers."""
    found = {}
    for _, name, _ in pkgutil.iter_modules(path, f"{package}."):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, Exercise) and value.home == name:
                other = found.setdefault(value.name, value).home
                if other != name:
                    raise ValueError(
                        f"{other} and {name} both define the exercise {value.name!r}: rename one"
                    )
    for check in found.values():
        if check.reference is None:
            raise ValueError(f"{check.home}_key has no model answer of {check.name!r}")
    return found


@dataclass(eq=False)
class Exercise:
    """A check of one exercise: call it with the answer.

    The module ``home`` has what students get. The key beside it has what they do not, first of all
    the model answer, which is the ``reference`` here: see ``answer``.

    ``cases(draw)`` yields tuples of arguments; it is called for several seeds. Hidden checks have
    other seeds, and the answer's ``hidden_cases(draw)`` where they are given: often the same
    generator with larger or odder sizes, ``more`` of them or ``others`` in their place. An answer
    is right if, for every case, it gives what ``reference`` gives: the same values, and (with
    ``gradients``, where the statement asks for them) the same gradients with respect to the
    floating-point tensors among the arguments, wherever the reference has one. It must leave its
    arguments unchanged.

    ``run(answer, *case)`` drives an answer that is no function of the case, such as a class; it
    returns what is compared, as a dict from a phrase for messages to a value.
    ``forbidden`` names the operations that must not run inside the answer; ``instead`` says what
    to use. Each of ``properties`` is a function of (answer, *case) that returns None, or a
    sentence on what the answer violates, though it gives what the reference gives. ``reasons`` only
    explain: functions of (exercise, answer, *case) that return a sentence or None, asked where the
    answer is wrong and no known mistake fits. ``see`` is the place in the book.
    """

    name: str
    home: str
    cases: object
    see: str
    forbidden: tuple = ()
    instead: str = ""
    properties: tuple = ()
    reasons: tuple = ()
    gradients: bool = True
    run: object = None
    reference: object = field(default=None, init=False, repr=False)
    hidden_cases: object = field(default=None, init=False, repr=False)
    after_passing: str = field(default="", init=False, repr=False)
    known: dict = field(default_factory=dict, init=False, repr=False)  # outcomes, see _expected
    drawn: dict = field(default_factory=dict, init=False, repr=False)  # see all_cases
    whole: ClassVar = True  # with a reference that answers, and hidden cases

    def answer(self, hidden_cases=None, after_passing=""):
        """Decorate the model answer, in the key.

        ``after_passing`` is a line for who has passed: what a shorter or faster answer uses, or
        what else follows.
        """

        def to(reference):
            if reference.__name__ != self.name:
                raise ValueError(f"expected an answer named {self.name}, got {reference.__name__}")
            self.reference = reference
            self.hidden_cases, self.after_passing = hidden_cases, after_passing
            return self

        return to

    @cached_property
    def mistakes(self):
        """Those of the exercise's table, read when first asked for."""
        return mistakes_of(self.reference)

    def __call__(self, answer, hidden=False):
        """Raise ``CheckFailed`` unless the answer is right; else say so in a line."""
        passed = False
        try:
            self._examine(answer, hidden)
            passed = True
        finally:
            if not hidden:
                progress.note(self.home, self.name, passed)
        print(f"{self.name}: all {'hidden' if hidden else 'public'} checks passed")
        if self.after_passing and not hidden:
            print(self.after_passing)

    def _examine(self, answer, hidden):
        self._refuse_what_is_no_answer(answer)
        trial = Trial(self, answer)
        for i, case in enumerate(trial.cases(hidden)):
            got, right = trial.outcomes(hidden, i)
            self._refuse_forbidden(got)
            self._refuse_changed_argument(got, case)
            problem = how_it_differs(got, right)
            if problem and not EXPLAINS:
                raise CheckFailed(f"{self.name}: not right yet.")
            if problem and not isinstance(got.error, NotImplementedError):
                with redirect_stdout(io.StringIO()):
                    self._refuse_mistake(trial)
            self._refuse_accidents(got, case)
            if problem:
                differs = "differs" in problem
                properties = self.properties if differs else ()
                has_form = differs or "wrong shape" in problem
                with redirect_stdout(io.StringIO()):
                    reason = self._reason(answer, case, properties)
                    if not reason and not self.run and not got.error:
                        reason = DRAWN if how_it_differs(self._observe(answer, case), got) else ""
                    problem = reason + problem + self._origin(answer, case, problem)
                    problem += self._pattern(trial, hidden) if has_form else ""
                raise self._failure(f"not right yet. {problem}", case)
            if i == 0 and len(trial.cases(hidden)) > 1:
                self._refuse_what_remembers(answer, got, case)
            try:
                violated = self._violated(answer, case)
            except (Exception, SystemExit) as error:
                text = f"{stopped(error)}\n(the check asked once more, with other numbers)"
                raise self._failure(text, case) from error
            if violated:
                raise self._failure(f"not right yet. {violated}", case)

    def all_cases(self, hidden=False):
        """The cases of all seeds, the smallest first; those that draw nothing come once.

        They are drawn once and kept: an answer gets copies, see ``_observe``.
        """
        key = hidden, SEEDS[hidden]
        if key not in self.drawn:
            generate = hidden and self.hidden_cases or self.cases
            cases = [case for seed in SEEDS[hidden] for case in generate(Draw(seed))]
            different = {repr(case) if is_plain(case) else i: case for i, case in enumerate(cases)}
            self.drawn[key] = sorted(different.values(), key=size)
        return list(self.drawn[key])

    def _refuse_what_is_no_answer(self, answer):
        if not callable(answer):
            raise CheckFailed(
                f"{self.name}: expected your function, got {brief(answer)}\n"
                f"Give the check the function itself: check.{self.name}({self.name})"
            )
        if self.run is None:
            wanted = self._parameters
            try:
                signature = inspect.signature(answer)
            except (TypeError, ValueError):  # what is built in may not tell its own
                return
            try:
                signature.bind(*wanted)
            except TypeError:
                raise CheckFailed(
                    f"{self.name}: expected a function of ({', '.join(wanted)}), "
                    f"got one of {signature}.\n"
                    "Keep the first line of the function as it was given."
                ) from None

    def _observe(self, answer, case):
        outcome = Outcome()
        leaves = [copied(value, leaf if self.gradients else detached) for value in case]
        given = [copied(value, lambda leaf: leaf.clone()) for value in leaves]
        with np.errstate(all="ignore"):
            try:
                with record_operations() as outcome.operations, in_float64():
                    if self.run:
                        outcome.results = self.run(watched(answer, outcome), *given)
                    else:
                        outcome.results = {"the result": answer(*given)}
                outcome.gradients = self._gradients(outcome.results, leaves)
            except (Exception, SystemExit) as error:
                outcome.error = error
        for name, value, kept in zip(self._parameters, given, case, strict=True):
            if isinstance(value, MUTABLE) and difference(value, kept, name):
                outcome.changed = name
        return outcome

    def _expected(self, function, case, hidden, number):
        """What the reference or a mistake does on the case of that number, observed once."""
        key = function, hidden, number, SEEDS[hidden]
        if key not in self.known:
            self.known[key] = self._observe(function, case)
        return self.known[key]

    @cached_property
    def _parameters(self):
        if self.run:
            return list(inspect.signature(self.run).parameters)[1:]
        return list(inspect.signature(self.reference).parameters)

    def _gradients(self, results, leaves):
        """The gradients of a fixed random combination of the results; None if they have none."""
        outputs = [x for _, x in tensors(results, "") if x.requires_grad]
        inputs = [
            (name, x)
            for parameter, value in zip(self._parameters, leaves, strict=True)
            for name, x in tensors(value, parameter)
            if x.requires_grad
        ]
        if not outputs or not inputs:
            return None
        draw = np.random.default_rng(0)
        weights = [tensor(draw.standard_normal(x.shape), dtype=x.dtype) for x in outputs]
        found = grad(outputs, [x for _, x in inputs], weights, allow_unused=True)
        return {
            f"the gradient with respect to {name}": x.new_zeros(x.shape) if g is None else g
            for (name, x), g in zip(inputs, found, strict=True)
        }

    def _refuse_forbidden(self, outcome):
        for name in outcome.operations:
            if name in self.forbidden:
                shown = name.rstrip("_")  # cat_ is the part of cat that joins arrays
                raise CheckFailed(
                    f"{self.name}: your answer runs the library's '{shown}', which this exercise "
                    f"asks you to write yourself.\nUse instead: {self.instead}."
                )

    def _refuse_changed_argument(self, outcome, case):
        if outcome.changed:
            raise self._failure(
                f"your code changes its argument {outcome.changed}; work on a copy of it", case
            )

    def _refuse_accidents(self, outcome, case):
        error = outcome.error
        if isinstance(error, NotImplementedError):
            blank = traceback.extract_tb(error.__traceback__)[-1].name
            raise CheckFailed(
                f"{self.name}: not solved yet.\nReplace 'raise NotImplementedError' in {blank} by "
                "your answer, run that cell, then run this one again."
            ) from None
        if error:
            raise self._failure(stopped(error, outcome.returned), case) from error

    def _refuse_what_remembers(self, answer, first, case):
        """Raise if the answer gives something else when it is called with the same once more."""
        with redirect_stdout(io.StringIO()):
            again = self._observe(answer, case)
        if problem := how_it_differs(again, first):
            raise self._failure(
                "called a second time with the same arguments, your code does something else. Does "
                "it keep something from the first call, in a default argument, a global or an "
                f"attribute? Or does it draw at random?\n{problem}",
                case,
            )

    def _refuse_mistake(self, trial):
        """Raise if the answer does on all cases, public and hidden, what one known mistake does."""
        right_values = trial.does_as(self.reference, how_values_differ)
        differ = how_it_differs if right_values else how_values_differ
        fitting = [mistake for mistake in self.mistakes if trial.does_as(mistake.function, differ)]
        if len(fitting) == 1:
            raise CheckFailed(
                f"{self.name}: not right yet. Your answer is {fitting[0].name}.\n"
                f"{fitting[0].hint}\nSee {self.see}."
            )
        if not fitting and not trial.outcome(False, 0).error:
            self._refuse_two_mistakes(trial, differ)
            self._refuse_mistake_in_part(trial, differ)

    def _refuse_two_mistakes(self, trial, differ):
        """Raise if the answer does on all cases what one pair of known mistakes does at once."""
        fitting, end = [], thread_time() + SECONDS_FOR_PAIRS
        for one, other, function in pairs_of(self.reference, self.mistakes):
            if thread_time() > end:
                return
            if trial.does_as(function, differ, lambda both, case, *_: self._observe(both, case)):
                fitting.append((one, other))
        if len(fitting) == 1:
            one, other = fitting[0]
            raise CheckFailed(
                f"{self.name}: not right yet. Your answer is two things at once:\n"
                f"- {one.name}. {one.hint}\n- {other.name}. {other.hint}\nSee {self.see}."
            )

    def _refuse_mistake_in_part(self, trial, differ):
        """Raise if one known mistake is all that is wrong, but for cases in which the answer stops.

        On others it may be right, where it treats an edge by itself.
        """
        for mistake in self.mistakes:
            if trial.is_wrong_as(mistake.function, differ):
                raise CheckFailed(
                    f"{self.name}: not right yet. Your answer is, in some cases, {mistake.name}.\n"
                    f"{mistake.hint}\nSee {self.see}."
                )

    def _origin(self, answer, case, problem):
        """What made the NaN or infinity that a result holds, as a line to be added; or nothing."""
        for kind in "nan", "inf":
            if f"holds {kind} where a number belongs" in problem:
                origin = Origin()
                with listening(origin):
                    outcome = self._observe(answer, case)
                text = origin.told(kind, outcome, case)
                return f"\n{text}" if text else ""
        return ""

    def _pattern(self, trial, hidden):
        """What all wrong results have in common, as a line to be added; or nothing."""
        outcomes = [trial.outcomes(hidden, i) for i in range(len(trial.cases(hidden)))]
        if any(got.error for got, _ in outcomes):
            return ""
        for label in dict.fromkeys(label for _, right in outcomes for label in right.results):
            pairs, sizes = [], []
            for case, (got, right) in zip(trial.cases(hidden), outcomes, strict=True):
                both = got.results.get(label), right.results.get(label)
                if difference(*both, label):
                    pairs.append(both)
                    sizes.append(lengths(self._parameters, case))
            if pairs:
                text = in_common(pairs, sizes)
                if not text and not isinstance(pairs[0][1], (str, dict)):
                    text = self._ignored(trial, hidden)
                return f"\n{text}" if text else ""
        return ""

    def _ignored(self, trial, hidden):
        """A sentence on an argument that the answer does not look at, though it matters.

        Cases of one shape exchange this argument: the reference gives something else then.
        """
        cases = trial.cases(hidden)
        for p, name in enumerate(self._parameters):
            if self.run and name not in names(trial.answer):
                continue
            told = 0
            for i, j in exchanges(cases):
                if not self._matters(cases, i, j, p, hidden):
                    continue
                got = self._observe(trial.answer, exchanged(cases, i, j, p))
                if how_values_differ(got, trial.outcome(hidden, i)):
                    break
                told += 1
            else:
                if told > 1:
                    return f"Your result does not depend on {name}, and it should."
        return ""

    def _matters(self, cases, i, j, p, hidden):
        """Whether the reference gives something else where case i has argument p of case j."""
        right = self._observe(self.reference, exchanged(cases, i, j, p))
        expected = self._expected(self.reference, cases[i], hidden, i)
        return not right.error and bool(how_values_differ(right, expected))

    def _violated(self, answer, case):
        with in_float64(), np.errstate(all="ignore"):
            for holds in self.properties:
                message = holds(answer, *(copied(value, detached) for value in case))
                if message:
                    return message
        return None

    def _reason(self, answer, case, properties):
        """The property that a wrong answer violates, or a reason, as far as they can be asked."""
        for holds in (*properties, *(partial(reason, self) for reason in self.reasons)):
            with suppress(Exception, SystemExit), in_float64(), np.errstate(all="ignore"):
                if said := holds(answer, *(copied(value, detached) for value in case)):
                    return f"{said} "
        return ""

    def _failure(self, text, case):
        given = "\n".join(
            indented(f"  {name} = {brief(value)}", len(name) + 5)
            for name, value in zip(self._parameters, case, strict=True)
        )
        given = f"\nfor\n{given}" if given else ""
        return CheckFailed(f"{self.name}: {text}{given}\nSee {self.see}.")
