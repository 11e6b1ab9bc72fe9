"""Recurrent networks step by step, forward and backward, and the text that they read."""

from textbook.plot import COLORS

FLOW = dict(arrowstyle="-|>", color="0.35", shrinkA=0, shrinkB=0)
BACK = dict(arrowstyle="-|>", color=COLORS[1], shrinkA=0, shrinkB=0, linewidth=2)
FEED = dict(arrowstyle="-|>", color=COLORS[0], shrinkA=0, shrinkB=0, linestyle="--", linewidth=1.5)


def folded(axes):
    """The cell with its loop, input below and output above, and the three weights."""
    _column(axes, 0, "$x_t$", ["$h_t$"], "$o_t$")
    axes.plot([0.3, 0.95, 0.95, 0.9], [1.15, 1.15, 0.85, 0.85], color="0.35", linewidth=1, ls="-")
    _arrow(axes, (0.9, 0.85), (0.3, 0.85))
    for x, y, name in ((0.12, 0.5, "W_{ih}"), (1.02, 1, "W_{hh}"), (0.12, 1.5, "W_o")):
        _label(axes, x, y, f"${name}$", ha="left")
    _frame(axes, (-0.6, 1.9), rows=1, title="folded")


def unrolled(axes, words):
    """The same network, one column a word, from $h_0$ on."""
    _state(axes, -1, 1, "$h_0$")
    for t, word in enumerate(words):
        _column(axes, t, word, [f"$h_{t + 1}$"], f"$o_{t + 1}$")
        _arrow(axes, (t - 0.77, 1), (t - 0.28, 1))
    for x, y, name in ((0.06, 0.5, "W_{ih}"), (-0.77, 1.22, "W_{hh}"), (0.06, 1.5, "W_o")):
        _label(axes, x, y, f"${name}$", ha="left")
    _frame(axes, (-1.4, len(words) - 0.5), rows=1, title="unrolled")


def deep(axes, words):
    """Two layers, the states of the lower being the inputs of the upper."""
    for t, word in enumerate(words):
        _column(axes, t, word, [f"$h_{t + 1}^{{({layer})}}$" for layer in (1, 2)], f"$o_{t + 1}$")
        for y in (1, 2) if t else ():
            _arrow(axes, (t - 0.7, y), (t - 0.3, y))
    _frame(axes, (-0.5, len(words) - 0.5), rows=2, title="deep: two layers")


def bidirectional(axes, words):
    """One network from the left, one from the right, their states side by side."""
    for t, word in enumerate(words):
        _label(axes, t, 0, word)
        for y, side, name in ((1, -0.2, "f"), (2, 0.2, "b")):
            _state(axes, t + side, y, f"$h_{t + 1}^{{({name})}}$")
            _arrow(axes, (t + side / 3, 0.15), (t + side, y - 0.24))
            _arrow(axes, (t + side, y + 0.24), (t + side / 2, 2.85))
        _label(axes, t, 3, f"$[h_{t + 1}^{{(f)}}, h_{t + 1}^{{(b)}}]$")
        if t:
            _arrow(axes, (t - 0.93, 1), (t - 0.48, 1))
            _arrow(axes, (t - 0.07, 2), (t - 0.52, 2))
    _frame(axes, (-0.6, len(words) - 0.4), rows=2, title="bidirectional")


def backward(axes):
    """Forward arrows thin, backward arrows thick: two of them lead into every state."""
    for x, step in enumerate(("t - 1", "t", "t + 1")):
        _label(axes, 2 * x, 0, f"$x_{{{step}}}$")
        _arrow(axes, (2 * x, 0.15), (2 * x, 0.76))
        _state(axes, 2 * x, 1, f"$h_{{{step}}}$")
        _arrow(axes, (2 * x - 0.06, 1.24), (2 * x - 0.06, 1.85))
        _arrow(axes, (2 * x + 0.06, 1.85), (2 * x + 0.06, 1.24), BACK)
        _label(axes, 2 * x, 2, f"$\\ell_{{{step}}}$")
    for x in (-1.7, 0.3, 2.3, 4.3):
        _arrow(axes, (x, 1.06), (x + 1.4, 1.06))
        _arrow(axes, (x + 1.4, 0.94), (x, 0.94), BACK)
    _label(axes, 2.15, 1.6, "$\\partial \\ell_t / \\partial h_t$", ha="left")
    _label(axes, 3, 0.7, "$\\partial L / \\partial a_{t+1} \\; W_{hh}$")
    _frame(axes, (-1.8, 5.8), rows=1, title="")


