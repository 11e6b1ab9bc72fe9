"""Checks of the exercises of chapter 02, LSTM and GRU."""

from textbook.checks.chapter_02.broken import unknown_layers as unknown_layers
from textbook.checks.chapter_02.tables import table as table
from textbook.checks.chapter_02.training import reached as reached
from textbook.checks.chapter_02.training import sequences as sequences
from textbook.checks.chapter_02.training import trained as trained
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
