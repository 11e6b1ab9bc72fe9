"""Checks of the exercises of chapter 00, tensors and autograd."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
