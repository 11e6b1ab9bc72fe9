"""A translator that the student trains."""

import copy
import statistics

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.compare import brief, number
from textbook.checks.exercise import exercise

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


def _training_cases(draw, hidden):
    """Words of the vocabulary, steps."""
    yield (11, 50) if hidden else (9, 60)


def _trained(answer, vocabulary, steps):
    """What is returned, how the model was asked, and what it has learned."""
    mt.manual_seed(0)
    model, batches = Spy(vocabulary), Batches(vocabulary)
    losses = answer(model, batches, steps, 0.1)
    plain = isinstance(losses, (list, tuple)) and all(
        number(x) is not None and not isinstance(x, mt.Tensor) for x in losses
    )
    count = len(losses) if isinstance(losses, (list, tuple)) else brief(losses)
    inputs = all(
        asked.shape == target[:, :-1].shape and mt.equal(asked, target[:, :-1])
        for (_, asked, _), (_, target) in zip(model.asked, batches.drawn, strict=False)
    )
    first, last = (_mean(part) for part in (losses[:1], losses[-10:])) if plain else (0, 0)
    still = Spy(vocabulary)
    answer(still, Batches(vocabulary), 3, 0.0)
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
        "what a rate of 0 changes": _changed(still),
        "what the losses are": _kind_of_losses(losses, model, batches) if plain else "",
        "what padding is taught": _taught_by_padding(model),
        fallen: "less than a third" if last < first / 3 else "a third or more",
        "the share of next words that are right": _right(model, batches),
    }


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


@exercise(
    cases=_training_cases,
    run=_trained,
    gradients=False,
    see='chapter 11, "The ingredients of training"',
)
def train(model, draw, steps, rate):
    """Train a translator in place, on batches that draw() gives; the loss of each step."""
    optimizer = optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0)
    model.train()
    losses = []
    for step in range(1, steps + 1):
        rise, fall = step / max(steps // 10, 1), 1.1 * (1 - (step - 1) / steps)
        optimizer.param_groups[0]["lr"] = rate * min(rise, fall, 1.0)
        source, target = draw()
        scores = model(source, target[:, :-1]).flatten(0, 1)  # (B T, V)
        loss = F.cross_entropy(scores, target[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def _loss(scores, wanted):
    return F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=PAD)


def _mean_of_means(scores, wanted):
    each = F.cross_entropy(scores.transpose(1, 2), wanted, ignore_index=PAD, reduction="none")
    return (each.sum(dim=1) / (wanted != PAD).sum(dim=1)).mean()


def _training(
    reads=lambda target: target[:, :-1],
    wanted=lambda target: target[:, 1:],
    loss=_loss,
    count=lambda steps: steps,
    rate=lambda rate, step, steps: rate * min(10 * (step + 1) / steps, 1.1 - step / steps, 1.0),
    clear=lambda optimizer: optimizer.zero_grad(),
    update=lambda optimizer: optimizer.step(),
    draws=lambda draw, step, kept: draw(),
    before=lambda model: model.train(),
    after=lambda model: model.eval(),
    said=lambda losses: losses,
    value=lambda loss: loss.item(),
    optimizer=optim.Adam,
    trained=lambda model: model,
):
    """The training with one of its pieces exchanged."""

    def train(model, draw, steps, peak):
        before(model)
        given, model = model, trained(model)
        learner, losses, kept = optimizer(model.parameters(), lr=peak), [], []
        for step in range(count(steps)):
            learner.param_groups[0]["lr"] = rate(peak, step, steps)
            kept.append(draws(draw, step, kept))
            source, target = kept[-1]
            found = loss(model(source, reads(target)), wanted(target))
            clear(learner)
            found.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update(learner)
            losses.append(value(found))
        after(given)
        return said(losses)

    return train


for name, hint, pieces in (
    (
        "a training that shows the answer: the decoder reads what it should say",
        "The decoder reads the target without its last token, and is asked for the target without "
        "its first.",
        {"reads": lambda target: target[:, 1:]},
    ),
    (
        "a training of a copy: the decoder is asked for the token that it has just read",
        "It reads target[:, :-1] and is asked for target[:, 1:]: the next token at each place.",
        {"wanted": lambda target: target[:, :-1]},
    ),
    (
        "right but for padding, which the loss counts",
        "Places whose target is padding have no part in the loss: ignore_index=0.",
        {"loss": lambda scores, wanted: F.cross_entropy(scores.flatten(0, 1), wanted.flatten())},
    ),
    (
        "right but for the loss, which is a sum and not a mean",
        "Longer batches would take longer steps. Take the mean over the real tokens.",
        {
            "loss": lambda scores, wanted: F.cross_entropy(
                scores.flatten(0, 1), wanted.flatten(), ignore_index=PAD, reduction="sum"
            )
        },
    ),
    (
        "right but for the loss, which is a mean for each sentence, and then over the sentences",
        "Each real token counts the same: one mean over all of the batch.",
        {"loss": _mean_of_means},
    ),
    (
        "right but for the loss, whose targets are smoothed",
        "Here the loss is the plain mean over the real tokens, without label_smoothing.",
        {
            "loss": lambda scores, wanted: F.cross_entropy(
                scores.flatten(0, 1), wanted.flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        },
    ),
    (
        "right but for the steps, which are too small: the loss hardly falls",
        "At this rate Adam learns these words in 50 steps. Plain SGD takes steps as large as the "
        "gradient, and a rate that is divided, or falls at once, is too small as well.",
        {"optimizer": optim.SGD},
    ),
    (
        "right but for the model, of which it trains a copy",
        "The model itself is trained, in place: leave out deepcopy.",
        {"trained": copy.deepcopy},
    ),
    (
        "right but for the gradients, which are never set to zero and pile up",
        "optimizer.zero_grad() before each backward().",
        {"clear": lambda optimizer: None, "rate": lambda rate, step, steps: rate},
    ),
    (
        "right but for the steps: the optimizer never makes one",
        "After backward() comes optimizer.step().",
        {"update": lambda optimizer: None},
    ),
    (
        "right but for the batches: it draws one and learns that by heart",
        "Draw a new batch in each step.",
        {"draws": lambda draw, step, kept: kept[0] if kept else draw()},
    ),
    (
        "right but for the steps, of which it makes one more",
        "range(steps) has `steps` numbers.",
        {"count": lambda steps: steps + 1},
    ),
    (
        "right but for the steps, of which it makes one less",
        "range(1, steps) has `steps` - 1 numbers.",
        {"count": lambda steps: steps - 1},
    ),
    (
        "right but for the rate, which is one of its own",
        "Who calls it chooses the rate: the largest is `rate`.",
        {"rate": lambda rate, step, steps: 0.1},
    ),
    (
        "right but for the end: the model stays in training mode, and goes on dropping",
        "Before you return: model.eval().",
        {"after": lambda model: None},
    ),
    (
        "right but for the start: the model learns in evaluation mode, where nothing is dropped",
        "Before the first step: model.train().",
        {"before": lambda model: model.eval()},
    ),
    (
        "right but for the result, which is the last loss alone",
        "Return the loss of each step, as a list of numbers.",
        {"said": lambda losses: losses[-1]},
    ),
    (
        "right but for the losses, which are tensors with their graphs",
        "They keep every graph in memory: loss.item().",
        {"value": lambda loss: loss},
    ),
    (
        "right but for the direction: the loss rises",
        "The optimizer goes down by itself: minimise the loss, not its negative.",
        {"loss": lambda scores, wanted: -_loss(scores, wanted), "value": lambda loss: -loss.item()},
    ),
):
    train.wrong(name, hint)(_training(**pieces))
