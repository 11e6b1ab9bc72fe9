"""Checks of the exercises of chapter 05, self-attention."""

from textbook.checks.chapter_05.training import reached as reached
from textbook.checks.chapter_05.training import sequences as sequences
from textbook.checks.chapter_05.training import trained as trained
from textbook.checks.exercise import exercises_in
from textbook.checks.open_question import find_out as find_out

globals().update(exercises_in(__name__, __path__))
