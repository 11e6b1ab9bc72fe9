"""The race: how its text is cut, a mix of neighbours, and what a step does to every direction."""

import numpy as np

from textbook.plot.style import COLORS, rectangle

EDGE, BLUE, ORANGE, GREY = "0.35", "#d6e8f5", "#fbe3cf", "0.93"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def cut(axes):
    """The text in three parts, and who sees which of them."""
    parts = (
        (0, 7.2, GREY, "nine tenths", "the program learns from this"),
        (7.3, 1.75, BLUE, "open half", "you choose by this"),
        (9.15, 1.75, ORANGE, "closed half", "this is reported"),
    )
    for left, width, color, name, use in parts:
        rectangle(axes, left, 0, width, 0.8, facecolor=color, edgecolor=EDGE)
        axes.text(left + width / 2, 0.4, name, ha="center", va="center", fontsize=9)
        axes.text(left + width / 2, -0.25, use, ha="center", va="top", fontsize=8, wrap=True)
    axes.annotate("", (11.2, 1.15), (-0.1, 1.15), arrowprops=ARROW)
    axes.text(0, 1.3, "the text, from its beginning", fontsize=8, color=EDGE)
    axes.set(xlim=(-0.4, 11.5), ylim=(-0.8, 1.6))
    axes.axis("off")


def taps(axes, letters, weights):
    """The last of ``letters`` gets a sum of those just before it, each with its weight."""
    last = len(letters) - 1
    for i, letter in enumerate(letters):
        rectangle(axes, i - 0.35, 0, 0.7, 0.6, facecolor=GREY, edgecolor=EDGE)
        axes.text(i, 0.3, letter, ha="center", va="center", family="monospace")
    for j, weight in enumerate(weights):
        axes.annotate("", (last, 1.7), (last - j, 0.62), arrowprops=ARROW)
        axes.text(last - j - 0.12, 0.85, weight, ha="right", va="center", fontsize=9)
    rectangle(axes, last - 0.35, 1.7, 0.7, 0.6, facecolor=ORANGE, edgecolor=EDGE)
    axes.text(last, 2.0, "$y_t$", ha="center", va="center")
    axes.set(xlim=(-0.6, last + 0.7), ylim=(-0.15, 2.5))
    axes.axis("off")


def directions(axes, step, inputs, title):
    """Where a step, a matrix (2, 2), sends the unit circle and two inputs, the columns (2, 2).

    The length of each image stands outside. The longest is drawn as 1: an optimizer sets the size
    of a step, not its shape.
    """
    longest = np.linalg.norm(step, 2)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    axes.plot(*circle, color="0.75", linewidth=1, linestyle="--")
    axes.plot(*(step @ circle / longest), color=COLORS[0], linewidth=2)
    for i, color in enumerate((COLORS[1], COLORS[2])):
        tip = step @ inputs[:, i] / longest
        arrow = {"arrowstyle": "->", "color": color, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", tip, (0, 0), arrowprops=arrow)
        style = {"color": color, "ha": "center", "va": "center", "weight": "bold"}
        axes.text(0.9, (-1.15, 1.15)[i], f"{np.linalg.norm(tip):.2f}", **style)
    axes.text(0, 1.6, title, ha="center", va="center", fontsize=11)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.8), aspect="equal")
    axes.axis("off")
