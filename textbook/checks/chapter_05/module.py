"""Self-attention as a module, with a memory of its own."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, results_of


def _module_cases(draw, others=()):
    """Sizes (width, key size, slots) and an input; they differ, so that a swapped one shows."""
    public = [((4, 3, 2), (3, 4)), ((3, 5, 1), (2, 4, 3)), ((2, 3, 4), (2, 1, 3, 2))]
    for sizes, shape in others or public:
        yield sizes, draw.normal(*shape)


def _run_module(answer, sizes, x):
    layer = answer(*sizes)
    starts = {name: _start(getattr(layer, name, None)) for name in ("slot_keys", "slot_values")}
    return {"what the slots begin with": starts} | results_of(
        layer,
        drawn(_Module, *sizes),
        {"x": x},
        lambda layer: {"the output": layer(x)},
    )


def _start(slots):
    """Whether they begin with random numbers; of what is no tensor nothing is said."""
    several = isinstance(slots, mt.Tensor) and slots.numel() > 1
    alike = several and bool((slots == slots.max()).all())
    return "the same number everywhere" if alike else "random numbers"


@exercise(
    cases=_module_cases,
    hidden_cases=lambda draw: _module_cases(
        draw, others=[((4, 1, 3), (2, 3, 4)), ((2, 5, 6), (2, 1, 3, 2)), ((5, 2, 1), (1, 5))]
    ),
    run=_run_module,
    forbidden=("scaled_dot_product_attention",),
    instead="the three layers, @ and softmax",
    gradients=False,
    see='chapter 05, "In matrices"',
)
class SelfAttention(nn.Module):
    """Self-attention with trainable projections, and slots that any token may look at."""

    def __init__(self, width, key_size, slots):
        super().__init__()
        self.query = nn.Linear(width, key_size, bias=False)
        self.key = nn.Linear(width, key_size, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.slot_keys = nn.Parameter(mt.randn(slots, key_size) / math.sqrt(key_size))
        self.slot_values = nn.Parameter(mt.randn(slots, width))

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        on_tokens = query @ key.transpose(-2, -1)  # (..., n, n)
        on_slots = query @ self.slot_keys.T  # (..., n, slots)
        scores = mt.cat([on_tokens, on_slots], dim=-1) / math.sqrt(key.shape[-1])
        weights = scores.softmax(dim=-1)
        n = x.shape[-2]
        return weights[..., :n] @ value + weights[..., n:] @ self.slot_values


_Module = SelfAttention.reference
