"""Self-attention as a module, with a memory of its own."""

import minitorch as mt
from textbook.checks.modules import drawn, results_of
from textbook.checks.released import exercise


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
        drawn(SelfAttention.reference, *sizes),
        {"x": x},
        lambda layer: {"the output": layer(x)},
    )


def _start(slots):
    """Whether they begin with random numbers; of what is no tensor nothing is said."""
    several = isinstance(slots, mt.Tensor) and slots.numel() > 1
    alike = several and bool((slots == slots.max()).all())
    return "the same number everywhere" if alike else "random numbers"


SelfAttention = exercise(
    "SelfAttention",
    cases=_module_cases,
    run=_run_module,
    forbidden=("scaled_dot_product_attention",),
    instead="the three layers, @ and softmax",
    gradients=False,
    see='chapter 05, "In matrices"',
)
