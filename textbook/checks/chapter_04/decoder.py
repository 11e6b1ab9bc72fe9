"""A decoder that looks before it steps."""

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of, values


def _decoder_cases(draw, others=()):
    """Sizes (V, d, H_e, H, r), then a batch; the longest source is not the first."""
    sizes, counts, steps, n = others or ((6, 3, 4, 5, 3), [2, 4, 1], 3, 4)
    for filler in (1e6, None):
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        memory = draw.normal(len(counts), n, sizes[2])
        if filler:
            memory = memory.masked_fill(padding.unsqueeze(-1), filler)
        inputs = draw.integers(sizes[0], len(counts), steps)
        yield sizes, inputs, memory, padding, draw.normal(len(counts), sizes[3])
        counts = [n, *counts[1:]]


def _run(answer, sizes, inputs, memory, padding, state):
    return results_of(
        answer(*sizes),
        drawn(_Decoder, *sizes),
        {"memory": memory, "state": state},
        lambda decoder: {"the tensor of scores": decoder(inputs, memory, padding, state)},
    )


def _nothing_is_shared(answer, sizes, inputs, memory, padding, state):
    decoder, other = (made(_Decoder, answer, sizes) for _ in range(2))
    scores = values(decoder(inputs, memory, padding, state))
    early = values(decoder(inputs[:, :-1], memory, padding, state))
    if not mt.allclose(early, scores[:, :-1]):
        return "The scores of a step must not depend on what is read later."
    with mt.no_grad():
        for x in other.parameters():
            x *= 1.5
    values(other(inputs, memory, padding, state))
    if not mt.equal(values(decoder(inputs, memory, padding, state)), scores):
        return "After another decoder has run, this one gives other scores: they share something."
    return None


@exercise(
    cases=_decoder_cases,
    hidden_cases=lambda draw: _decoder_cases(draw, others=((7, 4, 5, 4, 6), [3, 1, 6, 5], 5, 7)),
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, tanh, softmax and a weighted sum",
    properties=(_nothing_is_shared,),
    gradients=False,
    see='chapter 04, "Comparing score functions, and feeding back"',
)
class AttentionDecoder(nn.Module):
    """A GRU decoder that looks with its old state, by additive scores, and then steps."""

    def __init__(self, vocabulary_size, width, encoder_size, hidden_size, rank):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.W_1 = nn.Linear(encoder_size, rank, bias=False)
        self.W_2 = nn.Linear(hidden_size, rank, bias=False)
        self.w = nn.Linear(rank, 1, bias=False)
        self.cell = nn.GRUCell(width + encoder_size, hidden_size)
        self.out = nn.Linear(hidden_size + encoder_size + width, vocabulary_size)

    def forward(self, inputs, memory, padding, state):
        """Inputs (B, T), memory (B, n, H_e), padding (B, n), state (B, H): scores (B, T, V)."""
        keys, results = self.W_1(memory), []  # (B, n, r)
        for x in self.embedding(inputs).unbind(1):  # (B, d)
            fit = self.w((keys + self.W_2(state).unsqueeze(1)).tanh()).squeeze(-1)  # (B, n)
            weights = fit.masked_fill(padding, -mt.inf).softmax(dim=-1)
            o = (weights.unsqueeze(1) @ memory).squeeze(1)  # (B, H_e)
            state = self.cell(mt.cat([x, o], dim=-1), state)  # (B, H)
            results.append(self.out(mt.cat([state, o, x], dim=-1)))
        return mt.stack(results, dim=1)


_Decoder = AttentionDecoder.reference
