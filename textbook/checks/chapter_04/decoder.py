"""One decoder step with input feeding, and the whole decoder."""

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_01.states import draw_weights, rnn_cell
from textbook.checks.chapter_04.averages import inside, masked_softmax, weighted_sum
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of

# One step


class _Cell:
    """A recurrent cell that comes with its weights: (B, inputs), (B, hidden) -> (B, hidden)."""

    def __init__(self, draw, inputs, hidden):
        self.inputs, self.hidden = inputs, hidden
        self.weights = draw_weights(draw, inputs, hidden)

    def __call__(self, x, h):
        return rnn_cell(x, h, *self.weights)

    def __repr__(self):
        return f"RNN cell({self.inputs} -> {self.hidden})"

    def __deepcopy__(self, memo):
        return self


def _lengths(draw, batch, n):
    """The lengths of a batch: the last is n, the others are shorter."""
    return mt.cat([1 + draw.integers(n - 1, batch - 1), mt.tensor([n])])


def _step_cases(draw, hidden):
    """In public cases H_e = H, so that W fits transposed, or left out."""
    sizes = [(1, 2, 1, 2, 2), (3, 4, 2, 3, 3)] + [(5, 7, 2, 3, 4)] * hidden
    for batch, n, d, size, units in sizes:
        yield (
            draw.normal(batch, d),
            draw.normal(batch, size),
            draw.normal(batch, units),
            _Cell(draw, d + size, units),
            draw.normal(batch, n, size),
            _lengths(draw, batch, n),
            draw.normal(units, size),
        )


def _bilinear(h, states, W):
    return (states @ (h @ W).unsqueeze(-1)).squeeze(-1)  # (B, n)


def _stepping(
    feed=lambda x, context: mt.cat([x, context], dim=-1),
    ask=lambda before, after: after,
    score=_bilinear,
    weigh=masked_softmax,
    average=weighted_sum,
):
    """The step with one of its pieces exchanged."""

    def step(x, context, h, cell, states, lengths, W):
        after = cell(feed(x, context), h)
        weights = weigh(score(ask(h, after), states, W), lengths)
        return after, average(weights, states), weights

    return step


def _padding_takes_no_part(answer, x, context, h, cell, states, lengths, W):
    padding = ~inside(lengths, states.shape[1]).unsqueeze(-1)
    before = answer(x, context, h, cell, states, lengths, W)
    after = answer(x, context, h, cell, mt.where(padding, 1000.0, states), lengths, W)
    for a, b in zip(before, after, strict=True):
        if not mt.allclose(a, b):
            return "What stands in the padding of the source must not change the result."
    return None


@exercise(
    cases=_step_cases,
    forbidden=("scaled_dot_product_attention", "linear"),
    instead="@, softmax and the cell that you are given",
    properties=(_padding_takes_no_part,),
    see='chapter 04, "Comparing score functions, and feeding back"',
)
def decoder_step(x, context, h, cell, states, lengths, W):
    """One step: the new state (B, H), the new context (B, H_e), the weights (B, n)."""
    h = cell(mt.cat([x, context], dim=-1), h)  # (B, H)
    scores = (states @ (h @ W).unsqueeze(-1)).squeeze(-1)  # (B, n)
    padding = mt.arange(states.shape[1]) >= lengths.unsqueeze(1)
    weights = scores.masked_fill(padding, -mt.inf).softmax(dim=-1)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)  # (B, H_e)
    return h, context, weights


