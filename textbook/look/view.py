"""What ``look`` gives: the weights of every stack, layer and head, and the page that shows them."""

import base64
import html
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minitorch.serialization import save
from textbook.chapter_10 import OneStack, Transformer
from textbook.lab.report import COMPARED
from textbook.look.listening import attention_weights

PAGE = Path(__file__).with_name("page")
MOST_WEIGHTS = 1 << 20  # bytes that a page may carry
SCRIPTS = ("look.js", "forward.js", "way.js", "knobs.js")
STACKS = {  # who asks and who answers
    ("source", "source"): "self-attention, source",
    ("target", "target"): "self-attention, target",
    ("target", "source"): "cross-attention",
}


@dataclass
class Stack:
    """Attentions of the same queries (T words) and keys (n): weights (h, T, n) of each layer."""

    queries: list
    keys: list
    layers: list


class View:
    """The attention of a model as a page: a notebook shows it, ``save`` writes it to a file.

    ``stacks`` has the numbers: ``view.stacks["cross-attention"].layers[1][0]`` are the weights
    (T, n) of the first head in the second layer. ``model`` is what a page with knobs carries.
    """

    def __init__(self, stacks, model=None):
        self.stacks, self.model = stacks, model

    def __repr__(self):
        parts = [
            f"{name} ({len(stack.layers)} layers, {sum(map(len, stack.layers))} heads)"
            for name, stack in self.stacks.items()
        ]
        return "[where each head looks: " + "; ".join(parts) + "]"

    def page(self, chapters=None):
        """The whole page, HTML that needs nothing else; ``chapters`` has addresses by number."""
        if self.model is None:
            data = {"stacks": [_told(*stack) for stack in self.stacks.items()]}
            knobs, styles, scripts = [], ["look.css"], ["look.js"]
        else:
            data = self.model | {"chapters": chapters}
            knobs, styles, scripts = ["knobs.html"], ["look.css", "knobs.css"], SCRIPTS

        def read(*names):
            return "".join((PAGE / name).read_text(encoding="utf-8") for name in names)

        text = read("look.html")
        for mark, content in {
            "<!-- knobs -->": read(*knobs),
            "/* styles */": read(*styles),
            "/* scripts */": read(*scripts),
            "/* data */": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        }.items():
            text = text.replace(mark, content)
        return text

    def save(self, path):
        """Write the page to a file, which any browser opens."""
        Path(path).write_text(self.page(), encoding="utf-8")

    def frame(self, chapters=None):
        """The page in a frame, so that its styles stay inside, and a line for where none may be."""
        page = html.escape(self.page(chapters), quote=False).replace('"', "&quot;")
        return (
            f'<iframe title="{html.escape(repr(self))}" srcdoc="{page}" '
            'style="width: 100%; height: 30em; border: 0"></iframe>'
            "<p>A view to point at: run the cell, and it is here.</p>"
        )

    def _repr_html_(self):
        return self.frame()

    def _repr_mimebundle_(self, include=None, exclude=None):
        """Trained weights differ from machine to machine, so tests compare nothing of the page."""
        return {"text/html": self._repr_html_(), "text/plain": repr(self), COMPARED: None}


def look(model, source, target=None, vocabulary=None, knobs=False):
    """Where each head of a model looks while it reads ``source`` and writes ``target``: a ``View``.

    Both are lists of words; a model of one sequence has a source alone. The model gets their
    numbers by ``vocabulary``, (1, n) and (1, T), or without one the lists themselves. It is
    anything that can be called and attends by ``scaled_dot_product_attention`` or as chapter 05
    does.

    With ``knobs`` the page carries the weights of chapter 10's ``Transformer`` or ``OneStack`` and
    computes by itself: it shows the way of a token through each block, and what follows when words
    change places, a head or the causal mask is switched off, or the temperature changes. ::

        look(translator, ["two", "hundred"], ["<s>", "zwei", "hundert"], vocabulary=words)
        look(language_model, list("the value"), vocabulary=letters).save("value.html")
    """

    def heard(*sequences):
        if vocabulary is not None:
            sequences = [vocabulary.encode(sequence).unsqueeze(0) for sequence in sequences]
        return attention_weights(model, sequences)

    words = {"source": source} if target is None else {"source": source, "target": target}
    found = apart = heard(*words.values())
    if not found:
        raise ValueError("no attention was heard while the model ran")
    lengths = {len(sequence): name for name, sequence in words.items()}
    if len(lengths) < len(words):  # a target as long as the source: try a longer one, too
        apart = heard(source, [*target, target[-1]])
        lengths = {len(source): "source", len(target) + 1: "target"}
    stacks = {name: Stack([], [], []) for name in STACKS.values()}
    for weights, twin in zip(found, apart, strict=True):
        asks, answers = (lengths.get(length) for length in twin.shape[1:])
        if (asks, answers) not in STACKS:
            raise ValueError(
                f"an attention of {twin.shape[1]} queries to {twin.shape[2]} keys does not fit "
                f"the words: {lengths}"
            )
        stack = stacks[STACKS[asks, answers]]
        stack.queries, stack.keys = words[asks], words[answers]
        stack.layers.append(weights)
    carried = _carried(model, vocabulary) | words if knobs else None
    return View({name: stack for name, stack in stacks.items() if stack.layers}, carried)


def _told(name, stack):
    """A stack as the page reads it."""
    layers = [{"heads": len(layer), "weights": _packed(layer)} for layer in stack.layers]
    return {"name": name, "queries": stack.queries, "keys": stack.keys, "layers": layers}


def _packed(weights):
    """Numbers from 0 to 1 as integers of 16 bits, in text: an error below 0.00001."""
    whole = np.round(weights * 65535).astype("<u2")
    return base64.b64encode(whole.tobytes()).decode()


def _carried(model, vocabulary):
    """What a page needs to compute the model by itself."""
    if not isinstance(model, Transformer | OneStack) or vocabulary is None:
        raise TypeError("knobs need chapter 10's Transformer or OneStack, and a vocabulary")
    file = io.BytesIO()
    save({name: weight.float() for name, weight in model.state_dict().items()}, file)
    if file.tell() > MOST_WEIGHTS:
        raise ValueError(
            f"knobs are for weights of at most {MOST_WEIGHTS:,} bytes: {file.tell():,}"
        )
    blocks = model.blocks if isinstance(model, OneStack) else model.encoder
    return {
        "model": {
            "kind": type(model).__name__,
            "heads": blocks[0].attention.heads,
            "causal": getattr(model, "causal", True),
            "vocabulary": vocabulary.tokens,
            "weights": base64.b64encode(file.getvalue()).decode(),
        }
    }
