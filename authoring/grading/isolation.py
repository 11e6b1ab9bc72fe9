"""Where a student's process runs: a home of its own that is thrown away, and nothing else to write.

Which protection there is, is found out by trying: ``bubblewrap``, else ``unshare`` of util-linux,
else none but separate folders.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from book import ONE_THREAD

ROOT = Path(__file__).resolve().parent.parent.parent
MEMORY = 4 * 2**30  # bytes of a process
PROCESSES = 64
DISK = 500_000_000  # bytes in a home, where it can be limited
KINDS = {
    "bubblewrap": "own home and process list, the rest read-only or unseen, no network",
    "unshare": "own home and process list, no network; other files can be read and written",
    "none": "own home only: student code runs with all of your rights",
}


class Place:
    """Where the students of one grading run: the library as they see it, and the protection."""

    def __init__(self, scratch: Path, kind: str | None = None):
        self.scratch = scratch
        self.library, self.with_checks = scratch / "library", scratch / "library with checks"
        make_library(self.library, without=("checks",))
        make_library(self.with_checks)
        kinds = [kind] if kind else list(KINDS)
        self.kind = next(kind for kind in kinds if kind == "none" or self._works(kind))

    def _works(self, kind):
        self.kind = kind
        with tempfile.TemporaryDirectory(dir=self.scratch) as home:
            command = self._around(Path(home), [sys.executable, "-c", "import numpy"], self.library)
            try:
                return not subprocess.run(command, capture_output=True, timeout=120).returncode
            except (OSError, subprocess.TimeoutExpired):
                return False

    def start(self, chapters: list[str]) -> "Student":
        """A fresh student's process, in a fresh home, with stand-ins for the checks of chapters.

        Without chapters it has the checks themselves.
        """
        home = Path(tempfile.mkdtemp(dir=self.scratch, prefix="home-"))
        library = self.library if chapters else self.with_checks
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [str(theirs.fileno()), str(MEMORY), *chapters]
            program = [sys.executable, "-m", "authoring.grading.student", *arguments]
            process = subprocess.Popen(
                self._around(home, program, library),
                cwd=home,
                env=self._environment(home, library),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return Student(process, ours, home)

    def _environment(self, home, library):
        return {
            **ONE_THREAD,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
            "PYTHONPATH": str(library),
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "TQDM_DISABLE": "1",
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TMPDIR": str(home),
            "IPYTHONDIR": str(home / ".ipython"),
            "MPLCONFIGDIR": str(home / ".matplotlib"),
        }

    def _around(self, home, program, library):
        """The command that runs a program with the protection."""
        limited = ["prlimit", f"--nproc={PROCESSES}", "--", *program]
        if self.kind == "unshare":
            apart = ["--user", "--map-root-user", "--net", "--pid", "--ipc", "--fork"]
            return ["unshare", *apart, "--mount-proc", "--kill-child", *limited]
        if self.kind == "bubblewrap":
            seen = {"/usr", "/lib", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache"}
            seen |= {"/etc/fonts", sys.prefix, sys.base_prefix, str(library)}
            seen |= {str(Path(sys.executable).resolve().parent.parent)}
            binds = [part for path in sorted(seen) for part in ("--ro-bind-try", path, path)]
            in_memory = ["--size", str(DISK), "--tmpfs"]
            apart = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
            return [
                "bwrap",
                *apart,
                *["--proc", "/proc", "--dev", "/dev", *in_memory, "/tmp", *in_memory, "/dev/shm"],
                *binds,
                *[*in_memory, str(home), "--remount-ro", "/dev", "--remount-ro", "/"],
                *["--chdir", str(home), "--"],
                *limited,
            ]
        return program


class Student:
    """A student's process that runs."""

    def __init__(self, process: subprocess.Popen, link: socket.socket, home: Path):
        self.process, self.link, self.home = process, link, home

    def seconds_without_processor(self) -> float:
        """How long it and we were ready to compute, and others did (Linux; elsewhere 0)."""
        return sum(map(_waited, (self._inner_process(), os.getpid())))

    def _inner_process(self):
        """The number of the process inside of what protects it."""
        number = self.process.pid
        for _ in range(3):
            try:
                number = int(Path(f"/proc/{number}/task/{number}/children").read_text().split()[0])
            except (OSError, IndexError, ValueError):
                break
        return number

    def end(self):
        """End it with all that it started, and throw its home away."""
        self.link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.3)  # without its grader it ends by itself, if it can
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def _waited(process):
    """The seconds that a process has waited for a processor."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def make_library(folder: Path, without: tuple[str, ...] = ()) -> None:
    """The library, the book's modules and ours as students' code finds them, compiled as here."""
    for name in ("minitorch", "textbook", "authoring/grading"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*without))
    (folder / "authoring" / "__init__.py").touch()
