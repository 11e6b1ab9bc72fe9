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


def _text_cases(draw, hidden):
    for lengths, size in [([2], 3), ([3, 0, 1], 4), ([4, 2], 6)] + [([7, 1, 5, 0], 9)] * hidden:
        texts = [draw.integers(size - 1, n).tolist() if n else [] for n in lengths]
        start = size - 1 if len(lengths) < 3 else 0
        if start == 0:
            texts = [[token + 1 for token in text] for text in texts]
        yield _LanguageModel(draw, size), texts, start
    yield _LanguageModel(draw, 5, scale=300), [draw.integers(4, 6).tolist(), []], 4  # very sure
    yield _LanguageModel(draw, 9), [draw.integers(8, 260).tolist()], 8  # a probability of about 0


def _log_probability(
    inputs=lambda text, start: [start, *text],
    targets=lambda text, start: [*text, start],
    total=sum,
    score=lambda scores, token: scores.log_softmax(dim=-1)[0, token].item(),
    carry=lambda h: h,
    told=mt.tensor,
):
    """The log-probabilities with one of their pieces exchanged."""

    def log_probability(step, texts, start):
        found = []
        for text in texts:
            h, parts = None, []
            for token, following in zip(inputs(text, start), targets(text, start), strict=True):
                scores, h = step(mt.tensor([token]), carry(h))
                parts.append(score(scores, following))
            found.append(total(parts))
        return told(found)

    return log_probability


@exercise(cases=_text_cases, gradients=False, see='chapter 01, "A language model"')
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


log_probability.wrong(
    "right but for the end of each text, which is not counted",
    "A text that goes on is another text: after its last token the model has to say <s>.",
)(
    _log_probability(
        inputs=lambda text, start: [start, *text[:-1]][: len(text)],
        targets=lambda text, start: text,
    )
)
log_probability.wrong(
    "the probability of the rest given the first token",
    "The first token has a probability too: the one that the model gives it after <s>.",
)(
    _log_probability(
        inputs=lambda text, start: text,
        targets=lambda text, start: [*text[1:], start][: len(text)],
    )
)
log_probability.wrong(
    "the probability of the rest given the first token, and without the end",
    "Inputs are <s> and all tokens, targets are all tokens and <s>.",
)(
    _log_probability(
        inputs=lambda text, start: text[:-1],
        targets=lambda text, start: text[1:],
    )
)
log_probability.wrong(
    "a leak: the model has read each token before it is asked for it",
    "The scores for a token come from the step that reads the token before it.",
)(_log_probability(inputs=lambda text, start: [*text, start]))
log_probability.wrong(
    "right but for empty texts, which get 0",
    "An empty text is one factor: the probability that the model says <s> at once.",
)(_log_probability(total=lambda parts: sum(parts) if len(parts) > 1 else 0.0))
log_probability.wrong(
    "a run that asks at each step for the token that it has just read",
    "The scores are those of the next token.",
)(
    _log_probability(
        inputs=lambda text, start: [start, *text], targets=lambda text, start: [start, *text]
    )
)
log_probability.wrong(
    "a run that never reads <s>, and so leaves the first token out",
    "The model reads <s> first; its scores are those of the first token.",
)(_log_probability(inputs=lambda text, start: text, targets=lambda text, start: [*text[1:], start]))
log_probability.wrong(
    "right for empty texts; the others have their first token for free",
    "The model reads <s> first; its scores are those of the first token.",
)(
    _log_probability(
        inputs=lambda text, start: text or [start], targets=lambda text, start: [*text[1:], start]
    )
)
log_probability.wrong(
    "a run that forgets its state",
    "Give step the state that it returned the last time: scores, h = step(token, h).",
)(_log_probability(carry=lambda h: None))
log_probability.wrong(
    "a run that reads <s> at every step",
    "After <s>, the model reads the tokens of the text one by one.",
)(_log_probability(inputs=lambda text, start: [start] * (len(text) + 1)))
log_probability.wrong(
    "the probability, not its logarithm",
    "A product of many probabilities soon underflows to 0. Add the log-probabilities.",
)(_log_probability(told=lambda found: mt.tensor(found).exp()))
log_probability.wrong(
    "right but for long texts, whose probability is 0 as a floating-point number",
    "The product of many probabilities is too small a number. Add their logarithms instead.",
)(
    _log_probability(
        score=lambda scores, token: scores.softmax(dim=-1)[0, token].item(),
        total=lambda parts: mt.tensor(parts).prod().log().item(),
    )
)
log_probability.wrong(
    "the sum of the probabilities",
    "Probabilities multiply along a text; it is their logarithms that add up.",
)(_log_probability(score=lambda scores, token: scores.softmax(dim=-1)[0, token].item()))
log_probability.wrong(
    "the mean over the tokens", "The chain rule is a sum over all tokens: do not divide."
)(_log_probability(total=lambda parts: sum(parts) / len(parts)))
log_probability.wrong(
    "right but for a small number that is added to each probability",
    "log_softmax never takes the logarithm of 0: nothing need be added.",
)(
    _log_probability(
        score=lambda scores, token: (scores.softmax(dim=-1)[0, token] + 1e-9).log().item()
    )
)
log_probability.wrong(
    "the logarithm of the last factor alone", "A sum over all tokens, and the end."
)(_log_probability(total=lambda parts: parts[-1]))
log_probability.wrong(
    "a softmax over the batch, not over the vocabulary",
    "At each step the V tokens compete: the softmax goes over the last axis.",
)(_log_probability(score=lambda scores, token: scores.log_softmax(dim=0)[0, token].item()))
log_probability.wrong("a list of numbers, not a tensor", "mt.tensor(totals) makes one.")(
    _log_probability(told=lambda found: found)
)
log_probability.wrong(
    "one number for all texts", "Each text has its own log-probability: a tensor of as many."
)(_log_probability(told=lambda found: mt.tensor(sum(found))))
log_probability.wrong("right but for the sign", "A log-probability is at most 0.")(
    _log_probability(told=lambda found: -mt.tensor(found))
)
log_probability.wrong(
    "the sum of the scores", "Scores are no log-probabilities: apply log_softmax first."
)(_log_probability(score=lambda scores, token: scores[0, token].item()))


