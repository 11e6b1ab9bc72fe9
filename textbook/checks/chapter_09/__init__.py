"""Checks of the exercises of chapter 09, feed-forward network, norm and residual connection."""

from textbook.checks.chapter_09.block import Block
from textbook.checks.chapter_09.feed_forward import FeedForward
from textbook.checks.chapter_09.gradient import layer_norm_gradient
from textbook.checks.chapter_09.norms import batch_statistics, layer_norm, rms_norm
from textbook.checks.chapter_09.stacks import add_and_norm, one_layer, warm_up

__all__ = [
    "Block",
    "FeedForward",
    "add_and_norm",
    "batch_statistics",
    "layer_norm",
    "layer_norm_gradient",
    "one_layer",
    "rms_norm",
    "warm_up",
]
