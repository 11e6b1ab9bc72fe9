"""Checks of the exercises of chapter 01, recurrent networks."""

from textbook.checks.chapter_01.language_model import (
    sampling_distribution,
    sequence_log_probability,
    sequence_loss,
)
from textbook.checks.chapter_01.states import deep_bidirectional, pool_states, rnn_cell, unroll
from textbook.checks.chapter_01.training import (
    backprop_through_time,
    clip_gradients,
    truncated_bptt,
)

__all__ = [
    "backprop_through_time",
    "clip_gradients",
    "deep_bidirectional",
    "pool_states",
    "rnn_cell",
    "sampling_distribution",
    "sequence_log_probability",
    "sequence_loss",
    "truncated_bptt",
    "unroll",
]
