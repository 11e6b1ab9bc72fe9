"""Recurrent cells with their gates, each between its neighbours, and a word that is kept."""

from textbook.plot.style import COLORS, rectangle

INK, FAINT = "0.3", "0.86"
FLOW = dict(arrowstyle="-|>", shrinkA=0, shrinkB=0)
WAY = {"linewidth": 3, "mutation_scale": 16}  # the straight line on top


def kept_word(axes, words, written, kept, shown, what):
    """A sentence below a memory: where ``what`` is written, kept over other words, and shown."""
    for place, word in enumerate(words):
        strong = place in (written, shown)
        axes.text(place, 0, word, ha="center", va="center", weight="bold" if strong else "normal")
    pen = _Pen(axes)
    pen.arrow((written, 0.25), (written, 0.95), color=COLORS[0], **WAY)
    pen.line((written, 1), (shown, 1), color=COLORS[0], linewidth=3)
    pen.arrow((shown, 0.95), (shown, 0.25), color=COLORS[0], **WAY)
    for place, y, text in (
        (written - 0.12, 0.6, "write"),
        ((kept[0] + kept[-1]) / 2, 1.22, f"keep: {what}"),
        (shown - 0.12, 0.6, "show"),
    ):
        axes.text(place, y, text, ha="center" if y > 1 else "right", va="center", color=COLORS[0])
    for place in kept:
        pen.arrow((place, 0.2), (place, 0.5), color="0.6")
        axes.plot([place - 0.18, place + 0.18], [0.58, 0.58], color="0.6", linewidth=2, ls="-")
    pen.label((kept[0] + kept[-1]) / 2, 0.76, "not let in")
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.3, 1.5))
    axes.axis("off")


def gates_over(axes, words, gates):
    """Which gate is open (a full circle) and which is closed (an empty one) at each word.

    ``gates`` has a row of 0 and 1, one a word, for each gate's name.
    """
    for row, (name, opened) in enumerate(gates.items()):
        axes.text(-0.9, -row, name, ha="right", va="center")
        for place, is_open in enumerate(opened):
            face = COLORS[0] if is_open else "white"
            axes.plot(place, -row, "o", markersize=13, markeredgecolor=INK, markerfacecolor=face)
    for place, word in enumerate(words):
        axes.text(place, 0.75, word, ha="center", va="center")
    axes.set(xlim=(-4.2, len(words) - 0.4), ylim=(-len(gates) + 0.4, 1.1))
    axes.axis("off")


def through_gates(axes, gate, title, steps=9):
    """A gradient on its way back along the top line: each forget gate multiplies it by ``gate``."""
    pen = _Pen(axes)
    for t in range(steps):
        pen.box(t, 0, f"$c_{t + 1}$")
        if t < steps - 1:
            width = 9 * gate ** (steps - 2 - t)
            way = dict(arrowstyle="-", color=COLORS[1], linewidth=width, shrinkA=0, shrinkB=0)
            axes.annotate("", (t + 0.25, 0), (t + 0.75, 0), arrowprops=way)
            axes.text(t + 0.5, 0.42, f"× {gate:.2f}", ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.4, steps - 0.6), ylim=(-0.4, 0.6))
    axes.set_title(
        f"{title}: {gate ** (steps - 1):.1g} of it arrives at $c_1$", loc="left", fontsize=10
    )
    axes.axis("off")


def lstm(axes, lit=None):
    """The flow of one LSTM step: the memory cell runs along the top, the hidden state below.

    ``lit`` names the parts that are drawn dark, of "keep", "write" and "show"; then the neighbours
    are left out.
    """
    pen = _Pen(axes, lit)
    _surroundings(pen, top=3)
    pen.arrow((-0.9, 3), (8, 3), "keep", color=COLORS[0], **WAY)
    pen.line((-0.2, 0), (5.7, 0))
    pen.arrow((-0.2, -0.8), (-0.2, 0))
    pen.arrow((-0.9, 0), (-0.2, 0))
    pen.label(-0.2, -0.98, "$x_t$")
    pen.label(-0.68, 0.25, "$h_{t-1}$")
    for x, gate, part in (
        (0.9, "forget gate\n$f_t$: $\\sigma$", "keep"),
        (2.5, "input gate\n$i_t$: $\\sigma$", "write"),
        (4.0, "candidate\n$g_t$: tanh", "write"),
        (5.7, "output gate\n$o_t$: $\\sigma$", "show"),
    ):
        pen.arrow((x, 0), (x, 0.75), part)
        pen.box(x, 1.1, gate, part)
    pen.arrow((0.9, 1.45), (0.9, 2.82), "keep")
    pen.arrow((2.5, 1.45), (3.1, 1.98), "write")
    pen.arrow((4.0, 1.45), (3.4, 1.98), "write")
    pen.arrow((3.25, 2.25), (3.25, 2.82), "write")
    pen.arrow((4.8, 3), (4.8, 2.4), "show")
    pen.arrow((4.8, 2.15), (5.52, 2.15), "show")
    pen.arrow((5.7, 1.45), (5.7, 1.97), "show")
    pen.line((5.85, 2.15), (6.6, 2.15), (6.6, 0), part="show")
    pen.arrow((6.6, 0), (8, 0), "show")
    for x, y, sign, part in (
        (0.9, 3, "×", "keep"),
        (3.25, 3, "+", "write"),
        (3.25, 2.1, "×", "write"),
        (5.7, 2.15, "×", "show"),
    ):
        pen.sign(x, y, sign, part)
    pen.box(4.8, 2.15, "tanh", "show", shade="white")
    pen.label(-0.68, 3.25, "$c_{t-1}$", "keep")
    pen.label(7.6, 3.25, "$c_t$", "keep")
    pen.label(7.6, 0.25, "$h_t$", "show")


