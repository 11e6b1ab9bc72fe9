"""A bidirectional LSTM tagger: padded batches, ignored positions, cells by hand, checkpoints."""

import io
import random
from collections import OrderedDict

import minitorch as torch
import minitorch.nn as nn
import minitorch.optim as optim
from minitorch.nn.utils import rnn as rnn_utils

IGNORED = -100


class CharacterEncoder(nn.Module):
    """The last state of a cell that runs over the letters of a word."""

    def __init__(self, letters, size, kind):
        super().__init__()
        self.embedding = nn.Embedding(letters, size)
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}[kind](size, size)
        self.size = size
        self.kind = kind

    def forward(self, words):
        hx = torch.zeros(words.size(0), self.size)
        cx = torch.zeros_like(hx)
        for t in range(words.size(1)):
            letter = self.embedding(words[:, t])
            if self.kind == "lstm":
                hx, cx = self.cell(letter, (hx, cx))
            else:
                hx = self.cell(letter, hx)
        return hx


class Tagger(nn.Module):
    def __init__(self, vocab_size, tagset_size, embedding_dim=12, hidden_dim=12, letters=6):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        self.characters = nn.ModuleList(
            CharacterEncoder(letters, 4, kind) for kind in ("lstm", "gru", "rnn")
        )
        self.lstm = nn.LSTM(embedding_dim + 12, hidden_dim // 2, 1, bidirectional=True)
        self.context = nn.RNN(hidden_dim, hidden_dim, nonlinearity="relu", batch_first=True)
        self.hidden2tag = nn.Sequential(
            OrderedDict(
                [("norm", nn.LayerNorm(hidden_dim)), ("out", nn.Linear(hidden_dim, tagset_size))]
            )
        )

    def init_hidden(self, batch):
        return (
            torch.zeros(2, batch, self.hidden_dim // 2),
            torch.zeros(2, batch, self.hidden_dim // 2),
        )

    def forward(self, words, letters, lengths):
        batch, length = words.shape
        flat = letters.reshape(batch * length, -1)
        spelled = torch.cat([part(flat) for part in self.characters], dim=-1)
        embeds = torch.cat((self.word_embeddings(words), spelled.view(batch, length, -1)), dim=-1)
        packed = rnn_utils.pack_padded_sequence(
            embeds.transpose(0, 1), lengths, enforce_sorted=False
        )
        lstm_out, _ = self.lstm(packed, self.init_hidden(batch))
        lstm_out, _ = rnn_utils.pad_packed_sequence(lstm_out, total_length=length)
        out, _ = self.context(lstm_out.permute(1, 0, 2).contiguous())
        return self.hidden2tag(out + lstm_out.transpose(0, 1))


def sentences(count, seed):
    """A word's tag is its class, and 3 after a word of class 0."""
    chooser = random.Random(seed)
    words, letters, tags = [], [], []
    for _ in range(count):
        row = [chooser.randint(1, 12) for _ in range(chooser.randint(1, 7))]
        words.append(torch.tensor(row))
        letters.append(torch.tensor([[w % 6, w // 6, (w * w) % 6] for w in row]))
        follows = [3 if i and row[i - 1] % 3 == 0 else w % 3 for i, w in enumerate(row)]
        tags.append(torch.tensor(follows))
    lengths = torch.tensor([len(row) for row in words])
    pad = rnn_utils.pad_sequence
    return (
        pad(words, batch_first=True),
        pad(letters, batch_first=True),
        lengths,
        pad(tags, batch_first=True, padding_value=IGNORED),
    )


def build():
    return Tagger(13, 4)


def run(model):
    words, letters, lengths, tags = sentences(32, seed=1)
    loss_function = nn.CrossEntropyLoss(ignore_index=IGNORED)
    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    losses, checkpoint = [], io.BytesIO()
    for epoch in range(16):
        model.zero_grad()
        tag_scores = model(words, letters, lengths)
        loss = loss_function(tag_scores.view(-1, 4), tags.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        losses.append(loss.item())
        if epoch == 11:
            torch.save(
                {
                    "epoch": epoch,
                    "model_state_dict": model.state_dict(),
                    "optimizer_state_dict": optimizer.state_dict(),
                    "loss": loss.item(),
                },
                checkpoint,
            )
    checkpoint.seek(0)
    saved = torch.load(checkpoint)
    resumed = build()
    resumed.load_state_dict(saved["model_state_dict"])
    again = optim.SGD(resumed.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    again.load_state_dict(saved["optimizer_state_dict"])
    relosses = []
    for _ in range(saved["epoch"] + 1, 16):
        again.zero_grad()
        loss = loss_function(resumed(words, letters, lengths).permute(0, 2, 1), tags)
        loss.backward()
        nn.utils.clip_grad_norm_(resumed.parameters(), 2.0)
        again.step()
        relosses.append(loss.item())
    predicted = tag_scores.argmax(dim=-1)
    counted = tags != IGNORED
    return {
        "losses": losses,
        "resumed": all(abs(a - b) < 1e-4 for a, b in zip(losses[12:], relosses, strict=True)),
        "accuracy": (predicted[counted] == tags[counted]).double().mean().item(),
    }
