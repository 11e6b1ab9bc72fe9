"""Checks of the exercises of chapter 03, sequence to sequence."""

from textbook.checks.chapter_03.comparisons import translators as translators
from textbook.checks.chapter_03.padded import encoders as encoders
from textbook.checks.chapter_03.training import Numbers as Numbers
from textbook.checks.chapter_03.training import reached as reached
from textbook.checks.chapter_03.training import share_right as share_right
from textbook.checks.chapter_03.training import trained as trained
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
