"""Text to be read: large, or with its tokens coloured by a number."""

import html

from textbook.lab.report import emit


def colored_text(tokens, values, notes=None, *, alt):
    """Show tokens on a background that is the darker the larger their value is, from 0 to 1.

    ``notes``, a short text for each token (or an empty one), stand small behind it. Of the
    token "\\n" there is an arrow, and the line ends. Where there is no notebook, the tokens and
    their notes are printed. ::

        colored_text("a cat", [0.1, 0.0, 0.3, 0.6, 0.9], alt="Darker with each letter.")
    """
    from textbook.plot import COLORS

    notes = notes or [""] * len(tokens)
    red, green, blue = (int(COLORS[5][i : i + 2], 16) for i in (1, 3, 5))
    spans = []
    for token, value, note in zip(tokens, values, notes, strict=True):
        shade = f"rgba({red},{green},{blue},{min(max(value, 0), 1):.2f})"
        shown = html.escape(token).replace(" ", "&nbsp;").replace("\n", "&#8629;<br>")
        small = f'<sub style="font-size:60%">{html.escape(note)}</sub>&#8203;' if note else ""
        style = f"background:{shade};padding:2px 0"
        spans.append(f'<span title="{value:.2f}" style="{style}">{shown}</span>{small}')
    text = "".join(
        f"{token}[{note}]" if note else token for token, note in zip(tokens, notes, strict=True)
    )
    frame = "background:white;color:black;font-family:monospace;line-height:2.2;max-width:48em"
    markup = (
        f'<div role="img" aria-label="{html.escape(alt)}" style="{frame}">{"".join(spans)}</div>'
    )
    emit(f"{alt}\n{text}", markup=markup)


def large(text, after=""):
    """Show what a model wrote, large enough to be read aloud; its lines stay as they are.

    What it was given, ``after``, stands before it in grey.
    """
    style = "font-family:serif;font-size:1.25em;line-height:1.5;white-space:pre-wrap;margin:1em 2em"
    given = f'<span style="color:#777">{html.escape(after)}</span>' if after else ""
    emit(f"{after}{text}\n", markup=f'<div style="{style}">{given}{html.escape(text)}</div>')
