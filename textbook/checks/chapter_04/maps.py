"""Attention maps: how far they are from a known alignment, and the gradient through them."""

import minitorch as mt
from textbook.checks.exercise import exercise

# Alignment error rate


def _map_cases(draw, hidden):
    """Maps with padding behind the rows, links that are sure or possible, and rows without any."""
    sizes = [([2, 3], 3, 0.0), ([3, 1, 4], 4, 0.3), ([2, 4], 5, 0.25), ([4, 3, 2], 4, 0.45)]
    for counts, n, threshold in sizes + [([5, 2, 6], 7, 0.3), ([3], 4, 0.5)] * hidden:
        scores = 1.5 * draw.normal(len(counts), max(counts) + 1, n)
        weights = scores.softmax(dim=-1)
        sure, possible = [], []
        for b, count in enumerate(counts):
            places = weights[b].argsort(dim=-1, descending=True).tolist()
            links = {(t, places[t][int(draw.integers(2, 1))]) for t in range(count)}
            links |= {(0, places[0][0]), (0, places[0][1])}
            links -= {(count - 1, j) for j in range(n)} if count > 2 else set()
            extra = {(t, places[t][int(draw.integers(n, 1))]) for t in range(count)}
            sure.append(links)
            possible.append(extra - links)
        yield weights, counts, sure, possible, threshold
    half = mt.tensor([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.0, 1.0, 0.0]]])  # at the threshold
    yield half.double(), [2], [{(0, 0), (1, 0)}], [{(1, 2)}], 0.5


def _links(weights, count, threshold, choose=lambda rows: rows.argmax(dim=-1), at_least=True):
    rows = weights[:count]
    places = choose(rows).tolist()
    return {(t, j) for t, j in enumerate(places) if rows[t, j].item() >= threshold or not at_least}


def _rate(
    links=_links,
    allowed=lambda sure, possible: sure | possible,
    rate=lambda a, s, in_s, in_p: 1 - (in_s + in_p) / (a + s),
    join=None,
    rows=lambda weights, count: count,
):
    """The alignment error rate with one of its pieces exchanged."""

    def error(weights, counts, sure, possible, threshold):
        numbers = []
        for each, count, s, p in zip(weights, counts, sure, possible, strict=True):
            found = links(each, rows(each, count), threshold)
            numbers.append([len(found), len(s), len(found & s), len(found & allowed(s, p))])
        if join:
            return join([rate(*each) for each in numbers])
        return rate(*map(sum, zip(*numbers, strict=True)))

    return error


@exercise(cases=_map_cases, gradients=False, see='chapter 04, "Alignment for free"')
def alignment_error_rate(weights, counts, sure, possible, threshold):
    """The alignment error rate of attention maps (B, T, n), from 0 to 1."""
    found = correct = known = 0
    for rows, count, s, p in zip(weights, counts, sure, possible, strict=True):
        links = set()
        for t in range(count):
            j = rows[t].argmax().item()
            if rows[t, j].item() >= threshold:
                links.add((t, j))
        found, known = found + len(links), known + len(s)
        correct += len(links & s) + len(links & (s | p))
    return 1 - correct / (found + known)


