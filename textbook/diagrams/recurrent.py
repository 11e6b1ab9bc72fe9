"""Recurrent networks step by step, forward and backward, and the text that they read."""

from textbook.plot import COLORS

FLOW = dict(arrowstyle="-|>", color="0.35", shrinkA=0, shrinkB=0)
BACK = dict(arrowstyle="-|>", color=COLORS[1], shrinkA=0, shrinkB=0, linewidth=2)
WEIGHTS = {"W_{ih}": COLORS[0], "W_{hh}": COLORS[2], "W_o": COLORS[3]}  # one matrix, one color
LAYERS = COLORS[2], COLORS[0]
FEED = dict(arrowstyle="-|>", color=COLORS[0], shrinkA=0, shrinkB=0, linestyle="--", linewidth=1.5)


def folded(axes):
    """The cell with its loop, input below and output above, and the three weights."""
    _shared(axes, 0, "$x_t$", "$h_t$", "$o_t$")
    loop = dict(color=WEIGHTS["W_{hh}"], linewidth=1.5, linestyle="-")
    axes.plot([0.3, 0.95, 0.95, 0.85], [1.15, 1.15, 0.85, 0.85], **loop)
    _arrow(axes, (0.9, 0.85), (0.3, 0.85), _way(WEIGHTS["W_{hh}"]))
    _label(axes, 1.02, 1, "$W_{hh}$", ha="left", color=WEIGHTS["W_{hh}"])
    _frame(axes, (-0.6, 1.9), rows=1, title="folded")


def unrolled(axes, words):
    """The same network, one column a word, from $h_0$ on; each use of a matrix has its color."""
    _state(axes, -1, 1, "$h_0$")
    for t, word in enumerate(words):
        _shared(axes, t, word, f"$h_{t + 1}$", f"$o_{t + 1}$")
        _arrow(axes, (t - 0.77, 1), (t - 0.28, 1), _way(WEIGHTS["W_{hh}"]))
        _label(axes, t - 0.53, 1.22, "$W_{hh}$", color=WEIGHTS["W_{hh}"])
    _frame(axes, (-1.4, len(words) - 0.4), rows=1, title="unrolled: one color, one matrix")


def deep(axes, words):
    """Two layers, the states of the lower being the inputs of the upper."""
    for y, color in enumerate(LAYERS, start=1):
        _label(axes, -0.45, y, f"layer {y}", ha="right", color=color)
        for t in range(len(words)):
            _arrow(axes, (t, y - (0.85 if y == 1 else 0.76)), (t, y - 0.24), _way(color))
            _state(axes, t, y, f"$h_{t + 1}^{{({y})}}$", color)
            if t:
                _arrow(axes, (t - 0.7, y), (t - 0.3, y), _way(color))
    for t, word in enumerate(words):
        _label(axes, t, 0, word)
        _arrow(axes, (t, 2.24), (t, 2.85))
        _label(axes, t, 3, f"$o_{t + 1}$")
    _frame(axes, (-1.1, len(words) - 0.5), rows=2, title="deep: two layers")


def bidirectional(axes, words):
    """One network from the left, one from the right, their states side by side."""
    for y, side, name, color in ((1, -0.2, "f", LAYERS[0]), (2, 0.2, "b", LAYERS[1])):
        reads = "forward" if name == "f" else "backward"
        _label(axes, -0.6, y, f"reads\n{reads}", ha="right", color=color)
        for t in range(len(words)):
            _arrow(axes, (t + side / 3, 0.15), (t + side, y - 0.24), _way(color))
            _arrow(axes, (t + side, y + 0.24), (t + side / 2, 2.85), _way(color))
            _state(axes, t + side, y, f"$h_{t + 1}^{{({name})}}$", color)
            if t and name == "f":
                _arrow(axes, (t - 0.93, 1), (t - 0.48, 1), _way(color))
            elif t:
                _arrow(axes, (t - 0.07, 2), (t - 0.52, 2), _way(color))
    for t, word in enumerate(words):
        _label(axes, t, 0, word)
        _label(axes, t, 3, f"$[h_{t + 1}^{{(f)}}, h_{t + 1}^{{(b)}}]$")
    _frame(axes, (-1.3, len(words) - 0.4), rows=2, title="bidirectional")


