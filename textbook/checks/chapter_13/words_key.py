"""Answers to the exercises of ``words.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_13.words import _mask_cases, mask_words


@mask_words.answer(
    hidden_cases=lambda draw: _mask_cases(
        draw, others=(([8, 13, 5, 6, 9], [30, 7, 21, 16]), 17, (31, 23), 0.2)
    )
)
def mask_words(tokens, words, share, mask, ordinary):
    """Tokens and words (B, n) give inputs (B, n) and blanks (B, n), whole words."""
    inside = words >= 0
    chosen = mt.rand(tokens.shape) < share  # of word k of a sequence: column k
    blanks = mt.gather(chosen, 1, words.clamp(min=0)) & inside
    how = mt.rand(tokens.shape)
    drawn = ordinary[mt.randint(len(ordinary), tokens.shape)]
    shown = mt.where(how < 0.8, mask, mt.where(how < 0.9, drawn, tokens))
    return mt.where(blanks, shown, tokens), blanks


# Right in another way


def masked_with_numpy(tokens, words, share, mask, ordinary):
    random = np.random.default_rng()
    inputs, number = tokens.numpy().copy(), words.numpy()
    blanks = np.zeros(inputs.shape, bool)
    for k in range(number.max() + 1):
        blanks |= (number == k) & (random.random((len(inputs), 1)) < share)
    case = random.choice(3, p=[0.8, 0.1, 0.1], size=inputs.shape)
    inputs[blanks & (case == 0)] = mask
    replaced = blanks & (case == 1)
    inputs[replaced] = random.choice(ordinary.numpy(), size=replaced.sum())
    return mt.tensor(inputs), mt.tensor(blanks)


def masked_in_two_draws(tokens, words, share, mask, ordinary):
    """A second draw among what does not show the mask."""
    chosen = mt.rand(len(tokens), tokens.shape[1] + 1) < share
    chosen[:, -1] = False  # the place of word -1
    blanks = mt.stack([row[word] for row, word in zip(chosen, words, strict=True)])
    hidden = blanks & (mt.rand(tokens.shape) < 0.8)
    random = blanks & ~hidden & (mt.rand(tokens.shape) < 0.5)
    inputs = tokens.clone()
    inputs[hidden] = mask
    inputs[random] = ordinary[mt.randint(0, len(ordinary), (int(random.sum()),))]
    return inputs, blanks


right = {
    "mask_words": [masked_with_numpy, masked_in_two_draws],
}
