"""Self-attention as a module, with a memory of its own."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_05.layers import attending
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, results_of


def _module_cases(draw, hidden):
    """Sizes (width, key size, slots) and an input; they differ, so that a swapped one shows."""
    public = [((4, 3, 2), (3, 4)), ((3, 5, 1), (2, 4, 3)), ((2, 3, 4), (2, 1, 3, 2))]
    hidden_cases = [((4, 1, 3), (2, 3, 4)), ((2, 5, 6), (2, 1, 3, 2)), ((5, 2, 1), (1, 5))]
    for sizes, shape in hidden_cases if hidden else public:
        yield sizes, draw.normal(*shape)


def _run_module(answer, sizes, x):
    return results_of(
        answer(*sizes),
        drawn(_Module, *sizes),
        {"x": x},
        lambda layer: {"the output": layer(x)},
    )


@exercise(
    cases=_module_cases,
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


class ModuleInPieces(_Module):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x):
        query, key, value = self.project(x)
        slots = [
            part.expand(*x.shape[:-2], *part.shape) for part in (self.slot_keys, self.slot_values)
        ]
        return self.attend(query, *self.join(key, value, *slots))

    def project(self, x):
        return self.query(x), self.key(x), self.value(x)

    def join(self, key, value, slot_keys, slot_values):
        return mt.cat([key, slot_keys], dim=-2), mt.cat([value, slot_values], dim=-2)

    def attend(self, query, key, value):
        return attending()(query, key, value)


@SelfAttention.wrong(
    "a module that does not use its slots",
    "Every token may look at the slots as at tokens: one softmax over n + slots scores.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return key, value


@SelfAttention.wrong(
    "a module with two softmaxes: one over the tokens and one over the slots",
    "Tokens and slots compete: one softmax over n + slots scores.",
)
class _(ModuleInPieces):
    def forward(self, x):
        slots = [
            part.expand(*x.shape[:-2], *part.shape) for part in (self.slot_keys, self.slot_values)
        ]
        query, key, value = self.project(x)
        return self.attend(query, key, value) + self.attend(query, *slots)


@SelfAttention.wrong(
    "a module that projects its slots, as if they were tokens",
    "The slots hold keys and values as they are: nothing is made of them.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return super().join(key, value, self.key(slot_values), self.value(slot_values))


@SelfAttention.wrong(
    "right but for the slots, each of which gives its key as a value",
    "A slot has a key, by which it is found, and a value, which it gives.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        width = value.shape[-1]
        keys = slot_keys[..., :width]
        padded = mt.cat([keys, mt.zeros(*keys.shape[:-1], width - keys.shape[-1])], dim=-1)
        return mt.cat([key, slot_keys], dim=-2), mt.cat([value, padded], dim=-2)


@SelfAttention.wrong(
    "right but for the scores of the slots, which are not divided",
    "Tokens and slots share one softmax: all scores are divided by the same root.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return super().join(key, value, slot_keys * key.shape[-1] ** 0.5, slot_values)


@SelfAttention.wrong(
    "a module that looks at its slots alone",
    "Every token looks at the tokens and at the slots: one softmax over n + slots scores.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return slot_keys, slot_values


@SelfAttention.wrong(
    "right but for keys and values, of which one has the slots in front and one behind",
    "Value j belongs to key j: put the slots on the same side of both.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        keys, _ = super(type(self), self).join(key, value, slot_keys, slot_values)
        return keys, mt.cat([slot_values, value], dim=-2)


@SelfAttention.wrong(
    "a module whose keys ask: self.query is not used",
    "A token asks with its query: self.query(x).",
)
class _(ModuleInPieces):
    def project(self, x):
        return self.key(x), self.key(x), self.value(x)


@SelfAttention.wrong(
    "a module that divides the scores by the square root of the number of slots",
    "By that of the key size: it is the length of the vectors that makes dot products large.",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        root = len(self.slot_keys) ** 0.5
        return attending(divisor=lambda query, key, value: root)(query, key, value)


@SelfAttention.wrong(
    "right in its values, but no gradient reaches the values of the slots",
    "They are to be trained: no detach(), .data or tensor(...).",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return super(type(self), self).join(key, value, slot_keys, slot_values.detach())


@SelfAttention.wrong(
    "right but for the values of the slots, which are not used",
    "A slot gives its value, as a token does.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return super().join(key, value, slot_keys, 0 * slot_values)


@SelfAttention.wrong(
    "right but for the values of the slots, which are projected",
    "The slots hold keys and values as they are: nothing is made of them.",
)
class _(ModuleInPieces):
    def join(self, key, value, slot_keys, slot_values):
        return super().join(key, value, slot_keys, self.value(slot_values))


@SelfAttention.wrong(
    "right in its values, but no gradient reaches the tokens",
    "A layer below would learn nothing: x must not be detached.",
)
class _(ModuleInPieces):
    def forward(self, x):
        return super().forward(x.detach())


@SelfAttention.wrong(
    "a module whose slots are no parameters",
    "A tensor that is assigned to self is not trained: nn.Parameter(...).",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        keys, values = self.slot_keys.detach(), self.slot_values.detach()
        del self.slot_keys, self.slot_values
        self.slot_keys, self.slot_values = keys, values


@SelfAttention.wrong(
    "right but for the slots, which ask as well: n + slots outputs",
    "Slots are looked at, and do not look: the queries are those of the tokens.",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        slots = key.shape[-2] - query.shape[-2]
        return super().attend(mt.cat([query, key[..., -slots:, :]], dim=-2), key, value)


@SelfAttention.wrong(
    "right but for the biases",
    "The three layers are plain matrices: nn.Linear(..., bias=False).",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        self.query = nn.Linear(width, key_size)
        self.key = nn.Linear(width, key_size)
        self.value = nn.Linear(width, width)


@SelfAttention.wrong(
    "a module whose values have the size of a key",
    "What a token gives is as wide as what came in: nn.Linear(width, width) for the values.",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        self.value = nn.Linear(width, key_size, bias=False)


@SelfAttention.wrong(
    "a module whose queries and keys have the size of a token",
    "They have key_size numbers: nn.Linear(width, key_size).",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, width, slots)


@SelfAttention.wrong(
    "a module with the two sizes of queries and keys exchanged",
    "nn.Linear takes the size of its input first: nn.Linear(width, key_size).",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        self.query = nn.Linear(key_size, width, bias=False)
        self.key = nn.Linear(key_size, width, bias=False)


@SelfAttention.wrong(
    "a module without parameters: its layers are not found",
    "Only what is assigned to self in __init__, as self.query = nn.Linear(...), is registered; "
    "what stands in a list or dict, or is made in forward, is not trained.",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        self.layers = [self.query, self.key, self.value]
        del self.query, self.key, self.value


@SelfAttention.wrong(
    "a module with an output layer on top",
    "The output layer comes with the heads, in chapter 06. Here there are query, key and value.",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        self.out = nn.Linear(width, width, bias=False)


@SelfAttention.wrong(
    "a module that uses one layer for queries and keys",
    "Make two layers, self.query and self.key; each has its own weights.",
)
class _(ModuleInPieces):
    def __init__(self, width, key_size, slots):
        super().__init__(width, key_size, slots)
        self.key = self.query


@SelfAttention.wrong(
    "a module without the division by a square root",
    "Divide the scores by the square root of the size of a key (C11).",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(divisor=lambda *_: 1)(query, key, value)


@SelfAttention.wrong(
    "a module that divides the scores by the square root of width",
    "A dot product of queries and keys adds up key_size numbers, so that is what to take the root "
    "of.",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(divisor=lambda *_: value.shape[-1] ** 0.5)(query, key, value)


@SelfAttention.wrong(
    "a module that divides the scores by key_size",
    "Divide by its square root.",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(divisor=lambda *_: key.shape[-1])(query, key, value)


@SelfAttention.wrong(
    "a module with queries and keys exchanged",
    "Row i of the scores belongs to the query of token i.",
)
class _(ModuleInPieces):
    def project(self, x):
        return self.key(x), self.query(x), self.value(x)


@SelfAttention.wrong(
    "a module that averages what came in: self.value is not used",
    "What is averaged are the values, self.value(x).",
)
class _(ModuleInPieces):
    def project(self, x):
        return self.query(x), self.key(x), x


@SelfAttention.wrong(
    "a module with a softmax over the queries",
    "Every token shares its attention among all tokens: the softmax goes over the last axis.",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(weigh=lambda scores: scores.softmax(dim=-2))(query, key, value)


@SelfAttention.wrong(
    "right for two axes alone: the softmax goes over axis 1",
    "With leading axes the keys are no longer axis 1. Count from the end: dim=-1.",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(weigh=lambda scores: scores.softmax(dim=1))(query, key, value)


@SelfAttention.wrong(
    "right but for the input, which is added to the output",
    "That is a residual connection, which comes in chapter 09.",
)
class _(ModuleInPieces):
    def forward(self, x):
        return x + super().forward(x)


@SelfAttention.wrong(
    "right for one axis of batch alone: axes 1 and 2 of the keys are exchanged",
    "There may be no leading axis, or several. Count from the end: transpose(-2, -1).",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(score=lambda query, key: query @ key.transpose(1, 2))(query, key, value)


@SelfAttention.wrong(
    "right in its values, but no gradient reaches query and key",
    "Something cuts the weights off from the graph: detach(), numpy(), .data or tensor(...).",
)
class _(ModuleInPieces):
    def attend(self, query, key, value):
        return attending(weigh=lambda scores: scores.softmax(dim=-1).detach())(query, key, value)