def backward(axes):
    """Backward arrows: two lead into every state, and each use of $W_{hh}$ adds a share."""
    shared, back = WEIGHTS["W_{hh}"], BACK["color"]
    share = dict(color=shared, linestyle="--", linewidth=1.5)
    for x, step in enumerate(("t - 1", "t", "t + 1")):
        _label(axes, 2 * x, 0, f"$x_{{{step}}}$")
        _arrow(axes, (2 * x, 0.15), (2 * x, 0.76))
        _arrow(axes, (2 * x - 0.06, 1.24), (2 * x - 0.06, 1.85))
        _arrow(axes, (2 * x + 0.06, 1.85), (2 * x + 0.06, 1.24), BACK)
        _label(axes, 2 * x, 2, f"$\\ell_{{{step}}}$")
    for x in (-1, 1, 3, 5):
        _arrow(axes, (x - 0.7, 1.06), (x + 0.7, 1.06), _way(shared))
        _arrow(axes, (x + 0.7, 0.94), (x - 0.7, 0.94), BACK)
        axes.plot([x, x], [0.86, -0.5], **share)
    axes.plot([-1, 5], [-0.5, -0.5], **share)
    _arrow(axes, (2, -0.5), (2, -0.75), _way(shared))
    for x, step in enumerate(("t - 1", "t", "t + 1")):
        _state(axes, 2 * x, 1, f"$h_{{{step}}}$")
    _label(axes, 1, 1.22, "$W_{hh}$", color=shared)
    own, later = "\\partial \\ell_t / \\partial h_t", "\\partial L / \\partial a_{t+1} \\; W_{hh}"
    _label(axes, 2.18, 1.75, f"from its own loss: ${own}$", ha="left", color=back)
    _label(axes, 3, 1.36, f"from the next state:\n${later}$", color=back)
    part = "$(\\partial L / \\partial a_t)^\\top h_{t-1}$"
    _label(axes, 1.08, -0.26, f"share: {part}", ha="left", color=shared)
    total = "$\\partial L / \\partial W_{hh}$ = the sum of all shares"
    _state(axes, 2, -0.97, total, shared)
    axes.set(xlim=(-1.8, 5.8), ylim=(-1.2, 2.2))
    axes.axis("off")


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
        arrives = factor ** (steps - 1 - t)
        _label(axes, t, 0.45, f"{arrives:.2g}", color=BACK["color"])
        if t < steps - 1:
            here = width * factor ** (steps - 2 - t)
            way = BACK | dict(linewidth=here, arrowstyle="-", alpha=0.8)
            axes.annotate("", (t + 0.28, 1), (t + 0.72, 1), arrowprops=way)
    _label(axes, steps - 1, 2, "$\\ell_T$")
    _arrow(axes, (steps - 1, 1.85), (steps - 1, 1.3), BACK)
    axes.set(xlim=(-0.5, steps - 0.5), ylim=(0.2, 2.3))
    axes.set_title(f"each step back multiplies by {factor}", loc="left")
    axes.axis("off")


