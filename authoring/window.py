"""The two small models of the web page docs/window.md, and their views.

`.venv/bin/python -m authoring.window` trains both, in some minutes, and writes the files of their
weights, so that the web pages can be made without executing anything.
"""

from functools import partial
from pathlib import Path

import minitorch as mt
import minitorch.nn.functional as F
from textbook.chapter_07 import some_windows, three_texts
from textbook.chapter_10 import OneStack, Transformer
from textbook.chapter_11 import fit_scheduled
from textbook.data import BatchesByLength, Vocabulary, number_pair, number_pairs
from textbook.look import View, look

FOLDER = Path(__file__).parent / "models"
PAD = 0


def translator() -> tuple[mt.nn.Module, dict, list[str]]:
    """Chapter 10's translator of numbers, at half its width."""
    pairs = number_pairs(8_000, digits=(1, 6), seed=0)
    pieces = (piece for pair in pairs for piece in pair.source + pair.target)
    words = Vocabulary(pieces, ["<pad>", "<s>", "</s>"])
    source, _ = words.encode_batch([pair.source for pair in pairs], batch_first=True)
    target, _ = words.encode_batch(
        [pair.target for pair in pairs], start=True, end=True, batch_first=True
    )
    n, T = ((part != PAD).sum(1) for part in (source, target))
    batches = BatchesByLength(n.tolist(), 32)
    endless = (rows for _ in iter(int, 1) for rows in batches)

    def loss(model):
        rows = next(endless)
        read, said = source[rows][:, : int(n[rows].max())], target[rows][:, : int(T[rows].max())]
        scores = model(read, said[:, :-1]).flatten(0, 1)
        return F.cross_entropy(scores, said[:, 1:].flatten(), ignore_index=PAD)

    sizes = dict(vocabulary=len(words), width=32, heads=4, hidden=128, layers=2)
    model = Transformer(**sizes)
    fit_scheduled(model, loss, steps=600, rate=5e-3, warm=60)
    return model, sizes, words.tokens


def language_model() -> tuple[mt.nn.Module, dict, list[str]]:
    """Chapter 10's decoder alone, on chapter 07's text: characters of the first edition."""
    letters, training, *_ = three_texts()
    draw = partial(some_windows, training, 32, 48)

    def loss(model):
        inputs, targets = draw()
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    sizes = dict(vocabulary=len(letters), width=48, heads=4, hidden=192, layers=2, causal=True)
    model = OneStack(**sizes)
    fit_scheduled(model, loss, steps=2000, rate=4e-3, warm=200)
    return model, sizes, letters.tokens


MODELS = {"translator": (translator, Transformer), "language model": (language_model, OneStack)}


def _file(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.safetensors"


def view(name: str) -> View:
    """The view of one of the models, with knobs, from its file."""
    kept = mt.load(_file(name))
    model = MODELS[name][1](**kept["sizes"])
    model.load_state_dict(kept["weights"])
    vocabulary = Vocabulary([], kept["tokens"])
    if name == "translator":
        return look(model, number_pair(293).source, ["<s>"], vocabulary, knobs=True)
    return look(model, ["<s>", *"The value of th"], vocabulary=vocabulary, knobs=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (train, _) in MODELS.items():
        mt.manual_seed(0)
        model, sizes, tokens = train()
        kept = {"sizes": sizes, "tokens": tokens, "weights": model.state_dict()}
        mt.save(kept, _file(name))
        print(f"{_file(name)}: {_file(name).stat().st_size:,} bytes")
