"""Schematic drawings name what they show; coloured text says it in words, too."""

import pytest

from textbook.diagrams import cells, pretraining
from textbook.lab import colored_text, report
from textbook.plot import subplots


@pytest.mark.parametrize(
    "draw, names",
    [
        (cells.lstm, {"forget gate", "input gate", "candidate", "output gate", "$c_{t-1}$"}),
        (cells.gru, {"reset gate", "candidate", "update gate", "$h_{t-1}$"}),
    ],
)
def test_a_cell_names_its_gates_and_stands_between_its_neighbours(draw, names):
    _, axes = subplots()
    draw(axes)
    written = [label.get_text() for label in axes.texts]
    assert names <= {line for label in written for line in label.split("\n")}
    assert sum("the same" in label for label in written) == 2


def test_a_decoder_looks_left_and_a_blank_to_both_sides():
    words = ["a", "b", "c"]
    for asked, looks, lines in (
        (["b", "c", "d"], lambda i, j: j <= i, 6),
        ([None, "b", None], lambda i, j: True, 3),
    ):
        _, axes = subplots()
        pretraining.family(axes, words, asked, looks, "a family")
        assert len(axes.lines) == lines
        answers = [answer for answer in asked if answer]
        assert [label.get_text() for label in axes.texts] == [*answers, *words]


def test_a_masked_sentence_asks_at_its_chosen_places_alone():
    _, axes = subplots()
    pretraining.masking(axes, ["one", "two"], ["one", "<mask>"], ["", "hidden"])
    written = [label.get_text() for label in axes.texts]
    assert written.count("two") == 2 and written.count("one") == 2 and "hidden" in written


def test_coloured_text_is_darker_for_larger_values_and_escapes_markup(monkeypatch):
    shown = []
    monkeypatch.setattr(report, "notebook_display", lambda: lambda data, raw: shown.append(data))
    colored_text(["a", "<", " "], [0.1, 2.0, -1.0], ["", "", ".5"], alt='a "small" one')
    markup = shown[0]["text/html"]
    assert [part[:4] for part in markup.split("rgba(86,180,233,")[1:]] == ["0.10", "1.00", "0.00"]
    assert "&lt;" in markup and ">.5</sub>" in markup
    assert 'aria-label="a &quot;small&quot; one"' in markup


def test_coloured_text_is_printed_without_a_notebook(capsys):
    colored_text(["a", "b", " "], [0.1, 0.5, 0.9], ["", "", ".5"], alt="darker and darker")
    assert capsys.readouterr().out == "darker and darker\nab [.5]\n"
