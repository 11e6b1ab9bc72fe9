"""Data that needs no download: text, vocabularies, batches."""

from minitorch.data.text import Vocabulary, language_reference, split, windows

__all__ = ["Vocabulary", "language_reference", "split", "windows"]
