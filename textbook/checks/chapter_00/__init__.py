"""Checks of the exercises of chapter 00, tensors and autograd."""

from textbook.checks.chapter_00.linear_maps import (
    affine_gradients,
    rotate_pairs,
    spectral_radius,
    training_flops,
)
from textbook.checks.chapter_00.probabilities import cross_entropy_gradient, perplexity, softmax
from textbook.checks.chapter_00.training import Value, adam_step, numerical_gradient

__all__ = [
    "softmax",
    "perplexity",
    "cross_entropy_gradient",
    "training_flops",
    "rotate_pairs",
    "affine_gradients",
    "spectral_radius",
    "numerical_gradient",
    "adam_step",
    "Value",
]
