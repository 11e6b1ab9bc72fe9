"""The shape of library and textbook: imports go one way, files and the library stay small."""

import ast
import builtins
import functools
import graphlib
import pathlib
import subprocess
import sys

import pytest

from authoring.library import code_lines, core

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each imports only from those before it. What stands on one line does not import each other.
LIBRARY = [
    {"backend", "missing"},
    {"axes", "promotion"},
    {"generator", "autograd"},
    {"operations", "printing", "creation"},
    {"compat"},
    {"methods"},
    {"tensor"},
    {"nn"},
    {"optim", "backends", "utils", "serialization", "flops"},
    {"amp", "compiler", "distributed", "distributions", "jit", "random"},
    {"cuda"},
]
CHAPTERS = [path.stem for path in sorted((ROOT / "textbook").glob("chapter_*.py"))]
TEXTBOOK = [
    {"notebook"},
    {"data", "decoding", "installed", "plot"},
    {"diagrams", "lab"},
    *({chapter} for chapter in CHAPTERS if chapter < "chapter_14"),
    {"race"},
    *({chapter} for chapter in CHAPTERS if chapter >= "chapter_14"),
    {"checks", "look"},
]
LAYERS = [
    *({f"minitorch.{part}" for part in layer} for layer in LIBRARY),
    {"minitorch", "textbook"},
    *({f"textbook.{part}" for part in layer} for layer in TEXTBOOK),
]
# What else a file may import; all but plot do so when a function is called that needs it.
OPTIONAL = {
    "textbook.notebook": {"IPython"},
    "textbook.plot.style": {"matplotlib", "cycler", "PIL"},
    "textbook.plot.matrices": {"matplotlib"},
    "textbook.lab.progress": {"tqdm", "IPython"},
    "textbook.checks.progress": {"IPython"},
    "textbook.data.downloads": {"pooch", "requests"},
    "textbook.data.metrics": {"sacrebleu"},
    "minitorch.serialization": {"safetensors"},
}
ENGINE = set().union(*LAYERS[:8], {"minitorch.optim", "minitorch"})
MOST_LINES = 5600  # more than an evening's reading; the names of PyTorch's that the book covers


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = [path for name in ("minitorch", "textbook") for path in sorted((ROOT / name).rglob("*.py"))]
FILES = {name_of(path): path for path in PATHS}


@functools.cache
def tree_of(path):
    """Read by tests alone: each worker imports this file, and one runs its tests."""
    return ast.parse(path.read_text())


def imported(path):
    """The names of all modules that a file imports, also within functions."""
    for item in ast.walk(tree_of(path)):
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            assert not item.level, f"{path}: write imports in full"
            for alias in item.names:
                whole = f"{item.module}.{alias.name}"
                yield whole if whole in FILES else item.module


@functools.cache
def graph():
    return {
        name: {other for other in imported(path) if other in FILES} for name, path in FILES.items()
    }


def part(name):
    """The package and the first name in it: what has a layer."""
    return ".".join(name.split(".")[:2])


def test_no_circles():
    list(graphlib.TopologicalSorter(graph()).static_order())


def test_every_part_has_its_layer():
    assert {part(name) for name in FILES} == set().union(*LAYERS)


@pytest.mark.parametrize("name", FILES)
def test_imports_go_one_way(name):
    (own,) = (i for i, layer in enumerate(LAYERS) if part(name) in layer)
    below = set().union(*LAYERS[:own]) | {part(name)}
    for other in graph()[name]:
        assert part(other) in below, f"{name} imports {other}, which is not below it"


def test_the_core_is_read_in_the_order_of_its_imports():
    files = [name_of(ROOT / "minitorch" / file) for file in core(ROOT)]
    for i, name in enumerate(files):
        later = graph()[name] & set(files[i:])
        assert not later, (
            f"{name} imports {later}, which the docstring of minitorch/__init__.py lists below it: "
            "change the order there and in docs/library.md"
        )


@pytest.mark.parametrize("name", FILES)
def test_no_import_hides_a_builtin(name):
    if name == "minitorch":
        return  # its names are PyTorch's, and it computes nothing
    for item in ast.walk(tree_of(FILES[name])):
        if isinstance(item, ast.ImportFrom):
            bound = {alias.asname or alias.name for alias in item.names}
            assert not bound & set(dir(builtins)), f"{name} hides a builtin: {bound}"
            assert bound != {"*"} or name in ("minitorch.nn", "minitorch.nn.functional"), (
                f"{name} imports names that nobody sees"
            )


def test_numpy_is_all_that_the_library_needs():
    program = "import sys, minitorch, textbook.data, textbook.checks; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    installed = {"matplotlib", "tqdm", "autograd", "IPython", "scipy", "pytest", "torch"}
    installed |= {"pooch", "requests", "sacrebleu", "num2words", "safetensors"}
    assert not loaded & installed
    for name, path in FILES.items():
        roots = {other.partition(".")[0] for other in imported(path)}
        others = roots - set(sys.stdlib_module_names) - {"numpy", "minitorch", "textbook"}
        assert others <= OPTIONAL.get(name, set()), name


def test_library_is_small(capsys):
    engine = [path for name, path in FILES.items() if part(name) in ENGINE and "compat" not in name]
    for path in FILES.values():
        assert len(path.read_text().splitlines()) <= 500, f"{path.name} is above 500 lines"
    code = sum(map(code_lines, engine))
    whole = sum(len(path.read_text().splitlines()) for path in engine)
    with capsys.disabled():
        print(f"\nengine, nn and optim: {code} lines of code, {whole} lines")
    assert code <= MOST_LINES


def is_another_answer(name, item):
    """Whether it is one of the right answers of a key, which are code that students may write."""
    return name.endswith("_key") and not item.decorator_list


def test_public_functions_are_documented():
    missing = []
    for name, path in FILES.items():
        tree = tree_of(path)
        for item in [tree, *tree.body]:
            named = isinstance(item, (ast.FunctionDef, ast.ClassDef))
            if named and (item.name.startswith("_") or is_another_answer(name, item)):
                continue
            if (named or item is tree) and not ast.get_docstring(item):
                missing.append(f"{name}.{getattr(item, 'name', '')}")
    assert not missing
