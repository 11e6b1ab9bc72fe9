"""Log probabilities of completions, many questions in a batch."""

import minitorch as mt
from textbook.chapter_10 import OneStack
from textbook.checks.compare import brief
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise


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
        self.rows = tokens
        return self.model(tokens)

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"a language model of {self.vocabulary} tokens"


def _completion_cases(draw, V=9, size=5, last=1):
    """A model, prompts, choices, and whether the mean is asked for."""
    random = draw.random
    model = _Model(V, size)

    def text(length, first=1):
        return [int(x) for x in random.integers(first, V, length)]

    for lengths in (
        [(2, (2,))],
        [(3, (2, 2))],
        [(1, (1, 3, 2))],
        [(4, (2, 1)), (2, (3, 1, 1))],
        [(2, (4, 2, 1)), (5, (1, 2)), (last, (2,)), (3, (1, 1, 3, 5))],
    ):
        prompts = [text(length) for length, _ in lengths]
        choices = [[text(length, 0) for length in each] for _, each in lengths]
        choices[-1][-1][0] = 0  # a token like others where it stands in a completion
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


def _padded_in_front(check, answer, model, *others):
    answer(model, *others)
    if bool((model.rows[:, 0] == 0).any()):
        return (
            "A row that the model gets begins with 0. If that is padding: a causal model reads it, "
            "and all places behind it move. Pad at the end."
        )
    return None


completion_scores = exercise(
    "completion_scores",
    cases=_completion_cases,
    run=_scored,
    reasons=(_padded_in_front,),
    gradients=False,
    see='chapter 13, "A causal language model without fine-tuning"',
)
