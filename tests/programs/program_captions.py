"""Features to words: a recurrent encoder under nn.TransformerDecoder."""

import numpy as np

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F

START, SIZE = 0, 8


class Captioner(nn.Module):
    def __init__(self, features=5, d_model=16, nhead=2, layers=2):
        super().__init__()
        self.encoder = nn.GRU(features, d_model // 2, batch_first=True, bidirectional=True)
        self.embed = nn.Embedding(SIZE, d_model)
        self.positions = nn.Parameter(torch.zeros(1, 12, d_model))
        layer = nn.TransformerDecoderLayer(
            d_model, nhead, dim_feedforward=32, dropout=0.0, activation="gelu", batch_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, num_layers=layers, norm=nn.LayerNorm(d_model))
        self.head = nn.Linear(d_model, SIZE)

    def forward(self, features, words, lengths):
        memory, _ = self.encoder(features)
        beyond = torch.arange(features.size(1))[None, :].lt(lengths[:, None]).logical_not()
        causal = torch.triu(torch.ones(words.size(1), words.size(1), dtype=torch.bool), diagonal=1)
        x = self.embed(words) + self.positions[:, : words.size(1)]
        x = self.decoder(x, memory, tgt_mask=causal, memory_key_padding_mask=beyond)
        return self.head(x)


def batch(random):
    """The words name the largest feature of each step, in order."""
    features = torch.tensor(random.normal(size=(16, 6, 5)), dtype=torch.float32)
    lengths = torch.from_numpy(random.integers(1, 7, 16))
    words = features.argmax(-1) + 2
    words[torch.arange(6) >= lengths.unsqueeze(1)] = 1
    start = torch.full((16, 1), START, dtype=torch.long)
    return features, torch.cat((start, words[:, :-1]), 1), words, lengths


def build():
    return Captioner()


def run(model):
    random = np.random.default_rng(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(24):
        features, words, targets, lengths = batch(random)
        logits = model(features, words, lengths)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    noise = features + 100.0 * (torch.arange(6) >= lengths.unsqueeze(1)).unsqueeze(-1)
    forward_only = nn.GRU(5, 4, batch_first=True)
    first = forward_only(features)[0][0, : lengths[0]]
    second = forward_only(noise)[0][0, : lengths[0]]
    return {"losses": losses, "unread": torch.allclose(first, second), "shape": list(logits.shape)}
