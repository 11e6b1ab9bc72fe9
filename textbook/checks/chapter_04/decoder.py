"""A decoder that looks before it steps."""

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of, values


def _decoder_cases(draw, hidden):
    """Sizes (V, d, H_e, H, r), then a batch; the longest source is not the first."""
    sizes, counts, steps, n = (6, 3, 4, 5, 3), [2, 4, 1], 3, 4
    if hidden:
        sizes, counts, steps, n = (7, 4, 5, 4, 6), [3, 1, 6, 5], 5, 7
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


class DecoderInPieces(_Decoder):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, inputs, memory, padding, state):
        results, o = [], mt.zeros_like(memory[:, 0])
        for x in self.embedding(inputs).unbind(1):
            state, o, scores = self.step(x, state, o, memory, padding)
            results.append(scores)
        return mt.stack(results, dim=1)

    def step(self, x, state, before, memory, padding):
        o = self.look(state, memory, padding)
        state = self.cell(self.fed(x, o), state)
        return state, o, self.said(state, o, x)

    def look(self, state, memory, padding):
        joined = self.W_1(memory) + self.W_2(state).unsqueeze(1)
        weights = self.weigh(self.w(self.bent(joined)).squeeze(-1), padding)
        return (weights.unsqueeze(1) @ memory).squeeze(1)

    def fed(self, x, o):
        return mt.cat([x, o], dim=-1)

    def said(self, state, o, x):
        return self.out(mt.cat([state, o, x], dim=-1))

    def bent(self, joined):
        return joined.tanh()

    def weigh(self, scores, padding):
        return scores.masked_fill(padding, -mt.inf).softmax(dim=-1)


@AttentionDecoder.wrong(
    "a decoder that steps first and looks with its new state",
    "That is the order of Luong et al. Here the old state is the query, and what it finds goes "
    "into the cell at once.",
)
class _(DecoderInPieces):
    def step(self, x, state, before, memory, padding):
        state = self.cell(self.fed(x, before), state)
        o = self.look(state, memory, padding)
        return state, o, self.said(state, o, x)


@AttentionDecoder.wrong(
    "a decoder that steps, looks with its new state, and reads the look of its old one in the cell",
    "One look a step, with the old state; cell and output read what it found.",
)
class _(DecoderInPieces):
    def step(self, x, state, before, memory, padding):
        state = self.cell(self.fed(x, self.look(state, memory, padding)), state)
        o = self.look(state, memory, padding)
        return state, o, self.said(state, o, x)


@AttentionDecoder.wrong(
    "a decoder whose cell reads what was found the step before",
    "o_t is found with the old state and goes into the cell of the same step.",
)
class _(DecoderInPieces):
    def step(self, x, state, before, memory, padding):
        o = self.look(state, memory, padding)
        state = self.cell(self.fed(x, before), state)
        return state, o, self.said(state, o, x)


@AttentionDecoder.wrong(
    "a decoder whose output reads the old state",
    "The cell first, then the output, from its new state.",
)
class _(DecoderInPieces):
    def step(self, x, state, before, memory, padding):
        o = self.look(state, memory, padding)
        return self.cell(self.fed(x, o), state), o, self.said(state, o, x)


@AttentionDecoder.wrong(
    "a decoder that looks with its first state at every step",
    "The query is the state before this step.",
)
class _(DecoderInPieces):
    def forward(self, inputs, memory, padding, state):
        results, o = [], self.look(state, memory, padding)
        for x in self.embedding(inputs).unbind(1):
            state = self.cell(self.fed(x, o), state)
            results.append(self.said(state, o, x))
        return mt.stack(results, dim=1)


@AttentionDecoder.wrong(
    "a decoder that forgets its state: every step starts from the first one",
    "The new state is the old state of the next step.",
)
class _(DecoderInPieces):
    def forward(self, inputs, memory, padding, state):
        steps = [
            self.step(x, state, None, memory, padding)[2] for x in self.embedding(inputs).unbind(1)
        ]
        return mt.stack(steps, dim=1)


@AttentionDecoder.wrong(
    "a decoder that reads its own best guess",
    "That is generation. In training it reads the inputs, whatever it would have said itself.",
)
class _(DecoderInPieces):
    def forward(self, inputs, memory, padding, state):
        results, token = [], inputs[:, 0]
        for _ in range(inputs.shape[1]):
            state, _, scores = self.step(self.embedding(token), state, None, memory, padding)
            token = scores.argmax(dim=-1)
            results.append(scores)
        return mt.stack(results, dim=1)


@AttentionDecoder.wrong(
    "a decoder without attention: zeros go into cell and output",
    "The weighted sum of the memory belongs beside the embedding and beside the state.",
)
class _(DecoderInPieces):
    def look(self, state, memory, padding):
        return mt.zeros_like(memory[:, 0])


@AttentionDecoder.wrong(
    "a decoder whose cell reads zeros in place of what was found",
    "The cell reads [x; o].",
)
class _(DecoderInPieces):
    def fed(self, x, o):
        return mt.cat([x, mt.zeros_like(o)], dim=-1)


@AttentionDecoder.wrong(
    "a decoder whose gradient stops at what goes into the cell",
    "Hand o on as it is, without detach(): the gradient passes through it.",
)
class _(DecoderInPieces):
    def fed(self, x, o):
        return mt.cat([x, o.detach()], dim=-1)


