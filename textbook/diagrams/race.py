"""The race: its runners, how its text is cut, two blocks, a mix of neighbours, a step as a map."""

import numpy as np

from textbook.plot.style import COLORS, rectangle

EDGE, BLUE, ORANGE, GREY = "0.35", "#d6e8f5", "#fbe3cf", "0.93"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def lanes(axes, runners, letters):
    """A lane for each runner, from the loss of ``letters`` that are all alike to its own.

    ``runners`` holds name, nats a letter, and the color of its mark, or None for a hollow one.
    """
    start = np.log(letters)
    for place, (_, nats, color) in enumerate(reversed(runners)):
        axes.plot([start, nats], [place, place], color="0.88", linewidth=7, linestyle="-")
        style = {"color": color or EDGE, "markersize": 10}
        axes.plot(nats, place, "o", fillstyle="full" if color else "none", **style)
        told = f"{nats:.2f} nats = {np.exp(nats):.1f} letters"
        axes.text(nats - 0.07, place, told, va="center", fontsize=9)
    axes.set_yticks(range(len(runners)), [name for name, *_ in reversed(runners)])
    axes.set(
        xlim=(start, 0.45),
        ylim=(-0.8, len(runners) - 0.5),
        xticks=[4, 3.5, 3, 2.5, 2, 1.5],
        xlabel="nats a letter",
    )
    axes.tick_params(axis="y", length=0)
    axes.text(start - 0.05, -0.62, "start: all alike", fontsize=8, color=EDGE)
    axes.grid(visible=False, axis="y")
    choices, faces = axes.twiny(), (letters, 40, 20, 10, 7, 5, 4)
    choices.set_xticks(np.log(faces), faces)
    choices.set(xlim=axes.get_xlim(), xlabel="as unsure as among so many letters")
    choices.grid(visible=False)


def cut(axes):
    """The text in three parts, to scale, and who sees which of them."""
    parts = (
        (0, 18, 9, GREY, "nine tenths: the program learns from this"),
        (18, 1, 14.8, BLUE, "open half: you choose by this"),
        (19, 1, 18.2, ORANGE, "closed half: this is reported"),
    )
    for (left, width, at, color, name), y in zip(parts, (0.4, -0.5, -1.2), strict=True):
        rectangle(axes, left, 0, width, 0.8, facecolor=color, edgecolor=EDGE)
        if y > 0:
            axes.text(at, y, name, ha="center", va="center", fontsize=9)
            continue
        leader = {"color": EDGE, "linewidth": 1, "linestyle": "-"}
        axes.plot([left + 0.5, left + 0.5, at], [0, y, y], **leader)
        box = {"facecolor": color, "edgecolor": EDGE, "boxstyle": "round,pad=0.25"}
        axes.text(at, y, name, ha="right", va="center", fontsize=9, bbox=box)
    axes.annotate("", (20.3, 1.15), (-0.1, 1.15), arrowprops=ARROW)
    axes.text(0, 1.3, "the text, from its beginning", fontsize=8, color=EDGE)
    axes.set(xlim=(-0.4, 20.5), ylim=(-1.6, 1.8))
    axes.axis("off")


def taps(axes, letters, weights):
    """The last of ``letters`` gets a sum of those before it, each arrow as thick as a weight."""
    last = len(letters) - 1
    for i, letter in enumerate(letters):
        rectangle(axes, i - 0.35, 0, 0.7, 0.6, facecolor=GREY, edgecolor=EDGE)
        axes.text(i, 0.3, letter, ha="center", va="center", family="monospace")
    for j, weight in enumerate(weights):
        style = {"linewidth": 3 * weight} if weight else {"linestyle": ":", "color": "0.6"}
        axes.annotate("", (last, 1.9), (last - j, 0.62), arrowprops=ARROW | style)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        at = last - 0.6 * j, 0.62 + 0.4 * 1.28
        axes.text(*at, f"{weight:g}", ha="center", va="center", fontsize=9, bbox=box)
    rectangle(axes, last - 0.35, 1.9, 0.7, 0.6, facecolor=ORANGE, edgecolor=EDGE)
    axes.text(last, 2.2, "$y_t$", ha="center", va="center")
    axes.set(xlim=(-0.6, last + 0.7), ylim=(-0.15, 2.7))
    axes.axis("off")


