"""A causal language model and its loss."""

import minitorch as mt
from textbook.checks.modules import drawn, loaded, results_of, values
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

LARGE = 4  # models of this width have scores of millions


def _text_cases(draw, more=()):
    """Sizes (V, d), then a batch whose sequences have different lengths."""
    sizes = [((4, 2), 2, 3), ((3, LARGE), 2, 3), *more]
    for (vocabulary_size, width), batch, n in sizes:
        lengths = mt.cat([1 + draw.integers(n - 1, batch - 1), mt.tensor([n])])
        yield (vocabulary_size, width), draw.integers(vocabulary_size, batch, n), lengths


def _weights(vocabulary_size, width):
    weights = drawn(CausalLanguageModel.reference, vocabulary_size, width)
    if width == LARGE:
        return {**weights, "query.weight": 1e6 * weights["query.weight"]}
    return weights


def _run(answer, sizes, tokens, lengths):
    return results_of(
        answer(*sizes),
        _weights(*sizes),
        {},
        lambda model: {
            "the tensor of scores": values(model(tokens)),
            "the loss": model.loss(tokens, lengths),
        },
        "the gradient of the loss",
    )


def _nothing_leaks(answer, sizes, tokens, lengths):
    model, others = loaded(answer(*sizes), _weights(*sizes)), tokens.clone()
    others[:, -1] = (tokens[:, -1] + 1) % sizes[0]
    before, after = model(tokens), model(others)
    same = mt.equal if sizes[1] == LARGE else mt.allclose  # a late mask fails by its values there
    if not same(before[:, :-1], after[:, :-1]):
        return (
            "Another last token must not change any score before it, not even in the last digits: "
            "hidden scores must take no part in the softmax."
        )
    return None


def _padding_takes_no_part(answer, sizes, tokens, lengths):
    model = loaded(answer(*sizes), _weights(*sizes))
    padding = mt.arange(tokens.shape[1]) >= lengths.unsqueeze(1)
    others = mt.where(padding, (tokens + 1) % sizes[0], tokens)
    if not mt.equal(model.loss(tokens, lengths), model.loss(others, lengths)):
        return "What stands in the padding must not change the loss."
    return None


@recorded
def _loss_alone(sizes, weights, *batch):
    """The loss of a right model that is called once."""
    model = CausalLanguageModel.reference(*sizes).double()
    model.load_state_dict(weights)
    return model.loss(*batch)


def _calls_are_apart(answer, sizes, tokens, lengths):
    """Two models that take turns, on other texts, do as two that are called once.

    Asked of those alone that are right when they are called once.
    """
    models = [loaded(answer(*sizes), _weights(*sizes)) for _ in range(2)]
    right = _loss_alone(sizes, _weights(*sizes), tokens, lengths)
    if not mt.allclose(models[0].loss(tokens, lengths), right):
        return None
    with mt.no_grad():
        for weight in models[1].parameters():
            weight.mul_(0.5)
    others = (tokens.flip(0) + 1) % sizes[0], lengths.flip(0)
    longer = mt.cat([tokens, tokens], dim=1), 2 * lengths
    for i, batch in ((0, others), (1, longer), (0, longer), (1, (tokens, lengths)), (0, others)):
        alone = _loss_alone(sizes, models[i].state_dict(), *batch)
        if not mt.allclose(models[i].loss(*batch), alone):
            return (
                "Called again with other texts, or in turn with another model, a model does "
                "something else. It must keep nothing from a call."
            )
    return None


CausalLanguageModel = exercise(
    "CausalLanguageModel",
    cases=_text_cases,
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, @, masked_fill and softmax",
    properties=(_nothing_leaks, _padding_takes_no_part, _calls_are_apart),
    gradients=False,
    see='chapter 07, "A causal language model"',
)
