"""Checks of the exercises of chapter 07, masking."""

from textbook.checks.chapter_07.attention import masked_attention, one_at_a_time
from textbook.checks.chapter_07.continuations import continue_prompts
from textbook.checks.chapter_07.language_model import MaskedLanguageModel
from textbook.checks.chapter_07.leaks import dependence
from textbook.checks.chapter_07.masks import (
    causal_mask,
    joined_mask,
    module_mask,
    real_tokens,
    window_mask,
)

__all__ = [
    "MaskedLanguageModel",
    "causal_mask",
    "continue_prompts",
    "dependence",
    "joined_mask",
    "masked_attention",
    "module_mask",
    "one_at_a_time",
    "real_tokens",
    "window_mask",
]
