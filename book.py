"""The book's commands: open it, test it, build it, grade with it.

The standard library is enough; the file also parses on an old Python, to say that it is too old.
"""

import atexit
import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
INSTALLED = not (ROOT / "pyproject.toml").is_file()  # by pip: then this is a part of the package
HOME = Path.cwd() if INSTALLED else ROOT  # where my/ is
NAME = "minitorch-book"
EXTRAS = ["test", "grading", "site"]
BOOK = f".[{','.join(EXTRAS)}]"  # what pip installs, and what environment.yml names
OLDEST = (3, 11)
UNFINISHED = "unfinished"

HELP = """\
usage: python book.py COMMAND

for readers
  lab [options]     open the book in JupyterLab (options go to it: --no-browser, --port 8890)
  test [options]    run everything that the book's CI runs (options go to pytest, which then runs
                    alone); test --all also runs what takes long and rarely finds more; test
                    --matrix adds other processors, threads, NumPys and Pythons
  race PROGRAM      race a program of chapter 14 in the league of 40 seconds, or with --seconds 120
                    or 600; race --table FOLDER prints a table of results

for authors
  build [NN]        execute chapter and exercise set NN, or all, and write the generated files;
                    with --texts keep the stored outputs, where the code is still theirs
  check             say which generated files are out of step with their source; executes nothing
  experiment NN     run chapter NN's experiments in full and record their results; with claims
                    (experiment NN C7 E1) only theirs; with --budget 10 or --seeds 100:105 nothing
                    is recorded: what comes out there is printed beside the record
  site FOLDER       write the book as web pages, PDF and EPUB, from the stored outputs

for instructors
  release FOLDER    write what students get, without solutions
  grade FOLDER      grade a folder of submissions

The first command makes .venv and installs the book there: a minute or two, once.
"""
HELP_FOR_STUDENTS = """\
usage: python book.py lab [options]

opens the book in JupyterLab (options go to it: --no-browser, --port 8890). The first time it makes
.venv and installs the book there: a minute or two. This copy of the book is for students: without
solutions, tests, and the tools of authors and instructors.

       python book.py race PROGRAM [--seconds 40|120|600]
       python book.py race --table FOLDER

races a program of chapter 14, and prints a table of results.
"""
HELP_INSTALLED = """\
usage: minitorch-book lab [options]

opens the book in JupyterLab (options go to it: --no-browser, --port 8890), on your copy of it in
the folder my/ here. It is without solutions, tests, and the tools of authors and instructors.

       minitorch-book race PROGRAM [--seconds 40|120|600]
       minitorch-book race --table FOLDER

races a program of chapter 14, and prints a table of results.
"""


class Stop(Exception):
    """Ends the command with one sentence for the user."""


def say(text, end="\n"):
    print(text, end=end, flush=True)


# The user's settings -----------------------------------------------------------------------------