decoder_step.wrong(
    "the step without input feeding: zeros go into the cell in place of the last context",
    "The cell reads [x; context], so that it knows where the decoder looked the last time.",
)(_stepping(feed=lambda x, context: mt.cat([x, mt.zeros_like(context)], dim=-1)))
decoder_step.wrong(
    "right but for the order: the cell reads [context; x]",
    "Its weights belong to [x; context], the input first.",
)(_stepping(feed=lambda x, context: mt.cat([context, x], dim=-1)))
decoder_step.wrong(
    "a step that asks with the old state",
    "Take the recurrent step first; the new state is the query. (Bahdanau et al. ask with the old "
    "one, but then the new context goes into the cell at once.)",
)(_stepping(ask=lambda before, after: before))
decoder_step.wrong(
    "a step that does not look at W",
    "The score is multiplicative, h W k, for each encoder state k.",
)(_stepping(score=lambda h, states, W: (states @ h.unsqueeze(-1)).squeeze(-1)))
decoder_step.wrong(
    "right but for W, which is transposed",
    "The score is h W k: query on the left, W of shape (H, H_e).",
)(_stepping(score=lambda h, states, W: _bilinear(h, states, W.T)))
decoder_step.wrong(
    "right but for the scores, which are divided by the square root of H_e",
    "Scaling comes in chapter 05. Here the scores are h W k as they are.",
)(_stepping(score=lambda h, states, W: _bilinear(h, states, W) / states.shape[-1] ** 0.5))
decoder_step.wrong(
    "a step that also looks at the padding of the source",
    "Positions from lengths[b] on get the score minus infinity before the softmax.",
)(_stepping(weigh=lambda scores, lengths: scores.softmax(dim=-1)))
decoder_step.wrong(
    "a step whose weights are set to 0 in the padding, after the softmax",
    "They no longer add up to 1. Mask the scores, before the softmax.",
)(
    _stepping(
        weigh=lambda scores, lengths: scores.softmax(dim=-1) * inside(lengths, scores.shape[-1])
    )
)
decoder_step.wrong(
    "a step with scores of 0 in the padding",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a position out.",
)(
    _stepping(
        weigh=lambda scores, lengths: (scores * inside(lengths, scores.shape[-1])).softmax(dim=-1)
    )
)
decoder_step.wrong(
    "a step with a softmax over the batch",
    "The positions of one source compete: the softmax goes over the last axis.",
)(
    _stepping(
        weigh=lambda scores, lengths: scores.masked_fill(
            ~inside(lengths, scores.shape[-1]), -mt.inf
        ).softmax(dim=0)
    )
)
decoder_step.wrong(
    "a step whose context is the mean of the encoder states",
    "That is mean pooling, where attention begins. Each state counts with its weight.",
)(_stepping(average=lambda weights, states: states.mean(dim=1)))


@decoder_step.wrong(
    "a step that looks first and then feeds the new context into the cell",
    "That is the order of Bahdanau et al. Here the cell reads the context of the step before, and "
    "its new state is the query.",
)
def _(x, context, h, cell, states, lengths, W):
    weights = masked_softmax(_bilinear(h, states, W), lengths)
    context = weighted_sum(weights, states)
    return cell(mt.cat([x, context], dim=-1), h), context, weights


@decoder_step.wrong(
    "right but for the context, which is the old one",
    "Return the new context; it goes into the next step.",
)
def _(x, context, h, cell, states, lengths, W):
    h, _, weights = decoder_step.reference(x, context, h, cell, states, lengths, W)
    return h, context, weights


# The whole decoder


def _decoder_cases(draw, hidden):
    """Sizes (V, d, H_e, H, a), then a batch; each sequence of the source has a length."""
    sizes, batch, steps, n = ((6, 2, 4, 3, 3), 3, 3, 4) if hidden else ((5, 3, 2, 4, 3), 2, 2, 3)
    vocabulary_size, _, size, units, _ = sizes
    yield (
        sizes,
        draw.integers(vocabulary_size - 1, batch, steps),
        draw.normal(batch, n, size),
        _lengths(draw, batch, n),
        draw.normal(batch, units),
        vocabulary_size - 1,
    )


def _run(answer, sizes, targets, states, lengths, h, start):
    return results_of(
        answer(*sizes),
        drawn(_Decoder, *sizes),
        {"states": states, "h": h},
        lambda decoder: {"the tensor of scores": decoder(targets, states, lengths, h, start)},
    )


def _nothing_leaks(answer, sizes, targets, states, lengths, h, start):
    decoder = made(_Decoder, answer, sizes)
    others = targets.clone()
    others[:, -1] = (targets[:, -1] + 1) % start
    before = decoder(targets, states, lengths, h, start)
    if not mt.equal(before, decoder(others, states, lengths, h, start)):
        return "The scores must not depend on the last target, which nothing comes after."
    return None