def streams(axes, numbers, window, title):
    """A text as the columns of ``numbers`` (steps, B), cut into windows.

    An arrow leads from each column's last token in a window to the first that it meets in the next:
    solid where the text goes on, dashed where it does not.
    """
    for row, tokens in enumerate(numbers):
        y = -row - 0.8 * (row // window)
        for column, token in enumerate(tokens):
            shade = ("0.95", "0.85")[row // window % 2]
            axes.bar(column, 0.9, 0.9, y - 0.45, color=shade)
            axes.text(column, y, str(token), ha="center", va="center")
            if row % window == 0 and row:
                goes_on = token == numbers[row - 1][column] + 1
                way = (
                    (FLOW | dict(linewidth=2, color=COLORS[0])) if goes_on else BACK | dict(ls=":")
                )
                _arrow(axes, (column, y + 1.35), (column, y + 0.45), way)
    axes.set(xlim=(-0.6, len(numbers[0]) - 0.4), title=title, aspect="equal")
    axes.axis("off")


def tasks(panels, words):
    """Three ways to ask: an answer at every step, one from the last state, one from the mean."""
    titles = ("an answer at every step", "from the last state", "from the mean of all states")
    for axes, title in zip(panels, titles, strict=True):
        last = len(words) - 1
        for t, word in enumerate(words):
            every = axes is panels[0]
            _label(axes, t, 0, word)
            _arrow(axes, (t, 0.15), (t, 0.76))
            _state(axes, t, 1, f"$h_{t + 1}$")
            if t:
                _arrow(axes, (t - 0.7, 1), (t - 0.3, 1))
            if every:
                _arrow(axes, (t, 1.24), (t, 1.85))
                _label(axes, t, 2, f"$o_{t + 1}$")
            elif axes is panels[2]:
                _arrow(axes, (t, 1.24), (last / 2 + 0.1 * (t - last / 2), 1.85))
        if axes is panels[1]:
            _arrow(axes, (last, 1.24), (last, 1.85))
        if axes is not panels[0]:
            _label(axes, last if axes is panels[1] else last / 2, 2, "$o$")
        _frame(axes, (-0.5, last + 0.5), rows=1, title=title)


def fading(axes, factor, width, steps=8):
    """A gradient that goes back from the last state: ``width``, then ``factor`` times it."""
    for t in range(steps):
        _state(axes, t, 1, f"$h_{t + 1}$")
        if t < steps - 1:
            here = width * factor ** (steps - 2 - t)
            way = BACK | dict(linewidth=here, arrowstyle="-", alpha=0.8)
            axes.annotate("", (t + 0.28, 1), (t + 0.72, 1), arrowprops=way)
    _label(axes, steps - 1, 2, "$\\ell_T$")
    _arrow(axes, (steps - 1, 1.85), (steps - 1, 1.24), BACK)
    axes.set(xlim=(-0.5, steps - 0.5), ylim=(0.4, 2.3))
    axes.set_title(f"each step back multiplies by {factor}", loc="left")
    axes.axis("off")


def truncated(axes, window, count, delay):
    """States that go on from window to window, gradients that stop; a target and its symbol."""
    for t in range(window * count):
        x = t + 0.8 * (t // window)
        axes.bar(x, 0.9, 0.9, 0.55, color=("0.95", "0.85")[t // window % 2])
        _label(axes, x, 1, f"$h_{{{t + 1}}}$")
        if t:
            before = t - 1 + 0.8 * ((t - 1) // window)
            _arrow(axes, (before + 0.3, 1.15), (x - 0.3, 1.15))
            if t % window:
                _arrow(axes, (x - 0.3, 0.85), (before + 0.3, 0.85), BACK)
    end = window * count - 1
    asked, symbol = (t + 0.8 * (t // window) for t in (end, end - delay))
    bend = FEED | dict(connectionstyle="arc3,rad=0.25")
    _arrow(axes, (asked, 1.5), (symbol, 1.5), bend)
    middle = (asked + symbol) / 2
    axes.text(middle, 2.75, f"asked for: {delay} steps back", ha="center", color=COLORS[0])
    axes.set(xlim=(-0.7, asked + 0.7), ylim=(0.3, 3.1))
    axes.axis("off")


def language_model(axes, words, writing):
    """Inputs below, outputs above: the true token before, or, in writing, what was drawn."""
    for t, (token, following) in enumerate(zip(["<s>", *words], words, strict=False)):
        drawn = writing and t > 0
        _column(axes, t, "" if drawn else token, [f"$h_{t + 1}$"], following)
        if drawn:
            axes.text(t, 0, token, ha="center", va="center", style="italic", color=COLORS[0])
            bend = FEED | dict(connectionstyle="arc3,rad=-0.08")
            _arrow(axes, (t - 0.75, 2), (t - 0.3, 0.05), bend)
        if t:
            _arrow(axes, (t - 0.72, 1), (t - 0.28, 1))
    _frame(axes, (-0.5, len(words) - 0.3), rows=1, title="writing" if writing else "training")


def _column(axes, x, below, states, above):
    """An input, the states over it, and the output on top."""
    _label(axes, x, 0, below)
    for y, state in enumerate(states, start=1):
        _arrow(axes, (x, y - (0.85 if y == 1 else 0.76)), (x, y - 0.24))
        _state(axes, x, y, state)
    top = len(states) + 1
    _arrow(axes, (x, top - 0.76), (x, top - 0.15))
    _label(axes, x, top, above)


def _state(axes, x, y, text):
    box = dict(boxstyle="round,pad=0.35", facecolor="0.9", edgecolor="0.3")
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box)


def _label(axes, x, y, text, ha="center"):
    axes.text(x, y, text, ha=ha, va="center", fontsize=9)


def _arrow(axes, start, end, style=FLOW):
    axes.annotate("", end, start, arrowprops=style)


def _frame(axes, xlim, rows, title):
    axes.set(xlim=xlim, ylim=(-0.3, rows + 1.4), title=title)
    axes.axis("off")
