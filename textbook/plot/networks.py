"""Computations, drawn as graphs."""

from collections import Counter
from itertools import pairwise
from operator import attrgetter
from statistics import mean

from minitorch.autograd.tensorbase import TensorBase

LARGEST = 60  # nodes that a graph may have and still be read


def graph(axes, tensor, names=None, *, title=""):
    """Draw how ``tensor`` was computed, from left to right: what ``backward`` will go through.

    Round nodes are operations, boxes are leaves that require a gradient. ``names``, a dict from
    names to tensors, labels leaves and results. Two arrows between the same nodes are two uses. ::

        figure, axes = plot.subplots()
        plot.graph(axes, (w * x + b).tanh(), {"w": w, "b": b})
        plot.show(figure, alt="w goes through mul, with b through add, then through tanh.")
    """
    if tensor.grad_fn is None:
        raise ValueError("graph() needs a tensor that was computed from one that requires_grad")
    found = _sources(tensor.grad_fn)
    depth, uses = {id(tensor.grad_fn): 0}, Counter()
    nodes = [node for node in found.values() if not isinstance(node, TensorBase)]
    for node in sorted(nodes, key=attrgetter("order"), reverse=True):  # those made last first
        for source in _inputs(node):
            uses[id(source), id(node)] += 1
            depth[id(source)] = max(depth.get(id(source), 0), depth[id(node)] + 1)
    if len(found) > LARGEST:
        raise ValueError(
            f"this graph has {len(found)} nodes, too many to be read (up to {LARGEST}): "
            "draw a smaller part or a shorter input"
        )
    ways, level = [], {key: -depth[key] for key in found}
    for (source, target), count in uses.items():
        for use in range(count):
            between = range(-depth[source] + 1, -depth[target])
            ways.append([source, *((source, target, use, x) for x in between), target])
            level |= zip(ways[-1][1:-1], between, strict=True)
    place = _layered(level, ways)
    labels = {id(t if t.grad_fn is None else t.grad_fn): n for n, t in (names or {}).items()}
    boxes = {
        key: axes.text(*place[key], _label(node, labels.get(key)), **_style(node)).get_bbox_patch()
        for key, node in found.items()
    }
    bends = Counter()
    for source, *between, target in ways:
        corners = [place[key] for key in (source, *between, target)]
        axes.plot(*zip(*corners[:-1], strict=True), color="0.4", linewidth=1, linestyle="-")
        parallel = not between and uses[source, target] > 1
        bends[source, target] += 0.25 if parallel else 0
        bend = bends[source, target] - 0.375 if parallel else 0
        way = dict(arrowstyle="->", color="0.4", shrinkA=0, shrinkB=2, patchB=boxes[target])
        way |= dict(connectionstyle=f"arc3,rad={bend}", patchA=None if between else boxes[source])
        axes.annotate("", corners[-1], corners[-2], arrowprops=way)
    rows = [y for _, y in place.values()]
    axes.set(xlim=(min(level.values()) - 0.5, 0.5), ylim=(min(rows) - 0.6, max(rows) + 0.6))
    axes.set_title(title)
    axes.axis("off")
    return axes


def _inputs(node):
    """The nodes and leaves that lead to a node."""
    functions = () if isinstance(node, TensorBase) else node.next_functions
    return [function for function in functions if function is not None]


def _sources(node):
    """All nodes and leaves that lead to ``node``, and itself, by their identity."""
    found, stack = {id(node): node}, [node]
    while stack:
        for source in _inputs(stack.pop()):
            if id(source) not in found:
                found[id(source)] = source
                stack.append(source)
    return found


def _layered(level, ways):
    """A place (x, y) for each node: x its level, y near those that it leads to, one apart."""
    place, following = {}, {}
    for way in ways:
        for source, target in pairwise(way):
            following.setdefault(source, []).append(target)
    for x in sorted(set(level.values()), reverse=True):
        wanted = {
            key: mean(place[target][1] for target in following.get(key, [])) if x else 0.0
            for key in level
            if level[key] == x
        }
        order = sorted(wanted, key=wanted.get, reverse=True)
        top = mean(wanted.values()) + (len(order) - 1) / 2
        place |= {key: (x, top - i) for i, key in enumerate(order)}
    return place


def _label(node, name):
    if isinstance(node, TensorBase):
        shape = " x ".join(map(str, node.shape)) or "scalar"
        return f"{name}\n{shape}" if name else shape
    operation = node.name.rstrip("_")
    return f"{name} =\n{operation}" if name else operation


def _style(node):
    leaf = isinstance(node, TensorBase)
    box = dict(boxstyle="square,pad=0.4" if leaf else "round,pad=0.4,rounding_size=0.8")
    box |= dict(facecolor="white" if leaf else "0.9", edgecolor="0.3")
    return dict(ha="center", va="center", fontsize=9, bbox=box)
