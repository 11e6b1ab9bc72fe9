"""Pretraining: who looks at whom, blanks, a head on top, an induction head, what comes after."""

from textbook.plot.style import COLORS, rectangle

EDGE, BLUE, ORANGE = "0.35", "#d6e8f5", "#fbe3cf"
ARROW = {"arrowstyle": "->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}


def _token(axes, x, y, word, color="0.93"):
    style = {"boxstyle": "round,pad=0.25", "fc": color, "ec": EDGE, "lw": 0.8}
    axes.text(x, y, word, ha="center", va="center", fontsize=8, bbox=style)


def family(axes, read, asked, looks, title, lit):
    """Tokens that are read, below, and answers above them; a line where an answer may look.

    ``asked`` names an answer for each token or None, ``looks(i, j)`` tells whether answer i may
    look at token j; the lines of answer ``lit`` are orange.
    """
    for i, answer in enumerate(asked):
        if answer is None:
            continue
        for j in range(len(read)):
            if looks(i, j):
                style = {"color": COLORS[1], "lw": 2} if i == lit else {"color": "0.7", "lw": 0.9}
                axes.plot([j, i], [0.2, 0.8], linestyle="-", zorder=1 + (i == lit), **style)
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


def stages(axes, columns):
    """The same two blocks again and again: what they read, what is asked, what learns.

    ``columns`` are a name, a section, what is asked above, whether there is a head, whether the
    blocks have read text (blue) and whether they learn (else hatched), and how many examples.
    """
    small = {"ha": "center", "va": "center", "fontsize": 9}
    for x, (name, section, asked, head, read, learns, count) in enumerate(columns):
        axes.text(x, 3.62, name, **small | {"fontsize": 10, "weight": "bold"})
        axes.text(x, 3.3, section, **small | {"color": "0.4"})
        axes.text(x, 2.8, asked, **small)
        for y in (0.4, 1.05):
            body = {"facecolor": BLUE if read else "white", "edgecolor": EDGE}
            rectangle(axes, x - 0.32, y, 0.64, 0.5, hatch="" if learns else "//", **body)
            word = {"fc": body["facecolor"], "ec": "none", "pad": 1.5}
            axes.text(x, y + 0.25, "block", bbox=word, **small)
        if head:
            rectangle(axes, x - 0.2, 1.75, 0.4, 0.35, facecolor="white", edgecolor=EDGE)
            axes.text(x, 1.925, "head", **small)
        gaps = [(0.05, 0.38), (0.9, 1.04), (1.55, 1.74), (2.1, 2.5)]
        for low, high in gaps if head else [*gaps[:2], (1.55, 2.5)]:
            axes.annotate("", (x, high), (x, low), arrowprops=ARROW)
        axes.text(x, -0.2, count, **small)
        if x:
            axes.plot([x - 0.5] * 2, [-0.4, 3.7], color="0.85", linewidth=1, linestyle="-")
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, 3.85))
    axes.axis("off")


def turns(axes, parts):
    """A conversation in one line, and above the word before each word of an answer what is asked.

    ``parts`` are words and whether they belong to an answer.
    """
    x = before = 0
    for words, answer in parts:
        for word in words:
            width = 0.35 + 0.1 * max(len(word), 3)
            x += width / 2
            _token(axes, x, 0, word, BLUE if answer else "0.93")
            if answer:
                axes.annotate("", (before, 1.0), (before, 0.35), arrowprops=ARROW)
                axes.text(before, 1.2, word, ha="center", va="center", fontsize=8)
            before = x
            x += width / 2
    for y, name in ((0, "read"), (1.25, "asked")):
        axes.text(-0.2, y, name, ha="right", va="center", fontsize=9)
    axes.set(xlim=(-0.9, x), ylim=(-0.5, 1.55))
    axes.axis("off")


def grid_of_answers(axes, requests, groups):
    """What models answered, a row a model: blue if right, pale if only the language is.

    ``groups`` are a name and rows; a row has for each request an answer and 2, 1 or 0.
    """
    top = 0
    small = {"ha": "center", "va": "center", "fontsize": 8}
    for i, request in enumerate(requests):
        axes.text(i + 0.5, 0.2, request, **small | {"va": "bottom"})
    for name, rows in groups:
        for row in rows:
            top -= 1
            for i, (answer, right) in enumerate(row):
                fill = ("white", BLUE, COLORS[5])[right]
                rectangle(axes, i, top, 1, 1, facecolor=fill, edgecolor="0.7")
                axes.text(i + 0.5, top + 0.5, answer, **small)
        axes.text(-0.08, top + len(rows) / 2, name, ha="right", va="center", fontsize=9)
        top -= 0.4
    axes.set(xlim=(-1.1, len(requests)), ylim=(top + 0.3, 1.3))
    axes.axis("off")


def distances(panels, cases):
    """The logarithms of two answers' probabilities, before and after, a panel for each outcome.

    ``cases`` are a title, the better and the worse before, the two after, and a note below.
    """
    for axes, (title, before, after, note) in zip(panels, cases, strict=True):
        for y, (better, worse) in ((1, before), (0, after)):
            axes.plot([-26, -14], [y, y], color="0.7", linewidth=1, linestyle="-")
            axes.plot(better, y, "o", color=COLORS[0], markersize=9)
            axes.plot(worse, y, "s", color=COLORS[1], markersize=8)
        for was, now, color in zip(before, after, COLORS, strict=False):
            arrow = ARROW | {"color": color, "shrinkA": 6, "shrinkB": 6}
            axes.annotate("", (now, 0), (was, 1), arrowprops=arrow)
        ends = {"arrowstyle": "<->", "color": EDGE, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (after[0], -0.55), (after[1], -0.55), arrowprops=ends)
        axes.text(sum(after) / 2, -0.62, note, ha="center", va="top", fontsize=9)
        axes.set(xlim=(-26.5, -13.5), ylim=(-1.55, 1.4), title=title, xlabel="log p")
        axes.set(xticks=range(-25, -14, 5), yticks=[0, 1], yticklabels=["after", "before"])
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)


def low_rank(axes, width, rank):
    """To scale: a square matrix that stays, plus the product of a tall and a flat one that learn.

    The product stands where the rows of the tall one meet the columns of the flat one.
    """
    thin = rank / width
    look = {"facecolor": ORANGE, "edgecolor": EDGE}
    rectangle(axes, 0, 0, 1, 1, facecolor=BLUE, edgecolor=EDGE, hatch="//")
    axes.plot([2, 3, 3, 2, 2], [0, 0, 1, 1, 0], color=EDGE, linewidth=1, linestyle="--")
    rectangle(axes, 1.95 - thin, 0, thin, 1, **look)
    rectangle(axes, 2, 1.05, 1, thin, **look)
    style = {"ha": "center", "va": "center", "fontsize": 12}
    for x, sign in ((1.35, "+"), (2.5, "$RS$")):
        axes.text(x, 0.5, sign, **style)
    axes.text(0.5, 0.5, "$W$", bbox={"fc": BLUE, "ec": "none", "pad": 2}, **style)
    axes.text(1.85 - thin, 0.5, "$R$", **style)
    axes.text(2.5, 1.17 + thin, "$S$", **style)
    small = style | {"fontsize": 9}
    axes.text(0.5, -0.15, f"{width**2:,} numbers stay", **small)
    axes.text(2.5, -0.15, f"{2 * width * rank:,} learn", **small)
    axes.set(xlim=(-0.1, 3.1), ylim=(-0.25, 1.3 + thin), aspect="equal")
    axes.axis("off")
