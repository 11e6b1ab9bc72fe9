"""Data that needs no download: text, vocabularies, batches, small tasks; a student's own files.

Only ``multi30k`` and ``tiny_shakespeare`` fetch anything, when they are called: chapter 11 records
what it measured on them, and runs on made-up data.
"""

from textbook.data import tasks
from textbook.data.batches import BatchesByLength, pad, padding_mask
from textbook.data.bpe import BytePairEncoding
from textbook.data.dates import date_pairs
from textbook.data.downloads import lacking, multi30k, tiny_shakespeare
from textbook.data.encoded import EncodedPairs
from textbook.data.files import read_pairs, read_text
from textbook.data.first_edition import first_edition, first_edition_code
from textbook.data.metrics import bleu, bleu_of_draws, exact_match
from textbook.data.numerals import (
    NumberPair,
    join_pieces,
    number_pair,
    number_pairs,
    number_pieces,
    number_words,
)
from textbook.data.text import Vocabulary, split, windows
from textbook.data.trained import translator_weights

__all__ = [
    "BatchesByLength",
    "BytePairEncoding",
    "EncodedPairs",
    "NumberPair",
    "Vocabulary",
    "bleu",
    "bleu_of_draws",
    "date_pairs",
    "exact_match",
    "first_edition",
    "first_edition_code",
    "join_pieces",
    "lacking",
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
    "translator_weights",
    "windows",
]
