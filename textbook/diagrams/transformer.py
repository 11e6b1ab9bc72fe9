"""The Transformer: its two stacks part by part, and the three shapes that one block makes."""

from textbook.plot.style import COLORS

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
    axes.text(x + 1.75, high - 0.2, "L times", fontsize=8, color="0.4", ha="right", va="center")


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
