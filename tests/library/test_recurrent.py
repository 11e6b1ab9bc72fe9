"""Recurrent layers, their cells, and sequences of different lengths."""

import copy
import warnings

import numpy as np
import pytest
from test_functional import compared, normal

import minitorch as mt
from minitorch import nn
from minitorch.nn.utils import rnn as sequences
from minitorch.operations.recurrent import gru, lstm, rnn

KINDS = (nn.RNN, nn.LSTM, nn.GRU)
CELLS = {nn.RNN: nn.RNNCell, nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell}


def rnn_step(x, h, state):
    return ((x + h).tanh(),)


def lstm_step(x, h, state, cell):
    i, f, g, o = (x + h).chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_step(x, h, state):
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), h.chunk(3, -1)
    z, new = (x_z + h_z).sigmoid(), (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return ((1 - z) * new + z * state,)


OPERATIONS = [(rnn, rnn_step, 1, 1), (lstm, lstm_step, 4, 2), (gru, gru_step, 3, 1)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("operation", "step", "gates", "count"), OPERATIONS)
def test_a_whole_sequence_is_a_loop_of_plain_operations(operation, step, gates, count, reverse):
    def loop(x, *rest):
        states, (w_ih, w_hh, b_ih, b_hh) = rest[:count], rest[count:]
        run = []
        for x_t in x.flip(0) if reverse else x:
            states = step(x_t @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh, *states)
            run.append(states[0])
        return mt.stack(run[::-1] if reverse else run), *states

    compared(
        lambda *inputs: operation(*inputs, None, reverse),
        loop,
        normal(5, 2, 3),
        *(normal(2, 4, seed=k + 1) for k in range(count)),
        *(normal(4 * gates, width, seed=width) for width in (3, 4)),
        *(normal(4 * gates, seed=k) for k in (5, 6)),
    )


def states_for(kind, *shape):
    """Initial states as the layer takes them, and the same as a list."""
    each = [mt.randn(*shape) for _ in range(2 if kind is nn.LSTM else 1)]
    return tuple(each) if len(each) == 2 else each[0], each


def as_list(states):
    return list(states) if isinstance(states, tuple) else [states]


def close(got, expected):
    assert got.shape == expected.shape
    assert got.dtype is expected.dtype is mt.float32
    np.testing.assert_allclose(got.tolist(), expected.tolist(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_their_cells(kind, bias):
    """Two layers and two directions, one step after the other."""
    mt.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bias=bias, bidirectional=True, dropout=0.5).eval()
    x = mt.randn(5, 2, 3)
    hx, initial = states_for(kind, 4, 2, 4)
    output, last = layer(x, hx)
    below, runs, state_dict = x, [], layer.state_dict()
    for row in range(4):
        suffix = f"_l{row // 2}" + ("_reverse" if row % 2 else "")
        cell = CELLS[kind](below.shape[-1], 4, bias=bias)
        cell.load_state_dict({name: state_dict.pop(name + suffix) for name in cell.state_dict()})
        states = tuple(s[row] for s in initial) if kind is nn.LSTM else initial[0][row]
        run = []
        for x_t in below.flip(0) if row % 2 else below:
            states = cell(x_t, states)
            run.append(as_list(states)[0])
        for got, expected in zip(as_list(last), as_list(states), strict=True):
            close(got[row], expected)
        runs.append(mt.stack(run[::-1] if row % 2 else run))
        if row % 2:
            below = mt.cat(runs[-2:], dim=-1)
    assert not state_dict, "parameters under unknown names"
    close(output, below)


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.LSTM, 4), (nn.GRU, 3)])
def test_state_dict_has_the_names_and_shapes_of_pytorch(kind, gates):
    rows = gates * 4
    one = {"weight_ih": (rows, 3), "weight_hh": (rows, 4), "bias_ih": (rows,), "bias_hh": (rows,)}
    above = one | {"weight_ih": (rows, 8)}
    layer = kind(3, 4, 2, bidirectional=True)
    expected = {
        name + suffix: shape
        for suffix, shapes in [("_l0", one), ("_l0_reverse", one)]
        + [("_l1", above), ("_l1_reverse", above)]
        for name, shape in shapes.items()
    }
    found = [(name, tuple(value.shape)) for name, value in layer.state_dict().items()]
    assert found == list(expected.items())
    assert [(n, tuple(p.shape)) for n, p in CELLS[kind](3, 4).named_parameters()] == [*one.items()]
    assert list(kind(3, 4, bias=False).state_dict()) == ["weight_ih_l0", "weight_hh_l0"]
    bound = max(parameter.abs().max().item() for parameter in layer.parameters())
    assert 0.45 < bound <= 0.5
    assert layer.flatten_parameters() is None


