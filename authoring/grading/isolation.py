"""Where a student's process runs: a home of its own that is thrown away, and nothing else to write.

Which protection there is, is found out by trying: ``bubblewrap``, else ``unshare`` of util-linux,
else none but separate folders.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from authoring.grading import kernel
from book import ONE_THREAD

ROOT = Path(__file__).resolve().parent.parent.parent
MEMORY = 4 * 2**30  # bytes of a process, and of all that a notebook runs together
PROCESSES = 64
DISK = 500_000_000  # bytes in a home, where it can be limited
KINDS = {
    "bubblewrap": "own home and process list, the rest read-only or unseen, no network",
    "unshare": "own home and process list, no network; other files can be read and written",
    "none": "own home only: student code runs with all of the rights of its user",
}
PROGRAM = [b"-m", b"authoring.grading.student"]  # after the name of Python
OTHER_USER = """a student's process that runs as root could leave its protection. Make a user, once:
    useradd --system --user-group --shell /usr/sbin/nologin grader
and let students' processes run as this one, who owns nothing here:
    python book.py grade --user grader FOLDER"""


class GradingError(Exception):
    """Why nothing can be graded, in words for the instructor."""


def is_root() -> bool:
    """Whether this process may do anything."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def refuse_root(user: str | None) -> None:
    """Raise unless students' processes run without the rights of root."""
    if is_root() and user is None:
        raise GradingError(OTHER_USER)


def user_named(name: str | None) -> dict:
    """What ``Popen`` is told so that a process runs as this user; nothing without a name."""
    if name is None:
        return {}
    if not is_root():
        raise GradingError("--user is for root alone: you grade as yourself")
    import pwd

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise GradingError(f"there is no user {name}: {OTHER_USER}") from None
    if found.pw_uid == 0:
        raise GradingError(OTHER_USER)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


