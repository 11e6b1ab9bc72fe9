"""Checks of the exercises of chapter 09, feed-forward network, norm and residual connection."""

from textbook.checks.chapter_09.training import losses as losses
from textbook.checks.chapter_09.training import reached as reached
from textbook.checks.chapter_09.wirings import programs as programs
from textbook.checks.exercise import exercises_in
from textbook.checks.open_question import find_out as find_out

globals().update(exercises_in(__name__, __path__))