for name, hint, pieces in (
    (
        "right but for possible links, which never count",
        "A link that was made and is possible is no error.",
        dict(allowed=lambda sure, possible: sure),
    ),
    (
        "right but for sure links, which are not counted among the possible ones",
        "P contains S: what is sure is possible as well.",
        dict(allowed=lambda sure, possible: possible),
    ),
    (
        "one minus the error",
        "The error: 1 minus the share.",
        dict(rate=lambda a, s, in_s, in_p: (in_s + in_p) / (a + s)),
    ),
    (
        "one minus the precision: links that were missed cost nothing",
        "Sure links that were not made count, too: see the formula.",
        dict(rate=lambda a, s, in_s, in_p: 1 - in_p / a if a else 0.0),
    ),
    (
        "one minus the recall: links too many cost nothing",
        "Links that are not even possible count, too: see the formula.",
        dict(rate=lambda a, s, in_s, in_p: 1 - in_s / s),
    ),
    (
        "the mean over the sentences of each sentence's error rate",
        "Every link counts the same: add up over all sentences, then divide once.",
        dict(join=lambda rates: sum(rates) / len(rates)),
    ),
    (
        "an error rate that counts rows of padding",
        "Sentence b has counts[b] pieces: later rows are padding.",
        dict(rows=lambda weights, count: len(weights)),
    ),
    (
        "right but for the last piece of each sentence, which is left out",
        "Pieces 0 to counts[b] - 1.",
        dict(rows=lambda weights, count: count - 1),
    ),
    (
        "right but for the threshold, which is ignored",
        "A piece whose largest weight is below the threshold makes no link.",
        dict(links=lambda *given: _links(*given, at_least=False)),
    ),
    (
        "right but for the links: every weight that reaches the threshold makes one",
        "One link a piece at most, at its largest weight.",
        dict(
            links=lambda weights, count, threshold: {
                (t, j)
                for t, row in enumerate(weights[:count].tolist())
                for j, weight in enumerate(row)
                if weight >= threshold
            }
        ),
    ),
    (
        "right but for the links, which lie at the smallest weights",
        "At the largest: argmax.",
        dict(
            links=lambda weights, count, threshold: _links(
                weights, count, threshold, lambda rows: rows.argmin(dim=-1), at_least=False
            )
        ),
    ),
    (
        "right but for the threshold, which a weight has to be above",
        "At least the threshold: >=.",
        dict(
            links=lambda weights, count, threshold: {
                (t, j)
                for t, j in _links(weights, count, threshold)
                if weights[t, j].item() > threshold
            }
        ),
    ),
    (
        "right but for the links, which each word makes to its best piece",
        "Each piece makes one, to the word with its largest weight: along the row.",
        dict(
            links=lambda weights, count, threshold: {
                (t, j) for j, t in _links(weights[:count].T, weights.shape[1], threshold)
            }
        ),
    ),
    (
        "right but for |A and P|, which is counted twice, and |A and S| not at all",
        "One of each: a sure link that was made counts in both.",
        dict(rate=lambda a, s, in_s, in_p: 1 - 2 * in_p / (a + s)),
    ),
    (
        "right but for the positions of the links, which count from 1",
        "Pieces and words are counted from 0.",
        dict(links=lambda *given: {(t + 1, j + 1) for t, j in _links(*given)}),
    ),
    (
        "right but for the links, whose two numbers are exchanged",
        "(t, j): the piece, then the word.",
        dict(links=lambda *given: {(j, t) for t, j in _links(*given)}),
    ),
    (
        "an error rate in percent",
        "From 0 to 1.",
        dict(rate=lambda a, s, in_s, in_p: 100 - 100 * (in_s + in_p) / (a + s)),
    ),
):
    alignment_error_rate.wrong(name, hint)(_rate(**pieces))


@alignment_error_rate.wrong(
    "right but for the sum below, in which it counts possible links",
    "|A| + |S|: possible links that were not made are no error.",
)
def _(weights, counts, sure, possible, threshold):
    links = [_links(w, c, threshold) for w, c in zip(weights, counts, strict=True)]
    both = list(zip(links, sure, possible, strict=True))
    correct = sum(len(a & s) + len(a & (s | p)) for a, s, p in both)
    return 1 - correct / sum(len(a) + len(s | p) for a, s, p in both)


# The gradient by hand


def _gradient_cases(draw, hidden):
    """Also one query, one word, and large scores."""
    sizes = [(1, 1, 2, 4, 1), (1, 2, 3, 4, 1), (2, 3, 5, 4, 1), (2, 3, 4, 5, 9)]
    for batch, steps, n, d, scale in sizes + [(4, 2, 7, 5, 1), (1, 3, 1, 4, 1)] * hidden:
        yield (
            scale * draw.normal(batch, steps, d),
            draw.normal(batch, n, d),
            draw.normal(batch, steps, d),
        )


def _through_softmax(weights, grad_weights):
    return weights * (grad_weights - (weights * grad_weights).sum(dim=-1, keepdim=True))


def _backward(
    weigh=lambda scores, d: scores.softmax(dim=-1),
    softmax=_through_softmax,
    to_states=lambda grad_scores, memory: grad_scores @ memory,
    as_keys=lambda grad_scores, states: grad_scores.mT @ states,
    as_values=lambda weights, grad_outputs: weights.mT @ grad_outputs,
    say=lambda states, memory: (states, memory),
):
    """The gradient of attention with one of its pieces exchanged."""

    def backward(states, memory, grad_outputs):
        weights = weigh(states @ memory.mT, states.shape[-1])
        grad_scores = softmax(weights, grad_outputs @ memory.mT)
        grad_memory = as_keys(grad_scores, states) + as_values(weights, grad_outputs)
        return say(to_states(grad_scores, memory), grad_memory)

    return backward


@exercise(
    cases=_gradient_cases,
    forbidden=("backward",),
    instead="@, * and sum",
    gradients=False,
    see='chapter 04, "A shorter path for the gradient"',
)
def attention_gradient(states, memory, grad_outputs):
    """The gradients of the loss with respect to states (B, T, d) and memory (B, n, d)."""
    weights = (states @ memory.mT).softmax(dim=-1)  # (B, T, n)
    grad_weights = grad_outputs @ memory.mT
    average = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (B, T, 1)
    grad_scores = weights * (grad_weights - average)  # (B, T, n)
    grad_memory = weights.mT @ grad_outputs + grad_scores.mT @ states  # as values, as keys
    return grad_scores @ memory, grad_memory