@exercise(
    cases=_decoder_cases,
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, tanh, softmax and a weighted sum",
    properties=(_nothing_leaks,),
    gradients=False,
    see='chapter 04, "A translator with attention"',
)
class AttentionDecoder(nn.Module):
    """A GRU decoder that looks at the encoder's states by additive attention."""

    def __init__(self, vocabulary_size, width, encoder_size, hidden_size, attention_size):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.cell = nn.GRUCell(width + encoder_size, hidden_size)
        self.from_query = nn.Linear(hidden_size, attention_size, bias=False)
        self.from_key = nn.Linear(encoder_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)
        self.output = nn.Linear(hidden_size + encoder_size, vocabulary_size)

    def forward(self, targets, states, lengths, h, start):
        """Targets (B, T), states (B, n, H_e), lengths (B) and h (B, H) give scores (B, T, V)."""
        padding = mt.arange(states.shape[1]) >= lengths.unsqueeze(1)  # (B, n)
        keys = self.from_key(states)  # (B, n, a)
        context = mt.zeros_like(states[:, 0])  # (B, H_e)
        first = mt.full_like(targets[:, :1], start)
        results = []
        for token in mt.cat([first, targets[:, :-1]], dim=1).unbind(1):  # (B)
            h = self.cell(mt.cat([self.embedding(token), context], dim=-1), h)  # (B, H)
            fit = self.score((self.from_query(h).unsqueeze(1) + keys).tanh()).squeeze(-1)  # (B, n)
            weights = fit.masked_fill(padding, -mt.inf).softmax(dim=-1)
            context = (weights.unsqueeze(-1) * states).sum(dim=1)
            results.append(self.output(mt.cat([h, context], dim=-1)))
        return mt.stack(results, dim=1)  # (B, T, V)


_Decoder = AttentionDecoder.reference


class DecoderInPieces(_Decoder):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, targets, states, lengths, h, start):
        context, results = mt.zeros_like(states[:, 0]), []
        for token in self.inputs(targets, start):
            h, context, scores = self.step(token, h, context, states, lengths)
            results.append(scores)
        return mt.stack(results, dim=1)

    def inputs(self, targets, start):
        """What is read, (B) at a time: the start token, then all targets but the last."""
        first = mt.full_like(targets[:, :1], start)
        return mt.cat([first, targets[:, :-1]], dim=1).unbind(1)

    def step(self, token, h, context, states, lengths):
        h = self.cell(self.fed(self.embedding(token), context), h)
        context = self.look(h, states, lengths)
        return h, context, self.output(mt.cat([h, context], dim=-1))

    def fed(self, x, context):
        return mt.cat([x, context], dim=-1)

    def look(self, h, states, lengths):
        joined = self.from_query(h).unsqueeze(1) + self.from_key(states)  # (B, n, a)
        scores = self.score(self.bent(joined)).squeeze(-1)  # (B, n)
        return weighted_sum(self.weights(scores, lengths), states)

    def bent(self, joined):
        return joined.tanh()

    def weights(self, scores, lengths):
        return masked_softmax(scores, lengths)


@AttentionDecoder.wrong(
    "a leak: at each step the decoder reads the token that it has to predict",
    "Step t reads the target before it, targets[:, t - 1], and the first step reads the start "
    "token.",
)
class _(DecoderInPieces):
    def inputs(self, targets, start):
        return targets.unbind(1)


@AttentionDecoder.wrong(
    "a decoder that reads the start token at every step",
    "After the start token it reads the targets one by one: that is teacher forcing.",
)
class _(DecoderInPieces):
    def inputs(self, targets, start):
        return mt.full_like(targets, start).unbind(1)


@AttentionDecoder.wrong(
    "a decoder that reads its own best guess",
    "That is generation. In training it reads the targets, whatever it would have said itself.",
)
class _(DecoderInPieces):
    def forward(self, targets, states, lengths, h, start):
        context, results = mt.zeros_like(states[:, 0]), []
        token = mt.full_like(targets[:, 0], start)
        for _ in range(targets.shape[1]):
            h, context, scores = self.step(token, h, context, states, lengths)
            token = scores.argmax(dim=-1)
            results.append(scores)
        return mt.stack(results, dim=1)