def directions(axes, step, inputs, title):
    """Where a step, a matrix (2, 2), sends the unit circle and two inputs, the columns (2, 2).

    An input is dotted, its image an arrow; how long that is stands outside. The longest image is
    drawn as 1: an optimizer sets the size of a step, not its shape.
    """
    longest = np.linalg.norm(step, 2)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    axes.plot(*circle, color="0.75", linewidth=1, linestyle="--")
    axes.plot(*(step @ circle / longest), color=COLORS[0], linewidth=2)
    for i, color in enumerate((COLORS[1], COLORS[2])):
        tip = step @ inputs[:, i] / longest
        axes.plot(
            *zip((0, 0), inputs[:, i], strict=True), color=color, linewidth=1.2, linestyle=":"
        )
        arrow = {"arrowstyle": "->", "color": color, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", tip, (0, 0), arrowprops=arrow)
        style = {"color": color, "ha": "center", "va": "center", "weight": "bold"}
        axes.text(0.9, (-1.15, 1.15)[i], f"{np.linalg.norm(tip):.2f}", **style)
    axes.text(0, 1.6, title, ha="center", va="center", fontsize=11)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.8), aspect="equal")
    axes.axis("off")


def blocks(axes):
    """Chapter 11's block beside the racing one, from bottom to top: grey is old, orange is new."""
    old = [("layer norm", GREY, []), ("attention", GREY, [("four heads of 32", GREY)])]
    old += [("layer norm", GREY, []), ("network", GREY, [("ReLU", GREY)])]
    heads = ["two heads of 64", "query-key norm", "rotary positions", "zero start"]
    network = ["squared ReLU", "zero start"]
    new = [("RMS norm", ORANGE, []), ("token shift", ORANGE, [])]
    new = [*new, ("attention", GREY, [(name, ORANGE) for name in heads])]
    new += [*new[:2], ("network", GREY, [(name, ORANGE) for name in network])]
    _block(axes, 0, "chapter 11", "letters, sinusoids added", old, 2)
    _block(axes, 7, "the race", "letters", new, 3)
    axes.set(xlim=(-1.7, 13.2), ylim=(-0.8, 7.8))
    axes.axis("off")


def _block(axes, x, title, start, parts, in_branch):
    """The way up and its two branches of ``in_branch`` parts: name, color and what is in it."""
    axes.annotate("", (x, 7.3), (x, 0), arrowprops=ARROW | {"linewidth": 2.2})
    axes.text(x, -0.4, start, ha="center", va="center", fontsize=9)
    axes.text(x + 2.2, 7.4, title, ha="center", va="center", fontsize=11)
    style = {"ha": "center", "va": "center", "fontsize": 9}
    box = {"boxstyle": "round,pad=0.3", "ec": EDGE}
    for branch in (0, 1):
        low, high = 0.2 + 3.4 * branch, 3.2 + 3.4 * branch
        side, line = x + 2.2, {"color": EDGE, "linestyle": "-", "linewidth": 1}
        axes.plot([x, side, side, x + 0.3], [low, low, high, high], zorder=1, **line)
        axes.annotate("", (x + 0.22, high), (x + 0.7, high), arrowprops=ARROW)
        axes.text(
            x, high, "+", bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": EDGE}, **style
        )
        for i, (name, color, details) in enumerate(parts[branch * in_branch :][:in_branch]):
            y = low + 3 * (i + 1) / (in_branch + 1)
            axes.text(side, y, name, bbox=box | {"fc": color}, **style)
            for j, (detail, shade) in enumerate(details):
                at = x + 4.5, y + 0.55 * ((len(details) - 1) / 2 - j)
                axes.plot([side, at[0]], [y, at[1]], zorder=0.5, **line | {"color": "0.75"})
                axes.text(*at, detail, bbox=box | {"fc": shade, "pad": 0.2}, **style)
