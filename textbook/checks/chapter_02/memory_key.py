"""Answers to the exercises of ``memory.py``."""

import minitorch as mt
from textbook.checks.chapter_02.memory import _bit_cases, two_bits

_ON, _OFF = ((0, 0, 0, 0, 20),) * 2, ((0, 0, 0, 0, -20),) * 2  # write, slot, bit, read; the bias
_WRITE = (40, -40, 0, 0, -20), (40, 40, 0, 0, -60)
_UNLESS_WRITE = tuple(tuple(-w for w in row) for row in _WRITE)
_BIT = ((0, 0, 5, 0, 0),) * 2
_READ = (0, -40, 0, 40, -20), (0, 40, 0, 40, -60)


def _by_hand(i=_WRITE, f=_UNLESS_WRITE, g=_BIT, o=_READ):
    """Weights that do not look at h, two rows a gate."""

    def weights():
        rows = mt.tensor([*i, *f, *g, *o], dtype=mt.float64)
        return rows[:, :4], mt.zeros(8, 2), rows[:, 4]

    return weights


@two_bits.answer(hidden_cases=lambda draw: _bit_cases(draw, length=250, more=[(40, 0.9)]))
def two_bits():
    """W_ih (8, 4), W_hh (8, 2) and b (8) of an LSTM that keeps two bits."""
    W_ih = mt.tensor(
        [  # write, slot, bit, read
            [30.0, -30.0, 0.0, 0.0],  # i, unit 0: open to write, unless it is for slot 1
            [30.0, 30.0, 0.0, 0.0],  # i, unit 1: open if both are 1
            [-30.0, 30.0, 0.0, 0.0],  # f: open where i is shut
            [-30.0, -30.0, 0.0, 0.0],
            [0.0, 0.0, 4.0, 0.0],  # g: the bit
            [0.0, 0.0, 4.0, 0.0],
            [0.0, -30.0, 0.0, 30.0],  # o: as i, for read
            [0.0, 30.0, 0.0, 30.0],
        ]
    )
    b = mt.tensor([-15.0, -45.0, 15.0, 45.0, 0.0, 0.0, -15.0, -45.0])
    return W_ih, mt.zeros(8, 2), b


def _slots(pair, bias=(0, 0)):
    """The two rows with other biases."""
    return tuple((*row[:4], row[4] + more) for row, more in zip(pair, bias, strict=True))


def _without_slot(pair, row=None):
    """Rows that do not look at slot, as of unit 0 in slot 0."""
    return tuple((w, 0, bit, r, -20 if w + r > 0 else 20) for w, _, bit, r, _ in pair)


def _the_order_of_the():
    W_ih, W_hh, b = two_bits.reference()
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    return W_ih[order], W_hh, b[order]


# Right in another way


def bits_with_moderate_weights():
    W_ih = mt.zeros(8, 4)
    for k, sign in enumerate((-1, 1)):
        W_ih[k] = mt.tensor([24.0, 24.0 * sign, 0, 0])
        W_ih[2 + k] = mt.tensor([-24.0, -24.0 * sign, 0, 0])
        W_ih[4 + k, 2] = 2.0
        W_ih[6 + k] = mt.tensor([0, 16.0 * sign, 0, 16.0])
    return W_ih, mt.zeros(8, 2), mt.tensor([-12.0, -36, 12, 36, 0, 0, -8, -24])


def bits_that_are_read():
    W_ih = mt.zeros(8, 4, dtype=mt.float64)
    W_ih[0, :2], W_ih[1, :2] = mt.tensor([100.0, -100.0]), mt.tensor([100.0, 100.0])
    W_ih[2:4] = -W_ih[:2]
    W_ih[4:6, 2] = 50.0
    W_ih[6, 1], W_ih[6, 3], W_ih[7, 1], W_ih[7, 3] = -100.0, 100.0, 100.0, 100.0
    b = mt.tensor([-50, -150, 50, 150, 0, 0, -50, -150], dtype=mt.float64)
    return [W_ih, mt.ones(8, 2), b]


right = {
    "two_bits": [bits_with_moderate_weights, bits_that_are_read, _by_hand()],
}
