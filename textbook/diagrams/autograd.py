"""Graphs of values with their gradients, and what a matrix product is made of."""

from textbook.plot.style import COLORS, rectangle

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


def unit(axes, values, slopes, *, grads=None, visited=(), title=""):
    """Draw the unit's graph: in each box its value and, where it is found, its gradient, in blue.

    ``slopes`` holds, for a computed node, the numbers on its edges, one a parent. The nodes that
    are ``visited`` hand their gradient on: their edges are thick and lead back.
    """
    boxes = {}
    for name, (x, y, operation) in NODES.items():
        label = f"${name}$:  {operation}" if operation else f"${name}$" * (name != "-1")
        fill = "#F7DFC4" if name in PARAMETERS else "0.93" if operation else "white"
        found = None if grads is None else grads.get(name, "")
        boxes[name] = _box(axes, (x, y), label, values[name], found, fill, name in visited)
    for child, parents in PARENTS.items():
        for i, parent in enumerate(parents):
            bend = (-0.4, 0.4)[i] if parents.count(parent) > 1 else 0
            _edge(axes, boxes, parent, child, bend, back=child in visited)
            if child in slopes:
                _slope(axes, parent, child, bend, slopes[child][i])
    axes.set(xlim=(-0.6, 8.5), ylim=(-0.7, 4.7))
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def values(axes, root, names=None, *, title=""):
    """Draw any graph of nodes (``data``, ``grad``, ``parents``): values, and gradients in blue.

    ``names``, a dict from names to nodes, labels those that have one. ::

        backward(loss)
        diagrams.values(axes, loss, {"w": w, "loss": loss})
    """
    depth, order = {id(root): 0}, [root]
    for node in order:  # grows while it is read: a parent stands one place before its first child
        for parent in node.parents:
            if depth.get(id(parent), -1) <= depth[id(node)]:
                depth[id(parent)] = depth[id(node)] + 1
                order.append(parent)
    nodes = {id(node): node for node in order}
    rows, place = {}, {}
    for key, node in nodes.items():
        uses = [depth[id(child)] for child in nodes.values() if node in child.parents]
        if len(uses) > 2:  # below the middle of those that use it
            place[key] = max(depth.values()) - sum(uses) / len(uses), -1.9
        else:
            x = max(depth.values()) - depth[key]
            row = rows[x] = rows.get(x, -1) + 1
            place[key] = x, -1.1 * row - (0.0 if node.parents else 0.6)
    labels = {id(node): name for name, node in (names or {}).items()}
    boxes = {}
    for key, node in nodes.items():
        fill = "0.93" if node.parents else "#F7DFC4"
        boxes[key] = _box(axes, place[key], labels.get(key), node.data, node.grad, fill, False)
    for key, node in nodes.items():
        for use, parent in enumerate(node.parents):
            twice = node.parents.count(parent) > 1
            arrow = dict(arrowstyle="-|>", color="0.5", linewidth=1, patchA=boxes[id(parent)])
            bend = (0.12, -0.12)[use] * twice
            arrow |= dict(patchB=boxes[key], connectionstyle=f"arc3,rad={bend}")
            axes.annotate("", place[key], place[id(parent)], arrowprops=arrow)
    lowest = min(y for _, y in place.values())
    leftmost = min(x for x, _ in place.values())
    axes.set(xlim=(leftmost - 0.6, max(depth.values()) + 0.6), ylim=(lowest - 0.6, 0.6))
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def _box(axes, place, label, value, grad, fill, visited):
    """A box with a name, a value and below it the gradient; its outline is returned."""
    box = dict(boxstyle="round,pad=0.3", edgecolor="0.3", linewidth=1, facecolor=fill)
    if visited:
        box |= dict(edgecolor=COLORS[0], linewidth=2)
    lines = ([label] if label else []) + [f"{value:.3f}"]
    number = grad if isinstance(grad, str) else None if grad is None else f"{grad:.3f}"
    text = "\n".join(lines + ([" "] if number is not None else []))
    style = dict(ha="center", va="center", fontsize=9, linespacing=1.25)
    outline = axes.text(*place, text, bbox=box, zorder=3, **style).get_bbox_patch()
    if number:
        blue = "\n".join([" "] * len(lines) + [number])
        axes.text(*place, blue, color=COLORS[0], zorder=4, **style)
    return outline


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


def product(axes, numbers, lit, *, title=""):
    """A matrix of numbers; those of which ``lit(i, j)`` is true are on orange."""
    rows, columns = numbers.shape
    for i in range(rows):
        for j in range(columns):
            fill = "#F7DFC4" if lit(i, j) else "white"
            rectangle(axes, j, -i, 1, 1, facecolor=fill, edgecolor="0.3")
            place = j + 0.5, 0.5 - i
            axes.text(*place, f"{numbers[i, j]:g}", ha="center", va="center", fontsize=10)
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(0.9 - rows, 1.1), aspect="equal")
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def pushes(axes, words, p, right):
    """Probabilities as bars, and on each an arrow: where a step against the gradient pushes it.

    The ``right`` word is pushed up by what it lacks to 1, every other one down by all it has.
    """
    for place, (word, share) in enumerate(zip(words, p, strict=True)):
        goal = float(word == right)
        color = COLORS[2] if goal else COLORS[1]
        rectangle(axes, place - 0.3, 0, 0.6, share, facecolor="0.85", edgecolor="none")
        arrow = {"arrowstyle": "-|>", "color": color, "lw": 2.5, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (place, goal), (place, share), arrowprops=arrow)
        axes.text(
            place + 0.36, (goal + share) / 2, f"{goal - share:+.2f}", va="center", color=color
        )
    axes.set(xlim=(-0.5, len(words) - 0.3), ylim=(-0.02, 1.05), ylabel="probability")
    axes.set_xticks(range(len(words)), words)
