"""Recurrent layers and cells, packed sequences, padding, clipping."""

from itertools import product


def _layer(kind):
    """All combinations of what the constructor takes, then states, packing and errors."""
    state = "(x({s}), x({s}))" if kind == "LSTM" else "x({s})"
    for layers, both, first, bias in product((1, 2), (False, True), (False, True), (True, False)):
        options = f"{layers}, bias={bias}, batch_first={first}, bidirectional={both}"
        yield f"m(nn.{kind}(3, 4, {options}))(x(2, 5, 3))"
    for both in (False, True):
        start = state.replace("{s}", f"{2 * (1 + both)}, 2, 4")
        net = f"m(nn.{kind}(3, 4, num_layers=2, bidirectional={both}))"
        yield f"{net}(x(5, 2, 3), {start})"
        yield f"{net}(x(5, 3))"
        yield f"{net}(x(1, 1, 3))"
        yield f"{net}(x.plain(5, 2, 3), {start})[0][-1]"
        for lengths, enforce in (("[4, 2, 1]", True), ("[1, 4, 2]", False)):
            packed = f"p = nn.utils.rnn.pack_padded_sequence(x(4, 3, 3), {lengths}, "
            packed += f"enforce_sorted={enforce}); y, h = {net}(p); "
            yield packed + "nn.utils.rnn.pad_packed_sequence(y), h"
            yield packed + "y.data, y.batch_sizes"
        start3 = state.replace("{s}", f"{2 * (1 + both)}, 3, 4")
        yield (
            f"p = nn.utils.rnn.pack_padded_sequence(x(3, 4, 3), torch.tensor([1, 4, 2]), "
            f"batch_first=True, enforce_sorted=False); y, h = {net.replace('2,', '2, batch_first=True,')}"
            f"(p, {start3}); nn.utils.rnn.pad_packed_sequence(y, batch_first=True), h"
        )
    yield (
        f"m(nn.{kind}(3, 4))(x(5, 0, 3))[0].shape"
        if kind == "none"
        else f"nn.{kind}(3, 4).hidden_size"
    )
    yield f"m(nn.{kind}(3, 4))(x(2, 5, 3).transpose(0, 1))"
    yield f"m(nn.{kind}(3, 4).double())(x.double(5, 2, 3))"
    yield f"m(nn.{kind}(3, 4, dropout=0.0, num_layers=2))(x(5, 2, 3))"
    yield f"n = m(nn.{kind}(3, 4, 2, dropout=0.5)); n.eval(); n(x(5, 2, 3))"
    yield f"[(k, p.shape) for k, p in nn.{kind}(3, 4, 2, bidirectional=True).named_parameters()]"
    yield f"bool(nn.{kind}(3, 16).weight_hh_l0.abs().max() <= 0.25)"
    yield f"n = m(nn.{kind}(3, 4)); n.flatten_parameters(); n(x(5, 2, 3))"
    yield f"h = None; n = m(nn.{kind}(3, 4)); a, h = n(x(2, 1, 3), h); b, h = n(x(3, 1, 3), h); a, b, h"
    yield f"nn.{kind}(3, 4, 2, batch_first=True).batch_first, nn.{kind}(3, 4, 2).num_layers"
    yield f"!m(nn.{kind}(3, 4))(x(5, 2, 4))"
    yield f"!m(nn.{kind}(3, 4))(x(3))"
    yield f"!m(nn.{kind}(3, 4))(x(2, 5, 2, 3))"
    wrong = state.replace("{s}", "1, 3, 4")
    yield f"!m(nn.{kind}(3, 4))(x(5, 2, 3), {wrong})"
    yield f"!m(nn.{kind}(3, 4))(x(0, 2, 3))"


def _cell(kind):
    state = "(x(2, 4), x(2, 4))" if kind == "LSTM" else "x(2, 4)"
    name = f"nn.{kind}Cell"
    yield f"m({name}(3, 4))(x(2, 3))"
    yield f"m({name}(3, 4))(x(2, 3), {state})"
    yield f"m({name}(3, 4, bias=False))(x(2, 3), {state})"
    yield f"m({name}(3, 4))(x(3))"
    yield f"list({name}(3, 4).state_dict())"
    yield f"c = m({name}(3, 4)); h = {state}; [h := c(x(2, 3), h) for _ in range(3)]; h"
    yield f"!m({name}(3, 4))(x(2, 5))"
    yield f"!m({name}(3, 4))(x(2, 3), {state.replace('2, 4', '3, 4')})"


