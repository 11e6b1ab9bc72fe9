"""The search of the web pages: it leads to sections, and looks at text, not at code and outputs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes

SECTIONS = "sections.js"  # beside search.js, which reads it
WITHOUT = {"searchtools.js", "language_data.js", "base-stemmer.js", "english-stemmer.js"}
SCRIPTS = re.compile(r'<script src="_static/searchtools\.js.*?(?=</body>)', re.DOTALL)
OURS = "".join(f'<script src="_static/{name}"></script>\n' for name in (SECTIONS, "search.js"))
PASSED_OVER = {"cell_input", "cell_output"}


def write_search(app, pages: Path) -> None:
    """Give the pages that Sphinx built for ``app`` our search in place of its own."""
    found = [section for name in sorted(app.env.found_docs) for section in _sections(app, name)]
    text = f"const SECTIONS = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n"
    (pages / "_static" / SECTIONS).write_text(text, encoding="utf-8")
    for name in WITHOUT:
        (pages / "_static" / name).unlink()
    (pages / "searchindex.js").unlink()
    page = pages / "search.html"
    html = page.read_text("utf-8").replace(
        '<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">'
    )
    page.write_text(SCRIPTS.sub(OURS, html), encoding="utf-8")


def _sections(app, name: str) -> Iterator[tuple[str, str, str, str]]:
    """Of each section: the title of its page, its own, its address, its text."""
    document = app.env.get_doctree(name)
    page = app.env.titles[name].astext()
    for section in document.findall(nodes.section):
        text = " ".join(_texts(section))
        title = section.next_node(nodes.title).astext()
        address = f"{app.builder.get_target_uri(name)}#{section['ids'][0]}"
        yield page, title, address, re.sub(r"\s+", " ", text)


def _texts(node: nodes.Element) -> Iterator[str]:
    """The paragraphs that stand in a section and in none within it."""
    for child in node.children:
        if isinstance(child, nodes.paragraph):
            yield child.astext()
        elif not isinstance(child, (nodes.section, nodes.Text, nodes.FixedTextElement)):
            if PASSED_OVER.isdisjoint(child.get("classes", ())):
                yield from _texts(child)
