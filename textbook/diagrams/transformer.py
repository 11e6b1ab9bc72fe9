"""The Transformer: its stacks, teacher forcing, one token on its way, three shapes, two blocks."""

from textbook.plot.style import COLORS, cells, rectangle

EDGE = "0.35"
BLUE, ORANGE, GREEN, WHITE = "#d6e8f5", "#fbe3cf", "#d9eedd", "white"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}
STEP = 0.72  # from one box to the next


def encoder_decoder(axes):
    """Encoder and decoder side by side, each part with the chapter that it comes from."""
    entry = [("embedding (00) + positions (08)", GREEN), ("dropout", WHITE)]
    network = _part("feed-forward (09)")
    encoder = ["source tokens", *entry, *_part("self-attention (06), padding mask (07)"), *network]
    decoder = ["target tokens so far", *entry, *_part("self-attention (06), causal mask (07)")]
    decoder += [*_part("cross-attention (04, 06), padding mask (07)"), *network]
    top = _column(axes, 0, [*encoder, ("last norm (09)", ORANGE)])
    end = [("last norm (09)", ORANGE), ("linear, softmax (00)", GREEN), "next token"]
    _column(axes, 4.4, [*decoder, *end])
    _frame(axes, 0, len(encoder))
    _frame(axes, 4.4, len(decoder))
    reads = (len(entry) + 1 + 4 + 1) * STEP  # the height of cross-attention
    line = {"color": COLORS[1], "linestyle": "-"}
    axes.plot([0, 0, 2.2, 2.2], [top + 0.2, top + 0.5, top + 0.5, reads], **line)
    axes.annotate("", (2.87, reads), (2.2, reads), arrowprops=ARROW | {"color": COLORS[1]})
    axes.text(1.1, top + 0.58, "memory", color=COLORS[1], ha="center", fontsize=9)
    axes.set(xlim=(-2, 6.3), ylim=(-0.4, 18 * STEP - 0.3))
    axes.axis("off")


def _part(name):
    """A norm, a part, dropout, and the sum after them."""
    return [("norm (09)", ORANGE), (name, BLUE), ("dropout", WHITE), "+"]


def _column(axes, x, parts):
    """Boxes from bottom to top with arrows between them; returns the height of the last."""
    for i, part in enumerate(parts):
        name, fill = part if isinstance(part, tuple) else (part, None)
        y = i * STEP
        if name == "+":
            shape = {"boxstyle": "circle,pad=0.15", "fc": WHITE, "ec": EDGE}
            start = y - 3.55 * STEP  # below the norm
            axes.plot([x, x - 1.75, x - 1.75], [start, start, y], color=EDGE, lw=1, linestyle="-")
            axes.annotate("", (x - 0.14, y), (x - 1.76, y), arrowprops=ARROW)
        else:
            shape = {"boxstyle": "round,pad=0.25", "fc": fill or WHITE, "ec": EDGE}
            if fill is None:
                shape["ec"] = WHITE
        style = {"ha": "center", "va": "center", "fontsize": 8}
        axes.text(x, y, name, bbox=shape, **style)
        if i:
            axes.annotate("", (x, y - 0.22), (x, y - 0.5), arrowprops=ARROW)
    return y


def _frame(axes, x, count):
    """A dashed frame around what is repeated: all of ``count`` boxes but the first three."""
    low, high = 2.35 * STEP, (count - 0.45) * STEP
    corners = [x - 1.9, x + 1.8, x + 1.8, x - 1.9, x - 1.9], [low, low, high, high, low]
    axes.plot(*corners, color="0.6", linestyle="--", linewidth=1)
    label = {"fontsize": 8, "color": "0.4", "ha": "right", "va": "center"}
    axes.text(x + 1.75, high - 0.2, "L times, the same L" if x else "L times", **label)


