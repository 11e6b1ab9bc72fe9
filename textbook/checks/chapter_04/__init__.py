"""Checks of the exercises of chapter 04, attention."""

from textbook.checks.chapter_04.budgets import came_last as came_last
from textbook.checks.chapter_04.learning import scores as scores
from textbook.checks.chapter_04.looking import programs as programs
from textbook.checks.chapter_04.pooling import reached as reached
from textbook.checks.chapter_04.pooling import share_right as share_right
from textbook.checks.chapter_04.pooling import trained as trained
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
