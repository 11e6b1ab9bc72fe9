"""Checks of the exercises of chapter 06, multi-head attention."""

from textbook.checks.chapter_06.axes import heads_at_once, merge_heads, split_heads
from textbook.checks.chapter_06.layer import MultiHeadAttention, module_weights
from textbook.checks.chapter_06.looking import strongest_offsets, two_heads
from textbook.checks.chapter_06.matrices import attention_cost, contributions, heads_in_a_loop

__all__ = [
    "MultiHeadAttention",
    "attention_cost",
    "contributions",
    "heads_at_once",
    "heads_in_a_loop",
    "merge_heads",
    "module_weights",
    "split_heads",
    "strongest_offsets",
    "two_heads",
]