def shapes(axes):
    """Three models of the same blocks: encoder and decoder, decoder alone, encoder alone."""
    for x, name, blocks in (
        (0, "encoder and decoder", ("encoder", "decoder")),
        (4.2, "decoder alone", ("decoder",)),
        (7.2, "encoder alone", ("encoder",)),
    ):
        for i, kind in enumerate(blocks):
            at = x + 1.7 * i
            mask = "causal mask" if kind == "decoder" else "no mask\nbut padding"
            fill = BLUE if kind == "decoder" else ORANGE
            shape = {"boxstyle": "round,pad=0.5", "fc": fill, "ec": EDGE}
            axes.text(at, 1, f"{kind}\n{mask}", ha="center", va="center", fontsize=9, bbox=shape)
            words, result = _in_and_out(kind, alone=len(blocks) == 1)
            axes.text(at, -0.15, words, ha="center", va="center", fontsize=8)
            axes.annotate("", (at, 0.48), (at, 0.02), arrowprops=ARROW)
            if result:
                axes.annotate("", (at, 1.98), (at, 1.55), arrowprops=ARROW)
                axes.text(at, 2.13, result, ha="center", va="center", fontsize=8)
        if len(blocks) == 2:
            axes.annotate("", (x + 1.05, 1), (x + 0.66, 1), arrowprops=ARROW | {"lw": 1.6})
        axes.text(x + 0.85 * (len(blocks) - 1), 2.6, name, ha="center", fontsize=10)
    axes.set(xlim=(-1, 8.3), ylim=(-0.4, 2.9))
    axes.axis("off")


def _in_and_out(kind, alone):
    """What a stack reads and what it says."""
    if kind == "decoder":
        return "<s> zwei hundert", "zwei hundert drei"
    return ("zwei <blank> drei", "hundert") if alone else ("two hundred three", None)


def teacher_forcing(axes, source, target):
    """What the decoder reads and what it is asked for: the same tokens, one place apart."""
    read, asked = ["<s>", *target], [*target, "</s>"]
    last = len(target)
    middle = {"ha": "center", "va": "center"}
    for low, high, text, fill in (
        (-0.45, last + 0.45, "decoder: each place sees what stands below it and to its left", BLUE),
        (-4.3, -1.9, "encoder", ORANGE),
    ):
        rectangle(axes, low, 0.72, high - low, 0.56, facecolor=fill, edgecolor=EDGE)
        axes.text((low + high) / 2, 1, text, fontsize=9, **middle)
    axes.annotate("", (-0.45, 1), (-1.9, 1), arrowprops=ARROW | {"color": COLORS[1], "lw": 1.8})
    axes.text(-1.18, 1.1, "memory", color=COLORS[1], ha="center", va="bottom", fontsize=9)
    half = (len(source) + 1) // 2
    axes.text(-3.1, 0, " ".join(source[:half]) + "\n" + " ".join(source[half:]), **middle)
    axes.annotate("", (-3.1, 0.72), (-3.1, 0.3), arrowprops=ARROW)
    for t, (below, above) in enumerate(zip(read, asked, strict=True)):
        axes.text(t, 0, below, bbox={"boxstyle": "round", "fc": "white", "ec": EDGE}, **middle)
        axes.text(t, 2, above, bbox={"boxstyle": "round", "fc": GREEN, "ec": EDGE}, **middle)
        axes.annotate("", (t, 0.72), (t, 0.27), arrowprops=ARROW)
        axes.annotate("", (t, 1.73), (t, 1.28), arrowprops=ARROW)
        if t < last:
            step = {"color": COLORS[0], "linestyle": "--", "lw": 1.2}
            axes.annotate("", (t + 0.78, 0.2), (t + 0.22, 1.76), arrowprops=ARROW | step, zorder=0)
    for y, name in ((0, "reads"), (2, "is asked for")):
        axes.text(last + 0.65, y, name, ha="left", va="center", color=EDGE, style="italic")
    axes.set(xlim=(-4.5, last + 2.1), ylim=(-0.5, 2.4))
    axes.axis("off")


