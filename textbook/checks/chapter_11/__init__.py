"""Checks of the exercises of chapter 11, the Transformer at work."""

from textbook.checks.chapter_11.curves import trainings as trainings
from textbook.checks.chapter_11.reaching import batch as batch
from textbook.checks.chapter_11.reaching import reached as reached
from textbook.checks.chapter_11.reaching import share_right as share_right
from textbook.checks.chapter_11.reaching import translator as translator
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
