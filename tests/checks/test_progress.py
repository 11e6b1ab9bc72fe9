"""The line at the top of a set: which exercises pass, kept in the student's copy and only there."""

import shutil
from types import SimpleNamespace

import pytest

from textbook.checks import CheckFailed, chapter_05, chapter_07, progress


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with one set, and the student's copy as the current folder."""
    given = progress.BOOK / "exercises/07_masking/07_masking.ipynb"
    for folder in (tmp_path / "exercises/07_masking", tmp_path / "my/exercises/07_masking"):
        folder.mkdir(parents=True)
        shutil.copy(given, folder)
    (tmp_path / "my" / progress.GIVEN_OUT).write_text("{}")
    monkeypatch.setattr(progress, "BOOK", tmp_path)
    monkeypatch.setattr(progress, "_shown", None)
    monkeypatch.chdir(tmp_path / "my/exercises/07_masking")
    return tmp_path


def run(text, success=True):
    """What IPython says after a cell has run."""
    progress.after_cell(SimpleNamespace(info=SimpleNamespace(raw_cell=text), success=success))


def blank(*arguments):
    raise NotImplementedError


def worth(name):
    """The number of the exercise and its points."""
    return progress._checks("07")[name]


def points_said():
    said, of, total, _ = progress.line("07").split()[-4:]
    assert of == "of" and int(total) == sum(points for _, points in progress._checks("07").values())
    return int(said)


def test_a_check_that_passes_counts_and_one_that_fails_again_does_not(book, capsys):
    check = chapter_07.chunk_mask
    exercise, points = worth("chunk_mask")
    assert points_said() == 0 and f"{exercise} –" in progress.line("07")
    check(check.reference)
    assert points_said() == points > 0 and f"{exercise} ✓" in progress.line("07")
    with pytest.raises(CheckFailed):
        check(blank)
    assert points_said() == 0 and f"{exercise} –" in progress.line("07")


def test_hidden_checks_and_other_folders_keep_nothing(book, monkeypatch, capsys):
    check = chapter_07.chunk_mask
    check(check.reference, hidden=True)
    monkeypatch.chdir(book / "exercises")
    check(check.reference)
    capsys.readouterr()
    progress.show("07")
    assert capsys.readouterr().out == ""
    assert list((book / "my").rglob(".progress.json")) == []


def test_a_file_that_cannot_be_read_is_begun_anew(book):
    (book / "my/.progress.json").write_text("{", encoding="utf-8")
    check = chapter_07.chunk_mask
    check(check.reference)
    assert points_said() == worth("chunk_mask")[1]


def test_in_a_notebook_the_line_is_shown_and_brought_up_to_date(book, monkeypatch):
    shown = []
    display = pytest.importorskip("IPython.display")
    monkeypatch.setattr(display, "display", lambda text, **how: shown.append((text, how)))
    progress.show("07")
    chapter_07.chunk_mask(chapter_07.chunk_mask.reference)
    assert [how["update"] for _, how in shown] == [False, True]
    assert len({how["display_id"] for _, how in shown}) == 1
    assert [text["text/plain"] for text, _ in shown][1] == progress.line("07")


def test_a_check_that_is_no_exercise_counts_by_its_cell(book):
    progress.show("07")
    exercise, points = worth("nats_leaked")
    run("check.nats_leaked(nats_leaked)", success=False)
    assert points_said() == 0
    run("check.nats_leaked(nats_leaked)")
    assert points_said() == points > 0 and f"{exercise} ✓" in progress.line("07")


def test_the_cell_of_an_exercise_that_passed_may_fail_later(book):
    progress.show("07")
    chapter_07.chunk_mask(chapter_07.chunk_mask.reference)
    run("check.chunk_mask(chunk_mask)\n1 / 0", success=False)
    assert points_said() == worth("chunk_mask")[1]


def test_parts_of_other_sets_count_where_they_are_put_together(book):
    given = progress.Path(__file__).parents[2] / "exercises/10_transformer"
    shutil.copytree(given, book / "exercises/10_transformer")
    progress.show("10")
    chapter_05.attention(chapter_05.attention.reference)
    run("chapter_05.attention(attention)")
    assert progress.line("10").split()[-4:] == ["1", "of", "44", "points"]
    assert points_said() == 0
    assert list(progress._kept()) == ["10"]


def test_every_check_with_points_is_counted_once():
    for path in sorted((progress.BOOK / "exercises").glob("[0-9]*/[0-9]*.ipynb")):
        cells = progress.json.loads(path.read_text(encoding="utf-8"))
        points = [c["metadata"].get("nbgrader", {}).get("points", 0) for c in cells["cells"]]
        counted = progress._checks(path.name[:2]).values()
        assert sum(worth for _, worth in counted) == sum(points) > 0
