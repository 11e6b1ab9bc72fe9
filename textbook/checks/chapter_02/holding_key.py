"""Answers to the exercises of ``holding.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_02.cells import lstm_step
from textbook.checks.chapter_02.holding import _cases, without_each_cell


@without_each_cell.answer(
    hidden_cases=lambda draw: _cases(draw, sizes=((3, 60, 4, 6, 2), (9, 35, 1, 2, 3))),
    after_passing=(
        "Faster: all units at once, in H copies of the batch. And what was found is a cell that is "
        "needed; one that is enough is found by holding all others."
    ),
)
def without_each_cell(x, answers, W_ih, W_hh, b, W_out):
    """The share of right answers with each unit's cell held at its mean: (H)."""
    H, shares = W_hh.shape[1], []
    for unit in range(H):
        h = c = mt.zeros(x.shape[1], H, dtype=x.dtype)
        for x_t in x:
            i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            c[:, unit] = c[:, unit].mean()
            h = o.sigmoid() * c.tanh()
        right = (h @ W_out.T).argmax(dim=-1) == answers
        shares.append(right.float().mean())
    return mt.stack(shares)


def _means_of_a_free_run(x, W_ih, W_hh, b):
    """The mean cell of each step where nothing is held."""
    h = c = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
    means = []
    for x_t in x:
        h, c = lstm_step(x_t, h, c, W_ih, W_hh, b)
        means.append(c.mean(dim=0))
    return means


# Right in another way


def without_each_cell_in_copies(x, answers, W_ih, W_hh, b, W_out):
    """All units at once: a copy of the batch for each."""
    H = W_hh.shape[1]
    held = mt.eye(H).bool().unsqueeze(1)  # copy k holds unit k
    h = c = mt.zeros(H, x.shape[1], H, dtype=x.dtype)
    for x_t in x:
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        c = mt.where(held, c.mean(dim=1, keepdim=True), c)
        h = o.sigmoid() * c.tanh()
    return ((h @ W_out.T).argmax(dim=-1) == answers).double().mean(dim=1)


def without_each_cell_in_numpy(x, answers, W_ih, W_hh, b, W_out):
    x, answers, W_ih, W_hh, b, W_out = (z.numpy() for z in (x, answers, W_ih, W_hh, b, W_out))

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    n, H, shares = x.shape[1], W_hh.shape[1], []
    for k in range(H):
        h, c = np.zeros((n, H)), np.zeros((n, H))
        for x_t in x:
            a = (x_t @ W_ih.T + h @ W_hh.T + b).reshape(n, 4, H)
            c = sigmoid(a[:, 1]) * c + sigmoid(a[:, 0]) * np.tanh(a[:, 2])
            c[:, k] = np.average(c[:, k])
            h = sigmoid(a[:, 3]) * np.tanh(c)
        shares.append(np.mean(np.argmax(h @ W_out.T, axis=1) == answers))
    return mt.tensor(shares)


right = {
    "without_each_cell": [without_each_cell_in_copies, without_each_cell_in_numpy],
}
