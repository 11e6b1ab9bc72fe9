"""Blocks: what a network keeps, how parts are joined, where norms stand, and what shares a mean."""

from textbook.plot.style import COLORS, rectangle

EDGE = "0.35"
SHADES = {"+": "white", "norm": "#fbe3cf"}
BLUE = "#d6e8f5"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}
CENTRED = {"ha": "center", "va": "center"}


def memory(axes, asks, keys, values, weights, *, title, weigh, below):
    """One vector asks a memory: keys, how much each of them answers, and the values that it keeps.

    A bar is as long as its weight. ``weigh`` names what makes the weights, ``below`` says whose
    keys and values these are.
    """
    top = len(keys) / 2 - 0.5
    box = {"boxstyle": "round,pad=0.35", "ec": EDGE}
    axes.text(0, 0, asks, **CENTRED, bbox=box | {"fc": "white"})
    for j, (key, value, weight) in enumerate(zip(keys, values, weights, strict=True)):
        y = top - j
        axes.plot([0.55, 1.3], [0, y], color=EDGE, lw=0.8, linestyle="-", zorder=0)
        axes.text(1.9, y, key, **CENTRED, fontsize=9, bbox=box | {"fc": BLUE})
        rectangle(axes, 2.6, y - 0.2, max(weight, 0.01), 0.4, facecolor=COLORS[0], edgecolor=EDGE)
        axes.text(4.4, y, value, **CENTRED, fontsize=9, bbox=box | {"fc": SHADES["norm"]})
        line = {"color": COLORS[0], "lw": 0.3 + 4 * weight, "linestyle": "-", "zorder": 0}
        axes.plot([5.1, 5.8], [y, 0], **line)
    axes.text(6.25, 0, "sum", **CENTRED, bbox=box | {"fc": "white"})
    for x, head in ((1.9, "keys"), (3.05, weigh), (4.4, "values")):
        axes.text(x, top + 0.75, head, **CENTRED, weight="bold", fontsize=9)
    axes.text(3.1, -top - 0.85, below, **CENTRED, fontsize=9, color="0.3")
    axes.set(xlim=(-0.7, 6.8), ylim=(-top - 1.2, top + 1.1), title=title)
    axes.axis("off")


def chain(axes, parts):
    """Parts one above the other, without sums: each gets what the one below it gives."""
    top = _ends(axes, len(parts))
    for i, part in enumerate(parts):
        _arrow(axes, (0, i + 0.1), (0, i + 0.65))
        _box(axes, 0, i + 0.9, part)
    _arrow(axes, (0, top - 0.85), (0, top - 0.25))
    axes.set(xlim=(-1.6, 1.6), ylim=(-0.7, top + 0.4), title="without sums")
    axes.axis("off")


def stream(axes, parts):
    """The same parts beside a stream that runs past them: each reads from it and adds to it."""
    top = _ends(axes, len(parts))
    wide = {"color": COLORS[1], "lw": 5, "solid_capstyle": "butt", "linestyle": "-", "alpha": 0.55}
    axes.plot([0, 0], [0.1, top - 0.3], **wide, zorder=0)
    for i, part in enumerate(parts):
        low, high = i + 0.6, i + 1.2
        axes.plot([0, 2, 2], [low, low, low + 0.1], color=EDGE, lw=1, linestyle="-")
        _box(axes, 2, i + 0.9, part)
        axes.plot([2, 2], [high - 0.1, high], color=EDGE, lw=1, linestyle="-")
        _arrow(axes, (2, high), (0.2, high))
        axes.text(0, high, "+", **CENTRED, bbox={"boxstyle": "circle,pad=0.1", "fc": "white"})
        if i == 0:
            axes.text(0.95, low - 0.04, "reads", ha="center", va="top", fontsize=8)
            axes.text(0.95, high + 0.04, "adds", ha="center", va="bottom", fontsize=8)
    axes.text(-0.3, top / 2, "residual stream", rotation=90, color=COLORS[1], **CENTRED)
    axes.set(xlim=(-0.9, 3.4), ylim=(-0.7, top + 0.4), title="with sums")
    axes.axis("off")


