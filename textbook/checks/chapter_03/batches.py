"""Sentences as a batch, what the decoder reads and what it must say, and the loss."""

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.exercise import exercise

# A batch of sentences


def draw_sentences(draw, lengths, numbers):
    """A list of lists of tokens that are none of the special ``numbers``."""
    ordinary = [token for token in range(len(lengths) + 6) if token not in numbers]
    return [
        [ordinary[place] for place in draw.integers(len(ordinary), length).tolist()]
        for length in lengths
    ]


def _sentence_cases(draw, hidden):
    specials = (1, 2, 0), (0, 1, 2), (4, 2, 3)  # start, end, pad
    batches = [[1], [2, 0, 1], [4, 2, 3, 1]] + [[0], [5, 0, 8, 2, 7]] * hidden
    for i, lengths in enumerate(batches):
        start, end, pad = specials[i % 3]
        yield draw_sentences(draw, lengths, (start, end, pad)), start, end, pad


def _row(sentence, start, end, padding):
    return [start, *sentence, end, *padding]


def _batch(sentences, start, end, pad, row=_row):
    """The tokens (B, T), each row as ``row`` builds it from a sentence and its padding."""
    longest = max(map(len, sentences))
    return mt.tensor([row(s, start, end, [pad] * (longest - len(s))) for s in sentences])


@exercise(
    cases=_sentence_cases,
    forbidden=("cat_",),
    instead="Python lists, and one tensor(...) of all rows at the end",
    gradients=False,
    see='chapter 03, "Batches of different lengths"',
)
def pad_batch(sentences, start, end, pad):
    """B lists of tokens give tokens (B, T) and their mask (B, T), True at the padding."""
    longest = max(len(sentence) for sentence in sentences)
    rows = [[start, *sentence, end] + [pad] * (longest - len(sentence)) for sentence in sentences]
    tokens = mt.tensor(rows)  # (B, T)
    return tokens, tokens == pad


pad_batch_right = pad_batch.reference


def _wrong_rows(name, hint):
    """A mistake in the building of a row, with the mask that belongs to it."""

    def add(row):
        @pad_batch.wrong(name, hint)
        def _(sentences, start, end, pad):
            tokens = _batch(sentences, start, end, pad, row)
            return tokens, tokens == pad

    return add


_wrong_rows(
    "the batch without start tokens",
    "The decoder reads the start token before it has said anything: put it before each sentence.",
)(lambda sentence, start, end, padding: [*sentence, end, *padding])
_wrong_rows(
    "the batch without end tokens",
    "A model that never sees an end never learns to stop: put the end token after each sentence.",
)(lambda sentence, start, end, padding: [start, *sentence, *padding])
_wrong_rows(
    "the batch with the end token after the padding",
    "The sentence ends where its words end. First the end token, then the padding.",
)(lambda sentence, start, end, padding: [start, *sentence, *padding, end])
_wrong_rows(
    "padded in front",
    "Padding comes after the end token, so that every sentence begins at position 0.",
)(lambda sentence, start, end, padding: [*padding, start, *sentence, end])
_wrong_rows(
    "the batch with start and end exchanged",
    "The start token stands first.",
)(lambda sentence, start, end, padding: [end, *sentence, start, *padding])


@pad_batch.wrong(
    "filled up with end tokens",
    "One end token a sentence; what follows is the padding token.",
)
def _(sentences, start, end, pad):
    _, mask = pad_batch_right(sentences, start, end, pad)
    return _batch(sentences, start, end, end), mask


@pad_batch.wrong(
    "right but for the padding token: it is 0, whatever pad is",
    "Fill up with pad.",
)
def _(sentences, start, end, pad):
    _, mask = pad_batch_right(sentences, start, end, pad)
    return _batch(sentences, start, end, 0), mask


@pad_batch.wrong(
    "right but for the mask, which is the wrong way round",
    "The mask is True at the padding and False at tokens, as in the library.",
)
def _(sentences, start, end, pad):
    tokens, mask = pad_batch_right(sentences, start, end, pad)
    return tokens, ~mask


@pad_batch.wrong(
    "right but for the mask, which hides the end token too",
    "The end token is part of the sentence: a model must learn to say it.",
)
def _(sentences, start, end, pad):
    tokens, mask = pad_batch_right(sentences, start, end, pad)
    return tokens, mask | (tokens == end)


