"""FLOPs against hand counts, and of fused operations against their definitions."""

import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from minitorch.flops import count_flops


def leaf(*shape):
    return mt.randn(*shape, requires_grad=True)


def counted(function, *tensors):
    """FLOPs forward and backward."""
    with count_flops() as counter:
        function(*tensors).sum().backward()
    assert counter.total == counter.forward + counter.backward == sum(counter.by_name.values())
    return counter.forward, counter.backward


# Products, by hand: 2 n d m for (n, d) @ (d, m), and as much for each gradient


@pytest.mark.parametrize(
    ("left", "right", "products"),
    [
        ((2, 3), (3, 5), 2 * 3 * 5),
        ((7, 2, 3), (7, 3, 5), 7 * 2 * 3 * 5),
        ((7, 2, 3), (3, 5), 7 * 2 * 3 * 5),
        ((2, 3), (7, 3, 5), 7 * 2 * 3 * 5),
        ((4, 1, 2, 3), (7, 3, 5), 28 * 2 * 3 * 5),
        ((3,), (3, 5), 15),
        ((2, 3), (3,), 6),
        ((3,), (3,), 3),
        ((0, 3), (3, 5), 0),
    ],
)
def test_matmul(left, right, products):
    flops = 2 * products
    assert counted(mt.matmul, leaf(*left), leaf(*right)) == (flops, 2 * flops)
    assert counted(mt.matmul, leaf(*left), mt.randn(*right)) == (flops, flops)
    assert counted(mt.matmul, mt.randn(*left), leaf(*right)) == (flops, flops)
    with count_flops() as counter, mt.no_grad():
        leaf(*left) @ leaf(*right)
    assert (counter.forward, counter.backward) == (flops, 0)


def test_linear_and_frozen_weights():
    x, layer = mt.randn(4, 6, 3), nn.Linear(3, 5)
    flops = 2 * 24 * 3 * 5
    assert counted(layer, x) == (flops, flops)  # the input needs no gradient
    assert counted(layer, leaf(4, 6, 3)) == (flops, 2 * flops)
    layer.weight.requires_grad_(False)
    assert counted(layer, leaf(4, 6, 3)) == (flops, flops)
    assert counted(layer, x) == (flops, 0)  # the bias alone
    assert counted(nn.Linear(3, 5, bias=False), x) == (flops, flops)


def test_multilayer_perceptron():
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    first, second = 2 * 8 * 10 * 20, 2 * 8 * 20 * 3
    assert counted(model, mt.randn(8, 10)) == (first + second, first + 2 * second)
    model[2].requires_grad_(False)
    assert counted(model, mt.randn(8, 10)) == (first + second, first + second)
    model.requires_grad_(True)[0].requires_grad_(False)
    assert counted(model, mt.randn(8, 10)) == (first + second, second)


@pytest.mark.parametrize(
    ("equation", "shapes", "forward", "backward"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 60, 120),
        ("bnd,bmd->bnm", [(4, 2, 3), (4, 5, 3)], 240, 480),
        ("bhnd,bhmd->bhnm", [(4, 1, 2, 3), (4, 7, 5, 3)], 4 * 7 * 60, 8 * 7 * 60),
        ("...d,d->...", [(4, 2, 3), (3,)], 48, 96),
        ("ij->ji", [(2, 3)], 0, 0),
        ("ii->", [(3, 3)], 0, 0),
        ("i,j->ij", [(2,), (3,)], 12, 24),
        # (2, 50) (50, 3) (3, 4) is done in two products, and so is each of its three gradients
        ("ij,jk,kl->il", [(2, 50), (50, 3), (3, 4)], 600 + 48, 3 * (600 + 48)),
    ],
)
def test_einsum(equation, shapes, forward, backward):
    tensors = [leaf(*shape) for shape in shapes]
    assert counted(lambda *tensors: mt.einsum(equation, *tensors), *tensors) == (forward, backward)


def test_the_last_einsum_of_equal_shapes_is_taken():
    a, b = leaf(4, 4), leaf(4, 4)
    with count_flops() as counter:
        for equation, cost in {"ij,ij->ij": 32, "ij,jk->ik": 128}.items():
            before = counter.total
            mt.einsum(equation, a, b).sum().backward()
            assert counter.total - before == 3 * cost


# Attention


def attention_of(query, key, value):
    weights = (query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5).softmax(-1)
    return weights @ value


