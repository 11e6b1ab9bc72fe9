"""Checks of the exercises of chapter 07, masking."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
