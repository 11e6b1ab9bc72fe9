"""Grading on other machines, through Dask's scheduler.

``results_of`` has the interface of ``workers.results_of``. On a worker each thread starts a desk
in a process of its own (``main``), which forks one for each submission as the local grader does.
What goes there and comes back is JSON.
"""

import base64
import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import asdict
from pathlib import Path

import nbformat

from authoring.grading.desk import Job, Task, code, opened
from authoring.grading.isolation import ONE_THREAD, ROOT, GradingError
from authoring.grading.table import content_hash
from authoring.grading.workers import results_of as forked

AHEAD = 2  # tasks that wait on the scheduler, for each thread of a worker
mine = threading.local()


# The instructor's side


def results_of(
    address: str, job: Job, things: Iterable, task_of: Callable[..., Task], say
) -> Iterator[tuple[object, dict | None]]:
    """Each thing with what its task's desk told, in the order in which they are done.

    None stands for a task whose process ended. A worker that is lost loses nothing: the scheduler
    gives its tasks to others.
    """
    from distributed import Client, KilledWorker, as_completed

    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise GradingError(f"no Dask scheduler answers at {address} ({error})") from None
    waiting, running, seen = iter(things), {}, set()
    order = json.dumps(_order(job))
    done = as_completed(loop=client.loop)

    def hand_out():
        while len(running) < max(1, AHEAD * sum(client.nthreads().values())):
            thing = next(waiting, None)
            if thing is None:
                return
            future = client.submit(grade_there, order, _sent(task_of(thing)), pure=False)
            running[future.key] = thing
            done.add(future)

    try:
        if not client.nthreads():
            say(f"no worker yet: {address} waits for one")
        hand_out()
        for future in done:
            thing, answer = running.pop(future.key), {"told": None}
            if future.status == "finished":
                answer = json.loads(future.result())
                if answer["desk"] not in seen:
                    seen.add(answer["desk"])
                    for line in answer["said"]:
                        say(f"{answer['desk']}: {line}")
                if answer["refused"]:
                    raise GradingError(f"{answer['desk']}: {answer['refused']}")
            elif future.status != "error":
                raise CancelledError(future.status)
            elif not isinstance(future.exception(), KilledWorker):
                raise GradingError(f"a worker failed: {future.exception()!r:.200}")
            hand_out()
            yield thing, answer["told"]
    except (OSError, CancelledError) as error:
        raise GradingError(f"the scheduler is lost ({error!r:.100}): --resume goes on") from None
    finally:
        client.close(timeout=5)


def _order(job: Job) -> dict:
    """A job as a worker gets it: its sets by name, with what says that the worker's are equal."""
    return {
        "sets": {name: _hash(source) for name, source in job.sets.items()},
        "seed": job.seed,
        "seconds": job.seconds,
        "strict": job.strict,
        "user": job.user,
        "code": code(),
    }


def _hash(source):
    return content_hash(json.dumps(source, sort_keys=True))


def _sent(task: Task) -> str:
    content = task.content and base64.b64encode(task.content).decode()
    return json.dumps({**asdict(task), "content": content})


# The worker's side


def grade_there(order: str, task: str) -> str:
    """Give a task to the desk of this thread, which is started with its first one."""
    desk = getattr(mine, "desk", None)
    if desk is None or desk.order != order or desk.process.poll() is not None:
        if desk is not None:
            desk.close()
        desk = mine.desk = _Line(order)
    told = None if desk.refused else desk.ask(task)
    answer = {"desk": desk.name, "said": desk.said, "refused": desk.refused, "told": told}
    return json.dumps(answer)


class _Line:
    """A desk in a process of its own, to which we talk in lines of JSON."""

    def __init__(self, order: str):
        self.order = order
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.name = f"{platform.node()}, process {self.process.pid}"
        told = self.ask(order) or {"said": [], "refused": "the grader's process ended"}
        self.said, self.refused = told["said"], told["refused"]

    def ask(self, line: str) -> dict | None:
        """Its answer, None if it ended."""
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    """The desk's process: the first line is its order, each other one a task."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything prints is no answer

    def answer(told):
        print(json.dumps(told), file=answers, flush=True)

    lines, said = sys.stdin.buffer, []
    with contextlib.ExitStack() as stack:
        try:
            order = _job(json.loads(lines.readline()))
            desk = stack.enter_context(opened(order, said.append))
        except Exception as error:  # whatever this machine lacks, the instructor is told
            return answer({"said": said, "refused": f"{type(error).__name__}: {error}"})
        answer({"said": said, "refused": None})
        for line in lines:
            [(_, told)] = forked([json.loads(line)], _grade(desk), 1, desk.limit)
            answer(told)


def _job(order: dict) -> Job:
    """The job of an order, with this machine's sets."""
    sets = {}
    for name in order["sets"]:
        path = Path(ROOT, "solutions", name, f"{name}.ipynb")
        if path.exists():
            sets[name] = nbformat.read(path, as_version=4)
    same = {name: _hash(source) for name, source in sets.items()} == order["sets"]
    if not same or order["code"] != code():
        raise GradingError("the book in this worker's folder is another version")
    return Job(sets, order["seed"], tuple(order["seconds"]), order["strict"], order["user"])


def _grade(desk):
    def grade(sent):
        content = sent["content"] if sent["content"] is None else base64.b64decode(sent["content"])
        return desk.grade(Task(**{**sent, "content": content}))

    return grade


if __name__ == "__main__":
    main()
