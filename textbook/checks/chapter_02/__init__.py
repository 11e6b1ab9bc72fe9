"""Checks of the exercises of chapter 02, LSTM and GRU."""

from textbook.checks.chapter_02.cells import gru_cell, lstm_cell, lstm_gates
from textbook.checks.chapter_02.layers import (
    count_parameters,
    deep_bidirectional,
    lstm,
    set_forget_bias,
)
from textbook.checks.chapter_02.memory import cell_path, keep_a_bit, lstm_step_backward

__all__ = [
    "cell_path",
    "count_parameters",
    "deep_bidirectional",
    "gru_cell",
    "keep_a_bit",
    "lstm",
    "lstm_cell",
    "lstm_gates",
    "lstm_step_backward",
    "set_forget_bias",
]
