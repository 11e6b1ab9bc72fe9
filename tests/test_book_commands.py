"""book.py on a miniature book whose packages are all at hand, so that nothing needs the network."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

import book

BOOK = Path(book.__file__)

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "minitorch-book"
version = "0.1.0"
dependencies = []

[project.optional-dependencies]
test = []
grading = []
site = []
"""

BACKEND = '''\
import pathlib, time, zipfile

INFO = "minitorch_book-0.1.0.dist-info/"


def build_editable(folder, config_settings=None, metadata_directory=None):
    """A wheel with nothing but the path to the book."""
    if pathlib.Path("full").exists():
        raise OSError(28, "No space left on device")
    if pathlib.Path("slow").exists():
        pathlib.Path("installing").touch()
        time.sleep(60)
    needs = "".join(f"Requires-Dist: {line}\\n" for line in open("needs"))
    name = "minitorch_book-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr("minitorch_book.pth", str(pathlib.Path.cwd()))
        head = "Metadata-Version: 2.1\\nName: minitorch-book\\nVersion: 0.1.0\\n"
        extras = "".join(f"Provides-Extra: {e}\\n" for e in ["test", "grading", "site"])
        wheel.writestr(INFO + "METADATA", head + extras + needs)
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(INFO + "WHEEL", tag)
        wheel.writestr(INFO + "RECORD", "")
    return name
'''

# Stands for jupyterlab, pytest, ruff and authoring: notes how it was called.
TOOL = """\
import json, os, pathlib, sys, time

name = pathlib.Path(__file__).stem
with open("calls", "a") as calls:
    calls.write(json.dumps([name, sys.argv[1:], sys.prefix, dict(os.environ)]) + "\\n")
if "--stay" in sys.argv:
    try:
        pathlib.Path("staying").touch()
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(7)
sys.exit(pathlib.Path(name + ".fails").exists())
"""

posix = pytest.mark.skipif(os.name == "nt", reason="signals work otherwise there")

Usage = namedtuple("Usage", "free")
Call = namedtuple("Call", "tool arguments prefix variables")


def notebook(*sources, output=None, **metadata):
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cells = [{"cell_type": "code", "source": s, "outputs": outputs} for s in sources]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


