"""The book as EPUB, made of its web pages by pandoc, with formulas in MathML.

As on paper, folded code and folded tables are left out.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from .printed import article, link
from .sources import BookError

LEFT_OUT = (
    "a.headerlink, details.hide, .cell_output details, .admonition.tip, "
    "iframe, script, style, noscript, th .visually-hidden"
)
HEADING = re.compile("h[1-6]")
STYLES = Path(__file__).with_name("site_static") / "epub.css"
TITLE_PAGE = '<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'


def pandoc() -> str | None:
    """The program that makes the EPUB, if this machine has it."""
    return shutil.which("pandoc")


def write_epub(pages: Path, names: list[str], title: str) -> None:
    """Write ``book.epub`` of these pages of a built site."""
    read = [BeautifulSoup(article(pages, name, names), "html.parser") for name in names]
    _lead_to_headings(read)
    texts = "".join(str(_plain(page)) for page in read)
    text = TITLE_PAGE.format(title=title) + texts + "</body></html>"
    with tempfile.TemporaryDirectory() as work:
        page = Path(work, "book.html")
        page.write_text(text, encoding="utf-8")
        command = [pandoc(), page, "--from=html", "--to=epub3", "--mathml", "--toc-depth=2"]
        command += [f"--css={STYLES}", f"--resource-path={pages}"]
        command += [f"--output={pages / 'book.epub'}"]
        run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if run.returncode or run.stderr:
        raise BookError(f"pandoc cannot write {pages / 'book.epub'}:\n{run.stderr}")
    link(pages / "index.html", "book.epub", "The same as EPUB")


def _lead_to_headings(pages: list[Tag]) -> None:
    """A section has several anchors, and pandoc knows that of a heading alone: links lead there."""
    headings = {}
    for page in pages:
        for section in page("section"):
            heading = section.find(HEADING)
            heading["id"] = section["id"]
            for anchor in heading.find_previous_siblings("span"):
                headings[f"#{anchor.extract()['id']}"] = f"#{section['id']}"
            section.unwrap()
    for page in pages:
        for found in page.select('a[href^="#"]'):
            found["href"] = headings.get(found["href"], found["href"])


def _plain(page: Tag) -> Tag:
    """An article as pandoc reads it: TeX in its scripts, no page's furniture."""
    for tag in page.select(LEFT_OUT):
        tag.decompose()
    for tag in page.select(".math.notranslate"):
        tex = re.fullmatch(r"\s*\\[\[(](.*)\\[\])]\s*", tag.get("data-tex") or tag.text, re.DOTALL)
        formula = page.new_tag("script", type="math/tex")
        if tag.name == "div":
            formula["type"] += "; mode=display"
        formula.string = tex[1]
        tag.replace_with(formula)
    for tag in page.select("[style*='white-space:pre']"):
        for said in tag.find_all(string=re.compile("\n")):
            pieces = [piece for line in said.split("\n") for piece in (page.new_tag("br"), line)]
            said.replace_with(*pieces[1:])
    for tag in page.select(".cell_input pre"):
        tag.string = tag.text
        tag["class"] = "python"
    return page
