"""Checks of the exercises of chapter 05, self-attention."""

from textbook.checks.chapter_05.gradient import self_attention_gradient
from textbook.checks.chapter_05.layers import attention, self_attention
from textbook.checks.chapter_05.module import SelfAttention
from textbook.checks.chapter_05.order import order_blind, time_steps
from textbook.checks.chapter_05.scale import jacobian_norms, score_deviation
from textbook.checks.chapter_05.tokens import one_token, project

__all__ = [
    "SelfAttention",
    "attention",
    "jacobian_norms",
    "one_token",
    "order_blind",
    "project",
    "score_deviation",
    "self_attention",
    "self_attention_gradient",
    "time_steps",
]
