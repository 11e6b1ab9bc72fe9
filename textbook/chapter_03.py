"""What chapter 03 defines and later chapters use.

Generated from the cells of notebooks/03_seq2seq.py that start with
`# %% save`: change them there.
"""

import math
import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.nn.utils.rnn import pack_padded_sequence
from minitorch.nn.utils.rnn import pad_packed_sequence
from textbook.data import BatchesByLength
from textbook.data import Vocabulary
from textbook.data import number_pairs
from textbook.data import padding_mask
from textbook.decoding import greedy
from textbook.lab import tqdm


SPECIALS = ["<pad>", "<s>", "</s>"]
PAD, START, END = range(3)  # their numbers in every vocabulary


class SourceEncoder(nn.Module):
    """Reads source tokens (B, n), never their padding."""

    def __init__(self, source_size, width, hidden, layers, bidirectional):
        super().__init__()
        each = hidden // 2 if bidirectional else hidden  # numbers a direction
        self.source_embedding = nn.Embedding(source_size, width)
        self.encoder = nn.GRU(width, each, layers, batch_first=True, bidirectional=bidirectional)

    def encode(self, source):
        """States of all source words (B, n, H), and the last of each layer (layers, B, H)."""
        x, lengths = self.source_embedding(source), (source != PAD).sum(1)  # (B, n, d), (B)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed_states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True)  # (B, n, H)
        if self.encoder.bidirectional:  # last: forward, backward, forward, ..., (B, H/2) each
            last = mt.cat([last[0::2], last[1::2]], dim=-1)
        return states, last


class EncoderDecoder(SourceEncoder):
    """Source (B, n) and target so far (B, T) to scores of each next target token (B, T, V)."""

    def __init__(
        self, source_size, target_size, width=64, hidden=128, layers=1, bidirectional=True
    ):
        super().__init__(source_size, width, hidden, layers, bidirectional)
        self.target_embedding = nn.Embedding(target_size, width)
        self.decoder = nn.GRU(width, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, target_size)

    def begin(self, source):
        """All that the decoder gets to know of the source: the last states (layers, B, H)."""
        return self.encode(source)[1]

    def decode(self, tokens, state):
        """Scores of the token after each of ``tokens`` (B, T), and the decoder's last state."""
        states, state = self.decoder(self.target_embedding(tokens), state)  # (B, T, H)
        return self.out(states), state

    def forward(self, source, tokens):
        return self.decode(tokens, self.begin(source))[0]


class ParallelText:
    """Pairs of sentences as numbers: source (N, n), target with <s> and </s> (N, T + 1)."""

    def __init__(self, pairs, source_words, target_words):
        self.pairs, self.source_words, self.target_words = pairs, source_words, target_words
        self.source, _ = source_words.encode_batch([p.source for p in pairs], batch_first=True)
        self.target, _ = target_words.encode_batch(
            [p.target for p in pairs], start=True, end=True, batch_first=True
        )

    def batch(self, rows):
        """Source and target of these rows, no longer than the longest of them."""
        parts = self.source[rows], self.target[rows]
        return [part[:, : int((part != PAD).sum(1).max())] for part in parts]

    def batches(self, size):
        """Random batches of about equal length, without end."""
        lengths = (self.source != PAD).sum(1).tolist()
        while True:
            for rows in BatchesByLength(lengths, size):
                yield self.batch(rows)


def number_texts(source="en", target="de", digits=(1, 9), tested=(3, 9)):
    """Numbers in words to train on, others to report on, and others still to choose by."""
    languages = dict(source=source, target=target)
    training = number_pairs(20_000, digits=digits, seed=0, **languages)
    held_out = number_pairs(900, digits=tested, held_out=True, seed=1, **languages)
    reported = {pair.number for pair in held_out}
    others = number_pairs(900, digits=tested, held_out=True, seed=2, **languages)
    elsewhere = [pair for pair in others if pair.number not in reported]
    source_words = Vocabulary((word for pair in training for word in pair.source), SPECIALS)
    target_words = Vocabulary((word for pair in training for word in pair.target), SPECIALS)
    return [
        ParallelText(pairs, source_words, target_words) for pairs in (training, held_out, elsewhere)
    ]


