"""Checks of the exercises of chapter 03, sequence to sequence."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
