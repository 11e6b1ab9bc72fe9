"""A mixer of the student's own, in two forms: all tokens at once, and step by step."""

import minitorch as mt
from minitorch.autograd import record_operations
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise

STEP = "the output (B, d), and then the new state"


def _mixer_cases(draw, others=()):
    for batch, n, width in others or [(2, 3, 4), (3, 6, 8)]:
        yield draw.normal(batch, n, width), draw.normal(batch, n, width)


def numbers_of(state):
    """How many numbers a sequence carries in its state, a tuple of tensors (B, ...)."""
    return sum(x.numel() // len(x) for x in state)


def _steps(mixer, x):
    """The outputs token by token, and the numbers in the state after each."""
    state, outputs, sizes = mixer.start(len(x)), [], []
    for token in x.unbind(1):
        output, state = mixer.step(token, state)
        outputs.append(output)
        sizes.append(numbers_of(state))
    return mt.stack(outputs, dim=1), sizes


def _beside_forward(stepped, whole):
    """Whether step gives what forward gives; if not, where they part, and how."""
    if stepped.shape == whole.shape and mt.allclose(stepped, whole):
        return "those of forward"
    if stepped.shape == whole.shape:
        if mt.allclose(stepped[:, 0], whole[:, 0]):
            return "others than those of forward, but for the first token's"
        if mt.equal(stepped[:, 0], 0 * whole[:, 0]):
            return "0 for the first token"
        factors = stepped / whole
        if mt.allclose(factors, factors[..., :1].expand(*factors.shape)):
            return "those of forward times a factor"
    return "others than those of forward"


def _in_turn(mixer, x, y):
    """Two texts at once, a token of each in turn."""
    states, outputs = [mixer.start(len(x)), mixer.start(len(y))], ([], [])
    for pair in zip(x.unbind(1), y.unbind(1), strict=True):
        for i, token in enumerate(pair):
            output, states[i] = mixer.step(token, states[i])
            outputs[i].append(output)
    return [mt.stack(each, dim=1) for each in outputs]


def _equal(one, other):
    return len(one) == len(other) and all(
        a.shape == b.shape and bool(mt.equal(a, b)) for a, b in zip(one, other, strict=True)
    )


def _place_of_a_leak(mixer, x):
    whole = mixer(x)
    for t in range(x.shape[1] - 1):
        for sign in (1, -1):
            later = sign * 20 * Draw(t).normal(*x[:, t + 1 :].shape)
            changed = mixer(mt.cat([x[:, : t + 1], later], dim=1))
            if not mt.allclose(changed[:, : t + 1], whole[:, : t + 1]):
                return f"a token after place {t} changes them"
    return "none"


def _alone(mixer, x):
    """Whether a sequence gives by itself what it gives in its batch."""
    return all(mt.allclose(mixer(x[i : i + 1])[0], row) for i, row in enumerate(mixer(x)))


def _without_gradient(mixer, x):
    """The parameters that get no gradient, or one that is not a number."""
    mixer.zero_grad()
    (mixer(x) * Draw(0).normal(*x.shape)).sum().backward()
    names = [
        name
        for name, p in mixer.named_parameters()
        if p.grad is None or not bool(p.grad.isfinite().all())
    ]
    return ", ".join(names) or "none"


def _pace(mixer, width):
    """Whether forward runs more operations for every token more."""
    counts = []
    for n in (12, 44):
        with record_operations() as names, mt.no_grad():
            mixer(Draw(0).normal(1, n, width))
        counts.append(len(names))
    return "loops over the tokens" if counts[1] - counts[0] >= 64 else "takes all tokens at once"


def _form(value):
    """What a value is, without its numbers, which are those of weights that were drawn."""
    if isinstance(value, mt.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of " + (", ".join(map(_form, value)) or "nothing")
    return f"an object of type {type(value).__name__}"


def _form_of_step(found, x):
    """What step returned: an output for each sequence, and a state."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return _form(found)
    if not isinstance(found[0], mt.Tensor) or found[0].shape != x.shape:
        return f"a pair whose first is {_form(found[0])}"
    return STEP


def _in_two_forms(answer, x, y):
    """What holds of a mixer, in words; these are compared, since every mixer is another one."""
    width = x.shape[-1]
    mixer = answer(width).double().eval()
    whole = mixer(x)
    found = {"the shape of the output": tuple(whole.shape)}
    if found["the shape of the output"] != tuple(x.shape):
        return found
    found["the output"] = "finite" if bool(whole.isfinite().all()) else "not finite everywhere"
    found["the outputs that depend on later tokens"] = _place_of_a_leak(mixer, x)
    found["the output of a sequence"] = (
        "its own" if _alone(mixer, x) else "another one beside other sequences"
    )
    state = mixer.start(len(x))
    formed = isinstance(state, (tuple, list)) and all(part.shape[:1] == (len(x),) for part in state)
    found["the state at the start"] = "a tuple of tensors (B, ...)" if formed else _form(state)
    if not formed:
        return found
    other = answer(width).double().eval()  # what it may keep in self stays out of what follows
    found["what step returns"] = _form_of_step(other.step(x[:, 0], other.start(len(x))), x[:, 0])
    if found["what step returns"] != STEP:
        return found
    stepped, sizes = _steps(mixer, x)
    found["the outputs of step"] = _beside_forward(stepped, whole)
    same = all(
        mt.allclose(a, b) for a, b in zip(_in_turn(mixer, x, y), (whole, mixer(y)), strict=True)
    )
    found["two texts in turn"] = "apart" if same else "mixed: something is kept outside the state"
    kept = mixer.start(len(x))
    for token in x.unbind(1)[:2]:  # a first token may add nothing
        _, kept = mixer.step(token, kept)
    before = [part.clone() for part in kept]
    _, new = mixer.step(x[:, 2], kept)
    found["the state that step was given"] = (
        "unchanged" if _equal(kept, before) else "changed in place"
    )
    found["the state that step returns"] = "as it was" if _equal(new, before) else "a new one"
    _, later = _steps(mixer, mt.cat([x, y], dim=1))
    found["the state"] = "of one size" if len({*sizes, *later}) == 1 else "grows with the text"
    found["the size of the state"] = (
        "at most 4 d^2 numbers"
        if sizes[0] <= 4 * width**2
        else f"{sizes[0]} numbers for d = {width}"
    )
    found["the parameters that get no finite gradient from forward"] = _without_gradient(mixer, x)
    found["forward"] = _pace(mixer, width)
    return found


OwnMixer = exercise(
    "OwnMixer",
    cases=_mixer_cases,
    run=_in_two_forms,
    forbidden=("scaled_dot_product_attention",),
    instead="a state of one size",
    gradients=False,
    see='chapter 12, "What a state can hold"',
)
