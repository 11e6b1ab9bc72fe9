"""Schematic drawings name what they show; coloured text says it in words, too."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import minitorch as mt
from textbook.data import number_pair
from textbook.diagrams import (
    attention,
    autograd,
    blocks,
    cells,
    cross_attention,
    heads,
    masks,
    mixers,
    positions,
    pretraining,
    race,
    recurrent,
    transformer,
    translation,
    writing,
)
from textbook.lab import colored_text, large, report
from textbook.plot import COLORS, subplots
from textbook.plot.style import plt


@pytest.fixture(autouse=True)
def figures_are_closed():
    yield
    plt.close("all")


VALUES = dict.fromkeys(["x_1", "w_1", "w_2", "x_2", "s_1", "s_2", "s", "b", "a", "h", "-1"], 0.0)


def test_the_graph_of_a_unit_shows_every_slope_and_leads_back_where_it_is_visited():
    _, axes = subplots()
    slopes = {"L": (-0.5, -0.5), "h": (0.75,)}
    values = VALUES | {"L": 1.0, "r": -1.0}
    autograd.unit(axes, values, slopes, grads={"L": 1.0, "r": -2.5}, visited=["L"])
    written = [label.get_text() for label in axes.texts]
    assert [text for text in written if text in ("0.75", "-0.5")] == ["0.75", "-0.5", "-0.5"]
    assert {"$L$:  ×\n1.000\n ", "$r$:  +\n-1.000\n ", "$w_1$\n0.000\n "} <= {*written}
    in_blue = {label.get_text().strip() for label in axes.texts if label.get_color() == COLORS[0]}
    assert in_blue == {"1.000", "-2.500", "0.75", "-0.5"}
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    back = [arrow for arrow in arrows if arrow.xy[0] < arrow.xyann[0]]
    assert len(arrows) == 13 and [arrow.xy for arrow in back] == [(6.5, 2), (6.5, 2)]


def test_a_step_pushes_the_right_word_up_and_all_others_down():
    _, axes = subplots()
    autograd.pushes(axes, ["the", "cat", "sat"], [0.2, 0.1, 0.7], "sat")
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert [arrow.xy[1] - arrow.xyann[1] > 0 for arrow in arrows] == [False, False, True]
    assert [label.get_text() for label in axes.texts if label.get_text()] == [
        "-0.20",
        "-0.10",
        "+0.30",
    ]


def test_any_graph_of_values_is_drawn_with_an_arrow_for_each_use():
    leaf = SimpleNamespace(data=1.5, grad=6.75, parents=())
    square = SimpleNamespace(data=2.25, grad=1.5, parents=(leaf, leaf))
    cube = SimpleNamespace(data=3.375, grad=1.0, parents=(square, leaf))
    _, axes = subplots()
    autograd.values(axes, cube, {"w": leaf})
    written = [label.get_text() for label in axes.texts]
    assert {"w\n1.500\n ", "2.250\n ", "3.375\n "} <= {*written}
    assert sorted(text.strip() for text in written if text.startswith(" ")) == [
        "1.000",
        "1.500",
        "6.750",
    ]
    arrows = [(a.xyann[0], a.xy[0]) for a in axes.texts if getattr(a, "arrow_patch", None)]
    assert sorted(arrows) == [(0, 1), (0, 1), (0, 2), (1, 2)]


def test_a_product_lights_what_takes_part():
    _, axes = subplots()
    autograd.product(axes, np.arange(6).reshape(2, 3), lambda i, j: j == 0)
    assert [label.get_text() for label in axes.texts] == list("012345")
    assert [patch.get_facecolor()[2] < 1 for patch in axes.patches] == [True, False, False] * 2


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


@pytest.mark.parametrize(
    "part, dark",
    [
        ("keep", {"forget gate"}),
        ("write", {"input gate", "candidate"}),
        ("show", {"output gate"}),
    ],
)
def test_one_part_of_the_cell_is_lit_and_the_others_are_faint(part, dark):
    _, axes = subplots()
    cells.lstm(axes, lit=[part])
    ink = {label.get_text().split("\n")[0]: label.get_color() for label in axes.texts}
    gates = {"forget gate", "input gate", "candidate", "output gate"}
    assert {gate for gate in gates if ink[gate] == "black"} == dark
    assert {ink[gate] for gate in gates - dark} == {cells.FAINT}


def test_the_reset_gate_multiplies_what_has_been_through_its_matrix():
    _, axes = subplots()
    cells.gru(axes)
    [product] = [label for label in axes.texts if "W_{hh}^n" in label.get_text()]
    times = [label.get_position() for label in axes.texts if label.get_text() == "×"]
    x, y = product.get_position()
    assert [at for at in times if at[0] == x and at[1] < y]


def test_a_word_is_written_kept_and_shown():
    _, axes = subplots()
    cells.kept_word(axes, "the keys near houses were".split(), 1, [2, 3], 4, "more than one")
    weight = {label.get_text(): label.get_weight() for label in axes.texts}
    assert {word for word, kind in weight.items() if kind == "bold"} == {"keys", "were"}
    assert {"write", "keep: more than one", "show"} <= weight.keys()


def test_an_open_gate_is_a_full_circle():
    _, axes = subplots()
    cells.gates_over(axes, ["keys", "near"], {"write": [1, 0], "keep": [0, 1]})
    full = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_markerfacecolor() != "white"
    }
    assert len(axes.lines) == 4 and full == {(0, 0), (1, -1)}


@pytest.mark.parametrize(("gate", "arrives"), [(0.5, "0.06"), (1.0, "1")])
def test_each_gate_thins_the_gradient_on_its_way_back(gate, arrives):
    _, axes = subplots()
    cells.through_gates(axes, gate, "bias", steps=5)
    bars = [label.arrow_patch for label in axes.texts if getattr(label, "arrow_patch", None)]
    widths = [bar.get_linewidth() for bar in bars]
    assert widths == [9 * gate**k for k in (3, 2, 1, 0)]
    assert f"bias: {arrives} of it" in axes.get_title(loc="left")


def test_the_layer_has_three_heads_and_names_every_shape():
    _, axes = subplots()
    heads.layer(axes)
    written = [label.get_text() for label in axes.texts]
    shapes = {shape: written.count(shape) for shape in ("(n, d)", "(n, n)", "(n, d/h)", "(d, d)")}
    assert shapes == {"(n, d)": 3, "(n, n)": 3, "(n, d/h)": 6, "(d, d)": 1}
    assert {f"${made}_{head}$" for made in ("XQ", "A", "O") for head in (1, 2, 3)} <= {*written}


WORDS = ["we", "read", "one", "word"]


def texts(axes):
    return [label.get_text() for label in axes.texts]


def test_a_recurrent_network_names_its_weights_folded_and_unrolled():
    _, (left, right) = subplots(1, 2)
    recurrent.folded(left)
    recurrent.unrolled(right, WORDS)
    for axes in (left, right):
        assert {"$W_{ih}$", "$W_{hh}$", "$W_o$"} <= {*texts(axes)}
    assert [label for label in texts(right) if label in WORDS] == WORDS
    assert {"$h_0$", "$h_4$", "$o_4$"} <= {*texts(right)}
    for weights in ("$W_{ih}$", "$W_{hh}$", "$W_o$"):
        uses = [label.get_color() for label in right.texts if label.get_text() == weights]
        assert len(uses) == len(WORDS) and len({*uses}) == 1


def test_a_deep_network_runs_forward_and_a_bidirectional_one_both_ways():
    _, (left, right) = subplots(1, 2)
    recurrent.deep(left, WORDS)
    recurrent.bidirectional(right, WORDS)

    def ways(axes):
        """Arrows from state to state, to the right and to the left."""
        arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
        steps = [a.xy[0] - a.xyann[0] for a in arrows if a.xy[1] == a.xyann[1]]
        return sum(step > 0 for step in steps), sum(step < 0 for step in steps)

    assert (ways(left), ways(right)) == ((6, 0), (3, 3))
    assert "$[h_4^{(f)}, h_4^{(b)}]$" in texts(right)


def test_two_gradients_come_back_to_a_state():
    _, axes = subplots()
    recurrent.backward(axes)
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    back = [a for a in arrows if to_rgb(a.arrow_patch.get_edgecolor()) == to_rgb(COLORS[1])]
    into_the_middle = [a.xyann for a in back if abs(a.xy[0] - 2) < 0.5]
    assert len(into_the_middle) == 2
    shares = [line for line in axes.lines if len({*line.get_xdata()}) == 1]
    assert len(shares) == sum(a.xy[1] == a.xyann[1] for a in back)


def test_answers_are_read_at_every_step_from_the_last_state_or_from_all():
    _, panels = subplots(1, 3)
    recurrent.tasks(panels, WORDS)

    def upward(axes):
        """Arrows from a state to an output."""
        arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
        return sum(a.xyann[1] > 1 and a.xy[1] > a.xyann[1] for a in arrows)

    assert [upward(axes) for axes in panels] == [4, 1, 4]
    assert [sum("o" in text and "$" in text for text in texts(axes)) for axes in panels] == [
        4,
        1,
        1,
    ]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_gradient_is_as_wide_as_it_is_large(factor):
    _, axes = subplots()
    recurrent.fading(axes, factor, width=3, steps=5)
    bars = [label.arrow_patch for label in axes.texts if getattr(label, "arrow_patch", None)]
    widths = [bar.get_linewidth() for bar in bars[:4]]  # from the first state on
    assert widths == [3 * factor**k for k in (3, 2, 1, 0)]


def test_states_go_on_across_windows_and_gradients_do_not():
    _, axes = subplots()
    recurrent.truncated(axes, window=3, count=3, delay=4)
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    onward = [a for a in arrows if a.xyann[1] == a.xy[1] and a.xy[0] > a.xyann[0]]
    back = [a for a in arrows if to_rgb(a.arrow_patch.get_edgecolor()) == to_rgb(COLORS[1])]
    assert (len(onward), len(back)) == (8, 6)
    bars = [line.get_xdata()[0] for line in axes.lines if line.get_linewidth() == 3]
    assert [sum(a.xyann[0] < bar < a.xy[0] for a in onward) for bar in bars] == [1, 1]
    assert not any(a.xy[0] < bar < a.xyann[0] for a in back for bar in bars)


@pytest.mark.parametrize("first, solid", [("streams", 4), ("windows", 0)])
def test_an_arrow_is_solid_where_the_text_goes_on(first, solid):
    numbers = mt.arange(24).reshape(4, 6).T
    if first == "windows":
        numbers = mt.arange(24).reshape(2, 4, 3).transpose(1, 2).reshape(6, 4)
    _, axes = subplots()
    recurrent.streams(axes, numbers.tolist(), 3, "")
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert sum(a.arrow_patch.get_linestyle() in ("-", "solid") for a in arrows) == solid
    assert len(arrows) == 4


@pytest.mark.parametrize("writing, fed_back", [(False, 0), (True, 3)])
def test_in_writing_each_output_is_the_next_input(writing, fed_back):
    _, axes = subplots()
    chances = [[0.1, 0.2, 0.3, 0.4]] * 4
    recurrent.language_model(axes, WORDS, chances, [3, 2, 1, 0], writing)
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    dashed = [a for a in arrows if a.arrow_patch.get_linestyle() in ("--", "dashed")]
    assert len(dashed) == fed_back
    written = [text for label in texts(axes) for text in label.split("\n")]
    assert [written.count(word) for word in ("<s>", *WORDS)] == [1, 2, 2, 2, 1]
    grey = to_rgb("0.75")
    chosen = [bar.get_height() for bar in axes.patches if to_rgb(bar.get_facecolor()) != grey]
    assert chosen == pytest.approx([0.6, 0.45, 0.3, 0.15])
    assert [text for text in written if text.startswith("0.")] == [
        "0.400",
        "0.300",
        "0.200",
        "0.100",
    ]


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


def test_a_word_that_asks_shows_scores_weights_and_their_mix():
    _, axes = subplots()
    keys, values = [[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 3.0]]
    attention.asking(
        axes, "two", [0, 4], ["two", "ten"], keys, [0, 4], [0.02, 0.98], values, [0, 3]
    )
    written = {label.get_text() for label in axes.texts}
    assert {"two\n(0  4)", "ten  (0  1)", "4", "0.980", "two  (2  0)", "two\n(0  3)"} <= written
    widths = [line.get_linewidth() for line in axes.lines]
    assert len(widths) == 4 and widths[2] == widths[3] > 5 * widths[0]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.02, 0.98])


def test_arcs_lead_to_the_words_that_are_looked_at():
    _, axes = subplots()
    attention.arcs(axes, ["two", "thousand", "six"], [(0, [0.2, 0.79, 0.01], "red")])
    [arc] = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    at = {label.get_text(): label.get_position()[0] for label in axes.texts}
    assert (arc.xy[0], arc.xyann[0]) == (at["thousand"], at["two"])


def test_each_state_of_the_decoder_looks_back_at_all_states_of_the_encoder():
    _, axes = subplots()
    cross_attention.decoder(axes, ["one", "two"], ["eins", "zwei", "</s>"], mt.ones(3, 2) / 2)
    written = [label.get_text() for label in axes.texts]
    assert len(axes.lines) == 3 * 2 and written.count("eins") == written.count("zwei") == 2
    assert written.count("</s>") == 1 and written[-1] == "</s>" and "$s_{3}$" in written


def test_the_old_way_of_the_gradient_has_a_step_a_state_from_either_end_and_the_new_one_has_one():
    _, axes = subplots()
    cross_attention.two_paths(axes, ["ninety", "three", "and", "two"], 1)
    arrows = [text.arrow_patch for text in axes.texts if getattr(text, "arrow_patch", None)]
    colors = [to_rgb(arrow.get_edgecolor()) for arrow in arrows]
    assert colors.count(to_rgb(COLORS[1])) == 3 + 3 and colors.count(to_rgb(COLORS[0])) == 2


def test_what_is_fed_back_is_found_before_the_step_or_now():
    _, (left, right) = subplots(1, 2)
    cross_attention.feeding(left, "Luong", fed_from="before")
    cross_attention.feeding(right, "Bahdanau", fed_from="now")
    arrows = [sum(hasattr(text, "arrow_patch") for text in axes.texts) for axes in (left, right)]
    assert arrows == [4, 3]
    with pytest.raises(ValueError, match="'before' or 'now', got 'later'"):
        cross_attention.feeding(left, "", fed_from="later")


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


def test_a_query_and_a_key_turned_together_keep_their_angle():
    written = []
    for places in ((1, 3), (4, 6)):
        _, axes = subplots()
        positions.same_angle(axes, (1, 0.1), (0.7, 0.65), places, np.radians(17))
        texts = [label.get_text() for label in axes.texts]
        written.append([text for text in texts if text.endswith("°")])
        assert f"$q$ at place {places[0]}" in texts and f"$k$ at place {places[1]}" in texts
    assert written[0] == written[1] == ["71°"]


def test_clocks_frame_the_distances_that_are_lit():
    _, axes = subplots()
    positions.clocks_at(axes, [3, 9, 22], [1.0, 0.3], lit=(3, 22))
    bold = [label.get_text() for label in axes.texts if label.get_weight() == "bold"]
    assert bold == ["3 back", "22 back"]
    hands = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert len(hands) == 6
    x, y = hands[0].get_data()
    assert np.arctan2(x[1] - x[0], y[1] - y[0]) % (2 * np.pi) == pytest.approx(3)


def test_an_arrow_leads_from_each_word_of_a_tree_to_its_head():
    _, axes = subplots()
    positions.tree(axes, ["the", "dogs", "bark"], [1, 2, None], lit=1)
    tips = [label.xy[0] for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert [round(tip, 6) for tip in tips] == [1, 2]
    starts = [line.get_xdata()[0] for line in axes.lines]
    assert [round(start, 6) for start in starts] == [0, 1]


def test_a_block_has_a_skip_path_to_each_sum():
    _, axes = subplots()
    blocks.tower(axes, ["norm", "attention", "+", "norm", "network", "+"])
    written = [label.get_text() for label in axes.texts if label.get_text()]
    assert written.count("skip path") == written.count("+") == len(axes.lines) == 2
    assert written[0] == "$x$" and written[-1] == "$y$"


def test_a_chain_has_no_sums_and_a_stream_one_for_each_part():
    parts = ["attention", "network", "attention"]
    for draw, sums in ((blocks.chain, 0), (blocks.stream, len(parts))):
        _, axes = subplots()
        draw(axes, parts)
        written = [label.get_text() for label in axes.texts]
        assert [name for name in written if name in parts] == parts
        assert written.count("+") == sums
        assert ("residual stream" in written) == bool(sums)


def test_a_memory_draws_a_bar_as_long_as_each_weight():
    _, axes = subplots()
    weights = [0.7, 0.2, 0.1]
    blocks.memory(
        axes, "query", "abc", "xyz", weights, title="attention", weigh="softmax", below="made anew"
    )
    widths = [np.ptp(bar.get_xy()[:, 0]) for bar in axes.patches]
    assert np.allclose(widths, weights)
    assert {"keys", "values", "softmax", *"abcxyz"} <= {text.get_text() for text in axes.texts}


def test_an_answer_is_spelled_below_the_right_one_and_its_right_letters_are_green():
    _, axes = subplots()
    blocks.spelled(axes, "ab c, backwards", "c ba", {"good": "c ba", "bad": "cccc"})
    written = [text.get_text() for text in axes.texts]
    assert written.count("c") == 2 + 4
    assert written.count("\N{OPEN BOX}") == 2
    fills = [cell.get_facecolor() for cell in axes.patches]
    assert fills.count(fills[0]) == 4 + 1


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


def test_teacher_forcing_reads_and_asks_for_the_same_tokens_one_place_apart():
    _, axes = subplots()
    transformer.teacher_forcing(axes, ["two", "hundred"], ["zwei", "hundert"])
    at = {label.get_position(): label.get_text() for label in axes.texts}
    assert [at[t, 0] for t in range(3)] == ["<s>", "zwei", "hundert"]
    assert [at[t, 2] for t in range(3)] == ["zwei", "hundert", "</s>"]
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    aslant = [(a.xyann, a.xy) for a in arrows if abs(a.xyann[0] - a.xy[0]) < 1 and a.xy[1] == 0.2]
    assert aslant == [((0.22, 1.76), (0.78, 0.2)), ((1.22, 1.76), (1.78, 0.2))]


def test_a_token_gathers_over_lines_as_thick_as_its_weights():
    _, axes = subplots()
    kinds = ("in", "gathered", "between", "network", "out")
    strips = dict.fromkeys(kinds, [1.0, -1.0]) | {"given": [[0.5, 0.0], [0.5, -1.0]]}
    transformer.one_token(axes, "a", ["a", "b"], [0.25, 0.75], strips)
    assert {"“a” comes in", "0.25  a", "0.75  b"} <= {*texts(axes)} and texts(axes).count("+") == 2
    assert [mesh.get_array().ravel().tolist() for mesh in axes.collections][-1] == [0.5, -1.0]
    thin, thick = (line.get_linewidth() for line in axes.lines if line.get_color() == COLORS[0])
    assert thick - thin == pytest.approx(7 * 0.5) and len(axes.collections) == len(kinds) + 2


def test_norms_stand_on_the_way_in_2017_and_beside_it_today():
    _, axes = subplots()
    transformer.two_blocks(axes)
    places = [(label.get_text(), label.get_position()[0]) for label in axes.texts]
    ways = {x for text, x in places if text == "+"}
    assert len(ways) == 2 and [text for text, _ in places].count("+") == 4
    assert all(x in ways for text, x in places if text == "layer norm")
    assert not any(x in ways for text, x in places if text == "RMSNorm")


def test_three_shapes_differ_in_their_masks():
    _, axes = subplots()
    transformer.shapes(axes)
    written = [label.get_text() for label in axes.texts]
    assert sum("causal mask" in label for label in written) == 2
    assert sum("no mask" in label for label in written) == 2


def test_a_decoder_looks_left_and_a_blank_to_both_sides():
    words = ["a", "b", "c"]
    for asked, looks, lines, lit in (
        (["b", "c", "d"], lambda i, j: j <= i, 6, 2),
        ([None, "b", None], lambda i, j: True, 3, 3),
    ):
        _, axes = subplots()
        pretraining.family(axes, words, asked, looks, "a family", lit=1)
        assert len(axes.lines) == lines
        assert [line.get_color() for line in axes.lines].count(pretraining.COLORS[1]) == lit
        answers = [answer for answer in asked if answer]
        assert [label.get_text() for label in axes.texts] == [*answers, *words]


def test_a_masked_sentence_asks_at_its_chosen_places_alone():
    _, axes = subplots()
    pretraining.masking(axes, ["one", "two"], ["one", "<mask>"], ["", "hidden"])
    written = [label.get_text() for label in axes.texts]
    assert written.count("two") == 2 and written.count("one") == 2 and "hidden" in written


def test_a_body_that_does_not_learn_is_hatched_and_one_that_has_read_is_blue():
    _, axes = subplots()
    pretraining.starts(axes, [("from scratch", False, True), ("frozen", True, False)])
    bodies = [patch for patch in axes.patches if patch.get_xy()[:, 1].max() < 1]
    assert [bool(body.get_hatch()) for body in bodies] == [False, True]
    assert [to_rgb(body.get_facecolor()[:3]) for body in bodies] == [
        to_rgb("white"),
        to_rgb(pretraining.BLUE),
    ]


def test_an_induction_head_says_what_came_after_the_same_symbol():
    _, axes = subplots()
    pretraining.induction(axes, list("xyzx"))
    written = [label.get_text() for label in axes.texts]
    assert {"y, after x", "who stands after x?", "next: y"} <= {*written}


def test_each_word_of_an_answer_is_asked_above_the_word_before_it():
    _, axes = subplots()
    pretraining.turns(axes, [(["say", ">"], False), (["six", ";"], True), (["and"], False)])
    places = {(label.get_text(), label.get_position()[1]): label for label in axes.texts}
    at = {key: label.get_position()[0] for key, label in places.items()}
    assert at["six", 1.2] == at[">", 0] and at[";", 1.2] == at["six", 0]
    assert ("say", 1.2) not in at and ("and", 1.2) not in at


def test_blocks_that_only_read_a_prompt_are_hatched_and_a_head_stands_where_labels_are():
    _, axes = subplots()
    columns = [
        ("labels", "section 3", "kinds", True, True, True, "10"),
        ("a prompt", "section 4", "goes on", False, True, False, "1"),
    ]
    pretraining.stages(axes, columns)
    assert [bool(patch.get_hatch()) for patch in axes.patches] == [False] * 3 + [True] * 2
    assert [label.get_text() for label in axes.texts].count("head") == 1


def test_answers_are_the_bluer_the_more_of_them_is_right():
    _, axes = subplots()
    groups = [("one", [[("six", 2), ("ten", 1)]]), ("two", [[("zehn", 0), ("six", 2)]])]
    pretraining.grid_of_answers(axes, ["a", "b"], groups)
    blue, pale = to_rgb(pretraining.COLORS[5]), to_rgb(pretraining.BLUE)
    found = [to_rgb(patch.get_facecolor()[:3]) for patch in axes.patches]
    assert found == [blue, pale, to_rgb("white"), blue]


def test_two_outcomes_are_drawn_with_the_distance_after():
    _, panels = subplots(1, 2)
    pretraining.distances(
        panels, [("up", (-20, -15), (-15, -20), "5"), ("down", (-20, -15), (-20, -25), "5")]
    )
    assert [axes.texts[-1].get_position()[0] for axes in panels] == [-17.5, -22.5]


def test_of_a_low_rank_adapter_the_large_matrix_is_hatched_and_the_thin_ones_are_counted():
    _, axes = subplots()
    pretraining.low_rank(axes, width=8, rank=2)
    sizes = [np.ptp(patch.get_xy(), axis=0).tolist() for patch in axes.patches]
    assert sizes == [[1, 1], [0.25, 1], [1, 0.25]]
    assert [bool(patch.get_hatch()) for patch in axes.patches] == [True, False, False]
    assert {"64 numbers stay", "32 learn"} <= {label.get_text() for label in axes.texts}
    # without an equals sign: W + RS is not R times S
    assert "=" not in {label.get_text() for label in axes.texts}


def test_words_that_speak_for_the_same_digits_are_joined():
    _, axes = subplots()
    pair = number_pair(293, target="fr")  # "quatre-vingt-treize": all three words say "ninety"
    translation.aligned(axes, pair, "293")
    assert len(axes.lines) == sum(map(len, pair.alignment)) == 6
    assert [label.get_text() for label in axes.texts] == [*pair.source, *pair.target]


def test_one_thick_arrow_leads_from_the_encoder_to_the_decoder():
    _, axes = subplots()
    translation.encoder_decoder(axes, ["two"], ["zwei", "</s>"])
    written = [label.get_text() for label in axes.texts if label.get_text()]
    assert written == ["two", "$h_{1}$", "<s>", "$s_{1}$", "zwei", "zwei", "$s_{2}$", "</s>", "$c$"]
    arrows = [label.arrow_patch for label in axes.texts if getattr(label, "arrow_patch", None)]
    widths = [arrow.get_linewidth() for arrow in arrows]
    assert (len(widths), widths.count(4)) == (7, 1)


def test_only_padding_is_grey_in_a_layout():
    _, axes = subplots()
    translation.layout(axes, [["a", "b"], ["c", "<pad>"]], "padded")
    grey = [label for label in axes.texts if label.get_bbox_patch().get_facecolor()[0] == 0.75]
    assert [label.get_text() for label in grey] == ["<pad>"] and len(axes.texts) == 4


def test_a_beam_shows_every_candidate_and_marks_those_that_were_kept():
    _, axes = subplots()
    first = [(0.5, ("<s>", "ein")), (0.4, ("<s>", "eine")), (0.1, ("<s>", "elf"))]
    second = [(0.4, ("<s>", "eine", "</s>"))]
    translation.beam(axes, [(first, first[:2]), (second, second)], "K = 2")
    boxes = {label.get_text(): label.get_bbox_patch() for label in axes.texts if label.get_text()}
    assert {*boxes} == {"<s>", "ein  .500", "eine  .400", "elf  .100", "</s>  .400"}
    assert boxes["elf  .100"].get_linewidth() < boxes["eine  .400"].get_linewidth()


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


def test_a_text_to_be_read_keeps_its_lines_and_escapes_markup(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(report, "notebook_display", lambda: lambda data, raw: shown.append(data))
    large("ROMEO:\n<s>")
    assert "pre-wrap" in shown[0]["text/html"] and "ROMEO:\n&lt;s&gt;" in shown[0]["text/html"]
    large("am", after="<I> ")
    assert '<span style="color:#777">&lt;I&gt; </span>am' in shown[1]["text/html"]
    monkeypatch.undo()
    large("ROMEO:\n<s>")
    large("am", after="I ")
    assert capsys.readouterr().out == "ROMEO:\n<s>\n\nI am\n\n"


def test_an_encoder_in_both_directions_hands_on_the_last_state_of_each():
    _, axes = subplots()
    translation.both_directions(axes, ["two", "hundred", "and"])
    written = [label.get_text() for label in axes.texts]
    assert {"$h_{1}$", "$g_{1}$", "$c$", "forward", "backward", "hundred"} <= {*written}
    assert written.count("$h_{3}$") == 2 and written.count("$g_{1}$") == 2


def test_a_squeezed_encoding_names_its_three_widths_and_two_matrices():
    _, axes = subplots()
    translation.squeezed(axes, 128, 8)
    written = [label.get_text() for label in axes.texts]
    assert [text for text in written if "numbers" in text] == [
        "128 numbers",
        "8 numbers",
        "128 numbers",
    ]
    assert {"matrix\n128 x 8", "matrix\n8 x 128"} <= {*written}


def test_the_way_between_two_sentences_marks_its_ends():
    _, axes = subplots()
    translation.between(axes, ["one", "half", "two"])
    weights = {label.get_text(): label.get_weight() for label in axes.texts}
    assert weights["one"] == weights["two"] == "bold" and weights["half"] == "normal"


def test_poolings_are_the_last_column_the_means_and_the_maxima():
    _, axes = subplots()
    translation.poolings(axes, ["a", "b"])
    written = [label.get_text() for label in axes.texts]
    assert {"a", "b", "last", "mean", "max"} <= {*written}
    first, second, last, mean, largest = [float(text) for text in written[2:7]]
    assert (last, mean, largest) == (second, (first + second) / 2, max(first, second))


def test_only_the_pieces_that_a_merge_made_are_lit():
    _, axes = subplots()
    stages = [("letters", ["low", "own"]), ("o + w", [["l", "ow"], ["ow", "n"]])]
    writing.merging(axes, [(title, [list(word) for word in words]) for title, words in stages])
    assert texts(axes) == ["letters", *"low", *"own", "o + w", "l", "ow", "ow", "n"]
    lit = [patch.get_facecolor()[:3] == to_rgb(writing.ORANGE) for patch in axes.patches]
    assert lit == [False] * 6 + [False, True, True, False]


def test_a_step_with_the_cache_makes_one_key_value_and_query():
    _, axes = subplots()
    writing.cached_step(axes, ["the", "cat", "sat"])
    made = [patch for patch in axes.patches if patch.get_facecolor()[:3] == to_rgb(writing.ORANGE)]
    kept = [patch for patch in axes.patches if patch.get_facecolor()[:3] == to_rgb(writing.GREY)]
    assert (len(made), len(kept)) == (3, 4)
    assert {"$k_1$", "$v_2$", "$k_3$", "$q_3$", "$o_3$", "cache"} <= {*texts(axes)}
    assert "$q_2$" not in texts(axes)


def test_a_token_meets_boxes_as_wide_as_their_weights():
    _, axes = subplots()
    writing.met_weights(axes, {"source": {"blocks": 3.0}, "target": {"blocks": 4.0, "output": 6.0}})
    met = [(min(patch.get_xy()[:, 0]), max(patch.get_xy()[:, 0])) for patch in axes.patches]
    assert met == [(0, 3), (0, 4), (4, 10)]
    assert {"source", "output", "3 million weights", "10 million weights"} <= {*texts(axes)}


def test_the_way_through_a_code_book_passes_both_entries():
    _, axes = subplots()
    writing.code_book(axes, [("b", "a"), ("c", "b"), ("a", "c")], "a")
    assert {"1. look up a: c", "2. look up c: b"} <= {*texts(axes)}
    tips = [label.xy[0] for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert tips == [2, 1]


def test_a_step_is_drawn_with_how_far_it_moves_two_inputs():
    """A rotation moves all alike; a matrix of equal entries moves one input and not the other."""
    axes = subplots(1, 2)[1]
    inputs = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    race.directions(axes[0], np.array([[0, -3], [3, 0]]), inputs, "turned")
    race.directions(axes[1], np.ones((2, 2)), inputs, "signs")
    written = [[label.get_text() for label in a.texts if label.get_text()] for a in axes]
    assert written == [["1.00", "1.00", "turned"], ["1.00", "0.00", "signs"]]


def test_taps_lead_from_the_last_letters_to_one_place():
    _, axes = subplots()
    race.taps(axes, "abcde", [1, 0.5, 0])
    arrows = [label for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert [arrow.xy for arrow in arrows] == [(4, 1.9)] * 3
    assert [arrow.arrow_patch.get_linewidth() for arrow in arrows[:2]] == [3, 1.5]
    assert [arrow.arrow_patch.get_linestyle() for arrow in arrows] == ["solid", "solid", ":"]
    assert {"1", "0.5", "0"} <= {*texts(axes)}


def test_the_text_is_cut_to_scale():
    _, axes = subplots()
    race.cut(axes)
    widths = [np.ptp(patch.get_xy()[:, 0]) for patch in axes.patches]
    assert widths == [18, 1, 1]
    assert "open half: you choose by this" in texts(axes)


def test_of_the_racing_block_attention_and_network_alone_are_grey():
    _, axes = subplots()
    race.blocks(axes)
    boxes = [text for text in axes.texts if text.get_bbox_patch() and text.get_text() != "+"]
    colors = [text.get_bbox_patch().get_facecolor() for text in boxes]
    grey = [
        text.get_text() for text, color in zip(boxes, colors, strict=True) if color == colors[0]
    ]
    old = ["layer norm", "attention", "four heads of 32", "layer norm", "network", "ReLU"]
    assert grey == [*old, "attention", "network"]
    assert len(boxes) == len(grey) + 10


def test_a_runner_stands_at_its_loss_and_says_among_how_many_letters_it_is_unsure():
    _, axes = subplots()
    race.lanes(axes, [("counts", np.log(10), COLORS[0]), ("elsewhere", np.log(5), None)], 65)
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(mark.get_xdata()[0]) for mark in marks] == [np.log(5), np.log(10)]
    assert [mark.get_fillstyle() for mark in marks] == ["none", "full"]
    assert {"1.61 nats = 5.0 letters", "2.30 nats = 10.0 letters"} <= {*texts(axes)}
    assert axes.get_xlim()[0] == np.log(65)


def test_scores_cross_the_bridge_four_times_unless_they_come_by_tiles():
    _, panels = subplots(1, 2)
    mixers.bridge(panels)
    for axes, squares in zip(panels, (4, 0), strict=True):
        arrows = [label.arrow_patch for label in axes.texts if getattr(label, "arrow_patch", None)]
        assert sum(arrow.get_linewidth() > 3 for arrow in arrows) == squares
    assert "scores of a tile" in texts(panels[1])


def test_tiles_before_the_one_at_work_are_done():
    _, axes = subplots()
    mixers.tiles(axes, count=3, row=1, column=2)
    colors = [patch.get_facecolor() for patch in axes.patches]
    assert [colors.count(color) for color in dict.fromkeys(colors)] == [5, 1, 3]


def test_what_is_read_for_a_token_is_weights_and_cache():
    _, axes = subplots()
    mixers.read_for_a_token(axes, [("one", 12, 2), ("many", 0.1875, 2)])
    assert {"14", "2.19", "weights", "cache"} <= {*texts(axes)}
    assert [bar.get_width() for bar in axes.patches] == [0.1875, 2, 12, 2]


def test_arrows_from_one_point_are_equally_long():
    _, axes = subplots()
    mixers.from_one_point(axes, [(3, 4), (-2, 0)], "two")
    tips = [label.xy for label in axes.texts if getattr(label, "arrow_patch", None)]
    assert tips == [(0.6, 0.8), (-1, 0)]


def test_tiles_are_brought_to_the_larger_maximum():
    _, panels = subplots(1, 3)
    mixers.rescaled(panels, scores=((1, 3), (2, 5)))
    titles = [axes.get_title() for axes in panels]
    assert titles == [
        "tile 1: m = 3, z = 1.14",
        "tile 2: m = 5, z = 1.05",
        "merged: m = 5, z = 1.20",
    ]
    solid = [bar for bar in panels[2].patches if bar.get_facecolor()[3] == 1]
    assert sum(bar.get_height() for bar in solid) == pytest.approx(1.2034, abs=1e-4)


def test_a_product_has_its_two_sides_in_the_colors_of_their_lengths():
    _, axes = subplots()
    mixers.products(axes, [("scores", ("n", "d", "n"), "$2n^2d$")])
    sides = [line.get_color() for line in axes.lines]
    assert sides == [COLORS[1], COLORS[0], COLORS[0], COLORS[1]]
    assert {"scores", "$2n^2d$"} <= {*texts(axes)}


def test_a_chunk_hands_its_state_to_the_next_one():
    _, panels = subplots(1, 3)
    mixers.forms(panels, n=8, size=3)
    assert [texts(axes).count("S") for axes in panels] == [0, 7, 2]


def test_a_state_is_the_sum_of_products_that_fade_and_the_cache_keeps_all():
    _, axes = subplots()
    mixers.fading(axes, [[1.0], [2.0]], [[1.0, -1.0], [0.0, 3.0]], decay=0.5)
    drawn = [np.ravel(mesh.get_array()).tolist() for mesh in axes.collections]
    kept, faded, state = drawn[:2], drawn[2], drawn[-1]
    assert kept == [[1.0], [-1.0, 1.0]] and faded == [0.5, -0.5] and state == [0.5, 5.5]
    assert {"times 0.5", "times 1", "state $S_t$"} <= {*texts(axes)}
