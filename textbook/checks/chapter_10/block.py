"""The block of encoder and decoder, with masks, cross-attention and dropout."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Look, real_mask, with_axes
from textbook.checks.modules import drawn, loaded, results_of
from textbook.checks.released import exercise


def _block_cases(draw, sizes=(4, 2, 3, 5)):
    """Sizes (width, cross, dropout), then what forward gets: every mask may be None."""
    width, batch, steps, n = sizes
    for cross, dropout, causal, memory, seen in (
        (False, 0.0, False, False, False),
        (False, 0.0, True, True, True),
        (True, 0.3, True, True, True),
        (True, 0.0, True, True, False),
        (True, 0.0, False, True, True),
    ):
        own = mt.ones(steps, steps).tril().bool() if cross else None
        own = with_axes(real_mask(draw, batch, steps)) if own is None else own
        yield (
            (width, cross, dropout),
            draw.normal(batch, steps, width),
            own if causal else None,
            draw.normal(batch, n, width) if memory else None,
            with_axes(real_mask(draw, batch, n)) if seen else None,
        )


def block_of(answer, width, cross, dropout):
    """A block of this kind with the parts that the check hands in."""
    network = nn.Sequential(nn.Linear(width, width), nn.Tanh())
    return answer(width, Look(width), network, Look(width) if cross else None, dropout)


def _reference(*sizes):
    return block_of(Block.reference, *sizes)


def _run_block(answer, width_cross_dropout, x, allowed, memory, memory_allowed):
    def call(block):
        mt.manual_seed(0)
        return {
            "the output": block(x, allowed, memory, memory_allowed),
            "the output of a second call, without masks": block(x, None, memory),
        }

    inputs = {"x": x, "memory": memory} if width_cross_dropout[1] else {"x": x}
    return results_of(
        block_of(answer, *width_cross_dropout),
        drawn(_reference, *width_cross_dropout),
        inputs,
        call,
    )


def _drops_nothing_in_use(answer, width_cross_dropout, *given):
    block = loaded(
        block_of(answer, *width_cross_dropout), drawn(_reference, *width_cross_dropout)
    ).eval()
    if not mt.allclose(block(*given), block(*given), equal_nan=True):
        return "After block.eval() nothing may be dropped: use self.dropout, which knows."
    return None


def _padding_is_not_seen(answer, width_cross_dropout, x, allowed, memory, memory_allowed):
    if memory_allowed is None:
        return None
    block = loaded(
        block_of(answer, *width_cross_dropout), drawn(_reference, *width_cross_dropout)
    ).eval()
    others = memory.masked_fill(~memory_allowed[:, 0, 0].unsqueeze(-1), 1e4)
    before, after = (block(x, allowed, each, memory_allowed) for each in (memory, others))
    if not mt.allclose(before, after, equal_nan=True):
        return "What stands in the padding of the memory must not change the output."
    return None


def _reads_the_memory(answer, width_cross_dropout, x, allowed, memory, memory_allowed):
    block = loaded(
        block_of(answer, *width_cross_dropout), drawn(_reference, *width_cross_dropout)
    ).eval()
    if block.cross is None:
        return None
    before, after = (block(x, allowed, each, memory_allowed) for each in (memory, memory + 1))
    if mt.allclose(before, after):
        return "Where there is a cross-attention the memory is read, with a mask and without."
    return None


Block = exercise(
    "Block",
    cases=_block_cases,
    run=_run_block,
    properties=(_drops_nothing_in_use, _padding_is_not_seen, _reads_the_memory),
    gradients=False,
    see='chapter 10, "The parts put together"',
)
