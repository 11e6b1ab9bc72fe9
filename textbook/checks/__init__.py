"""Checks of the exercises: is an answer right, and if not, which mistake does it look like?

An exercise is a model answer, a generator of cases, and the mistakes that are usual
(``exercise.py``); ``compare.py`` says how two results differ. The exercises themselves stand in
``chapter_NN/``, cut by who may see it: ``X.py`` has what students get, ``X_key.py`` the answers,
``NAME.txt`` the usual mistakes of one. A set calls ::

    from textbook.checks import chapter_00 as check

    check.softmax(softmax)
"""

from textbook.checks.exercise import CheckFailed, Draw, Exercise
from textbook.checks.released import exercise

__all__ = ["CheckFailed", "Draw", "Exercise", "exercise"]
