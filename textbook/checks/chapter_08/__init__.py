"""Checks of the exercises of chapter 08, positions."""

from textbook.checks.chapter_08.training import reached as reached
from textbook.checks.chapter_08.training import sequences as sequences
from textbook.checks.chapter_08.training import trained as trained
from textbook.checks.chapter_08.turning import programs as programs
from textbook.checks.exercise import exercises_in
from textbook.checks.open_question import find_out as find_out

globals().update(exercises_in(__name__, __path__))
