"""A pretrained encoder of which the last blocks alone are trained."""

import copy

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.chapter_10 import OneStack
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise


class _Drop(nn.Module):
    """Dropout that notes its name whenever it drops something."""

    dropping = set()

    def __init__(self, name, p):
        super().__init__()
        self.name, self.p = name, p

    def forward(self, x):
        if self.training:
            self.dropping.add(self.name)
        return F.dropout(x, self.p, self.training)


def _encoder(vocabulary, layers, seed):
    """A OneStack with drawn weights, whose dropouts say when they are on."""
    model = OneStack(vocabulary, 8, 2, 12, layers, causal=False).double()
    model.load_state_dict({name: x / 2 for name, x in Draw(seed).state(model).items()})
    model.embedded.drop = _Drop("of the embedding", 0.3)
    for i, block in enumerate(model.blocks):
        block.drop = _Drop(f"of block {i}", 0.3)
    return model


def _tuned_cases(draw):
    """Lengths of texts, classes, sizes of the encoder, and how many blocks are trained."""
    yield (5, 2, 4), 3, 9, 2, 1
    yield (2, 6), 4, 11, 3, 2
    yield (4, 3, 1), 2, 10, 2, 0


def _texts(lengths, vocabulary):
    """Tokens (B, n) with padding behind."""
    tokens = Draw(len(lengths)).integers(vocabulary - 1, len(lengths), max(lengths)) + 1
    return tokens * (mt.arange(max(lengths)) < mt.tensor(lengths).unsqueeze(1))


def _names_in(module, weights):
    """The encoder's names of parameters of a module that have these weights, trainable ones."""
    found = []
    for p in module.parameters():
        if p.requires_grad:
            same = [n for n, x in weights.items() if x.shape == p.shape and mt.equal(x, p.detach())]
            found += same[:1]
    return found


def _parts(names):
    """blocks.1.norm_1.weight and its like, in words; each part of the encoder once."""
    parts = {
        ".".join(name.split(".")[:2]) if "block" in name else name.split(".")[0] for name in names
    }
    return ", ".join(sorted(parts)) or "none"


def _is_head(module, weights, classes):
    """The new layer (classes, d) among the layers of a module."""
    known = [x for x in weights.values() if x.ndim == 2 and len(x) == classes]
    found = [
        layer
        for layer in module.modules()
        if isinstance(layer, nn.Linear)
        and layer.bias is not None
        and len(layer.weight) == classes
        and not any(mt.equal(x, layer.weight.detach()) for x in known)
    ]
    return found[0] if len(found) == 1 else None


def _pooled(states, real):
    """What might be made of the states (B, n, d), by name."""
    there = real.unsqueeze(-1)
    return {
        "the mean of the real tokens": (states * there).sum(dim=1) / there.sum(dim=1),
        "the mean of all places, padding included": states.mean(dim=1),
        "the sum of the real tokens": (states * there).sum(dim=1),
        "the sum of the real tokens, divided by the number of all places": (states * there).mean(
            dim=1
        ),
        "the first token": states[:, 0],
        "the last place": states[:, -1],
        "the maximum of the real tokens": states.masked_fill(~there, -mt.inf).amax(dim=1),
    }


def _dropping(module, tokens):
    """Which dropouts are on while the module reads tokens."""
    _Drop.dropping.clear()
    with mt.no_grad():
        module(tokens)
    return ", ".join(sorted(_Drop.dropping)) or "none"


def _train(module, tokens, classes):
    """Three steps of AdamW on all parameters."""
    optimizer = optim.AdamW(module.parameters(), lr=0.05, weight_decay=0.1)
    targets = mt.arange(len(tokens)) % classes
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(module(tokens), targets).backward()
        optimizer.step()


def _tuned(answer, lengths, classes, vocabulary, layers, trained):
    """What holds of the module, in words."""
    tokens = _texts(lengths, vocabulary)
    pretrained = _encoder(vocabulary, layers, 3)
    weights = {name: p.detach().clone() for name, p in pretrained.named_parameters()}
    mt.manual_seed(1)
    module = answer(pretrained, classes, trained).double()
    found = {"the weights that can be trained": _parts(_names_in(module, weights))}
    head = _is_head(module, weights, classes)
    found["the new layer"] = "an nn.Linear(d, classes)" if head else f"no nn.Linear(d, {classes})"
    evaluated = module.eval()
    found["what module.eval() returns"] = "the module" if evaluated is module else repr(evaluated)
    scores = module(tokens)
    found["the shape of the scores"] = tuple(scores.shape)
    if head is None or scores.shape != (len(tokens), classes):
        return found
    whole = copy.deepcopy(pretrained).eval()
    for name, p in whole.named_parameters():
        p.detach().copy_(weights[name])
    with mt.no_grad():
        pools = _pooled(whole.states(tokens), tokens != 0)
        whole.norm = nn.Identity()
        bare = _pooled(whole.states(tokens), tokens != 0)["the mean of the real tokens"]
        pools["their mean, without the norm behind the last block"] = bare
        of = [name for name, x in pools.items() if mt.allclose(head(x), scores)]
        if not of and mt.allclose(scores.sum(dim=-1), mt.ones(len(scores))):
            of = ["what it should, and then there is a softmax: scores are asked for"]
    found["the head reads"] = of[0] if of else "something else"
    found["the dropouts that are on after eval()"] = _dropping(module, tokens)
    returned = module.train()
    found["what module.train() returns"] = "the module" if returned is module else repr(returned)
    found["the dropouts that are on after train()"] = _dropping(module, tokens)
    before = _names_in_any(module, weights)
    _train(module, tokens, classes)
    moved = before - _names_in_any(module, weights)
    found["the weights that training changes"] = _parts(moved)
    same = all(mt.equal(p.detach(), weights[n]) for n, p in pretrained.named_parameters())
    needs = all(p.requires_grad for p in pretrained.parameters())
    kept = "as it was" if same else "trained"
    found["the pretrained model"] = kept if needs else "frozen"
    return found


def _names_in_any(module, weights):
    """The encoder's names whose weights are still in the module as they were."""
    kept = [p.detach() for p in module.parameters()]
    return {
        name
        for name, x in weights.items()
        if any(x.shape == p.shape and bool(mt.equal(x, p)) for p in kept)
    }


PartlyTuned = exercise(
    "PartlyTuned",
    cases=_tuned_cases,
    run=_tuned,
    gradients=False,
    see='chapter 13, "Fine-tuned, frozen, from scratch"',
)
