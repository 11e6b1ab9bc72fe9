"""The probability of a text, and the choice of the next token."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_01.states import draw_weights, rnn_cell
from textbook.checks.exercise import exercise

# The probability of a text


class _LanguageModel:
    """step(token (B), h) -> scores (B, V), new h."""

    def __init__(self, draw, tokens, scale=2, hidden=3):
        self.tokens = tokens
        self.inputs, self.outputs = draw.normal(tokens, hidden), scale * draw.normal(tokens, hidden)
        self.weights = draw_weights(draw, hidden, hidden)

    def __call__(self, token, h=None):
        x = self.inputs[token]
        h = rnn_cell(x, mt.zeros_like(x) if h is None else h, *self.weights)
        return h @ self.outputs.T, h

    def __repr__(self):
        return f"an RNN language model over {self.tokens} tokens"

    def __deepcopy__(self, memo):
        return self


def _text_cases(draw, more=()):
    for lengths, size in [([2], 3), ([3, 0, 1], 4), ([4, 2], 6), *more]:
        texts = [draw.integers(size - 1, n).tolist() if n else [] for n in lengths]
        start = size - 1 if len(lengths) < 3 else 0
        if start == 0:
            texts = [[token + 1 for token in text] for text in texts]
        yield _LanguageModel(draw, size), texts, start
    yield _LanguageModel(draw, 5, scale=300), [draw.integers(4, 6).tolist(), []], 4  # very sure
    yield _LanguageModel(draw, 9, scale=20), [draw.integers(8, 60).tolist()], 8  # as good as 0


@exercise(
    cases=_text_cases,
    hidden_cases=lambda draw: _text_cases(draw, more=[([7, 1, 5, 0], 9)]),
    gradients=False,
    after_passing=("Faster: all texts as one padded batch, so that a step reads a token of each."),
    see='chapter 01, "A language model"',
)
def log_probability(step, texts, start):
    """The log-probability of each text with its end, a tensor."""
    totals = []
    for text in texts:
        total, h = 0.0, None
        for token, following in zip([start, *text], [*text, start], strict=True):
            scores, h = step(mt.tensor([token]), h)  # (1, V)
            total += scores.log_softmax(dim=-1)[0, following].item()
        totals.append(total)
    return mt.tensor(totals)


# Sampling


def _sampling_cases(draw, more=()):
    yield draw.normal(1, 3), 1.0, None, None
    for batch, size, k, p in [(2, 4, 2, 0.5), (3, 6, 3, 0.8), *more]:
        scores = 2 * draw.normal(batch, size)
        yield scores, 0.5, None, None
        yield scores, 1.7, None, None
        yield scores, 1.0, k, None
        yield scores, 1.0, 1, None
        yield scores, 1.0, None, p
        yield scores, 1.0, None, 0.01
        yield scores, 1.3, k, p
        yield scores, 0.8, size, 0.999
        yield scores, 0.0, None, None
        yield scores, 0, k, p
    yield 1000 * draw.normal(2, 5), 0.7, 3, 0.9
    yield mt.tensor([[0.3, 0.31, -1.0]], dtype=mt.float64), 0.0, None, None  # nearly a tie
    example = mt.tensor([[0.1, 0.4, 0.2, 0.3], [0.4, 0.3, 0.2, 0.1]], dtype=mt.float64)
    yield example.log(), 1.0, 2, 0.5


def _best_stays_possible(answer, scores, temperature, top_k, top_p):
    probabilities = answer(scores, temperature, top_k, top_p)
    best = scores.argmax(dim=-1, keepdim=True)
    if bool((probabilities.gather(-1, best) > 0).all()):
        return None
    return "The most probable token must always stay possible, at its own place."


def _at_zero(check, answer, scores, temperature, top_k, top_p):
    """Whether temperature 0 gives one token everything."""
    if temperature or bool((answer(scores, 0.0, top_k, top_p).amax(dim=-1) == 1).all()):
        return None
    return "At temperature 0 the likeliest token has probability 1, exactly."


@exercise(
    cases=_sampling_cases,
    hidden_cases=lambda draw: _sampling_cases(draw, more=[(4, 15, 6, 0.95)]),
    gradients=False,
    properties=(_best_stays_possible,),
    after_passing=(
        "Shorter, as there are no ties: the smallest number that stays is a threshold for the row."
    ),
    reasons=(_at_zero,),
    see='chapter 01, "Choosing the next token"',
)
def sampling_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    """The probabilities (B, V) to sample the next token from."""
    if temperature == 0:
        return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    scores = scores / temperature
    if top_k is not None:
        smallest_kept = scores.topk(top_k, dim=-1)[0][:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < smallest_kept, -mt.inf)
    probabilities = scores.softmax(dim=-1)
    if top_p is not None:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        likelier = ordered.cumsum(dim=-1) - ordered  # what the tokens before each one have together
        kept = (likelier < top_p).gather(-1, order.argsort(dim=-1))
        probabilities = probabilities * kept
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return probabilities
