"""Blocks: how a part, a sum and a norm are joined, the whole block, and what shares a mean."""

from textbook.plot.style import COLORS

EDGE = "0.35"
SHADES = {"+": "white", "norm": "#fbe3cf"}
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def line(axes, boxes, *, title=""):
    """x goes through boxes from left to right to y; each "+" also gets x past all that went before.

    ``boxes`` are names; "norm" and "+" have a look of their own.
    """
    start, behind = 0.45, 0.1
    axes.text(0, 0, "$x$", ha="center", va="center")
    for i, box in enumerate(boxes, start=1):
        pad = "circle,pad=0.25" if box == "+" else "round,pad=0.45"
        shape = {"boxstyle": pad, "fc": SHADES.get(box, "#d6e8f5"), "ec": EDGE}
        half = 0.14 if box == "+" else 0.1 + 0.042 * len(box)
        axes.text(i, 0, box, ha="center", va="center", bbox=shape)
        axes.annotate("", (i - half, 0), (i - 1 + behind, 0), arrowprops=ARROW)
        behind = half
        if box == "+":
            skip = {"color": COLORS[1], "lw": 1.8}
            axes.plot([start, start, i], [0, 0.75, 0.75], linestyle="-", **skip)
            axes.annotate("", (i, 0.2), (i, 0.77), arrowprops=ARROW | skip)
            axes.text((start + i) / 2, 0.8, "skip path", ha="center", va="bottom", color=COLORS[1])
            start = i + 0.45
    end = len(boxes) + 0.9
    axes.annotate("", (end - 0.08, 0), (len(boxes) + behind, 0), arrowprops=ARROW)
    axes.text(end, 0, "$y$", ha="center", va="center")
    axes.set(xlim=(-0.2, end + 0.2), ylim=(-0.45, 1.15), title=title)
    axes.axis("off")


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
