"""Several submissions at a time, each in a process of its own that is forked for it."""

import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator

from authoring.grading import kernel

MEMORY = 192 * 2**20  # bytes that a process takes beside what it has from its parent


def results_of(
    tasks: Iterable, work: Callable[[object], dict], jobs: int, seconds: float
) -> Iterator[tuple[object, dict | None]]:
    """Each task with what ``work`` makes of it, in the order in which they are done.

    None stands for a process that ended without a result or took more than ``seconds``. Where the
    caller stops, by Ctrl-C for example, those that run are ended.
    """
    if not hasattr(os, "fork"):  # Windows
        for task in tasks:
            yield task, work(task)
        return
    waiting, running = iter(tasks), {}
    try:
        while True:
            while len(running) < jobs:
                task = next(waiting, None)
                if task is None:
                    break
                taken = {worker.place for worker in running.values()}
                place = next(place for place in range(jobs) if place not in taken)
                started = _Worker(task, work, seconds, place if jobs > 1 else None)
                running[started.pipe] = started
            if not running:
                return
            first = min(worker.deadline for worker in running.values())
            ready, _, _ = select.select(running, [], [], max(0, first - time.monotonic()))
            late = [p for p, worker in running.items() if worker.deadline <= time.monotonic()]
            for pipe in {*ready, *late}:
                worker = running[pipe]
                if pipe in late or worker.is_done():
                    del running[pipe]
                    yield worker.task, worker.end()
    finally:
        for worker in running.values():
            worker.end()


class _Worker:
    """A process that works on one task; its result comes through a pipe, as JSON."""

    def __init__(self, task, work, seconds, place):
        self.task, self.text, self.deadline = task, bytearray(), time.monotonic() + seconds
        self.place = place
        sys.stdout.flush()
        self.pipe, theirs = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.pipe)  # else nobody would tell it that the grader has ended
            _work(theirs, work, task, place)
        os.close(theirs)

    def is_done(self):
        """Read what has come; whether that is all."""
        part = os.read(self.pipe, 2**20)
        self.text += part
        return not part

    def end(self):
        """End the process, if it still runs; its result, None without one."""
        os.close(self.pipe)
        os.kill(self.process, signal.SIGTERM)
        for _ in range(100):
            if os.waitpid(self.process, os.WNOHANG)[0]:
                break
            time.sleep(0.05)
        else:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        try:
            return json.loads(self.text)
        except ValueError:
            return None


def _work(pipe, work, task, place):
    """What the forked process does; it never returns."""
    status = 1
    gc.freeze()  # what the parent has is not looked through again
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        kernel.die_with_parent()
        kernel.limit_memory(MEMORY, more=True)
        if place is not None:
            _stay_on_one_processor(place)
        text = json.dumps(work(task)).encode()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # done: now only this has to get through
        with os.fdopen(pipe, "wb") as file:
            file.write(text)
        status = 0
    finally:
        os._exit(status)


def _stay_on_one_processor(place):
    """Grader and student take turns, and each finds what the other wrote in this one's cache."""
    if hasattr(os, "sched_setaffinity"):  # Linux
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[place % len(allowed)]})
