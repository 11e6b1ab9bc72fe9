"""Checks of the exercises of chapter 10, the full Transformer."""

from textbook.checks.chapter_10.assembly import Parts as Parts
from textbook.checks.chapter_10.assembly import assembled as assembled
from textbook.checks.chapter_10.broken import suspects as suspects
from textbook.checks.chapter_10.own_answers import copy_my_answers as copy_my_answers
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
