"""Checks of the exercises of chapter 04, attention."""

from textbook.checks.chapter_04.averages import attend, attend_all, lookup_table, padded_weights
from textbook.checks.chapter_04.decoder import AttentionDecoder, decoder_step
from textbook.checks.chapter_04.maps import alignment_error, attention_gradient
from textbook.checks.chapter_04.scores import additive_scores, reduced_rank_scores

__all__ = [
    "AttentionDecoder",
    "additive_scores",
    "alignment_error",
    "attend",
    "attend_all",
    "attention_gradient",
    "decoder_step",
    "lookup_table",
    "padded_weights",
    "reduced_rank_scores",
]
