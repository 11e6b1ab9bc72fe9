"""Checks of the exercises of chapter 09, feed-forward network, norm and residual connection."""

from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
