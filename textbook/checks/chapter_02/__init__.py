"""Checks of the exercises of chapter 02, LSTM and GRU."""

from textbook.checks.chapter_02.broken import unknown_layers as unknown_layers
from textbook.checks.chapter_02.holding import counter as counter
from textbook.checks.chapter_02.training import reached as reached
from textbook.checks.chapter_02.training import sequences as sequences
from textbook.checks.chapter_02.training import trained as trained
from textbook.checks.exercise import exercises_in
from textbook.checks.open_question import find_out as find_out

globals().update(exercises_in(__name__, __path__))
