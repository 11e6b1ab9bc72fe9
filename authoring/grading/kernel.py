"""What a process asks of Linux before it runs a student's code: no keyring of others, fewer calls.

Elsewhere all of this does nothing.
"""

import contextlib
import ctypes
import os
import platform
import signal
import struct
import sys

ON_LINUX = sys.platform == "linux"
DIE_WITH_PARENT, NO_NEW_RIGHTS, FILTER, NEW_SESSION = 1, 38, 22, 1  # of prctl and keyctl
ALLOWED, REFUSED = 0x7FFF0000, 0x00050000  # what a filter answers; an error's number is added
NOT_PERMITTED, NO_SUCH_CALL, NO_SUCH_FAMILY = 1, 38, 97
LOAD, EQUAL, AT_LEAST, HAS, ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of a filter
CALL, MACHINE, FIRST_ARGUMENT = 0, 4, 16  # where a filter finds them
NEW_USER_NAMESPACE, OTHER_FORM = 0x10000000, 0x40000000
FAMILIES = (1, 2, 10, 16)  # of sockets: on this machine, IPv4, IPv6 and netlink
# By machine: its number, then those of keyctl, socket, clone, unshare and of what else is refused:
# keys, other processes' memory, mounts, namespaces, and parts of the kernel that Python never uses.
MACHINES = {
    "x86_64": (0xC000003E, 250, 41, 56, 272)
    + ((248, 249, 101, 310, 311, 155, 165, 166, 308, 298, 312, 321, 323),),
    "aarch64": (0xC00000B7, 219, 198, 220, 97)
    + ((217, 218, 117, 270, 271, 41, 40, 39, 268, 241, 272, 280, 282),),
}
EVERYWHERE = (
    425,
    426,
    427,
    428,
    429,
    430,
    431,
    432,
    433,
    438,
    442,
)  # io_uring, mounts, others' files
NEW_CLONE = 435


def _libc():
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent(how: int = signal.SIGTERM) -> None:
    """Get this signal when the process that started this one ends, however that comes."""
    if ON_LINUX:
        _libc().prctl(DIE_WITH_PARENT, int(how), 0, 0, 0)


def begin() -> None:
    """What a process does before it becomes a student's: end with us, and share no keyring."""
    die_with_parent(signal.SIGKILL)
    if ON_LINUX and platform.machine() in MACHINES:
        _libc().syscall(MACHINES[platform.machine()][1], NEW_SESSION, None)


def limit_memory(size: int, more: bool = False) -> None:
    """So many bytes of addresses for this process, and no picture of its memory when it breaks.

    With ``more`` so many beside those that it has, and what it starts may take as many as before.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows; less is allowed already
        import resource

        largest = size
        if more:
            with open("/proc/self/statm", encoding="ascii") as file:
                size += int(file.read().split()[0]) * resource.getpagesize()
            largest = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (size, largest))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def call_filter() -> bytes:
    """The program, for the kernel, that refuses system calls; empty on an unknown machine."""
    if not ON_LINUX or platform.machine() not in MACHINES:
        return b""
    machine, keyctl, socket, clone, unshare, more = MACHINES[platform.machine()]

    def answer(number):
        return [(ANSWER, 0, 0, number)]

    def where(test, number, then):
        return [(test, 0, len(then), number), *then]

    def refuse(error):
        return answer(REFUSED + error)

    families = [step for family in FAMILIES for step in where(EQUAL, family, answer(ALLOWED))]
    user = where(HAS, NEW_USER_NAMESPACE, refuse(NOT_PERMITTED))
    argument = [(LOAD, 0, 0, FIRST_ARGUMENT)]
    program = [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, machine), *refuse(NO_SUCH_CALL)]
    program += [(LOAD, 0, 0, CALL), *where(AT_LEAST, OTHER_FORM, refuse(NO_SUCH_CALL))]
    for number in (keyctl, *more, *EVERYWHERE):
        program += where(EQUAL, number, refuse(NOT_PERMITTED))
    program += where(EQUAL, NEW_CLONE, refuse(NO_SUCH_CALL))  # then libc takes the older one
    program += where(EQUAL, socket, [*argument, *families, *refuse(NO_SUCH_FAMILY)])
    for number in (clone, unshare):
        program += where(EQUAL, number, [*argument, *user, *answer(ALLOWED)])
    program += answer(ALLOWED)
    return b"".join(struct.pack("HBBI", *step) for step in program)


def refuse_calls() -> bool:
    """Let the filter hold for this process and all that it starts; whether it does."""
    program = call_filter()
    if not program:
        return False
    held = ctypes.create_string_buffer(program, len(program))
    told = struct.pack("HP", len(program) // 8, ctypes.addressof(held))
    libc = _libc()
    libc.prctl(NO_NEW_RIGHTS, 1, 0, 0, 0)
    return libc.prctl(FILTER, 2, ctypes.create_string_buffer(told, len(told)), 0, 0) == 0


def handed(content: bytes) -> int:
    """A file descriptor from which a program reads this content."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(content)  # what a pipe holds: 64 KiB
    return reading
