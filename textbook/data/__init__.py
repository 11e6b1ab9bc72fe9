"""Data that needs no download: text, vocabularies, batches, small tasks; a student's own files.

Only ``multi30k`` and ``tiny_shakespeare`` fetch anything, when they are called; the book uses
neither.
"""

from minitorch.data import tasks
from minitorch.data.batches import BatchesByLength, pad, padding_mask
from minitorch.data.bpe import BytePairEncoding
from minitorch.data.dates import date_pairs
from minitorch.data.downloads import multi30k, tiny_shakespeare
from minitorch.data.files import read_pairs, read_text
from minitorch.data.metrics import bleu, exact_match
from minitorch.data.numerals import (
    NumberPair,
    join_pieces,
    number_pair,
    number_pairs,
    number_pieces,
    number_words,
)
from minitorch.data.text import Vocabulary, language_reference, split, windows

__all__ = [
    "BatchesByLength",
    "BytePairEncoding",
    "NumberPair",
    "Vocabulary",
    "bleu",
    "date_pairs",
    "exact_match",
    "join_pieces",
    "language_reference",
    "multi30k",
    "number_pair",
    "number_pairs",
    "number_pieces",
    "number_words",
    "pad",
    "padding_mask",
    "read_pairs",
    "read_text",
    "split",
    "tasks",
    "tiny_shakespeare",
    "windows",
]
