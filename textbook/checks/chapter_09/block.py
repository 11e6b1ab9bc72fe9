"""The pre-norm block as a module."""

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of


def _block_cases(draw, hidden):
    """Sizes (width, heads, hidden), x (B, n, width), where to look, and which tokens are real."""
    public = [
        ((4, 1, 3), 1, 3, None, False),
        ((4, 2, 3), 2, 3, "random", False),
        ((6, 3, 4), 2, 4, None, True),
        ((4, 2, 5), 3, 4, "causal", True),
    ]
    others = [
        ((3, 3, 4), 1, 3, "causal", False),
        ((6, 2, 4), 2, 4, "random", True),
        ((4, 2, 6), 4, 5, None, True),
        ((4, 4, 2), 2, 3, None, False),
    ]
    for sizes, batch, n, mask, padded in others if hidden else public:
        allowed = None if mask is None else mt.ones(n, n).tril().bool()
        if mask == "random":  # every query may look somewhere, and none at the last key
            allowed = draw.integers(2, n, n) > 0
            allowed[:, 0], allowed[:, -1] = True, False
        x, real = draw.normal(batch, n, sizes[0]), None
        if padded:  # the first sequence has padding as well, the last one none
            real = draw.integers(2, batch, n) > 0
            real[:, 0], real[0, -1], real[-1] = True, False, True
            x[~real] = 1000 * x[~real]
        yield sizes, x, allowed, real


def _run_block(answer, sizes, x, allowed, real):
    """Two calls of one module, the second without masks."""
    others = {"allowed": allowed, "real": real}
    others = {name: value for name, value in others.items() if value is not None}
    return results_of(
        answer(*sizes),
        drawn(_Block, *sizes),
        {"x": x},
        lambda block: {
            "the output": block(x, **others),
            "the output of a second call, without masks": block(x),
        },
    )


def _nothing_leaks(answer, sizes, x, allowed, real):
    if allowed is None and real is None:
        return None
    module, others = made(_Block, answer, sizes), x.clone()
    if real is None:
        others[:, -1] *= -1
        if not mt.allclose(module(x, allowed)[:, :-1], module(others, allowed)[:, :-1]):
            return "A token that the others may not look at must not change their outputs."
    else:
        others[~real] = 3.0
        if not mt.allclose(module(x, allowed, real)[real], module(others, allowed, real)[real]):
            return "What stands at the padding must not change the outputs of real tokens."
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

    def forward(self, x, allowed=None, real=None):
        """x (B, n, width), allowed (n, n) and real (B, n) or None. Gives (B, n, width)."""
        normal = self.norm_1(x)
        attended, _ = self.attention(
            normal,
            normal,
            normal,
            attn_mask=None if allowed is None else ~allowed,
            key_padding_mask=None if real is None else ~real,
        )
        x = x + attended
        return x + self.feed_forward(self.norm_2(x))


_Block = Block.reference


class BlockInPieces(_Block):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x, allowed=None, real=None):
        self.allowed, self.real = allowed, real
        return self.both(x)

    def both(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))

    def attend(self, x):
        return self.look(x, x, x)

    def look(self, query, key, value):
        masks = {"attn_mask": self.mask(self.allowed), "key_padding_mask": self.padding(self.real)}
        return self.attention(query, key, value, **masks)[0]

    def mask(self, allowed):
        return None if allowed is None else ~allowed

    def padding(self, real):
        return None if real is None else ~real


