"""The block of encoder and decoder, with masks, cross-attention and dropout."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_10.modules import Look, real_mask, with_axes
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of


def _block_cases(draw, hidden):
    """Sizes (width, cross, dropout), then what forward gets: every mask may be None."""
    width, batch, steps, n = (5, 3, 3, 4) if hidden else (4, 2, 3, 5)
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
    return block_of(_Block, *sizes)


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


@exercise(
    cases=_block_cases,
    run=_run_block,
    properties=(_drops_nothing_in_use, _padding_is_not_seen, _reads_the_memory),
    gradients=False,
    see='chapter 10, "The parts put together"',
)
class Block(nn.Module):
    """A pre-norm block of parts that are handed in."""

    def __init__(self, width, attention, feed_forward, cross=None, dropout=0.0, norm=nn.LayerNorm):
        super().__init__()
        self.attention, self.attention_norm = attention, norm(width)
        self.cross = cross
        if cross is not None:
            self.cross_norm = norm(width)
        self.feed_forward, self.feed_forward_norm = feed_forward, norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        """x (B, T, width), memory (B, n, width) and two masks give (B, T, width)."""
        normal = self.attention_norm(x)
        x = x + self.dropout(self.attention(normal, normal, allowed))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory, memory_allowed))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


_Block = Block.reference


class BlockInPieces(_Block):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        x = self.look(x, allowed)
        if self.cross is not None:
            x = self.read(x, memory, memory_allowed, allowed)
        return self.think(x)

    def look(self, x, allowed):
        normal = self.attention_norm(x)
        return self.add(x, self.attention(normal, normal, allowed))

    def read(self, x, memory, memory_allowed, allowed):
        return self.add(x, self.cross(self.cross_norm(x), memory, memory_allowed))

    def think(self, x):
        return self.add(x, self.feed_forward(self.feed_forward_norm(x)))

    def add(self, x, part):
        return x + self.dropout(part)


@Block.wrong(
    "right but for the dropout, which is missing",
    "What each part gives goes through self.dropout before it is added to x.",
)
class _(BlockInPieces):
    def add(self, x, part):
        return x + part


@Block.wrong(
    "right but for the dropout, which goes over the sum",
    "x itself is never dropped: x + self.dropout(part of the norm of x).",
)
class _(BlockInPieces):
    def add(self, x, part):
        return self.dropout(x + part)


@Block.wrong(
    "right but for the dropout, which stands before each part and not after it",
    "Dropout comes last, on what the part gives: x + self.dropout(part of the norm of x).",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        normal = self.dropout(self.attention_norm(x))
        return x + self.attention(normal, normal, allowed)

    def read(self, x, memory, memory_allowed, allowed):
        return x + self.cross(self.dropout(self.cross_norm(x)), memory, memory_allowed)

    def think(self, x):
        return x + self.feed_forward(self.dropout(self.feed_forward_norm(x)))


@Block.wrong(
    "right but for the dropout, which only the network has",
    "Each part has its dropout: attention, cross-attention and network.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        normal = self.attention_norm(x)
        return x + self.attention(normal, normal, allowed)

    def read(self, x, memory, memory_allowed, allowed):
        return x + self.cross(self.cross_norm(x), memory, memory_allowed)


@Block.wrong(
    "right but for the dropout of the network, which is missing",
    "Each part has its dropout: attention, cross-attention and network.",
)
class _(BlockInPieces):
    def think(self, x):
        return x + self.feed_forward(self.feed_forward_norm(x))


@Block.wrong(
    "right but for the dropout, which the whole block has once, at its end",
    "Each part has its dropout, before the sum.",
)
class _(BlockInPieces):
    def forward(self, x, *others):
        return self.dropout(super().forward(x, *others))

    def add(self, x, part):
        return x + part


@Block.wrong(
    "a post-norm block: the norms come after the sums",
    "Pre-norm: each norm stands before its part, and none on the sum.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        return self.attention_norm(self.add(x, self.attention(x, x, allowed)))

    def read(self, x, memory, memory_allowed, allowed):
        return self.cross_norm(self.add(x, self.cross(x, memory, memory_allowed)))

    def think(self, x):
        return self.feed_forward_norm(self.add(x, self.feed_forward(x)))


@Block.wrong(
    "right but for the mask, which is not used",
    "Hand allowed on to self.attention.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        return super().look(x, None)


@Block.wrong(
    "right but for the mask of the memory, which is not used",
    "Hand memory_allowed on to self.cross: else the source's padding is read.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return super().read(x, memory, None, allowed)


@Block.wrong(
    "right but for the masks: the cross-attention gets the one of the attention",
    "allowed says where x may look in itself, memory_allowed where it may look in the memory.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return super().read(x, memory, allowed, allowed)


@Block.wrong(
    "right but for the masks, which are turned round",
    "True means: may be looked at, here and in the attentions. Hand the masks on as they are.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        turned = [None if mask is None else ~mask for mask in (allowed, memory_allowed)]
        return super().forward(x, turned[0], memory, turned[1])


@Block.wrong(
    "right but for the mask of the attention, which is turned round",
    "True means: may be looked at, here and in the attention. Hand allowed on as it is.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        return super().look(x, None if allowed is None else ~allowed)


@Block.wrong(
    "right but for the mask of the memory, which is turned round",
    "True means: may be looked at, here and in the attention. Hand memory_allowed on as it is.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        turned = None if memory_allowed is None else ~memory_allowed
        return super().read(x, memory, turned, allowed)


@Block.wrong(
    "right but for the last sum, which adds the input of the block",
    "Each residual connection starts where the part before it has ended: x has changed by then.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        total = self.look(x, allowed)
        if self.cross is not None:
            total = self.read(total, memory, memory_allowed, allowed)
        return self.add(x, self.feed_forward(self.feed_forward_norm(total)))


@Block.wrong(
    "a block without cross-attention: self.cross is never called",
    "Where self.cross is not None, it comes between attention and network.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return x


@Block.wrong(
    "right but for the cross-attention, which looks at x itself",
    "x asks, the memory answers: self.cross(norm of x, memory, memory_allowed).",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        normal = self.cross_norm(x)
        return self.add(x, self.cross(normal, normal, allowed))


@Block.wrong(
    "right but for the cross-attention, whose residual connection is missing",
    "Each of the three parts is added to what came in.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return self.dropout(self.cross(self.cross_norm(x), memory, memory_allowed))


@Block.wrong(
    "right but for the cross-attention, which gets x without a norm",
    "Each of the three parts has its norm: self.cross_norm stands before self.cross.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return self.add(x, self.cross(x, memory, memory_allowed))


@Block.wrong(
    "right but for the memory, which goes through a norm of the block",
    "The encoder ends with a norm of its own: the memory is used as it comes.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return super().read(x, self.cross_norm(memory), memory_allowed, allowed)


@Block.wrong(
    "right but for the cross-attention, where the memory asks and x answers",
    "x asks, the memory answers: self.cross(norm of x, memory, memory_allowed).",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return self.add(x, self.cross(memory, self.cross_norm(x), memory_allowed))


@Block.wrong(
    "right but for the order: cross-attention comes before the attention",
    "First the attention to itself, then the memory, then the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        if self.cross is not None:
            x = self.read(x, memory, memory_allowed, allowed)
        return self.think(self.look(x, allowed))


@Block.wrong(
    "right but for the order: the network comes before the cross-attention",
    "First the attention to itself, then the memory, then the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        x = self.think(self.look(x, allowed))
        return x if self.cross is None else self.read(x, memory, memory_allowed, allowed)


@Block.wrong(
    "a parallel block: all parts get the input of the block",
    "Each part gets the sum that the part before it has left.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        normal = self.attention_norm(x)
        total = self.add(x, self.attention(normal, normal, allowed))
        if self.cross is not None:
            read = self.cross(self.cross_norm(x), memory, memory_allowed)
            total = self.add(total, read)
        return self.add(total, self.feed_forward(self.feed_forward_norm(x)))


@Block.wrong(
    "right but for the sums, which add the norm of x and not x",
    "The residual connection carries x itself, past the norm.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        normal = self.attention_norm(x)
        return self.add(normal, self.attention(normal, normal, allowed))

    def read(self, x, memory, memory_allowed, allowed):
        normal = self.cross_norm(x)
        return self.add(normal, self.cross(normal, memory, memory_allowed))

    def think(self, x):
        normal = self.feed_forward_norm(x)
        return self.add(normal, self.feed_forward(normal))


@Block.wrong(
    "right but for the attention, where only the queries have been through the norm",
    "Queries, keys and values all come from the norm of x: the first two arguments are equal.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        return self.add(x, self.attention(self.attention_norm(x), x, allowed))


@Block.wrong(
    "right but for the residual connections, which are missing",
    "Add x to what each part gives.",
)
class _(BlockInPieces):
    def add(self, x, part):
        return self.dropout(part)


@Block.wrong(
    "right but for a norm at the end",
    "In pre-norm nothing stands on the sum. The one norm at the end comes after the last block.",
)
class _(BlockInPieces):
    def think(self, x):
        return self.feed_forward_norm(super().think(x))


@Block.wrong(
    "right but for a memory without a mask, at which it leaves the cross-attention out",
    "Without a mask the whole memory may be looked at. Ask self.cross is not None.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return x if memory_allowed is None else super().read(x, memory, memory_allowed, allowed)


@Block.wrong(
    "right but for a block of the encoder that is handed a memory: it asks for the memory, not for "
    "self.cross",
    "Whether there is a cross-attention, self.cross says.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        x = self.look(x, allowed)
        if memory is not None:
            x = self.add(x, self.cross(self.cross_norm(x), memory, memory_allowed))
        return self.think(x)


@Block.wrong(
    "right but for the norms of attention and network, which are exchanged",
    "Each part has the norm of its name.",
)
class _(BlockInPieces):
    def look(self, x, allowed):
        normal = self.feed_forward_norm(x)
        return self.add(x, self.attention(normal, normal, allowed))

    def think(self, x):
        return self.add(x, self.feed_forward(self.attention_norm(x)))


@Block.wrong(
    "right but for the norm of the cross-attention, for which it takes that of the attention",
    "Each part has the norm of its name: self.cross_norm.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return self.add(x, self.cross(self.attention_norm(x), memory, memory_allowed))


@Block.wrong(
    "right but for the dropout of the cross-attention, which is missing",
    "Each part has its dropout: attention, cross-attention and network.",
)
class _(BlockInPieces):
    def read(self, x, memory, memory_allowed, allowed):
        return x + self.cross(self.cross_norm(x), memory, memory_allowed)