@AttentionDecoder.wrong(
    "a decoder that forgets its state: every step starts from the first one",
    "The new state is the old state of the next step.",
)
class _(DecoderInPieces):
    def forward(self, targets, states, lengths, h, start):
        context, results = mt.zeros_like(states[:, 0]), []
        for token in self.inputs(targets, start):
            _, context, scores = self.step(token, h, context, states, lengths)
            results.append(scores)
        return mt.stack(results, dim=1)


@AttentionDecoder.wrong(
    "a decoder without input feeding: zeros go into the cell in place of the last context",
    "The cell reads the embedding and the context of the step before.",
)
class _(DecoderInPieces):
    def fed(self, x, context):
        return mt.cat([x, mt.zeros_like(context)], dim=-1)


@AttentionDecoder.wrong(
    "a decoder whose gradient stops at the context that is fed in",
    "Hand the context on as it is, without detach(): the gradient passes through it.",
)
class _(DecoderInPieces):
    def fed(self, x, context):
        return mt.cat([x, context.detach()], dim=-1)


@AttentionDecoder.wrong(
    "right but for the order in which the cell is fed: the context first",
    "Its weights belong to [embedding; context].",
)
class _(DecoderInPieces):
    def fed(self, x, context):
        return mt.cat([context, x], dim=-1)


@AttentionDecoder.wrong(
    "right but for the order in the output: the context first",
    "The weights of self.output belong to [h; context].",
)
class _(DecoderInPieces):
    def step(self, token, h, context, states, lengths):
        h, context, _ = super().step(token, h, context, states, lengths)
        return h, context, self.output(mt.cat([context, h], dim=-1))


@AttentionDecoder.wrong(
    "a decoder whose output reads the context of the step before",
    "First the cell, then attention with the new state, then the output, from the new state and "
    "the new context.",
)
class _(DecoderInPieces):
    def step(self, token, h, context, states, lengths):
        h, new, _ = super().step(token, h, context, states, lengths)
        return h, new, self.output(mt.cat([h, context], dim=-1))


@AttentionDecoder.wrong(
    "a decoder that asks with the state before the step",
    "The query is the new state, which has read the last token.",
)
class _(DecoderInPieces):
    def step(self, token, h, context, states, lengths):
        after = self.cell(self.fed(self.embedding(token), context), h)
        context = self.look(h, states, lengths)
        return after, context, self.output(mt.cat([after, context], dim=-1))


@AttentionDecoder.wrong(
    "a decoder whose scores lack the tanh",
    "Without it every query gets the same weights: the score is v . tanh(W_q q + W_k k).",
)
class _(DecoderInPieces):
    def bent(self, joined):
        return joined


@AttentionDecoder.wrong(
    "a decoder that also looks at the padding of the source",
    "Positions from lengths[b] on get the score minus infinity before the softmax.",
)
class _(DecoderInPieces):
    def weights(self, scores, lengths):
        return scores.softmax(dim=-1)


@AttentionDecoder.wrong(
    "a decoder whose weights are set to 0 in the padding, after the softmax",
    "They no longer add up to 1. Mask the scores, before the softmax.",
)
class _(DecoderInPieces):
    def weights(self, scores, lengths):
        return scores.softmax(dim=-1) * inside(lengths, scores.shape[-1])


@AttentionDecoder.wrong(
    "a decoder with a softmax over the batch",
    "The positions of one source compete: the softmax goes over the last axis.",
)
class _(DecoderInPieces):
    def weights(self, scores, lengths):
        return scores.masked_fill(~inside(lengths, scores.shape[-1]), -mt.inf).softmax(dim=0)


@AttentionDecoder.wrong(
    "a decoder that averages the encoder states evenly",
    "That is mean pooling. Each state counts with its weight.",
)
class _(DecoderInPieces):
    def weights(self, scores, lengths):
        return masked_softmax(0 * scores, lengths)


@AttentionDecoder.wrong(
    "right but for the scores, which have been through a softmax",
    "Return the scores themselves: cross_entropy does the softmax.",
)
class _(DecoderInPieces):
    def forward(self, *batch):
        return super().forward(*batch).softmax(dim=-1)


@AttentionDecoder.wrong(
    "right but for the order of the axes: it is (T, B, V)",
    "Stack the scores of the steps along axis 1: (B, T, V).",
)
class _(DecoderInPieces):
    def forward(self, *batch):
        return super().forward(*batch).transpose(0, 1)
