"""Checks of the exercises of chapter 10, the full Transformer."""

from textbook.checks.chapter_10.assembly import Parts, assembled
from textbook.checks.chapter_10.attention import CrossAttention
from textbook.checks.chapter_10.block import Block
from textbook.checks.chapter_10.cache import cached_step
from textbook.checks.chapter_10.decoder import Decoder
from textbook.checks.chapter_10.encoder import Encoder
from textbook.checks.chapter_10.training import set_rate, smoothed_cross_entropy
from textbook.checks.chapter_10.transformer import Transformer
from textbook.checks.chapter_10.weights import TiedEmbedding, parameter_count

__all__ = [
    "Block",
    "CrossAttention",
    "Decoder",
    "Encoder",
    "Parts",
    "TiedEmbedding",
    "Transformer",
    "assembled",
    "cached_step",
    "parameter_count",
    "set_rate",
    "smoothed_cross_entropy",
]
