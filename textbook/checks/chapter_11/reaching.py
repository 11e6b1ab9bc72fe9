"""What the student's training reaches, measured by the student's measurement."""

from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from time import thread_time

import minitorch as mt
from textbook.chapter_10 import Transformer
from textbook.checks.chapter_11.measuring import measure
from textbook.checks.chapter_11.training import train
from textbook.checks.exercise import CheckFailed
from textbook.data import Vocabulary, number_pairs
from textbook.lab.report import measured

RATES, CHOOSING, REPORTING = [0.001, 0.002], [10], [0, 1, 2]
STEPS, BATCH, ENOUGH, SECONDS = 200, 32, 0.8, 90


@cache
def _numbers():
    """The vocabulary, and pairs of tokens to learn from, to choose by, to report on."""
    unseen = {pair.number: pair for pair in number_pairs(2000, digits=(2, 3), held_out=True)}
    parts = {
        "train": number_pairs(3000, digits=(1, 3), seed=0),
        "validation": [unseen[number] for number in sorted(unseen)[::2]],
        "test": [unseen[number] for number in sorted(unseen)[1::2]],
    }
    pieces = (piece for pair in parts["train"] for piece in pair.source + pair.target)
    words = Vocabulary(pieces, ["<pad>", "<s>", "</s>"])

    def encoded(pairs):
        source, _ = words.encode_batch([pair.source for pair in pairs], batch_first=True)
        target, _ = words.encode_batch(
            [pair.target for pair in pairs], start=True, end=True, batch_first=True
        )
        return source, target

    return words, {name: encoded(pairs) for name, pairs in parts.items()}


def batch():
    """32 numbers in English and in German, drawn at random: source (B, n), target (B, T + 1)."""
    source, target = _numbers()[1]["train"]
    rows = mt.randint(0, len(source), (BATCH,))
    return source[rows], target[rows]


def translator():
    """A fresh translator of numbers."""
    return Transformer(len(_numbers()[0]), 32, 4, 64, layers=1)


@mt.no_grad()
def share_right(model, data):
    """The share of numbers of which every piece is the likeliest after those before it."""
    source, target = _numbers()[1][data]
    guess, wanted = model(source, target[:, :-1]).argmax(dim=-1), target[:, 1:]
    return ((guess == wanted) | (wanted == 0)).all(dim=1).float().mean().item()


def reached(training, measuring):
    """Raise ``CheckFailed`` unless the training translates numbers, measured as it should be."""
    with redirect_stdout(StringIO()):
        train(training)
        measure(measuring)
    began = thread_time()

    def run(rate, seed):
        mt.manual_seed(seed)
        model = translator()
        training(model, batch, STEPS, rate)
        return model

    found = measuring(run, share_right, RATES, CHOOSING, REPORTING)
    seconds = thread_time() - began
    said = (
        f"of held-out numbers {found['mean']:.2f} (standard deviation {found['spread']:.2f}) are "
        f"translated without a mistake, at the rate {found['rate']:g}"
    )
    if found["mean"] < ENOUGH:
        raise CheckFailed(
            f"train: {said}; at least {ENOUGH} is expected.\nDoes the rate rise at first and fall "
            "to about 0 at the end? Are gradients clipped? Is the batch used whole?\nSee chapter "
            '11, "The ingredients of training".'
        )
    if seconds > SECONDS:
        raise CheckFailed(
            f"train: all trainings together took {seconds:.0f} seconds, {SECONDS} are there.\n"
            "One pass through the model and one backward pass a step are enough."
        )
    measured(f"{said}; {seconds:.0f} seconds")
    print(f"train: more than {ENOUGH} of the numbers are right, mean of {len(REPORTING)} seeds")
