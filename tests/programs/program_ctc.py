"""Words read from a strip of noisy columns, without saying which column shows which letter."""

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F

LETTERS, BLANK, HEIGHT = 5, 0, 6


def strips(count):
    """Columns (N, C, T), each letter drawn for two or three of them, with the words and sizes."""
    words, columns = [], []
    for n in range(count):
        word = [1 + (n * 3 + i * (n % 4 + 1)) % LETTERS for i in range(2 + n % 3)]
        drawn = []
        for i, letter in enumerate(word):
            for repeat in range(2 + (n + i) % 2):
                column = [0.1 * ((letter * h + repeat + n) % 3) for h in range(HEIGHT)]
                column[letter] += 1.0
                drawn.append(column)
        words.append(word)
        columns.append(torch.tensor(drawn))
    sizes = torch.tensor([len(drawn) for drawn in columns])
    padded = nn.utils.rnn.pad_sequence(columns, batch_first=True).transpose(1, 2)
    labels = torch.tensor([letter for word in words for letter in word])
    return padded, labels, sizes, torch.tensor([len(word) for word in words]), words


class Reader(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.ZeroPad1d((1, 1)), nn.Conv1d(HEIGHT, 16, 3), nn.Hardswish(), nn.MaxPool1d(2, 1, 1)
        )
        self.rnn = nn.GRU(16, hidden, bidirectional=True)
        self.classify = nn.Linear(2 * hidden, LETTERS + 1)

    def forward(self, strip):
        features = self.features(strip)[:, :, :-1]
        outputs, _ = self.rnn(features.permute(2, 0, 1))
        return F.log_softmax(self.classify(outputs), dim=2)


def best_path(log_probs, size):
    """The most probable class of each frame, repeats and blanks left out."""
    path = log_probs[:size].argmax(-1).tolist()
    return [c for i, c in enumerate(path) if c != BLANK and (i == 0 or path[i - 1] != c)]


def build():
    return Reader()


def run(model):
    strip, labels, sizes, lengths, words = strips(16)
    criterion = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    decay = {"params": model.classify.parameters(), "weight_decay": 1e-3}
    rest = {"params": [*model.features.parameters(), *model.rnn.parameters()]}
    optimizer = torch.optim.RAdam([decay, rest], lr=0.05)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        log_probs = model(strip)
        loss = criterion(log_probs, labels, sizes, lengths)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        log_probs = model(strip)
    each = F.ctc_loss(log_probs, labels, sizes, lengths, reduction="none")
    read = [best_path(log_probs[:, n], size) for n, size in enumerate(sizes.tolist())]
    return {
        "losses": losses,
        "each": each.numpy(),
        "read": sum(a == b for a, b in zip(read, words, strict=True)),
    }