def gru(axes):
    """The flow of one GRU step: the only state runs along the top; r acts after the product."""
    pen, top = _Pen(axes), 3.9
    _surroundings(pen, top)
    pen.arrow((-0.9, top), (8, top), color=COLORS[0], **WAY)
    pen.line((-0.2, 0), (4.4, 0))
    pen.arrow((-0.2, -0.8), (-0.2, 0))
    pen.label(-0.2, -0.98, "$x_t$")
    pen.line((-0.2, top), (-0.2, 0.35), (4.2, 0.35))
    for x, gate in (
        (0.9, "reset gate\n$r_t$: $\\sigma$"),
        (2.6, "candidate\n$n_t$: tanh"),
        (4.3, "update gate\n$z_t$: $\\sigma$"),
    ):
        pen.box(x, 1.1, gate)
    for x in (1.0, 2.6, 4.4):
        pen.arrow((x, 0), (x, 0.75))
    for x in (0.8, 4.2):
        pen.arrow((x, 0.35), (x, 0.75))
    pen.arrow((0.9, top), (0.9, 3.3))
    pen.box(0.9, 3.0, "$W_{hh}^n$, $b_{hh}^n$", shade="white")
    pen.arrow((0.9, 2.72), (0.9, 2.33))
    pen.arrow((0.9, 1.45), (0.9, 1.97))
    pen.line((1.07, 2.15), (2.3, 2.15))
    pen.arrow((2.3, 2.15), (2.3, 1.45))
    pen.arrow((4.3, 1.45), (4.3, top - 0.18))
    pen.arrow((4.95, 1.1), (5.25, 1.1))
    pen.arrow((5.7, 1.4), (5.7, 2.32))
    pen.line((2.9, 1.45), (2.9, 2.5), (4.2, 2.5))
    pen.arrow((4.4, 2.5), (5.52, 2.5))
    pen.arrow((5.7, 2.68), (5.7, top - 0.18))
    for x, y, sign in ((0.9, 2.15, "×"), (4.3, top, "×"), (5.7, 2.5, "×"), (5.7, top, "+")):
        pen.sign(x, y, sign)
    pen.box(5.7, 1.1, "$1 - z_t$", shade="white")
    pen.label(-0.68, top + 0.25, "$h_{t-1}$")
    pen.label(7.6, top + 0.25, "$h_t$")


def _surroundings(pen, top):
    """The cell of step t as a frame, those before and after it as closed boxes."""
    left, right = (-1.2, 8.1) if pen.lit else (-2.4, 9.5)
    pen.frame(-0.45, 7.15, top, shade="white")
    for x, step in () if pen.lit else ((-2.3, "t - 1"), (8, "t + 1")):
        pen.frame(x, x + 1.4, top, shade="0.93")
        pen.label(x + 0.7, top / 2, f"the same\ncell,\nstep ${step}$")
    pen.axes.set(xlim=(left, right), ylim=(-1.15, top + 0.6))
    pen.axes.axis("off")


class _Pen:
    """Draws on the axes: dark what has no part, or one that is lit; the other parts faint."""

    def __init__(self, axes, lit=None):
        self.axes, self.lit = axes, lit

    def _ink(self, part, color=INK):
        return color if part is None or not self.lit or part in self.lit else FAINT

    def arrow(self, start, end, part=None, color=INK, **style):
        style = FLOW | {"color": self._ink(part, color)} | style
        self.axes.annotate("", end, start, arrowprops=style)

    def line(self, *points, part=None, color=INK, linewidth=1):
        self.axes.plot(
            *zip(*points, strict=True), color=self._ink(part, color), linewidth=linewidth, ls="-"
        )

    def box(self, x, y, text, part=None, shade="0.9"):
        ink = self._ink(part)
        face = shade if ink == INK else "white"
        if ink == INK and self.lit and part:
            face = "#fff0c8"
        self._text(x, y, text, ink, dict(boxstyle="round,pad=0.3", facecolor=face, edgecolor=ink))

    def sign(self, x, y, sign, part=None):
        ink = self._ink(part)
        box = dict(boxstyle="circle,pad=0.15", facecolor="white", edgecolor=ink)
        self._text(x, y, sign, ink, box)

    def label(self, x, y, text, part=None):
        self._text(x, y, text, self._ink(part), None)

    def frame(self, left, right, top, shade):
        size = right - left, top + 0.95
        rectangle(self.axes, left, -0.45, *size, facecolor=shade, edgecolor="0.6")

    def _text(self, x, y, text, ink, box):
        ink = "black" if ink == INK else ink
        self.axes.text(x, y, text, ha="center", va="center", fontsize=9, color=ink, bbox=box)
