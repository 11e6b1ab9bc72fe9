"""Blocks: how a part, a sum and a norm are joined, the whole block, and what shares a mean."""

from textbook.plot.style import COLORS

EDGE = "0.35"
PLAIN = {"fc": "none", "ec": "none"}
SHADES = {"+": "white", "norm": "#fbe3cf"}
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def line(axes, boxes, *, title=""):
    """x goes through boxes from left to right to y; each "+" also gets x past all that went before.

    ``boxes`` are names; "norm" and "+" have a look of their own.
    """
    start, before = 0.45, axes.text(0, 0, "$x$", ha="center", va="center", bbox=PLAIN)
    for i, box in enumerate([*boxes, "$y$"], start=1):
        shape = "circle,pad=0.25" if box == "+" else "round,pad=0.45"
        look = {"boxstyle": shape, "fc": SHADES.get(box, "#d6e8f5"), "ec": EDGE}
        look = PLAIN if box == "$y$" else look
        here = axes.text(i, 0, box, ha="center", va="center", bbox=look)
        ends = {"patchA": before.get_bbox_patch(), "patchB": here.get_bbox_patch()}
        axes.annotate("", (i, 0), (i - 1, 0), arrowprops=ARROW | ends)
        if box == "+":
            skip = {"color": COLORS[1], "lw": 1.8}
            axes.plot([start, start, i], [0, 0.75, 0.75], linestyle="-", **skip)
            tip = ARROW | skip | {"patchB": here.get_bbox_patch()}
            axes.annotate("", (i, 0), (i, 0.77), arrowprops=tip)
            axes.text((start + i) / 2, 0.8, "skip path", ha="center", va="bottom", color=COLORS[1])
            start = i + 0.45
        before = here
    axes.set(xlim=(-0.2, len(boxes) + 1.2), ylim=(-0.45, 1.15), title=title)
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
