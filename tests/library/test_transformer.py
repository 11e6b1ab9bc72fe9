"""Multi-head attention and the Transformer: against compositions, masks, keys, options."""

import itertools

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn

E, H, B, N, M = 6, 2, 3, 4, 5


@pytest.fixture(autouse=True)
def _seed():
    mt.manual_seed(0)


def close(got, expected, rtol=1e-9):
    np.testing.assert_allclose(
        got.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=1e-12
    )


def normal(*shape):
    return mt.randn(*shape, dtype=mt.float64)


def randomised(module):
    """In float64, with biases and gains that are not the trivial ones."""
    module.double()
    with mt.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.normal_(0.5)
    return module


def by_hand(layer, query, key, value, hidden=None):
    """One head after the other, for one batch element: (n, E), and weights (h, n, m)."""
    matrices = [layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight]
    if layer.in_proj_weight is not None:
        matrices = [layer.in_proj_weight[i * E : (i + 1) * E] for i in range(3)]
    biases = layer.in_proj_bias if layer.in_proj_bias is not None else mt.zeros(3 * E).double()
    q, k, v = (
        x @ w.T + biases[i * E : (i + 1) * E]
        for i, (x, w) in enumerate(zip((query, key, value), matrices, strict=True))
    )
    outputs, weights = [], []
    d = E // H
    for head in range(H):
        part = slice(head * d, (head + 1) * d)
        scores = q[:, part] @ k[:, part].T / d**0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -mt.inf)
        weights.append(F.softmax(scores, -1))
        outputs.append(weights[-1] @ v[:, part])
    return layer.out_proj(mt.cat(outputs, -1)), mt.stack(weights)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 3, "vdim": 8}])
def test_heads_are_attentions_side_by_side(options, batch_first, need_weights):
    layer = randomised(nn.MultiheadAttention(E, H, batch_first=batch_first, **options))
    query = normal(B, N, E)
    key, value = normal(B, M, options.get("kdim", E)), normal(B, M, options.get("vdim", E))
    lengths = mt.tensor([5, 2, 4])
    padding = mt.arange(M) >= lengths.unsqueeze(1)
    forbidden = mt.zeros(N, M).bool()
    forbidden[1, 1] = True
    inputs = [query, key, value]
    if not batch_first:
        inputs = [x.transpose(0, 1) for x in inputs]
    output, weights = layer(
        *inputs, padding, need_weights, attn_mask=forbidden, average_attn_weights=False
    )
    output = output if batch_first else output.transpose(0, 1)
    assert output.shape == (B, N, E)
    for i in range(B):
        expected, each = by_hand(layer, query[i], key[i], value[i], padding[i] | forbidden)
        close(output[i], expected)
        if need_weights:
            close(weights[i], each)
    assert need_weights or weights is None


def test_self_attention_equals_the_three_products():
    layer = randomised(nn.MultiheadAttention(E, H, batch_first=True))
    x = normal(B, N, E).requires_grad_()
    results = []
    for arguments in ((x, x, x), (x, x.clone(), x.clone())):
        layer.zero_grad()
        x.grad = None
        output, weights = layer(*arguments)
        (output * mt.arange(E)).sum().backward()
        results.append([output, weights, x.grad, *(p.grad for p in layer.parameters())])
    for one, other in zip(*results, strict=True):
        close(one, other)


def test_masks_of_every_kind_agree():
    layer = randomised(nn.MultiheadAttention(E, H, batch_first=True))
    x = normal(B, N, E)
    future = mt.ones(N, N).triu(1).bool()
    padding = mt.zeros(B, N).bool()
    padding[1, 2:] = True
    added = mt.zeros(N, N).double().masked_fill(future, -mt.inf)
    per_head = future.expand(B * H, N, N)
    padding_added = mt.zeros(B, N).double().masked_fill(padding, -mt.inf)
    expected, _ = layer(x, x, x, padding, attn_mask=future)
    for mask, pad, weights in itertools.product(
        (future, added, per_head), (padding, padding_added), (True, False)
    ):
        close(layer(x, x, x, pad, weights, mask)[0], expected)
    causal, _ = layer(x, x, x, attn_mask=future)
    close(layer(x, x, x, need_weights=False, attn_mask=future, is_causal=True)[0], causal)
    close(layer(x, x, x, padding, False, future, is_causal=True)[0], expected)
    for i in range(B):
        single, weights = layer(x[i], x[i], x[i], padding[i], attn_mask=future)
        close(single, expected[i])
        assert single.shape == (N, E) and weights.shape == (N, N)


