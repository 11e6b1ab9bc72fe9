"""Checks of the exercises of chapter 06, multi-head attention."""

from textbook.checks.chapter_06.mixers import suspects as suspects
from textbook.checks.chapter_06.training import draw as draw
from textbook.checks.chapter_06.training import look_up as look_up
from textbook.checks.chapter_06.training import shares as shares
from textbook.checks.chapter_06.training import spare_heads as spare_heads
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
