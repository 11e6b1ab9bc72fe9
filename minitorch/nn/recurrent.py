"""Recurrent layers over whole sequences, and their cells for one step at a time."""

import math
import warnings

from minitorch.creation import empty, zeros
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.compat.recurrent import projected_lstm
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.nn.utils.rnn import PackedSequence
from minitorch.operations.recurrent import gru, lstm, rnn
from minitorch.operations.shapes import cat, stack

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell"]


def _check_nonlinearity(nonlinearity):
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")


class _Recurrent(Module):
    """What layers and cells share: parameters in blocks of ``hidden_size`` rows, one a gate.

    All start from U(-k, k), k = 1 / sqrt(hidden_size). ``states`` is 2 for an LSTM, which carries
    a hidden state and a cell, and 1 for the others. With ``proj_size`` the hidden state, but not
    the cell, has that size: ``weight_hr`` projects it.
    """

    gates = 1
    states = 1
    proj_size = 0
    layout = ""

    def __init__(self, input_size, hidden_size, bias):
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero, got {size}")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias

    def _add_parameters(self, width, suffix, device, dtype):
        rows, state = self.gates * self.hidden_size, self.proj_size or self.hidden_size
        shapes = {"weight_ih": (rows, width), "weight_hh": (rows, state)}
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if self.bias else {}
        shapes |= {"weight_hr": (state, self.hidden_size)} if self.proj_size else {}
        for name, shape in shapes.items():
            tensor = Parameter(empty(*shape, device=device, dtype=dtype))
            self.register_parameter(name + suffix, tensor)
        return [name + suffix for name in shapes]

    def _operands(self, weights):
        """Both weights, both biases, which are None if there are none, and a projection if any."""
        return weights if self.bias else [*weights[:2], None, None, *weights[2:]]

    def reset_parameters(self):
        """Draw all parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _check_input(self, input, dims, weight):
        name = type(self).__name__
        if input.ndim not in dims:
            raise ValueError(
                f"{name}: expected input with {dims[0]} or {dims[1]} axes, got {input.ndim}: "
                f"shape {tuple(input.shape)}"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}(input_size={self.input_size}) got input of shape {tuple(input.shape)}: "
                f"it must be {self.layout.format(self.input_size)}"
            )
        if input.dtype != weight.dtype:
            raise ValueError(
                f"{name} has weights of type {weight.dtype} and got input of type {input.dtype}: "
                f"convert the input with .to({weight.dtype}) or the model with .to({input.dtype})"
            )

    def _initial(self, hx, input, *lead):
        """The initial states (*lead, size) as a list: zeros where none are given."""
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: self.states]
        if hx is None:
            return [zeros(*lead, n, dtype=input.dtype, device=input.device) for n in sizes]
        given = list(hx) if isinstance(hx, (tuple, list)) else [hx]
        names = ["h_0", "c_0"][: self.states]
        if len(given) != self.states:
            raise TypeError(
                f"the initial state of {type(self).__name__} is {' and '.join(names)}; "
                f"got {len(given)} tensor{'s' * (len(given) > 1)}"
            )
        for name, tensor, size in zip(names, given, sizes, strict=True):
            if tuple(tensor.shape) != (*lead, size):
                raise RuntimeError(
                    f"{name} must have shape {(*lead, size)}, got {tuple(tensor.shape)}"
                )
        return given

    def _hidden(self, states):
        """The final states as PyTorch returns them: a tuple only if there are two."""
        return tuple(states) if self.states > 1 else states[0]


class RNNBase(_Recurrent):
    """Layers of one ``operation``, each in one or two directions; see RNN, LSTM and GRU.

    Input (T, B, input_size), or (B, T, input_size) with ``batch_first``, or (T, input_size) without
    a batch, or a PackedSequence; initial states (layers * directions, B, hidden_size), zeros when
    left out. Returns the hidden states of the last layer, laid out as the input, (T, B, directions
    * hidden_size), and the last state of every layer and direction, shaped as the initial ones. A
    layer's states, those of both directions side by side, are the input of the next.
    """

    layout = "(T, B, {0}), (B, T, {0}) with batch_first=True, or (T, {0}) without a batch"

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__(input_size, hidden_size, bias)
        if num_layers <= 0:
            raise ValueError(f"num_layers must be greater than zero, got {num_layers}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability between 0 and 1, got {dropout}")
        if proj_size and self.states == 1:
            raise ValueError(f"proj_size is for LSTM only, got {proj_size}: put a Linear after")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size must be 0, or above it and below hidden_size={hidden_size}; "
                f"got {proj_size}"
            )
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} lies between layers, so it does nothing with num_layers=1",
                stacklevel=3,
            )
        self.num_layers, self.batch_first = num_layers, batch_first
        self.dropout, self.bidirectional, self.proj_size = dropout, bidirectional, proj_size
        suffixes = ["", "_reverse"][: 2 if bidirectional else 1]
        names = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else (proj_size or hidden_size) * len(suffixes)
            for suffix in suffixes:
                names += self._add_parameters(width, f"_l{layer}{suffix}", device, dtype)
        self._flat_weights_names = names
        self._flat_weights = [getattr(self, name) for name in names]
        self.reset_parameters()

    def __setattr__(self, name, value):
        """Whatever takes the place of a weight, also a tensor that was computed, is used."""
        super().__setattr__(name, value)
        names = self.__dict__.get("_flat_weights_names", ())
        if name in names:
            self._flat_weights[names.index(name)] = value

    @property
    def all_weights(self):
        """A list of weights for each layer and direction."""
        count = len(self._flat_weights) // self._runs
        return [self._flat_weights[i : i + count] for i in range(0, count * self._runs, count)]

    def flatten_parameters(self):
        """Nothing: PyTorch rearranges memory for cuDNN here, and programs call it."""

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_input(input, (2, 3), self._flat_weights[0])
        alone = input.ndim == 2
        if self.batch_first and not alone:
            input = input.transpose(0, 1)
        steps, *batch = input.shape[:-1]
        if not steps:
            raise RuntimeError("a sequence must have at least one step, got one of length 0")
        states = self._initial(hx, input, self._runs, *batch)
        if not alone:
            output, states = self._layers(input, states)
            return output.transpose(0, 1) if self.batch_first else output, self._hidden(states)
        output, states = self._layers(input.unsqueeze(1), [s.unsqueeze(1) for s in states])
        return output.squeeze(1), self._hidden([s.squeeze(1) for s in states])

    def _forward_packed(self, packed, hx):
        """Sequences run longest first; the states are those of the batch in its own order."""
        data, batch_sizes, order, back = packed
        self._check_input(data, (2, 2), self._flat_weights[0])
        sizes = batch_sizes.tolist()
        states = self._initial(hx, data, self._runs, sizes[0])
        if hx is not None and order is not None:
            states = [s.index_select(1, order) for s in states]
        output, states = self._layers(data, states, sizes)
        if back is not None:
            states = [s.index_select(1, back) for s in states]
        return PackedSequence(output, batch_sizes, order, back), self._hidden(states)

    @property
    def _runs(self):
        return self.num_layers * (1 + self.bidirectional)

    def _layers(self, output, states, batch_sizes=None):
        finals, weights = [], [self._operands(each) for each in self.all_weights]
        for layer in range(self.num_layers):
            if layer and self.dropout:
                output = F.dropout(output, self.dropout, self.training)
            runs = []
            for reverse in [False, True][: 2 if self.bidirectional else 1]:
                initial, own = [s[len(finals)] for s in states], weights[len(finals)]
                run, *final = self.operation(output, *initial, *own, batch_sizes, reverse)
                runs.append(run)
                finals.append(final)
            output = cat(runs, dim=-1) if self.bidirectional else run
        return output, [stack(each) for each in zip(*finals, strict=True)]

    def extra_repr(self):
        defaults = dict(proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0.0)
        defaults["bidirectional"] = False
        shown = [f"{n}={getattr(self, n)}" for n, d in defaults.items() if getattr(self, n) != d]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


class RNN(RNNBase):
    """A plain recurrent network over whole sequences (Elman, 1990); shapes as in RNNBase.

    h_t = f(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh) with f = tanh or relu.
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", *args, **kwargs):
        _check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity

    def operation(self, *args):
        """The fused operation of one layer and direction."""
        return rnn(*args, self.nonlinearity)


