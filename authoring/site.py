"""The book as web pages, made of the stored outputs: nothing is executed, nothing is fetched.

The pages work from a folder on a disk as from any web server; formulas, search and styles come
with them. Sphinx does it, with myst-nb for notebooks and furo for the looks.
"""

import base64
import hashlib
import io
import json
import os
import re
import shutil
import struct
import tempfile
from pathlib import Path

from . import alone, epub, formulas, printed, slides, window
from .release import from_shell
from .search import write_search
from .sources import BookError, chapters, number_of

TITLE = "From the plain RNN to the Transformer"
FONTS = "output/chtml"  # what pages load of MathJax where formulas are ready-made

# Pages of the library's reference: their modules, whose docstrings they show.
REFERENCE = {
    "Tensors": ("tensor", "creation", "generator", "backend", "serialization"),
    "Operations": (
        *(f"operations.{name}" for name in ("elementwise", "products", "reductions", "shapes")),
        *(f"operations.{name}" for name in ("indexing", "logic", "einsum")),
        *("compat.functions", "compat.linalg"),
    ),
    "Automatic differentiation": ("autograd.modes", "autograd.backward", "autograd.gradcheck"),
    "Layers and models": (
        *(f"nn.{name}" for name in ("module", "parameter", "containers", "layers", "recurrent")),
        *(f"nn.{name}" for name in ("attention", "transformer", "normalization", "losses")),
        "nn.compat.modules",
    ),
    "Functions of layers": ("nn.functional", "nn.functional_losses", "nn.init"),
    "Training and data": ("optim.sgd", "optim.adam", "optim.lr_scheduler", "utils.data", "flops"),
}
SETTINGS = {
    "project": TITLE,
    "html_title": TITLE,
    "extensions": ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx-mathjax-offline"],
    "html_theme": "furo",
    "html_static_path": [str(Path(__file__).parent / "site_static")],
    "html_css_files": ["book.css"],
    "html_js_files": ["land.js", "read.js"],
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "nb_code_prompt_hide": "Fold",
    "myst_enable_extensions": ["dollarmath", "amsmath"],
    "myst_dmath_double_inline": True,
    "myst_heading_anchors": 4,
    "myst_heading_slug_func": "authoring.site.anchor",
    "suppress_warnings": ["mystnb.unknown_mime_type"],
    "autodoc_default_options": {
        "members": True,
        "member-order": "bysource",
        "exclude-members": "IncompatibleKeys, Table, extra_repr",
    },
    "add_module_names": False,
    "copybutton_selector": "div.cell_input pre, div.highlight-python pre",
}


def site(root: Path, folder: Path) -> None:
    """Build the pages of the whole book in a new or empty folder; begin at its index.html."""
    from sphinx.application import Sphinx

    folder = from_shell(folder).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise BookError(f"{folder} is not empty: name a new folder")
    with tempfile.TemporaryDirectory() as work:
        source, built = Path(work, "source"), Path(work, "built")
        _stage(root, source)
        warnings = io.StringIO()
        pages = Sphinx(
            source,
            confdir=None,
            outdir=built,
            doctreedir=Path(work, "doctrees"),
            buildername="html",
            confoverrides=SETTINGS,
            status=None,
            warning=warnings,
        )
        pages.connect("autodoc-process-docstring", _escape_bars)
        pages.connect("html-page-context", _bind)
        pages.build()
        if warnings.getvalue():
            raise BookError(f"the pages have faults:\n{warnings.getvalue()}")
        write_search(pages, built)
        _mend_for_readers(built)
        _lay_pictures_beside(built)
        if formulas.chromium():
            formulas.set_formulas(built)
            loaded = (FONTS,)
        else:
            print("without Chromium the pages carry MathJax, which sets formulas as they are read")
            loaded = (FONTS, "tex-chtml.js")
        slides.write_slides(built)
        _prune_mathjax(built / "_static" / "mathjax", loaded)
        shutil.rmtree(built / "_sources", ignore_errors=True)
        shutil.copytree(built, folder, dirs_exist_ok=True)
    print(f"open {folder / 'index.html'}")


