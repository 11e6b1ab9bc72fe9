"""Recurrent cells with their gates, each between its neighbours in time."""

from textbook.plot import COLORS

FLOW = dict(arrowstyle="-|>", color="0.3", shrinkA=0, shrinkB=0)


def lstm(axes):
    """The flow of one LSTM step: the memory cell runs along the top, the hidden state below."""
    _neighbours(axes)
    _arrow(axes, (-0.9, 3), (8, 3), linewidth=3, color=COLORS[0])
    _bus(axes, right=5.7)
    _arrow(axes, (-0.9, 0), (-0.2, 0))
    _label(axes, -0.68, 0.25, "$h_{t-1}$")
    for x, gate in (
        (0.9, "forget gate\n$f_t$: $\\sigma$"),
        (2.5, "input gate\n$i_t$: $\\sigma$"),
        (4.0, "candidate\n$g_t$: tanh"),
        (5.7, "output gate\n$o_t$: $\\sigma$"),
    ):
        _arrow(axes, (x, 0), (x, 0.75))
        _box(axes, x, 1.1, gate)
    _arrow(axes, (0.9, 1.45), (0.9, 2.82))
    _arrow(axes, (2.5, 1.45), (3.1, 1.98))
    _arrow(axes, (4.0, 1.45), (3.4, 1.98))
    _arrow(axes, (3.25, 2.25), (3.25, 2.82))
    _arrow(axes, (4.8, 3), (4.8, 2.4))
    _arrow(axes, (4.8, 2.15), (5.52, 2.15))
    _arrow(axes, (5.7, 1.45), (5.7, 1.97))
    _line(axes, (5.85, 2.15), (6.6, 2.15), (6.6, 0))
    _arrow(axes, (6.6, 0), (8, 0))
    for x, y, sign in ((0.9, 3, "×"), (3.25, 3, "+"), (3.25, 2.1, "×"), (5.7, 2.15, "×")):
        _sign(axes, x, y, sign)
    _box(axes, 4.8, 2.15, "tanh", shade="white")
    _label(axes, -0.55, 3.25, "$c_{t-1}$")
    _label(axes, 7.6, 3.25, "$c_t$")
    _label(axes, 7.6, 0.25, "$h_t$")


def gru(axes):
    """The flow of one GRU step: the only state runs along the top."""
    _neighbours(axes)
    _arrow(axes, (-0.9, 3), (8, 3), linewidth=3, color=COLORS[0])
    _bus(axes, right=4.2)
    _line(axes, (-0.2, 3), (-0.2, 0.35), (2.5, 0.35))
    _line(axes, (2.7, 0.35), (4.0, 0.35))
    for x, gate in (
        (0.9, "reset gate\n$r_t$: $\\sigma$"),
        (2.6, "candidate\n$n_t$: tanh"),
        (4.1, "update gate\n$z_t$: $\\sigma$"),
    ):
        _box(axes, x, 1.1, gate)
    for x in (1.0, 2.6, 4.2):
        _arrow(axes, (x, 0), (x, 0.75))
    for x in (0.8, 4.0):
        _arrow(axes, (x, 0.35), (x, 0.75))
    _arrow(axes, (0.9, 1.45), (0.9, 1.92))
    _arrow(axes, (0.9, 3), (0.9, 2.28))
    _line(axes, (1.07, 2.1), (2.3, 2.1))
    _arrow(axes, (2.3, 2.1), (2.3, 1.45))
    _arrow(axes, (4.1, 1.45), (4.1, 2.82))
    _arrow(axes, (4.75, 1.1), (5.15, 1.1))
    _arrow(axes, (5.6, 1.4), (5.6, 1.92))
    _line(axes, (2.9, 1.45), (2.9, 2.1), (4.0, 2.1))
    _arrow(axes, (4.2, 2.1), (5.42, 2.1))
    _arrow(axes, (5.6, 2.28), (5.6, 2.82))
    for x, y, sign in ((0.9, 2.1, "×"), (4.1, 3, "×"), (5.6, 2.1, "×"), (5.6, 3, "+")):
        _sign(axes, x, y, sign)
    _box(axes, 5.6, 1.1, "$1 - z_t$", shade="white")
    _label(axes, -0.55, 3.25, "$h_{t-1}$")
    _label(axes, 7.6, 3.25, "$h_t$")


def _neighbours(axes):
    """The cell of step t as a frame, those before and after it as closed boxes."""
    _frame(axes, -0.45, 7.15, shade="white")
    for x, step in ((-2.3, "t - 1"), (8, "t + 1")):
        _frame(axes, x, x + 1.4, shade="0.93")
        _label(axes, x + 0.7, 1.5, f"the same\ncell,\nstep ${step}$")
    axes.set(xlim=(-2.4, 9.5), ylim=(-1.15, 3.6))
    axes.axis("off")


def _frame(axes, left, right, shade):
    corners = [left, right, right, left], [-0.45, -0.45, 3.5, 3.5]
    axes.fill(*corners, facecolor=shade, edgecolor="0.6", linewidth=1, linestyle="-")


def _bus(axes, right):
    """The input comes from below and goes to every gate."""
    _line(axes, (-0.2, 0), (right, 0))
    _arrow(axes, (-0.2, -0.8), (-0.2, 0))
    _label(axes, -0.2, -0.98, "$x_t$")


def _arrow(axes, start, end, **style):
    axes.annotate("", end, start, arrowprops=FLOW | style)


def _line(axes, *points):
    axes.plot(*zip(*points, strict=True), color="0.3", linewidth=1, linestyle="-")


def _box(axes, x, y, text, shade="0.9"):
    box = dict(boxstyle="round,pad=0.3", facecolor=shade, edgecolor="0.3")
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box)


def _sign(axes, x, y, sign):
    box = dict(boxstyle="circle,pad=0.15", facecolor="white", edgecolor="0.3")
    axes.text(x, y, sign, ha="center", va="center", bbox=box)


def _label(axes, x, y, text):
    axes.text(x, y, text, ha="center", va="center", fontsize=9)