def truncated(axes, window, count, delay):
    """States that go on from window to window, gradients that stop; a target and its symbol."""
    gap = 1.1
    places = [t + gap * (t // window) for t in range(window * count)]
    for number, first in enumerate(places[::window], start=1):
        middle = first + (window - 1) / 2
        axes.bar(middle, 1.1, window, 0.45, color="0.93")
        _label(axes, middle, 0.2, f"window {number}")
    for t, x in enumerate(places):
        if t:
            _arrow(axes, (places[t - 1] + 0.3, 1.1), (x - 0.3, 1.1), _way(WEIGHTS["W_{hh}"]))
        if t and t % window:
            _arrow(axes, (x - 0.3, 0.9), (places[t - 1] + 0.3, 0.9), BACK)
        elif t:
            stop = x - 0.5 - gap / 2
            axes.plot([x - 0.3, stop], [0.9, 0.9], color=BACK["color"], linestyle="-")
            axes.plot([stop, stop], [0.7, 1.02], color="black", linestyle="-", linewidth=3)
            _label(axes, stop, 0.4, "gradient\nstops", color=BACK["color"])
        _state(axes, x, 1, f"$h_{{{t + 1}}}$")
    _label(axes, places[window] - 0.5 - gap / 2, 1.38, "state\ngoes on", color=WEIGHTS["W_{hh}"])
    asked, symbol = places[-1], places[-1 - delay]
    bend = FEED | dict(connectionstyle="arc3,rad=0.25")
    _arrow(axes, (asked, 1.3), (symbol, 1.3), bend)
    text = f"asked for: {delay} steps back"
    _label(axes, (asked + symbol) / 2, 2.2, text, color=FEED["color"])
    axes.set(xlim=(-0.7, asked + 0.7), ylim=(0, 2.4))
    axes.axis("off")


def language_model(axes, words, chances, chosen, writing):
    """Inputs below, outputs above: the true token before, or, in writing, what was drawn.

    Over each state stand its probabilities, a row of ``chances`` (T, V); that of the word above,
    number ``chosen[t]``, has a color and stands there in digits.
    """
    color = FEED["color"] if writing else BACK["color"]
    for y, row in enumerate(("input", "state", "chances\n", "drawn" if writing else "target")):
        _label(axes, -0.5, y, row, ha="right", color="0.45")
    for t, (token, following) in enumerate(zip(["<s>", *words], words, strict=False)):
        drawn = writing and t > 0
        _arrow(axes, (t, 0.15), (t, 0.76))
        _state(axes, t, 1, f"$h_{t + 1}$")
        _arrow(axes, (t, 1.24), (t, 1.6))
        across = [t + 0.07 * (i - (len(chances[t]) - 1) / 2) for i in range(len(chances[t]))]
        shades = [color if i == chosen[t] else "0.75" for i in range(len(across))]
        axes.bar(across, [1.5 * chance for chance in chances[t]], 0.055, 1.68, color=shades)
        _label(axes, t, 3, f"{following}\n{chances[t][chosen[t]]:.3f}", color=color)
        if drawn:
            _arrow(axes, (t - 0.64, 2.9), (t - 0.2, 0.1), FEED)
        _label(axes, t, 0, token, color=color if drawn else "black")
        if t:
            _arrow(axes, (t - 0.72, 1), (t - 0.28, 1))
    title = "writing: its own words come back" if writing else "training: the true words"
    _frame(axes, (-1.1, len(words) - 0.4), rows=2, title=title)


def _shared(axes, x, below, state, above):
    """A column whose arrows have the colors and the names of their matrices."""
    for y, name in ((0, "W_{ih}"), (1, "W_o")):
        _arrow(axes, (x, y + (0.15, 0.24)[y]), (x, y + (0.76, 0.85)[y]), _way(WEIGHTS[name]))
        _label(axes, x + 0.06, y + 0.5, f"${name}$", ha="left", color=WEIGHTS[name])
    _label(axes, x, 0, below)
    _state(axes, x, 1, state)
    _label(axes, x, 2, above)


def _way(color):
    return FLOW | dict(color=color, linewidth=1.5)


def _state(axes, x, y, text, edge="0.3"):
    box = dict(boxstyle="round,pad=0.35", facecolor="0.93", edgecolor=edge)
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box)


def _label(axes, x, y, text, ha="center", color="black"):
    axes.text(x, y, text, ha=ha, va="center", fontsize=9, color=color)


def _arrow(axes, start, end, style=FLOW):
    axes.annotate("", end, start, arrowprops=style)


def _frame(axes, xlim, rows, title):
    axes.set(xlim=xlim, ylim=(-0.3, rows + 1.4), title=title)
    axes.axis("off")
