"""Checks of the exercises of chapter 04, attention."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
