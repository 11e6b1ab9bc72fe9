"""Sentences as a batch, what the decoder reads and must say, and how likely it finds that."""

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


def _sentence_cases(draw, more=()):
    """Special tokens of three, of two and of one number; the longest sentence is not the first."""
    specials = (1, 2, 0), (0, 1, 1), (4, 2, 4), (3, 3, 3), (2, 2, 5)  # start, end, pad
    batches = [[2, 3], [1, 4, 0], [2, 5, 3, 5], [3, 0, 4], [3, 4, 2]]
    batches += more
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
    hidden_cases=lambda draw: _sentence_cases(
        draw, more=[[0], [6, 0, 8, 2, 7], [0, 0], [2, 9], [7, 7, 3]]
    ),
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


# How likely a translation is


def _probability_cases(draw, more=()):
    """Large scores; what stands in the padding may be large, infinite or no number."""
    sizes = [([2, 3], 4, None), ([1, 4, 2], 5, 1e6), ([3, 5, 1, 2], 7, mt.nan)]
    sizes += [([4, 4], 3, -mt.inf), ([2, 5, 3], 6, mt.inf)]
    sizes += more
    for i, (counts, tokens, filler) in enumerate(sizes):
        steps = max(counts) + i % 2
        targets = draw.integers(tokens, len(counts), steps)
        padding = mt.arange(steps) >= mt.tensor(counts).unsqueeze(1)
        scores = (1000 if i == 1 else 2) * draw.normal(len(counts), steps, tokens)
        if filler is not None:
            scores = scores.masked_fill(padding.unsqueeze(-1), filler)
        yield scores, targets, padding


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
    hidden_cases=lambda draw: _probability_cases(
        draw, more=[([1], 3, None), ([7, 2, 9, 4, 6], 11, mt.nan), ([1, 6], 8, -1e30)]
    ),
    forbidden=("cross_entropy", "amin"),  # nll_loss runs amin
    instead="log_softmax, a choice of the targets' elements (gather or indexing) and sums "
    "(F.nll_loss, which runs 'amin', is not allowed either)",
    properties=(_padding_gets_no_gradient,),
    reasons=(_never_far_below_zero,),
    after_passing=(
        "Shorter, for the loss: F.cross_entropy with ignore_index, if a target stands for the "
        "padding."
    ),
    see='chapter 03, "The loss of a padded batch"',
)
def log_probabilities(scores, targets, padding):
    """log P of each translation (B), and the loss of a token, one number."""
    scores = scores.masked_fill(padding.unsqueeze(-1), 0.0)  # whatever it was
    log_p = scores.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    log_p = log_p.masked_fill(padding, 0.0)
    return log_p.sum(dim=1), -log_p.sum() / (~padding).sum()
