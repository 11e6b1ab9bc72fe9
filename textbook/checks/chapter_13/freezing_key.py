"""Answers to the exercises of ``freezing.py``."""

import copy

import minitorch as mt
from minitorch import nn
from textbook.checks.chapter_13.freezing import PartlyTuned


@PartlyTuned.answer(
    hidden_cases=lambda draw: [
        ((6, 2, 5), 3, 10, 2, 1),
        ((3, 7, 4, 5), 2, 11, 3, 0),
        ((5, 1), 4, 12, 3, 3),
    ]
)
class PartlyTuned(nn.Module):
    """Tokens (B, n) to scores (B, classes): a pretrained encoder, its last blocks trained."""

    def __init__(self, pretrained, classes, trained):
        super().__init__()
        self.encoder = copy.deepcopy(pretrained)
        self.head = nn.Linear(pretrained.norm.weight.shape[0], classes)
        blocks = list(self.encoder.blocks)
        self.fixed = [self.encoder.embedded, *blocks[: len(blocks) - trained], self.encoder.out]
        if not trained:
            self.fixed.append(self.encoder.norm)
        for part in self.fixed:
            part.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        for part in self.fixed:
            part.eval()
        return self

    def forward(self, tokens):
        real = (tokens != 0).unsqueeze(-1)
        states = self.encoder.states(tokens) * real
        return self.head(states.sum(dim=1) / real.sum(dim=1))


# Right in another way


class TwoHalves(nn.Module):
    """The frozen half is kept in a list, so that train() does not reach it."""

    def __init__(self, pretrained, classes, trained):
        super().__init__()
        model = copy.deepcopy(pretrained)
        kept = len(model.blocks) - trained
        parts = [model.embedded, *list(model.blocks)[:kept]]
        self.frozen = [part.eval().requires_grad_(False) for part in parts]
        self.trained = nn.ModuleList(list(model.blocks)[kept:])
        self.norm = model.norm if trained else model.norm.requires_grad_(False)
        self.score = nn.Linear(model.norm.weight.shape[0], classes)

    def forward(self, tokens):
        real = tokens != 0
        with mt.no_grad():
            x = self.frozen[0](tokens)
            for block in self.frozen[1:]:
                x = block(x, real[:, None, None])
        for block in self.trained:
            x = block(x, real[:, None, None])
        x = self.norm(x).masked_fill(~real.unsqueeze(-1), 0.0)
        return self.score(x.sum(dim=1) / real.sum(dim=1, keepdim=True))


class ByNames(nn.Module):
    """Which parameters are trained is told from their names; modes at each call."""

    def __init__(self, pretrained, classes, trained):
        super().__init__()
        self.body = copy.deepcopy(pretrained)
        layers = len(pretrained.blocks)
        learned = {f"blocks.{i}" for i in range(layers - trained, layers)}
        self.learned = learned | ({"norm"} if trained else set())
        for name, p in self.body.named_parameters():
            p.requires_grad = self._learns(name)
        self.classify = nn.Linear(len(pretrained.norm.bias), classes)

    def _learns(self, name):
        return any(name == each or name.startswith(f"{each}.") for each in self.learned)

    def forward(self, tokens):
        for name, part in self.body.named_modules():
            part.training = self.training and self._learns(name)
        states = self.body.states(tokens)
        rows = [row[token != 0].mean(dim=0) for row, token in zip(states, tokens, strict=True)]
        return self.classify(mt.stack(rows))


right = {
    "PartlyTuned": [TwoHalves, ByNames],
}