def test_average_of_the_weights():
    layer = nn.MultiheadAttention(E, H)
    x = mt.randn(N, B, E)
    _, each = layer(x, x, x, average_attn_weights=False)
    _, average = layer(x, x, x)
    assert each.shape == (B, H, N, N) and average.shape == (B, N, N)
    close(average, each.mean(1))
    close(each.sum(-1), mt.ones(B, H, N), rtol=1e-5)


def test_dropout_of_weights_only_in_training():
    layer = nn.MultiheadAttention(E, H, dropout=0.5)
    x = mt.randn(20, B, E)
    for need_weights in (True, False):
        assert not mt.equal(*(layer.train()(x, x, x, None, need_weights)[0] for _ in range(2)))
        assert mt.equal(*(layer.eval()(x, x, x, None, need_weights)[0] for _ in range(2)))
    _, weights = layer.train()(x, x, x, average_attn_weights=False)
    assert 0.4 < (weights == 0).float().mean().item() < 0.6


def test_padding_gets_no_gradient_and_changes_nothing():
    layer = randomised(nn.MultiheadAttention(E, H, batch_first=True))
    memory = normal(B, M, E).requires_grad_()
    query = normal(B, N, E)
    padding = mt.arange(M) >= mt.tensor([[5], [2], [1]])
    for need_weights in (True, False):
        memory.grad = None
        output, _ = layer(query, memory, memory, padding, need_weights)
        output.sum().backward()
        assert not memory.grad[padding].any() and memory.grad[~padding].all()
        longer = mt.cat([memory.detach(), normal(B, 7, E)], 1)
        more = mt.cat([padding, mt.ones(B, 7).bool()], 1)
        close(layer(query, longer, longer, more, need_weights)[0], output)


def test_a_query_that_sees_nothing_is_as_in_pytorch():
    """NaN where the weights are asked for, else the bias of the last projection."""
    layer = randomised(nn.MultiheadAttention(E, H, batch_first=True))
    x = normal(2, N, E).requires_grad_()
    padding = mt.tensor([[False] * N, [True] * N])
    output, weights = layer(x, x, x, padding)
    assert output[1].isnan().all() and weights[1].isnan().all() and output[0].isfinite().all()
    output, _ = layer(x, x, x, padding, need_weights=False)
    close(output[1], layer.out_proj.bias.expand(N, E))
    output.sum().backward()
    assert x.grad.isfinite().all() and not x.grad[1].any()


@pytest.mark.parametrize("need_weights", [True, False])
def test_batch_of_zero_and_length_one(need_weights):
    layer = nn.MultiheadAttention(E, H, batch_first=True)
    for shape in ((0, N, E), (2, 1, E), (2, 0, E)):
        x = mt.randn(shape).requires_grad_()
        output, _ = layer(x, x, x, need_weights=need_weights)
        assert output.shape == shape
        output.sum().backward()
        assert x.grad.shape == shape


def test_state_and_first_values():
    layer = nn.MultiheadAttention(64, 4)
    assert {name: tuple(p.shape) for name, p in layer.state_dict().items()} == {
        "in_proj_weight": (192, 64),
        "in_proj_bias": (192,),
        "out_proj.weight": (64, 64),
        "out_proj.bias": (64,),
    }
    bound = (6 / (192 + 64)) ** 0.5
    assert 0.9 * bound < layer.in_proj_weight.abs().max().item() <= bound
    assert layer.out_proj.weight.abs().max().item() <= 1 / 8
    assert not layer.in_proj_bias.any() and not layer.out_proj.bias.any()
    apart = nn.MultiheadAttention(E, H, bias=False, kdim=3, vdim=8)
    assert {name: tuple(p.shape) for name, p in apart.state_dict().items()} == {
        "q_proj_weight": (E, E),
        "k_proj_weight": (E, 3),
        "v_proj_weight": (E, 8),
        "out_proj.weight": (E, E),
    }


