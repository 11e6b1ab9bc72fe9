"""Sentences as a batch, what the decoder reads and must say, and how likely it finds that."""

import math

import minitorch as mt
from textbook.checks.exercise import exercise

# A batch for a teacher


def draw_sentences(draw, lengths, numbers):
    """A list of lists of tokens that are none of the special ``numbers``; one number is large."""
    ordinary = [token for token in range(len(lengths) + 6) if token not in numbers]
    ordinary[-1] = 10**12
    return [
        [ordinary[place] for place in draw.integers(len(ordinary), length).tolist()]
        for length in lengths
    ]


def _sentence_cases(draw, hidden):
    """Special tokens of three, of two and of one number; the longest sentence is not the first."""
    specials = (1, 2, 0), (0, 1, 1), (4, 2, 4), (3, 3, 3), (2, 2, 5)  # start, end, pad
    batches = [[2, 3], [1, 4, 0], [2, 5, 3, 5], [3, 0, 4], [3, 4, 2]]
    batches += [[0], [6, 0, 8, 2, 7], [0, 0], [2, 9], [7, 7, 3]] * hidden
    for i, lengths in enumerate(batches):
        start, end, pad = specials[i % 5]
        yield draw_sentences(draw, lengths, (start, end, pad)), start, end, pad


def _in_parts(answer, sentences, start, end, pad):
    """The three tensors by name, and first how many columns they have."""
    found = answer(sentences, start, end, pad)
    three = isinstance(found, (tuple, list)) and len(found) == 3
    if not three or not all(isinstance(x, mt.Tensor) and x.ndim == 2 for x in found):
        return {"the form of the result": found}
    widths = sorted({x.shape[1] for x in found})
    return {
        "the form of the result": "three tensors with two axes",
        "the number of columns, one for each word of the longest sentence and one more,": (
            widths[0] if len(widths) == 1 else widths
        ),
        "the tensor of inputs": found[0],
        "the tensor of targets": found[1],
        "the tensor of their padding": found[2],
    }


@exercise(
    cases=_sentence_cases,
    run=_in_parts,
    gradients=False,
    see='chapter 03, "Batches of different lengths"',
)
def teacher_batch(sentences, start, end, pad):
    """B lists of tokens give inputs, targets and the targets' padding, each (B, T)."""
    steps = 1 + max(len(sentence) for sentence in sentences)  # T
    inputs, targets, padding = [], [], []
    for sentence in sentences:
        rest = steps - len(sentence) - 1
        inputs.append([start, *sentence] + [pad] * rest)
        targets.append([*sentence, end] + [pad] * rest)
        padding.append([False] * (len(sentence) + 1) + [True] * rest)
    return mt.tensor(inputs), mt.tensor(targets), mt.tensor(padding)


def _rows(
    read=lambda s, start, end: [start, *s],
    said=lambda s, start, end: [*s, end],
    fill=lambda start, end, pad: (pad, pad),
    front=False,
    hides=lambda places, count: places >= count,
):
    """A batch with one of its pieces exchanged."""

    def batch(sentences, start, end, pad):
        rows = [[read(s, start, end), said(s, start, end)] for s in sentences]
        steps = max(len(part) for row in rows for part in row)
        for row in rows:
            for i, value in enumerate(fill(start, end, pad)):
                rest = [value] * (steps - len(row[i]))
                row[i] = rest + row[i] if front else row[i] + rest
        counts = mt.tensor([len(s) + 1 for s in sentences]).unsqueeze(1)
        padding = hides(mt.arange(steps).flip(0) if front else mt.arange(steps), counts)
        inputs, targets = (mt.tensor([row[i] for row in rows]) for i in (0, 1))
        return inputs, targets, padding

    return batch