def tower(axes, boxes, *, title=""):
    """x goes up through boxes to y; each "+" also gets, by the skip path, what came before them.

    ``boxes`` are names; "norm" and "+" have a look of their own.
    """
    step, start = 0.8, 0.3
    axes.text(0, 0, "$x$", **CENTRED)
    for i, box in enumerate(boxes, start=1):
        y = step * i
        _arrow(axes, (0, y - step + 0.2), (0, y - (0.18 if box == "+" else 0.24)))
        if box == "+":
            skip = {"color": COLORS[1], "lw": 2}
            axes.plot([0, -1.2, -1.2, -0.3], [start, start, y, y], linestyle="-", **skip)
            _arrow(axes, (-0.5, y), (-0.16, y), **skip)
            axes.text(-1.35, (start + y) / 2, "skip path", rotation=90, color=COLORS[1], **CENTRED)
            axes.text(0, y, "+", **CENTRED, bbox={"boxstyle": "circle,pad=0.15", "fc": "white"})
            start = y + 0.3
        else:
            _box(axes, 0, y, box)
    top = step * (len(boxes) + 1)
    _arrow(axes, (0, top - step + 0.2), (0, top - 0.15))
    axes.text(0, top, "$y$", **CENTRED)
    axes.set(xlim=(-1.8, 1.2), ylim=(-0.3, top + 0.3), title=title)
    axes.axis("off")


def _ends(axes, parts):
    """What goes in below and comes out above; returns the height of the latter."""
    top = parts + 0.9
    axes.text(0, -0.15, "tokens and positions", **CENTRED)
    axes.text(0, top + 0.05, "scores", **CENTRED)
    return top


def _box(axes, x, y, name):
    shape = {"boxstyle": "round,pad=0.35", "fc": SHADES.get(name, BLUE), "ec": EDGE}
    axes.text(x, y, name, **CENTRED, fontsize=9, bbox=shape)


def _arrow(axes, start, end, **style):
    axes.annotate("", end, start, arrowprops=ARROW | style)


def spelled(axes, question, right, answers):
    """The right answer in large letters; below it each answer by name, its right letters green."""
    axes.text(-0.4, 1.05, question, ha="right", va="center", fontsize=12, color="0.4")
    for row, (name, answer) in enumerate(answers.items()):
        axes.text(-0.4, -row, name, ha="right", va="center", fontsize=12)
        for place, (letter, wanted) in enumerate(zip(answer, right, strict=True)):
            fill = "#d9eedd" if letter == wanted else "#f3d9cc"
            rectangle(axes, place, -row - 0.42, 0.9, 0.84, facecolor=fill, edgecolor="0.6")
            axes.text(place + 0.45, -row, _seen(letter), **CENTRED, fontsize=17)
    for place, letter in enumerate(right):
        axes.text(place + 0.45, 1.05, _seen(letter), **CENTRED, fontsize=17, color="0.4")
    axes.set(xlim=(-3.4, len(right) + 0.2), ylim=(0.4 - len(answers), 1.5))
    axes.axis("off")


def _seen(letter):
    """A letter as it is drawn: a blank is seen, too."""
    return "\N{OPEN BOX}" if letter == " " else letter


def shared_means(axes, real=(3, 2), longest=4, features=6):
    """Two padded sentences as rows of features: one row (layer norm), one column (batch norm)."""
    top = len(real) * (longest + 0.5)
    for s, count in enumerate(real):
        for t in range(longest):
            y = top - s * (longest + 0.5) - t - 1
            for j in range(features):
                lit = COLORS[4] if (s, t) == (0, 1) else COLORS[5] if j == 2 else "0.93"
                style = {"hatch": "///"} if t >= count else {}
                axes.bar(
                    j, 0.9, 0.9, y, align="edge", color=lit, edgecolor="0.6", linewidth=0.5, **style
                )
        axes.text(-0.3, y + longest / 2, f"sentence {s + 1}", ha="right", va="center")
    axes.text(features + 0.2, top - 1.55, "layer norm: one row", va="center")
    axes.text(2.45, top + 0.2, "batch norm: one column", ha="center", va="bottom")
    axes.text(features + 0.2, 0.45, "hatched: padding", va="center")
    axes.set(xlim=(-3, features + 4.6), ylim=(-0.2, top + 1))
    axes.axis("off")