def add_books(root: Path, folder: Path) -> None:
    """Chapters, claims and notation of the pages that ``site`` has built, as PDF and as EPUB."""
    folder = from_shell(folder).absolute()
    paths = [*chapters(root), root / "docs" / "claims.md", root / "docs" / "notation.md"]
    names = [path.relative_to(root).with_suffix("").as_posix() for path in paths]
    if formulas.chromium():
        printed.print_book(folder, names, TITLE)
        print(f"printed {folder / 'book.pdf'}")
    else:
        print("without Chromium no PDF is written")
    if epub.pandoc():
        epub.write_epub(folder, names, TITLE)
        print(f"wrote {folder / 'book.epub'}")
    else:
        print("without pandoc no EPUB is written")


def anchor(heading: str) -> str:
    """The name of a heading in a link, which is JupyterLab's."""
    return heading.replace(" ", "-")


def _stage(root: Path, source: Path) -> None:
    """Write what Sphinx reads: the book's pages under their own names, so that links hold."""
    sets = sorted((root / "exercises").glob("*/*.ipynb"))
    notebooks = [path.with_suffix(".ipynb") for path in chapters(root)]
    texts = sorted((root / "docs").glob("*.md"))
    for path in (*notebooks, *sets):
        _write(source / path.relative_to(root), _page(path, root))
    for path in texts:
        _write(source / path.relative_to(root), _linked(path.read_text("utf-8"), path, root))
    _open_window(source / "docs" / "window.md", notebooks)
    for picture in (root / "docs").glob("*.png"):
        shutil.copy(picture, source / "docs")
    for title, modules in REFERENCE.items():
        _write(source / "reference" / f"{_slug(title)}.md", _reference(title, modules))
    contents = {
        "Chapters": notebooks,
        "Exercises": sets,
        "Beside the chapters": texts,
    }
    trees = {
        caption: [path.relative_to(root).with_suffix("").as_posix() for path in paths]
        for caption, paths in contents.items()
    } | {"The library": [f"reference/{_slug(title)}" for title in REFERENCE]}
    readme = root / "README.md"
    index = _linked(readme.read_text("utf-8"), readme, root)
    index += f"\n\n{printed.PLACE}\n"
    for caption, names in trees.items():
        lines = "\n".join(names)
        index += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"
    _write(source / "index.md", index)


def _page(path: Path, root: Path) -> str:
    """A notebook for the web: folded cells say what is in them, the start says how to run it."""
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            cell["source"] = _linked(text, path, root)
        elif "hide-input" in cell["metadata"].get("tags", ()):
            shown = text.split("\n", 1)[0].removeprefix("# ")
            cell["metadata"]["mystnb"] = {"code_prompt_show": f"Code: {shown}"}
    name = path.relative_to(root).as_posix()
    run = f"In the book's folder: `python book.py lab`, then open `{name}`."
    if links := [f'<a href="{url}">{host}</a>' for host, url in alone.hosts(root, name).items()]:
        run += f" Or on {' or '.join(links)}, with nothing to install."
    deck = f'<a href="../slides/{path.stem}.html">Slides</a>.'
    more = f"{deck} {printed.PLACE}" if name.startswith("notebooks/") else ""
    notebook["cells"][0]["source"] += (
        f"\n\n```{{admonition}} To run it\n:class: tip\n{run} {more}\n```\n"
    )
    return json.dumps(notebook)


def _open_window(path: Path, notebooks: list[Path]) -> None:
    """Put the views of the book's small models where the page names them."""
    text = path.read_text("utf-8")
    addresses = {
        int(number_of(notebook)): f"../notebooks/{notebook.stem}.html" for notebook in notebooks
    }
    for name in window.MODELS:
        frame = window.view(name).frame(addresses)
        text = text.replace(f"<!-- {name} -->", f"~~~~{{raw}} html\n{frame}\n~~~~")
    path.write_text(text, "utf-8")


def _linked(text: str, path: Path, root: Path) -> str:
    """Markdown in which links to files that are no pages are plain text."""

    def link(found: re.Match) -> str:
        words, target = found[1], found[2]
        if re.match(r"\w+:|#", target):
            return found[0]
        file = (path.parent / target.split("#")[0]).resolve()
        is_page = file.suffix in (".ipynb", ".md", ".png") and file.is_file()
        inside = file.is_relative_to(root) and file.relative_to(root).parts[0] in (
            *("notebooks", "exercises", "docs"),
        )
        return found[0] if is_page and inside else words

    return re.sub(r"(?<!!)\[([^\]]*)\]\(((?:[^()\s]|\([^()\s]*\))+)\)", link, text)