@pytest.mark.parametrize("frozen", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_attention_counts_as_its_composition(frozen, lead):
    shapes = [(*lead, 4, 5), (*lead, 6, 5), (*lead, 6, 7)]
    tensors = [mt.randn(*s, requires_grad=i not in frozen) for i, s in enumerate(shapes)]
    fused = counted(F.scaled_dot_product_attention, *tensors)
    assert fused == counted(attention_of, *tensors)
    batch = 6 if lead else 1
    assert fused[0] == 2 * batch * 4 * 6 * (5 + 7)
    if not frozen:
        assert fused[1] == 2 * fused[0]


def test_causal_attention_counts_in_full():
    q, k, v = leaf(2, 8, 4), leaf(2, 8, 4), leaf(2, 8, 4)
    causal = counted(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v
    )
    assert causal == (4 * 2 * 8 * 8 * 4, 8 * 2 * 8 * 8 * 4)


# Recurrent layers


def stepwise(cell, x, state):
    """The states of a cell, run token by token over x (T, B, I)."""
    states = []
    for x_t in x.unbind(0):
        state = cell(x_t, state)
        states.append(state[0] if type(state) is tuple else state)
    return mt.stack(states)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("frozen", ["", "weight_ih", "weight_hh", "all"])
@pytest.mark.parametrize("needs", [(), ("x",), ("h",), ("x", "h")])
def test_recurrent_layer_counts_as_its_cell(kind, frozen, needs):
    if not hasattr(nn, kind):
        pytest.skip(f"nn.{kind} is not there yet")
    steps, batch, width, hidden = 4, 3, 5, 6
    layer, cell = getattr(nn, kind)(width, hidden), getattr(nn, kind + "Cell")(width, hidden)
    for module in (layer, cell):
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(frozen != "all" and not (frozen and name.startswith(frozen)))
    x = mt.randn(steps, batch, width, requires_grad="x" in needs)
    h = mt.randn(batch, hidden, requires_grad="h" in needs)
    if frozen == "all" and not needs:
        return
    c = mt.zeros(batch, hidden)
    first = (h, c) if kind == "LSTM" else h
    layered = (h.unsqueeze(0), c.unsqueeze(0)) if kind == "LSTM" else h.unsqueeze(0)
    fused = counted(lambda: layer(x, layered)[0])
    assert fused == counted(lambda: stepwise(cell, x, first))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    assert fused[0] == 2 * steps * batch * gates * hidden * (width + hidden)


# Whole models


class Block(nn.Module):
    """A pre-norm Transformer block with one head, d (12 d + 13) parameters."""

    def __init__(self, d):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.projections = nn.ModuleList(nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = (project(self.norm_1(x)) for project in self.projections[:3])
        x = x + self.projections[3](attention_of(q, k, v))
        return x + self.down(F.relu(self.up(self.norm_2(x))))


def test_transformer_block_costs_six_flops_a_weight_and_token_and_attention():
    batch, n, d = 2, 10, 8
    block = Block(d)
    weights = sum(p.numel() for p in block.parameters() if p.ndim == 2)
    assert weights == 12 * d * d
    forward, backward = counted(block, leaf(batch, n, d))
    tokens = batch * n
    assert forward == 2 * weights * tokens + 4 * n * d * tokens
    assert forward + backward == 6 * weights * tokens + 12 * n * d * tokens
    block.norm_1.requires_grad_(False)
    assert counted(block, mt.randn(batch, n, d))[1] == backward - 3 * 2 * d * d * tokens


def test_training_step():
    mt.manual_seed(0)
    vocabulary, d, tokens = 11, 8, mt.randint(0, 11, (3, 7))
    model = nn.Sequential(nn.Embedding(vocabulary, d), nn.Linear(d, d), nn.Linear(d, vocabulary))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    steps = []
    for _ in range(2):
        with count_flops() as counter:
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        steps.append((counter.forward, counter.backward, dict(counter.by_name)))
    weights = d * d + d * vocabulary
    assert steps[0][:2] == (2 * weights * 21, 4 * weights * 21) and steps[0] == steps[1]
    assert steps[0][2] == {"linear": 6 * weights * 21}


def test_what_was_not_counted():
    a, b = leaf(3, 3), leaf(3, 3)
    before = (a @ b).sum()
    with count_flops() as counter:
        with pytest.raises(RuntimeError, match="through matmul whose forward pass ran before"):
            before.backward()
        (a + b).exp().softmax(-1).sum().backward()
    a @ b
    assert counter.total == 0 and not counter.by_name


def test_blocks_inside_blocks():
    a, b = leaf(2, 3), leaf(3, 5)
    with count_flops() as outer:
        result = a @ b
        with count_flops() as inner:
            a @ b
        result.sum().backward()
    assert (inner.total, outer.forward, outer.backward) == (60, 120, 120)