_PACK = "nn.utils.rnn.pack_padded_sequence"
_UNPACK = "nn.utils.rnn.pad_packed_sequence"

TABLE = {
    **{kind: "\n".join(_layer(kind)) for kind in ("RNN", "LSTM", "GRU")},
    **{f"{kind}Cell": "\n".join(_cell(kind)) for kind in ("RNN", "LSTM", "GRU")},
    "pack_padded_sequence": f"""
        p = {_PACK}(x(4, 3, 2), [4, 2, 1]); p.data, p.batch_sizes, p.sorted_indices
        p = {_PACK}(x(3, 4, 2), torch.tensor([4, 2, 1]), batch_first=True); p.data, p.batch_sizes
        p = {_PACK}(x(4, 3, 2), [1, 4, 2], enforce_sorted=False); \
p.data, p.batch_sizes, p.sorted_indices, p.unsorted_indices
        p = {_PACK}(x.ints(4, 3), [4, 4, 4]); p.data
        p = {_PACK}(x(4, 1, 2), [3]); p.data
        type({_PACK}(x(4, 1, 2), [3])).__name__
        nn.utils.rnn.pack_sequence([x(3, 2), x(2, 2)]).data
        {_PACK}(x(3, 4, 2), torch.tensor([4, 2, 1]).cpu(), batch_first=True).batch_sizes
        !{_PACK}(x(4, 3, 2), [1, 4, 2])
        !{_PACK}(x(4, 3, 2), [4, 2, 0])
        !{_PACK}(x(4, 3, 2), [5, 2, 1])  ## RuntimeError at once: PyTorch fails only in backward
        !{_PACK}(x(4, 3, 2), [4, 2])
        """,
    "pad_packed_sequence": f"""
        {_UNPACK}({_PACK}(x(4, 3, 2), [4, 2, 1]))
        {_UNPACK}({_PACK}(x(4, 3, 2), [3, 2, 1]))
        {_UNPACK}({_PACK}(x(4, 3, 2), [3, 2, 1]), total_length=4)
        {_UNPACK}({_PACK}(x(4, 3, 2), [3, 2, 1]), padding_value=-1.0)
        {_UNPACK}({_PACK}(x(4, 3, 2), [1, 4, 2], enforce_sorted=False))
        {_UNPACK}({_PACK}(x(3, 4, 2), [1, 4, 2], True, False), batch_first=True)
        !{_UNPACK}({_PACK}(x(4, 3, 2), [4, 2, 1]), total_length=2)
        """,
    "pad_sequence": """
        nn.utils.rnn.pad_sequence([x(3, 2), x(1, 2), x(2, 2)])
        nn.utils.rnn.pad_sequence([x(3), x(1)], batch_first=True)
        nn.utils.rnn.pad_sequence([x.ints(3), x.ints(1)], batch_first=True, padding_value=9)
        nn.utils.rnn.pad_sequence([x(2, 2)], True)
        !nn.utils.rnn.pad_sequence([])
        """,
    "clip_grad_norm_": """
        a, b = x(3), x(2, 2); (a.sum() * 3 + (b * b).sum()).backward(); \
n = nn.utils.clip_grad_norm_([a, b], 1.0); n, a.grad, b.grad
        a = x(3); a.sum().backward(); nn.utils.clip_grad_norm_([a], 100.0), a.grad
        a = x(3); a.sum().backward(); nn.utils.clip_grad_norm_(a, 0.5), a.grad
        a, b = x(3), x(2); a.sum().backward(); nn.utils.clip_grad_norm_([a, b], 0.5), b.grad
        a = x(3); a.sum().backward(); nn.utils.clip_grad_norm_([a], 0.5, norm_type=1), a.grad
        a = x(3); a.sum().backward(); nn.utils.clip_grad_norm_([a], 0.5, norm_type=float('inf'))
        a = x(3); (a * 5).sum().backward(); nn.utils.clip_grad_value_([a], 0.25); a.grad
        l = m(nn.Linear(2, 2)); l(x(3, 2)).sum().backward(); \
nn.utils.clip_grad_norm_(l.parameters(), max_norm=0.1)
        nn.utils.clip_grad_norm_([x(2)], 1.0)
        a = x(2); a.sum().backward(); nn.utils.clip_grad_norm_([a], 0.5).item()
        nn.utils.parameters_to_vector(m(nn.Linear(2, 2)).parameters())
        """,
}
