"""What chapter 01 defines and later chapters use.

Generated from the cells of notebooks/01_rnn.py that start with
`# %% save`: change them there.
"""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.data import windows


def token_loss(scores, targets):
    """Cross-entropy of scores (T, B, V) against targets (T, B), averaged over steps and batch."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def characters(paragraphs):
    """All paragraphs as one list of tokens, <s> before each and after the last."""
    return [token for paragraph in paragraphs for token in ["<s>", *paragraph]] + ["<s>"]


class LanguageModel(nn.Module):
    """Tokens (T, B) to scores of the next token (T, B, V), and the last state."""

    def __init__(self, size, width=32, hidden=256):
        super().__init__()
        self.embedding = nn.Embedding(size, width)
        self.rnn = nn.RNN(width, hidden)
        self.out = nn.Linear(hidden, size)

    def forward(self, tokens, h=None):
        states, h = self.rnn(self.embedding(tokens), h)  # (T, B, H)
        return self.out(states), h


@mt.no_grad()
def mean_loss(model, text):
    """Loss a token over a text, the state carried from window to window."""
    h, losses = None, []
    for inputs, targets in windows(text, batch_size=8, length=128):
        scores, h = model(inputs, h)
        losses.append(token_loss(scores, targets).item())
    return sum(losses) / len(losses)


def draw(scores):
    """A token from the softmax of scores (V)."""
    return mt.multinomial(scores.softmax(-1), 1)


@mt.no_grad()
def write(model, letters, prompt="", length=200, choose=draw):
    """Go on from a prompt, a token at a time, until <s> or ``length`` tokens."""
    token, h, text = letters.encode(["<s>", *prompt]), None, prompt
    for _ in range(length):
        scores, h = model(token.unsqueeze(1), h)
        token = choose(scores[-1, 0])
        if token.item() == letters["<s>"]:
            break
        text += letters.tokens[token.item()]
    return text
