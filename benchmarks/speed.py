"""How fast minitorch is, next to PyTorch: ``python benchmarks/speed.py --help``.

Each work of works.py runs in two processes, one a library, which take turns: while one computes
the other waits. A turn's time divided by the other library's in the same round is one ratio; the
table gives the median of the ratios and their quartiles.
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from works import WORKS

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
from book import ONE_THREAD  # noqa: E402

LIBRARIES = ("minitorch", "torch")

IMPORT = """
import time, numpy
start = time.perf_counter()
import {library}
print(time.perf_counter() - start)
"""


def peak_memory():
    """The most memory that this process has held at once, in MiB; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def serve(library, name, device):
    """Do one work with one library: for each line on stdin, one turn; print its figures."""
    torch = importlib.import_module(library)
    torch.manual_seed(0)
    work = WORKS[name][0](torch, device)

    def seconds(runs):
        start = time.perf_counter()
        for _ in range(runs):
            work()
        if device != "cpu":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / runs

    seconds(3)
    runs = max(1, round(0.2 / seconds(3)))
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        print(json.dumps([seconds(runs), peak_memory()]), flush=True)


def environment(threads):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | dict.fromkeys(ONE_THREAD, str(threads)) | {"PYTHONPATH": path}


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else 3 * values


def figures(pairs):
    """The ratio's quartiles, and the median seconds of each library, of pairs of seconds."""
    ours, theirs = zip(*pairs, strict=True)
    return {
        "ratio": quartiles([a / b for a, b in pairs]),
        "minitorch": statistics.median(ours),
        "torch": statistics.median(theirs),
    }


def measure(name, threads, rounds, device, pythons, versions):
    """The figures of one work: ``rounds`` turns of each library, in alternating order."""
    workers = {}
    for library in LIBRARIES:
        command = [pythons[library], __file__, "--serve", library, name, device]
        workers[library] = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(threads),
        )
        versions[library] = workers[library].stdout.readline().strip()
        if not versions[library]:
            raise SystemExit(f"{name} with {library} failed")

    def turn(library):
        workers[library].stdin.write("\n")
        workers[library].stdin.flush()
        return json.loads(workers[library].stdout.readline())

    turns = []
    for i in range(rounds):
        order = LIBRARIES if i % 2 else LIBRARIES[::-1]
        results = {library: turn(library) for library in order}
        turns.append([results[library] for library in LIBRARIES])
    for worker in workers.values():
        worker.communicate()
    memory = [result[1] for result in turns[-1]]
    result = {"work": name, "threads": threads, **figures([[a[0], b[0]] for a, b in turns])}
    return result if None in memory else result | {"memory": memory}


def measure_imports(rounds, pythons):
    """Seconds that each library takes to import, after NumPy."""
    pairs = [
        [
            float(
                subprocess.check_output(
                    [pythons[library], "-c", IMPORT.format(library=library)], env=environment(1)
                )
            )
            for library in LIBRARIES
        ]
        for _ in range(rounds)
    ]
    return {"work": "import", "threads": 1, **figures(pairs)}


def processor():
    """The processor's name, without that of the machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def row(result):
    first, middle, third = result["ratio"]
    aim = WORKS.get(result["work"], (None, None))[1]
    memory = " / ".join(f"{m:.0f}" for m in result["memory"]) if "memory" in result else ""
    cells = [
        result["work"],
        result["threads"],
        f"{result['minitorch'] * 1e3:.2f}",
        f"{result['torch'] * 1e3:.2f}",
        f"**{middle:.2f}** ({first:.2f} to {third:.2f})",
        "" if aim is None else aim,
        memory,
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = """\
| work | threads | minitorch, ms | PyTorch, ms | ratio (quartiles) | aim | peak memory, MiB |
| --- | --- | --- | --- | --- | --- | --- |"""


def main():
    listing = "\n".join(f"  {name:15}{make.__doc__}" for name, (make, _) in WORKS.items())
    parser = argparse.ArgumentParser(
        description="Time minitorch against PyTorch. The works:\n" + listing,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("works", nargs="*", default=[*WORKS, "import"], help="default: all")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--python-torch", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(*options.serve)
    pythons = {"minitorch": sys.executable, "torch": options.python_torch}
    versions, results = {}, []
    print(HEAD, flush=True)
    for name in options.works:
        for threads in options.threads if name != "import" else [1]:
            if name == "import":
                result = measure_imports(options.rounds, pythons)
            else:
                result = measure(name, threads, options.rounds, options.device, pythons, versions)
            results.append(result)
            print(row(result), flush=True)
    machine = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "device": options.device,
        **versions,
    }
    print("\n" + ", ".join(f"{key} {value}" for key, value in machine.items()))
    if options.json:
        Path(options.json).write_text(
            json.dumps({"machine": machine, "results": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
