"""A sentence as one vector: the final states of both directions, the mean and the maximum."""

import minitorch as mt
from textbook.checks.exercise import exercise
from textbook.data import padding_mask

# The final states of both directions


def _at(states, positions):
    """(B, H): the state of each sentence at its position."""
    return states[mt.arange(len(states)), positions]


def _output_cases(draw, hidden):
    yield draw.normal(2, 3, 2), mt.tensor([1, 3])
    yield draw.normal(3, 5, 4), mt.tensor([2, 1, 4])
    yield draw.normal(4, 6, 6), 1 + draw.integers(6, 4)
    if hidden:
        yield draw.normal(1, 1, 2), mt.tensor([1])
        yield draw.normal(7, 9, 8), 1 + draw.integers(9, 7)


def _halves(outputs):
    return outputs.chunk(2, dim=-1)  # forward and backward, each (B, T, H)


def _padding_takes_no_part(answer, outputs, lengths):
    padding = padding_mask(lengths, outputs.shape[1]).unsqueeze(-1)
    if mt.allclose(answer(outputs, lengths), answer(mt.where(padding, 1e6, outputs), lengths)):
        return None
    return "What stands in the padding must not change the result."


@exercise(
    cases=_output_cases,
    properties=(_padding_takes_no_part,),
    gradients=False,
    see='chapter 03, "The model and its training"',
)
def encoder_state(outputs, lengths):
    """Outputs (B, T, 2 H) and lengths (B) give both final states side by side, (B, 2 H)."""
    size = outputs.shape[-1] // 2
    forward = outputs[mt.arange(len(outputs)), lengths - 1, :size]  # (B, H)
    backward = outputs[:, 0, size:]  # (B, H)
    return mt.cat([forward, backward], dim=-1)


@encoder_state.wrong(
    "the output at position T - 1",
    "Short sentences have padding there. The forward direction ends at position lengths[b] - 1, "
    "the backward one at position 0.",
)
def _(outputs, lengths):
    return outputs[:, -1]


@encoder_state.wrong(
    "right for the forward half; the backward half has read only the last token",
    "The backward direction starts at the last token and ends at the first: its final state, which "
    "has read the whole sentence, stands at position 0.",
)
def _(outputs, lengths):
    return _at(outputs, lengths - 1)


@encoder_state.wrong(
    "right for the backward half; the forward half has read only the first token",
    "The forward direction ends at the last token, position lengths[b] - 1.",
)
def _(outputs, lengths):
    return outputs[:, 0]


@encoder_state.wrong(
    "right for the backward half; the forward half is taken from position T - 1",
    "Short sentences have padding there. A sentence of length n ends at position n - 1.",
)
def _(outputs, lengths):
    forward, backward = _halves(outputs)
    return mt.cat([forward[:, -1], backward[:, 0]], dim=-1)


@encoder_state.wrong(
    "right for the forward half; the backward half is taken from position T - 1",
    "The backward direction ends at the first token: its final state stands at position 0.",
)
def _(outputs, lengths):
    forward, backward = _halves(outputs)
    return mt.cat([_at(forward, lengths - 1), backward[:, -1]], dim=-1)


@encoder_state.wrong(
    "off by one: the forward half is taken from the first position of padding",
    "Positions count from 0, so a sentence of length n ends at position n - 1.",
)
def _(outputs, lengths):
    forward, backward = _halves(outputs)
    places = lengths.clamp(max=outputs.shape[1] - 1)
    return mt.cat([_at(forward, places), backward[:, 0]], dim=-1)


@encoder_state.wrong(
    "made of the right positions, but with the two halves exchanged",
    "The first H features of outputs are the forward direction, the last H the backward one.",
)
def _(outputs, lengths):
    first, last = _halves(outputs)
    return mt.cat([first[:, 0], _at(last, lengths - 1)], dim=-1)


@encoder_state.wrong(
    "right but for the order: the backward half stands first",
    "Forward first, as in outputs.",
)
def _(outputs, lengths):
    forward, backward = _halves(outputs)
    return mt.cat([backward[:, 0], _at(forward, lengths - 1)], dim=-1)


@encoder_state.wrong(
    "the forward half alone",
    "The result has 2 H features: the backward direction's final state belongs to it.",
)
def _(outputs, lengths):
    return _at(_halves(outputs)[0], lengths - 1)


@encoder_state.wrong(
    "the sum of both halves",
    "Put them side by side, (B, 2 H): what follows must be able to tell them apart.",
)
def _(outputs, lengths):
    forward, backward = _halves(outputs)
    return _at(forward, lengths - 1) + backward[:, 0]


# The mean and the maximum


def _masked_cases(draw, hidden):
    """States with many negative ones, so that a zero is often larger than all of them."""
    for outputs, lengths in _output_cases(draw, hidden):
        yield outputs - 1, padding_mask(lengths, outputs.shape[1])


