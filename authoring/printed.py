"""The book as PDF, printed from its web pages by a Chromium without a window.

All chapters stand on one page, so that links lead through the whole book. It is printed twice: the
first print tells on which page each heading and each term came to stand, and the second has these
numbers in its contents and its index, whose terms are those of index_terms.txt.
"""

import html
import posixpath
import re
from pathlib import Path

from pypdf import PdfReader, PdfWriter

from .formulas import headless

ARTICLE = re.compile(r'<article role="main" id="furo-main-content">(.*?)</article>', re.DOTALL)
STYLE_LINK = re.compile(r'<link rel="stylesheet"[^>]*>')
HEADING = re.compile(
    r'<section[^>]* id="([^"]+)">\s*(?:<span[^>]*></span>)*<h(1|2)>(.*?)<a ', re.DOTALL
)
TERMS = Path(__file__).with_name("index_terms.txt").read_text("utf-8").split("\n")[:-1]
PARAGRAPH = re.compile(r"<p>(?:(?!</p>).)*</p>", re.DOTALL)
PLACE = '<span class="as-pdf"></span>'  # in a page, for links to what it also is
PAGE = """<!doctype html><html lang="en" data-theme="light" class="laid-out"><head>
<meta charset="utf-8"><title>{title}</title>{styles}
<link rel="stylesheet" href="_static/printed.css"></head>
<body data-theme="light"><header><h1>{title}</h1></header>
<nav><h2>Contents</h2>{contents}</nav>{articles}
<section class="index" id="index"><h2>Index</h2>{index}</section></body></html>"""


def print_book(pages: Path, names: list[str], title: str) -> None:
    """Write ``book.pdf`` of these pages of a built site, and beside each page a PDF of its own."""
    texts = {name: article(pages, name, names) for name in names}
    styles = "".join(STYLE_LINK.findall((pages / "index.html").read_text("utf-8")))
    styles += '<link rel="stylesheet" href="_static/formulas.css">'
    headings, terms = [*_headings(texts), ("index", "1", "Index")], {}
    articles = "".join(f"<article>{_marked(text, terms)}</article>" for text in texts.values())
    numbers: dict[str, int] = {}
    book, page = pages / "book.pdf", pages / "book.html"
    for _ in range(2):
        text = PAGE.format(
            title=title,
            styles=styles,
            contents=_contents(headings, numbers),
            articles=articles,
            index=_index(terms, numbers),
        )
        page.write_text(text, encoding="utf-8")
        headless(
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
            "--virtual-time-budget=600000",
            f"--print-to-pdf={book}",
            page.as_uri(),
        )
        reader = PdfReader(book)
        numbers = {
            name.removeprefix("/"): reader.get_destination_page_number(place) + 1
            for name, place in reader.named_destinations.items()
        }
    page.unlink()
    starts = [numbers[anchor] - 1 for anchor, level, _ in headings if level == "1"]
    for name, start, end in zip(names, starts, starts[1:], strict=False):
        part = PdfWriter()
        part.append(reader, pages=(start, end), import_outline=False)
        part.write(pages / f"{name}.pdf")
        link(pages / f"{name}.html", f"{Path(name).name}.pdf", "As PDF")
    link(pages / "index.html", "book.pdf", "The chapters as one PDF, with contents and index")


def link(page: Path, file: str, words: str) -> None:
    """Let a page lead to a file beside it, where its place for such links is."""
    text = page.read_text("utf-8").replace(PLACE, f'<a href="{file}">{words}</a>. {PLACE}')
    page.write_text(text, encoding="utf-8")


def article(pages: Path, name: str, names: list[str]) -> str:
    """The text of a page, its anchors and links with the page's name in front."""
    text = ARTICLE.search((pages / f"{name}.html").read_text("utf-8"))[1]
    text = text.replace(' loading="lazy"', "")
    text = re.sub(r'\bid="([^"]+)"', lambda found: f'id="{_id(name, found[1])}"', text)

    def link(found: re.Match) -> str:
        path, _, anchor = html.unescape(found[1]).partition("#")
        if re.match(r"\w+:", path):
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        target = target.removesuffix(".html")
        return f'href="#{_id(target, anchor)}"' if target in names else ""

    text = re.sub(r'\bhref="([^"]*)"', link, text)
    return re.sub(r'src="(?!data:|\w+:)([^"]+)"', rf'src="{posixpath.dirname(name)}/\1"', text)


def _id(name: str, anchor: str) -> str:
    return f"{posixpath.basename(name)[:2]}{'-' if anchor else ''}{anchor}"


def _headings(texts: dict[str, str]) -> list[tuple[str, str, str]]:
    """The anchor, the level and the words of the headings of chapters and sections."""
    return [found.groups() for text in texts.values() for found in HEADING.finditer(text)]


def _marked(text: str, terms: dict[str, list[str]]) -> str:
    """The text with an anchor where a paragraph has a term for the first time; they are noted."""
    for term in TERMS:
        word = re.compile(rf"(?<![\w-]){re.escape(term)}(?!-|\w{{3}})(?![^<]*>)", re.IGNORECASE)
        for paragraph in PARAGRAPH.finditer(text):
            if found := word.search(text, *paragraph.span()):
                anchor = f"term-{sum(map(len, terms.values()))}"
                terms.setdefault(term, []).append(anchor)
                marked = f'<span id="{anchor}">{found[0]}</span>'
                text = text[: found.start()] + marked + text[found.end() :]
                break
    return text


def _contents(headings: list[tuple[str, str, str]], numbers: dict[str, int]) -> str:
    return "".join(
        f'<p class="h{level}"><a href="#{anchor}">{words}</a>'
        f"<span>{numbers.get(anchor, 0)}</span></p>"
        for anchor, level, words in headings
    )


def _index(terms: dict[str, list[str]], numbers: dict[str, int]) -> str:
    lines = []
    for term in sorted(terms, key=str.lower):
        first = {numbers.get(anchor, anchor): anchor for anchor in reversed(terms[term])}
        links = (f'<a href="#{first[number]}">{number}</a>' for number in sorted(first))
        lines.append(f"<p>{html.escape(term)} {', '.join(links)}</p>")
    return "".join(lines)
