"""Checks of the exercises of chapter 01, recurrent networks."""

from textbook.checks.chapter_01.reading import readers as readers
from textbook.checks.chapter_01.windows import reached as reached
from textbook.checks.chapter_01.windows import right as right
from textbook.checks.chapter_01.windows import trained as trained
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
