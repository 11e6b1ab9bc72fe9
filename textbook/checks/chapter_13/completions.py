"""Log probabilities of completions, many questions in a batch."""

import minitorch as mt
from textbook.chapter_10 import OneStack
from textbook.checks.compare import brief
from textbook.checks.exercise import Draw, exercise


class _Model:
    """A causal language model that counts its calls."""

    def __init__(self, vocabulary, seed):
        self.calls = 0
        self.vocabulary = vocabulary
        self.model = OneStack(vocabulary, 8, 2, 12, 1, causal=True).double().eval()
        self.model.load_state_dict(
            {name: 0.7 * x for name, x in Draw(seed).state(self.model).items()}
        )

    def __call__(self, tokens):
        self.calls += 1
        return self.model(tokens)

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"a language model of {self.vocabulary} tokens"


def _completion_cases(draw, V=9, size=5, last=1):
    """A model, prompts, choices, and whether the mean is asked for."""
    random = draw.random
    model = _Model(V, size)

    def text(length):
        return [int(x) for x in random.integers(1, V, length)]

    for lengths in (
        [(2, (1,))],
        [(3, (2, 2))],
        [(1, (1, 3, 2))],
        [(4, (2, 1)), (2, (3, 1, 1))],
        [(2, (4, 2, 1)), (5, (1, 2)), (last, (2,)), (3, (1, 1, 3, 5))],
    ):
        prompts = [text(length) for length, _ in lengths]
        choices = [[text(length) for length in each] for _, each in lengths]
        for mean in (False, True):
            yield model, prompts, choices, mean


def _scored(answer, model, prompts, choices, mean):
    """The scores without their graph, and how often the model was asked."""
    before = model.calls
    result = answer(model, prompts, choices, mean)
    calls = model.calls - before
    form = "a list of tensors, one for each prompt"
    formed = (
        isinstance(result, (list, tuple))
        and len(result) == len(prompts)
        and all(isinstance(x, mt.Tensor) for x in result)
    )
    found = {"the form of the result": form if formed else brief(result)}
    found["the scores"] = [x.detach() for x in result] if formed else None
    found["the number of calls of the model"] = calls
    return found


@exercise(
    cases=_completion_cases,
    hidden_cases=lambda draw: _completion_cases(draw, V=13, size=6, last=2),
    run=_scored,
    gradients=False,
    after_passing="Cheaper: a prompt's keys and values serve all its completions. Keep them.",
    see='chapter 13, "A causal language model without fine-tuning"',
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
