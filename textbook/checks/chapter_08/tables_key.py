"""Answers to the exercises of ``tables.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_08.tables import _layer_cases, learned_from_one_hot


@learned_from_one_hot.answer(
    hidden_cases=lambda draw: _layer_cases(draw, others=[(5, 4, 7, 2), (4, 1, 3, 6)]),
    after_passing="Shorter: an nn.Embedding is such a layer; its one-hot vectors are never made.",
)
def learned_from_one_hot(weight, bias, longest, segments):
    """weight (m, d + N + S) and bias (m) give matrix (d, m) and table (S, N, m)."""
    d = weight.shape[1] - longest - segments
    word, place, segment = weight.T.split([d, longest, segments])
    return word, segment.unsqueeze(1) + place + bias


# Right in another way


def tables_by_slices(weight, bias, longest, segments):
    d = weight.shape[1] - longest - segments
    place = weight[:, d : d + longest].T + bias
    return [weight[:, :d].mT, place + weight[:, -segments:].T.reshape(segments, 1, -1)]


def tables_entry_by_entry(weight, bias, longest, segments):
    columns = weight.unbind(1)
    d = len(columns) - longest - segments
    table = [
        mt.stack([columns[d + t] + columns[d + longest + s] + bias for t in range(longest)])
        for s in range(segments)
    ]
    return mt.stack(columns[:d]), mt.stack(table)


def tables_in_numpy(weight, bias, longest, segments):
    matrix, place, segment = np.split(weight.numpy().T, [-longest - segments, -segments])
    table = segment[:, None] + place[None] + bias.numpy()
    return mt.tensor(matrix.copy()), mt.tensor(table)


def tables_by_asking_the_layer(weight, bias, longest, segments):
    """What the layer makes of each unit vector."""
    d = weight.shape[1] - longest - segments
    outputs = mt.eye(weight.shape[1]).to(weight) @ weight.T
    place, segment = outputs[d : d + longest], outputs[d + longest :]
    return outputs[:d], place + segment.unsqueeze(1) + bias


def tables_by_linear(weight, bias, longest, segments):
    d = weight.shape[1] - longest - segments
    outputs = F.linear(mt.eye(weight.shape[1]).to(weight), weight)
    return outputs[:d], outputs[d : d + longest] + outputs[d + longest :].unsqueeze(1) + bias


right = {
    "learned_from_one_hot": [tables_by_slices, tables_entry_by_entry, tables_in_numpy],
}
refused = {
    "learned_from_one_hot": [tables_by_asking_the_layer, tables_by_linear],
}