# Variables, by the beginning of their names, that are meant for other programs and would change
# what the book computes, shows or finds. All others stay: threads, folders, proxies.
PYTHON = ("PYTHON",)  # a PYTHONPATH with another minitorch, a PYTHONOPTIMIZE that drops asserts
KEPT = {"PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONUTF8"}  # where packages are; see main
TOOLS = (
    "JUPYTER_CONFIG_PATH",
    "JUPYTER_NO_CONFIG",
    "JUPYTER_PATH",
    "MINITORCH_",
    "MPLBACKEND",
    "PYTEST_ADDOPTS",
    "PYTEST_DISABLE",
    "PYTEST_PLUGINS",
)
# What NumPy takes the processor for: last digits and speed. Where `test` wants one, it sets it.
PROCESSOR = ("NPY_", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_VERBOSE")


def forget(beginnings):
    """Remove variables from our environment, which every child inherits."""
    for name in set(os.environ) - KEPT:
        if name.startswith(beginnings):
            del os.environ[name]


def forget_settings():
    """Leave nothing of the user's Python and tools but what is installed: no variable, no profile.

    The tests call it as well (conftest.py), since they start children when pytest runs alone, too.
    """
    forget(PYTHON + TOOLS)
    if os.environ.get("LC_ALL") in ["C", "POSIX"]:  # Python takes UTF-8 for C, but not against this
        del os.environ["LC_ALL"]
        os.environ["LANG"] = os.environ["LC_CTYPE"] = "C"
    empty = Path(tempfile.mkdtemp(prefix=NAME + "-"))
    atexit.register(shutil.rmtree, str(empty), ignore_errors=True)
    (empty / "matplotlibrc").touch()
    for name in ["IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MATPLOTLIBRC"]:
        os.environ[name] = str(empty)


# The environment ---------------------------------------------------------------------------------


def python_in(folder):
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def requirements():
    """Pairs (name, lowest version) of everything that the book needs, read from pyproject.toml."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = sum((project["optional-dependencies"][e] for e in EXTRAS), project["dependencies"])
    return [re.match(r"([\w.-]+).*>=([\d.]+)", line).groups() for line in lines]


def numbers(version):
    return [int(n) for n in re.match(r"[\d.]*", version).group().split(".") if n]


def lacking():
    """What the running environment lacks: empty if it holds the book from this folder, complete."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    lacks = []
    try:
        origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
        folder = Path(url2pathname(urlparse(origin.get("url", "")).path))
        if not origin.get("dir_info", {}).get("editable") or folder.resolve() != ROOT:
            lacks.append(NAME)
    except PackageNotFoundError:
        lacks.append(NAME)
    for name, lowest in requirements():
        try:
            if numbers(distribution(name).version) < numbers(lowest):
                lacks.append(f"{name}>={lowest}")
        except PackageNotFoundError:
            lacks.append(name)
    return lacks


def probe(python):
    """What the environment of that Python lacks; None if it is too broken to be installed into."""
    try:
        command = [str(python), str(ROOT / "book.py"), "--probe"]
        answer = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return None if answer["lacks"] and not answer["pip"] else answer["lacks"]


def print_probe():
    from importlib.util import find_spec

    print(json.dumps({"lacks": lacking(), "pip": find_spec("pip") is not None}))


def environment():
    """The Python to work with: the running one if it holds the book, else that of .venv."""
    if INSTALLED:
        return Path(sys.executable)
    folder = ROOT / ".venv"
    if Path(sys.prefix).resolve() != folder.resolve():
        lacks = lacking()
        if not lacks:
            return Path(sys.executable)
        if NAME not in lacks:
            say(f"This environment lacks {', '.join(lacks)}, so the book uses .venv. To stay here,")
            say(f'first run: python -m pip install -e "{BOOK}"')
    return prepared(folder, getattr(sys, "_base_executable", sys.executable))


def prepared(folder, base, *pins):
    """The Python of the environment `folder`, made by `base`, or repaired, if need be."""
    python = python_in(folder)
    stamp = folder / "book.stamp"  # says "unfinished" until everything is installed
    recipe = (ROOT / "pyproject.toml").read_bytes() + repr([EXTRAS, pins]).encode()
    wanted = f"{ROOT}\n{hashlib.sha256(recipe).hexdigest()}"
    found = stamp.read_text(encoding="utf-8") if stamp.is_file() else None
    lacks = probe(python)
    if lacks == [] and found in (None, wanted):
        return python

    intact = found is None or found.startswith(f"{ROOT}\n")
    if lacks is None or not intact:
        need_venv(base)
        if folder.exists():
            say(f"{folder.name} is broken, unfinished or moved: making it anew")
            shutil.rmtree(str(folder))
        folder.mkdir()
        stamp.write_text(UNFINISHED, encoding="utf-8")
        install(f"Making the environment {folder.name}", [base, "-m", "venv", folder])
    stamp.write_text(UNFINISHED, encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-user"]
    # A new pip needs half the time of the one that comes with Python 3.11; the old one works too.
    with contextlib.suppress(Stop):
        install("Updating its installer", [*pip, "--upgrade", "pip"])
    # Python compiles what it uses; compiling all that is installed would take half a minute more.
    pip.append("--no-compile")
    install("Installing the book and JupyterLab, a minute or two", [*pip, "-e", BOOK, *pins])
    # Python before 3.13 reads the path to the book in the locale's encoding; pip wrote UTF-8.
    for path in folder.glob("[Ll]ib/**/site-packages/*minitorch_book.pth"):
        path.write_text(os.path.relpath(str(ROOT), str(path.parent)), encoding="ascii")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def need_venv(base):
    modules = subprocess.run([str(base), "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL)
    if modules.returncode:
        raise Stop(
            "This Python comes without the modules venv and ensurepip. On Debian and Ubuntu "
            "`sudo apt install python3-venv` adds them; then run the command again."
        )


FULL = "The disk is full: free about 2 GB (temporary folder included), then run the command again."
OFFLINE = (
    "The packages could not be downloaded: check the network connection and the proxy, then run "
    "the command again. The network is needed only for this."
)
FORBIDDEN = f"No permission to write in {HOME}: " + (
    "go to a folder of your own." if INSTALLED else "copy the book to a folder of your own."
)
TROUBLES = {
    FULL: r"No space left on device|Errno 28|WinError 112|Disk quota exceeded",
    OFFLINE: r"NewConnectionError|ConnectTimeout|ReadTimeout|Connection (refused|broken|aborted)"
    r"|name resolution|getaddrinfo failed|Network is unreachable|ProxyError|Max retries exceeded",
    FORBIDDEN: r"Permission denied|Errno 13|WinError 5\b|Read-only file system",
}


def install(title, command):
    """Run an installer, showing a dot for every five lines; if it fails, Stop with the reason."""
    say(title + " ", end="")
    lines = []
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for line in process.stdout:
            lines.append(line.decode(errors="replace").rstrip())
            if len(lines) % 5 == 0:
                say(".", end="")
    except BaseException:
        process.terminate()
        raise
    finally:
        status = finish(process)
        say("")
    if status:
        text = "\n".join(lines)
        for sentence, pattern in TROUBLES.items():
            if re.search(pattern, text):
                raise Stop(sentence)
        if min(shutil.disk_usage(str(f)).free for f in [ROOT, tempfile.gettempdir()]) < 1e8:
            raise Stop(FULL)  # which ensurepip does not tell
        raise Stop("Installing failed. The installer's last lines:\n" + "\n".join(lines[-15:]))


# Child processes ---------------------------------------------------------------------------------


def start(command, **options):
    return subprocess.Popen([str(part) for part in command], cwd=str(HOME), **options)


def finish(process):
    """Wait for a child, through Ctrl-C, which it gets as well; it does not outlive us."""
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
    finally:
        if process.poll() is None:
            process.terminate()


ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


def call(python, *arguments, **more):
    """Run `python -m arguments...`, the environment's programs first on PATH; return its status.

    NumPy's matrix products run on one thread unless the user, or `more`, says otherwise: at the
    book's sizes a second one gains little, and on a busy machine the two wait for each other.
    """
    variables = dict(ONE_THREAD, **dict(os.environ, **more))
    variables["PATH"] = str(python.parent) + os.pathsep + variables.get("PATH", "")
    return finish(start([python, "-m", *arguments], env=variables))


# The student's copy ------------------------------------------------------------------------------


def fingerprint(path):
    """A hash of what a reader can change: of a notebook the cells and outputs, not the layout."""
    content = path.read_bytes()
    if path.suffix == ".ipynb":
        try:
            cells = json.loads(content.decode("utf-8"))["cells"]
            parts = [[c["cell_type"], c["source"], c.get("outputs")] for c in cells]
            content = json.dumps(joined(parts), sort_keys=True).encode()
        except (ValueError, KeyError, TypeError):
            pass  # not a notebook any more: compare bytes
    return hashlib.sha256(content).hexdigest()


def joined(value):
    """The same JSON with every list of lines as one string, since programs write either."""
    if isinstance(value, dict):
        return {key: joined(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, str) for item in value):
        return "".join(value)
    return [joined(item) for item in value]


def write(path, content):
    """Write a file so that a crash leaves either the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    os.replace(str(unfinished), str(path))


def book_files():
    """What a student gets: chapters, results, exercises, programs to race, three pages of docs."""
    found = [ROOT / "docs" / f"{name}.md" for name in ("claims", "exercises", "notation")]
    for part in ["notebooks", "exercises"]:
        found.extend(sorted((ROOT / part).rglob("*")))
    for path in found:
        hidden = any(name.startswith((".", "__")) for name in path.relative_to(ROOT).parts)
        source = path.suffix == ".py" and "exercises" not in path.parts[-3:]
        if path.is_file() and not source and not hidden:
            yield path


KERNEL = "import json, ipykernel.ipkernel as k; print(json.dumps(k.IPythonKernel.language_info))"


def language(python):
    """What a kernel of that Python says of its language; JupyterLab writes it into a notebook."""
    try:
        return json.loads(
            subprocess.check_output([str(python), "-c", KERNEL], stderr=subprocess.DEVNULL)
        )
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None  # JupyterLab tells what the environment lacks


def content(path, language_info):
    """What a student gets of a file: of a notebook also the language, so that it opens as saved."""
    if path.suffix != ".ipynb" or not language_info:
        return path.read_bytes()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"]["language_info"] = language_info
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def copy_for_student(language_info=None):
    """Bring my/ up to date with the book; return the names of what went beside a changed file.

    my/.book.json remembers the fingerprint of each file as the book last gave it out. A file that
    no longer has it was changed by the student: the book's next version goes beside it, once.
    """
    mine = HOME / "my"
    memory = mine / ".book.json"
    try:
        given = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        given = {}

    def is_ours(name, new):
        return not (mine / name).exists() or fingerprint(mine / name) in (new, given.get(name))

    beside = []
    for path in book_files():
        name = path.relative_to(ROOT).as_posix()
        new = fingerprint(path)
        place = name
        if not is_ours(name, new):
            if given.get(name) == new:
                continue
            stem, suffix = os.path.splitext(name)
            names = (stem + ".new" + str(n or "") + suffix for n in [0, *range(2, 1000)])
            place = next(candidate for candidate in names if is_ours(candidate, new))
            beside.append(place)
        if not (mine / place).exists() or fingerprint(mine / place) != new:
            write(mine / place, content(path, language_info))
        given[name] = given[place] = new
    write(memory, json.dumps(given, indent=1, sort_keys=True).encode())
    return beside


# JupyterLab without news from the network, and without the tools of authors and instructors; pages
# such as docs/claims.md open as a reader wants them.
JUPYTER_SETTINGS = {
    "labconfig/default_setting_overrides.json": {
        "@jupyterlab/docmanager-extension:plugin": {
            "defaultViewers": {"markdown": "Markdown Preview"}
        }
    },
    "labconfig/page_config.json": {
        "disabledExtensions": {
            "@jupyter/nbgrader": True,
            "@jupyterlab/apputils-extension:announcements": True,
            "jupyterlab-jupytext": True,
        }
    },
    "jupyter_server_config.json": {
        "ServerApp": {
            "jpserver_extensions": {
                "jupyterlab_jupytext": False,
                "nbgrader.server_extensions.assignment_list": False,
                "nbgrader.server_extensions.course_list": False,
                "nbgrader.server_extensions.formgrader": False,
                "nbgrader.server_extensions.validate_assignment": False,
            }
        }
    },
}


def lab(options):
    refuse_taken_port(options)
    python = environment()
    for name in copy_for_student(language(python)):
        say(f"You changed a file that has a new version: it is my/{name}, beside yours")
    mine = HOME / "my"
    settings = mine / ".jupyter"
    for name, content in JUPYTER_SETTINGS.items():
        write(settings / name, json.dumps(content, indent=1).encode())
    paths = [str(settings), os.environ.get("JUPYTER_CONFIG_PATH")]
    variables = {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths))}
    if not os.access(os.path.expanduser("~"), os.W_OK):  # JupyterLab writes there
        for name in ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"]:
            variables[name] = os.environ.get(name, str(settings))
    chapters = sorted((mine / "notebooks").glob("*.ipynb"))
    opened_before = any(settings.glob("workspaces/*"))
    page = "" if opened_before or not chapters else f"/tree/notebooks/{chapters[0].name}"
    say("Opening JupyterLab on my/, your copy of the book. Ctrl-C, twice, ends it.")
    return call(
        python,
        "jupyterlab",
        f"--ServerApp.root_dir={mine}",
        f"--LabApp.workspaces_dir={settings / 'workspaces'}",
        f"--LabApp.default_url=/lab{page}",
        "--ServerApp.allow_root=True",
        "--log-level=WARN",
        *options,
        **variables,
    )


def refuse_taken_port(options):
    """Without a wish for a port JupyterLab looks for a free one; with one, it must be free."""
    wish = re.search(r"(?:--port|--ServerApp\.port)[= ](\S*)", " ".join(options))
    if not wish:
        return
    if not wish.group(1).isdigit() or int(wish.group(1)) > 65535:
        raise Stop(f"--port must be a number up to 65535, got {wish.group(1)!r}")
    with socket.socket() as listener:
        if os.name != "nt":  # there it would share the port instead of asking for it
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", int(wish.group(1))))
        except OSError:
            raise Stop(
                f"Port {wish.group(1)} is taken, perhaps by another JupyterLab: choose another, or "
                "leave --port out."
            ) from None


# Tests -------------------------------------------------------------------------------------------

TWO_THREADS = dict.fromkeys(ONE_THREAD, "2")
# A worker more than processors, since one runs what mostly waits: see tests/session.py.
PARALLEL = ["-n", str(min(4, os.cpu_count() or 1) + 1), "--dist", "loadfile", "--durations", "10"]
WHOLE = ["pytest", *PARALLEL]
# What a processor or a NumPy can change: not the tests of the tools.
NUMERIC = ["pytest", "tests", "notebooks", "solutions", "--device", "cpu", *PARALLEL] + [
    f"--ignore-glob=tests/test_{tool}*"
    for tool in ["authoring", "book", "grading", "notebooks", "project"]
]


def test(options):
    python = environment()
    if not set(options) <= {"--all", "--matrix"}:
        return call(python, "pytest", *[o for o in options if o != "--matrix"])
    rows = [
        ("style", python, ["ruff", "check", "."], {}),
        ("layout", python, ["ruff", "format", "--check", "."], {}),
        ("generated files", python, ["authoring", "check"], {}),
        ("tests", python, WHOLE, ONE_THREAD),
    ]
    if "--all" in options:
        rows[-1] = ("tests, all", python, [*WHOLE, "--all"], ONE_THREAD)
        for core in ["Haswell", "Nehalem"]:
            command = ["pytest", "notebooks", *PARALLEL, "--chapters-on", core]
            rows.append((f"chapters, on {core}", python, command, ONE_THREAD))
    if "--matrix" in options:
        rows = [*matrix(python), *rows]
    results = []
    for number, (title, interpreter, command, more) in enumerate(rows, start=1):
        shown = [f"{key}={value}" for key, value in more.items()] + ["python", "-m", *command]
        say(f"\n[{number}/{len(rows)}] {title}: {' '.join(shown)}")
        begin = time.perf_counter()
        status = call(interpreter, *command, **more)
        results.append((title, status, time.perf_counter() - begin))
    say("")
    for title, status, seconds in results:
        say(f"{'FAILED' if status else 'passed'} {seconds:7.1f} s  {title}")
    return int(any(status for _, status, _ in results))


def matrix(python):
    """The slow rows: processors and threads, oldest and newest NumPy, every Python installed."""
    for core in ["Haswell", "Nehalem", None]:
        for threads, amount in [(ONE_THREAD, "1 thread"), (TWO_THREADS, "2 threads")]:
            more = dict(threads, OPENBLAS_CORETYPE=core) if core else threads
            yield f"{core or 'own processor'}, {amount}", python, NUMERIC, more
    pythons = installed_pythons()
    for version, program in pythons.items():
        if version <= (3, 12):  # NumPy 2.0 has wheels for no later one
            old = prepared(ROOT / ".venv-numpy2.0", program, "numpy==2.0.*")
            yield "oldest NumPy", old, NUMERIC, ONE_THREAD
            break
    for (major, minor), program in pythons.items():
        name = f"python{major}.{minor}"
        made = prepared(ROOT / f".venv-{name}", program)
        install(
            "Looking for the newest NumPy", [made, "-m", "pip", "install", "--upgrade", "numpy"]
        )
        yield f"{name}, newest NumPy", made, ["pytest", *PARALLEL], ONE_THREAD


def installed_pythons():
    """The program of each Python from the oldest supported on that can be found and started."""
    found = {sys.version_info[:2]: getattr(sys, "_base_executable", sys.executable)}
    for minor in range(OLDEST[1], 30):
        program = shutil.which(f"python3.{minor}")
        if program and not subprocess.call([program, "-c", ""], stderr=subprocess.DEVNULL):
            found.setdefault((3, minor), program)
    return found


# The command line --------------------------------------------------------------------------------


def author(command):
    """The command runs in the book's folder; a FOLDER is relative to the one that it is told."""
    return lambda options: call(
        environment(), "authoring", command, *options, BOOK_CALLED_FROM=os.getcwd()
    )


def race(options):
    """On one thread, always; results go to race/ in the folder where the command is called."""
    more = dict(ONE_THREAD, BOOK_CALLED_FROM=os.getcwd())
    return call(environment(), "textbook.race", *options, **more)


COMMANDS = {"lab": lab, "test": test, "race": race}
FOR_STUDENTS = ["lab", "race"]
AUTHORS = ["build", "check", "experiment", "grade", "release", "site"]
COMMANDS.update({c: author(c) for c in AUTHORS})


def main(arguments):
    if sys.version_info < OLDEST:
        return (
            "The book needs Python 3.11 or newer, and this is {}.{}. Get one from python.org, or, "
            "if you have it, type its name: python3.12 book.py lab".format(*sys.version_info[:2])
        )
    command, options = (arguments or ["help"])[0], arguments[1:]
    if command == "--probe":
        return print_probe()
    for_students = not (ROOT / "authoring").is_dir()
    if command in ["help", "-h", "--help"]:
        text = HELP_FOR_STUDENTS if for_students else HELP
        say(HELP_INSTALLED if INSTALLED else text, end="")
        return 0
    if for_students and command in COMMANDS and command not in FOR_STUDENTS:
        return f"This copy of the book is for students: it has `lab` and `race`, not `{command}`."
    if command not in COMMANDS:
        return f"There is no command {command!r}; there are: {', '.join(COMMANDS)}."
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if command in FOR_STUDENTS:  # there profiles and processor are the reader's
            forget(PYTHON)
        else:
            forget_settings()
            forget(PROCESSOR)
        os.environ["PYTHONUTF8"] = "1"  # files and pipes in every locale, as from Python 3.15 on
        return COMMANDS[command](options)
    except Stop as stop:
        return str(stop)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return FULL
        if error.errno in [errno.EACCES, errno.EPERM, errno.EROFS]:
            return FORBIDDEN
        return f"The operating system refused: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
