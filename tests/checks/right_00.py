"""Right answers to the exercises of chapter 00, and forbidden ones."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import softmax as probabilities


def softmax_in_one_go(scores):
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def softmax_row_by_row(scores):
    """This is what F.softmax does, without softmax."""
    rows = []
    for row in scores.reshape(-1, scores.shape[-1]):
        weights = [mt.exp(score - row.max().detach()) for score in row]
        rows.append(mt.stack(weights) / sum(weights))
    return mt.stack(rows).reshape(scores.shape)


right = {"softmax": [softmax_in_one_go, softmax_row_by_row]}
refused = {
    "softmax": [
        lambda scores: mt.softmax(scores, -1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: scores.softmax(-1),
        lambda scores: probabilities(scores, -1),
        lambda scores: F.log_softmax(scores, -1).exp(),
        lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp(),
        lambda scores: (
            mt.stack(
                [
                    mt.exp(
                        -F.cross_entropy(scores, mt.full(scores.shape[:-1], i), reduction="none")
                    )
                    for i in range(scores.shape[-1])
                ],
                -1,
            )
            if scores.ndim == 2
            else F.softmax(scores, -1)
        ),
    ]
}