def one_token(axes, word, words, weights, strips):
    """One token's vector on its way up through a block, each vector a strip of coloured numbers.

    ``strips`` has the numbers of "in", "gathered", "between", "network" and "out", and "given", a
    strip for each of ``words``; ``weights`` say how much the token looks at each of them.
    """
    small = {"va": "center", "fontsize": 9}
    way = {"color": COLORS[1], "lw": 2.2}
    axes.annotate("", (2, 8.9), (2, -0.6), arrowprops=ARROW | way, zorder=0)
    for y, kind, name in (
        (0, "in", f"“{word}” comes in"),
        (4.1, "between", "plus what it gathered"),
        (7.9, "out", "plus what the\nnetwork answers"),
    ):
        _strip(axes, 0, y, strips[kind])
        axes.text(-0.25, y, name, ha="right", **small)
    for low, high, kind, part in (
        (0.9, 3.1, "gathered", "norm, then attention"),
        (5.1, 6.9, "network", "norm, then network"),
    ):
        box = {"boxstyle": "round,pad=0.3", "fc": BLUE, "ec": EDGE}
        line = {"color": EDGE, "linestyle": "-", "linewidth": 1, "zorder": 0}
        axes.plot([2, 7, 7], [low, low, high - 0.3], **line)
        axes.text(7, low + 0.75, part, ha="center", bbox=box, **small)
        _strip(axes, 5, high, strips[kind])
        axes.annotate("", (2.2, high), (5, high), arrowprops=ARROW)
        circle = {"boxstyle": "circle,pad=0.15", "fc": WHITE, "ec": EDGE}
        axes.text(2, high, "+", ha="center", bbox=circle, **small)
    for j, (other, weight, given) in enumerate(zip(words, weights, strips["given"], strict=True)):
        y = 4.7 - 0.8 * j
        line = {"color": COLORS[0], "lw": 0.4 + 7 * weight, "linestyle": "-"}
        axes.plot([9.05, 11], [3.1, y], solid_capstyle="butt", **line)
        _strip(axes, 11, y, given)
        axes.text(15.2, y, f"{weight:.2f}  {other}", **small)
    axes.text(13, 5.4, "gathered from each word", ha="center", **small)
    axes.set(xlim=(-3.6, 17.4), ylim=(-0.7, 9))
    axes.axis("off")


def _strip(axes, x, y, numbers):
    """Numbers side by side from ``x`` to ``x`` + 4, their middle at ``y``."""
    cells(axes, x, y - 0.25, [numbers], 4 / len(numbers), 0.5, zorder=2)


def two_blocks(axes):
    """The block of 2017 beside one of today: what stands on the way up, and what beside it."""
    _way(axes, 0, "2017", "tokens + sinusoids", 6.6)
    _aside(axes, 0, 0.7, 2.3, [(1.5, "attention\nown keys in each head\nbiases")])
    _on_the_way(axes, 0, 3.05, "layer norm")
    _aside(axes, 0, 3.6, 5.2, [(4.4, "network\nReLU, biases")])
    _on_the_way(axes, 0, 5.95, "layer norm")
    _way(axes, 4.9, "today", "tokens", 6.6)
    attention = "attention\nqueries, keys: normed, turned\nkeys and values: shared"
    _aside(axes, 4.9, 0.5, 2.9, [(1.0, "RMSNorm"), (2.0, attention)])
    _aside(axes, 4.9, 3.5, 5.9, [(4.0, "RMSNorm"), (5.0, "network\nSwiGLU")])
    axes.set(xlim=(-1.2, 8.9), ylim=(-0.55, 7.3))
    axes.axis("off")


def _way(axes, x, title, start, top):
    """The way of a token's vector straight up, from its name to the next block."""
    axes.annotate("", (x, top), (x, 0.05), arrowprops=ARROW | {"color": COLORS[1], "lw": 2.2})
    axes.text(x, -0.2, start, ha="center", va="center", fontsize=9)
    axes.text(x + 1, top + 0.35, title, ha="center", va="center", fontsize=12)


def _on_the_way(axes, x, y, name):
    """A part that all must pass."""
    box = {"boxstyle": "round,pad=0.3", "fc": ORANGE, "ec": EDGE}
    axes.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box)


def _aside(axes, x, start, end, parts):
    """Parts beside the way: they read it at ``start``, and what they say is added at ``end``."""
    side = x + 2.1
    line = {"color": EDGE, "linestyle": "-", "linewidth": 1}
    axes.plot([x, side, side, x + 0.2], [start, start, end, end], zorder=1, **line)
    axes.annotate("", (x + 0.16, end), (x + 0.6, end), arrowprops=ARROW)
    for y, name in parts:
        fill = ORANGE if "Norm" in name else BLUE
        box = {"boxstyle": "round,pad=0.3", "fc": fill, "ec": EDGE}
        axes.text(side, y, name, ha="center", va="center", fontsize=8, bbox=box)
    circle = {"boxstyle": "circle,pad=0.15", "fc": WHITE, "ec": EDGE}
    axes.text(x, end, "+", ha="center", va="center", fontsize=8, bbox=circle)