@AttentionDecoder.wrong(
    "right but for the order in which the cell is fed: o first",
    "Its weights belong to [x; o].",
)
class _(DecoderInPieces):
    def fed(self, x, o):
        return mt.cat([o, x], dim=-1)


@AttentionDecoder.wrong(
    "right but for the order in the output: o first",
    "The weights of self.out belong to [s; o; x].",
)
class _(DecoderInPieces):
    def said(self, state, o, x):
        return self.out(mt.cat([o, state, x], dim=-1))


@AttentionDecoder.wrong(
    "right but for the order in the output: x before o",
    "The weights of self.out belong to [s; o; x].",
)
class _(DecoderInPieces):
    def said(self, state, o, x):
        return self.out(mt.cat([state, x, o], dim=-1))


@AttentionDecoder.wrong(
    "a decoder whose output reads zeros in place of the embedding",
    "The output reads the state, what was found, and the embedding.",
)
class _(DecoderInPieces):
    def said(self, state, o, x):
        return self.out(mt.cat([state, o, mt.zeros_like(x)], dim=-1))


@AttentionDecoder.wrong(
    "a decoder whose scores lack the tanh",
    "Without it every query gets the same weights: the score is w . tanh(W_1 h + W_2 s).",
)
class _(DecoderInPieces):
    def bent(self, joined):
        return joined


@AttentionDecoder.wrong(
    "a decoder that takes the tanh of each side by itself, and adds them up",
    "The score is w . tanh(W_1 h + W_2 s). What the query adds behind the tanh is the same for all "
    "words: it changes nothing in the softmax.",
)
class _(DecoderInPieces):
    def look(self, state, memory, padding):
        joined = self.W_1(memory).tanh() + self.W_2(state).unsqueeze(1).tanh()
        return (self.weigh(self.w(joined).squeeze(-1), padding).unsqueeze(1) @ memory).squeeze(1)


@AttentionDecoder.wrong(
    "a decoder with a relu in place of the tanh", "The score is w . tanh(W_1 h + W_2 s)."
)
class _(DecoderInPieces):
    def bent(self, joined):
        return joined.relu()


@AttentionDecoder.wrong(
    "a decoder that also looks at the padding of the source",
    "Padded words get the score minus infinity before the softmax.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.softmax(dim=-1)


@AttentionDecoder.wrong(
    "a decoder whose weights are set to 0 in the padding, after the softmax",
    "They no longer add up to 1. Mask the scores, before the softmax.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.softmax(dim=-1) * ~padding


@AttentionDecoder.wrong(
    "a decoder with scores of 0 in the padding",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a word out.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.masked_fill(padding, 0.0).softmax(dim=-1)


@AttentionDecoder.wrong(
    "a decoder with a softmax over the batch",
    "The words of one source compete: the softmax goes over the last axis.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.masked_fill(padding, -1e9).softmax(dim=0).masked_fill(padding, 0.0)


@AttentionDecoder.wrong(
    "a decoder with scores divided by the square root of the memory's size",
    "Additive scores are not divided: softmax of w . tanh(W_1 h + W_2 s).",
)
class _(DecoderInPieces):
    def look(self, state, memory, padding):
        joined = self.W_1(memory) + self.W_2(state).unsqueeze(1)
        scores = self.w(self.bent(joined)).squeeze(-1) / memory.shape[-1] ** 0.5
        return (self.weigh(scores, padding).unsqueeze(1) @ memory).squeeze(1)


@AttentionDecoder.wrong(
    "a decoder with a sigmoid of each score",
    "With sigmoids the weights do not add up to 1: the words must compete, in a softmax.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.sigmoid().masked_fill(padding, 0.0)


@AttentionDecoder.wrong(
    "masked the wrong way round: the padding alone has weights",
    "padding is True where nothing may be looked at.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.masked_fill(~padding, -1e30).softmax(dim=-1)


@AttentionDecoder.wrong(
    "a decoder with scores of -1 in the padding",
    "A score of -1 still has the weight exp(-1). Only minus infinity takes a word out.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return scores.masked_fill(padding, -1.0).softmax(dim=-1)


@AttentionDecoder.wrong(
    "right but for the order in the output: x, o, s",
    "The weights of self.out belong to [s; o; x].",
)
class _(DecoderInPieces):
    def said(self, state, o, x):
        return self.out(mt.cat([x, o, state], dim=-1))


@AttentionDecoder.wrong(
    "a decoder that averages the memory evenly",
    "That is mean pooling. Each word counts with its weight.",
)
class _(DecoderInPieces):
    def weigh(self, scores, padding):
        return (0 * scores).masked_fill(padding, -mt.inf).softmax(dim=-1)


@AttentionDecoder.wrong(
    "right but for the scores, which have been through a softmax",
    "Return the scores themselves: cross_entropy does the softmax.",
)
class _(DecoderInPieces):
    def forward(self, *batch):
        return super(type(self), self).forward(*batch).softmax(dim=-1)


@AttentionDecoder.wrong(
    "right but for the order of the axes: it is (T, B, V)",
    "Stack the scores of the steps along axis 1: (B, T, V).",
)
class _(DecoderInPieces):
    def forward(self, *batch):
        return super(type(self), self).forward(*batch).transpose(0, 1)
