"""The pre-norm block as a module."""

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of


def _block_cases(draw, others=()):
    """Sizes (width, heads, hidden), x (B, n, width), where to look, and which tokens are real."""
    public = [
        ((4, 1, 3), 1, 3, None, False),
        ((4, 2, 3), 2, 3, "random", False),
        ((6, 3, 4), 2, 4, None, True),
        ((4, 2, 5), 3, 4, "causal", True),
    ]
    for sizes, batch, n, mask, padded in others or public:
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
    hidden_cases=lambda draw: _block_cases(
        draw,
        others=[
            ((3, 3, 4), 1, 3, "causal", False),
            ((6, 2, 4), 2, 4, "random", True),
            ((4, 2, 6), 4, 5, None, True),
            ((4, 4, 2), 2, 3, None, False),
        ],
    ),
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
