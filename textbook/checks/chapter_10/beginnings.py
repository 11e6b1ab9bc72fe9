"""Many beginnings of a translation, one source: cheap, since queries do not see one another."""

import minitorch as mt
from minitorch.autograd import record_operations
from minitorch.flops import count_flops
from textbook.chapter_06 import MultiHeadAttention, merge_heads
from textbook.chapter_10 import DecoderBlock
from textbook.checks.chapter_10.modules import real_mask, with_axes
from textbook.checks.modules import drawn, loaded
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

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


def _ran(answer, x, memory, allowed):
    """The output, the FLOPs of the products, and how many operations run."""
    block = loaded(_block(), drawn(_block))
    with count_flops() as spent, record_operations() as names, mt.no_grad():
        output = answer(block, x, memory, allowed)
    return output, spent.total, len(names)


@recorded
def _needed(x, memory, allowed):
    """What a right answer gives, and what it costs."""
    return _ran(many_beginnings.reference, x, memory, allowed)


def _counted(answer, x, memory, allowed):
    """The output, and what it costs beside what is needed."""
    output, spent, operations = _ran(answer, x, memory, allowed)
    _, needed, enough = _needed(x, memory, allowed)
    return {
        "the output": output,
        "the number of operations": "grows with the beginnings or sources"
        if operations > 2 * enough
        else "small",
        "the FLOPs of the products": "as few as possible"
        if spent <= needed
        else f"{spent / needed:.2f} times as many as needed",
    }


def _where_it_goes(check, answer, x, memory, allowed):
    """Right, but dear: what for."""
    found, (right, *_) = _counted(answer, x, memory, allowed), _needed(x, memory, allowed)
    if getattr(found["the output"], "shape", None) != x.shape:
        return None
    if not mt.allclose(found["the output"], right):
        return None
    if found["the number of operations"] != "small":
        return (
            "Here the output is right. No loop: all sources, and all their beginnings, go at once."
        )
    return (
        "Here the output is right, and too much is multiplied. Of each source the keys and values "
        "are needed once, and no score between two beginnings is needed at all."
    )


many_beginnings = exercise(
    "many_beginnings",
    cases=_beginning_cases,
    run=_counted,
    reasons=(_where_it_goes,),
    gradients=False,
    see='chapter 10, "One page"',
)
