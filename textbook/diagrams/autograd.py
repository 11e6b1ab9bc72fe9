"""The graph of one unit and its loss, forward with its slopes and on the way back."""

from textbook.plot import COLORS

# Each value with its place and, where it is computed, its operation.
NODES = {
    "x_1": (0, 4, ""),
    "w_1": (0, 3, ""),
    "w_2": (0, 1, ""),
    "x_2": (0, 0, ""),
    "s_1": (1.3, 3.5, "×"),
    "s_2": (1.3, 0.5, "×"),
    "s": (2.6, 2, "+"),
    "b": (2.6, 0.4, ""),
    "a": (3.9, 2, "+"),
    "h": (5.2, 2, "tanh"),
    "-1": (5.2, 0.4, ""),
    "r": (6.5, 2, "+"),
    "L": (7.9, 2, "×"),
}
PARENTS = {
    "s_1": ("x_1", "w_1"),
    "s_2": ("w_2", "x_2"),
    "s": ("s_1", "s_2"),
    "a": ("s", "b"),
    "h": ("a",),
    "r": ("h", "-1"),
    "L": ("r", "r"),
}
PARAMETERS = {"w_1", "w_2", "b"}


def unit(axes, numbers, slopes, *, visited=(), title=""):
    """Draw the unit's graph with a number in each node that has one.

    ``slopes`` holds, for a computed node, the numbers on its edges, one a parent. The nodes that
    are ``visited`` hand their gradient on: their edges are thick and lead back.
    """
    boxes = {}
    for name, (x, y, operation) in NODES.items():
        box = dict(boxstyle="round,pad=0.3", edgecolor="0.3", linewidth=1)
        box["facecolor"] = "#F7DFC4" if name in PARAMETERS else "0.93" if operation else "white"
        if name in visited:
            box |= dict(edgecolor=COLORS[0], linewidth=2)
        text = f"${name}$:  {operation}" if operation else f"${name}$"
        text += f"\n{numbers[name]:.3f}" if name in numbers else ""
        label = axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=3)
        boxes[name] = label.get_bbox_patch()
    for child, parents in PARENTS.items():
        for i, parent in enumerate(parents):
            bend = (-0.4, 0.4)[i] if parents.count(parent) > 1 else 0
            _edge(axes, boxes, parent, child, bend, back=child in visited)
            if child in slopes:
                _slope(axes, parent, child, bend, slopes[child][i])
    axes.set(xlim=(-0.5, 8.4), ylim=(-0.5, 4.5))
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def _edge(axes, boxes, parent, child, bend, back):
    """An arrow between two nodes: thin to the child, thick back to the parent."""
    start, end = (child, parent) if back else (parent, child)
    curve = f"arc3,rad={-bend if back else bend}"
    arrow = dict(arrowstyle="-|>", patchA=boxes[start], patchB=boxes[end], connectionstyle=curve)
    arrow |= dict(color=COLORS[0], linewidth=2) if back else dict(color="0.5", linewidth=1)
    axes.annotate("", NODES[end][:2], NODES[start][:2], arrowprops=arrow)


def _slope(axes, parent, child, bend, slope):
    """The number beside its edge: above it, or below where the parent is the lower one."""
    (x0, y0, _), (x1, y1, _) = NODES[parent], NODES[child]
    beside = 0.55 if y0 == y1 else 0.32 if y0 > y1 else -0.32
    shift = -1.1 * bend * (x1 - x0) if bend else beside
    place = (x0 + x1) / 2, (y0 + y1) / 2 + shift
    style = dict(ha="center", va="center", fontsize=8.5, color=COLORS[0])
    axes.text(*place, f"{slope:.3g}", **style)


def table(axes, numbers, is_given, *, title=""):
    """A table of numbers (rows, columns); cells that are given are orange, the others repeat."""
    rows, columns = numbers.shape
    for i in range(rows):
        for j in range(columns):
            given = is_given(i, j)
            ink, fill = ("black", "#F7DFC4") if given else ("0.45", "white")
            axes.fill(
                [j, j + 1, j + 1, j], [-i, -i, 1 - i, 1 - i], fc=fill, ec=ink, lw=1, linestyle="-"
            )
            axes.text(j + 0.5, 0.5 - i, numbers[i, j], ha="center", va="center", color=ink)
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(0.9 - rows, 1.1), title=title, aspect="equal")
    axes.axis("off")
