"""Answers to the exercises of ``beginnings.py``."""

import minitorch as mt
from textbook.checks.chapter_10.beginnings import _beginning_cases, many_beginnings


@many_beginnings.answer(
    hidden_cases=lambda draw: _beginning_cases(draw, others=[(2, 2, 4, 3), (1, 5, 3, 2)]),
    after_passing="The same trick serves beam search: all beams of a sentence share its memory.",
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


# Right in another way


def beginnings_with_reshape(block, x, memory, allowed):
    """Between the parts every beginning is alone; only the queries are laid side by side."""
    B, k, T, d = x.shape
    places = mt.arange(T)
    y = block.norm_1(x).reshape(B * k, T, d)
    seen = block.attention(y, y, places <= places.unsqueeze(1))
    x = x + seen.reshape(B, k, T, d)
    x = x + block.cross(block.norm_3(x).reshape(B, -1, d), memory, allowed).reshape(x.shape)
    return x + block.feed_forward(block.norm_2(x))


def beginnings_first(block, x, memory, allowed):
    """The beginnings are the outer axis, and come back below their source for the memory."""
    B, k, T, d = x.shape
    x = x.transpose(0, 1).flatten(0, 1)  # (k B, T, d)
    y = block.norm_1(x)
    x = x + block.attention(y, y, mt.ones(T, T, dtype=mt.bool).tril())
    x = x.unflatten(0, (k, B)).transpose(0, 1)  # (B, k, T, d)
    asked = block.norm_3(x).flatten(1, 2)
    x = x + block.cross(asked, memory, allowed).view(B, k, T, d)
    return x + block.feed_forward(block.norm_2(x))


right = {
    "many_beginnings": [beginnings_with_reshape, beginnings_first],
}