def _reference(title: str, modules: tuple[str, ...]) -> str:
    parts = [f"# {title}\n"]
    for module in modules:
        parts.append(f"## minitorch.{module}\n")
        parts.append(f"```{{eval-rst}}\n.. automodule:: minitorch.{module}\n```\n")
    return "\n".join(parts)


def _escape_bars(app, what, name, thing, options, lines: list[str]) -> None:
    """The bars of |x| are no markup."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda bar: bar[1] or r"\|", line) for line in lines]


def _bind(app, name, template, context: dict, doctree) -> None:
    """No line breaks between a formula and its comma; cells of numbers are marked for book.css."""
    body = context.get("body", "")
    formula = r'(\(*<span class="math notranslate nohighlight">[^<]*</span>[,.;:?!)]*)'
    body = re.sub(formula, r'<span class="bound">\1</span>', body)
    body = re.sub(r'(?<=<span id=")([^<>]*)(?="></span>)', _quoted, body)
    context["body"] = re.sub(r"<td>([^<]{1,40})</td>", r'<td class="short">\1</td>', body)


def _quoted(anchor: re.Match) -> str:
    """An anchor whose heading has quotation marks, which Sphinx writes as they are."""
    return anchor[1].replace('"', "&quot;")


# What Sphinx, myst-nb and furo leave out for those who hear a page or use no mouse.
MENDS = {
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    '<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    '<pre style="': '<pre tabindex="0" style="',
    '<div class="output text_html"><img': '<div class="output text_html" tabindex="0"><img',
    '<div class="math-wrapper docutils container">': (
        '<div class="math-wrapper docutils container" tabindex="0">'
    ),
    '<div class="table-wrapper colwidths-auto docutils container">': (
        '<div class="table-wrapper colwidths-auto docutils container" tabindex="0">'
    ),
    "<table>": '<table tabindex="0">',
    '<summary aria-label="Toggle hidden content">': "<summary>",
    '<th class="head"><p></p></th>': "<td></td>",
    "<th></th>": "<td></td>",
}

FORMULA_ALONE = re.compile(
    r'<th class="head"><p>(?=<span class="bound"><span class="math[^>]*>\\\(([^<]*)\\\)'
    r"</span></span></p></th>)"
)


def _mend_for_readers(pages: Path) -> None:
    for path in pages.rglob("*.html"):
        text = path.read_text("utf-8")
        for before, after in MENDS.items():
            text = text.replace(before, after)
        text = FORMULA_ALONE.sub(_named_head, text)
        path.write_text(text, encoding="utf-8")


def _named_head(head: re.Match) -> str:
    """The heading of a column that is a formula: who hears it gets its letters in its place."""
    letters = re.sub(r"\\text|[\\{}_^]", " ", head[1])
    heard = f'<span class="visually-hidden">{" ".join(letters.split())}</span>'
    return f'<th class="head">{heard}<p aria-hidden="true">'


def _lay_pictures_beside(pages: Path) -> None:
    """Write the figures as files of their own, which a page loads where they come into view."""
    pictures = pages / "_images"
    pictures.mkdir(exist_ok=True)
    for path in pages.rglob("*.html"):
        here = Path(os.path.relpath(pictures, path.parent)).as_posix()

        def laid(found: re.Match, here: str = here) -> str:
            picture = base64.b64decode(found[1])
            name = f"{hashlib.sha256(picture).hexdigest()[:16]}.png"
            (pictures / name).write_bytes(picture)
            width, height = struct.unpack(">II", picture[16:24])
            shape = f'style="aspect-ratio: {width} / {height}"'
            return f'loading="lazy" {shape} src="{here}/{name}"'

        text = path.read_text("utf-8")
        text = re.sub(r'src="data:image/png;base64,([^"]+)"', laid, text)
        path.write_text(text, encoding="utf-8")


def _slug(title: str) -> str:
    return title.lower().replace(" ", "_")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _prune_mathjax(folder: Path, loaded: tuple[str, ...]) -> None:
    """Drop what no page loads: other outputs, menus, speech."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif not path.relative_to(folder).as_posix().startswith(loaded):
            path.unlink()
