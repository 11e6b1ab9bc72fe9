"""Answers to the exercises of ``cells.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.operations.recurrent import lstm as whole_lstm
from textbook.checks.chapter_02.cells import _cell_cases, _moving_cases, moved_gru, peephole_cell

# Gates that see the memory


@peephole_cell.answer(hidden_cases=lambda draw: _cell_cases(draw, more=[(5, 4, 3, 1)]))
def peephole_cell(x_t, h, c, W_ih, W_hh, b, peepholes):
    """Input (B, d) and old states (B, H) give the new h and the new c, each (B, H)."""
    p_i, p_f, p_o = peepholes  # (H) each
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)  # (B, H) each
    c = (f + p_f * c).sigmoid() * c + (i + p_i * c).sigmoid() * g.tanh()
    return (o + p_o * c).sigmoid() * c.tanh(), c


# A GRU that was trained elsewhere


@moved_gru.answer(hidden_cases=lambda draw: _moving_cases(draw, more=[(6, 2), (1, 5)]))
def moved_gru(kernel, recurrent, bias):
    """kernel (d, 3 H), recurrent (H, 3 H), bias (2, 3 H) give W_ih, W_hh, b_ih and b_hh."""

    def moved(columns):
        z, r, n = columns.chunk(3, dim=-1)
        return mt.cat([r, -z, n], dim=-1)  # sigmoid(-a) is 1 - sigmoid(a)

    b_ih, b_hh = moved(bias)
    return moved(kernel).T, moved(recurrent).T, b_ih, b_hh


# Right in another way


def peephole_with_one_matrix(x_t, h, c, W_ih, W_hh, b, peepholes):
    a = mt.cat([x_t, h], dim=1) @ mt.cat([W_ih, W_hh], dim=1).T + b
    size = h.shape[1]
    seen = a[:, : 2 * size] + mt.cat([peepholes[0] * c, peepholes[1] * c], dim=1)
    i, f = seen.sigmoid().chunk(2, dim=1)
    new = f * c + i * mt.tanh(a[:, 2 * size : 3 * size])
    return mt.sigmoid(a[:, 3 * size :] + peepholes[2] * new) * mt.tanh(new), new


def peephole_unit_by_unit(x_t, h, c, W_ih, W_hh, b, peepholes):
    """Without any matrix product."""
    rows = [(x_t * W_ih[k]).sum(1) + (h * W_hh[k]).sum(1) + b[k] for k in range(len(b))]
    i, f, g, o = mt.stack(rows, dim=1).split(h.shape[1], dim=1)
    new = mt.sigmoid(f + peepholes[1] * c) * c + mt.sigmoid(i + peepholes[0] * c) * g.tanh()
    return [mt.sigmoid(o + peepholes[2] * new) * new.tanh(), new]


def peephole_with_float(x_t, h, c, W_ih, W_hh, b, peepholes):
    """The tanh by a sigmoid."""
    a = mt.einsum("bd,kd->bk", x_t, W_ih) + mt.einsum("bh,kh->bk", h, W_hh) + b.float()
    i, f, g, o = a.reshape(len(h), 4, -1).unbind(1)
    c = (f + c * peepholes[1]).sigmoid() * c + (i + c * peepholes[0]).sigmoid() * (
        2 * (2 * g).sigmoid() - 1
    )
    return (o + c * peepholes[2]).sigmoid() * c.tanh(), c


def peephole_by_linear(x_t, h, c, W_ih, W_hh, b, peepholes):
    i, f, g, o = (F.linear(x_t, W_ih, b) + F.linear(h, W_hh)).chunk(4, 1)
    c = (f + peepholes[1] * c).sigmoid() * c + (i + peepholes[0] * c).sigmoid() * g.tanh()
    return (o + peepholes[2] * c).sigmoid() * c.tanh(), c


def peephole_by_the_layer(x_t, h, c, W_ih, W_hh, b, peepholes):
    """Each gate's sum gets its peephole as a bias of the library's LSTM, one sequence at a time."""
    first = []
    for row in range(len(x_t)):
        p_i, p_f, p_o = peepholes
        zero = mt.zeros(h.shape[1], dtype=h.dtype)
        more = mt.cat([p_i * c[row], p_f * c[row], zero, zero])
        one = x_t[row : row + 1][None], h[row : row + 1], c[row : row + 1]
        _, _, new = whole_lstm(*one, W_ih, W_hh, b + more)
        more = mt.cat([p_i * c[row], p_f * c[row], zero, p_o * new[0]])
        first.append(whole_lstm(*one, W_ih, W_hh, b + more)[1:])
    return tuple(mt.cat(parts) for parts in zip(*first, strict=True))


def moved_block_by_block(kernel, recurrent, bias):
    H = recurrent.shape[0]
    z, r, n = (slice(k * H, (k + 1) * H) for k in range(3))
    W_ih = mt.cat([kernel[:, r].T, -kernel[:, z].T, kernel[:, n].T])
    W_hh = mt.cat([recurrent[:, r].T, -recurrent[:, z].T, recurrent[:, n].T])
    b_ih, b_hh = (mt.cat([row[r], -row[z], row[n]]) for row in bias)
    return [W_ih, W_hh, b_ih, b_hh]


def moved_with_numpy(kernel, recurrent, bias):
    """The biases of both gates are added up; that of the candidate is not."""
    H = len(recurrent)
    order = np.r_[H : 2 * H, 0:H, 2 * H : 3 * H]
    sign = np.repeat([1.0, -1.0, 1.0], H)
    W_ih, W_hh = (x.numpy()[:, order].T * sign[:, None] for x in (kernel, recurrent))
    b_ih, b_hh = bias.numpy()[:, order] * sign
    both = np.concatenate([b_ih[: 2 * H] + b_hh[: 2 * H], b_ih[2 * H :]])
    rest = np.concatenate([np.zeros(2 * H), b_hh[2 * H :]])
    return tuple(map(mt.tensor, (W_ih, W_hh, both, rest)))


right = {
    "peephole_cell": [peephole_with_one_matrix, peephole_unit_by_unit, peephole_with_float],
    "moved_gru": [moved_block_by_block, moved_with_numpy],
}
refused = {
    "peephole_cell": [peephole_by_linear, peephole_by_the_layer],
}