def test_errors_of_attention():
    with pytest.raises(AssertionError, match="7 must be divisible by num_heads 2"):
        nn.MultiheadAttention(7, 2)
    with pytest.raises(NotImplementedError, match="add_bias_kv"):
        nn.MultiheadAttention(4, 2, add_bias_kv=True)
    layer, x = nn.MultiheadAttention(E, H, batch_first=True), mt.zeros(B, N, E)
    for error, message, arguments in [
        (RuntimeError, "is_causal=True is a hint", {"is_causal": True}),
        (RuntimeError, r"\(2, 2\), but should be \(4, 4\)", {"attn_mask": mt.zeros(2, 2)}),
        (RuntimeError, r"should be \(6, 4, 4\)", {"attn_mask": mt.zeros(B, N, N)}),
        (AssertionError, r"should be \(3, 4\)", {"key_padding_mask": mt.zeros(N, B)}),
        (AssertionError, "boolean", {"key_padding_mask": mt.zeros(B, N).long()}),
    ]:
        with pytest.raises(error, match=message):
            layer(x, x, x, **arguments)
    for message, arguments in [
        ("expecting embedding dimension 6", (x[..., :5], x, x)),
        ("last sizes 6, 6", (x, x[..., :5], x)),
        ("differ in number", (x, x[:, :2], x)),
        ("must all have 3 axes", (x[0], x, x)),
    ]:
        with pytest.raises(AssertionError, match=message):
            layer(*arguments)


# Layers


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", F.silu, nn.Tanh()])
def test_encoder_layer_is_its_formula(norm_first, activation):
    layer = randomised(
        nn.TransformerEncoderLayer(
            E, H, 9, 0.0, activation, batch_first=True, norm_first=norm_first
        )
    )
    function = getattr(F, activation) if isinstance(activation, str) else activation
    padding = mt.arange(N) >= mt.tensor([[4], [2], [1]])

    def attend(x):
        return layer.self_attn(x, x, x, padding)[0]

    def feed_forward(x):
        return layer.linear2(function(layer.linear1(x)))

    x = normal(B, N, E)
    output = layer(x, src_key_padding_mask=padding)
    if norm_first:
        x = x + attend(layer.norm1(x))
        x = x + feed_forward(layer.norm2(x))
    else:
        x = layer.norm1(x + attend(x))
        x = layer.norm2(x + feed_forward(x))
    close(output, x)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_is_its_formula(norm_first):
    layer = randomised(nn.TransformerDecoderLayer(E, H, 9, 0.0, norm_first=norm_first))
    tgt, memory = normal(M, B, E), normal(N, B, E)
    future = mt.ones(M, M).triu(1).bool()
    padding = mt.arange(N) >= mt.tensor([[4], [2], [1]])
    output = layer(tgt, memory, future, memory_key_padding_mask=padding, tgt_is_causal=True)

    def attend(x):
        return layer.self_attn(x, x, x, attn_mask=future)[0]

    def look(x):
        return layer.multihead_attn(x, memory, memory, padding)[0]

    def feed_forward(x):
        return layer.linear2(F.relu(layer.linear1(x)))

    x = tgt
    for norm, part in zip(
        (layer.norm1, layer.norm2, layer.norm3), (attend, look, feed_forward), strict=True
    ):
        x = x + part(norm(x)) if norm_first else norm(x + part(x))
    close(output, x)


def test_layers_drop_in_training_only():
    layer = nn.TransformerDecoderLayer(E, H, 9, 0.5)
    assert [m.p for m in layer.modules() if isinstance(m, nn.Dropout)] == [0.5] * 4
    x = mt.randn(N, B, E)
    assert not mt.equal(layer(x, x), layer(x, x))
    layer.eval()
    assert mt.equal(layer(x, x), layer(x, x))


def test_names_of_the_parameters():
    attention = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]

    def expected(names):
        keys = []
        for name in names:
            if name.endswith("attn"):
                keys += [f"{name}.{key}" for key in attention]
            else:
                keys += [f"{name}.weight", f"{name}.bias"]
        return keys

    encoder = ["self_attn", "linear1", "linear2", "norm1", "norm2"]
    decoder = ["self_attn", "multihead_attn", "linear1", "linear2", "norm1", "norm2", "norm3"]
    model = nn.Transformer(E, H, 2, 1, 9)
    assert list(model.state_dict()) == expected(
        [f"encoder.layers.{i}.{name}" for i in range(2) for name in encoder]
        + ["encoder.norm"]
        + [f"decoder.layers.0.{name}" for name in decoder]
        + ["decoder.norm"]
    )
    bare = nn.TransformerDecoderLayer(E, H, 9, bias=False).state_dict()
    assert not any(name.endswith("bias") for name in bare)


