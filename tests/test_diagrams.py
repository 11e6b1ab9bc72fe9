"""Schematic drawings name what they show; coloured text says it in words, too."""

import pytest
from matplotlib.colors import to_rgb

import minitorch as mt
from textbook.diagrams import (
    blocks,
    cells,
    cross_attention,
    heads,
    masks,
    positions,
    pretraining,
    transformer,
)
from textbook.lab import colored_text, report
from textbook.plot import COLORS, subplots


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


def test_the_layer_has_three_heads_and_names_every_shape():
    _, axes = subplots()
    heads.layer(axes)
    written = [label.get_text() for label in axes.texts]
    shapes = {shape: written.count(shape) for shape in ("(n, d)", "(n, n)", "(n, d/h)", "(d, d)")}
    assert shapes == {"(n, d)": 3, "(n, n)": 3, "(n, d/h)": 6, "(d, d)": 1}
    assert {f"${made}_{head}$" for made in ("XQ", "A", "O") for head in (1, 2, 3)} <= {*written}


def test_a_line_leads_from_each_key_to_each_query_that_gives_it_weight():
    _, axes = subplots()
    weights = mt.tensor([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    cross_attention.connections(axes, weights, ["drei", "und"], ["ninety", "and", "three"])
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths == pytest.approx([4.3, 1.1, 1.5, 2.3])


def test_one_step_says_its_scores_and_weights():
    _, axes = subplots()
    cross_attention.one_step(axes, ["ninety", "three"], [-0.5, 3.5], [0.018, 0.982], t=3)
    written = {label.get_text() for label in axes.texts}
    assert {"$h_2$", "-0.50", "3.50", "0.018", "0.982", "$s_3$", "$o_3$"} <= written


def test_each_state_of_the_decoder_looks_back_at_all_states_of_the_encoder():
    _, axes = subplots()
    cross_attention.decoder(axes, ["one", "two"], ["eins", "zwei", "</s>"], mt.ones(3, 2) / 2)
    written = [label.get_text() for label in axes.texts]
    assert len(axes.lines) == 3 * 2 and written.count("eins") == written.count("zwei") == 2
    assert written.count("</s>") == 1 and written[-1] == "</s>" and "$s_{3}$" in written


@pytest.mark.parametrize("writing, unknown", [(False, 0), (True, 5)])
def test_in_writing_only_the_first_input_is_known(writing, unknown):
    _, axes = subplots()
    masks.shifted(axes, ["be", "water", "my"], writing)
    written = [label.get_text() for label in axes.texts]
    assert written.count("?") == unknown and written.count("be") == 1


def test_each_sentence_and_head_has_its_own_mask():
    _, axes = subplots()
    allowed = mt.ones(2, 3, 4, 5).tril().bool()
    masks.grid(axes, allowed, ["one", "two"], "causal")
    blue = [patch for patch in axes.patches if patch.get_facecolor()[:3] == to_rgb(COLORS[0])]
    assert (len(blue), len(axes.patches)) == (6 * 10, 6 * 20)
    assert {"one", "two", "head 1", "head 3"} <= {label.get_text() for label in axes.texts}


def test_an_arrow_leads_from_each_word_of_a_tree_to_its_head():
    _, axes = subplots()
    positions.tree(axes, ["the", "dogs", "bark"], [1, 2, None], lit=1)
    tips = [label.xy[0] for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert [round(tip, 6) for tip in tips] == [1, 2]
    starts = [line.get_xdata()[0] for line in axes.lines]
    assert [round(start, 6) for start in starts] == [0, 1]


def test_a_block_has_a_skip_path_to_each_sum():
    _, axes = subplots()
    blocks.line(axes, ["norm", "attention", "+", "norm", "network", "+"])
    written = [label.get_text() for label in axes.texts]
    assert written.count("skip path") == written.count("+") == len(axes.lines) == 2


def test_padding_is_hatched_and_shares_batch_norms_column_only():
    _, axes = subplots()
    blocks.shared_means(axes, real=(3, 2), longest=4, features=6)
    assert sum(cell.get_hatch() is not None for cell in axes.patches) == (1 + 2) * 6
    colors = [cell.get_facecolor()[:3] for cell in axes.patches]
    assert sorted(colors.count(color) for color in set(colors)) == [6, 7, 35]


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
