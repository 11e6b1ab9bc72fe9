"""Schematic drawings name what they show; coloured text says it in words, too."""

import pytest

from textbook.diagrams import cells, transformer
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


def test_a_transformer_has_three_parts_in_the_decoder_and_reads_the_memory():
    _, axes = subplots()
    transformer.encoder_decoder(axes)
    written = [label.get_text() for label in axes.texts]
    assert written.count("+") == written.count("norm (09)") == 5
    assert sum("self-attention" in label for label in written) == 2
    assert sum("cross-attention" in label for label in written) == 1
    assert "memory" in written and "next token" in written


def test_three_shapes_differ_in_their_masks():
    _, axes = subplots()
    transformer.shapes(axes)
    written = [label.get_text() for label in axes.texts]
    assert sum("causal mask" in label for label in written) == 2
    assert sum("no mask" in label for label in written) == 2


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