class MiniBook:
    def __init__(self, root):
        self.root = root
        (root / "authoring").mkdir(parents=True)
        (root / "notebooks" / "results").mkdir(parents=True)
        (root / "exercises" / "00_start").mkdir(parents=True)
        (root / "book.py").write_bytes(BOOK.read_bytes())
        (root / "pyproject.toml").write_text(PROJECT)
        (root / "backend.py").write_text(BACKEND)
        (root / "needs").write_text("")
        (root / "textbook").mkdir()
        for tool in ["jupyterlab", "pytest", "ruff", "authoring", "textbook/race"]:
            (root / f"{tool}.py").write_text(TOOL)
        (root / "notebooks" / "00_start.ipynb").write_text(notebook("first"))
        (root / "notebooks" / "00_start.py").write_text("# the source")
        (root / "docs").mkdir()
        (root / "docs" / "notation.md").write_text("T is the length")
        (root / "docs" / "claims.md").write_text("C1 holds")
        (root / "docs" / "exercises.md").write_text("Any way is right")
        (root / "notebooks" / "results" / "00.json").write_text("{}")
        (root / "exercises" / "00_start" / "00_start.ipynb").write_text(notebook("exercise"))

    def start(self, *arguments, **variables):
        foreign = ("PIP_", "JUPYTER_", *book.ONE_THREAD)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        offline = dict(
            PIP_INDEX_URL="http://127.0.0.1:9", PIP_CONFIG_FILE=os.devnull, PIP_RETRIES="1"
        )
        litter = {"TMPDIR": str(self.root.parent)}  # of what is killed
        return subprocess.Popen(
            [sys.executable, "book.py", *arguments],
            cwd=self.root,
            env={**kept, **offline, **litter, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, **variables):
        """The exit status and what was printed."""
        process = self.start(*arguments, **variables)
        text, _ = process.communicate(timeout=120)
        assert "Traceback" not in text, text
        return process.returncode, text

    def staying(self):
        """``lab`` with a tool that runs until it is stopped."""
        (self.root / "staying").unlink(missing_ok=True)
        process = self.start("lab", "--stay")
        wait_for((self.root / "staying").exists)
        return process

    def calls(self):
        log = self.root / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [Call(*json.loads(line)) for line in lines]


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    """A book with its environment made; tests that break it have it repaired, but for the last."""
    mini = MiniBook(tmp_path_factory.mktemp("das Büch"))
    mini.first = mini.run("check", LC_ALL="C", PIP_USER="1")  # what Python and pip stumble over
    mini.first_calls = mini.calls()
    return mini


def wait_for(condition):
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("did not happen within a minute")


# The environment


def test_first_command_makes_the_environment_and_runs_in_it(mini):
    status, text = mini.first
    assert status == 0, text
    assert "Making the environment .venv" in text and "Installing" in text
    (call,) = mini.first_calls
    assert (call.tool, call.arguments) == ("authoring", ["check"])
    assert Path(call.prefix) == mini.root / ".venv"
    assert (
        Path(call.variables["PATH"].split(os.pathsep)[0])
        == book.python_in(mini.root / ".venv").parent
    )


def test_second_command_installs_nothing(mini):
    assert mini.run("check") == (0, "")


def test_environment_is_used_when_book_runs_inside_it(mini):
    mini.calls()
    inside = book.python_in(mini.root / ".venv")
    subprocess.run([inside, "book.py", "check"], cwd=mini.root, check=True)
    assert Path(mini.calls()[0].prefix) == mini.root / ".venv"


def test_environment_of_ones_own_that_holds_the_book_is_used(mini):
    """As with conda or uv: moved aside, .venv is an environment of somebody else's making."""
    own = mini.root / "own"
    (mini.root / ".venv").rename(own)
    try:
        mini.calls()
        subprocess.run([book.python_in(own), "book.py", "check"], cwd=mini.root, check=True)
        assert Path(mini.calls()[0].prefix) == own
        assert not (mini.root / ".venv").exists()
    finally:
        own.rename(mini.root / ".venv")


@pytest.mark.thorough
def test_missing_python_is_repaired(mini):
    book.python_in(mini.root / ".venv").unlink()
    status, text = mini.run("check")
    assert status == 0 and "broken" in text
    assert mini.run("check") == (0, "")


@posix
@pytest.mark.thorough
def test_killed_install_is_made_anew(mini):
    (mini.root / "pyproject.toml").write_text(PROJECT + "# changed\n")
    (mini.root / "slow").touch()
    process = mini.start("check")
    wait_for((mini.root / "installing").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (mini.root / "slow").unlink()
    status, text = mini.run("check")
    assert status == 0 and "unfinished" in text
    assert mini.run("check") == (0, "")


def test_python_without_venv_is_told_what_to_install():
    with pytest.raises(book.Stop, match="python3-venv"):
        book.need_venv("false")


@pytest.mark.parametrize(
    ("free", "sentence"), [(10**6, "disk is full"), (10**10, "last lines:\nbad")]
)
def test_unexplained_failure_shows_the_last_lines_unless_the_disk_is_full(
    monkeypatch, free, sentence
):
    monkeypatch.setattr(book.shutil, "disk_usage", lambda folder: Usage(free))
    with pytest.raises(book.Stop, match=sentence):
        book.install("Trying", [sys.executable, "-c", "print('bad'); raise SystemExit(1)"])


def test_requirements_are_compared_as_numbers(monkeypatch):
    monkeypatch.setattr(book, "requirements", lambda: [("pytest", "2.10"), ("pytest", "999.1")])
    assert [name for name in book.lacking() if name != book.NAME] == ["pytest>=999.1"]


# The user's settings

FOREIGN = {
    "MINITORCH_BOOK": "full",
    "MPLBACKEND": "TkAgg",
    "NPY_DISABLE_CPU_FEATURES": "AVX2",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OPENBLAS_L2_SIZE": "512",
    "PYTEST_ADDOPTS": "--collect-only",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "ascii",
    "PYTHONOPTIMIZE": "2",
    "PYTHONPATH": "elsewhere",
    "PYTHONSTARTUP": "mine.py",
    "PYTHONWARNINGS": "ignore",
}
PROFILES = ["IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MATPLOTLIBRC"]


def test_settings_for_other_programs_do_not_reach_the_book(mini):
    mini.calls()
    own = {"OMP_NUM_THREADS": "3", "TMPDIR": str(mini.root / "exercises"), "LC_TIME": "C"}
    foreign = {**FOREIGN, **dict.fromkeys(PROFILES, "mine"), "LC_ALL": "C"}
    status, text = mini.run("check", **foreign, **own)
    assert (status, text) == (0, "")
    [call] = mini.calls()
    assert call.variables.keys() & {*FOREIGN, "LC_ALL"} == set()
    assert call.variables["PYTHONUTF8"] == "1"
    assert call.variables.items() >= own.items()
    assert call.variables["OPENBLAS_NUM_THREADS"] == "1"
    for name in PROFILES:
        empty = Path(call.variables[name])
        assert empty.is_absolute() and not empty.exists()  # it went with the command


def test_processor_and_profiles_in_lab_are_the_readers(mini):
    mini.calls()
    own = {name: "mine" for name in [*PROFILES, "OPENBLAS_CORETYPE", "MPLBACKEND"]}
    assert mini.run("lab", **FOREIGN | own)[0] == 0
    [call] = mini.calls()
    assert call.variables.items() >= own.items()
    assert [name for name in FOREIGN if name.startswith("PYTHON") and name in call.variables] == []


def test_a_race_runs_on_one_thread_whatever_the_reader_set(mini):
    mini.calls()
    assert mini.run("race", "mine.py", VECLIB_MAXIMUM_THREADS="4", OMP_NUM_THREADS="3")[0] == 0
    [call] = mini.calls()
    assert call.variables.items() >= book.ONE_THREAD.items()


def test_lab_writes_into_my_where_there_is_no_home(mini, tmp_path):
    mini.calls()
    for home, own, written in [
        (tmp_path, {}, None),
        (tmp_path / "missing", {}, str(mini.root / "my" / ".jupyter")),
        (tmp_path / "missing", {"JUPYTER_DATA_DIR": "mine"}, "mine"),
    ]:
        assert mini.run("lab", HOME=str(home), USERPROFILE=str(home), **own)[0] == 0
        assert mini.calls()[0].variables.get("JUPYTER_DATA_DIR") == written


# The command line


def test_parses_on_python_3_6():
    ast.parse(BOOK.read_text(), feature_version=(3, 6))


def test_old_python_is_told_so(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    assert "needs Python 3.11 or newer, and this is 3.10" in book.main(["lab"])


def test_help_names_every_command(capsys):
    assert book.main([]) == 0
    text = capsys.readouterr().out
    assert all(f"  {command} " in text for command in book.COMMANDS)


def test_unknown_command_is_refused():
    assert "no command 'lap'" in book.main(["lap"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device"), book.FULL),
        (PermissionError(13, "Permission denied"), book.FORBIDDEN),
        (OSError(30, "Read-only file system"), book.FORBIDDEN),
    ],
)
def test_refusals_of_the_system_give_one_sentence(monkeypatch, error, sentence):
    def fail(options):
        raise error

    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setitem(book.COMMANDS, "lab", fail)
    assert book.main(["lab"]) == sentence


# lab


@pytest.mark.parametrize("form", [["--port", "{}"], ["--port={}"], ["--ServerApp.port={}"]])
def test_taken_port_is_refused_before_anything_is_made(tmp_path, form):
    mini = MiniBook(tmp_path / "fresh")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        status, text = mini.run("lab", *(part.format(port) for part in form))
    assert status == 1
    assert text.startswith(f"Port {port} is taken")
    assert not (mini.root / ".venv").exists()


def test_free_port_is_passed_on():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    book.refuse_taken_port(["--no-browser", "--port", str(port)])
    with pytest.raises(book.Stop, match="must be a number"):
        book.refuse_taken_port(["--port", "eight"])


def test_lab_opens_the_students_copy_on_the_first_chapter(mini):
    mini.calls()
    status, text = mini.run("lab", "--no-browser", "--port=0")
    assert status == 0, text
    (call,) = mini.calls()
    my = mini.root / "my"
    assert call.tool == "jupyterlab"
    assert f"--ServerApp.root_dir={my}" in call.arguments
    assert "--LabApp.default_url=/lab/tree/notebooks/00_start.ipynb" in call.arguments
    assert call.arguments[-2:] == ["--no-browser", "--port=0"]
    assert (my / "exercises" / "00_start" / "00_start.ipynb").exists()
    assert Path(call.variables["JUPYTER_CONFIG_PATH"]) == my / ".jupyter"


@pytest.fixture
def listening():
    """Ctrl-C reaches what a test starts, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@posix
def test_ctrl_c_is_quiet(mini, listening):
    process = mini.staying()
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 7, text  # the tool ended in its own way
    assert "Traceback" not in text


@posix
def test_ended_book_ends_its_child(mini):
    process = mini.staying()
    process.terminate()
    process.communicate(timeout=60)  # returns when the child, which holds the pipe, is gone too
    assert process.returncode == 143


# test


def test_everything_runs_even_after_a_failure(mini):
    mini.calls()
    (mini.root / "ruff.fails").touch()
    status, text = mini.run("test", OPENBLAS_CORETYPE="Nehalem")
    (mini.root / "ruff.fails").unlink()
    calls = mini.calls()
    assert status == 1
    assert [c.tool for c in calls] == ["ruff", "ruff", "authoring", "pytest"]
    assert calls[-1].arguments == book.WHOLE[1:]
    assert calls[-1].variables.get("OPENBLAS_CORETYPE") is None
    verdicts = [line.split()[0] for line in text.splitlines()[-4:]]
    assert verdicts == ["FAILED", "FAILED", "passed", "passed"]
    assert mini.run("test")[0] == 0


def test_all_runs_what_is_left_out_and_the_chapters_on_other_processors(mini):
    mini.calls()
    assert mini.run("test", "--all")[0] == 0
    whole, *chapters = mini.calls()[-3:]
    assert whole.arguments == [*book.WHOLE[1:], "--all"]
    assert [(c.arguments[0], c.arguments[-1]) for c in chapters] == [
        ("notebooks", "Haswell"),
        ("notebooks", "Nehalem"),
    ]


def test_arguments_go_to_pytest_alone(mini):
    mini.calls()
    assert mini.run("test", "tests/test_x.py", "-k", "y")[0] == 0
    assert [(c.tool, c.arguments) for c in mini.calls()] == [
        ("pytest", ["tests/test_x.py", "-k", "y"])
    ]


def test_matrix_has_every_row(monkeypatch):
    pythons = {(3, 11): "python3.11", (3, 13): "python3.13"}
    made = []
    monkeypatch.setattr(book, "installed_pythons", lambda: pythons)
    monkeypatch.setattr(book, "install", lambda title, command: None)
    monkeypatch.setattr(
        book, "prepared", lambda folder, *rest: made.append((folder.name, *rest)) or folder
    )
    rows = {title: more for title, _, _, more in book.matrix(Path("python"))}
    assert made == [
        (".venv-numpy2.0", "python3.11", "numpy==2.0.*"),
        (".venv-python3.11", "python3.11"),
        (".venv-python3.13", "python3.13"),
    ]
    assert len(rows) == 3 * 2 + 1 + 2
    assert rows["Nehalem, 2 threads"]["OPENBLAS_CORETYPE"] == "Nehalem"
    assert rows["Nehalem, 2 threads"]["OPENBLAS_NUM_THREADS"] == "2"
    assert rows["own processor, 1 thread"] == book.ONE_THREAD


# The student's copy


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    mini = MiniBook(tmp_path / "book")
    monkeypatch.setattr(book, "ROOT", mini.root)
    monkeypatch.setattr(book, "HOME", mini.root)
    return mini.root


def chapter(shelf, name="00_start"):
    return shelf / "my" / "notebooks" / f"{name}.ipynb"


def publish(shelf, *sources):
    (shelf / "notebooks" / "00_start.ipynb").write_text(notebook(*sources))


def test_copy_holds_chapters_results_and_exercises_but_no_sources(shelf):
    (shelf / "notebooks" / ".ipynb_checkpoints").mkdir()
    (shelf / "notebooks" / ".ipynb_checkpoints" / "a.ipynb").write_text("{}")
    (shelf / "exercises" / "00_start" / "program.py").write_text("# to start from")
    assert book.copy_for_student() == []
    copied = {p.relative_to(shelf / "my").as_posix() for p in (shelf / "my").rglob("*.*")}
    assert copied == {
        ".book.json",
        "docs/claims.md",
        "docs/exercises.md",
        "docs/notation.md",
        "exercises/00_start/00_start.ipynb",
        "exercises/00_start/program.py",
        "notebooks/00_start.ipynb",
        "notebooks/results/00.json",
    }


def test_untouched_file_follows_the_book(shelf):
    book.copy_for_student()
    publish(shelf, "second")
    assert book.copy_for_student() == []
    assert "second" in chapter(shelf).read_text()


def test_opening_and_saving_is_no_change(shelf):
    book.copy_for_student()
    saved = json.loads(notebook(["first"], language_info={"name": "python"}))
    chapter(shelf).write_text(json.dumps(saved, indent=2))
    publish(shelf, "second")
    assert book.copy_for_student() == []
    assert "second" in chapter(shelf).read_text()


def test_a_copy_names_the_language_of_the_kernel_and_is_no_change(shelf):
    """Where it did not, JupyterLab would write it, and each notebook would open as not saved."""
    told = book.language(sys.executable)
    assert (told["name"], told["version"]) == ("python", sys.version.split()[0])
    for _ in range(2):
        assert book.copy_for_student(told) == []
        copy = json.loads(chapter(shelf).read_text())
        assert copy["metadata"].pop("language_info") == told
        assert copy == json.loads(notebook("first"))
        publish(shelf, "first")
    publish(shelf, "second")
    assert book.copy_for_student(told) == []
    assert "second" in chapter(shelf).read_text()


def test_without_a_kernel_a_copy_is_as_the_book_has_it(shelf, tmp_path):
    assert book.language(tmp_path / "no python") is None
    assert book.copy_for_student(None) == []
    assert chapter(shelf).read_text() == notebook("first")


@pytest.mark.parametrize("mine", [notebook("mine"), notebook("first", output="1"), "not JSON"])
def test_changed_file_is_kept_and_the_new_one_comes_beside_once(shelf, mine):
    book.copy_for_student()
    chapter(shelf).write_text(mine)
    assert book.copy_for_student() == []
    publish(shelf, "second")
    assert book.copy_for_student() == ["notebooks/00_start.new.ipynb"]
    assert book.copy_for_student() == []
    assert chapter(shelf).read_text() == mine
    assert "second" in chapter(shelf, "00_start.new").read_text()


def test_changed_new_file_is_kept_as_well(shelf):
    book.copy_for_student()
    chapter(shelf).write_text(notebook("mine"))
    publish(shelf, "second")
    book.copy_for_student()
    publish(shelf, "third")
    assert book.copy_for_student() == ["notebooks/00_start.new.ipynb"]
    chapter(shelf, "00_start.new").write_text(notebook("mine too"))
    publish(shelf, "fourth")
    assert book.copy_for_student() == ["notebooks/00_start.new2.ipynb"]
    kept = [chapter(shelf, n).read_text() for n in ["00_start", "00_start.new", "00_start.new2"]]
    assert kept == [notebook("mine"), notebook("mine too"), notebook("fourth")]


def test_deleted_file_comes_back(shelf):
    book.copy_for_student()
    chapter(shelf).unlink()
    assert book.copy_for_student() == []
    assert chapter(shelf).read_text() == notebook("first")


@pytest.mark.parametrize("allowed", range(6))
def test_crash_while_copying_loses_nothing(shelf, monkeypatch, allowed):
    book.copy_for_student()
    exercise = shelf / "my" / "exercises" / "00_start" / "00_start.ipynb"
    exercise.write_text(notebook("my answer"))
    publish(shelf, "second")
    (shelf / "exercises" / "00_start" / "00_start.ipynb").write_text(notebook("exercise 2"))
    replaced = []

    def crash(source, target):
        if len(replaced) == allowed:
            raise KeyboardInterrupt
        replaced.append(target)
        Path(source).replace(target)

    with monkeypatch.context() as patch:
        patch.setattr(book.os, "replace", crash)
        try:
            book.copy_for_student()
        except KeyboardInterrupt:
            assert chapter(shelf).read_text() in (notebook("first"), notebook("second"))
    book.copy_for_student()
    assert exercise.read_text() == notebook("my answer")
    assert exercise.with_name("00_start.new.ipynb").read_text() == notebook("exercise 2")
    assert chapter(shelf).read_text() == notebook("second")
    assert len(list((shelf / "my").rglob("*.new*"))) == 1


def test_lost_memory_loses_nothing(shelf):
    book.copy_for_student()
    chapter(shelf).write_text(notebook("mine"))
    (shelf / "my" / ".book.json").write_text("{ cut off")
    assert book.copy_for_student() == ["notebooks/00_start.new.ipynb"]
    assert chapter(shelf).read_text() == notebook("mine")


# Installs that fail: last, since they leave the environment unfinished


def test_what_pythonpath_shows_is_not_taken_for_installed(mini, tmp_path):
    (tmp_path / "nowhere_to_be_found-1.dist-info").mkdir()
    (tmp_path / "nowhere_to_be_found-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nowhere-to-be-found\nVersion: 1\n"
    )
    (mini.root / "pyproject.toml").write_text(PROJECT + "# elsewhere\n")
    (mini.root / "needs").write_text("nowhere-to-be-found>=1\n")
    status, text = mini.run("check", PYTHONPATH=str(tmp_path))
    assert status == 1
    assert text.splitlines()[-1] == book.OFFLINE


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [("needs", book.OFFLINE), ("full", book.FULL)],
    ids=["network", "disk"],
)
def test_failed_install_gives_one_sentence(mini, trouble, sentence):
    (mini.root / "pyproject.toml").write_text(PROJECT + f"# {trouble}\n")
    (mini.root / trouble).write_text("nowhere-to-be-found>=1\n")
    status, text = mini.run("check")
    assert status == 1
    assert text.splitlines()[-1] == sentence
