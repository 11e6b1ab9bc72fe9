"""Checks of the exercises of chapter 08, positions."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