class Place:
    """Where the students of one grading run: the library as they see it, and the protection.

    ``user``, for a grader who is root, is the name of whom their processes run as.
    """

    def __init__(self, scratch: Path, kind: str | None = None, user: str | None = None):
        self.scratch, self.user = scratch, user_named(user)
        self.library = scratch / "library"
        self.with_checks = scratch / secrets.token_hex()  # another user cannot list the folder
        make_library(self.library, without=("checks",))
        make_library(self.with_checks)
        if self.user:
            scratch.chmod(0o711)
        kinds = [kind] if kind else list(KINDS)
        needed = "" if self.user else "none"  # which always works
        self.kind = next((kind for kind in kinds if kind == needed or self._works(kind)), None)
        if self.kind is None:
            raise GradingError(
                f"{user} cannot run {sys.executable}, or cannot read {scratch}: the environment of "
                "the book has to be where everybody may read it (/srv, /opt), and so has its Python"
            )

    def _works(self, kind):
        self.kind, home = kind, self._home()
        program = [sys.executable, "-c", "import numpy"]
        try:
            with self._protected(home, program, self.library) as (command, more):
                done = subprocess.run(command, capture_output=True, timeout=120, **more)
            return not done.returncode
        except (OSError, subprocess.SubprocessError):
            return False
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _home(self):
        home = Path(tempfile.mkdtemp(dir=self.scratch, prefix="home-"))
        if self.user:
            os.chown(home, self.user["user"], self.user["group"])
        return home

    def start(self, chapters: list[str]) -> "Student":
        """A fresh student's process, in a fresh home, with stand-ins for the checks of chapters.

        Without chapters it has the checks themselves.
        """
        home = self._home()
        library = self.library if chapters else self.with_checks
        ours, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str(MEMORY), *chapters]
        program = [sys.executable, "-m", "authoring.grading.student", *arguments]
        with theirs, self._protected(home, program, library, theirs.fileno()) as (command, more):
            process = subprocess.Popen(
                command,
                cwd=home,
                env=self._environment(home, library),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                **more,
            )
        return Student(process, ours, home)

    @contextlib.contextmanager
    def _protected(self, home, program, library, *inherited):
        """The command that runs a program with the protection, and what ``Popen`` needs for it."""
        handed, started = [], {"preexec_fn": kernel.begin} if kernel.ON_LINUX else {}

        def hand(content):
            handed.append(kernel.handed(content))
            return str(handed[-1])

        try:
            command = self._around(home, program, library, hand)
            yield command, {**self.user, **started, "pass_fds": [*inherited, *handed]}
        finally:
            for number in handed:
                os.close(number)

    def _environment(self, home, library):
        return {
            **ONE_THREAD,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
            "PYTHONPATH": str(library),
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "TQDM_DISABLE": "1",
            "PIP_RETRIES": "0",  # there is no network, and asking again takes a cell's time
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TMPDIR": str(home),
            "IPYTHONDIR": str(home / ".ipython"),
            "MPLCONFIGDIR": str(home / ".matplotlib"),
        }

    def _around(self, home, program, library, hand):
        """The command that runs a program; ``hand`` gives a file's number for a content."""
        limited = [_program("prlimit"), f"--nproc={PROCESSES}", "--", *program]
        if self.kind == "unshare":
            apart = ["--user", "--map-root-user", "--net", "--pid", "--ipc", "--uts", "--fork"]
            return [_program("unshare"), *apart, "--mount-proc", "--kill-child", *limited]
        if self.kind == "bubblewrap":
            seen = {"/usr", "/lib", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache"}
            seen |= {"/etc/fonts", sys.prefix, sys.base_prefix, str(library)}
            seen |= {str(Path(sys.executable).resolve().parent.parent)}
            binds = [part for path in sorted(seen) for part in ("--ro-bind-try", path, path)]
            in_memory = ["--size", str(DISK), "--tmpfs"]
            system = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
            options = [
                *["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"],
                *["--hostname", "student", *system],
                *[*in_memory, "/tmp", *in_memory, "/dev/shm", *binds],
                *[*in_memory, str(home), "--remount-ro", "/dev", "--remount-ro", "/"],
                *["--chdir", str(home)],
            ]
            refused = kernel.call_filter()
            if refused:
                options += ["--seccomp", hand(refused)]
            told = "\0".join([*options, ""]).encode()  # in a file: its process shows its command
            return [_program("bwrap"), "--args", hand(told), "--", *limited]
        return program


def _program(name):
    """Where a program lies for us; the student's process has a search path of its own."""
    return shutil.which(name) or name


class Student:
    """A student's process that runs."""

    def __init__(self, process: subprocess.Popen, link: socket.socket, home: Path):
        self.process, self.link, self.home = process, link, home

    def seconds_without_processor(self) -> float:
        """How long it and we were ready to compute, and others did (Linux; elsewhere 0).

        What its own other processes and threads computed meanwhile is not what others did.
        """
        inner = self._inner_process()
        own = sum(map(_computed, self._all())) - _scheduled(inner, 0)
        return _scheduled(inner, 1) + _scheduled(os.getpid(), 1) - max(0.0, own)

    def memory(self) -> int:
        """The bytes that it and all that it started hold (Linux; elsewhere 0)."""
        processes = self._all()
        held = sum(map(_resident, processes))
        return held if held < MEMORY else sum(map(_proportional, processes))

    def _all(self):
        """The numbers of its process and of all below it."""
        found, waiting = [], [self.process.pid]
        while waiting:
            found.append(waiting.pop())
            for children in Path(f"/proc/{found[-1]}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    waiting += map(int, children.read_text().split())
        return found

    def _inner_process(self):
        """The number of the process inside of what protects it."""
        number = self.process.pid
        for _ in range(3):
            try:
                command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
                if command[1:3] == PROGRAM:
                    break
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


def _scheduled(process, which):
    """Of a process' first thread, the seconds that it computed (0) or waited for that (1)."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[which]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _computed(process):
    """The seconds that a process computed, with those of its own that have ended."""
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, told[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def _resident(process):
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGESIZE"
        )
    except (OSError, IndexError, ValueError):
        return 0


def _proportional(process):
    """The bytes of a process, what it shares with others divided among them."""
    try:
        told = Path(f"/proc/{process}/smaps_rollup").read_text()
        return 1024 * int(told.partition("\nPss:")[2].split()[0])
    except (OSError, IndexError, ValueError):
        return _resident(process)


def make_library(folder: Path, without: tuple[str, ...] = ()) -> None:
    """The library, the book's modules and ours as students' code finds them, compiled as here."""
    for name in ("minitorch", "textbook", "authoring/grading"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*without))
    (folder / "authoring" / "__init__.py").touch()
