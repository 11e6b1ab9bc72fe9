"""Checks of the exercises of chapter 05, self-attention."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
