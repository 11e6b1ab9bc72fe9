"""Positions: where they enter self-attention, a turned pair, a dependency tree."""

import math

from textbook.plot.style import COLORS

EDGE = "0.35"
ROUND = {"boxstyle": "round,pad=0.35", "fc": "0.93", "ec": EDGE}
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 2}


def three_places(axes):
    """The way from words to weights, and the three places on it where an order can enter."""
    boxes = ((0, 0, "word\n$x_t$"), (2.6, 0.7, "query $q_i$"), (2.6, -0.7, "key $k_j$"))
    boxes += ((5.6, 0, "score\n$e_{ij}$"), (7.9, 0, "weight\n$\\alpha_{ij}$"))
    for x, y, name in boxes:
        axes.text(x, y, name, ha="center", va="center", bbox=ROUND)
    ways = (((0.5, 0.1), (1.85, 0.65)), ((0.5, -0.1), (1.95, -0.65)), ((3.35, 0.65), (5.0, 0.12)))
    ways += (((3.25, -0.65), (5.0, -0.12)), ((6.15, 0), (7.25, 0)))
    for start, end in ways:
        axes.annotate("", end, start, arrowprops=ARROW)
    axes.text(6.7, 0.15, "softmax", ha="center", va="bottom", fontsize=9)
    entries = (
        (0, 0.62, 1.55, "1  added to the input:\nindex, one-hot, sinusoidal, learned"),
        (2.6, 1.05, 1.95, "2  queries and keys turned:\nrotary"),
        (5.6, 0.5, 1.55, "3  added to the score:\nrelative, ALiBi"),
    )
    style = {"ha": "center", "va": "bottom", "color": COLORS[0], "fontsize": 9}
    for x, tip, y, text in entries:
        axes.text(x, y, text, **style)
        axes.annotate("", (x, tip), (x, y), arrowprops=ARROW | {"color": COLORS[0], "lw": 1.8})
    axes.set(xlim=(-1.9, 8.7), ylim=(-1.2, 2.7))
    axes.axis("off")


def turned(axes, vector, angle, count):
    """A vector of two numbers at places 0 to ``count`` - 1, turned by ``angle`` a place."""
    a, b = vector
    for t in range(count):
        c, s = math.cos(t * angle), math.sin(t * angle)
        tip = (a * c - b * s, a * s + b * c)
        arrow = {"arrowstyle": "->", "color": COLORS[0], "alpha": 1 - t / (count + 2), "lw": 1.8}
        axes.annotate("", tip, (0, 0), arrowprops=arrow)
        axes.text(1.15 * tip[0], 1.15 * tip[1], t, ha="center", va="center", fontsize=8)


def tree(axes, words, heads, lit):
    """Words in a row and an arrow from each to its head; the word ``lit`` has a thick one."""
    for place, head in enumerate(heads):
        if head is None:
            continue
        middle, radius = (place + head) / 2, abs(place - head) / 2
        height = radius**0.7
        steps = [math.pi * k / 30 for k in range(31)]
        steps = steps if place > head else steps[::-1]  # from the word to its head
        points = [(middle + radius * math.cos(a), height * math.sin(a)) for a in steps]
        color, width = (COLORS[1], 2) if place == lit else ("0.5", 1)
        axes.plot(*zip(*points, strict=True), color=color, linewidth=width, linestyle="-")
        arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", points[-1], points[-3], arrowprops=arrow)
    for place, word in enumerate(words):
        axes.text(place, -0.2, word, ha="center", va="top", rotation=40, fontsize=9)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.9, 3.2))
    axes.axis("off")