@pad_batch.wrong(
    "right but for the mask, which takes token 0 for padding",
    "Padding is what equals pad, which need not be 0.",
)
def _(sentences, start, end, pad):
    tokens, _ = pad_batch_right(sentences, start, end, pad)
    return tokens, tokens == 0


@pad_batch.wrong(
    "cut to the shortest sentence",
    "Nothing is lost: all rows are as long as the longest sentence with its start and end. (zip "
    "stops at the shortest.)",
)
def _(sentences, start, end, pad):
    shortest = min(map(len, sentences))
    tokens = _batch([sentence[:shortest] for sentence in sentences], start, end, pad)
    return tokens, tokens == pad


@pad_batch.wrong(
    "right but for the order of the axes: it is (T, B)",
    "One row a sentence: (B, T).",
)
def _(sentences, start, end, pad):
    tokens, mask = pad_batch_right(sentences, start, end, pad)
    return tokens.T, mask.T


# What the decoder reads and what it must say


def _token_cases(draw, hidden):
    for sentences, start, end, pad in _sentence_cases(draw, hidden):
        yield pad_batch_right(sentences, start, end, pad)[0], pad


@exercise(cases=_token_cases, gradients=False, see='chapter 03, "The decoder"')
def decoder_pair(tokens, pad):
    """Target sentences (B, T) give inputs, targets and the targets' mask, each (B, T - 1)."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    return inputs, targets, targets == pad


@decoder_pair.wrong(
    "not shifted: the decoder is asked for the token that it has just read",
    "A copy is easy to learn and worth nothing. The target at position t is the token after the "
    "one that is read at t.",
)
def _(tokens, pad):
    return tokens[:, :-1], tokens[:, :-1], tokens[:, :-1] == pad


@decoder_pair.wrong(
    "not shifted, and as long as the sentences",
    "A copy is easy to learn and worth nothing. T tokens make T - 1 pairs of a token and the next.",
)
def _(tokens, pad):
    return tokens, tokens, tokens == pad


@decoder_pair.wrong(
    "not shifted, and the start token is never read",
    "The inputs begin with the start token, the targets with the token after it.",
)
def _(tokens, pad):
    return tokens[:, 1:], tokens[:, 1:], tokens[:, 1:] == pad


@decoder_pair.wrong(
    "shifted the wrong way: the target is the token before",
    "The decoder reads a token and says the next one: the inputs begin with the start token, the "
    "targets with the token after it.",
)
def _(tokens, pad):
    return tokens[:, 1:], tokens[:, :-1], tokens[:, :-1] == pad


@decoder_pair.wrong(
    "shifted by two",
    "The target is the very next token.",
)
def _(tokens, pad):
    return tokens[:, :-2], tokens[:, 2:], tokens[:, 2:] == pad


@decoder_pair.wrong(
    "shifted along the batch",
    "Axis 0 counts the sentences. Shift along axis 1, time.",
)
def _(tokens, pad):
    return tokens[:-1], tokens[1:], tokens[1:] == pad


@decoder_pair.wrong(
    "rolled: the start token comes back as the last target",
    "Nothing follows the last token. T tokens make T - 1 pairs of a token and the next.",
)
def _(tokens, pad):
    targets = tokens.roll(-1, 1)
    return tokens, targets, targets == pad


@decoder_pair.wrong(
    "right but for the mask, which belongs to the inputs",
    "The loss counts targets. In a row with padding the end token is read too, but what would "
    "follow it is padding.",
)
def _(tokens, pad):
    inputs, targets, _ = decoder_pair.reference(tokens, pad)
    return inputs, targets, inputs == pad


@decoder_pair.wrong(
    "right but for the mask, which hides the end token too",
    "Then nothing in the loss teaches the decoder to stop. Only padding is masked.",
)
def _(tokens, pad):
    inputs, targets, mask = decoder_pair.reference(tokens, pad)
    after = mt.cat([mask[:, 1:], mt.ones_like(mask[:, :1])], dim=1)
    return inputs, targets, mask | after


@decoder_pair.wrong(
    "right but for the mask, which is the wrong way round",
    "The mask is True at the padding and False at tokens, as in the library.",
)
def _(tokens, pad):
    inputs, targets, mask = decoder_pair.reference(tokens, pad)
    return inputs, targets, ~mask


@decoder_pair.wrong(
    "right but for the mask, which takes token 0 for padding",
    "Padding is what equals pad, which need not be 0.",
)
def _(tokens, pad):
    inputs, targets, _ = decoder_pair.reference(tokens, pad)
    return inputs, targets, targets == 0


# The loss of a batch


def _loss_cases(draw, hidden):
    for sentences, start, end, pad in _sentence_cases(draw, hidden):
        tokens, _ = pad_batch_right(sentences, start, end, pad)
        targets = tokens[:, 1:]
        yield 2 * draw.normal(*targets.shape, len(sentences) + 6), targets, pad


def _losses(scores, targets):
    return -scores.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)


def _mean(losses, counts):
    return (losses * counts).sum() / counts.sum()


def _padding_gets_no_gradient(answer, scores, targets, pad):
    scores.requires_grad_()
    [gradient] = mt.autograd.grad(answer(scores, targets, pad), scores)
    if bool((gradient[targets == pad] == 0).all()):
        return None
    return "The gradient at a padded position must be exactly zero."


@exercise(
    cases=_loss_cases,
    forbidden=("cross_entropy", "amin"),  # nll_loss runs amin
    instead="log_softmax, a choice of the targets' elements (gather or indexing) and a masked mean "
    "(F.nll_loss, which runs 'amin', is not allowed either)",
    properties=(_padding_gets_no_gradient,),
    see='chapter 03, "The loss of a padded batch"',
)
def masked_loss(scores, targets, pad):
    """The mean cross-entropy over the targets that are not pad, one number."""
    log_p = F.log_softmax(scores, dim=-1)  # (B, T, V)
    losses = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    real = targets != pad
    return (losses * real).sum() / real.sum()


@masked_loss.wrong(
    "the mean over all positions, padding included",
    "A position counts if its target is not pad.",
)
def _(scores, targets, pad):
    return _losses(scores, targets).mean()


@masked_loss.wrong(
    "the right sum divided by all positions",
    "The padding is left out of the sum, but still counted. Divide by the number of targets that "
    "are not pad.",
)
def _(scores, targets, pad):
    return (_losses(scores, targets) * (targets != pad)).mean()


@masked_loss.wrong(
    "the right sum divided by the number of sentences",
    "The loss is a mean over tokens: divide by the number of targets that are not pad.",
)
def _(scores, targets, pad):
    return (_losses(scores, targets) * (targets != pad)).sum() / len(targets)


@masked_loss.wrong(
    "the sum over the tokens",
    "Divide by the number of targets that are not pad.",
)
def _(scores, targets, pad):
    return (_losses(scores, targets) * (targets != pad)).sum()


@masked_loss.wrong(
    "the mean over sentences of each sentence's mean",
    "Every token counts the same: one sum over all tokens of the batch, divided once.",
)
def _(scores, targets, pad):
    counts = targets != pad
    return ((_losses(scores, targets) * counts).sum(dim=1) / counts.sum(dim=1)).mean()


@masked_loss.wrong(
    "the loss without the end tokens",
    "The last target of each sentence, its end token, counts: without it the decoder never learns "
    "to stop.",
)
def _(scores, targets, pad):
    counts = targets != pad
    before_end = mt.cat([counts[:, 1:], mt.zeros_like(counts[:, :1])], dim=1)
    return _mean(_losses(scores, targets), before_end)


@masked_loss.wrong(
    "off by one: it counts one position of padding",
    "A position counts if its own target is not pad, whatever stands before it.",
)
def _(scores, targets, pad):
    counts = targets != pad
    with_next = mt.cat([mt.ones_like(counts[:, :1]), counts[:, :-1]], dim=1)
    return _mean(_losses(scores, targets), with_next)


@masked_loss.wrong(
    "the loss with the scores of the padding set to zero",
    "Scores of zero are a uniform distribution, and its loss is log V, not 0. Leave the padding "
    "out of the mean.",
)
def _(scores, targets, pad):
    return _losses(scores * (targets != pad).unsqueeze(-1), targets).mean()


@masked_loss.wrong(
    "right if token 0 were the padding",
    "Padding is what equals pad, which need not be 0.",
)
def _(scores, targets, pad):
    return _mean(_losses(scores, targets), targets != 0)


@masked_loss.wrong(
    "the loss with pad taken out of the softmax",
    "It is positions that are masked, not the class: the softmax goes over all V tokens.",
)
def _(scores, targets, pad):
    others = mt.arange(scores.shape[-1]) != pad
    log_p = scores.masked_fill(~others, -1e9).log_softmax(dim=-1)
    losses = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return _mean(losses, targets != pad)


@masked_loss.wrong("right but for the sign", "The loss is never negative.")
def _(scores, targets, pad):
    return -masked_loss.reference(scores, targets, pad)