def _mean(states, mask):
    real = (~mask).unsqueeze(-1)  # (B, T, 1)
    return (states * real).sum(dim=1) / real.sum(dim=1)


def _largest(states, mask, filler=-mt.inf):
    return states.masked_fill(mask.unsqueeze(-1), filler).amax(dim=1)


def _padding_is_not_read(answer, states, mask):
    def gradient(of):
        leaf = states.clone().requires_grad_()
        return mt.autograd.grad(answer(leaf, mask)[of].sum(), leaf)[0]

    changed = mt.where(mask.unsqueeze(-1), states + 100, states)
    pairs = zip(answer(states, mask), answer(changed, mask), strict=True)
    if not all(mt.equal(before, after) for before, after in pairs):
        return "What stands in the padding must not change the result."
    if bool((gradient(0)[mask] == 0).all() and (gradient(1)[mask] == 0).all()):
        return None
    return "The gradient at a padded position must be exactly zero."


@exercise(
    cases=_masked_cases,
    properties=(_padding_is_not_read,),
    see='chapter 03, "One vector for a sentence"',
)
def mean_and_max(states, mask):
    """States (B, T, H) and mask (B, T) give the mean (B, H) and the maximum (B, H)."""
    padding = mask.unsqueeze(-1)  # (B, T, 1)
    mean = states.masked_fill(padding, 0.0).sum(dim=1) / (~padding).sum(dim=1)  # (B, H)
    largest = states.masked_fill(padding, -mt.inf).amax(dim=1)  # (B, H)
    return mean, largest


@mean_and_max.wrong(
    "the mean and the maximum over all positions, padding included",
    "mask is not used. Only positions where it is False belong to the sentence.",
)
def _(states, mask):
    return states.mean(dim=1), states.amax(dim=1)


@mean_and_max.wrong(
    "right for the maximum, but the mean includes the padding",
    "Only positions where the mask is False belong to the sentence.",
)
def _(states, mask):
    return states.mean(dim=1), _largest(states, mask)


@mean_and_max.wrong(
    "right for the maximum, but the sum is divided by T",
    "The padding is left out of the sum, but still counted. Divide by the number of positions "
    "where the mask is False, sentence by sentence.",
)
def _(states, mask):
    return states.masked_fill(mask.unsqueeze(-1), 0.0).mean(dim=1), _largest(states, mask)


@mean_and_max.wrong(
    "right for the maximum, but all sums are divided by the same number",
    "Each sentence has a length of its own: count along axis 1 alone.",
)
def _(states, mask):
    total = states.masked_fill(mask.unsqueeze(-1), 0.0).sum(dim=1)
    return total * len(mask) / (~mask).sum(), _largest(states, mask)


@mean_and_max.wrong(
    "right for the maximum, but has the sum in place of the mean",
    "Divide by the number of positions where the mask is False.",
)
def _(states, mask):
    return states.masked_fill(mask.unsqueeze(-1), 0.0).sum(dim=1), _largest(states, mask)


@mean_and_max.wrong(
    "right for the maximum, but the mean is taken with minus infinity in the padding",
    "Minus infinity never wins a maximum, but it spoils a sum: there, the padding is 0.",
)
def _(states, mask):
    filled = states.masked_fill(mask.unsqueeze(-1), -mt.inf)
    return filled.mean(dim=1), filled.amax(dim=1)


@mean_and_max.wrong(
    "right for the mean, but the maximum runs over zeros in the padding",
    "Where all states are negative, a zero wins. Put minus infinity into the padding before amax.",
)
def _(states, mask):
    return _mean(states, mask), _largest(states, mask, 0.0)


@mean_and_max.wrong(
    "right for the mean, but the maximum includes the padding",
    "Put minus infinity into the padding before amax.",
)
def _(states, mask):
    return _mean(states, mask), states.amax(dim=1)


@mean_and_max.wrong(
    "the mean and the maximum of the padding",
    "The mask is True at padding, so the sentence is where it is False.",
)
def _(states, mask):
    return mean_and_max.reference(states, ~mask)


@mean_and_max.wrong(
    "right for the mean, but has the largest absolute value in place of the maximum",
    "The maximum of -2 and -1 is -1.",
)
def _(states, mask):
    return _mean(states, mask), _largest(states.abs(), mask)


@mean_and_max.wrong(
    "right for the mean, but the maximum is one for all features",
    "Each feature has a maximum of its own, over the positions: the result is (B, H).",
)
def _(states, mask):
    largest = _largest(states, mask)
    return _mean(states, mask), largest.amax(dim=-1, keepdim=True).expand(*largest.shape)


@mean_and_max.wrong(
    "right but for the order: the maximum comes first",
    "Return the mean first.",
)
def _(states, mask):
    return tuple(reversed(mean_and_max.reference(states, mask)))
