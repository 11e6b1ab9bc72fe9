"""Answers to the exercises of ``beams.py``."""

import heapq
import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook import decoding
from textbook.checks.chapter_03.beams import _beam_cases, beam_search


@beam_search.answer(
    hidden_cases=lambda draw: _beam_cases(draw, more=[(6, 4, 6, 0.8)], longest=5),
    after_passing=(
        "Faster: the open hypotheses are rows of one batch, so that each step is one call."
    ),
)
def beam_search(step, state, start, end, beams, max_length, alpha):
    """The best finished hypotheses: pairs (list of tokens, score), the best first."""
    hypotheses, finished = [([], 0.0)], []
    for _ in range(max_length):
        last = mt.tensor([tokens[-1] if tokens else start for tokens, _ in hypotheses])
        scores, state = step(last, state)  # (open hypotheses, V)
        candidates = []
        for parent, row in enumerate(scores.log_softmax(dim=-1).tolist()):
            tokens, log_p = hypotheses[parent]
            for token, more in enumerate(row):
                candidates.append((log_p + more, parent, [*tokens, token]))
        candidates.sort(key=lambda candidate: -candidate[0])
        hypotheses, parents = [], []
        for log_p, parent, tokens in candidates[:beams]:
            if tokens[-1] == end:
                finished.append((tokens, log_p))
            else:
                hypotheses.append((tokens, log_p))
                parents.append(parent)
        if not hypotheses:
            break
        state = state[parents]
    finished += hypotheses
    scored = [(tokens, log_p / ((5 + len(tokens)) / 6) ** alpha) for tokens, log_p in finished]
    return sorted(scored, key=lambda pair: -pair[1])[:beams]


# Right in another way


def beams_with_topk(step, state, start, end, beams, max_length, alpha):
    log_p, tokens, token = mt.zeros(1), [[]], mt.tensor([start])
    finished = []

    def score(p, said):
        return p / ((5 + len(said)) / 6) ** alpha

    for n in range(1, max_length + 1):
        scores, state = step(token, state)
        table = log_p.unsqueeze(1) + F.log_softmax(scores, -1)  # (K, V)
        values, places = table.flatten().topk(min(beams, table.numel()))
        parents, token = places // scores.shape[1], places % scores.shape[1]
        pairs = zip(parents.tolist(), token.tolist(), strict=True)
        tokens = [tokens[parent] + [chosen] for parent, chosen in pairs]
        over = (token == end) | (n == max_length)
        for place in over.nonzero().flatten().tolist():
            finished.append((tokens[place], score(values[place].item(), tokens[place])))
        going = (~over).nonzero().flatten()
        if len(going) == 0:
            break
        tokens = [tokens[place] for place in going.tolist()]
        log_p, token, state = values[going], token[going], state[parents[going]]
    finished.sort(key=lambda pair: pair[1], reverse=True)
    return finished[:beams]


def beams_hypothesis_by_hypothesis(step, state, start, end, beams, max_length, alpha):
    """Each hypothesis carries its own state and length, and is a tuple on a heap."""
    hypotheses, done = [(0.0, (), state)], []
    while hypotheses and len(hypotheses[0][1]) < max_length:
        candidates = []
        for log_p, said, h in hypotheses:
            scores, new = step(mt.tensor([said[-1] if said else start]), h)
            row = scores[0] - scores[0].logsumexp(0)
            candidates += [(log_p + x.item(), (*said, token), new) for token, x in enumerate(row)]
        best = heapq.nlargest(beams, candidates, key=lambda each: each[0])
        done += [each for each in best if each[1][-1] == end]
        hypotheses = [each for each in best if each[1][-1] != end]
    scored = [
        (log_p * (6 / (5 + len(said))) ** alpha, list(said)) for log_p, said, _ in done + hypotheses
    ]
    return [(said, score) for score, said in sorted(scored, reverse=True)][:beams]


def beams_by_the_library(step, state, start, end, beams, max_length, alpha):
    def last(tokens, h):
        return step(tokens[:, -1], h)

    tokens, scores = decoding.beam_search(
        last,
        mt.tensor([[start]]),
        max_length,
        beams=beams,
        alpha=alpha,
        end=end,
        pad=-1,
        state=state,
    )
    found = []
    for row, score in zip(tokens[0, :, 1:].tolist(), scores[0].tolist(), strict=True):
        if score > -math.inf:
            found.append(([token for token in row if token >= 0], score))
    return found


right = {
    "beam_search": [beams_with_topk, beams_hypothesis_by_hypothesis],
}
refused = {
    "beam_search": [beams_by_the_library],
}
