"""Many beginnings of a translation, one source: cheap, since queries do not see one another."""

import minitorch as mt
from minitorch.autograd import record_operations
from minitorch.flops import count_flops
from textbook.chapter_06 import MultiHeadAttention, merge_heads
from textbook.chapter_10 import DecoderBlock
from textbook.checks.chapter_10.modules import real_mask, with_axes
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded

SIZES = 4, 2, 6  # width, heads, hidden


class _Attention(MultiHeadAttention):
    """The chapter's, whose products are all counted."""

    def forward(self, x, memory, allowed=None):
        outputs, _ = self.look(x, memory, allowed)
        return self.out(merge_heads(outputs))


def _block():
    block = DecoderBlock(*SIZES)
    block.attention, block.cross = _Attention(*SIZES[:2]), _Attention(*SIZES[:2])
    return block


def _beginning_cases(draw, others=()):
    """x (B, k, T, d), memory (B, n, d) and its mask."""
    for batch, k, steps, n in others or [(1, 2, 3, 4), (2, 3, 2, 3), (3, 4, 5, 4)]:
        mask = with_axes(real_mask(draw, batch, n))
        yield draw.normal(batch, k, steps, SIZES[0]), draw.normal(batch, n, SIZES[0]), mask


def _counted(answer, x, memory, allowed):
    """The output, and what it costs beside what the reference needs."""
    block = loaded(_block(), drawn(_block))
    with count_flops() as spent, record_operations() as names, mt.no_grad():
        output = answer(block, x, memory, allowed)
    with count_flops() as needed, record_operations() as enough, mt.no_grad():
        many_beginnings.reference(block, x, memory, allowed)
    often = len(names) > 2 * len(enough)
    return {
        "the output": output,
        "the number of operations": "grows with the beginnings or sources" if often else "small",
        "the FLOPs of the products": "as few as possible"
        if spent.total <= needed.total
        else f"{spent.total / needed.total:.2f} times as many as needed",
    }


def _where_it_goes(check, answer, x, memory, allowed):
    """Right, but dear: what for."""
    found, right = (_counted(each, x, memory, allowed) for each in (answer, check.reference))
    if getattr(found["the output"], "shape", None) != x.shape:
        return None
    if not mt.allclose(found["the output"], right["the output"]):
        return None
    if found["the number of operations"] != "small":
        return "The output is right. No loop: all sources, and all their beginnings, go at once."
    return (
        "The output is right, and too much is multiplied. Of each source the keys and values are "
        "needed once, and no score between two beginnings is needed at all."
    )


@exercise(
    cases=_beginning_cases,
    hidden_cases=lambda draw: _beginning_cases(draw, others=[(2, 2, 4, 3), (1, 5, 3, 2)]),
    run=_counted,
    reasons=(_where_it_goes,),
    gradients=False,
    after_passing="Shorter: a cross-attention that folds k into T itself; then the block "
    "stays as it is.",
    see='chapter 10, "One page"',
)
def many_beginnings(block, x, memory, allowed):
    """x (B, k, T, d), memory (B, n, d), its mask (B, 1, 1, n) give (B, k, T, d)."""
    batch, k, steps, _ = x.shape
    causal = mt.ones(steps, steps, dtype=mt.bool).tril()
    x = x.flatten(0, 1)  # (B k, T, d): each beginning sees itself alone
    y = block.norm_1(x)
    x = x + block.attention(y, y, causal)
    x = x.unflatten(0, (batch, k)).flatten(1, 2)  # (B, k T, d): queries of one memory
    x = x + block.cross(block.norm_3(x), memory, allowed)
    x = x + block.feed_forward(block.norm_2(x))
    return x.unflatten(1, (k, steps))


def _repeated(block, x, memory, allowed):
    """The memory is handed out once for each beginning."""
    batch, k, steps, _ = x.shape
    causal = mt.ones(steps, steps, dtype=mt.bool).tril()
    memory, allowed = (each.repeat_interleave(k, dim=0) for each in (memory, allowed))
    return block(x.flatten(0, 1), causal, memory, allowed).unflatten(0, (batch, k))


def _one_by_one(block, x, memory, allowed):
    causal = mt.ones(x.shape[2], x.shape[2], dtype=mt.bool).tril()
    return mt.stack(
        [
            mt.stack([block(one.unsqueeze(0), causal, m, seen)[0] for one in beginnings])
            for beginnings, m, seen in zip(x, memory.split(1), allowed.split(1), strict=True)
        ]
    )


def _source_by_source(block, x, memory, allowed):
    """Right and without repetition, but a loop."""
    return mt.cat(
        [
            many_beginnings.reference(block, x[b : b + 1], memory[b : b + 1], allowed[b : b + 1])
            for b in range(len(x))
        ]
    )


def _one_large_mask(block, x, memory, allowed):
    """All beginnings of a source are one text, cut by a mask."""
    batch, k, steps, _ = x.shape
    texts = mt.arange(k).repeat_interleave(steps)
    own = (texts == texts.unsqueeze(1)) & mt.ones(k * steps, k * steps, dtype=mt.bool).tril()
    return block(x.flatten(1, 2), own, memory, allowed).unflatten(1, (k, steps))


def _one_text(block, x, memory, allowed):
    """All beginnings of a source are one text."""
    batch, k, steps, _ = x.shape
    own = mt.ones(k * steps, k * steps, dtype=mt.bool).tril()
    return block(x.flatten(1, 2), own, memory, allowed).unflatten(1, (k, steps))
