"""A translator that the student trains."""

import statistics

import minitorch as mt
from minitorch import nn
from textbook.checks.compare import number
from textbook.checks.rates import largest, rates_noted
from textbook.checks.released import exercise

PAD, START, END = 0, 1, 2


class Spy(nn.Module):
    """A translator word by word, in float64, that notes what it is asked, and how."""

    def __init__(self, vocabulary):
        super().__init__()
        self.table = nn.Parameter(mt.zeros(vocabulary, vocabulary, dtype=mt.float64))
        self.after = nn.Parameter(mt.zeros(vocabulary, vocabulary, dtype=mt.float64))
        self.drop, self.asked, self.said, self.piled = nn.Dropout(0.1), [], [], 0
        self.table.register_hook(self.look)

    def look(self, gradient):
        """Note a gradient that is still there when the next one comes."""
        self.piled += self.table.grad is not None and self.table.grad.abs().max().item() > 0

    def forward(self, source, target):
        """Scores of each next token, from the source word at its place and the token before."""
        self.asked.append((source.clone(), target.clone(), self.training))
        places = mt.arange(target.shape[1]).clamp(max=source.shape[1] - 1)
        scores = self.drop(self.table[source[:, places]] + self.after[target])
        self.said.append(scores.detach())
        return scores


class Batches:
    """Batches of a language in which word w is w + 1, drawn anew each time, and noted."""

    def __init__(self, vocabulary):
        self.vocabulary, self.drawn = vocabulary, []

    def __call__(self):
        first = START + 2
        words = mt.randint(first, self.vocabulary, (16, 5))  # (B, n)
        lengths = mt.randint(1, 6, (16, 1))
        lengths[0] = 5
        here = mt.arange(5) < lengths
        said = (words + 1 - first) % (self.vocabulary - first) + first
        target = mt.cat([said, mt.zeros(16, 1).long()], dim=1)
        target = target.masked_fill(mt.arange(6) >= lengths, PAD)
        target = target.masked_fill(mt.arange(6) == lengths, END)
        target = mt.cat([mt.full((16, 1), START), target], dim=1)
        self.drawn.append((words.masked_fill(~here, PAD), target))
        return self.drawn[-1]


def _training_cases(draw):
    """Words of the vocabulary, steps."""
    yield 9, 60


def _trained(answer, vocabulary, steps):
    """What is returned, how the model was asked, and what it has learned."""
    mt.manual_seed(0)
    model, batches = Spy(vocabulary).eval(), Batches(vocabulary)
    with rates_noted() as rates:
        losses = answer(model, batches, steps, 0.1)
    plain = isinstance(losses, (list, tuple)) and all(
        number(x) is not None and not isinstance(x, mt.Tensor) for x in losses
    )
    count = len(losses) if isinstance(losses, (list, tuple)) else _kind(losses)
    inputs = all(
        asked.shape == target[:, :-1].shape and mt.equal(asked, target[:, :-1])
        for (_, asked, _), (_, target) in zip(model.asked, batches.drawn, strict=False)
    )
    first, last = (_mean(part) for part in (losses[:1], losses[-10:])) if plain else (0, 0)
    fallen = "the loss at the end, compared with the one at the start"
    return {
        "the number of batches drawn": len(batches.drawn),
        "the number of passes through the model that was given": len(model.asked),
        "the kind of the result": "a list of plain numbers" if plain else _kind(losses),
        "the number of losses": count,
        "what the decoder reads": "the target without its last token" if inputs else "other tokens",
        "the mode of the model while it learns": _mode(all(each[2] for each in model.asked)),
        "the mode of the model afterwards": _mode(model.training),
        "what is left of the gradient before": "something" if model.piled else "nothing",
        "what training changes": _changed(model),
        "what a rate of 0 changes": _changed_at_rate_0(answer, vocabulary),
        "the largest learning rate": largest(rates, 0.1),
        "what the losses are": _kind_of_losses(losses, model, batches) if plain else "",
        "what padding is taught": _taught_by_padding(model),
        fallen: "less than a third" if last < first / 3 else "a third or more",
        "the share of next words that are right": _right(model, batches),
    }


def _changed_at_rate_0(answer, vocabulary):
    model = Spy(vocabulary)
    answer(model, Batches(vocabulary), 3, 0.0)
    return _changed(model)


def _rate_of_its_own(check, answer, vocabulary, steps):
    """Steps whose size is not what was asked for."""
    if _changed_at_rate_0(answer, vocabulary) == "nothing":
        return None
    return "With a rate of 0 the weights change: is your rate one of its own, in place of `rate`?"


def _kind_of_losses(losses, model, batches):
    """What the losses are of the scores that the model gave."""
    kinds = {
        "the mean over the real tokens of the batch": lambda each, real, level: each[real].mean(),
        "the mean over all tokens, padding included": lambda each, real, level: each.mean(),
        "the sum over the real tokens, not their mean": lambda each, real, level: each[real].sum(),
        "a mean of means, one for each sentence": lambda each, real, level: (
            (each * real).sum(1) / real.sum(1)
        ).mean(),
        "minus what it should be": lambda each, real, level: -each[real].mean(),
        "that of smoothed targets": lambda each, real, level: (0.9 * each + 0.1 * level)[
            real
        ].mean(),
    }
    for kind, reduce in kinds.items():
        steps = list(zip(losses, model.said, batches.drawn, strict=False))[:12]
        for loss, scores, (_, target) in steps:
            wanted = target[:, 1:]
            if scores.shape[:2] != wanted.shape:
                return "something else"
            lost = -scores.log_softmax(dim=-1)
            each = lost.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
            here = reduce(each, wanted != PAD, lost.mean(dim=-1)).item()
            if abs(here - number(loss)) > 1e-4 * max(number(loss), 1):
                break
        else:
            return kind
    return "something else than the plain mean over the real tokens"


def _kind(losses):
    if isinstance(losses, (list, tuple)):
        return "a list of something else, such as tensors"
    return "one number" if number(losses) is not None else type(losses).__name__


def _mean(losses):
    return statistics.mean(number(x) for x in losses) if losses else 0.0


def _mode(training):
    return "training" if training else "evaluation"


@mt.no_grad()
def _taught_by_padding(model):
    """Behind the end there is padding alone: whether it has moved scores."""
    moved = model.after[END].abs().max().item() > 1e-6
    return "what comes behind the end" if moved else "nothing"


@mt.no_grad()
def _right(model, batches):
    """Whether the likeliest next word is mostly the right one."""
    if not batches.drawn:
        return "half or less"
    source, target = batches.drawn[0]
    model.drop.eval()
    guess, wanted = model(source, target[:, :-1]).argmax(dim=-1), target[:, 1:]
    share = (guess == wanted)[wanted > END].float().mean().item()
    return "more than half" if share > 0.5 else "half or less"


def _changed(model):
    weights = mt.cat([p.detach().flatten() for p in model.parameters()])
    return "nothing" if weights.abs().max().item() < 1e-12 else "weights"


train = exercise(
    "train",
    cases=_training_cases,
    run=_trained,
    reasons=(_rate_of_its_own,),
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
