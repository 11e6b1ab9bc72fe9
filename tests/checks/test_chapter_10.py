"""The checks of chapter 10 catch and name what is wrong, and pass what is right."""

import pytest

import minitorch as mt
import textbook.chapter_10 as book
from minitorch import nn
from tests.checks.proof import answers_in_key, proofs
from textbook.chapter_06 import MultiHeadAttention
from textbook.chapter_07 import real_tokens
from textbook.checks import CheckFailed, Draw, chapter_05, chapter_09, chapter_10
from textbook.checks.chapter_10 import assembly, broken, transformer_key
from textbook.checks.chapter_10.transformer import transformer_of
from textbook.checks.modules import loaded
from textbook.data import number_pieces


@pytest.mark.parametrize("proof", list(proofs(chapter_10)))
def test_checks(proof):
    proof()


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
    look = MultiHeadAttention(width, heads) if cross else None
    return chapter_10.Block.reference(width, MultiHeadAttention(width, heads), network, look)


@pytest.mark.parametrize("hidden", [False, True])
def test_the_count_is_that_of_a_built_model(hidden):
    for case in chapter_10.weights_more.all_cases(hidden):
        if case[0] > 1000:
            continue
        vocabulary, width, heads, hidden_width, layers = case
        found = chapter_10.weights_more.reference(*case)
        built = count(*case)
        assert found["weights"] == built
        for change, sizes in {
            "a layer more in each stack": (vocabulary, width, heads, hidden_width, layers + 1),
            "twice the hidden width": (vocabulary, width, heads, 2 * hidden_width, layers),
        }.items():
            assert found[change] == count(*sizes) - built


def count(*sizes):
    return sum(weight.numel() for weight in book.Transformer(*sizes).parameters())


def test_a_count_that_is_no_integer_is_told_so():
    def floating(*case):
        return {k: float(v) for k, v in chapter_10.weights_more.reference(*case).items()}

    with pytest.raises(CheckFailed, match="floating-point numbers at"):
        chapter_10.weights_more(floating)


@pytest.mark.parametrize("hidden", [False, True])
def test_what_moves_is_what_moves_in_the_model(hidden):
    mt.manual_seed(0)
    model = book.Transformer(9, 8, 2, 12, 2).double()

    def scores(x, y, real, forgotten):
        seen = mt.tensor(real)
        encoder, cross = (None if name in forgotten else seen for name in ("encoder", "cross"))
        causal = None if "causal" in forgotten else mt.ones(len(y[0]), len(y[0])).tril().bool()
        for block in model.encoder:
            x = block(x, encoder)
        for block in model.decoder:
            y = block(y, causal, model.encoder_norm(x), cross)
        return model.out(model.decoder_norm(y))[0]

    for real, steps, (where, i), forgotten in chapter_10.moved.all_cases(hidden):
        x, y = mt.randn(1, len(real), 8).double(), mt.randn(1, steps, 8).double()
        changed = [x.clone(), y.clone()]
        changed[where == "target"][0, i] *= -1
        gap = scores(*changed, real, forgotten) - scores(x, y, real, forgotten)
        moves = gap.abs().amax(-1) > 1e-9
        expected = chapter_10.moved.reference(real, steps, (where, i), forgotten)
        assert [t for t in range(steps) if moves[t]] == expected


def test_masks_of_padding_at_the_front_are_those_at_the_end_turned_round():
    """But for the direction of time: the lower triangle stays one."""
    source, target = mt.tensor([[0, 3, 4], [5, 6, 7]]), mt.tensor([[0, 0, 8], [0, 1, 2]])
    encoder, own, cross = chapter_10.three_masks.reference(source, target, 0)
    assert encoder.shape == cross.shape == (2, 1, 1, 3)
    assert mt.equal(encoder.flip(3), real_tokens(source.flip(1)))
    assert own.any(dim=-1).all()
    assert own[0, 0].tolist() == [[True, False, False], [False, True, False], [False, False, True]]
    assert own[1, 0].tolist() == [[True, False, False], [False, True, False], [False, True, True]]


def test_teacher_forcing_asks_for_what_the_chapter_asks_for():
    read, asked = chapter_10.teacher_forcing.reference(mt.tensor([[7, 8, 9], [5, 0, 0]]), 1, 2, 0)
    whole = mt.tensor([[1, 7, 8, 9, 2], [1, 5, 2, 0, 0]])
    assert mt.equal(asked, whole[:, 1:])
    assert mt.equal(read[asked != 0], whole[:, :-1][asked != 0])


def test_the_six_decoders_are_right_and_broken():
    found = [chapter_10.faults.reference(decoder, 9, 5) for decoder in chapter_10.suspects()]
    assert [] in found
    assert ["future", "padding"] in found
    assert {fault for faults in found for fault in faults} >= {"future", "padding"}


@pytest.mark.parametrize("name", broken.KINDS)
def test_a_decoder_has_the_faults_that_it_is_said_to_have(name):
    mt.manual_seed(3)
    pieces, faults = broken.KINDS[name]
    decoder = broken._Decoder(9, 5, **pieces)
    assert ", ".join(chapter_10.faults.reference(decoder, 9, 5)) == faults


def test_a_block_that_gives_nan_is_not_told_of_its_dropout():
    class Blind(chapter_10.Block.reference):
        def forward(self, *given):
            return super().forward(*given) * mt.nan

    with pytest.raises(CheckFailed, match="not right yet. The output") as caught:
        chapter_10.Block(Blind)
    assert "eval" not in str(caught.value)


