"""How the tests run together: which come first, which are left out, and that none is lost."""

import re
from collections import Counter
from types import SimpleNamespace

import pytest

from tests import session

# How many tests `python book.py test` runs of each kind, roughly: add yours when it fails.
NUMBERS = {
    "chapters": 1000,
    "solutions of the sets": 380,
    "checks of exercises": 1780,
    "library": 2990,
    "library, as on a GPU": 2960,
    "programs for PyTorch": 19,
    "grading": 320,
    "tools, data, pages": 1640,
}
pytest_plugins = ["pytester"]


def is_whole(config):
    """Whether nothing was chosen and nothing left out, as in `python book.py test`."""
    choices = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "device", "all", "lf")
    chosen = config.args_source is not config.ArgsSource.TESTPATHS
    return not chosen and not any(getattr(config.option, name, None) for name in choices)


def test_no_kind_of_test_has_lost_some(request):
    if not is_whole(request.config):
        pytest.skip("counts the tests of a whole run")
    found = Counter(session.kind_of(item.nodeid) for item in request.session.items)
    assert found.keys() == NUMBERS.keys()
    for kind, number in NUMBERS.items():
        assert 0.95 * number < found[kind] < 1.2 * number, (
            f"{found[kind]} tests of the kind {kind!r}, and about {number} are known: if that is "
            "as it should be, write the new number into NUMBERS"
        )


@pytest.mark.parametrize(
    ("nodeid", "kind"),
    [
        ("notebooks/00_x.ipynb::Cell 3", "chapters"),
        ("tests/library/test_gradients.py::test_many_shapes[cuda-add]", "library, as on a GPU"),
        ("tests/library/test_devices.py::test_x[1-cuda]", "library, as on a GPU"),
        ("tests/library/test_devices.py::test_x[cpu-cudas]", "library"),
        ("tests/checks/test_chapter_00.py::test_checks[Value-named]", "checks of exercises"),
    ],
)
def test_kinds_are_told_apart(nodeid, kind):
    assert session.kind_of(nodeid) == kind


class Worker:
    """One that notes which tests it is given."""

    def __init__(self):
        self.gateway, self.shutting_down, self.given = SimpleNamespace(id=""), False, []

    def send_runtest_some(self, indices):
        self.given += indices

    def shutdown(self):
        self.shutting_down = True


def test_a_worker_waits_the_others_compute_and_nobody_is_idle():
    files = ["tests/test_data.py", "notebooks/00.ipynb", "notebooks/01.ipynb"]
    files += ["tests/test_grading.py", "tests/test_grading_workers.py", "tests/test_lab.py"]
    tests = [f"{file}::test_{i}" for file in files for i in range(4)]
    config = SimpleNamespace(
        getvalue={"tx": ["3*popen"], "dist": "loadfile"}.get,
        option=SimpleNamespace(loadscopereorder=True),
    )
    queue = session.pytest_xdist_make_scheduler(config, None)
    workers = [Worker() for _ in range(3)]
    for worker in workers:
        queue.add_node(worker)
        queue.add_node_collection(worker, tests)
    queue.schedule()
    for turn in range(12):
        for worker in workers:
            if turn < len(worker.given):
                queue.mark_test_complete(worker, worker.given[turn])
    assert not queue.has_pending
    assert sorted(sum((worker.given for worker in workers), [])) == list(range(24))
    given = [list(dict.fromkeys(files[i // 4] for i in worker.given)) for worker in workers]
    assert given[0] == ["tests/test_grading.py", "tests/test_grading_workers.py"]
    assert given[1:] == [
        ["notebooks/00.ipynb", "tests/test_data.py"],
        ["notebooks/01.ipynb", "tests/test_lab.py"],
    ]


def test_what_is_thorough_is_left_to_all(pytester):
    pytester.makeconftest("pytest_plugins = ['tests.session']")
    pytester.makepyfile(
        "import pytest\ndef test_quick(): pass\n@pytest.mark.thorough\ndef test_slow(): pass\n"
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1, deselected=1)
    done = pytester.runpytest_inprocess("--all")
    done.assert_outcomes(passed=2)
    assert re.search(r" s +2 tests  others", str(done.stdout))