for name, hint, pieces in (
    (
        "right for the states, but the memory has the gradient of the values alone",
        "The memory is read twice: it is averaged, and it is compared with the states. Add both.",
        dict(as_keys=lambda grad_scores, states: 0),
    ),
    (
        "right for the states, but the memory has the gradient of the keys alone",
        "The memory is read twice: it is compared with the states, and it is averaged. Add both.",
        dict(as_values=lambda weights, grad_outputs: 0),
    ),
    (
        "a gradient without the Jacobian of the softmax",
        "Between scores and weights lies the softmax.",
        dict(softmax=lambda weights, grad_weights: grad_weights),
    ),
    (
        "a gradient that leaves out that the weights of a row hang together",
        "The softmax divides by a sum over the row, so a score changes all weights of its row: "
        "subtract the sum of weights * gradient before you multiply.",
        dict(softmax=lambda weights, grad_weights: weights * grad_weights),
    ),
    (
        "a gradient with only the diagonal of the softmax's Jacobian",
        "weights * (1 - weights) says how a score changes its own weight. It changes the others "
        "too.",
        dict(softmax=lambda weights, grad_weights: weights * (1 - weights) * grad_weights),
    ),
    (
        "a gradient from which the plain mean of the row is subtracted",
        "What is subtracted is the mean under the weights, (weights * gradient).sum(...).",
        dict(
            softmax=lambda weights, grad_weights: (
                weights * (grad_weights - grad_weights.mean(dim=-1, keepdim=True))
            )
        ),
    ),
    (
        "a gradient from which a sum over the queries is subtracted",
        "A row is the distribution of one query: sum over the last axis.",
        dict(
            softmax=lambda weights, grad_weights: (
                weights * (grad_weights - (weights * grad_weights).sum(dim=1, keepdim=True))
            )
        ),
    ),
    (
        "a gradient that is not multiplied by the weights at the end",
        "In weights * (gradient - sum), the first factor is missing.",
        dict(
            softmax=lambda weights, grad_weights: (
                grad_weights - (weights * grad_weights).sum(dim=-1, keepdim=True)
            )
        ),
    ),
    (
        "a gradient whose part through the scores has the opposite sign",
        "weights * (gradient - average), not (average - gradient).",
        dict(softmax=lambda weights, grad_weights: -_through_softmax(weights, grad_weights)),
    ),
    (
        "right for the states, but the memory has the part of the keys with the other sign",
        "Both parts are added.",
        dict(as_keys=lambda grad_scores, states: -grad_scores.mT @ states),
    ),
    (
        "a gradient through scores that are divided by the square root of d",
        "Here the scores are the plain dot products.",
        dict(
            to_states=lambda grad_scores, memory: grad_scores @ memory / memory.shape[-1] ** 0.5,
            as_keys=lambda grad_scores, states: grad_scores.mT @ states / states.shape[-1] ** 0.5,
        ),
    ),
    (
        "a gradient from which the sum of the row is subtracted, not its mean by the weights",
        "What is subtracted is (weights * gradient).sum(...).",
        dict(
            softmax=lambda weights, grad_weights: (
                weights * (grad_weights - grad_weights.sum(dim=-1, keepdim=True))
            )
        ),
    ),
    (
        "the gradient of scaled attention: the scores are divided by the square root of d",
        "Here the scores are the plain dot products.",
        dict(
            weigh=lambda scores, d: (scores / d**0.5).softmax(dim=-1),
            to_states=lambda grad_scores, memory: grad_scores @ memory / memory.shape[-1] ** 0.5,
            as_keys=lambda grad_scores, states: grad_scores.mT @ states / states.shape[-1] ** 0.5,
        ),
    ),
    (
        "a gradient through a softmax over the queries",
        "Each query has a distribution over the words: the last axis.",
        dict(weigh=lambda scores, d: scores.softmax(dim=1)),
    ),
    (
        "right for the memory, but the states have a mean over the words",
        "The parts of all words add up.",
        dict(to_states=lambda grad_scores, memory: grad_scores @ memory / memory.shape[1]),
    ),
    (
        "right for the states, but the memory has a mean over the queries",
        "All queries read the same memory, so their gradients add up.",
        dict(
            as_keys=lambda grad_scores, states: grad_scores.mT @ states / states.shape[1],
            as_values=lambda weights, grad: weights.mT @ grad / weights.shape[1],
        ),
    ),
    (
        "right for the states, but the memory takes the weights for all alike",
        "Value j enters output t with its weight: weights.mT @ grad_outputs.",
        dict(as_values=lambda weights, grad: mt.ones_like(weights).mT @ grad),
    ),
    (
        "right but for the order: the gradient of the memory comes first",
        "Return the gradient of the states first, then that of the memory.",
        dict(say=lambda states, memory: (memory, states)),
    ),
):
    attention_gradient.wrong(name, hint)(_backward(**pieces))
