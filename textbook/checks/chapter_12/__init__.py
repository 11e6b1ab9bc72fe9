"""Checks of the exercises of chapter 12, what would we fix?"""

from textbook.checks.chapter_12.leaks import suspects as suspects
from textbook.checks.chapter_12.recall import recalled as recalled
from textbook.checks.chapter_12.recall import train as train
from textbook.checks.chapter_12.tables import runs as runs
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