@log_probability.wrong(
    "right for the first text; the others start from the state in which the last one ended",
    "Each text begins anew: h = None.",
)
def _(step, texts, start):
    h, totals = None, []
    for text in texts:
        total = 0.0
        for token, following in zip([start, *text], [*text, start], strict=True):
            scores, h = step(mt.tensor([token]), h)
            total += scores.log_softmax(dim=-1)[0, following].item()
        totals.append(total)
    return mt.tensor(totals)


@log_probability.wrong(
    "a run that reads its own best guess",
    "That is generation. To score a given text the model reads that text (teacher forcing).",
)
def _(step, texts, start):
    totals = []
    for text in texts:
        token, h, total = mt.tensor([start]), None, 0.0
        for following in [*text, start]:
            scores, h = step(token, h)
            total += scores.log_softmax(dim=-1)[0, following].item()
            token = scores.argmax(dim=-1)
        totals.append(total)
    return mt.tensor(totals)


@log_probability.wrong(
    "right for the longest texts; the shorter ones end again and again",
    "A text that is over counts nothing more: <s> after it once, and no padding.",
)
def _(step, texts, start):
    long = max(map(len, texts), default=0)
    padded = [[*text, *[start] * (long - len(text))] for text in texts]
    return log_probability.reference(step, padded, start)


# Sampling


def _sampling_cases(draw, hidden):
    yield draw.normal(1, 3), 1.0, None, None
    for batch, size, k, p in [(2, 4, 2, 0.5), (3, 6, 3, 0.8)] + [(4, 15, 6, 0.95)] * hidden:
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


def _largest(scores, k):
    """Whether each element is one of the k largest of its row."""
    return scores >= scores.topk(k, dim=-1)[0][:, -1:]


def _by_rank(probabilities, keep):
    """Whether each token stays; ``keep`` decides on sorted probabilities and their running sums."""
    ordered, order = probabilities.sort(dim=-1, descending=True)
    return keep(ordered, ordered.cumsum(dim=-1)).gather(-1, order.argsort(dim=-1))


def _nucleus(probabilities, p):
    """Whether each token is needed to reach p: those before it have less than p together."""
    return _by_rank(probabilities, lambda ordered, sums: sums - ordered < p)


def _nucleus_without_last(probabilities, p):
    return _by_rank(probabilities, lambda ordered, sums: sums <= p)


def _nucleus_not_turned_back(probabilities, p):
    ordered, order = probabilities.sort(dim=-1, descending=True)
    return (ordered.cumsum(dim=-1) - ordered < p).gather(-1, order)


def _nucleus_and_one(probabilities, p):
    def keep(ordered, sums):
        before = sums - ordered
        return mt.cat([before[:, :1], before[:, :-1]], dim=-1) < p

    return _by_rank(probabilities, keep)


