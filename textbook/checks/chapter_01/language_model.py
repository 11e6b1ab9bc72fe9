"""The probability of a text, and the choice of the next token."""

import minitorch as mt
from textbook.checks.chapter_01.states import draw_weights, rnn_cell
from textbook.checks.compare import difference
from textbook.checks.released import exercise

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


log_probability = exercise(
    "log_probability",
    cases=_text_cases,
    gradients=False,
    see='chapter 01, "A language model"',
)


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


def _warmer(check, answer, scores, temperature, top_k, top_p):
    """Whether a small number is added to the temperature."""
    found = answer(scores, temperature, top_k, top_p)
    for more in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        if not difference(found, check.reference(scores, temperature + more, top_k, top_p), ""):
            return (
                f"That is right for the temperature {temperature + more:g}: add nothing to it. "
                "At 0 nothing is divided: all probability goes to the likeliest token."
            )
    return None


sampling_distribution = exercise(
    "sampling_distribution",
    cases=_sampling_cases,
    gradients=False,
    properties=(_best_stays_possible,),
    reasons=(_at_zero, _warmer),
    see='chapter 01, "Choosing the next token"',
)
