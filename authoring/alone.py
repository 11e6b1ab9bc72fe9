"""What lets a notebook stand alone: a first cell that installs the book, and links to hosts.

The links, to Colab and to Binder, need the repository's name, which pyproject.toml has::

    [tool.minitorch-book]
    repository = "owner/name"  # on GitHub; "" for no links
"""

import re
import tomllib
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

# What the wheel needs, but for JupyterLab: Colab has one of its own, which a newer one disturbs.
INSTALLING = """\
# Where the book is not installed, as on Colab, this installs it; elsewhere it does nothing
try:
    import textbook
except ModuleNotFoundError:
    pip = get_ipython().find_line_magic("pip")
    pip("install --quiet --no-deps minitorch-book")
    pip('install --quiet "numpy>=2.0" "safetensors>=0.5" "matplotlib>=3.9" "tqdm>=4.66"')
    pip('install --quiet "autograd>=1.7" "sacrebleu>=2.4" "pooch>=1.8"')"""
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["remove-cell"]}  # the tag is the web pages'

HOSTS = {
    "Colab": "https://colab.research.google.com/github/{repository}/blob/main/{name}",
    "Binder": "https://mybinder.org/v2/gh/{repository}/main?urlpath=lab/tree/my/{name}",
}
PLACE = re.compile(r"(<!-- hosts -->).*?(<!-- /hosts -->)", re.DOTALL)


def installing_cell() -> NotebookNode:
    """The cell of chapters and sets that installs the book where it is not there."""
    return new_code_cell(INSTALLING, metadata=NotebookNode(FOLDED))


def hosts(root: Path, name: str) -> dict[str, str]:
    """Where the notebook of this name opens on the web; nothing without a repository."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    repository = project["tool"]["minitorch-book"]["repository"]
    if not repository:
        return {}
    return {host: url.format(repository=repository, name=name) for host, url in HOSTS.items()}


def with_links(root: Path, text: str) -> str:
    """README.md's text with the links of the first chapter between its two marks."""
    if not PLACE.search(text):
        return text
    first = sorted(root.glob("notebooks/*.ipynb"))[0].relative_to(root).as_posix()
    links = [f"[{host}]({url})" for host, url in hosts(root, first).items()]
    said = f" Or, with nothing to install, on {' or '.join(links)}." if links else ""
    return PLACE.sub(lambda marks: marks[1] + said + marks[2], text)
