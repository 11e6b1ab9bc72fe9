"""The line at the top of a set: which exercises pass, kept in the student's copy and only there."""

import shutil

import pytest

from textbook.checks import CheckFailed, chapter_07, progress


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with one set, and the student's copy as the current folder."""
    given = progress.BOOK / "exercises/07_masking/07_masking.ipynb"
    for folder in (tmp_path / "exercises/07_masking", tmp_path / "my/exercises/07_masking"):
        folder.mkdir(parents=True)
        shutil.copy(given, folder)
    monkeypatch.setattr(progress, "BOOK", tmp_path)
    monkeypatch.chdir(tmp_path / "my/exercises/07_masking")
    return tmp_path


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


def test_hidden_checks_and_other_folders_keep_nothing(book, monkeypatch):
    check = chapter_07.chunk_mask
    check(check.reference, hidden=True)
    monkeypatch.chdir(book / "exercises")
    check(check.reference)
    progress.show("07")
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