def test_encoder_copies_its_layer():
    layer = nn.TransformerEncoderLayer(E, H, 9, 0.0)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(E))
    first, second = encoder.layers
    assert mt.equal(first.linear1.weight, second.linear1.weight)
    assert len({id(m.linear1.weight) for m in (first, second, layer)}) == 3
    x = mt.randn(N, B, E)
    close(encoder(x), encoder.norm(second(first(x))))
    close(nn.TransformerEncoder(layer, 1)(x), layer(x))


# The whole


def model(**options):
    return randomised(nn.Transformer(E, H, 2, 2, 9, 0.0, batch_first=True, **options))


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_is_encoder_then_decoder(norm_first):
    net = model(norm_first=norm_first, activation="gelu")
    src, tgt = normal(B, N, E), normal(B, M, E)
    future = nn.Transformer.generate_square_subsequent_mask(M, dtype=mt.float64)
    padding = mt.arange(N) >= mt.tensor([[4], [2], [1]])
    memory = net.encoder(src, src_key_padding_mask=padding)
    expected = net.decoder(tgt, memory, future, memory_key_padding_mask=padding)
    masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    output = net(src, tgt, tgt_mask=future, **masks)
    close(output, expected)
    close(net(src, tgt, tgt_mask=future, tgt_is_causal=True, **masks), expected)
    for i, length in enumerate((4, 2, 1)):
        alone = net(src[i : i + 1, :length], tgt[i : i + 1], tgt_mask=future)
        close(alone[0], output[i])


def test_no_position_sees_the_future_or_padding():
    net = model()
    src, tgt = normal(B, N, E).requires_grad_(), normal(B, M, E).requires_grad_()
    future = mt.ones(M, M).triu(1).bool()
    padding = mt.arange(N) >= mt.tensor([[4], [2], [1]])
    for t in range(M):
        src.grad = tgt.grad = None
        output = net(
            src,
            tgt,
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        (output[:, t] * mt.arange(E)).sum().backward()
        assert not tgt.grad[:, t + 1 :].any() and tgt.grad[:, : t + 1].all()
        assert not src.grad[padding].any() and src.grad[~padding].all()


def test_gradient_of_the_transformer_by_differences():
    net = model(norm_first=True)
    src, tgt = normal(2, 3, E), normal(2, 2, E)
    padding = mt.tensor([[False, False, True], [False, False, False]])
    weights = normal(2, 2, E)

    def loss():
        output = net(src, tgt, mt.ones(3, 3).triu(1).bool(), src_key_padding_mask=padding)
        return (output * weights).sum()

    loss().backward()
    rng, step = np.random.default_rng(0), 1e-6
    for name, parameter in list(net.named_parameters())[::4]:
        array, place = parameter.array, tuple(rng.integers(parameter.shape))
        kept = array[place]
        ends = []
        for value in (kept + step, kept - step):
            array[place] = value
            ends.append(loss().item())
        array[place] = kept
        difference = (ends[0] - ends[1]) / (2 * step)
        assert parameter.grad[place].item() == pytest.approx(difference, rel=1e-4, abs=1e-6), name


def test_square_subsequent_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0, -mt.inf, -mt.inf], [0, 0, -mt.inf], [0, 0, 0]]
    assert mask.dtype is mt.float32


def test_small_and_unbatched_sequences():
    net = nn.Transformer(E, H, 1, 1, 9, batch_first=True)
    assert net(mt.zeros(0, 3, E), mt.zeros(0, 2, E)).shape == (0, 2, E)
    assert net(mt.zeros(1, 1, E), mt.zeros(1, 1, E)).shape == (1, 1, E)
    assert net(mt.zeros(3, E), mt.zeros(2, E)).shape == (2, E)


def test_errors_of_the_transformer():
    net = nn.Transformer(E, H, 1, 1, 9)
    with pytest.raises(RuntimeError, match="one batch size"):
        net(mt.zeros(3, 2, E), mt.zeros(3, 1, E))
    with pytest.raises(RuntimeError, match="d_model=6"):
        net(mt.zeros(3, 2, 5), mt.zeros(3, 2, 5))
    with pytest.raises(RuntimeError, match="'relu', 'gelu' or a function; got 'tanh'"):
        nn.TransformerEncoderLayer(E, H, activation="tanh")
