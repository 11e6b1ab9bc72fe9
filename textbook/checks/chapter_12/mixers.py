"""A mixer of the student's own: in two forms, and measured on recall."""

import statistics
from contextlib import redirect_stdout
from io import StringIO
from time import process_time

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.compare import brief, number
from textbook.checks.exercise import CheckFailed, Draw, exercise
from textbook.data import tasks
from textbook.lab.report import measured

# In two forms


def _mixer_cases(draw, hidden):
    for batch, n, width in [(3, 7, 8), (1, 4, 12)] if hidden else [(2, 3, 4), (3, 6, 8)]:
        yield draw.normal(batch, n, width), draw.normal(batch, n, width)


def _numbers(state):
    """How many numbers a sequence carries in its state, a tuple of tensors (B, ...)."""
    return sum(x.numel() // len(x) for x in state)


def _steps(mixer, x):
    """The outputs token by token, and the numbers in the state after each."""
    state, outputs, sizes = mixer.start(len(x)), [], []
    for token in x.unbind(1):
        output, state = mixer.step(token, state)
        outputs.append(output)
        sizes.append(_numbers(state))
    return mt.stack(outputs, dim=1), sizes


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
    return [
        name
        for name, p in mixer.named_parameters()
        if p.grad is None or not bool(p.grad.isfinite().all())
    ]


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
    found["the state at the start"] = "a tuple of tensors (B, ...)" if formed else brief(state)
    if not formed:
        return found
    stepped, sizes = _steps(mixer, x)
    same = stepped.shape == whole.shape and mt.allclose(stepped, whole)
    found["the outputs of step"] = "those of forward" if same else "others than those of forward"
    same = all(
        mt.allclose(a, b) for a, b in zip(_in_turn(mixer, x, y), (whole, mixer(y)), strict=True)
    )
    found["two texts in turn"] = "apart" if same else "mixed: something is kept outside the state"
    kept = mixer.start(len(x))
    before = [part.clone() for part in kept]
    _, new = mixer.step(x[:, 0], kept)
    found["the state that step was given"] = (
        "unchanged" if _equal(kept, before) else "changed in place"
    )
    found["the state that step returns"] = "as it was" if _equal(new, before) else "a new one"
    _, later = _steps(mixer, mt.cat([x, y], dim=1))
    found["the state"] = "of one size" if len({*sizes, *later}) == 1 else "grows with the text"
    found["the numbers in the state"] = (
        "at most 4 d^2" if sizes[0] <= 4 * width**2 else f"{sizes[0]} for d = {width}"
    )
    found["the parameters without a finite gradient"] = _without_gradient(mixer, x)
    return found


@exercise(
    cases=_mixer_cases,
    run=_in_two_forms,
    forbidden=("scaled_dot_product_attention",),
    instead="a state of one size",
    gradients=False,
    see='chapter 12, "What a state can hold"',
)
class OwnMixer(nn.Module):
    """Mixes tokens (B, n, d) causally, at once or step by step with a state of one size."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.share = nn.Parameter(mt.ones(width))  # of the token before, in the key

    def roles(self, x, before):
        """Queries and keys, both positive, and values."""
        share = self.share.sigmoid()
        query, key = self.query(x), self.key(share * before + (1 - share) * x)
        return F.elu(query) + 1, F.elu(key) + 1, self.value(x)

    def forward(self, x):
        """(B, n, d) -> (B, n, d), all tokens at once."""
        before = mt.cat([mt.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        query, key, value = self.roles(x, before)
        weights = (query @ key.mT).tril()
        return self.out(weights @ value / (weights.sum(dim=-1, keepdim=True) + 1e-6))

    def start(self, batch):
        """The state before the first token: a tuple of tensors (B, ...)."""
        width = len(self.share)
        sizes = (width, width), (width,), (width,)
        return tuple(self.share.new_zeros(batch, *size) for size in sizes)

    def step(self, x, state):
        """One token (B, d) and the state give its output (B, d) and the new state."""
        pairs, total, before = state
        query, key, value = self.roles(x, before)
        pairs = pairs + key.unsqueeze(-1) * value.unsqueeze(-2)  # (B, d, d)
        total = total + key
        mixed = (query.unsqueeze(-2) @ pairs).squeeze(-2)
        output = self.out(mixed / ((query * total).sum(dim=-1, keepdim=True) + 1e-6))
        return output, (pairs, total, x)


# Mistakes in the two forms


@OwnMixer.wrong(
    "a mixer that looks into the future: forward has no mask",
    "A token may look at itself and those before it. Set the weights of later ones to 0.",
)
class _(OwnMixer.reference):
    def forward(self, x):
        before = mt.cat([mt.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        query, key, value = self.roles(x, before)
        weights = query @ key.mT
        return self.out(weights @ value / weights.sum(dim=-1, keepdim=True))


@OwnMixer.wrong(
    "right in both forms, but its state is a cache that grows with the text",
    "All keys and values are as exact as softmax attention and cost as much. Add them up.",
)
class _(OwnMixer.reference):
    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        future = mt.ones(x.shape[1], x.shape[1], dtype=mt.bool).triu(1)
        return (query @ key.mT).masked_fill(future, -mt.inf).softmax(dim=-1) @ self.out(value)

    def start(self, batch):
        empty = self.share.new_zeros(batch, 0, len(self.share))
        return empty, empty

    def roles(self, x, before):
        return self.share * 0 + super().roles(x, before)

    def step(self, x, state):
        keys = mt.cat([state[0], self.key(x).unsqueeze(1)], dim=1)
        values = mt.cat([state[1], self.value(x).unsqueeze(1)], dim=1)
        weights = (self.query(x).unsqueeze(1) @ keys.mT).softmax(dim=-1)
        return self.out((weights @ values).squeeze(1)), (keys, values)


@OwnMixer.wrong(
    "a mixer whose step returns the state that it was given",
    "Return the new state, with the token in it.",
)
class _(OwnMixer.reference):
    def step(self, x, state):
        return super().step(x, state)[0], state


@OwnMixer.wrong(
    "a mixer that keeps its state in self, beside the one that it is given",
    "A mixer may read several texts in turn. What a text has left behind is in its state alone.",
)
class _(OwnMixer.reference):
    def start(self, batch):
        self.kept = super().start(batch)
        return self.kept

    def step(self, x, state):
        output, self.kept = super().step(x, self.kept)
        return output, self.kept


@OwnMixer.wrong(
    "a mixer whose step writes into the state that it was given",
    "Make new tensors: state = state + ..., not +=. Who kept the old state may need it.",
)
class _(OwnMixer.reference):
    def step(self, x, state):
        output, new = super().step(x, state)
        with mt.no_grad():
            for old, part in zip(state, new, strict=True):
                old.copy_(part)
        return output, state


@OwnMixer.wrong(
    "a mixer that mixes the sequences of a batch",
    "Each sequence is a text of its own: no sum or mean over the first axis.",
)
class _(OwnMixer.reference):
    def forward(self, x):
        return super().forward(x - x.mean(dim=0, keepdim=True))


@OwnMixer.wrong(
    "a mixer whose two forms differ: step has no token shift",
    "Step needs the token before as forward does: keep it in the state.",
)
class _(OwnMixer.reference):
    def step(self, x, state):
        output, (pairs, total, _) = super().step(x, state)
        return output, (pairs, total, mt.zeros_like(x))


@OwnMixer.wrong(
    "a mixer with too large a state",
    "Four numbers for each weight of a d x d matrix must do.",
)
class _(OwnMixer.reference):
    def start(self, batch):
        width = len(self.share)
        return *super().start(batch), self.share.new_zeros(batch, 4 * width, width)

    def step(self, x, state):
        output, new = super().step(x, state[:3])
        return output, (*new, state[3])


@OwnMixer.wrong(
    "a mixer that has a parameter without use",
    "Every parameter must get a gradient from the outputs of forward.",
)
class _(OwnMixer.reference):
    def __init__(self, width):
        super().__init__(width)
        self.gate = nn.Linear(width, width)


@OwnMixer.wrong(
    "a mixer whose gradient is cut",
    "Stay with tensors: without detach, .item() or NumPy in forward.",
)
class _(OwnMixer.reference):
    def forward(self, x):
        return self.out(super().forward(x).detach())


# A fair measurement


class _Runs:
    """Accuracies of training runs: of a table, or of real training, each noted when it runs."""

    def __init__(self, accuracy):
        self.accuracy, self.ran = accuracy, []

    def __call__(self, rate, seed):
        self.ran.append((rate, seed))
        return self.accuracy(rate, seed)


def _measure_cases(draw, hidden):
    """Accuracies as a table from (rate, seed), in which the best rate depends on the seeds."""
    for count in (2, 3, 4) if hidden else (1, 2, 3):
        for best in range(4):
            rates = [float(x) for x in draw.random.permutation([0.001, 0.004, 0.016, 0.064])]
            choosing, reporting = list(range(10, 10 + count)), [3, 1, 2][: count + 1] + [7] * hidden
            table = {
                (rate, seed): float(draw.random.uniform(0.2, 0.4) + 0.4 * (i == best))
                for i, rate in enumerate(rates)
                for seed in (*choosing, *reporting)
            }
            lucky, early = rates[(best + 1) % 4], rates[(best + 2) % 4]
            if count > 1:  # better on one seed, and not on average
                table[lucky, choosing[-1]], table[lucky, choosing[0]] = 0.95, 0.05
                table[early, choosing[0]], table[early, choosing[-1]] = 0.85, 0.05
            for seed in reporting:
                table[lucky, seed] += 0.5
            yield table, rates, choosing, reporting


def _by_table(answer, table, rates, choosing, reporting):
    """What is returned, and which runs it took."""
    runs = _Runs(lambda rate, seed: table[rate, seed])
    found = answer(runs, rates, choosing, reporting)
    wanted = {(rate, seed) for rate in rates for seed in choosing}
    wanted |= {(found["rate"], seed) for seed in reporting}
    extra = [run for run in runs.ran if run not in wanted]
    if extra:
        said = f"a run at the rate {extra[0][0]} with the seed {extra[0][1]}"
    elif len(runs.ran) > len(set(runs.ran)):
        said = "the same run more than once"
    else:
        said = "each rate with each seed for choosing, then the best with each for reporting"
    return {"the dict": found, "what was run": said}


def _choice(tried, rates):
    """The rate with the best mean; ``tried`` maps a rate to its accuracies."""
    return max(rates, key=lambda rate: statistics.mean(tried[rate]))


def _edge(rate, rates):
    return rate in (min(rates), max(rates))


def _measuring(
    seeds_to_choose=lambda choosing, reporting: choosing,
    choose=_choice,
    edge=_edge,
    spread=statistics.stdev,
    mean=statistics.mean,
    report=lambda accuracy, rate, reporting: [accuracy(rate, seed) for seed in reporting],
):
    """The measurement with one of its pieces exchanged."""

    def measure(accuracy, rates, choosing, reporting):
        seeds = seeds_to_choose(choosing, reporting)
        rate = choose({rate: [accuracy(rate, seed) for seed in seeds] for rate in rates}, rates)
        found = report(accuracy, rate, reporting)
        return {
            "rate": rate,
            "at the edge": edge(rate, rates),
            "accuracies": found,
            "mean": mean(found),
            "spread": spread(found),
        }

    return measure


@exercise(
    cases=_measure_cases,
    run=_by_table,
    gradients=False,
    see='chapter 12, "What a state can hold"',
)
def measure(accuracy, rates, choosing, reporting):
    """Choose a rate on some seeds, report on others: a dict."""
    tried = {rate: [accuracy(rate, seed) for seed in choosing] for rate in rates}
    best = max(rates, key=lambda rate: statistics.mean(tried[rate]))
    found = [accuracy(best, seed) for seed in reporting]
    return {
        "rate": best,
        "at the edge": best in (min(rates), max(rates)),
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found),
    }


measure.wrong(
    "a choice by the seeds that are reported",
    "What is reported has no part in the choice: choose on `choosing` alone.",
)(_measuring(seeds_to_choose=lambda choosing, reporting: reporting))
measure.wrong(
    "a choice by all seeds, those that are reported included",
    "What is reported has no part in the choice: choose on `choosing` alone.",
)(_measuring(seeds_to_choose=lambda choosing, reporting: [*choosing, *reporting]))
measure.wrong(
    "a choice by the first of the seeds for choosing alone",
    "All of them: one run may be luck.",
)(_measuring(seeds_to_choose=lambda choosing, reporting: choosing[:1]))
measure.wrong(
    "a choice by the best single run",
    "The rate with the best mean, not the one with the luckiest run.",
)(_measuring(choose=lambda tried, rates: max(rates, key=lambda rate: max(tried[rate]))))
measure.wrong(
    "a choice of the rate with the lowest accuracy",
    "They are accuracies, not losses: higher is better.",
)(_measuring(choose=lambda tried, rates: min(rates, key=lambda rate: statistics.mean(tried[rate]))))
measure.wrong(
    "no choice: the first rate",
    "Try all rates, each with all seeds for choosing.",
)(_measuring(choose=lambda tried, rates: rates[0]))
measure.wrong(
    "right but for the edge, for which it takes the first and the last rate of the list",
    "The rates may stand in any order: the edges are the smallest and the largest.",
)(_measuring(edge=lambda rate, rates: rate in (rates[0], rates[-1])))
measure.wrong(
    "right but for the edge, which says the opposite",
    "'at the edge' is True if the chosen rate is the smallest or the largest of those tried.",
)(_measuring(edge=lambda rate, rates: not _edge(rate, rates)))
measure.wrong(
    "right but for the edge: it looks at the largest rate alone",
    "The smallest rate that was tried is an edge, too.",
)(_measuring(edge=lambda rate, rates: rate == max(rates)))
measure.wrong(
    "right but for the spread, which is that of all numbers and not of a sample",
    "A standard deviation from a few runs divides by their number minus 1, as statistics.stdev.",
)(_measuring(spread=statistics.pstdev))
measure.wrong(
    "right but for the spread, which is the distance from the lowest to the highest",
    "The spread that is asked for is the standard deviation.",
)(_measuring(spread=lambda found: max(found) - min(found)))
measure.wrong(
    "right but for the mean, in whose place stands the best run",
    "The best of several runs is luck. Report the mean.",
)(_measuring(mean=max))


@measure.wrong(
    "a report of the runs that chose the rate",
    "The chosen rate has been chosen for being good on these seeds. Report other ones.",
)
def _(accuracy, rates, choosing, reporting):
    tried = {rate: [accuracy(rate, seed) for seed in choosing] for rate in rates}
    rate = _choice(tried, rates)
    found = tried[rate]
    return {
        "rate": rate,
        "at the edge": _edge(rate, rates),
        "accuracies": found,
        "mean": statistics.mean(found),
        "spread": statistics.stdev(found) if len(found) > 1 else 0.0,
    }


# Trained on recall

KEYS, VALUES, PAIRS, WIDTH = 32, 8, (4, 8, 16), 32
STEPS, SECONDS, ENOUGH = 120, 20, 0.6


class _Reader(nn.Module):
    """One layer of the mixer between an embedding and the scores of the values."""

    def __init__(self, mixer):
        super().__init__()
        self.embedding, self.mixer = nn.Embedding(KEYS + VALUES, WIDTH), mixer(WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(3)])
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.scores = nn.Linear(WIDTH, VALUES)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.mixer(self.norms[0](x))
        x = x + self.network(self.norms[1](x))
        return self.scores(self.norms[2](x))


def _recall(pairs, size):
    """Tokens (B, 3 pairs), every key asked for once, and which value belongs to it."""
    tokens, targets = tasks.associative_recall(size, pairs, KEYS, VALUES, queries=pairs)
    return tokens, targets - KEYS


def train(mixer, rate, seed):
    """The share of right answers after 16 pairs, of a model that was trained on 4, 8 and 16."""
    mt.manual_seed(seed)
    model, began = _Reader(mixer), process_time()
    optimizer = optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 30)
        tokens, targets = _recall(PAIRS[step % len(PAIRS)], 32)
        scores = model(tokens)[:, -targets.shape[1] :]
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if process_time() - began > SECONDS:
            raise CheckFailed(
                f"OwnMixer: after {SECONDS} seconds it has made {step + 1} of {STEPS} steps of "
                "training.\nLet forward compute all tokens at once, without a loop over them."
            )
    tokens, targets = _recall(PAIRS[-1], 256)
    with mt.no_grad():
        return (model(tokens)[:, -PAIRS[-1] :].argmax(dim=-1) == targets).float().mean().item()


def counting():
    """What a model reaches that names the commonest of the values, whatever is asked for."""
    _, targets = _recall(PAIRS[-1], 256)
    return F.one_hot(targets, VALUES).sum(dim=1).amax(dim=-1).float().mean().item() / PAIRS[-1]


def _list_of(rates):
    """The rates that the answer gives, if they can be tried."""
    try:
        given = [number(rate) for rate in rates()]
    except NotImplementedError:
        raise CheckFailed("rates: not solved yet.\nGive at least three learning rates.") from None
    if None in given or not 3 <= len(set(given)) <= 6 or min(given) <= 0:
        raise CheckFailed(f"rates: expected three to six different rates above 0, got {given}")
    return given


def recalled(mixer, measuring, rates, hidden=False):
    """Raise ``CheckFailed`` unless the mixer has learned recall and is measured as it should be."""
    for check, answer in ((OwnMixer, mixer), (measure, measuring)):
        with redirect_stdout(StringIO()):
            check(answer)
    given, reporting = _list_of(rates), [21, 22, 23] if hidden else [0, 1, 2]
    found = measuring(lambda rate, seed: train(mixer, rate, seed), given, [10], reporting)
    state = f"a state of {_numbers(mixer(WIDTH).start(1)):,} numbers"
    mt.manual_seed(0)
    reached = (
        f"{number(found['mean']):.2f} of the answers after 16 pairs are right, the mean of 3 seeds "
        f"(standard deviation {number(found['spread']):.2f}); counting values reaches "
        f"{counting():.2f}"
    )
    if number(found["mean"]) < ENOUGH:
        raise CheckFailed(
            f"OwnMixer: {reached}, and {ENOUGH} is expected.\nA key and its value are neighbours: "
            f"can one token of your mixer see both? And is there room for 16 pairs in {state}?\n"
            'See chapter 12, "What a state can hold".'
        )
    if found["at the edge"]:
        raise CheckFailed(
            f"rates: {reached}, but the chosen rate, {found['rate']:g}, is the smallest or the "
            "largest of yours.\nA better one may lie beyond: add a rate on that side, and keep at "
            "least a factor of 3 between neighbours."
        )
    measured(f"{reached}; {state}, rate {found['rate']:g}")
    print(f"recall: at least {ENOUGH} of the answers after 16 pairs are right")
