"""Formulas set when the pages are built, so that no page has to set them when it is read.

MathJax does it in a Chromium without a window: it sets every formula of the book once, on one page,
and what it has made of each, with the styles that this needs, goes into the pages in its place.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from .sources import BookError

NAMES = ("chromium", "google-chrome", "chrome", "chromium-browser")
FORMULA = re.compile(r'<(span|div) class="math notranslate nohighlight">\n?(.*?)</\1>', re.DOTALL)
SCRIPT = re.compile(r"<script>window\.MathJax.*?</script>\s*|<script[^>]*mathjax[^>]*></script>")
STYLES = "formulas.css"
PAGE = """<!doctype html><meta charset="utf-8"><script>
window.MathJax = {tex: {packages: {"[-]": ["noerrors", "noundefined"]}},
  options: {enableMenu: false}, startup: {pageReady: async () => {
  await MathJax.startup.defaultPageReady();
  document.body.append(document.createComment("set"));
}}};
</script><script defer src="mathjax/tex-chtml.js"></script>
<body style="font: 16px sans-serif">FORMULAS</body>"""


def chromium() -> str | None:
    """The program that sets the formulas and prints, if this machine has it."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def headless(*options: str) -> str:
    """What a Chromium without a window prints, which it does when nothing is left to do."""
    command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, encoding="utf-8")
    return run.stdout


def set_formulas(pages: Path) -> None:
    """Put the formulas, as they are drawn, into all pages of a folder that Sphinx wrote."""
    texts = {path: path.read_text("utf-8") for path in sorted(pages.rglob("*.html"))}
    formulas = {found[0]: None for text in texts.values() for found in FORMULA.finditer(text)}
    static = pages / "_static"
    drawn, styles = _drawn(static, list(formulas))
    (static / STYLES).write_text(styles, encoding="utf-8")
    for path, text in texts.items():
        if FORMULA.search(text):
            text = FORMULA.sub(lambda found: drawn[found[0]], text)
            here = Path(os.path.relpath(static / STYLES, path.parent)).as_posix()
            text = text.replace("</head>", f'<link rel="stylesheet" href="{here}">\n</head>', 1)
        path.write_text(SCRIPT.sub("", text), encoding="utf-8")


def _drawn(static: Path, formulas: list[str]) -> tuple[dict[str, str], str]:
    """What becomes of each formula, and the styles of them all."""
    marked = "\n".join(f"<!--{n}-->{formula}<!--/-->" for n, formula in enumerate(formulas))
    page = static / "formulas.html"
    page.write_text(PAGE.replace("FORMULAS", marked), encoding="utf-8")
    shown = headless("--virtual-time-budget=600000", "--dump-dom", page.as_uri())
    page.unlink()
    made = re.findall(r"<!--\d+-->(.*?)<!--/-->", shown, re.DOTALL)
    styles = re.search(r'<style id="MJX-CHTML-styles">(.*?)</style>', shown, re.DOTALL)
    if "<!--set-->" not in shown or len(made) != len(formulas) or not styles:
        raise BookError(f"Chromium set {len(made)} of {len(formulas)} formulas: {shown[-500:]!r}")
    drawn = {}
    for formula, what in zip(formulas, made, strict=True):
        if "<mjx-container" not in what or "mjx-error" in what or "<mjx-merror" in what:
            raise BookError(f"MathJax cannot set {json.dumps(formula)}")
        drawn[formula] = what.replace(">", f' data-tex="{_tex(formula)}">', 1)
    fonts = (static / "mathjax").as_uri()
    return drawn, styles[1].replace(fonts, "mathjax")


def _tex(formula: str) -> str:
    return FORMULA.match(formula)[2].replace('"', "&quot;")
