"""What chapter 10 defines and later chapters use.

Generated from the cells of notebooks/10_transformer.py that start with
`# %% save`: change them there.
"""

from minitorch import nn
from textbook.chapter_06 import MultiHeadAttention
from textbook.chapter_07 import causal_mask
from textbook.chapter_07 import real_tokens
from textbook.chapter_08 import sinusoidal_codes
from textbook.chapter_09 import Block


class Embedded(nn.Module):
    """A vector for each token plus the code of its place: (B, n) to (B, n, d)."""

    def __init__(self, vocabulary, width, dropout=0.0, longest=1024):
        super().__init__()
        self.embedding, self.drop = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        self.register_buffer("codes", sinusoidal_codes(longest, width), persistent=False)

    def forward(self, tokens):
        return self.drop(self.embedding(tokens) + self.codes[: tokens.shape[1]])


class DecoderBlock(Block):
    """Chapter 09's block that also looks at the source (B, n, d), between its two halves."""

    def __init__(self, width, heads, hidden, dropout=0.0):
        super().__init__(width, heads, hidden, dropout)
        self.cross, self.norm_3 = MultiHeadAttention(width, heads), nn.LayerNorm(width)

    def forward(self, x, allowed, memory, real):
        y = self.norm_1(x)
        x = x + self.drop(self.attention(y, y, allowed))
        x = x + self.drop(self.cross(self.norm_3(x), memory, real))
        return x + self.drop(self.feed_forward(self.norm_2(x)))


class Transformer(nn.Module):
    """Source (B, n) and target (B, T) to scores of the token after each target token (B, T, V)."""

    def __init__(self, vocabulary, width, heads, hidden, layers, dropout=0.0):
        super().__init__()
        sizes = (width, heads, hidden, dropout)
        self.embedded = Embedded(vocabulary, width, dropout)
        self.encoder = nn.ModuleList(Block(*sizes) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderBlock(*sizes) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.out = nn.Linear(width, vocabulary)

    def encode(self, source):
        x, real = self.embedded(source), real_tokens(source)
        for block in self.encoder:
            x = block(x, real)
        return self.encoder_norm(x)  # (B, n, d)

    def decode(self, target, memory, real):
        x, allowed = self.embedded(target), causal_mask(target.shape[1]).to(target.device)
        for block in self.decoder:
            x = block(x, allowed, memory, real)
        return self.out(self.decoder_norm(x))  # (B, T, V)

    def forward(self, source, target):
        return self.decode(target, self.encode(source), real_tokens(source))


class OneStack(nn.Module):
    """Tokens (B, n) to scores (B, n, V): a language model if causal, else an encoder."""

    def __init__(self, vocabulary, width, heads, hidden, layers, causal, dropout=0.0):
        super().__init__()
        self.causal = causal
        self.embedded = Embedded(vocabulary, width, dropout)
        self.blocks = nn.ModuleList(Block(width, heads, hidden, dropout) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def states(self, tokens):
        """What the last block says of each token: (B, n, d)."""
        n = tokens.shape[1]
        allowed = causal_mask(n).to(tokens.device) if self.causal else real_tokens(tokens)
        x = self.embedded(tokens)
        for block in self.blocks:
            x = block(x, allowed)
        return self.norm(x)

    def forward(self, tokens):
        return self.out(self.states(tokens))