teacher_batch.wrong(
    "right but for the inputs, which lack the start token",
    "The decoder reads the start token before it has said anything.",
)(_rows(read=lambda s, start, end: s or [start]))
teacher_batch.wrong(
    "right but for the inputs, in which the end token of short sentences is read",
    "Nothing is to be said after the end token, so it is never read: behind the words of the "
    "inputs stands pad. (Two slices of one padded tensor leave it there.)",
)(
    lambda sentences, start, end, pad: (
        _rows(read=lambda s, start, end: [start, *s, end])(sentences, start, end, pad)[0][:, :-1],
        *teacher_batch.reference(sentences, start, end, pad)[1:],
    )
)
teacher_batch.wrong(
    "a batch without end tokens",
    "A model that never has to say the end never learns to stop.",
)(
    _rows(
        said=lambda s, start, end: s,
        hides=lambda places, count: places >= count - 1,
    )
)
teacher_batch.wrong(
    "not shifted: the decoder is asked for the token that it has just read",
    "A copy is easy to learn and worth nothing. The target is the token that follows.",
)(_rows(said=lambda s, start, end: [start, *s]))
teacher_batch.wrong(
    "a batch with targets that begin with the start token",
    "The start token is read, never said.",
)(
    _rows(
        read=lambda s, start, end: [start, *s, end],
        said=lambda s, start, end: [start, *s, end],
        hides=lambda places, count: places > count,
    )
)
teacher_batch.wrong(
    "right but for the targets, which are shifted once more: the first word is never said",
    "After the start token the first word has to be said. The start token is not one of the words.",
)(_rows(said=lambda s, start, end: [*s[1:], end]))
teacher_batch.wrong(
    "padded in front",
    "Padding comes after the sentence, so that every sentence begins at position 0.",
)(_rows(front=True))
teacher_batch.wrong(
    "a batch in which the end token stands behind the padding",
    "The end token comes directly after the last word, the padding after it.",
)(
    lambda sentences, start, end, pad: _rows(
        said=lambda s, start, end: s + [pad] * (max(map(len, sentences)) - len(s)) + [end],
        hides=lambda places, count: (places >= count - 1) & (places < max(map(len, sentences))),
    )(sentences, start, end, pad)
)
teacher_batch.wrong(
    "filled up with 0, whatever pad is",
    "Fill up with pad.",
)(_rows(fill=lambda start, end, pad: (0, 0)))
teacher_batch.wrong(
    "filled up with end tokens",
    "Fill up with pad.",
)(_rows(fill=lambda start, end, pad: (end, end)))
teacher_batch.wrong(
    "right but for the padding, which is where the targets equal pad",
    "pad may be the number of the end token, and the end has to be said. Go by the lengths.",
)(
    lambda *case: (
        *teacher_batch.reference(*case)[:2],
        teacher_batch.reference(*case)[1] == case[-1],
    )
)
teacher_batch.wrong(
    "right but for the padding, which is where the inputs equal pad",
    "pad may be the number of the start token, and after it the first word has to be said.",
)(
    lambda *case: (
        *teacher_batch.reference(*case)[:2],
        teacher_batch.reference(*case)[0] == case[-1],
    )
)
teacher_batch.wrong(
    "right but for the padding, which is the wrong way round",
    "It is True at the padding and False at tokens, as in the library.",
)(_rows(hides=lambda places, count: places < count))
teacher_batch.wrong(
    "right but for the padding, which hides the end token too",
    "The end token is to be said: then a model learns to stop.",
)(_rows(hides=lambda places, count: places >= count - 1))
teacher_batch.wrong(
    "right but for the padding, which begins one place too late",
    "A sentence of n words has n + 1 targets, at the places 0 to n.",
)(_rows(hides=lambda places, count: places > count))
teacher_batch.wrong(
    "right but for the padding, which is that of the first sentence in all rows",
    "Each sentence has a length of its own.",
)(_rows(hides=lambda places, count: (places >= count[:1]).expand(len(count), -1)))


@teacher_batch.wrong(
    "cut to the shortest sentence",
    "Nothing is lost: all rows are as long as the longest sentence. (zip stops at the shortest.)",
)
def _(sentences, start, end, pad):
    shortest = min(map(len, sentences))
    return teacher_batch.reference([s[:shortest] for s in sentences], start, end, pad)


@teacher_batch.wrong("right but for the order of the axes: it is (T, B)", "One row a sentence.")
def _(*case):
    return tuple(each.T for each in teacher_batch.reference(*case))


@teacher_batch.wrong(
    "right but for the order: the targets come first",
    "Return inputs, targets and padding.",
)
def _(*case):
    inputs, targets, padding = teacher_batch.reference(*case)
    return targets, inputs, padding


# How likely a translation is


