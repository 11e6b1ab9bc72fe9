"""The web edition: each page is there, each link leads somewhere, nothing comes from a network."""

import html
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader

from authoring import epub, formulas
from authoring.site import add_books, site
from authoring.slides import _slides
from authoring.sources import BookError

ROOT = Path(__file__).resolve().parents[1]
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What a page refers to, what it loads, which anchors it has, which pictures lack a text."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.silent = self.without_level = self.unreachable = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(LOADING.get(tag)) and given.get("rel", "stylesheet") == "stylesheet":
            self.loads.append(given[LOADING[tag]])
        self.silent += tag == "img" and not given.get("alt")
        self.without_level += given.get("role") == "heading" and "aria-level" not in given
        self.unreachable += tag == "pre" and "tabindex" not in given


PART = ("00_tensors_and_autograd", "05_self_attention")
whole = pytest.param("whole", marks=pytest.mark.thorough)


@pytest.fixture(scope="module", params=["part", whole])
def root(request, tmp_path_factory):
    """A book of two chapters and a set, and with --all this one too."""
    if request.param == "whole":
        return ROOT
    copy = tmp_path_factory.mktemp("part")
    shutil.copy(ROOT / "README.md", copy)
    (copy / "pyproject.toml").write_text('[tool.minitorch-book]\nrepository = "owner/name"\n')
    shutil.copytree(ROOT / "docs", copy / "docs")
    for name in [f"notebooks/{stem}" for stem in PART] + [f"exercises/{PART[1]}/{PART[1]}"]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        for path in ROOT.glob(f"{name}.*"):
            shutil.copy(path, copy / path.relative_to(ROOT))
    return copy


BUILD = (
    "import pathlib, sys; from authoring.site import site; site(*map(pathlib.Path, sys.argv[1:]))"
)