def test_dropout_that_does_not_know_when_to_stop():
    class Always(nn.Dropout):
        def forward(self, x):
            return nn.functional.dropout(x, self.p)

    class Restless(chapter_10.Block.reference):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.dropout = Always(self.dropout.p)

    with pytest.raises(CheckFailed, match="After block.eval.. nothing may be dropped"):
        chapter_10.Block(Restless)


# The student's own parts


def blank(query, key, value, bias=None):
    raise NotImplementedError("write your solution here and run this cell again")


class BlankTransformer(chapter_10.Transformer.reference):
    def encode(self, source):
        raise NotImplementedError("write your solution here and run this cell again")


[wrong_attention] = [
    mistake.function
    for mistake in assembly.CHECKS["05"][0].mistakes
    if mistake.name == "attention without the division by the square root of d"
]


@pytest.mark.parametrize("names", [{}, {"attention": blank, "Transformer": BlankTransformer}])
def test_empty_cells_fall_back_to_the_library_and_are_named(names):
    parts = chapter_10.Parts(names)
    assert parts.mine == []
    assert len(str(parts).split("\n")) == sum(map(len, assembly.CHECKS.values()))
    assert all(line.endswith(": the library's") for line in str(parts).split("\n"))
    x = Draw(0).normal(1, 2, 3)
    assert mt.allclose(parts.attention(x, x, x), assembly.CHECKS["05"][0].reference(x, x, x))
    with pytest.raises(CheckFailed, match="not made of your Transformer as it is now"):
        chapter_10.assembled(parts, model_of(parts), german, [5])


def test_a_right_part_is_used_and_named():
    parts = chapter_10.Parts({"attention": answers_in_key(chapter_05.attention)[0]})
    assert parts.mine == ["attention"]
    assert str(parts).startswith(
        "set 05, attention: yours\nset 07, masked_attention: the library's\n"
    )


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("attention", wrong_attention, "is attention without the division by the square root"),
        ("attention", 3.0, "expected your function, got 3"),
        (
            "layer_norm",
            answers_in_key(chapter_09.layer_norm, "refused")[0],
            "runs the library's 'layer_norm'",
        ),
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
    model = transformer_of(parts.Transformer, 5, 2, 0).float()
    model(mt.tensor([[1, 2]]), mt.tensor([[3]]))
    return model


def german(number):
    return number_pieces(number, "de")


OWN = {"Transformer": transformer_key.TransformerSpelledOut}


def test_the_model_must_be_of_the_parts_that_were_chosen(capsys):
    parts = chapter_10.Parts(OWN)
    model = model_of(parts)
    chapter_10.assembled(parts, model, german, [5, 21])
    assert (
        "at least 80% of 2 held-out numbers are right\nmade of your own Transformer\n"
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
    parts = chapter_10.Parts(OWN | {"attention": answers_in_key(chapter_05.attention)[0]})
    model = model_of(parts)
    with pytest.raises(CheckFailed, match="have not run in it: attention"):
        chapter_10.assembled(parts, model, german, [5, 21])


def test_seconds_count_once_though_parts_contain_one_another():
    parts = chapter_10.Parts({})
    parts._run("outer", lambda: parts._run("inner", sum, (range(10**6),), {}), (), {})
    assert parts.seconds["outer"] < parts.seconds["inner"]


class RealFirst(chapter_10.Transformer.reference):
    def encode(self, source):
        return super().encode(source)[::-1]

    def forward(self, source, target):
        real, memory = self.encode(source)
        return self.decoder(target, memory, real)


def test_the_reason_is_told():
    with pytest.raises(CheckFailed, match="The pair of encode is the other way round"):
        chapter_10.Transformer(RealFirst)


def test_many_beginnings_are_what_the_block_makes_of_each():
    block, draw = book.DecoderBlock(4, 2, 6).double(), Draw(0)
    x, memory, allowed = draw.normal(2, 3, 4, 4), draw.normal(2, 5, 4), mt.ones(2, 1, 1, 5).bool()
    found = chapter_10.many_beginnings.reference(block, x, memory, allowed)
    causal = mt.ones(4, 4).bool().tril()
    for b, k in ((0, 0), (1, 2)):
        assert mt.allclose(found[b, k], block(x[b, k : k + 1], causal, memory[b : b + 1], None)[0])


def test_dear_beginnings_are_told_what_is_dear():
    def twice(block, x, memory, allowed):
        block.cross(memory, memory, allowed)
        return chapter_10.many_beginnings.reference(block, x, memory, allowed)

    with pytest.raises(CheckFailed, match="Here the output is right, and too much is multiplied"):
        chapter_10.many_beginnings(twice)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"wrong": mt.zeros(2, 2)}, "its shape is"),
        ({"right": None}, "its shape is"),
        ({"right": mt.full((1, 2), 0.5)}, "not written"),
        ({"wrong": mt.full((1, 2), 0.5)}, "two tokens are equally likely"),
        ({"wrong": mt.tensor([[-0.5, 1.5]])}, "no probabilities"),
    ],
)
def test_an_example_that_shows_nothing_is_told_why(changed, message):
    def answer(T, V):
        found = chapter_10.promises.reference(T, V)
        return found | changed if (T, V) == (1, 2) else found

    with pytest.raises(CheckFailed, match=message):
        chapter_10.promises(answer)