class LSTM(RNNBase):
    """Long short-term memory over whole sequences (Hochreiter and Schmidhuber, 1997).

    c_t = f * c_(t-1) + i * g and h_t = o * tanh(c_t), where the gates i, f, o are sigmoids and the
    candidate g is a tanh of W_ih x_t + b_ih + W_hh h_(t-1) + b_hh. The weights hold the rows of i,
    f, g, o in this order: (4 * hidden_size, ...). Shapes as in RNNBase; states are pairs (h, c).
    With ``proj_size``, h_t = W_hr (o * tanh(c_t)) has that size (Sak, Senior and Beaufays, 2014).
    """

    gates, states = 4, 2

    def operation(self, *args):
        """The fused operation of one layer and direction; with a projection, step by step."""
        return projected_lstm(*args) if self.proj_size else lstm(*args)


class GRU(RNNBase):
    """Gated recurrent units over whole sequences (Cho et al., 2014); shapes as in RNNBase.

    h_t = (1 - z) * n + z * h_(t-1), n = tanh(W_in x_t + b_in + r * (W_hn h_(t-1) + b_hn)), where
    the gates r, z are sigmoids. The weights hold the rows of r, z, n in this order.
    """

    gates = 3
    operation = staticmethod(gru)


class RNNCellBase(_Recurrent):
    """One step: x (B, input_size) or (input_size), and states (B, hidden_size) or (hidden_size).

    Returns the new states. Those left out are zeros.
    """

    layout = "(B, {0}), or ({0},) without a batch"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias)
        self._names = self._add_parameters(input_size, "", device, dtype)
        self.reset_parameters()

    def _weights(self):
        return self._operands([getattr(self, name) for name in self._names])

    def _checked(self, input, hx):
        self._check_input(input, (1, 2), self.weight_ih)
        return self._initial(hx, input, *input.shape[:-1])

    def forward(self, input, hx=None):
        states = self._checked(input, hx)
        sequence = input.unsqueeze(0)
        if input.ndim == 1:
            sequence, states = sequence.unsqueeze(0), [s.unsqueeze(0) for s in states]
        _, *states = self.operation(sequence, *states, *self._weights())
        return self._hidden([s.squeeze(0) for s in states] if input.ndim == 1 else states)

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """One step of a plain recurrent network: h' = f(W_ih x + b_ih + W_hh h + b_hh).

    x (B, input_size) and h (B, hidden_size) give h' (B, hidden_size); f is tanh or relu. Written in
    plain operations: it is the definition that ``RNN`` is compared with.
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", **factory):
        _check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias, **factory)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        [hx] = self._checked(input, hx)
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights()
        before = F.linear(input, weight_ih, bias_ih) + F.linear(hx, weight_hh, bias_hh)
        return before.tanh() if self.nonlinearity == "tanh" else before.relu()

    def extra_repr(self):
        relu = ", nonlinearity=relu" if self.nonlinearity == "relu" else ""
        return super().extra_repr() + relu


class LSTMCell(RNNCellBase):
    """One step of an LSTM: x and (h, c) give (h', c'), by the equations of ``LSTM``."""

    gates, states = 4, 2
    operation = staticmethod(lstm)


class GRUCell(RNNCellBase):
    """One step of a GRU: x and h give h', by the equations of ``GRU``."""

    gates = 3
    operation = staticmethod(gru)
