"""Checks of the exercises of chapter 08, positions."""

from textbook.checks.chapter_08.codes import shift_matrix, sinusoidal_codes
from textbook.checks.chapter_08.distances import tree_distances, what_it_knows
from textbook.checks.chapter_08.rotary import rotate
from textbook.checks.chapter_08.scores import alibi_bias, relative_scores
from textbook.checks.chapter_08.tables import LearnedPositions, learned_from_one_hot

__all__ = [
    "LearnedPositions",
    "alibi_bias",
    "learned_from_one_hot",
    "relative_scores",
    "rotate",
    "shift_matrix",
    "sinusoidal_codes",
    "tree_distances",
    "what_it_knows",
]