def _probability_cases(draw, hidden):
    """Large scores; what stands in the padding may be large, infinite or no number."""
    sizes = [([2, 3], 4, None), ([1, 4, 2], 5, 1e6), ([3, 5, 1, 2], 7, mt.nan)]
    sizes += [([4, 4], 3, -mt.inf), ([2, 5, 3], 6, mt.inf)]
    if hidden:
        sizes += [([1], 3, None), ([7, 2, 9, 4, 6], 11, mt.nan), ([1, 6], 8, -1e30)]
    for i, (counts, tokens, filler) in enumerate(sizes):
        steps = max(counts) + i % 2
        targets = draw.integers(tokens, len(counts), steps)
        padding = mt.arange(steps) >= mt.tensor(counts).unsqueeze(1)
        scores = (1000 if i == 1 else 2) * draw.normal(len(counts), steps, tokens)
        if filler is not None:
            scores = scores.masked_fill(padding.unsqueeze(-1), filler)
        yield scores, targets, padding


def _clean(scores, padding):
    return scores.masked_fill(padding.unsqueeze(-1), 0.0)


def _chosen(values, targets):
    return values.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)


def _likely(
    clean=_clean,
    log_p=lambda scores, targets: _chosen(scores.log_softmax(dim=-1), targets),
    real=lambda padding: ~padding,
    keep=lambda log_p, real: log_p.masked_fill(~real, 0.0),
    total=lambda log_p, real: log_p.sum(dim=1),
    mean=lambda log_p, real: -log_p.sum() / real.sum(),
):
    """Both results with one of their pieces exchanged."""

    def likely(scores, targets, padding):
        there = real(padding)
        each = keep(log_p(clean(scores, padding), targets), there)
        return total(each, there), mean(each, there)

    return likely


def _padding_gets_no_gradient(answer, scores, targets, padding):
    if bool(padding.any()):
        scores.requires_grad_()
        total, loss = answer(scores, targets, padding)
        [gradient] = mt.autograd.grad(total.sum() + loss, scores)
        if not bool((gradient[padding] == 0).all()):
            return "The gradient at a padded position must be exactly zero."
    return None


def _never_far_below_zero(check, answer, *case):
    """What the logarithm of a probability that is rounded to 0 is, however low the score."""

    def log_p(score):
        scores = mt.tensor([[[0.0, score]]])
        return answer(scores, mt.tensor([[1]]), mt.tensor([[False]]))[0].item()

    lowest = log_p(-1e4)
    if -1e3 < lowest < -1 and lowest == log_p(-2e4):
        return (
            "Where two tokens have the scores 0 and -10000, log P of the second is -10000; yours "
            f"is {lowest:.3g}. Do you keep the probability away from 0? log_softmax needs no such "
            "help."
        )
    return None


@exercise(
    cases=_probability_cases,
    forbidden=("cross_entropy", "amin"),  # nll_loss runs amin
    instead="log_softmax, a choice of the targets' elements (gather or indexing) and sums "
    "(F.nll_loss, which runs 'amin', is not allowed either)",
    properties=(_padding_gets_no_gradient,),
    reasons=(_never_far_below_zero,),
    see='chapter 03, "The loss of a padded batch"',
)
def log_probabilities(scores, targets, padding):
    """log P of each translation (B), and the loss of a token, one number."""
    scores = scores.masked_fill(padding.unsqueeze(-1), 0.0)  # whatever it was
    log_p = scores.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    log_p = log_p.masked_fill(padding, 0.0)
    return log_p.sum(dim=1), -log_p.sum() / (~padding).sum()


