"""The pre-norm block as a module."""

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of


def _block_cases(draw, hidden):
    """Sizes (width, heads, hidden), x (B, n, width) and where to look."""
    public = [((3, 1, 2), 1, 2, None), ((4, 2, 3), 2, 3, "random")]
    others = [((3, 3, 4), 1, 3, "causal"), ((6, 2, 4), 2, 2, "random")]
    for sizes, batch, n, mask in others if hidden else public:
        allowed = None if mask is None else mt.ones(n, n).tril().bool()
        if mask == "random":  # every query may look somewhere, and none at the last key
            allowed = draw.integers(2, n, n) > 0
            allowed[:, 0], allowed[:, -1] = True, False
        yield sizes, draw.normal(batch, n, sizes[0]), allowed


def _run_block(answer, sizes, x, allowed):
    others = () if allowed is None else (allowed,)
    return results_of(
        answer(*sizes),
        drawn(_Block, *sizes),
        {"x": x},
        lambda block: {"the output": block(x, *others)},
    )


def _nothing_leaks(answer, sizes, x, allowed):
    if allowed is None:
        return None
    module, others = made(_Block, answer, sizes), x.clone()
    others[:, -1] *= -1
    if not mt.allclose(module(x, allowed)[:, :-1], module(others, allowed)[:, :-1]):
        return "A token that the others are not allowed to look at must not change their outputs."
    return None


@exercise(
    cases=_block_cases,
    run=_run_block,
    properties=(_nothing_leaks,),
    gradients=False,
    see='chapter 09, "The block"',
)
class Block(nn.Module):
    """A pre-norm block of attention and feed-forward network."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )

    def forward(self, x, allowed=None):
        """x (B, n, width), allowed: where to look. Gives (B, n, width)."""
        normal = self.norm_1(x)
        masked = None if allowed is None else ~allowed
        attended, _ = self.attention(normal, normal, normal, attn_mask=masked)
        x = x + attended
        return x + self.feed_forward(self.norm_2(x))


_Block = Block.reference


class BlockInPieces(_Block):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_2(x))

    def attend(self, x, allowed):
        return self.look(x, x, x, allowed)

    def look(self, query, key, value, allowed):
        return self.attention(query, key, value, attn_mask=self.mask(allowed))[0]

    def mask(self, allowed):
        return None if allowed is None else ~allowed


@Block.wrong(
    "right but for the mask, which says the opposite",
    "allowed is True where a query may look, attn_mask where it may not: attn_mask=~allowed.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return allowed


@Block.wrong(
    "right but for the mask, which is not used",
    "Hand it on to the attention, the other way round: attn_mask=~allowed.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return None


@Block.wrong(
    "right but for the mask, which is always causal",
    "Use the argument allowed, and no mask where it is None.",
)
class _(BlockInPieces):
    def attend(self, x, allowed):
        return super().attend(x, mt.ones(x.shape[1], x.shape[1]).tril().bool())


@Block.wrong(
    "right but for the mask, which is transposed",
    "Row i of allowed belongs to query i, as in attn_mask.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return None if allowed is None else ~allowed.T


@Block.wrong(
    "a post-norm block: the norms come after the sums",
    "Pre-norm: norm_1 stands before the attention, norm_2 before the network, and none on the sum.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = self.norm_1(x + self.attend(x, allowed))
        return self.norm_2(x + self.feed_forward(x))


@Block.wrong(
    "right but for the norms, which stand after attention and network",
    "Pre-norm: norm first, then attention or network, then the sum.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.norm_1(self.attend(x, allowed))
        return x + self.norm_2(self.feed_forward(x))


@Block.wrong(
    "right but for the norms, which are missing",
    "norm_1 stands before the attention, norm_2 before the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.attend(x, allowed)
        return x + self.feed_forward(x)


@Block.wrong(
    "right but for norm_2, which is missing",
    "norm_2 stands before the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(x)


@Block.wrong(
    "right but for norm_1, which is missing",
    "norm_1 stands before the attention.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.attend(x, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for norm_1, which is used twice",
    "norm_1 stands before the attention, norm_2 before the network: each has a gain of its own.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_1(x))


@Block.wrong(
    "right but for the two norms, which are exchanged",
    "norm_1 stands before the attention, norm_2 before the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_2(x), allowed)
        return x + self.feed_forward(self.norm_1(x))


@Block.wrong(
    "right but for the attention, where only the queries have been through the norm",
    "Queries, keys and values all come from norm_1(x).",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.look(self.norm_1(x), x, x, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the attention, where the values have not been through the norm",
    "Queries, keys and values all come from norm_1(x).",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        x = x + self.look(normal, normal, x, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the sums, which add the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + attention(norm_1(x)).",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        normal = self.norm_2(normal + self.attend(normal, allowed))
        return normal + self.feed_forward(normal)


@Block.wrong(
    "right but for the first sum, which adds the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + attention(norm_1(x)).",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        x = normal + self.attend(normal, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the second sum, which adds the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + feed_forward(norm_2(x)).",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        normal = self.norm_2(x + self.attend(self.norm_1(x), allowed))
        return normal + self.feed_forward(normal)


@Block.wrong(
    "right but for both residual connections, which are missing",
    "Add x to what attention and network give.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        return self.feed_forward(self.norm_2(self.attend(self.norm_1(x), allowed)))


@Block.wrong(
    "right but for the residual connection around the attention, which is missing",
    "There are two: one around the attention, one around the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the residual connection around the network, which is missing",
    "There are two: one around the attention, one around the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the second sum, which adds the input of the block",
    "The second residual connection starts after the first sum: x has changed by then.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        between = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_2(between))


@Block.wrong(
    "a parallel block: attention and network both get the input",
    "The network comes after the attention: it gets the first sum.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        attended = self.attend(self.norm_1(x), allowed)
        return x + attended + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the order: the network comes before the attention",
    "First attention, then the network.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        x = x + self.feed_forward(self.norm_2(x))
        return x + self.attend(self.norm_1(x), allowed)


@Block.wrong(
    "right but for a norm at the end",
    "In pre-norm nothing stands on the sum. The one norm at the end of the model comes after the "
    "last block.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None):
        return self.norm_2(super().forward(x, allowed))
