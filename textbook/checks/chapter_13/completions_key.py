"""Answers to the exercises of ``completions.py``."""

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.chapter_13.completions import _completion_cases, completion_scores


@completion_scores.answer(
    hidden_cases=lambda draw: _completion_cases(draw, V=13, size=6, last=2),
    after_passing="Cheaper: a prompt's keys and values serve all its completions. Keep them.",
)
def completion_scores(model, prompts, choices, mean):
    """Log probabilities of the choices after their prompts: a list of tensors."""
    rows = [
        (prompt, choice) for prompt, each in zip(prompts, choices, strict=True) for choice in each
    ]
    n = max(len(prompt) + len(choice) for prompt, choice in rows)
    tokens = mt.zeros(len(rows), n, dtype=mt.int64)
    asked = mt.zeros(len(rows), n, dtype=mt.bool)
    for i, (prompt, choice) in enumerate(rows):
        end = len(prompt) + len(choice)
        tokens[i, :end] = mt.tensor(prompt + choice)
        asked[i, len(prompt) : end] = True
    with mt.no_grad():
        log_p = model(tokens).log_softmax(dim=-1)[:, :-1]  # of the tokens from the second on
    found = mt.gather(log_p, 2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    scores = found.masked_fill(~asked[:, 1:], 0.0).sum(dim=1)
    if mean:
        scores = scores / asked.sum(dim=1)
    return list(scores.split([len(each) for each in choices]))


# Right in another way


def scores_row_by_row(model, prompts, choices, mean):
    pairs = [(p, c) for p, each in zip(prompts, choices, strict=True) for c in each]
    longest = max(len(p) + len(c) for p, c in pairs)
    table = mt.tensor([p + c + [0] * (longest - len(p) - len(c)) for p, c in pairs])
    log_p = F.log_softmax(model(table), dim=-1).detach().numpy()
    rows = iter(enumerate(pairs))
    found = []
    for each in choices:
        scores = []
        for _ in each:
            i, (p, c) = next(rows)
            values = [log_p[i, len(p) + j - 1, token] for j, token in enumerate(c)]
            scores.append(np.mean(values) if mean else np.sum(values))
        found.append(mt.tensor(scores))
    return found


def scores_by_cross_entropy(model, prompts, choices, mean):
    """What is not asked has the target -100."""
    pairs = [(p, c) for p, each in zip(prompts, choices, strict=True) for c in each]
    longest = max(len(p) + len(c) for p, c in pairs)
    inputs = mt.tensor([(p + c + [0] * longest)[: longest - 1] for p, c in pairs])
    targets = [([-100] * (len(p) - 1) + c + [-100] * longest)[: longest - 1] for p, c in pairs]
    scores = model(inputs).transpose(1, 2)
    losses = F.cross_entropy(scores, mt.tensor(targets), reduction="none").sum(dim=1)
    lengths = mt.tensor([len(c) if mean else 1 for _, c in pairs])
    values, found = -losses / lengths, []
    for each in choices:
        found.append(values[: len(each)])
        values = values[len(each) :]
    return tuple(found)


right = {
    "completion_scores": [scores_row_by_row, scores_by_cross_entropy],
}
