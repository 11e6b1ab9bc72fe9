"""The checks of chapter 10 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
from minitorch import nn
from tests.checks import right_05, right_09, right_10
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, Draw, chapter_09, chapter_10
from textbook.checks.chapter_10 import assembly
from textbook.checks.chapter_10.block import BlockInPieces
from textbook.checks.chapter_10.modules import Attention
from textbook.checks.chapter_10.transformer import transformer_of
from textbook.checks.compare import difference
from textbook.checks.modules import loaded
from textbook.data import number_pieces


@pytest.mark.parametrize("proof", list(proofs(chapter_10, right_10)))
def test_checks(proof):
    proof()


def test_references_agree_with_the_library():
    check = chapter_10.smoothed_cross_entropy
    for case in check.all_cases() + check.all_cases(hidden=True):
        for answer in right_10.refused[check.name]:
            expected = check.reference(*case)
            assert difference(answer(*case), expected, check.name) is None


@pytest.mark.parametrize("cross", [False, True])
def test_the_block_is_the_one_of_the_library(cross):
    width, heads, draw = 4, 2, Draw(0)
    block = real_block(width, heads, 3, cross)
    block = loaded(block, {n: draw.normal(*x.shape) for n, x in block.named_parameters()})
    kind = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    layer = kind(width, heads, 3, dropout=0.0, batch_first=True, norm_first=True).double()
    state = {name: mt.zeros_like(x) for name, x in layer.state_dict().items()}
    last = "norm3" if cross else "norm2"
    norms = {"attention_norm": "norm1", "cross_norm": "norm2", "feed_forward_norm": last}
    for name, value in block.state_dict().items():
        part, _, rest = name.partition(".")
        if part in norms:
            state[f"{norms[part]}.{rest}"] = value
        elif part == "feed_forward":
            state[rest.replace("0.", "linear1.").replace("2.", "linear2.")] = value
    for ours, theirs in [(block.attention, "self_attn"), (block.cross, "multihead_attn")]:
        if ours is not None:
            joined = mt.cat([ours.query.weight, ours.key.weight, ours.value.weight])
            state[f"{theirs}.in_proj_weight"] = joined.detach()
            state[f"{theirs}.out_proj.weight"] = ours.out.weight.detach()
    layer.load_state_dict(state)
    x, memory = draw.normal(2, 3, width), draw.normal(2, 5, width)
    causal, real = mt.ones(3, 3).tril().bool(), mt.arange(5) < mt.tensor([[5], [2]])
    if cross:
        expected = layer(x, memory, tgt_mask=~causal, memory_key_padding_mask=~real)
        found = block(x, causal, memory, real.unsqueeze(1).unsqueeze(1))
    else:
        expected, found = layer(x, src_mask=~causal), block(x, causal)
    assert mt.allclose(found, expected)


def real_block(width, heads, hidden, cross):
    network = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
    look = Attention(width, heads) if cross else None
    return chapter_10.Block.reference(width, Attention(width, heads), network, look)


@pytest.mark.parametrize("tied", [False, True])
def test_the_count_is_that_of_a_built_model(tied):
    vocabulary, width, heads, hidden, layers = 7, 4, 2, 3, 2

    def block(cross):
        return lambda: real_block(width, heads, hidden, cross)

    def norm():
        return nn.LayerNorm(width)

    def embedding():
        return chapter_10.TiedEmbedding.reference(vocabulary, width)

    target = embedding()
    encoder = chapter_10.Encoder.reference(block(False), layers, norm())
    decoder = chapter_10.Decoder.reference(target, block(True), layers, norm())
    source = target if tied else embedding()
    model = chapter_10.Transformer.reference(source, encoder, decoder, 0)
    if not tied:
        model.output = nn.Linear(width, vocabulary, bias=False)
    built = sum(weight.numel() for weight in model.parameters())
    count = chapter_10.parameter_count.reference(vocabulary, width, heads, hidden, layers, tied)
    assert built == count


def test_the_rate_is_that_of_chapter_09():
    for case in chapter_09.warm_up.all_cases(hidden=True):
        found = chapter_10.set_rate.run(chapter_10.set_rate.reference, [1.0], *case)
        assert found["the list of the groups' rates"] == [chapter_09.warm_up.reference(*case)]


def test_a_step_that_computes_everything_anew_is_told_what_it_costs():
    with pytest.raises(CheckFailed, match="cost 7,008 FLOPs, and it goes with 2,784"):
        chapter_10.cached_step(right_10.step_that_starts_anew)


def test_a_step_that_returns_its_cache_first_is_told_so():
    def turned(layer, x, cache):
        return chapter_10.cached_step.reference(layer, x, cache)[::-1]

    with pytest.raises(CheckFailed, match="the first of the pair is the output of the newest"):
        chapter_10.cached_step(turned)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_loss_that_overflows_is_told_so(hidden):
    def loss(scores, targets, smoothing, padding):
        share = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        right = nn.functional.one_hot(targets, scores.shape[-1]) * (1 - smoothing)
        losses = -((right + smoothing / scores.shape[-1]) * share.log()).sum(dim=-1)
        real = targets != padding
        return (losses * real).sum() / real.sum()

    with pytest.raises(CheckFailed, match="holds nan where .* exponential of a large number"):
        chapter_10.smoothed_cross_entropy(loss, hidden)


def test_a_copy_of_the_embedding_is_not_tied():
    class Copied(chapter_10.TiedEmbedding.reference):
        def __init__(self, vocabulary, width):
            super().__init__(vocabulary, width)
            self.copy = self.weight.detach().clone()

        def scores(self, x):
            return x @ self.copy.T

    with pytest.raises(CheckFailed, match="The scores must change with self.weight: a copy of it"):
        chapter_10.TiedEmbedding(Copied)


def test_a_block_that_gives_nan_is_not_told_of_its_dropout():
    class Blind(chapter_10.Block.reference):
        def forward(self, *given):
            return super().forward(*given) * mt.nan

    with pytest.raises(CheckFailed, match="not right yet. The output") as caught:
        chapter_10.Block(Blind)
    assert "eval" not in str(caught.value)


def test_dropout_that_does_not_know_when_to_stop():
    class Restless(BlockInPieces):
        def add(self, x, part):
            return x + nn.functional.dropout(part, self.dropout.p)

    with pytest.raises(CheckFailed, match="After block.eval.. nothing may be dropped"):
        chapter_10.Block(Restless)


# The student's own parts


def blank(query, key, value):
    raise NotImplementedError("write your solution here and run this cell again")


class BlankTransformer(chapter_10.Transformer.reference):
    def encode(self, source):
        raise NotImplementedError("write your solution here and run this cell again")


def wrong_attention(query, key, value):
    return (query @ key.mT).softmax(dim=-1) @ value


@pytest.mark.parametrize("names", [{}, {"attention": blank, "Transformer": BlankTransformer}])
def test_empty_cells_fall_back_to_the_library_and_are_named(names):
    parts = chapter_10.Parts(names)
    assert parts.mine == []
    assert len(str(parts).split("\n")) == sum(map(len, assembly.CHECKS.values()))
    assert all(line.endswith(": the library's") for line in str(parts).split("\n"))
    x = Draw(0).normal(1, 2, 3)
    assert mt.equal(parts.attention(x, x, x), assembly.CHECKS["05"][0].reference(x, x, x))
    with pytest.raises(CheckFailed, match="not made of your Transformer as it is now"):
        chapter_10.assembled(parts, model_of(parts), german, [5])


def test_a_right_part_is_used_and_named():
    parts = chapter_10.Parts({"attention": right_05.right["attention"][0]})
    assert parts.mine == ["attention"]
    assert str(parts).startswith(
        "set 05, attention: yours\nset 07, masked_attention: the library's\n"
    )


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("attention", wrong_attention, "is attention without the division by the square root"),
        ("attention", 3.0, "expected your function, got 3"),
        ("layer_norm", right_09.refused["layer_norm"][0], "runs the library's 'layer_norm'"),
        ("Block", chapter_10.Block.mistakes[0].function, "right but for the dropout"),
    ],
)
def test_a_wrong_or_forbidden_part_is_told_so_and_not_used(name, answer, message):
    parts = chapter_10.Parts({name: answer})
    assert parts.mine == []
    assert f"{name}: the library's; yours does not pass its check: " in str(parts)
    assert message in str(parts)


def model_of(parts):
    """A tiny model of some of the parts, which need not have learned."""
    model = transformer_of(parts.Transformer, 5, 2, 1, 0).float()
    model(mt.tensor([[1, 2]]), mt.tensor([[3]]))
    return model


def german(number):
    return number_pieces(number, "de")


OWN = {"Transformer": right_10.TransformerSpelledOut}


def test_the_model_must_be_of_the_parts_that_were_chosen(capsys):
    parts = chapter_10.Parts(OWN)
    model = model_of(parts)
    chapter_10.assembled(parts, model, german, [5, 21])
    assert (
        "at least half of 2 held-out numbers are right\nmade of your own Transformer\n"
        in capsys.readouterr().out
    )
    with pytest.raises(CheckFailed, match="not made of your Transformer as it is now"):
        chapter_10.assembled(chapter_10.Parts(OWN), model, german, [5, 21])


def test_a_model_that_has_not_learned_is_told_so():
    parts = chapter_10.Parts(OWN)
    model = model_of(parts)
    with pytest.raises(CheckFailed, match="1 of 3 held-out numbers.*\nDid the training run"):
        chapter_10.assembled(parts, model, lambda number: ["fünf"], [5, 21, 30])


def test_own_parts_that_never_ran_are_named():
    parts = chapter_10.Parts(OWN | {"attention": right_05.right["attention"][0]})
    model = model_of(parts)
    with pytest.raises(CheckFailed, match="have not run in it: attention"):
        chapter_10.assembled(parts, model, german, [5, 21])


def test_seconds_count_once_though_parts_contain_one_another():
    parts = chapter_10.Parts({})
    parts._run("outer", lambda: parts._run("inner", sum, (range(10**6),), {}), (), {})
    assert parts.seconds["outer"] < parts.seconds["inner"]
