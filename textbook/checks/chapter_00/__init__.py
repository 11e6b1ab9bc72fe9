"""Checks of the exercises of chapter 00, tensors and autograd."""

from textbook.checks.chapter_00.broken import programs as programs
from textbook.checks.chapter_00.tables import table as table
from textbook.checks.chapter_00.training import reached as reached
from textbook.checks.chapter_00.training import spiral as spiral
from textbook.checks.chapter_00.training import trained as trained
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
