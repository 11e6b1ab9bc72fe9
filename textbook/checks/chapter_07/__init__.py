"""Checks of the exercises of chapter 07, masking."""

from textbook.checks.chapter_07.padding import suspects as suspects
from textbook.checks.chapter_07.tables import runs as runs
from textbook.checks.chapter_07.training import chain as chain
from textbook.checks.chapter_07.training import nats_leaked as nats_leaked
from textbook.checks.chapter_07.training import ways as ways
from textbook.checks.chapter_07.training import windows as windows
from textbook.checks.chapter_07.written import written as written
from textbook.checks.exercise import exercises_in

globals().update(exercises_in(__name__, __path__))
