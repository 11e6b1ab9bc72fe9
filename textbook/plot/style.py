"""The book's colors and sizes for matplotlib, figures in them, and how a figure is shown.

Colors are those of Okabe and Ito (2008), which color-blind readers can tell apart; each comes with
a line style of its own, so that a grey print can be read too. Importing this module sets them.
"""

import base64
import html
import io
import os

import matplotlib
import matplotlib.pyplot as plt
from cycler import cycler
from PIL import Image

from textbook.notebook import notebook_display

# Pixels of a picture for each pixel of its width, for dense screens. Tests, which look at none of
# them, take 0: a figure then draws itself without a layout, and is shown as an empty picture.
DENSITY = int(os.environ.get("MINITORCH_DENSITY", 2))
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

    ``width`` and ``height``, in inches, are those of the whole figure. ::

        figure, (left, right) = plot.subplots(1, 2, width=9)
        left.plot(losses)
        plot.show(figure, alt="The loss falls from 4 to 1 in 300 steps.")
    """
    return plt.subplots(rows, columns, figsize=(width, height), **options)


def show(figure, alt):
    """Show a figure with ``alt``, a sentence that says what can be seen, and close it.

    In a notebook the picture carries ``alt`` as its alternative text; in a script nothing is
    shown. ::

        plot.show(figure, alt="Two curves: with attention the loss falls twice as fast.")
    """
    if not alt:
        raise ValueError("show() needs alt, a sentence that says what the picture shows")
    picture = io.BytesIO()
    width = int(figure.bbox.width)
    if DENSITY:
        figure.savefig(picture, dpi=DENSITY * figure.dpi, metadata={"Software": None})
    else:
        figure.set_layout_engine("none")
        figure.draw_without_rendering()
        Image.new("RGB", (1, 1)).save(picture, "png")
    plt.close(figure)
    display = notebook_display()
    if display:
        data = base64.b64encode(_in_few_colors(Image.open(picture))).decode()
        image = f'<img width="{width}" alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'
        display({"text/html": image, "text/plain": f"[picture: {alt}]"}, raw=True)


def _in_few_colors(pixels):
    """A PNG file with a palette: twice as sharp in fewer bytes."""
    small = io.BytesIO()
    palette = pixels.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    palette.save(small, "png", optimize=True)
    return small.getvalue()


def rectangle(axes, x, y, width, height, **style):
    """Draw a filled rectangle from its lower left corner; ``style`` is that of ``axes.fill``."""
    corners = [x, x + width, x + width, x], [y, y, y + height, y + height]
    axes.fill(*corners, linewidth=1, linestyle="-", **style)


def cells(axes, x, y, rows, width=1, height=1, **style):
    """Draw a matrix as colored cells of this size, its first row on top: blue above 0, red below.

    ``x``, ``y`` is the lower left corner; ``style`` is that of ``axes.pcolormesh``.
    """
    across = [x + width * i for i in range(len(rows[0]) + 1)]
    up = [y + height * i for i in range(len(rows) + 1)]
    look = {"cmap": "RdBu", "vmin": -2, "vmax": 2, "edgecolors": "0.35", "linewidth": 0.4}
    axes.pcolormesh(across, up, rows[::-1], **look, **style)
