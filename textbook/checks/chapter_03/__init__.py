"""Checks of the exercises of chapter 03, sequence to sequence."""

from textbook.checks.chapter_03.batches import decoder_pair, masked_loss, pad_batch
from textbook.checks.chapter_03.decoders import beam_search, greedy_decode, scheduled_sampling
from textbook.checks.chapter_03.encodings import encoder_state, mean_and_max
from textbook.checks.chapter_03.evaluation import bleu, exact_match_by_length

__all__ = [
    "beam_search",
    "bleu",
    "decoder_pair",
    "encoder_state",
    "exact_match_by_length",
    "greedy_decode",
    "masked_loss",
    "mean_and_max",
    "pad_batch",
    "scheduled_sampling",
]
