"""Checks of the exercises of chapter 12, what would we fix?"""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
