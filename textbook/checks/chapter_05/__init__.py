"""Checks of the exercises of chapter 05, self-attention."""

from textbook.checks.chapter_05.tables import table as table
from textbook.checks.chapter_05.training import reached as reached
from textbook.checks.chapter_05.training import sequences as sequences
from textbook.checks.chapter_05.training import trained as trained
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
