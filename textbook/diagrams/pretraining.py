"""Pretraining: who looks at whom, blanks, a head on top, an induction head, thin matrices."""

from textbook.plot.style import COLORS, rectangle

EDGE, BLUE, ORANGE = "0.35", "#d6e8f5", "#fbe3cf"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def _token(axes, x, y, word, color="0.93"):
    style = {"boxstyle": "round,pad=0.25", "fc": color, "ec": EDGE, "lw": 0.8}
    axes.text(x, y, word, ha="center", va="center", fontsize=8, bbox=style)


def family(axes, read, asked, looks, title):
    """Tokens that are read, below, and answers above them; a line where an answer may look.

    ``asked`` names an answer for each token or None, ``looks(i, j)`` tells whether answer i may
    look at token j.
    """
    for i, answer in enumerate(asked):
        if answer is None:
            continue
        for j in range(len(read)):
            if looks(i, j):
                axes.plot([j, i], [0.2, 0.8], color="0.55", linewidth=0.9, linestyle="-")
        _token(axes, i, 1, answer, COLORS[5])
    for j, word in enumerate(read):
        _token(axes, j, 0, word, "white" if word == "<mask>" else "0.93")
    axes.set(xlim=(-0.6, len(read) - 0.4), ylim=(-0.3, 1.3), title=title)
    axes.axis("off")


def masking(axes, words, shown, kinds):
    """A sentence, what the model gets to read, and what it is asked at the chosen places.

    ``kinds`` says for each word "hidden", "replaced", "kept", or nothing.
    """
    for i, (word, seen, kind) in enumerate(zip(words, shown, kinds, strict=True)):
        _token(axes, i, 2, word)
        _token(axes, i, 1, seen, COLORS[5] if kind else "0.93")
        if kind:
            axes.text(i, 1.45, kind, ha="center", va="center", fontsize=8)
            axes.annotate("", (i, 0.25), (i, 0.75), arrowprops={"arrowstyle": "->", "color": EDGE})
            _token(axes, i, 0, word, "white")
    for y, name in ((2, "text"), (1, "read"), (0, "asked")):
        axes.text(-0.8, y, name, ha="right", va="center")
    axes.set(xlim=(-1.6, len(words) - 0.4), ylim=(-0.4, 2.4))
    axes.axis("off")


def starts(axes, ways):
    """Encoders, each with a head on top: where the weights come from, and which of them learn.

    ``ways`` are a name, whether the body has read text, and whether the body learns. Blue has read,
    white is random; what does not learn is hatched.
    """
    for x, (name, read, learns) in enumerate(ways):
        style = {"ha": "center", "va": "center", "fontsize": 9}
        body = {"facecolor": BLUE if read else "white", "edgecolor": EDGE}
        rectangle(axes, x - 0.36, 0, 0.72, 0.9, hatch="" if learns else "//", **body)
        word = {"fc": body["facecolor"], "ec": "none", "pad": 2}
        axes.text(x, 0.45, "has read text" if read else "random", bbox=word, **style)
        rectangle(axes, x - 0.2, 1.15, 0.4, 0.35, facecolor="white", edgecolor=EDGE)
        axes.text(x, 1.325, "head", **style)
        for low, high in ((-0.3, -0.04), (0.92, 1.13), (1.52, 1.75)):
            axes.annotate("", (x, high), (x, low), arrowprops=ARROW)
        axes.text(x, 1.88, "labels", **style)
        axes.text(x, -0.42, "words", **style)
        axes.text(x, -0.75, name, **style | {"fontsize": 10, "weight": "bold"})
    axes.set(xlim=(-0.6, len(ways) - 0.4), ylim=(-0.95, 2.05))
    axes.axis("off")


def induction(axes, symbols):
    """The two steps of an induction head: symbols that come again, the last of which asks.

    In layer 1 the symbol after the last one's twin notes its left neighbour; in layer 2 the last
    one finds that note, and says the symbol that carries it.
    """
    asks = len(symbols) - 1
    twin = symbols.index(symbols[asks])
    found = twin + 1
    style = {"ha": "center", "va": "center"}
    for i, symbol in enumerate(symbols):
        fill = {twin: "0.93", found: ORANGE, asks: BLUE}.get(i, "white")
        box = {"boxstyle": "round,pad=0.3", "fc": fill, "ec": EDGE}
        axes.text(i, 0, symbol, bbox=box, **style)
    note = {"boxstyle": "round,pad=0.3", "fc": ORANGE, "ec": EDGE}
    axes.text(found, 1.3, f"{symbols[found]}, after {symbols[twin]}", bbox=note, **style)
    wants = {"boxstyle": "round,pad=0.3", "fc": BLUE, "ec": EDGE}
    axes.text(asks, 1.3, f"who stands after {symbols[asks]}?", bbox=wants, **style)
    axes.text(asks, 2.6, f"next: {symbols[found]}", bbox=wants, **style)
    for (start, low), (end, high), color in (
        ((found, 0.3), (found, 1.0), EDGE),
        ((asks, 0.3), (asks, 1.0), EDGE),
        ((asks, 1.6), (asks, 2.3), EDGE),
        ((twin, 0.3), (found - 0.3, 1.0), COLORS[1]),
        ((found + 0.3, 1.6), (asks - 0.4, 2.45), COLORS[0]),
    ):
        arrow = ARROW | {"color": color, "lw": 1 if color == EDGE else 2}
        axes.annotate("", (end, high), (start, low), arrowprops=arrow)
    for y, name in ((0, "read"), (1.3, "after layer 1"), (2.6, "after layer 2")):
        axes.text(-0.7, y, name, ha="right", va="center", fontsize=9)
    axes.text(twin - 0.1, 0.72, "one place back", color=COLORS[1], ha="right", fontsize=9)
    middle = (found + asks) / 2
    axes.text(middle, 2.3, "found by the note", color=COLORS[0], ha="right", fontsize=9)
    axes.set(xlim=(-2.4, asks + 1.3), ylim=(-0.5, 3.0))
    axes.axis("off")


def low_rank(axes, width, rank):
    """To scale: a square matrix that stays, plus a product of a tall and a flat one that learn."""
    thin = rank / width
    rectangle(axes, 0, 0, 1, 1, facecolor=BLUE, edgecolor=EDGE, hatch="//")
    rectangle(axes, 1.5, 0, thin, 1, facecolor=ORANGE, edgecolor=EDGE)
    rectangle(axes, 2, 1 - thin, 1, thin, facecolor=ORANGE, edgecolor=EDGE)
    style = {"ha": "center", "va": "center", "fontsize": 12}
    for x, y, sign in ((1.25, 0.5, "+"), (1.7, 0.5, "$R$"), (2.5, 0.82, "$S$")):
        axes.text(x, y, sign, **style)
    axes.text(0.5, 0.5, "$W$", bbox={"fc": BLUE, "ec": "none", "pad": 2}, **style)
    axes.text(0.5, -0.2, f"{width**2:,} numbers stay", **style | {"fontsize": 9})
    axes.text(2.1, -0.2, f"{2 * width * rank:,} learn", **style | {"fontsize": 9})
    axes.set(xlim=(-0.2, 3.2), ylim=(-0.35, 1.1), aspect="equal")
    axes.axis("off")
