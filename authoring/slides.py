"""Slides of each chapter for a lecture, cut out of its web page: no second source of text.

A section gives a slide with its heading, its opening and its first formula with the sentence that
leads to it, and one for a figure, with what to see in it; a verdict stands on the last. All text is
in the speaker's notes (key S). Figures are the pictures of the notebook, not SVG: drawing them anew
would execute each chapter.
"""

import copy
import html
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import sphinx_revealjs
from bs4 import BeautifulSoup, Tag

from .formulas import STYLES

REVEAL = Path(sphinx_revealjs.__file__).parent / "_static" / "revealjs"
NEEDED = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js")
MOST = 25  # slides of a chapter; a second figure of a section has to fit
LONGEST = 45  # words on a slide; the rest of a paragraph is for the notes
LARGEST = 120  # words of a table that fits on a slide
VERDICT = re.compile(r"[CE]\d")  # how a box begins that says what came out
READY = f'<link rel="stylesheet" href="../_static/{STYLES}">'
AS_READ = '<script defer src="../_static/mathjax/tex-chtml.js"></script>'
DECK = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="../_static/revealjs/dist/reset.css">
<link rel="stylesheet" href="../_static/revealjs/dist/reveal.css">
{formulas}
<link rel="stylesheet" href="../_static/slides.css"></head>
<body tabindex="0"><div class="reveal"><div class="slides">
{slides}
</div></div>
<script src="../_static/revealjs/dist/reveal.js"></script>
<script src="../_static/revealjs/plugin/notes/notes.js"></script>
<script>Reveal.initialize({{hash: true, slideNumber: "c/t", center: false, transition: "none",
  plugins: [RevealNotes]}});</script></body></html>"""


def write_slides(pages: Path) -> None:
    """Write a deck of each chapter of a built site into its folder slides/."""
    for name in NEEDED:
        target = pages / "_static" / "revealjs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REVEAL / name, target)
    ready = (pages / "_static" / STYLES).exists()
    (pages / "slides").mkdir()
    for page in sorted(pages.glob("notebooks/*.html")):
        read = page.read_text("utf-8").replace(' loading="lazy"', "")
        article = BeautifulSoup(read, "html.parser").article
        for link in article.select('a[href^="#"]'):
            link["href"] = f"../notebooks/{page.name}{link['href']}"
        title = _heading(article.h1)
        text = DECK.format(
            title=html.escape(title),
            formulas=READY if ready else AS_READ,
            slides="\n".join(_slides(article, title)),
        )
        (pages / "slides" / page.name).write_text(text, encoding="utf-8")


def _slides(article: Tag, title: str) -> Iterator[str]:
    chapter = article.find("section")
    sections = []
    for section in chapter.find_all("section", recursive=False):
        if _heading(section.h2) == "Side roads":
            break
        sections.append(section)
    opening = chapter.find_all("p", recursive=False)
    yield _slide(f"<h1>{title}</h1>{_short(opening[0])}", opening)
    room = MOST - 1 - sum(1 + bool(_figures(section)) for section in sections)
    for section in sections:
        heading, paragraphs = f"<h2>{_heading(section.h2)}</h2>", _paragraphs(section)
        figures = _figures(section)[:2]
        if len(figures) == 2 and room > 0:
            room -= 1
        else:
            figures = figures[:1]
        boxes = section("blockquote")
        verdict = next((box for box in boxes if VERDICT.match(box.get_text().strip())), None)
        formula = section.find("div", class_="math")
        table = None if figures or formula else _table(section)
        first = next(iter(paragraphs), None)
        before = formula.find_all_previous("p") if formula else []
        leading = next((p for p in before if p in paragraphs), first)
        if leading is first:
            words = _short(first, leads=bool(formula or table))
        else:
            words = _short(first) + _short(leading, leads=True, end=True)
        slides = [heading + words + _copied(formula or table)]
        for figure in figures:
            seen = next((p for p in figure.find_all_next("p") if p in paragraphs), None)
            slides.append(f"<h3>{_heading(section.h2)}</h3>{_copied(figure)}{_short(seen)}")
        if verdict:
            slides[-1] += f'<p class="verdict">{verdict.strong.decode_contents()}</p>'
        for slide in slides:
            yield _slide(slide, paragraphs)


def _slide(shown: str, notes: list[Tag]) -> str:
    spoken = "".join(f"<p>{note.decode_contents()}</p>" for note in notes)
    return f'<section>{shown}<aside class="notes">{spoken}</aside></section>'


def _heading(tag: Tag) -> str:
    """The words of a heading, without the sign that links to it."""
    tag = copy.copy(tag)
    for link in tag.find_all("a", class_="headerlink"):
        link.decompose()
    return tag.decode_contents().strip()


def _paragraphs(section: Tag) -> list[Tag]:
    """What a section says, outside of cells, tables and boxes."""
    inside = ("blockquote", "table", "aside", "details")
    said = [p for p in section.find_all("p") if not p.find_parent(inside)]
    return [p for p in said if not p.find_parent("div", class_="cell")]


def _figures(section: Tag) -> list[Tag]:
    return section.find_all("img")


def _table(section: Tag) -> Tag | None:
    """Its first table outside of cells that fits on a slide."""
    tables = [t for t in section("table") if not t.find_parent("div", class_="cell")]
    return next((t for t in tables if len(t.get_text(" ").split()) <= LARGEST), None)


def _copied(tag: Tag | None) -> str:
    return str(tag) if tag else ""


def _short(paragraph: Tag | None, *, leads: bool = False, end: bool = False) -> str:
    """The first sentences of a paragraph, as many as fit on a slide, or the last, half as many.

    What ends with a colon is left out, unless that ``leads`` to what the slide shows.
    """
    if paragraph is None:
        return ""
    sentences = re.split(r"(?<=[.?!:])\s+(?![^<]*>)", paragraph.decode_contents().strip())
    kept, words = [], 0
    for sentence in reversed(sentences) if end else sentences:
        words += len(re.sub(r"<[^>]*>", "", sentence).split())
        if kept and words > (LONGEST // 2 if end else LONGEST):
            break
        kept.append(sentence)
    if end:
        kept.reverse()
    if kept[1:] and kept[-1].endswith(":") and not leads:
        kept.pop()
    return f"<p>{BeautifulSoup(' '.join(kept), 'html.parser')}</p>"
