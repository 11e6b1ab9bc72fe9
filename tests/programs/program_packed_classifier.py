"""A text classifier: embedding, packed bidirectional LSTM, last states, logits."""

import random

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
import minitorch.optim as optim
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from minitorch.utils.data import DataLoader, Dataset, random_split

PAD = 0
GOOD, BAD, OTHER = range(1, 5), range(5, 9), range(9, 30)


class Reviews(Dataset):
    def __init__(self, size, seed=0):
        chooser = random.Random(seed)
        self.items = []
        for _ in range(size):
            label = chooser.randint(0, 1)
            length = chooser.randint(1, 9)
            words = [chooser.choice(OTHER) for _ in range(length)]
            words[chooser.randrange(length)] = chooser.choice(GOOD if label else BAD)
            self.items.append((words, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        words, label = self.items[idx]
        return torch.tensor(words), label


def collate_batch(batch):
    text_list, label_list, lengths = [], [], []
    for text, label in batch:
        text_list.append(text)
        label_list.append(label)
        lengths.append(text.size(0))
    padded = pad_sequence(text_list, batch_first=True, padding_value=PAD)
    return padded, torch.tensor(lengths), torch.tensor(label_list, dtype=torch.float)


class LSTMClassifier(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, n_layers=2, bidirectional=True):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=PAD)
        self.lstm = nn.LSTM(
            embedding_dim,
            hidden_dim,
            num_layers=n_layers,
            bidirectional=bidirectional,
            dropout=0.0 if n_layers < 2 else 0.25,
            batch_first=True,
        )
        self.norm = nn.BatchNorm1d(hidden_dim * 2)
        self.fc = nn.Linear(hidden_dim * 2, 1)
        self.dropout = nn.Dropout(0.0)

    def forward(self, text, text_lengths):
        embedded = self.dropout(self.embedding(text))
        packed = pack_padded_sequence(
            embedded, text_lengths.to("cpu"), batch_first=True, enforce_sorted=False
        )
        packed_output, (hidden, cell) = self.lstm(packed)
        output, output_lengths = pad_packed_sequence(packed_output, batch_first=True)
        hidden = torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)
        pooled, _ = output.max(dim=1)
        return self.fc(self.norm(hidden + pooled)).squeeze(1)


def binary_accuracy(preds, y):
    rounded_preds = torch.round(torch.sigmoid(preds))
    correct = (rounded_preds == y).float()
    return correct.sum() / len(correct)


def build():
    model = LSTMClassifier(30, 12, 10)
    model.lstm.dropout = 0.0
    return model


def run(model):
    train_set, valid_set = random_split(
        Reviews(80), [64, 16], generator=torch.Generator().manual_seed(0)
    )
    train_set.indices, valid_set.indices = list(range(64)), list(range(64, 80))
    loader = DataLoader(train_set, batch_size=16, collate_fn=collate_batch, drop_last=True)
    valid = DataLoader(valid_set, batch_size=16, shuffle=False, collate_fn=collate_batch)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    criterion = nn.BCEWithLogitsLoss()
    losses = []
    for _epoch in range(6):
        model.train()
        for text, lengths, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(text, lengths), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    with torch.no_grad():
        text, lengths, labels = next(iter(valid))
        logits = model(text, lengths)
        longer = F.pad(text, (0, 3), value=PAD)
        same = torch.allclose(logits, model(longer, lengths), atol=1e-5)
    return {
        "losses": losses,
        "accuracy": round(binary_accuracy(logits, labels).item(), 4),
        "padding changes nothing": same,
        "padding row": model.embedding.weight.grad[PAD].abs().sum().item(),
        "rate": scheduler.get_last_lr(),
        "logits": logits.numpy(),
    }
