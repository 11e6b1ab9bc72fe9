"""Answers to the exercises of ``rotary.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_08.rotary import _rotary, _rotate_cases, rotate


@rotate.answer(
    hidden_cases=lambda draw: _rotate_cases(
        draw,
        others=[
            ((3, 3, 3, 4), [[0, 1, 2], [3, 6, 4], [9, 0, 0]], 10_000.0),
            ((2, 1, 4, 8), [[0, 4, 5000, 70], [1, 2, 3, 4]], 500_000.0),
            ((1, 4, 1, 10), [[7]], 100),
            ((4, 2, 2, 2), [[1, 2], [30, 4], [5, 50], [0, 8]], 2.0),
        ],
    ),
    after_passing="Faster: programs keep the cosines and sines of all places in a table, "
    "and look them up.",
)
def rotate(x, positions, base):
    """x (B, h, n, d) at positions (B, n) gives x turned, (B, h, n, d)."""
    half = x.shape[-1] // 2
    omega = base ** (-mt.arange(half) / half)  # (d/2)
    angles = (positions.unsqueeze(-1) * omega).unsqueeze(1)  # (B, 1, n, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]  # (B, h, n, d/2)
    return mt.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def _for_as_many_heads(x, positions, base):
    if len({1, len(x), x.shape[1]}) > 2:
        raise ValueError("shapes do not broadcast")
    return _rotary(axis=lambda angles: angles)(x, positions, base)


# Right in another way


def rotate_pair_by_pair(x, positions, base):
    d, first, second = x.shape[-1], [], []
    for m in range(d // 2):
        angles = positions.unsqueeze(1) * base ** (-2 * m / d)  # (B, 1, n)
        a, b = x[..., m], x[..., m + d // 2]  # (B, h, n)
        first.append(a * angles.cos() - b * angles.sin())
        second.append(a * angles.sin() + b * angles.cos())
    return mt.stack(first + second, dim=-1)


def rotate_as_most_programs_do(x, positions, base):
    """x cos + (x with its halves exchanged and one negative) sin."""
    half = x.shape[-1] // 2
    inverse = 1.0 / (base ** (mt.arange(0, 2 * half, 2).float() / (2 * half)))
    angles = positions[:, None, :, None].float() * inverse
    angles = mt.cat([angles, angles], dim=-1)
    exchanged = mt.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angles.cos() + exchanged * angles.sin()


def rotate_in_numpy(x, positions, base):
    half = x.shape[-1] // 2
    turns = np.exp(1j * positions.numpy()[..., None] * base ** (-np.arange(half) / half))
    numbers = x.numpy()
    turned = (numbers[..., :half] + 1j * numbers[..., half:]) * turns[:, None]
    return mt.tensor(np.concatenate([turned.real, turned.imag], axis=-1))


def rotate_sequence_by_sequence(x, positions, base):
    def one(rows, places):
        half = rows.shape[-1] // 2
        angles = mt.outer(places.to(rows.dtype), base ** (-mt.arange(half) / half))
        a, b = rows.split(half, dim=-1)
        c, s = angles.cos(), angles.sin()
        return mt.cat([c * a - s * b, s * a + c * b], dim=-1)

    return mt.stack([one(rows, places) for rows, places in zip(x, positions, strict=True)])


right = {
    "rotate": [
        rotate_pair_by_pair,
        rotate_as_most_programs_do,
        rotate_in_numpy,
        rotate_sequence_by_sequence,
        _rotary(),
    ],
}
