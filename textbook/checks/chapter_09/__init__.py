"""Checks of the exercises of chapter 09, feed-forward network, norm and residual connection."""

from textbook.checks.chapter_09.tables import table as table
from textbook.checks.chapter_09.training import losses as losses
from textbook.checks.chapter_09.training import reached as reached
from textbook.checks.chapter_09.wirings import programs as programs
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