log_probabilities.wrong(
    "right as long as the padding holds ordinary numbers: it is multiplied by 0",
    "0 times infinity is no number. Put something harmless into the scores there first: "
    "masked_fill.",
)(
    _likely(
        clean=lambda scores, padding: scores,
        keep=lambda log_p, real: log_p * real,
    )
)
log_probabilities.wrong(
    "right in its values, but the gradient in the padding is no number",
    "What is masked after log_softmax sends a zero back into it, and zero times what is no "
    "number is no number. Mask the scores.",
)(_likely(clean=lambda scores, padding: scores))
log_probabilities.wrong(
    "right but for the padding, which counts",
    "Where padding is True nothing is to be said: it belongs to no sum.",
)(_likely(clean=lambda scores, padding: scores, real=lambda padding: padding == padding))
log_probabilities.wrong(
    "right but for the padding, which counts as if it were guessed evenly",
    "Scores of zero are a uniform distribution, and its logarithm is -log V, not 0. Mask what "
    "comes after log_softmax, too.",
)(_likely(keep=lambda log_p, real: log_p))
log_probabilities.wrong(
    "right for the translations, but the loss is divided by all positions",
    "Divide by the number of targets that are not padding.",
)(_likely(mean=lambda log_p, real: -log_p.mean()))
log_probabilities.wrong(
    "right for the translations, but the loss is divided by the number of sentences",
    "The loss is a mean over tokens: divide by the number of targets that are not padding.",
)(_likely(mean=lambda log_p, real: -log_p.sum() / len(log_p)))
log_probabilities.wrong(
    "right for the translations, but the loss is a sum",
    "Divide by the number of targets that are not padding.",
)(_likely(mean=lambda log_p, real: -log_p.sum()))
log_probabilities.wrong(
    "right for the translations, but the loss is the mean of the sentences' means",
    "Every token counts the same: one sum over all tokens of the batch, divided once.",
)(_likely(mean=lambda log_p, real: -(log_p.sum(dim=1) / real.sum(dim=1)).mean()))
log_probabilities.wrong(
    "right for the translations, but the loss is a perplexity",
    "Leave out the exponential.",
)(_likely(mean=lambda log_p, real: (-log_p.sum() / real.sum()).exp()))
log_probabilities.wrong(
    "right but for the logarithms, which are to the base 2",
    "The natural logarithm, as log_softmax has it.",
)(_likely(log_p=lambda scores, targets: _chosen(scores.log_softmax(dim=-1), targets) / math.log(2)))
log_probabilities.wrong(
    "right for the translations, but the loss has the other sign",
    "The loss is never negative.",
)(_likely(mean=lambda log_p, real: log_p.sum() / real.sum()))
log_probabilities.wrong(
    "right for the loss, but the translations have the mean of their tokens",
    "Probabilities multiply along a translation, so their logarithms add up.",
)(_likely(total=lambda log_p, real: log_p.sum(dim=1) / real.sum(dim=1)))
log_probabilities.wrong(
    "right for the loss, but the translations have probabilities, not their logarithms",
    "Leave the logarithms: products of many probabilities are too small for a number.",
)(_likely(total=lambda log_p, real: log_p.sum(dim=1).exp()))
log_probabilities.wrong(
    "right for the loss, but the translations have the other sign",
    "A logarithm of a probability is never above 0.",
)(_likely(total=lambda log_p, real: -log_p.sum(dim=1)))
log_probabilities.wrong(
    "right for the loss, but log P is that of the batch, not of each translation",
    "One number for each sentence: sum along axis 1.",
)(_likely(total=lambda log_p, real: log_p.sum()))
log_probabilities.wrong(
    "right but for the logarithm, which is forgotten",
    "log_softmax, not softmax.",
)(_likely(log_p=lambda scores, targets: _chosen(scores.softmax(dim=-1), targets)))
log_probabilities.wrong(
    "right but for the softmax, which is forgotten",
    "Scores may be anything. Their log_softmax over the last axis is log P of each token.",
)(_likely(log_p=lambda scores, targets: _chosen(scores, targets)))
log_probabilities.wrong(
    "right but for the softmax, which goes over the positions",
    "The V tokens compete, along the last axis.",
)(_likely(log_p=lambda scores, targets: _chosen(scores.log_softmax(dim=1), targets)))
log_probabilities.wrong(
    "right on paper, but the logarithm of a probability that is rounded to 0 is infinite",
    "log_softmax never makes a probability of a score: use it in place of softmax and log.",
)(_likely(log_p=lambda scores, targets: _chosen(scores.softmax(dim=-1), targets).log()))
log_probabilities.wrong(
    "right on paper, but exp overflows where scores are large",
    "log_softmax subtracts the largest score first; so must you.",
)(
    _likely(
        log_p=lambda scores, targets: _chosen(
            (scores.exp() / scores.exp().sum(dim=-1, keepdim=True)).log(), targets
        )
    )
)
log_probabilities.wrong(
    "right but for the end tokens, which do not count",
    "The end token belongs to a translation: without it nobody knows where it stops.",
)(
    _likely(
        real=lambda padding: (
            ~padding & (mt.arange(padding.shape[1]) < (~padding).sum(1, keepdim=True) - 1)
        )
    )
)
log_probabilities.wrong(
    "right but for the padding, which is that of the first sentence in all rows",
    "Each sentence has a padding of its own.",
)(_likely(real=lambda padding: ~padding[:1].expand(*padding.shape)))
log_probabilities.wrong(
    "right but for the mask, which is the wrong way round",
    "padding is True where nothing is to be said.",
)(lambda scores, targets, padding: log_probabilities.reference(scores, targets, ~padding))
log_probabilities.wrong(
    "right but for the order: the loss comes first",
    "Return log P of each translation, then the loss.",
)(lambda *case: tuple(reversed(log_probabilities.reference(*case))))
