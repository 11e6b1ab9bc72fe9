"""The source of the standard library as text."""

import sysconfig

import pytest

from textbook.data import library_source


def test_it_is_long_plain_and_the_same_each_time():
    training, aside = library_source()
    assert training.isascii() and aside.isascii()
    assert len(training) > 3_000_000 and 0.05 < len(aside) / len(training) < 0.2
    assert "\n " not in training
    assert (training, aside) == library_source()


def test_a_file_is_on_one_side_only(tmp_path, monkeypatch):
    for i in range(120):
        (tmp_path / f"module_{i:03}.py").write_text(f"def name_{i}():\n    return {i}\n")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "hidden.py").write_text("left_out = True\n")
    (tmp_path / "table.py").write_text("data = '" + 300 * "x" + "'\n")
    (tmp_path / "accents.py").write_text("name = 'é'\n", encoding="utf-8")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: tmp_path)
    training, aside = library_source()
    names = [set(text.split("\n")) for text in (training, aside)]
    assert not names[0] & names[1]
    assert "def name_5():" in aside and "def name_6():" in training
    assert "left_out" not in training + aside and "xxx" not in training + aside
    assert "\nreturn 6" in training


def test_a_python_without_its_source_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: tmp_path)
    with pytest.raises(FileNotFoundError, match="without the source"):
        library_source()
