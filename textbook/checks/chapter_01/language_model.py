"""The loss of a batch of sequences, the probability of one, and the choice of a token."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_01.states import draw_weights, padded_cases, rnn_cell, valid_steps
from textbook.checks.exercise import exercise

# The loss of a sequence


def _loss_cases(draw, hidden):
    for states, lengths in padded_cases(draw, hidden):
        steps, batch, _ = states.shape
        classes = 2 + batch
        yield 2 * draw.normal(steps, batch, classes), draw.integers(classes, steps, batch), lengths


def _picked(values, targets):
    """(T, B): the value of each target."""
    return values.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _losses(scores, targets):
    return -_picked(scores.log_softmax(dim=-1), targets)


def _average(values, lengths):
    """The mean of values (T, B) over the positions that belong to their sequences."""
    return (values * valid_steps(values, lengths)).sum() / lengths.sum()


@exercise(
    cases=_loss_cases,
    forbidden=("cross_entropy",),
    instead="log_softmax and a choice of the targets' elements (gather or indexing)",
    see='chapter 01, "Next character: cross-entropy at every step"',
)
def sequence_loss(scores, targets, lengths):
    """The mean cross-entropy over the tokens that are no padding, one number."""
    log_p = F.log_softmax(scores, dim=-1)  # (T, B, V)
    losses = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (T, B)
    inside = mt.arange(len(scores)).unsqueeze(1) < lengths  # (T, B)
    return (losses * inside).sum() / lengths.sum()


@sequence_loss.wrong(
    "the average over all positions, padding included",
    "Position t of sequence b counts only if t < lengths[b].",
)
def _(scores, targets, lengths):
    return _losses(scores, targets).mean()


@sequence_loss.wrong(
    "the right sum divided by all positions",
    "The padding is left out of the sum, but still counted. Divide by the number of tokens that "
    "are no padding, lengths.sum().",
)
def _(scores, targets, lengths):
    losses = _losses(scores, targets)
    return (losses * valid_steps(losses, lengths)).mean()


@sequence_loss.wrong(
    "the right sum divided by the number of sequences",
    "The loss is a mean over tokens: divide by lengths.sum().",
)
def _(scores, targets, lengths):
    return sequence_loss.reference(scores, targets, lengths) * lengths.sum() / len(lengths)


@sequence_loss.wrong(
    "the sum over the tokens",
    "The loss is a mean, so that long sequences do not weigh more: divide by lengths.sum().",
)
def _(scores, targets, lengths):
    return sequence_loss.reference(scores, targets, lengths) * lengths.sum()


@sequence_loss.wrong(
    "the mean over sequences of each sequence's mean",
    "Every token counts the same: one sum over all tokens, divided once, by lengths.sum().",
)
def _(scores, targets, lengths):
    losses = _losses(scores, targets)
    return ((losses * valid_steps(losses, lengths)).sum(dim=0) / lengths).mean()


@sequence_loss.wrong(
    "off by one: it counts one position of padding",
    "Position t counts if t < lengths[b], since positions start at 0.",
)
def _(scores, targets, lengths):
    losses = _losses(scores, targets)
    valid = valid_steps(losses, lengths, extra=1)
    return (losses * valid).sum() / valid.sum()


@sequence_loss.wrong(
    "the loss with the scores of the padding set to zero",
    "Scores of zero are a uniform distribution, and its loss is log V, not 0. Leave the padding "
    "out of the sum.",
)
def _(scores, targets, lengths):
    return _losses(scores * valid_steps(scores, lengths).unsqueeze(-1), targets).mean()


@sequence_loss.wrong(
    "right but for the sign",
    "The loss is minus the log-probability of the target, so it is never negative.",
)
def _(scores, targets, lengths):
    return -sequence_loss.reference(scores, targets, lengths)


@sequence_loss.wrong(
    "minus the mean score of the targets",
    "Scores are no log-probabilities: apply log_softmax over the last axis first.",
)
def _(scores, targets, lengths):
    return _average(-_picked(scores, targets), lengths)


@sequence_loss.wrong(
    "minus the mean probability of the targets",
    "The logarithm is missing: log_softmax in place of softmax.",
)
def _(scores, targets, lengths):
    return _average(-_picked(scores.softmax(dim=-1), targets), lengths)


@sequence_loss.wrong(
    "the loss with a softmax over time",
    "At each position the V classes compete: the softmax goes over the last axis.",
)
def _(scores, targets, lengths):
    return _average(-_picked(scores.log_softmax(dim=0), targets), lengths)


# The probability of a sequence


class _LanguageModel:
    """step(token (B), h) -> scores (B, V), new h."""

    def __init__(self, draw, tokens, hidden=3):
        self.tokens = tokens
        self.inputs, self.outputs = draw.normal(tokens, hidden), 2 * draw.normal(tokens, hidden)
        self.weights = draw_weights(draw, hidden, hidden)

    def __call__(self, token, h=None):
        x = self.inputs[token]
        h = rnn_cell.reference(x, mt.zeros_like(x) if h is None else h, *self.weights)
        return h @ self.outputs.T, h

    def __repr__(self):
        return f"an RNN language model over {self.tokens} tokens"

    def __deepcopy__(self, memo):
        return self


def _token_cases(draw, hidden):
    for batch, length, size in [(1, 2, 3), (2, 3, 4), (3, 5, 6)] + [(5, 11, 9)] * hidden:
        yield _LanguageModel(draw, size), draw.integers(size - 1, length, batch), size - 1


def _steps(step, inputs):
    """(T, B, V): the scores after each of the inputs (T, B), the state carried along."""
    h, results = None, []
    for token in inputs:
        scores, h = step(token, h)
        results.append(scores)
    return mt.stack(results)


def _shifted(tokens, start):
    """(T, B): the token before each token."""
    return mt.cat([mt.full((1, tokens.shape[1]), start), tokens[:-1]])


def _log_probabilities(step, inputs, tokens):
    return -_losses(_steps(step, inputs), tokens)


@exercise(cases=_token_cases, gradients=False, see='chapter 01, "A language model"')
def sequence_log_probability(step, tokens, start):
    """The log-probability of each sequence in tokens (T, B), a tensor (B)."""
    batch = tokens.shape[1]
    previous, h, total = mt.full((batch,), start), None, 0
    for token in tokens:  # (B)
        scores, h = step(previous, h)  # (B, V)
        total = total + scores.log_softmax(dim=-1)[mt.arange(batch), token]
        previous = token
    return total


@sequence_log_probability.wrong(
    "the probability, not its logarithm",
    "A product of many probabilities soon underflows to 0. Add the log-probabilities.",
)
def _(step, tokens, start):
    return sequence_log_probability.reference(step, tokens, start).exp()


@sequence_log_probability.wrong(
    "the sum of the probabilities",
    "Probabilities multiply along a sequence; it is their logarithms that add up.",
)
def _(step, tokens, start):
    return _log_probabilities(step, _shifted(tokens, start), tokens).exp().sum(dim=0)


@sequence_log_probability.wrong(
    "the mean over the tokens",
    "The chain rule is a sum over all T tokens: do not divide by T.",
)
def _(step, tokens, start):
    return _log_probabilities(step, _shifted(tokens, start), tokens).mean(dim=0)


@sequence_log_probability.wrong(
    "one number for the whole batch",
    "Each sequence has its own log-probability: the result has shape (B).",
)
def _(step, tokens, start):
    return sequence_log_probability.reference(step, tokens, start).sum()


@sequence_log_probability.wrong(
    "right but for the sign",
    "A log-probability is at most 0.",
)
def _(step, tokens, start):
    return -sequence_log_probability.reference(step, tokens, start)


@sequence_log_probability.wrong(
    "the probability of the rest given the first token",
    "The first token has a probability too: the one that the model gives it after the start token.",
)
def _(step, tokens, start):
    return _log_probabilities(step, tokens[:-1], tokens[1:]).sum(dim=0)


@sequence_log_probability.wrong(
    "a leak: the model has read each token before it is asked for it",
    "The scores for tokens[t] come from the step that reads the token before, tokens[t - 1], and "
    "the first ones from the step that reads the start token.",
)
def _(step, tokens, start):
    return _log_probabilities(step, tokens, tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "a run that forgets its state",
    "Give step the state that it returned the last time: scores, h = step(token, h).",
)
def _(step, tokens, start):
    return _log_probabilities(lambda x, h: step(x), _shifted(tokens, start), tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "a run that reads the start token at every step",
    "After the start token, the model reads the tokens of the sequence one by one.",
)
def _(step, tokens, start):
    return _log_probabilities(step, mt.full(tokens.shape, start), tokens).sum(dim=0)


@sequence_log_probability.wrong(
    "a run that reads its own best guess",
    "That is generation. To score a given sequence the model reads that sequence (teacher "
    "forcing).",
)
def _(step, tokens, start):
    guess, h, total = mt.full_like(tokens[0], start), None, 0
    for token in tokens:
        scores, h = step(guess, h)
        total = total - _losses(scores, token)
        guess = scores.argmax(dim=-1)
    return total


@sequence_log_probability.wrong(
    "the sum of the scores",
    "Scores are no log-probabilities: apply log_softmax first.",
)
def _(step, tokens, start):
    return _picked(_steps(step, _shifted(tokens, start)), tokens).sum(dim=0)


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
):
    """The distribution with one of its pieces exchanged."""

    def distribution(scores, temperature=1.0, top_k=None, top_p=None):
        scores = temper(scores, temperature)
        if top_k is not None:
            scores = scores.masked_fill(~largest(scores, top_k), removed)
        probabilities = scores.softmax(dim=dim)
        if top_p is not None:
            probabilities = normalize(probabilities * nucleus(probabilities, top_p))
        return probabilities

    return distribution


def _best_stays_possible(answer, scores, temperature, top_k, top_p):
    probabilities = answer(scores, temperature, top_k, top_p)
    best = scores.argmax(dim=-1, keepdim=True)
    if bool((probabilities.gather(-1, best) > 0).all()):
        return None
    return "The most probable token must always stay possible."


@exercise(
    cases=_sampling_cases,
    gradients=False,
    properties=(_best_stays_possible,),
    see='chapter 01, "Choosing the next token"',
)
def sampling_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    """The probabilities (B, V) to sample the next token from."""
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
