"""A convolutional network that remembers the first symbols of a sequence; its weights are split
into length and direction, and its rate falls when the loss no longer does."""

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
import minitorch.optim as optim
from minitorch.nn.utils import remove_weight_norm, weight_norm

CLASSES, COPIED, GAP = 6, 3, 4


class Chomp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class Block(nn.Module):
    def __init__(self, inputs, outputs, kernel, dilation, dropout=0.0):
        super().__init__()
        padding = (kernel - 1) * dilation
        first = weight_norm(nn.Conv1d(inputs, outputs, kernel, padding=padding, dilation=dilation))
        second = weight_norm(
            nn.Conv1d(outputs, outputs, kernel, padding=padding, dilation=dilation)
        )
        self.net = nn.Sequential(
            first,
            Chomp(padding),
            nn.ReLU(),
            nn.Dropout2d(dropout),
            second,
            Chomp(padding),
            nn.ReLU(),
            nn.Dropout2d(dropout),
        )
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x):
        skipped = x if self.downsample is None else self.downsample(x)
        return F.relu(self.net(x) + skipped)


class TCN(nn.Module):
    def __init__(self, channels=(16, 16, 16), kernel=3):
        super().__init__()
        blocks, inputs = [], CLASSES
        for level, outputs in enumerate(channels):
            blocks.append(Block(inputs, outputs, kernel, dilation=2**level))
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.decoder = nn.Linear(inputs, CLASSES)

    def forward(self, ids):
        one_hot = F.one_hot(ids, CLASSES).float().transpose(1, 2)
        return self.decoder(self.blocks(one_hot).transpose(1, 2))


def batch(count, seed):
    """Three symbols, blanks, then markers at which the symbols are to be said again."""
    numbers = torch.arange(count * COPIED)
    symbols = ((numbers * (7 + seed) + numbers // 5 + seed) % (CLASSES - 2) + 2).view(count, COPIED)
    blanks = torch.zeros(count, GAP, dtype=torch.long)
    markers = torch.ones(count, COPIED, dtype=torch.long)
    return torch.cat([symbols, blanks, markers], 1), symbols


def build():
    return TCN()


def run(model):
    optimizer = optim.Adamax(model.parameters(), lr=0.02)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=3)
    losses, rates = [], []
    for epoch in range(30):
        inputs, symbols = batch(24, epoch % 6)
        optimizer.zero_grad()
        scores = model(inputs)[:, -COPIED:]
        loss = F.cross_entropy(scores.reshape(-1, CLASSES), symbols.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step(loss.item())
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
    model.eval()
    inputs, symbols = batch(8, 2)
    with torch.no_grad():
        before = model(inputs)
        for block in model.blocks:
            for layer in block.net:
                if isinstance(layer, nn.Conv1d):
                    remove_weight_norm(layer)
        after = model(inputs)
    return {
        "losses": losses,
        "rates": rates,
        "undone": bool(torch.allclose(before, after, atol=1e-5)),
        "keys": len(model.state_dict()),
    }
