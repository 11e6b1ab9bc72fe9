"""Checks of the exercises of chapter 13, pretraining."""

from textbook.checks.chapter_13.comparisons import studies as studies
from textbook.checks.chapter_13.isoflops import figure as figure
from textbook.checks.chapter_13.labels import encoder as encoder
from textbook.checks.chapter_13.labels import reached as reached
from textbook.checks.chapter_13.labels import sentences as sentences
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
