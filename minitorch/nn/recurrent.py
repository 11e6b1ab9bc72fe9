"""Recurrent layers."""

import math

from minitorch.creation import empty, zeros
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.operations.recurrent import rnn
from minitorch.operations.shapes import cat, stack


def _check_nonlinearity(nonlinearity):
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")


class RNNCell(Module):
    """One step of a plain recurrent network: h' = f(W_ih x + b_ih + W_hh h + b_hh).

    x (B, input_size) and h (B, hidden_size), zeros when left out, give h' (B, hidden_size).
    All parameters start from U(-k, k), k = 1 / sqrt(hidden_size).
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        super().__init__()
        _check_nonlinearity(nonlinearity)
        self.input_size, self.hidden_size, self.nonlinearity = input_size, hidden_size, nonlinearity
        self.weight_ih = Parameter(empty(hidden_size, input_size))
        self.weight_hh = Parameter(empty(hidden_size, hidden_size))
        self.register_parameter("bias_ih", Parameter(empty(hidden_size)) if bias else None)
        self.register_parameter("bias_hh", Parameter(empty(hidden_size)) if bias else None)
        _reset(self)

    def forward(self, input, hx=None):
        if hx is None:
            hx = zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
        before = F.linear(input, self.weight_ih, self.bias_ih)
        before = before + F.linear(hx, self.weight_hh, self.bias_hh)
        return before.tanh() if self.nonlinearity == "tanh" else before.relu()

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}"


def _reset(module):
    """Every parameter from U(-k, k), k = 1 / sqrt(hidden_size)."""
    bound = 1 / math.sqrt(module.hidden_size) if module.hidden_size else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class RNN(Module):
    """A plain recurrent network over whole sequences (Elman, 1990).

    h_t = f(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh) with f = tanh or relu, for each layer; the
    sequence of states of one layer is the input of the next.

    Input (T, B, input_size), or (B, T, input_size) with ``batch_first``, or (T, input_size) without
    a batch; h_0 (layers * directions, B, hidden_size), zeros when left out. Returns the states of
    the last layer (T, B, directions * hidden_size) and the last state of every layer and direction
    (layers * directions, B, hidden_size).
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        nonlinearity="tanh",
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
    ):
        super().__init__()
        _check_nonlinearity(nonlinearity)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.nonlinearity, self.bias, self.batch_first = nonlinearity, bias, batch_first
        self.dropout, self.bidirectional = dropout, bidirectional
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * directions
            for suffix in self._suffixes(layer):
                self.register_parameter(f"weight_ih{suffix}", Parameter(empty(hidden_size, width)))
                self.register_parameter(
                    f"weight_hh{suffix}", Parameter(empty(hidden_size, hidden_size))
                )
                if bias:
                    self.register_parameter(f"bias_ih{suffix}", Parameter(empty(hidden_size)))
                    self.register_parameter(f"bias_hh{suffix}", Parameter(empty(hidden_size)))
        _reset(self)

    def _suffixes(self, layer):
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def forward(self, input, hx=None):
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"RNN(input_size={self.input_size}) got input of shape {tuple(input.shape)}: "
                f"it must be (T, B, {self.input_size}), (B, T, {self.input_size}) with "
                f"batch_first=True, or (T, {self.input_size}) without a batch"
            )
        batched = input.ndim == 3
        if not batched:
            input = input.unsqueeze(1)
            hx = None if hx is None else hx.unsqueeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        rows = self.num_layers * (2 if self.bidirectional else 1)
        expected = (rows, input.shape[1], self.hidden_size)
        if hx is None:
            hx = zeros(*expected, dtype=input.dtype, device=input.device)
        elif tuple(hx.shape) != expected:
            raise RuntimeError(f"h_0 must have shape {expected}, got {tuple(hx.shape)}")

        output, last = input, []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                output = F.dropout(output, self.dropout, self.training)
            runs = []
            for reverse, suffix in enumerate(self._suffixes(layer)):
                states, final = self._run(output, hx[len(last)], suffix, bool(reverse))
                runs.append(states)
                last.append(final)
            output = cat(runs, dim=-1) if self.bidirectional else runs[0]
        hidden = stack(last)
        if not batched:
            return output.squeeze(1), hidden.squeeze(1)
        return output.transpose(0, 1) if self.batch_first else output, hidden

    def _run(self, input, hidden, suffix, reverse):
        """One layer in one direction: all states (T, B, H) and the last one (B, H)."""
        bias = None
        if self.bias:
            bias = getattr(self, f"bias_ih{suffix}") + getattr(self, f"bias_hh{suffix}")
        weight_ih = getattr(self, f"weight_ih{suffix}")
        weight_hh = getattr(self, f"weight_hh{suffix}")
        return rnn(input, hidden, weight_ih, weight_hh, bias, self.nonlinearity, reverse)

    def extra_repr(self):
        shown = [f"{self.input_size}, {self.hidden_size}"]
        if self.num_layers != 1:
            shown.append(f"num_layers={self.num_layers}")
        shown += [f"{n}=True" for n in ("batch_first", "bidirectional") if getattr(self, n)]
        return ", ".join(shown)
