"""Pictures: matplotlib with the book's colors, shown with a description for those who cannot see.

Colors are those of Okabe and Ito (2008), which color-blind readers can tell apart; each comes with
a line style of its own, so that a grey print can be read too. Importing this module sets them.
"""

import base64
import html
import io

import matplotlib
import matplotlib.pyplot as plt
from cycler import cycler

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

matplotlib.rcParams.update(
    {
        "axes.prop_cycle": cycler(color=COLORS) + cycler(linestyle=LINES),
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.titlesize": 11,
        "figure.dpi": 96,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "grid.alpha": 0.3,
        "image.cmap": "cividis",
        "lines.linewidth": 1.8,
        "legend.frameon": False,
    }
)


def subplots(rows=1, columns=1, *, width=7.0, height=3.2, **options):
    """A figure and its axes in the book's style, as ``matplotlib.pyplot.subplots`` gives them.

    ``width`` and ``height``, in inches, are those of the whole figure.
    """
    return plt.subplots(rows, columns, figsize=(width, height), **options)


def heatmap(axes, matrix, *, row_labels=None, column_labels=None, colorbar=True, **options):
    """Draw a matrix (rows, columns), an array or a tensor, as an image with labeled cells."""
    values = matrix.detach().numpy() if hasattr(matrix, "detach") else matrix
    image = axes.imshow(values, aspect="auto", **options)
    axes.grid(False)
    if column_labels is not None:
        axes.set_xticks(range(len(column_labels)), column_labels)
    if row_labels is not None:
        axes.set_yticks(range(len(row_labels)), row_labels)
    if colorbar:
        axes.figure.colorbar(image, ax=axes)
    return image


def unrolled(axes, words, *, layers=1, bidirectional=False, title=""):
    """Draw a recurrent network step by step: a column a word, a row a layer (or a direction)."""
    rows = 2 if bidirectional else layers
    arrow = dict(arrowstyle="->", color="0.35", shrinkA=13, shrinkB=13)
    bend = dict(arrow, connectionstyle="arc3,rad=0.45")
    for t, word in enumerate(words):
        axes.text(t, -0.15, word, ha="center", va="center")
        for row in range(1, rows + 1):
            mark = f"^{{({'fb'[row - 1] if bidirectional else row})}}" if rows > 1 else ""
            circle = dict(boxstyle="circle", fc="0.93")
            axes.text(t, row, f"$h_{{{t + 1}}}{mark}$", ha="center", va="center", bbox=circle)
            past_a_row = bidirectional and row == 2
            below = row - 2 if past_a_row else row - 1
            axes.annotate("", (t, row), (t, below), arrowprops=bend if past_a_row else arrow)
            following = t - 1 if past_a_row else t + 1
            if 0 <= following < len(words):
                axes.annotate("", (following, row), (t, row), arrowprops=arrow)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.4, rows + 0.6), title=title)
    axes.axis("off")


def show(figure, alt):
    """Show a figure with ``alt``, a sentence that says what can be seen, and close it.

    In a notebook the picture carries ``alt`` as its alternative text; in a script nothing is
    shown.
    """
    if not alt:
        raise ValueError("show() needs alt, a sentence that says what the picture shows")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    plt.close(figure)
    display = _notebook_display()
    if display:
        data = base64.b64encode(picture.getvalue()).decode()
        image = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'
        display({"text/html": image, "text/plain": f"[picture: {alt}]"}, raw=True)


def _notebook_display():
    """IPython's ``display`` where a notebook is running, else None."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    return display if get_ipython() is not None else None
