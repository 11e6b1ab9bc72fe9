"""How the tests run beside each other, which are left to ``--all``, and what is told at the end.

A worker runs whole files: one takes first those that mostly wait, the others those that compute,
the longest first. So there is a worker more than processors, and none of them is ever idle.
"""

import re
from collections import Counter

import pytest

try:
    from xdist.scheduler import LoadFileScheduling
except ImportError:  # a copy of the book whose tests run one after the other
    LoadFileScheduling = object

WAITING = re.compile(r"tests/test_(grading|book_commands|notebooks_compare|authoring_build)")
LONG = re.compile(r"(notebooks|solutions)/|tests/(test_release|test_site|checks/)")

KINDS = {
    "chapters": r"notebooks/",
    "solutions of the sets": r"solutions/",
    "checks of exercises": r"tests/checks/",
    "library, as on a GPU": r"tests/library/.*[\[-]cuda\b",
    "library": r"tests/library/",
    "programs for PyTorch": r"tests/programs/",
    "grading": r"tests/test_grading",
    "tools, data, pages": r"tests/test_",
}


def kind_of(nodeid):
    """What a test is about."""
    return next((kind for kind, form in KINDS.items() if re.match(form, nodeid)), "others")


def pytest_addoption(parser):
    parser.addoption(
        "--all", action="store_true", help="run what takes long and rarely finds more, too"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "thorough: runs with --all alone; a few like it always run")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times())


def pytest_collection_modifyitems(config, items):
    if not config.getoption("all"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


class Files(LoadFileScheduling):
    """Gives each worker, when it comes free, the next file for it."""

    def _assign_work_unit(self, node):
        waits = node is self.nodes[0]

        def place(file):
            return bool(WAITING.match(file)) != waits, not LONG.match(file)

        self.workqueue.move_to_end(min(self.workqueue, key=place), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") == "loadfile":
        config.option.loadscopereorder = False  # files with many tests are not the longest
        return Files(config, log)


class Times:
    """Adds up how many tests there are of each kind, and how long they take."""

    def __init__(self):
        self.tests, self.seconds = Counter(), Counter()

    def pytest_runtest_logreport(self, report):
        kind = kind_of(report.nodeid)
        self.tests[kind] += report.when == "call" or report.skipped
        self.seconds[kind] += report.duration

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("time of each kind, all workers together")
        for kind, seconds in self.seconds.most_common():
            terminalreporter.write_line(f"{seconds:7.1f} s  {self.tests[kind]:5} tests  {kind}")