@pytest.fixture(scope="module")
def book(root, tmp_path_factory):
    """The pages, built in a process of its own: Sphinx registers what it knows once a process."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    subprocess.run([sys.executable, "-c", BUILD, root, folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def pages(book):
    return {path: Page(path.read_text("utf-8")) for path in book.rglob("*.html")}


def test_each_chapter_and_set_has_a_page_with_its_pictures(root, book, pages):
    for path in [*root.glob("notebooks/*.ipynb"), *root.glob("exercises/*/*.ipynb")]:
        page = book / path.relative_to(root).with_suffix(".html")
        assert page in pages
        stored = path.read_text("utf-8").count("data:image/")
        assert page.read_text("utf-8").count('src="../_images/') == stored
        assert page.stat().st_size < 1e6


def test_every_link_and_anchor_leads_somewhere(book, pages):
    broken = defaultdict(list)
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.is_file() or (
                parts.fragment and known and unquote(parts.fragment) not in known.anchors
            ):
                broken[path.relative_to(book)].append(link)
    assert not broken


def test_nothing_is_loaded_from_outside(book, pages):
    for path, page in pages.items():
        for load in page.loads:
            assert not urlsplit(load).netloc, f"{path.relative_to(book)} loads {load}"
            if not load.startswith("data:"):
                assert (path.parent / unquote(urlsplit(load).path)).is_file(), load
    for style in book.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text("utf-8"))


def test_every_picture_has_a_text(book, pages):
    assert {
        str(path.relative_to(book)): page.silent for path, page in pages.items() if page.silent
    } == {}


def test_every_heading_tells_its_level(pages):
    assert {path.name for path, page in pages.items() if page.without_level} == set()
    of_sphinx = [path for path in pages if path.parent.name != "slides"]
    assert all("caption-text" in path.read_text("utf-8") for path in of_sphinx)


def test_no_solution_is_given_away(book):
    for path in (book / "exercises").rglob("*.html"):
        assert "BEGIN SOLUTION" not in path.read_text("utf-8")
        assert "NotImplementedError" in path.read_text("utf-8")


def test_folded_cells_say_what_is_in_them(root, book):
    for path in root.glob("notebooks/*.ipynb"):
        text = (book / path.relative_to(root).with_suffix(".html")).read_text("utf-8")
        folded = path.read_text("utf-8").count('"hide-input"')
        assert len(re.findall(r'class="collapsed[^>]*>Code: \w', text)) == folded


def test_pages_lead_to_hosts_where_the_repository_is_named(root, book):
    named = root != ROOT  # in the part's setting
    for path in [*root.glob("notebooks/*.ipynb"), *root.glob("exercises/*/*.ipynb")]:
        name = path.relative_to(root).as_posix()
        text = (book / name).with_suffix(".html").read_text("utf-8")
        assert (f"/owner/name/blob/main/{name}" in text) == named
        assert (f"/owner/name/main?urlpath=lab/tree/my/{name}" in text) == named
        assert "minitorch-book" not in text  # the cell that installs it is not shown


def test_the_window_has_both_models_and_knows_the_chapters(root, book):
    there = {path.name[:2] for path in root.glob("notebooks/*.ipynb")}
    text = html.unescape((book / "docs" / "window.html").read_text("utf-8"))
    carried = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert len(carried) == text.count("<iframe") == 2
    assert json.loads(carried[0])["target"] == ["<s>"]  # there is something left to write
    for data in map(json.loads, carried):
        assert len(data["model"]["weights"]) * 3 / 4 < 1e6
        known = {f"{int(number):02}" for number in data["chapters"]}
        assert {"05", "06", "07", "09", "10", "11"} & there <= known
        for address in data["chapters"].values():
            assert (book / "docs" / address).resolve().is_file(), address


def test_nothing_is_left_beside_the_pages(book):
    assert list(book.parent.iterdir()) == [book]


FORMULA = re.compile(
    r'class="math notranslate nohighlight"(?: data-tex="([^"]*)"|>(.*?)</)', re.DOTALL
)


def test_no_prose_is_set_as_a_formula(pages):
    """A dollar sign too many, or one that the renderer pairs otherwise than JupyterLab."""
    for path in pages:
        for ready, raw in FORMULA.findall(path.read_text("utf-8")):
            formula = ready or raw
            assert not re.search(r"\\text\{[^}]*\\_", formula), formula
            symbols = re.sub(r"\\(text|mathrm|operatorname)\{[^}]*\}", "", html.unescape(formula))
            assert not re.search(r"(?<!\\)\b[a-z]{2,} [a-z]{2,} [a-z]{2,}", symbols), formula


def test_what_scrolls_can_be_reached_by_keys_and_no_heading_of_a_table_is_empty(pages):
    assert {path.name for path, page in pages.items() if page.unreachable} == set()
    for path in pages:
        text = path.read_text("utf-8")
        drawn = re.findall(r'<div class="output[^"]*"([^>]*)>\s*<img', text)
        assert drawn or path.parent.name != "notebooks"
        assert all("tabindex" in rest for rest in drawn), path.name
        for head in re.findall(r"<th\b.*?</th>", text, re.DOTALL):
            read = BeautifulSoup(head, "html.parser").th
            for formula in read.select(".math"):
                formula.decompose()
            assert read.get_text(strip=True), f"{path.name}: {head}"


def test_search_knows_the_sections_and_leaves_out_code(book, pages):
    text = (book / "_static" / "sections.js").read_text("utf-8")
    sections = json.loads(text.removeprefix("const SECTIONS = ").removesuffix(";\n"))
    for _, title, address, _ in sections:
        target, anchor = address.split("#")
        assert anchor in pages[book / target].anchors, title
    titles = {title for _, title, _, _ in sections}
    assert any(title.startswith("1. Why read step by step") for title in titles)
    words = " ".join(words for _, _, _, words in sections)
    assert "What the first word has to say" in words and "import numpy" not in words


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(BookError, match="not empty"):
        site(ROOT, tmp_path)


def test_the_host_is_given_what_the_command_writes():
    """.github/workflows/pages.yml, as far as it can be checked without GitHub."""
    workflow = yaml.safe_load(Path(ROOT, ".github/workflows/pages.yml").read_text("utf-8"))
    steps = workflow["jobs"]["build"]["steps"]
    [*_, command] = [step["run"].split() for step in steps if "run" in step]
    [upload] = [step for step in steps if "upload-pages" in step.get("uses", "")]
    assert command[:-1] == ["python", "book.py", "site"]
    assert upload["with"]["path"] == command[-1]
    deploy = workflow["jobs"]["deploy"]
    assert deploy["needs"] == "build" and deploy["environment"]["name"] == "github-pages"
    assert deploy["permissions"] == {"pages": "write", "id-token": "write"}


needs_chromium = pytest.mark.skipif(formulas.chromium() is None, reason="needs Chromium")


def test_each_chapter_has_slides_with_its_text_as_notes(root, book):
    for chapter in root.glob("notebooks/*.ipynb"):
        deck = BeautifulSoup(
            (book / "slides" / f"{chapter.stem}.html").read_text("utf-8"), "html.parser"
        )
        shown = deck.select(".slides > section")
        assert 15 <= len(shown) <= 25
        assert sum(slide.img is not None for slide in shown) > 5
        assert all(slide.select_one("aside.notes p") for slide in shown)
        verdicts = [verdict.get_text() for verdict in deck.select(".verdict")]
        assert verdicts and all(re.match(r"[CE]\d", verdict) for verdict in verdicts)
        for slide in shown:
            slide.aside.decompose()
            assert len(slide.get_text(" ").split()) < 200
        assert "Code:" not in " ".join(p.get_text() for p in deck.select(".slides p"))


def test_a_slide_has_the_sentence_that_leads_to_its_formula():
    page = """<article><section><h1>05</h1><p>Opening.</p><section><h2>1. Steps</h2>
        <p>A question? Look:</p><p>A detail. So it is:</p><div class="math">a = b</div><p>After.</p>
        </section></section></article>"""
    _, slide = _slides(BeautifulSoup(page, "html.parser").article, "05")
    shown = BeautifulSoup(slide, "html.parser")
    shown.aside.decompose()
    assert shown.get_text(" ", strip=True) == "1. Steps A question? A detail. So it is: a = b"


@needs_chromium
def test_slides_open_from_the_disk(book):
    address = (book / "slides" / "05_self_attention.html").as_uri()
    shown = formulas.headless("--virtual-time-budget=10000", "--dump-dom", f"{address}#/4")
    [present] = re.findall(r'<section[^>]*class="present"[^>]*>(.*?)</h', shown, re.DOTALL)
    assert re.search(r"<h\d>\d\. ", present)


@needs_chromium
def test_formulas_are_ready_made(book, pages):
    for path in pages:
        text = path.read_text("utf-8")
        assert text.count("<mjx-container") == text.count('nohighlight" data-tex=')
        assert "MathJax.js" not in text and "tex-chtml" not in text
    assert "<mjx-container" in (book / "notebooks/05_self_attention.html").read_text("utf-8")
    fonts = re.findall(r'url\("(.*?)"\)', (book / "_static" / formulas.STYLES).read_text("utf-8"))
    assert fonts and all((book / "_static" / font).is_file() for font in fonts)


@needs_chromium
@pytest.mark.parametrize("formula", [r"\frac{1", r"\left( a", r"\unknown"])
def test_a_formula_that_cannot_be_set_is_named(formula, tmp_path):
    mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static"
    shutil.copytree(mathjax, tmp_path / "_static")
    page = rf'<head></head><span class="math notranslate nohighlight">\({formula}\)</span>'
    (tmp_path / "page.html").write_text(page)
    with pytest.raises(BookError, match="cannot set"):
        formulas.set_formulas(tmp_path)


@needs_chromium
def test_searching_leads_to_the_section(book):
    page = (book / "search.html").as_uri() + "?q=five+barriers"
    shown = formulas.headless("--virtual-time-budget=20000", "--dump-dom", page)
    [found, *_] = re.findall(r'<li><a href="([^"]*)">', shown)
    assert found.startswith("notebooks/05_self_attention.html#") and "<mark>" in shown


PHONE = """<iframe width="390" height="800"></iframe><script>
const pages = PAGES, frame = document.querySelector("iframe"), wide = {};
onload = async () => {
  for (const page of pages) {
    const loaded = new Promise((done) => { frame.onload = done; });
    frame.src = page;
    await loaded;
    const { document: shown, MathJax } = frame.contentWindow;
    await MathJax?.startup.promise;
    shown.documentElement.classList.add("laid-out");
    for (const part of [shown.documentElement, shown.querySelector(".content")]) {
      if (part && part.scrollWidth > part.clientWidth) wide[page] = part.scrollWidth;
    }
  }
  document.documentElement.dataset.wide = JSON.stringify([pages.length, wide]);
};
</script>"""


@needs_chromium
def test_no_page_scrolls_sideways_on_a_phone(book, pages, tmp_path):
    look = tmp_path / "phone.html"
    look.write_text(PHONE.replace("PAGES", json.dumps([path.as_uri() for path in pages])), "utf-8")
    options = ["--allow-file-access-from-files", "--virtual-time-budget=600000", "--dump-dom"]
    dumped = formulas.headless(*options, look.as_uri())
    told = json.loads(html.unescape(re.search(r'data-wide="([^"]*)"', dumped)[1]))
    assert told == [len(pages), {}]


LANDING = """<iframe width="WIDTH" height="800"></iframe><script>
const frame = document.querySelector("iframe"), missed = [];
const later = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const load = async (address) => {
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = address;
  await loaded;
  await later(5);
};
const look = (how, anchor) => {
  const { top } = frame.contentDocument.getElementById(anchor).getBoundingClientRect();
  const { scrollY, innerHeight } = frame.contentWindow;
  const end = scrollY + innerHeight + 1 >= frame.contentDocument.documentElement.scrollHeight;
  if (!(top > -5 && (top < 100 || end))) missed.push(`${how} #${anchor}: ${Math.round(top)}`);
};
onload = async () => {
  await load("PAGE");
  const sections = [...frame.contentDocument.querySelectorAll("article section section")];
  const anchors = sections.map((section) => section.id);
  for (const anchor of anchors.filter((_, i) => i % 4 === 0)) {
    await load("about:blank");
    await load(`PAGE#${anchor}`);
    look("opened at", anchor);
  }
  for (const anchor of anchors.slice(-2)) {
    await load("about:blank");
    await load("PAGE");
    [...frame.contentDocument.links].find((a) => a.hash === `#${anchor}`).click();
    await later(5);
    look("led to", anchor);
  }
  document.documentElement.dataset.missed = JSON.stringify([anchors.length, missed]);
};
</script>"""


@needs_chromium
@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.thorough)])
def test_links_to_sections_land(book, tmp_path, width):
    page = (book / "notebooks" / "05_self_attention.html").as_uri()
    look = tmp_path / "landing.html"
    look.write_text(LANDING.replace("PAGE", page).replace("WIDTH", str(width)), "utf-8")
    options = ["--allow-file-access-from-files", "--virtual-time-budget=3000000", "--dump-dom"]
    dumped = formulas.headless(*options, look.as_uri())
    sections, missed = json.loads(html.unescape(re.search(r'data-missed="([^"]*)"', dumped)[1]))
    assert sections > 15 and missed == []


@pytest.mark.skipif(epub.pandoc() is None, reason="needs pandoc")
@pytest.mark.thorough
def test_the_chapters_stand_in_an_epub(root, book, tmp_path):
    pages = shutil.copytree(book, tmp_path / "pages")
    names = [f"notebooks/{path.stem}" for path in sorted(root.glob("notebooks/*.ipynb"))]
    epub.write_epub(pages, names, "The book")
    with zipfile.ZipFile(pages / "book.epub") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    texts = {name: text.decode() for name, text in files.items() if "/text/ch" in name}
    assert len(texts) == len(names) and "mimetype" in files
    for name, text in zip(names, texts.values(), strict=True):
        assert ElementTree.fromstring(text) is not None  # well-formed, or readers refuse it
        read = BeautifulSoup(text, "html.parser")
        page = BeautifulSoup((book / f"{name}.html").read_text("utf-8"), "html.parser")
        assert len(read("math")) == len(page.select(".math.notranslate"))
        drawn = [img for img in page.article("img") if not img.find_parent("details")]
        assert [img["alt"] for img in read("img")] == [img["alt"] for img in drawn]
        assert all(f"EPUB/{img['src'][3:]}" in files for img in read("img"))
        assert "Code:" not in text and "<iframe" not in text
    assert b"<span" not in files["EPUB/nav.xhtml"]  # an entry with an empty part is refused
    anchors = {Path(name).name: Page(text).anchors for name, text in texts.items()}
    for name, text in texts.items():
        for to, anchor in re.findall(r'href="([^":#]*)#([^"]*)"', text):
            assert anchor in anchors[to or Path(name).name], f"{name} leads to {to}#{anchor}"
    assert 'href="book.epub"' in (pages / "index.html").read_text("utf-8")


def _kinds_of_fonts(page):
    fonts = page["/Resources"].get("/Font", {})
    return {font.get_object()["/Subtype"] for font in fonts.values()}


@needs_chromium
@pytest.mark.thorough
def test_the_chapters_stand_in_one_pdf_whose_contents_and_index_lead_to_their_pages(root, book):
    """The last test, since it writes links to the PDFs into the pages."""
    add_books(root, book)
    paper = PdfReader(book / "book.pdf")
    texts = [re.sub(r"\s+", " ", page.extract_text()) for page in paper.pages]
    kinds = {kind for page in paper.pages for kind in _kinds_of_fonts(page)}
    assert "/Type3" in kinds, "no formula is printed: MathJax's fonts become those of type 3"
    contents = " ".join(texts[:6])
    for title in ["00 Tensors and autograd", "2. The chain rule on a graph", "5. In matrices"]:
        number = int(re.search(rf"{re.escape(title)} (\d+)", contents)[1])
        assert title in texts[number - 1] and texts[number - 1].startswith(f"{number} ")
    found = re.search(r"\bsoftmax (\d+)(?:, (\d+))?", texts[-1]).groups()
    assert all("softmax" in texts[int(number) - 1] for number in found if number)
    for chapter in root.glob("notebooks/*.ipynb"):
        own = PdfReader(book / "notebooks" / f"{chapter.stem}.pdf")
        assert chapter.stem[:2] in own.pages[0].extract_text()[:10]
        assert 5 < len(own.pages) < len(paper.pages)