@pytest.mark.parametrize("kind", KINDS)
def test_layouts(kind):
    mt.manual_seed(0)
    layer, x = kind(3, 4, 2, bidirectional=True), mt.randn(5, 2, 3)
    hx, initial = states_for(kind, 4, 2, 4)
    output, last = layer(x, hx)
    assert output.shape == (5, 2, 8) and as_list(last)[0].shape == (4, 2, 4)
    first = kind(3, 4, 2, bidirectional=True, batch_first=True)
    first.load_state_dict(layer.state_dict())
    swapped, same = first(x.transpose(0, 1), hx)
    close(swapped.transpose(0, 1), output)
    alone = [s[:, 1] for s in initial]
    single, final = first(x[:, 1], tuple(alone) if kind is nn.LSTM else alone[0])
    close(single, output[:, 1])
    for batched, again, one in zip(*map(as_list, (last, same, final)), strict=True):
        close(again, batched)
        close(one, batched[:, 1])
    without, _ = layer(x)
    zeros = tuple(mt.zeros(4, 2, 4) for _ in initial)
    close(without, layer(x, zeros if kind is nn.LSTM else zeros[0])[0])


@pytest.mark.parametrize("kind", KINDS)
def test_short_and_empty(kind):
    layer, cell = kind(3, 4), CELLS[kind](3, 4)
    cell.load_state_dict(
        {name.removesuffix("_l0"): value for name, value in layer.state_dict().items()}
    )
    x = mt.randn(1, 2, 3)
    output, last = layer(x)
    for got, expected in zip(as_list(last), as_list(cell(x[0])), strict=True):
        close(got[0], expected)
    for got, expected in zip(as_list(cell(x[0, 1])), as_list(cell(x[0])), strict=True):
        close(got, expected[1])
    nobody = mt.zeros(5, 0, 3, requires_grad=True)
    output, last = layer(nobody)
    assert output.shape == (5, 0, 4) and as_list(last)[0].shape == (1, 0, 4)
    output.sum().backward()
    assert nobody.grad.shape == (5, 0, 3) and not layer.weight_hh_l0.grad.any()
    with pytest.raises(RuntimeError, match="at least one step"):
        layer(mt.zeros(0, 2, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_large_inputs_do_not_overflow(kind):
    layer = kind(3, 4)
    x = (mt.ones(4, 1, 3) * mt.tensor([1e4, -1e4, 1e30])).requires_grad_()
    output, _ = layer(x)
    output.sum().backward()
    assert mt.isfinite(output).all() and mt.isfinite(x.grad).all()


def test_dropout_lies_between_layers():
    layer = nn.LSTM(3, 4, num_layers=2, dropout=1.0)
    x, quiet = mt.randn(5, 2, 3), mt.zeros(5, 2, 3)
    assert mt.equal(layer(x)[0], layer(quiet)[0]), "the second layer must see zeros only"
    layer.eval()
    assert not mt.equal(layer(x)[0], layer(quiet)[0])
    with pytest.warns(UserWarning, match="num_layers=1"):
        nn.GRU(3, 4, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.GRU(3, 4, 2, dropout=0.5)


def test_a_changed_output_is_noticed():
    x = mt.randn(3, 2, 3)
    output, _ = nn.GRU(3, 4)(x)
    with mt.no_grad():
        output += 1
    with pytest.raises(RuntimeError, match="gru.*changed in place"):
        output.sum().backward()


def test_errors_name_both_sides():
    layer, cell = nn.LSTM(3, 4), nn.LSTMCell(3, 4)
    x, state = mt.zeros(5, 2, 3), mt.zeros(1, 2, 4)
    for function, arguments, error, message in [
        (layer, [mt.zeros(5, 2, 7)], RuntimeError, r"input_size=3.*\(5, 2, 7\).*\(T, B, 3\)"),
        (layer, [mt.zeros(5, 2, 2, 3)], ValueError, r"LSTM.*2 or 3 axes, got 4"),
        (layer, [x.double()], ValueError, "weights of type .*float32.*input of type .*float64"),
        (layer, [x, state], TypeError, "h_0 and c_0; got 1 tensor"),
        (layer, [x, (state, state[:, :1])], RuntimeError, r"c_0.*\(1, 2, 4\), got \(1, 1, 4\)"),
        (layer, [x[:, 0], (state, state)], RuntimeError, r"h_0.*\(1, 4\), got \(1, 2, 4\)"),
        (nn.GRU(3, 4), [x, (state, state)], TypeError, "h_0; got 2 tensors"),
        (cell, [mt.zeros(2, 5)], RuntimeError, r"input_size=3.*\(2, 5\).*\(B, 3\)"),
        (cell, [x], ValueError, r"LSTMCell.*1 or 2 axes, got 3"),
        (cell, [x[0], (mt.zeros(3, 4),) * 2], RuntimeError, r"\(2, 4\), got \(3, 4\)"),
    ]:
        with pytest.raises(error, match=message):
            function(*arguments)
    for options, message in [
        (dict(hidden_size=0), "hidden_size must be greater than zero, got 0"),
        (dict(hidden_size=4, num_layers=0), "num_layers.*got 0"),
        (dict(hidden_size=4, dropout=1.5), "between 0 and 1, got 1.5"),
        (
            dict(hidden_size=4, proj_size=4),
            "proj_size must be 0, or above it and below hidden_size=4",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            nn.LSTM(3, **options)
    for kind in (nn.RNN, nn.RNNCell):
        with pytest.raises(ValueError, match="'tanh' or 'relu'.*'gelu'"):
            kind(3, 4, nonlinearity="gelu")


def test_printed_as_in_pytorch():
    assert repr(nn.LSTM(3, 4, 2, dropout=0.5)) == "LSTM(3, 4, num_layers=2, dropout=0.5)"
    assert repr(nn.GRU(3, 4, bias=False, batch_first=True)) == (
        "GRU(3, 4, bias=False, batch_first=True)"
    )
    assert repr(nn.RNNCell(3, 4, nonlinearity="relu")) == "RNNCell(3, 4, nonlinearity=relu)"


# Sequences of different lengths


def test_pack_and_pad():
    padded = mt.tensor([[1, 4, 6], [2, 5, 0], [3, 0, 0]])
    packed = sequences.pack_padded_sequence(padded, [3, 2, 1])
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is None and packed.unsorted_indices is None
    back, lengths = sequences.pad_packed_sequence(packed, padding_value=-1, total_length=4)
    assert back.tolist() == [[1, 4, 6], [2, 5, -1], [3, -1, -1], [-1, -1, -1]]
    assert lengths.tolist() == [3, 2, 1]


def test_pack_sorts_and_pad_restores_the_order():
    padded = mt.tensor([[6, 0, 0], [1, 2, 3], [4, 5, 0], [7, 8, 9]])
    packed = sequences.pack_padded_sequence(
        padded, mt.tensor([1, 3, 2, 3]), batch_first=True, enforce_sorted=False
    )
    assert packed.data.tolist() == [1, 7, 4, 6, 2, 8, 5, 3, 9]
    assert packed.batch_sizes.tolist() == [4, 3, 2]
    assert packed.sorted_indices.tolist() == [1, 3, 2, 0]
    assert packed.unsorted_indices.tolist() == [3, 0, 2, 1]
    back, lengths = sequences.pad_packed_sequence(packed, batch_first=True)
    assert mt.equal(back, padded) and lengths.tolist() == [1, 3, 2, 3]
    moved = packed.to(mt.float64)
    assert moved.data.dtype is mt.float64 and moved.batch_sizes is packed.batch_sizes


def test_pad_sequence():
    items = [mt.tensor([1, 2]), mt.tensor([3])]
    assert sequences.pad_sequence(items).tolist() == [[1, 3], [2, 0]]
    left = sequences.pad_sequence(items, True, -1, padding_side="left")
    assert left.tolist() == [[1, 2], [-1, 3]]
    unpadded = sequences.unpad_sequence(left, mt.tensor([2, 1]), batch_first=True)
    assert [item.tolist() for item in unpadded] == [[1, 2], [-1]]
    packed = sequences.pack_sequence(items[::-1], enforce_sorted=False)
    assert [x.tolist() for x in sequences.unpack_sequence(packed)] == [[3], [1, 2]]
    with pytest.raises(RuntimeError, match="at least one sequence"):
        sequences.pad_sequence([])
    with pytest.raises(RuntimeError, match="'left' or 'right', got 'lft'"):
        sequences.pad_sequence(items, padding_side="lft")


def test_lengths_that_cannot_be():
    x = mt.zeros(4, 3)
    for lengths, message in [
        ([4, 2, 0], "1 to 4, got 0 to 4"),
        ([5, 2, 1], "1 to 4, got 1 to 5"),
        ([4, 2], "3 sequences needs 3 lengths, got 2"),
        ([1, 2, 3], r"decreasing order, got \[1, 2, 3\].*enforce_sorted=False"),
        (mt.ones(3, 1), r"one axis, got shape \(3, 1\)"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            sequences.pack_padded_sequence(x, lengths)
    with pytest.raises(RuntimeError, match="without sequences"):
        sequences.pack_padded_sequence(x[:, :0], [])
    packed = sequences.pack_padded_sequence(x, [4, 2, 1])
    with pytest.raises(ValueError, match="at least the longest length 4, got 3"):
        sequences.pad_packed_sequence(packed, total_length=3)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_run_each_alone(kind, enforce_sorted):
    mt.manual_seed(0)
    lengths = [5, 3, 3, 1] if enforce_sorted else [3, 1, 5, 3]
    layer = kind(3, 4, 2, bidirectional=True, batch_first=True)
    hx, initial = states_for(kind, 4, 4, 4)
    x = mt.randn(4, 6, 3, requires_grad=True)
    packed = sequences.pack_padded_sequence(x, lengths, True, enforce_sorted)
    output, last = layer(packed, hx)
    assert isinstance(output, sequences.PackedSequence)
    assert mt.equal(output.batch_sizes, packed.batch_sizes)
    padded, counted = sequences.pad_packed_sequence(output, batch_first=True, padding_value=7.0)
    assert counted.tolist() == lengths
    weights = mt.randn(*padded.shape)
    ((padded * weights).sum() + sum((s * s).sum() for s in as_list(last))).backward()
    gradients = [x.grad, *(p.grad for p in layer.parameters())]
    layer.zero_grad()
    alone = x.detach().requires_grad_()
    for b, length in enumerate(lengths):
        states = [s[:, b] for s in initial]
        one, final = layer(alone[b, :length], tuple(states) if kind is nn.LSTM else states[0])
        close(padded[b, :length], one)
        assert (padded[b, length:] == 7).all()
        for got, expected in zip(as_list(last), as_list(final), strict=True):
            close(got[:, b], expected)
        loss = (one * weights[b, :length]).sum() + sum((s * s).sum() for s in as_list(final))
        loss.backward()
        assert not x.grad[b, length:].any(), "padding must get no gradient"
    for got, expected in zip(
        gradients, [alone.grad, *(p.grad for p in layer.parameters())], strict=True
    ):
        np.testing.assert_allclose(got.tolist(), expected.tolist(), rtol=1e-3, atol=1e-5)


def test_padding_cannot_spoil_a_gradient():
    x = mt.tensor([[1.0, 2.0], [3.0, float("nan")]], requires_grad=True)
    packed = sequences.pack_padded_sequence(x, [2, 1])
    padded, _ = sequences.pad_packed_sequence(packed, padding_value=float("inf"))
    (padded * mt.tensor([[1.0, 1.0], [1.0, float("nan")]])).sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 0]]


# Weights that were replaced


def replacing(layer, names):
    """The layer with computed tensors in the place of parameters, and what they come from."""
    raw = {}
    for name in names:
        raw[name] = nn.Parameter(getattr(layer, name).detach().clone())
        delattr(layer, name)
        setattr(layer, name, raw[name] * 2)
    return raw


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, *CELLS.values()])
def test_a_weight_that_was_replaced_is_used(kind, bias):
    mt.manual_seed(0)
    layer = kind(3, 4, bias=bias)
    names = [name for name, _ in layer.named_parameters()]
    plain = copy.deepcopy(layer)
    x, count = mt.randn(5, 3), 5 if kind in CELLS.values() else 1
    hx = (mt.randn(count, 4),) * 2 if layer.states == 2 else mt.randn(count, 4)
    for name in names:
        replaced = copy.deepcopy(layer)
        raw = replacing(replaced, [name])
        got = as_list(replaced(x, hx))[0]
        with mt.no_grad():
            getattr(plain, name).mul_(2)
        expected = as_list(plain(x, hx))[0]
        assert mt.allclose(got, expected) and not mt.allclose(got, as_list(layer(x, hx))[0])
        got.sum().backward()
        expected.sum().backward()
        close(raw[name].grad, getattr(plain, name).grad * 2)
        with mt.no_grad():
            getattr(plain, name).div_(2)
        plain.zero_grad()


@pytest.mark.parametrize("kind", KINDS)
def test_flat_weights_are_what_a_layer_runs_with(kind):
    mt.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    other = copy.deepcopy(layer)
    assert all(
        a is getattr(other, n)
        for a, n in zip(other._flat_weights, other._flat_weights_names, strict=True)
    )
    x = mt.randn(5, 3)
    other._flat_weights = [w * 2 for w in layer._flat_weights]
    for name in layer._flat_weights_names:
        setattr(layer, name, nn.Parameter(getattr(layer, name) * 2))
    assert mt.equal(other(x)[0], layer(x)[0])
    layer._flat_weights[-1] = layer._flat_weights[-1] + 1
    assert not mt.equal(other(x)[0], layer(x)[0])
    assert [w.shape for w in layer.all_weights[-1]] == [w.shape for w in layer._flat_weights[-4:]]


# Parameters as a vector, gradients that are not finite


def test_parameters_as_one_vector():
    parameters = [nn.Parameter(mt.ones(2, 2)), nn.Parameter(mt.zeros(3))]
    vector = nn.utils.parameters_to_vector(iter(parameters))
    assert vector.tolist() == [1, 1, 1, 1, 0, 0, 0]
    nn.utils.vector_to_parameters(mt.arange(7.0), iter(parameters))
    assert parameters[0].tolist() == [[0, 1], [2, 3]] and parameters[1].tolist() == [4, 5, 6]
    assert parameters[0].requires_grad
    with pytest.raises(RuntimeError, match=r"7 elements.*\(7,\); got \(8,\)"):
        nn.utils.vector_to_parameters(mt.zeros(8), parameters)


def test_clip_grad_norm_passes_nan_on():
    parameter = nn.Parameter(mt.ones(2))
    parameter.grad = mt.tensor([1.0, float("nan")])
    assert mt.isnan(nn.utils.clip_grad_norm_([parameter], 1.0))
    assert mt.isnan(parameter.grad).all()
