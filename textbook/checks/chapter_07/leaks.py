"""Which output depends on which input? Asked of gradients."""

import minitorch as mt
from minitorch.autograd import grad
from textbook.checks.chapter_07.attention import masked_softmax, scaled
from textbook.checks.released import exercise


class _Model:
    """A model of (n, d) that says what it is when it is printed."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def __call__(self, x):
        return self.function(x)

    def __repr__(self):
        return f"<{self.name}>"

    def __deepcopy__(self, memo):
        return self


def _attention(allowed):
    def attention(x):
        return masked_softmax(scaled(x, x), allowed(len(x))) @ x

    return attention


def _triangle(n):
    return mt.ones(n, n, dtype=mt.bool).tril()


def _late_mask(x):
    return (scaled(x, x).softmax(dim=-1) * _triangle(len(x))) @ x


def _causal(x):
    return _attention(_triangle)(x)


def _one_step_back(x):
    return -mt.cat([mt.zeros_like(x[:1]), x[:-1].tanh()])


def _unmasked(x):
    return _attention(lambda n: mt.ones(n, n, dtype=mt.bool))(x)


def _leak_into_the_first_number(x):
    return mt.cat([_unmasked(x)[:, :1], _causal(x)[:, 1:]], dim=1)


def _leak_into_the_last_number(x):
    return mt.cat([_causal(x)[:, :-1], _unmasked(x)[:, -1:]], dim=1)


def _leak_behind_the_first_d(x):
    """The last of d + 1 numbers hears of all tokens."""
    return mt.cat([_causal(x), x.sum().sin().expand(len(x), 1)], dim=1)


def _faint_leak(x):
    """One number of the first output hears of one number of the last input, very softly."""
    outputs = _causal(x)
    first = outputs[:1, :1] + 1e-9 * x[-1, -1].tanh()
    return mt.cat([mt.cat([first, outputs[:1, 1:]], dim=1), outputs[1:]])


def _leak_from_the_last_number(x):
    """The first output hears of the last number of the last token, loudly."""
    outputs = _causal(x)
    return mt.cat([outputs[:1] + x[-1, -1].sin(), outputs[1:]])


def _opposites(x):
    """The numbers of an output add up to 0, whatever the input is."""
    outputs = _causal(x)
    return mt.stack([outputs, -outputs], dim=2).flatten(1)


def _on_a_circle(x):
    """Outputs of constant length, whatever the input is."""
    angles = _causal(x)
    return mt.cat([angles.cos(), angles.sin()], dim=1)


def _differences(x):
    """The gradient of each number adds up to 0."""
    return (x[:, :1] - x[:, 1:2]).cumsum(dim=0)


MODELS = {
    "attention with a causal mask": _causal,
    "a leak into the first number of each output": _leak_into_the_first_number,
    "a leak into the last number of each output": _leak_into_the_last_number,
    "a leak into the last of d + 1 numbers of each output": _leak_behind_the_first_d,
    "attention masked after the softmax": _late_mask,
    "minus the token before": _one_step_back,
    "a tanh of each token": mt.tanh,
    "a faint leak from the last token to the first": _faint_leak,
    "a leak from the last number of the last token": _leak_from_the_last_number,
    "outputs whose numbers add up to 0": _opposites,
    "outputs of constant length": _on_a_circle,
    "sums of differences": _differences,
}


def _model_cases(draw, more=()):
    for name, function in [*MODELS.items(), *more]:
        yield _Model(name, function), draw.normal(4, 3)


def _gradients(model, x):
    """(n, k, n, d): of each number of each output, with respect to all inputs."""
    x = x.detach().clone().requires_grad_()
    outputs = model(x)
    rows = [[grad(number, x, retain_graph=True)[0] for number in row] for row in outputs]
    return mt.stack([mt.stack(row) for row in rows])


def _first_wrong_entry(check, answer, model, x):
    """A sentence on the first pair of output and token that is answered wrongly."""
    found, right = answer(model, x), check.reference(model, x)
    if not isinstance(found, mt.Tensor) or found.shape != right.shape or mt.equal(found, right):
        return None
    i, j = (found != right).nonzero()[0].tolist()
    numbers = _gradients(model, x)[i, :, j].abs()  # (k, d)
    if not right[i, j].item():
        return (
            f"Output {i} does not depend on token {j}: the {numbers.numel()} numbers of its "
            "gradient there are all 0. Is something of another output or token mixed in?"
        )
    return (
        f"Output {i} depends on token {j}: of the {numbers.numel()} numbers of its gradient there "
        f"{(numbers > 0).sum().item()} are not 0, the largest of size {numbers.max().item():.2g}. "
        "Each by itself is enough, however small."
    )


dependence = exercise(
    "dependence",
    cases=_model_cases,
    reasons=(_first_wrong_entry,),
    gradients=False,
    see='chapter 07, "Gradients from the future (C15)"',
)
