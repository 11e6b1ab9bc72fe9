"""``Trial``: what an answer does on all cases, and how that differs from what it should do."""

import inspect
from dataclasses import dataclass, field
from functools import cache, wraps

import numpy as np

from textbook.checks.compare import as_array, difference
from textbook.checks.errors import in_words


class Trial:
    """An answer and what it does on the cases of an exercise, each run once."""

    def __init__(self, exercise, answer):
        self.exercise, self.answer = exercise, answer
        self.cases = cache(exercise.all_cases)
        self.outcome = cache(lambda hidden, i: exercise._observe(answer, self.cases(hidden)[i]))

    def outcomes(self, hidden, i):
        """What the answer does on the case of that number, and what the reference does."""
        case = self.cases(hidden)[i]
        right = self.exercise._expected(self.exercise.reference, case, hidden, i)
        return self.outcome(hidden, i), right

    def does_as(self, function, differ, expected=None):
        """Whether the answer does on all cases, public and hidden, what this function does."""
        expected = expected or self.exercise._expected
        return not any(
            _unlike(self.outcome(hidden, i), expected(function, case, hidden, i), differ)
            for hidden in ((False, True) if self.exercise.whole else (False,))
            for i, case in enumerate(self.cases(hidden))
        )

    def is_wrong_as(self, function, differ):
        """Whether the answer does what this function does wherever it is wrong and does not stop.

        It begins so, and is seen to do so more than twice, in digits that no chance gives twice.
        """
        seen = 0
        for hidden in (False, True) if self.exercise.whole else (False,):
            for i, case in enumerate(self.cases(hidden)):
                got, right = self.outcomes(hidden, i)
                if not differ(got, right) or (seen and got.error):
                    continue
                wrong = self.exercise._expected(function, case, hidden, i)
                if _unlike(got, wrong, differ) or not _wrong_in_digits(got, right, differ):
                    return False
                seen += 1
        return seen > 2


@dataclass
class Outcome:
    """What an answer did with one case."""

    results: dict = field(default_factory=dict)
    gradients: dict | None = None
    operations: list = field(default_factory=list)
    changed: str | None = None
    error: Exception | None = None
    returned: list = field(default_factory=list)


def how_it_differs(got, expected):
    """How one outcome differs from another, None if it does not."""
    return how_values_differ(got, expected) or how_gradients_differ(got, expected)


def how_values_differ(got, expected):
    """How the results or the errors of two outcomes differ, None if they do not."""
    if got.error or expected.error:
        texts = in_words(got.error), in_words(expected.error)
        return None if texts[0] == texts[1] else f"{texts[0]} instead of {texts[1]}"
    return next(_differences(got.results, expected.results), None)


def how_gradients_differ(got, expected):
    """How the gradients of two outcomes differ, None if they do not."""
    if expected.gradients is None:
        return None
    if got.gradients is None:
        if not any(bool((x != 0).any()) for x in expected.gradients.values()):
            return None
        return (
            "The values are right, but the result carries no gradient.\n"
            "Stay with tensors, without .item(), .numpy(), .array, .detach() or no_grad."
        )
    problem = next(_differences(got.gradients, expected.gradients), None)
    return problem and f"The values are right, but not the gradient.\n{problem}"


def _unlike(got, wrong, differ):
    """How an answer differs from a mistake, by gradients that this does not have, too."""
    return differ(got, wrong) or (differ is how_it_differs and how_gradients_differ(wrong, got))


def _wrong_in_digits(got, right, differ):
    """Whether a result that differs, or a gradient, has digits behind the point."""
    return not how_values_differ(got, right) or any(
        difference(got.results.get(label), value, label) and _has_digits(got.results.get(label))
        for label, value in right.results.items()
    )


def _has_digits(value):
    if isinstance(value, (list, tuple, dict)):
        return any(map(_has_digits, value.values() if isinstance(value, dict) else value))
    return np.asarray(as_array(value)).dtype.kind == "f"


def _differences(got, expected):
    for label, value in expected.items():
        if label not in got:
            yield f"{label[0].upper()}{label[1:]} is missing"
        elif problem := difference(got[label], value, label):
            yield problem[0].upper() + problem[1:]


def watched(answer, outcome):
    """A function that also notes in the outcome what it returned last; a class as it is."""
    if not inspect.isfunction(answer):
        return answer

    @wraps(answer)
    def noted(*case, **named):
        outcome.returned[:] = [answer(*case, **named)]
        return outcome.returned[0]

    return noted
