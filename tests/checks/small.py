"""Exercises of a few lines, for tests of the framework."""

from textbook.checks import Exercise


def exercise(hidden_cases=None, after_passing="", **settings):
    """The exercise whose model answer is decorated."""

    def of(answer):
        check = Exercise(answer.__name__, answer.__module__, **settings)
        return check.answer(hidden_cases, after_passing)(answer)

    return of