def _normalized(weights):
    return weights / weights.sum(dim=-1, keepdim=True)


def _sampling(
    temper=lambda scores, temperature: scores / temperature,
    largest=_largest,
    removed=-mt.inf,
    dim=-1,
    nucleus=_nucleus,
    normalize=_normalized,
    cold=lambda scores: F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).double(),
    weigh=lambda scores, dim: scores.softmax(dim=dim),
):
    """The distribution with one of its pieces exchanged."""

    def distribution(scores, temperature=1.0, top_k=None, top_p=None):
        if temperature == 0:
            return cold(scores)
        scores = temper(scores, temperature)
        if top_k is not None:
            scores = scores.masked_fill(~largest(scores, top_k), removed)
        probabilities = weigh(scores, dim)
        if top_p is not None:
            probabilities = normalize(probabilities * nucleus(probabilities, top_p))
        return probabilities

    return distribution


def _best_stays_possible(answer, scores, temperature, top_k, top_p):
    probabilities = answer(scores, temperature, top_k, top_p)
    best = scores.argmax(dim=-1, keepdim=True)
    if bool((probabilities.gather(-1, best) > 0).all()):
        return None
    return "The most probable token must always stay possible, at its own place."


@exercise(
    cases=_sampling_cases,
    gradients=False,
    properties=(_best_stays_possible,),
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


sampling_distribution.wrong(
    "right but for the temperature: the scores are multiplied by it",
    "Divide the scores by the temperature: a low one sharpens, a high one flattens.",
)(_sampling(temper=lambda scores, temperature: scores * temperature))
sampling_distribution.wrong(
    "right but for the temperature, which has no effect",
    "Divide the scores by it before the softmax. Probabilities that are divided by a number and "
    "normalized again are what they were.",
)(_sampling(temper=lambda scores, temperature: scores))
sampling_distribution.wrong(
    "a softmax over the batch",
    "Each row is a distribution over V tokens: the softmax goes over the last axis.",
)(_sampling(dim=0))
sampling_distribution.wrong(
    "right but for top-k: the removed scores are 0, not minus infinity",
    "A score of 0 still has the weight exp(0) = 1. Only exp(-inf) is 0.",
)(_sampling(removed=0.0))
sampling_distribution.wrong(
    "right but for top-k, which keeps one token too few",
    "The k-th largest score stays: remove what is smaller than it, not what equals it.",
)(_sampling(largest=lambda scores, k: scores > scores.topk(k, dim=-1)[0][:, -1:]))
sampling_distribution.wrong(
    "right but for top-k, which keeps one token too many",
    "Counting from 0, the k-th largest score has place k - 1 in sorted order.",
)(_sampling(largest=lambda scores, k: _largest(scores, min(k + 1, scores.shape[-1]))))
sampling_distribution.wrong(
    "right but for top-k, which keeps the least probable tokens",
    "Sort in descending order, or take topk.",
)(_sampling(largest=lambda scores, k: _largest(-scores, k)))
sampling_distribution.wrong(
    "right but for top-k: its threshold is one for the whole batch",
    "Each row keeps its own k largest scores: work along the last axis.",
)(_sampling(largest=lambda scores, k: scores >= scores.reshape(1, -1).topk(k, dim=-1)[0][:, -1:]))
sampling_distribution.wrong(
    "right but for top-k: the smallest kept score of the last row is the limit of all rows",
    "Each row has a limit of its own: topk(k)[0][:, -1:], of shape (B, 1).",
)(_sampling(largest=lambda scores, k: scores >= scores.topk(k, dim=-1)[0][-1, -1]))
sampling_distribution.wrong(
    "right but for top-p, which drops the token that crosses p",
    "Keep the fewest tokens that reach p together. A token goes only if those before it, without "
    "itself, already have p.",
)(_sampling(nucleus=_nucleus_without_last))
sampling_distribution.wrong(
    "right but for top-p, which keeps one token more than needed",
    "The token that crosses p is the last to stay. Compare the sum of the tokens before each one, "
    "without itself, with p.",
)(_sampling(nucleus=_nucleus_and_one))
sampling_distribution.wrong(
    "right but for top-p, which adds up the tokens in the order of the vocabulary",
    "Sort the probabilities in descending order first, and undo the order at the end.",
)(_sampling(nucleus=lambda probabilities, p: probabilities.cumsum(dim=-1) - probabilities < p))
sampling_distribution.wrong(
    "right but for top-p: the kept probabilities do not add up to 1",
    "Divide what is left by its sum.",
)(_sampling(normalize=lambda weights: weights))
sampling_distribution.wrong(
    "right but for top-p, which keeps the tokens more probable than p",
    "p bounds the sum over the most probable tokens, not each of them.",
)(_sampling(nucleus=lambda probabilities, p: probabilities >= p))


@sampling_distribution.wrong(
    "right but for top-p: the probabilities come out sorted",
    "Undo the sorting: each probability has to return to the place of its token.",
)
def _(scores, temperature=1.0, top_k=None, top_p=None):
    probabilities = sampling_distribution.reference(scores, temperature, top_k, top_p)
    return probabilities if top_p is None else probabilities.sort(dim=-1, descending=True)[0]


@sampling_distribution.wrong(
    "right but for both together: top-p looks at the probabilities before top-k",
    "First top-k, then the softmax, which makes what is left a distribution, then top-p on that.",
)
def _(scores, temperature=1.0, top_k=None, top_p=None):
    distribution = sampling_distribution.reference
    kept = distribution(scores, temperature, None, top_p) > 0
    return _normalized(distribution(scores, temperature, top_k) * kept)


sampling_distribution.wrong(
    "right but for temperature 0, by which it divides",
    "0 / 0 is no number. Temperature 0 is the limit: all probability goes to the likeliest token.",
)(_sampling(cold=lambda scores: (scores / 0.0).softmax(dim=-1)))
sampling_distribution.wrong(
    "right but for temperature 0, which it takes for 1",
    "Towards 0 the distribution gets sharper and sharper: at 0 the likeliest token has it all.",
)(_sampling(cold=lambda scores: scores.softmax(dim=-1)))
sampling_distribution.wrong(
    "right but for temperature 0, where it returns the scores of the likeliest token alone",
    "Return probabilities: 1 for the likeliest token, 0 for all others.",
)(_sampling(cold=lambda scores: scores * (scores == scores.amax(dim=-1, keepdim=True))))
sampling_distribution.wrong(
    "right but for large scores, whose exponential is infinite",
    "Take the softmax of the library, or subtract the largest score of each row first.",
)(_sampling(weigh=lambda scores, dim: scores.exp() / scores.exp().sum(dim=dim, keepdim=True)))
sampling_distribution.wrong(
    "right but for top-k: what is left does not add up to 1",
    "Remove tokens before the softmax, or divide what is left by its sum.",
)(
    lambda scores, temperature=1.0, top_k=None, top_p=None: (
        _sampling()(scores, temperature, None, top_p)
        * (_largest(scores, top_k) if top_k is not None and top_p is None else 1)
        if top_p is None
        else _sampling()(scores, temperature, top_k, top_p)
    )
)
sampling_distribution.wrong(
    "right but for top-p, whose choice goes back to the wrong tokens",
    "`order` says which token stands at each place of the sorted row. To go back you need its "
    "inverse, the place of each token: order.argsort(-1).",
)(_sampling(nucleus=_nucleus_not_turned_back))
sampling_distribution.wrong(
    "right but for top-p: of the tokens that reach p it leaves out the last",
    "A token stays while those before it have less than p together: the sum without its own "
    "probability counts.",
)(
    _sampling(
        nucleus=lambda probabilities, p: _by_rank(
            probabilities, lambda ordered, sums: (sums <= p) | (sums <= ordered)
        )
    )
)


@sampling_distribution.wrong(
    "right but for top-p, whose result stays in sorted order",
    "The numbers are right, and belong to other tokens: go back with order.argsort(-1).",
)
def _(scores, temperature=1.0, top_k=None, top_p=None):
    found = sampling_distribution.reference(scores, temperature, top_k, top_p)
    if temperature == 0 or top_p is None:
        return found
    return found.sort(dim=-1, descending=True)[0]


sampling_distribution.wrong(
    "right but for top-p, which keeps the tail and drops the most probable tokens",
    "What stays are the most probable tokens: those before which less than p has been reached.",
)(
    _sampling(
        nucleus=lambda probabilities, p: _by_rank(probabilities, lambda ordered, sums: sums > p)
    )
)
sampling_distribution.wrong(
    "right but for top-k, whose threshold is the k-th smallest score",
    "Sort in descending order, or take topk.",
)(_sampling(largest=lambda scores, k: scores >= scores.sort(dim=-1)[0][:, k - 1 : k]))
sampling_distribution.wrong(
    "right but for temperature 0, which it takes for a small number",
    "At temperature 0 the likeliest token has probability 1, exactly.",
)(_sampling(cold=lambda scores: (scores / 1e-2).softmax(dim=-1)))
