"""Answers to the exercises of ``norms.py``."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_09.norms import _norm_cases, layer_norm

# Layer norm


@layer_norm.answer(
    hidden_cases=lambda draw: _norm_cases(draw, others=[(5,), (5, 4), (2, 3, 2, 4), (3, 3)]),
    after_passing="In practice norms are in float32 where all else is in 16 bits: against "
    "overflow.",
)
def layer_norm(x, gain, bias, eps=1e-5):
    """x (..., d), gain and bias (d) give (..., d)."""
    centered = x - x.mean(dim=-1, keepdim=True)
    scale = centered.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1.0)  # (..., 1)
    small = centered / scale  # no square of these overflows
    variance = (small**2).mean(dim=-1, keepdim=True)
    return small / mt.sqrt(variance + eps / scale / scale) * gain + bias


# Right in another way


def norm_with_var(x, gain, bias, eps=1e-5):
    centered = x - x.mean(-1, keepdim=True)
    by = mt.maximum(centered.abs().amax(-1, keepdim=True), mt.ones(1).to(x))
    small = centered / by
    variance = small.var(dim=-1, unbiased=False, keepdim=True)
    return gain * small * (variance + eps / by / by) ** -0.5 + bias


def norm_with_the_root_taken_apart(x, gain, bias, eps=1e-5):
    """The root of (variance + eps) as a length: scaled before it is squared."""
    d = x.shape[-1]
    centered = x - x.sum(-1, keepdim=True) / d
    legs = mt.cat([centered, mt.full((*x.shape[:-1], 1), math.sqrt(d * eps))], dim=-1)
    longest = legs.abs().amax(-1, keepdim=True).detach()
    s = longest * ((legs / longest) ** 2).sum(-1, keepdim=True).sqrt() / math.sqrt(d)
    return centered / s * gain + bias


def norm_token_by_token(x, gain, bias, eps=1e-5):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centered = token - sum(token) / len(token)
        by = max(1.0, max(abs(number.item()) for number in centered))
        variance = sum((number / by) ** 2 for number in centered) / len(token)
        rows.append(centered / by / mt.sqrt(variance + eps / by / by) * gain + bias)
    return mt.stack(rows).reshape(x.shape)


def norm_with_matrices(x, gain, bias, eps=1e-5):
    """Subtracting the mean is a product with I - 1/d."""
    d = x.shape[-1]
    centered = x @ (mt.eye(d) - 1 / d)
    by = (1 + centered.detach().abs()).max(dim=-1, keepdim=True).values
    small = centered / by
    return small / (small * small @ mt.full((d, 1), 1 / d) + eps / by / by).sqrt() * gain + bias


def library_norm(x, gain, bias, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), gain, bias, eps)


def norm_of_the_module(x, gain, bias, eps=1e-5):
    norm = nn.LayerNorm(x.shape[-1], eps=eps, elementwise_affine=False).double()
    return norm(x) * gain + bias


right = {
    "layer_norm": [
        norm_with_var,
        norm_with_the_root_taken_apart,
        norm_token_by_token,
        norm_with_matrices,
    ],
}
refused = {
    "layer_norm": [library_norm, norm_of_the_module],
}