def teacher_forced_loss(model, source, target):
    """Mean cross-entropy of the next token over the real tokens of target (B, T + 1)."""
    inputs, targets = target[:, :-1], target[:, 1:]  # (B, T), (B, T)
    scores = model(source, inputs)  # (B, T, V)
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def train_translator(
    model, text, rate, steps, loss_of=teacher_forced_loss, every=None, look=None, size=64
):
    """Train, the rate falling to zero; all losses, and what look() said every so many steps."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    batches, losses, looks = text.batches(size), [], []
    for step in tqdm(range(1, steps + 1), leave=False):
        loss = loss_of(model, *next(batches))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - step / (steps + 1))
        optimizer.step()
        losses.append(loss.item())
        if look and step % every == 0:
            looks.append(look())
    return losses, looks


@mt.no_grad()
def translate(model, text, limit=40):
    """Greedy translations of a text, lists of words."""

    def step(tokens, state):
        return model.decode(tokens[:, -1:], state)  # the state holds what came before

    start = mt.full((len(text.source), 1), START)
    tokens = greedy(step, start, limit, end=END, pad=PAD, state=model.begin(text.source))
    return text.target_words.decode_batch(tokens, batch_first=True)


@mt.no_grad()
def fully_right(model, text):
    """For each pair, whether every token is the likeliest after the true ones before it, (N)."""
    inputs, targets = text.target[:, :-1], text.target[:, 1:]
    said = model(text.source, inputs).argmax(-1)  # (N, T)
    return ((said == targets) | (targets == PAD)).all(1)


LENGTHS = ["to 6", "7-9", "10-12", "13-15", "16-18"]  # words of the source


def right_by_length(model, text):
    """The share of fully right translations for each of LENGTHS."""
    words = (text.source != PAD).sum(1)  # (N)
    # words 7 to 9 give 1, 10 to 12 give 2, ...
    group = mt.where(words > 6, (words - 4) // 3, 0)
    right = fully_right(model, text)
    return [right[group == i].float().mean().item() for i in range(len(LENGTHS))]


class FedAtEveryStep(EncoderDecoder):
    """An EncoderDecoder whose decoder reads the encoding c beside each word, at every step."""

    def __init__(self, source_size, target_size, width=64, hidden=128):
        super().__init__(source_size, target_size, width, hidden)
        self.decoder = nn.GRU(width + hidden, hidden, batch_first=True)

    def begin(self, source):
        c = super().begin(source)  # (1, B, H)
        return c, c

    def decode(self, tokens, state):
        last, c = state
        beside = c[0].unsqueeze(1).expand(*tokens.shape, -1)  # (B, T, H)
        x = mt.cat([self.target_embedding(tokens), beside], dim=-1)
        states, last = self.decoder(x, last)
        return self.out(states), (last, c)


def last_state(states, padding):
    """The state of the last word (B, H), from states (B, n, H) and padding (B, n)."""
    return states[mt.arange(len(states)), (~padding).sum(1) - 1]


def mean_of_states(states, padding):
    """Mean pooling (B, H)."""
    real = states.masked_fill(padding.unsqueeze(-1), 0.0)
    return real.sum(1) / (~padding).sum(1, keepdim=True)


def max_of_states(states, padding):
    """Max pooling (B, H), unit by unit."""
    return states.masked_fill(padding.unsqueeze(-1), -math.inf).amax(1)


FILLERS = "the a and then in of to one big old day town wood road".split()
ANIMALS = "cat dog cow pig fox hen owl bee".split()
story_words = Vocabulary(FILLERS + ANIMALS, ["<pad>"])


def stories(count, longest, named):
    """Stories (B, n) of longest / 2 to ``longest`` words, and the animal named last (B)."""
    lengths = mt.randint(longest // 2, longest + 1, (count,))
    fillers, animals = story_words.encode(FILLERS), story_words.encode(ANIMALS)
    tokens = fillers[mt.randint(0, len(FILLERS), (count, longest))]
    places = (mt.rand(count, named) * lengths.unsqueeze(1)).long()  # two may be the same
    rows = mt.arange(count)
    for place in places.unbind(1):
        tokens[rows, place] = animals[mt.randint(0, len(ANIMALS), (count,))]
    last = tokens[rows, places.amax(1)]
    tokens = tokens.masked_fill(padding_mask(lengths, longest), PAD)
    return tokens, (last.unsqueeze(1) == animals).long().argmax(1)


class StoryReader(nn.Module):
    """Tokens (B, n) to scores of the animals (B, 8); ``pool`` makes one vector of the states."""

    def __init__(self, recurrent, pool, width=16, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(len(story_words), width)
        self.recurrent = recurrent(width, hidden, batch_first=True)
        self.pool = pool
        self.out = nn.Linear(hidden, len(ANIMALS))

    def forward(self, tokens):
        states, _ = self.recurrent(self.embedding(tokens))  # (B, n, H)
        return self.out(self.pool(states, tokens == PAD))


def train_reader(model, longest, named, rate, steps):
    """Train on new stories at each step."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        tokens, animal = stories(32, longest, named)
        loss = F.cross_entropy(model(tokens), animal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@mt.no_grad()
def stories_right(model, longest, named):
    """The share of 500 new stories whose animal is found."""
    tokens, animal = stories(500, longest, named)
    return (model(tokens).argmax(-1) == animal).float().mean().item()