@Block.wrong(
    "right but for allowed and real, which are handed on as they are",
    "PyTorch's masks say the opposite of ours: attn_mask=~allowed, key_padding_mask=~real.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return allowed

    def padding(self, real):
        return real


@Block.wrong(
    "right but for real, which is handed on as it is",
    "real is True at real tokens, key_padding_mask at padding: key_padding_mask=~real.",
)
class _(BlockInPieces):
    def padding(self, real):
        return real


@Block.wrong(
    "right but for real, which is not used",
    "Padding must not be looked at: key_padding_mask=~real, where real is not None.",
)
class _(BlockInPieces):
    def padding(self, real):
        return None


@Block.wrong(
    "right but for allowed and real, which are not used",
    "Hand both on to the attention, the other way round.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return None

    def padding(self, real):
        return None


@Block.wrong(
    "right with both masks or none: one alone is not used",
    "Each of allowed and real may be there without the other: hand on each of them by itself.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return None if self.real is None else super().mask(allowed)

    def padding(self, real):
        return None if self.allowed is None else super().padding(real)


@Block.wrong(
    "right but for real, which is used only together with allowed",
    "Each of the two may be None while the other is not.",
)
class _(BlockInPieces):
    def padding(self, real):
        return None if self.allowed is None else super().padding(real)


@Block.wrong(
    "right but for allowed, which is used only without real",
    "Where both are given, both count.",
)
class _(BlockInPieces):
    def mask(self, allowed):
        return super().mask(allowed) if self.real is None else None


@Block.wrong(
    "right but for real, which is that of the first sequence for all",
    "real is (B, n): each sequence has padding of its own.",
)
class _(BlockInPieces):
    def padding(self, real):
        return None if real is None else ~real[:1].expand(*real.shape)


@Block.wrong(
    "right, and then the outputs at the padding are set to 0",
    "Nobody asks for that: what stands there is masked wherever it matters.",
)
class _(BlockInPieces):
    def both(self, x):
        y = super().both(x)
        return y if self.real is None else y.masked_fill(~self.real.unsqueeze(-1), 0.0)


@Block.wrong(
    "right, but the masks of the first call are kept for all later ones",
    "A module may be called again, with other masks or none: use the arguments.",
)
class _(BlockInPieces):
    def forward(self, x, allowed=None, real=None):
        if not hasattr(self, "allowed"):
            self.allowed, self.real = allowed, real
        n = x.shape[1]
        allowed, real = self.allowed, self.real
        self.kept = allowed, real
        if allowed is not None:
            self.allowed = allowed[:n, :n]
        if real is not None:
            self.real = real[:, :n]
        y = self.both(x)
        self.allowed, self.real = self.kept
        return y


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
    def attend(self, x):
        self.allowed = mt.ones(x.shape[1], x.shape[1]).tril().bool()
        return super().attend(x)


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
    def both(self, x):
        x = self.norm_1(x + self.attend(x))
        return self.norm_2(x + self.feed_forward(x))


@Block.wrong(
    "right but for the norms, which stand after attention and network",
    "Pre-norm: norm first, then attention or network, then the sum.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.norm_1(self.attend(x))
        return x + self.norm_2(self.feed_forward(x))


@Block.wrong(
    "right but for the norms, which are missing",
    "norm_1 stands before the attention, norm_2 before the network.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.attend(x)
        return x + self.feed_forward(x)


@Block.wrong(
    "right but for norm_2, which is missing",
    "norm_2 stands before the network.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.feed_forward(x)


@Block.wrong(
    "right but for norm_1, which is missing",
    "norm_1 stands before the attention.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.attend(x)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for norm_1, which is used twice",
    "norm_1 stands before the attention, norm_2 before the network: each has a gain of its own.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.feed_forward(self.norm_1(x))


@Block.wrong(
    "right but for the two norms, which are exchanged",
    "norm_1 stands before the attention, norm_2 before the network.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.attend(self.norm_2(x))
        return x + self.feed_forward(self.norm_1(x))


@Block.wrong(
    "right but for the attention, where only the queries have been through the norm",
    "Queries, keys and values all come from norm_1(x).",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.look(self.norm_1(x), x, x)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the attention, where the values have not been through the norm",
    "Queries, keys and values all come from norm_1(x).",
)
class _(BlockInPieces):
    def both(self, x):
        normal = self.norm_1(x)
        x = x + self.look(normal, normal, x)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the sums, which add the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + attention(norm_1(x)).",
)
class _(BlockInPieces):
    def both(self, x):
        normal = self.norm_1(x)
        normal = self.norm_2(normal + self.attend(normal))
        return normal + self.feed_forward(normal)


@Block.wrong(
    "right but for the first sum, which adds the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + attention(norm_1(x)).",
)
class _(BlockInPieces):
    def both(self, x):
        normal = self.norm_1(x)
        x = normal + self.attend(normal)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the second sum, which adds the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + feed_forward(norm_2(x)).",
)
class _(BlockInPieces):
    def both(self, x):
        normal = self.norm_2(x + self.attend(self.norm_1(x)))
        return normal + self.feed_forward(normal)


@Block.wrong(
    "right but for both residual connections, which are missing",
    "Add x to what attention and network give.",
)
class _(BlockInPieces):
    def both(self, x):
        return self.feed_forward(self.norm_2(self.attend(self.norm_1(x))))


@Block.wrong(
    "right but for the residual connection around the attention, which is missing",
    "There are two: one around the attention, one around the network.",
)
class _(BlockInPieces):
    def both(self, x):
        x = self.attend(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the residual connection around the network, which is missing",
    "There are two: one around the attention, one around the network.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.attend(self.norm_1(x))
        return self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the second sum, which adds the input of the block",
    "The second residual connection starts after the first sum: x has changed by then.",
)
class _(BlockInPieces):
    def both(self, x):
        between = x + self.attend(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(between))


@Block.wrong(
    "a parallel block: attention and network both get the input",
    "The network comes after the attention: it gets the first sum.",
)
class _(BlockInPieces):
    def both(self, x):
        attended = self.attend(self.norm_1(x))
        return x + attended + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the order: the network comes before the attention",
    "First attention, then the network.",
)
class _(BlockInPieces):
    def both(self, x):
        x = x + self.feed_forward(self.norm_2(x))
        return x + self.attend(self.norm_1(x))


@Block.wrong(
    "right but for a norm at the end",
    "In pre-norm nothing stands on the sum. The one norm at the end of the model comes after the "
    "last block.",
)
class _(BlockInPieces):
    def both(self, x):
        return self.norm_2(super().both(x))
