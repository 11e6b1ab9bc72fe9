# %% [markdown]
# # 11 The Transformer at work
#
# Chapter 10 built the Transformer, on one page. Here it goes to work. Which tokens does it read? What do
# tied embeddings, dropout, label smoothing and warm-up bring? How does it write, and how does it write fast?
# What does its training cost, and is it better than the recurrent translators of chapters 03 and 04?
#
# **After this chapter you will be able to**
#
# - learn a byte-pair encoding, and compare losses of models that cut a text differently;
# - say what tied embeddings, dropout, label smoothing and warm-up do at your size, and measure it;
# - decode greedily, by sampling and with a beam, and write the cache that makes it fast;
# - count the operations that training takes, and read a "training cost" with care;
# - set up a table that compares architectures, and read other people's tables.
#
# **Time**: about 120 minutes to read and try; all cells together run in less than a minute. **Before it**:
# chapter 10 (the model), chapters 03 and 04 (translation).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still
# fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in
# `notebooks/`.

# %%
import math
import textwrap
from collections import Counter
from functools import cache, partial
from time import perf_counter, process_time
from unittest.mock import patch

from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from textbook import plot
from textbook.data import (
    BatchesByLength,
    BytePairEncoding,
    Vocabulary,
    bleu,
    date_pairs,
    language_reference,
    multi30k,
    number_pairs,
    number_words,
    pad,
    split,
    tiny_shakespeare,
)
from textbook.decoding import beam_search, greedy, sample
from textbook.experiments import Experiments

lab = Experiments("11")


def measured_of(here, full):
    """What this run measured, and what was recorded, if anything was."""
    return {"quick": here} | ({"full": full["result"]} if full else {})


# %% [markdown]
# ## 1. The model with all that it needs at work
#
# This is chapter 10's model again, with what this chapter is about added to it: dropout also on the weights of
# attention and inside the network, tied embeddings, norms before or after the parts, and a `cache`
# for section 5; until then, pass over the lines with `cache`. First attention with heads, and the network:


# %%
PAD = 0  # the number of the padding token, in every vocabulary of this chapter


class MultiHeadAttention(nn.Module):
    """Chapter 06: queries from x (B, n, d), keys and values from memory (B, m, d): (B, n, d)."""

    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, n, d/h)

    def forward(self, x, memory, allowed=None, cache=None):
        query = self.split(self.query(x))
        if cache and memory is not x:  # not x: the encoder's memory, read before
            key, value = cache["key"], cache["value"]
        else:
            key, value = self.split(self.key(memory)), self.split(self.value(memory))
            if cache:  # x itself: the tokens before it were read before
                key = mt.cat([cache["key"], key], dim=2)
                value = mt.cat([cache["value"], value], dim=2)
        if cache is not None:
            cache.update(key=key, value=value)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, allowed, dropout)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Chapter 09: ReLU(x W_1 + b_1) W_2 + b_2 at every position, (B, n, d) to (B, n, d)."""

    def __init__(self, width, hidden, dropout=0.0):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.down(self.drop(self.up(x).relu()))


# %% [markdown]
# Now the block with its norms and sums, the stack, and what goes into it:


# %%
class Block(nn.Module):
    """Self-attention, cross-attention if asked for, network; each with a norm and a sum."""

    def __init__(self, width, heads, hidden, cross=False, dropout=0.0, norm_first=True):
        super().__init__()
        self.norm_first, self.drop = norm_first, nn.Dropout(dropout)
        self.attention = MultiHeadAttention(width, heads, dropout)
        self.cross = MultiHeadAttention(width, heads, dropout) if cross else None
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))

    def add(self, x, norm, part):
        if self.norm_first:
            return x + self.drop(part(norm(x)))
        return norm(x + self.drop(part(x)))

    def forward(self, x, allowed=None, memory=None, memory_allowed=None, cache=None):
        own, across = cache or (None, None)
        x = self.add(x, self.norms[0], lambda x: self.attention(x, x, allowed, own))
        if self.cross is not None:
            x = self.add(x, self.norms[1], lambda x: self.cross(x, memory, memory_allowed, across))
        return self.add(x, self.norms[-1], self.feed_forward)


class Stack(nn.Module):
    """Blocks one after the other and a last norm; a cache holds a pair of dicts for each block."""

    def __init__(self, layers, width, heads, hidden, cross=False, dropout=0.0, norm_first=True):
        super().__init__()
        options = (width, heads, hidden, cross, dropout, norm_first)
        self.blocks = nn.ModuleList(Block(*options) for _ in range(layers))
        self.last = nn.LayerNorm(width)

    def forward(self, x, allowed=None, memory=None, memory_allowed=None, cache=None):
        for i, block in enumerate(self.blocks):
            x = block(x, allowed, memory, memory_allowed, cache and cache[i])
        return self.last(x)


def sinusoidal_codes(n, d):
    """Chapter 08: p_t in row t, sine in even and cosine in odd columns, (n, d)."""
    angles = mt.arange(n).unsqueeze(1) * 10_000.0 ** (-mt.arange(0, d, 2) / d)
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Embedded(nn.Module):
    """Chapter 08: sqrt(d) times the embedding plus sinusoids, (B, n) to (B, n, d)."""

    def __init__(self, vocabulary, width, dropout=0.0, longest=1024):
        super().__init__()
        self.embedding, self.drop = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.register_buffer("codes", sinusoidal_codes(longest, width), persistent=False)

    def forward(self, tokens, start=0):
        x = self.codes.shape[1] ** 0.5 * self.embedding(tokens)
        return self.drop(x + self.codes[start : start + tokens.shape[1]])


# %% [markdown]
# Last the masks, and the three models:


# %%
def real_tokens(tokens):
    """Chapter 07: True where there is a token, False at padding, (B, 1, 1, n)."""
    return (tokens != PAD)[:, None, None]


def causal_mask(tokens):
    """Chapter 07: each token may look at itself and those before it, (n, n)."""
    n = tokens.shape[1]
    return mt.ones(n, n, device=tokens.device).tril().bool()


def read_before(cache):
    """How many tokens a cache holds."""
    return cache[0][0]["key"].shape[2] if cache and cache[0][0] else 0


class OneStack(nn.Module):
    """Tokens (B, n) to scores (B, n, V): a language model if causal, else an encoder."""

    def __init__(self, vocabulary, width, heads, hidden, layers, dropout=0.0, causal=True):
        super().__init__()
        self.causal = causal
        self.embedded = Embedded(vocabulary, width, dropout)
        self.stack = Stack(layers, width, heads, hidden, dropout=dropout)
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.out.weight = self.embedded.embedding.weight

    def forward(self, tokens, cache=None):
        seen = read_before(cache)
        allowed = causal_mask(tokens)[seen:] if self.causal else real_tokens(tokens)
        x = self.embedded(tokens[:, seen:], seen)
        return self.out(self.stack(x, allowed, cache=cache))


class Transformer(nn.Module):
    """Source (B, n) and target (B, T) to scores of the token after each target token (B, T, V)."""

    def __init__(
        self,
        source_vocabulary,
        target_vocabulary,
        width,
        heads,
        hidden,
        layers,
        dropout=0.0,
        tied=True,
        norm_first=True,
    ):
        super().__init__()
        options = dict(dropout=dropout, norm_first=norm_first)
        self.source = Embedded(source_vocabulary, width, dropout)
        self.target = self.source if tied else Embedded(target_vocabulary, width, dropout)
        self.encoder = Stack(layers, width, heads, hidden, **options)
        self.decoder = Stack(layers, width, heads, hidden, cross=True, **options)
        self.out = nn.Linear(width, target_vocabulary, bias=False)
        if tied:
            self.out.weight = self.target.embedding.weight

    def encode(self, source):
        return self.encoder(self.source(source), real_tokens(source))  # (B, n, d)

    def decode(self, tokens, memory, memory_allowed, cache=None):
        seen = read_before(cache)
        x = self.target(tokens[:, seen:], seen)
        x = self.decoder(x, causal_mask(tokens)[seen:], memory, memory_allowed, cache)
        return self.out(x)  # (B, T - seen, V)

    def forward(self, source, tokens):
        return self.decode(tokens, self.encode(source), real_tokens(source))


# %% [markdown]
# **Tied embeddings** (Press and Wolf, 2017): one matrix embeds the source, embeds the target and, transposed, is
# the output layer. In both matrices, tokens of like use should have like rows. The embeddings are multiplied by
# $\sqrt d$ before positions are added: they start with a standard deviation of $1/\sqrt d$, so that the same
# matrix can serve as output layer, and would be drowned by codes whose entries have the size of a sine.
#
# ## 2. What 3.3e18 FLOPs means
#
# Base and big are the paper's two sizes (chapter 10). With tied embeddings they have
# $P = Vd + L(4d^2 + 2dm + m + 5d) + L(8d^2 + 2dm + m + 7d) + 4d$ weights. To hold this against the model we keep
# the library from drawing random numbers, which would take ten seconds and 1.7 GB for big.


# %%
def parameter_count(vocabulary, width, hidden, layers):
    """Weights of a Transformer with tied embeddings."""
    network = 2 * width * hidden + hidden + width
    encoder_block = 4 * width**2 + network + 4 * width
    decoder_block = 8 * width**2 + network + 6 * width
    return vocabulary * width + layers * (encoder_block + decoder_block) + 4 * width


def undrawn(*sizes, **options):
    """A Transformer whose matrices are reserved but not filled."""
    with patch("minitorch.nn.init.uniform_"), patch("minitorch.nn.init.normal_"):
        return Transformer(*sizes, **options)


PAPER = {"base": (512, 8, 2048, 6), "big": (1024, 16, 4096, 6)}
VOCABULARY = 37_000
for name, (width, heads, hidden, layers) in PAPER.items():
    by_formula = parameter_count(VOCABULARY, width, hidden, layers)
    built = undrawn(VOCABULARY, VOCABULARY, width, heads, hidden, layers)
    counted = sum(p.numel() for p in built.parameters())
    share = VOCABULARY * width / by_formula
    print(
        f"{name:4}: by formula {by_formula:11,}, built {counted:11,}, equal: {by_formula == counted},",
        end=" ",
    )
    print(f"embeddings {share:.0%}")

# %% [markdown]
# The paper gives the training of base as $3.3 \cdot 10^{18}$ FLOPs. Can we find this number again? We know how to
# count (chapter 00): a product of $(n, k)$ and $(k, m)$ costs $2nkm$, so a weight costs 2 FLOPs for each token that
# meets it, and 6 with the two products of the backward pass. Which token meets which weight?
#
# | FLOPs of the forward pass | for each source token | for each target token |
# | --- | --- | --- |
# | encoder block: four matrices, network | $2(4d^2 + 2dm)$ | |
# | scores and mixing | $4nd$ | |
# | decoder block: own attention, network | | $2(4d^2 + 2dm)$ |
# | scores and mixing, itself and across | | $4Td + 4nd$ |
# | cross-attention: keys and values; queries and output | $4d^2$ | $4d^2$ |
# | output layer | | $2dV$ |
#
# The rows of blocks count $L$ times; attention counts in full, also what the causal mask hides. Embedding is
# looking up, and costs nothing. Training costs three times the forward pass.


# %%
def training_flops(vocabulary, width, hidden, layers, n, T):
    """FLOPs of the products of one training step, for one pair of n source and T target tokens."""
    block = 8 * width**2 + 4 * width * hidden
    source = layers * (block + 4 * width * n + 4 * width**2)
    target = layers * (block + 4 * width * (T + n) + 4 * width**2) + 2 * width * vocabulary
    return 3 * (n * source + T * target)


def counted_flops(model, vocabulary, batch, n, T):
    """The same, counted while it happens, for a batch of random tokens."""
    source, target = mt.randint(1, vocabulary, (batch, n)), mt.randint(1, vocabulary, (batch, T))
    with count_flops() as counter:
        model(source, target).sum().backward()
    return counter.total


for vocabulary, width, hidden, layers, n, T in ((50, 16, 32, 1, 7, 9), (30, 32, 128, 3, 12, 5)):
    small = Transformer(vocabulary, vocabulary, width, 4, hidden, layers)
    by_formula = 2 * training_flops(vocabulary, width, hidden, layers, n, T)
    print(
        "small model, counted as by formula:",
        counted_flops(small, vocabulary, 2, n, T) == by_formula,
    )

width, heads, hidden, layers = PAPER["base"]
base = undrawn(VOCABULARY, VOCABULARY, width, heads, hidden, layers)
for p in base.parameters():
    p.data.zero_()  # for the count, any numbers will do
by_formula = training_flops(VOCABULARY, width, hidden, layers, 25, 25)
print(
    "base itself, counted as by formula:", counted_flops(base, VOCABULARY, 1, 25, 25) == by_formula
)
del base, built

# %% [markdown]
# A batch of the paper held about 25,000 source and 25,000 target tokens, say 1,000 pairs of 25. Now the whole
# training, beside what the paper says. Its number is of another kind: hours times processors times what a
# processor is taken to sustain ($9.5 \cdot 10^{12}$ FLOPs a second for the P100 that it used).

# %%
RUNS = {"base": (100_000, 12), "big": (300_000, 3.5 * 24)}  # steps, hours on 8 processors
print("        by the products        capacity   ratio   6 P x all tokens")
for name, (steps, hours) in RUNS.items():
    width, heads, hidden, layers = PAPER[name]
    products = steps * 1000 * training_flops(VOCABULARY, width, hidden, layers, 25, 25)
    capacity = 8 * hours * 3600 * 9.5e12
    rough = 6 * parameter_count(VOCABULARY, width, hidden, layers) * 50_000 * steps
    print(f"{name:4}: {products:15.1e} {capacity:15.1e} {products / capacity:8.0%} {rough:15.1e}")

# %% [markdown]
# So $3.3 \cdot 10^{18}$ is $8 \times 12\,\text{h} \times 9.5 \cdot 10^{12}$: *what the processors were taken
# to be able to do*. The products of the model come to 29 % of that for base, about $10^{18}$, and 42 % for
# big. Such ratios are good work, not a mistake; but a number of one kind beside one of the other would favour
# whoever counts products. (And the rule "6 times parameters times tokens", taken with all 50,000 tokens,
# gives too much: an encoder's weights never see the target, and most of the decoder's never see the source.)
# In our table in section 6 every model is counted in the same way, by its products.
#
# ## 3. The decoder writes
#
# A language model needs the decoder alone, `OneStack` with the causal mask. The text is that of chapters 01
# and 07, Python's language reference. But we stop reading single characters. They make sequences long, and a
# vocabulary of whole words is large and never complete. In between lies **byte-pair encoding** (Sennrich,
# Haddow and Birch, 2016): start from single characters, and merge, again and again, the two neighbours that
# occur together most often. Three merges by hand:

# %%
chunks = {"low": 5, "lower": 2, "newest": 6, "widest": 3}  # words and how often they occur
spelled = {word: list(word) for word in chunks}
for _ in range(3):
    counts = {}
    for word, pieces in spelled.items():
        for two in zip(pieces, pieces[1:], strict=False):
            counts[two] = counts.get(two, 0) + chunks[word]
    best = max(counts, key=counts.get)
    for pieces in spelled.values():
        for i in reversed(range(len(pieces) - 1)):
            if (pieces[i], pieces[i + 1]) == best:
                pieces[i : i + 2] = ["".join(best)]
    print(
        f"{' + '.join(best):7} ({counts[best]} times):",
        *(" ".join(p) for p in spelled.values()),
        sep="   ",
    )

# %% [markdown]
# The ending *est* is a piece after two merges. The book's `BytePairEncoding` does the same with bytes, so
# that no text is unknown to it, and lets a space belong to the word that follows.

# %%
training_text, validation_text = split(language_reference(), validation=0.1)


@cache
def pieces_of_text(merges):
    """An encoding learned from the training text, and both parts of the text in its pieces."""
    encoding = BytePairEncoding.learn(training_text, merges, specials=["<pad>", "<blank>"])
    return encoding, encoding.encode(training_text), encoding.encode(validation_text)


# %% tags=["nbval-ignore-output"]
for merges in (0, 300):
    encoding, training, _ = pieces_of_text(merges)
    length = len(training_text) / len(training)
    print(f"{merges} merges: vocabulary {len(encoding)}, {length:.2f} characters a piece")
    print("    ", "|".join(encoding.pieces("The value of the attribute is")))

# %% [markdown]
# A loss per piece cannot be compared between vocabularies. The loss of the whole text can; we divide it by
# the number of *characters*: nats per character.


# %%
def windows(numbers, count, length):
    """Windows (count, length) that start anywhere in a text."""
    starts = mt.randint(0, len(numbers) - length + 1, (count, 1))
    return numbers[starts + mt.arange(length)]


def warmed(step, steps, rate):
    """Up in a line for a tenth of the steps, then down in a line to zero; step counts from 0."""
    return rate * min(10 * (step + 1) / steps, 1) * (1 - step / steps)


def train(model, loss_of_batch, rate, steps, schedule=warmed, betas=(0.9, 0.98)):
    """Train on batches whose loss ``loss_of_batch(model)`` gives; returns the losses."""
    optimizer = mt.optim.Adam(model.parameters(), lr=rate, betas=betas)
    history = []
    for step in tqdm(range(steps), leave=False):
        loss = loss_of_batch(model)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = schedule(step, steps, rate)
        optimizer.step()
        history.append(loss.item())
    model.eval()
    return history


LENGTH, BATCH = 64, 16


def next_piece(numbers, model):
    """The loss of the next piece in random windows."""
    window = windows(numbers, BATCH, LENGTH + 1)
    return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


@cache
def writer(merges, seed, rate, steps):
    """A language model of the reference, and its training losses."""
    encoding, training, _ = pieces_of_text(merges)
    mt.manual_seed(seed)
    model = OneStack(len(encoding), width=64, heads=4, hidden=256, layers=2)
    return model, train(model, partial(next_piece, training), rate, steps)


@mt.no_grad()
def nats_per_character(model, merges):
    """Loss of the validation text, read in windows that lie side by side."""
    encoding, _, validation = pieces_of_text(merges)
    count = (len(validation) - 1) // LENGTH
    inputs = validation[: count * LENGTH].reshape(count, LENGTH)
    targets = validation[1 : count * LENGTH + 1]
    total = F.cross_entropy(model(inputs).flatten(0, 1), targets, reduction="sum").item()
    return total / len(encoding.decode(targets))


@mt.no_grad()
def write(model, merges, prompt, length, **how):
    """Go on from a prompt by ``length`` pieces."""
    encoding, *_ = pieces_of_text(merges)

    def step(tokens, state):
        return model(tokens[:, -LENGTH:]), state

    tokens = sample(step, encoding.encode(prompt)[None], length, **how)
    return encoding.decode(tokens[0])


# %% [markdown]
# ### Characters or pieces (E5)


# %%
@lab.experiment(
    "E5",
    quick=dict(merges=[300], seeds=[0], steps=60, rate=1e-2),
    full=dict(merges=[0, 300], seeds=[0, 1, 2], steps=400, rate=1e-2),
)
def writing(merges, seeds, steps, rate):
    def run(count, seed):
        model, _ = writer(count, seed, rate, steps)
        mt.manual_seed(seed)
        texts = [write(model, count, prompt, 60, temperature=0.7) for prompt in ("The ", "If a ")]
        return {"nats": nats_per_character(model, count), "texts": texts}

    return {str(count): [run(count, seed) for seed in seeds] for count in merges}


writing_here = writing.run()
writing_full = writing.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(writing_here, writing_full).items():
    for merges, runs in result.items():
        row = ", ".join(f"{run['nats']:.3f}" for run in runs)
        print(f"{setting:5} {merges:>4} merges, nats per character: {row}")
for text in (writing_full["result"] if writing_full else writing_here)["300"][0]["texts"]:
    print(textwrap.fill(text, width=100), "\n")

# %%
letters = Counter(training_text)
shares = [max(letters[c], 1) / len(training_text) for c in validation_text]
unigram = -sum(map(math.log, shares)) / len(shares)
print("quick: 0.4 nats per character better than letter frequencies:", end=" ")
print(writing_here["300"][0]["nats"] < unigram - 0.4)

# %% [markdown]
# Steps, tokens a step and blocks are the same for both. A step costs more with pieces, because the output
# layer is larger, but a window of 64 pieces is 154 characters long, and the model need not learn to spell.
# Chapter 07's single layer of attention came to 1.87 to 1.89 in 600 steps, the RNN beside it to 1.60 to 1.62,
# on windows of 32 characters. So with pieces our decoder comes to the RNN's number, with more text read; an
# RNN of pieces we have not tried. With bytes it is behind.
#
# > **E5 · yes.** *Our question*: does a decoder learn more from pieces of words than from bytes in as many
# > steps?
# >
# > *Measured*: Nats per character on validation text after 400 steps, three seeds: bytes 2.00 to 2.04, 300
# > merges 1.48 to 1.50.
#
# ## 4. A translator of numbers and dates
#
# Now encoder and decoder together. The task of chapters 03 and 04 is solved (C6): there, words were already
# cut into pieces that fit, and attention makes hardly any mistakes. Here is a harder one. *One* model does
# two jobs, and it reads and writes text as it stands, spaces, hyphens and all:
#
# - an English number of one to six digits becomes German;
# - a date as one writes it in English becomes ISO form.
#
# A first token says what is wanted, `<de>` or `<iso>`. A tenth of all numbers and of all days is held out.

# %%
SPECIALS = ["<pad>", "<s>", "</s>", "<de>", "<iso>"]


def examples(count, held_out=False, seed=0):
    """Triples: what is wanted, source text, target text; half are numbers, half dates."""
    pairs = number_pairs(count // 2, digits=(1, 6), held_out=held_out, seed=seed)
    dates = date_pairs(count // 2, languages=("en",), held_out=held_out, seed=seed)
    return [
        row
        for pair, (written, iso) in zip(pairs, dates, strict=True)
        for row in (
            ("<de>", number_words(pair.number), number_words(pair.number, "de")),
            ("<iso>", written, iso),
        )
    ]


training_rows, held_out_rows = examples(12_000), examples(600, held_out=True, seed=1)
for wanted, written, said in training_rows[6:10]:
    print(f"{wanted:6} {written} -> {said}")

# %% [markdown]
# One byte-pair encoding serves both sides, as in the paper. It is learned with 100 merges from the first
# 2,000 pairs.

# %%
first_lines = "\n".join(f"{written}\n{said}" for _, written, said in training_rows[:2000])
joint = BytePairEncoding.learn(first_lines, merges=100, specials=SPECIALS)
START, END = joint["<s>"], joint["</s>"]
print(len(joint), "pieces")
for line in ("two hundred and ninety-three", "zweihundertdreiundneunzig", "Friday, March 3, 1978"):
    print(" | ".join(joint.pieces(line)))


# %%
def filled_up(sequences):
    """Lists of numbers as the rows of one tensor, filled up with PAD at the end."""
    longest = max(map(len, sequences))
    return mt.tensor([[*row, *[PAD] * (longest - len(row))] for row in sequences])


class Corpus:
    """Rows as tensors: source (N, n) from its tag on, target (N, T + 1) with <s> and </s>."""

    def __init__(self, rows):
        self.rows = rows
        self.source = filled_up(
            [[joint[tag], *joint.encode(text).tolist()] for tag, text, _ in rows]
        )
        self.target = filled_up([[START, *joint.encode(text).tolist(), END] for *_, text in rows])
        self.lengths = (self.source != PAD).sum(1)

    def batch(self, rows):
        """Source and target of these rows, cut to the longest among them."""
        source, target = self.source[rows], self.target[rows]
        longest = int((target != PAD).sum(1).max())
        return source[:, : int(self.lengths[rows].max())], target[:, :longest]

    def batches(self, size):
        """Batches of about equal lengths, again and again."""
        while True:
            for rows in BatchesByLength(self.lengths.tolist(), size):
                yield self.batch(rows)


learned, held_out = Corpus(training_rows), Corpus(held_out_rows)
lengths = held_out.lengths.float(), (held_out.target != PAD).sum(1).float() - 1
print(
    "pieces in a source, in a target (means): {:.1f}, {:.1f}".format(*(x.mean() for x in lengths))
)


# %% [markdown]
# The loss is over the piece that comes next, with teacher forcing (chapter 03); what `smoothing` is comes
# below. How good a translator is, we say by **exact match**, the share of sentences right in every piece (one
# pass with teacher forcing tells whether greedy decoding would be right, chapter 04), and by the loss.


# %%
def next_token(batches, smoothing, model):
    """The loss of the next batch."""
    source, target = next(batches)
    scores = model(source, target[:, :-1]).flatten(0, 1)  # (B T, V)
    wanted = target[:, 1:].flatten()
    return F.cross_entropy(scores, wanted, ignore_index=PAD, label_smoothing=smoothing)


@mt.no_grad()
def judge(model):
    """Exact match on held-out numbers, dates and both, and the loss."""
    wanted = held_out.target[:, 1:]
    scores = model(held_out.source, held_out.target[:, :-1])
    right = ((scores.argmax(-1) == wanted) | (wanted == PAD)).all(1).float()
    dates = held_out.source[:, 0] == joint["<iso>"]
    return {
        "numbers": right[~dates].mean().item(),
        "dates": right[dates].mean().item(),
        "exact": right.mean().item(),
        "loss": F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=PAD).item(),
    }


SIZES = dict(width=64, heads=4, hidden=128, layers=2)
V = len(joint)


# %% [markdown]
# ### With and without each ingredient (E1)
#
# The paper trains with four ingredients that we have met only in part:
#
# - **Tied embeddings**: one matrix for source, target and output layer (section 1).
# - **Dropout** (Srivastava et al., 2014): in training, each number that a part would add is set to zero with
#   probability $p$, and the others are divided by $1 - p$, so that the expected sum stays. As in the paper
#   also after the sum of embedding and position; here too on the weights of attention and inside the network.
# - **Label smoothing** (Szegedy et al., 2016): the target is not the right token alone, but the right token with probability
#   $1 - \epsilon$ and all $V$ tokens alike with the rest,
#   $$L = -(1 - \epsilon) \log p_y - \frac{\epsilon}{V} \sum_{k=1}^{V} \log p_k .$$
#   The model is asked not to be too sure. The paper has $\epsilon = 0.1$.
# - **Warm-up** (chapter 09): the rate rises for a while before it falls. Below is the paper's schedule again.
#   For our short runs we use `warmed` of section 3, which rises for a tenth of the steps, to nine tenths of
#   the rate, and then falls in a line to zero.


# %%
def warm_up(step, width, steps):
    """The learning rate of Vaswani et al. (2017) at a step, counted from 1."""
    return width**-0.5 * min(step**-0.5, step * steps**-1.5)


def falling(step, steps, rate):
    """No warm-up: down in a line from the first step on."""
    return rate * (1 - step / steps)


scores, wanted, epsilon = mt.randn(5, 8), mt.randint(0, 8, (5,)), 0.1
by_loop = []
for z, y in zip(scores, wanted.tolist(), strict=True):
    log_p = z.log_softmax(-1)
    by_loop.append(-(1 - epsilon) * log_p[y] - epsilon / 8 * sum(log_p))
smooth = F.cross_entropy(scores, wanted, label_smoothing=epsilon)
print(
    "label smoothing as in the formula:", mt.allclose(mt.stack(by_loop).mean(), smooth, atol=1e-6)
)
sure = 50 * F.one_hot(wanted, 8).float()
print(f"loss of a model that is sure and right: {F.cross_entropy(sure, wanted):.3f},", end=" ")
print(f"with label smoothing: {F.cross_entropy(sure, wanted, label_smoothing=epsilon):.3f}")

# %% [markdown]
# We start from a model with tied embeddings and warm-up, without dropout and smoothing, and change one thing at
# a time. Tying and warm-up are about how training goes, and are tried on all pairs. Dropout and smoothing are cures
# for learning by heart, so they are tried where that is to be feared: on 200 pairs that come round 64 times.

# %%
CHANGES = {
    "as it is": {},
    "not tied": dict(tied=False),
    "no warm-up": dict(schedule=falling),
    "dropout 0.1": dict(dropout=0.1),
    "smoothing 0.1": dict(smoothing=0.1),
}
RATE = 4e-3


@cache
def few_pairs(count):
    return Corpus(training_rows[:count])


@mt.no_grad()
def loss_on(model, corpus):
    """The loss on the pairs that a model was trained on."""
    scores = model(corpus.source, corpus.target[:, :-1]).flatten(0, 1)
    return F.cross_entropy(scores, corpus.target[:, 1:].flatten(), ignore_index=PAD).item()


@cache
def translating(change, seed, rate, steps, count=None):
    """A translator with one ingredient changed, trained on all pairs or the first ``count``."""
    options = dict(tied=True, dropout=0.0, smoothing=0.0, schedule=warmed) | CHANGES[change]
    data = few_pairs(count) if count else learned
    mt.manual_seed(seed)
    model = Transformer(V, V, **SIZES, dropout=options["dropout"], tied=options["tied"])
    loss = partial(next_token, data.batches(32), options["smoothing"])
    train(model, loss, rate, steps, options["schedule"])
    return model


@lab.experiment(
    "E1",
    quick=dict(
        many=["not tied"], seeds=[0], rate=RATE, steps=250, few=[], count=200, few_steps=400
    ),
    full=dict(
        many=["as it is", "not tied", "no warm-up"],
        seeds=[0, 1, 2],
        rate=RATE,
        steps=300,
        few=["as it is", "dropout 0.1", "smoothing 0.1"],
        count=200,
        few_steps=400,
    ),
)
def ingredients(many, seeds, rate, steps, few, count, few_steps):
    def on_few(name, seed):
        model = translating(name, seed, rate, few_steps, count)
        return judge(model) | {"by heart": loss_on(model, few_pairs(count))}

    return {
        "all pairs": {
            name: [judge(translating(name, s, rate, steps, None)) for s in seeds] for name in many
        },
        "few pairs": {name: [on_few(name, seed) for seed in seeds] for name in few},
    }


ingredients_here = ingredients.run()
ingredients_full = ingredients.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(ingredients_here, ingredients_full).items():
    for data, by_name in result.items():
        for name, runs in by_name.items():
            row = {key: " ".join(f"{run[key]:.3f}" for run in runs) for key in runs[0]}
            line = f"exact match {row['exact']}, loss {row['loss']}"
            heart = f", on what it learned {row['by heart']}" if "by heart" in row else ""
            print(f"{setting:5} {data}, {name:13} {line}{heart}")

# %%
run, *_ = ingredients_here["all pairs"]["not tied"]
print("quick: loss on held-out pairs below 0.8:", run["loss"] < 0.8)

# %% [markdown]
# In the full runs:
#
# - **Tied embeddings** hurt in these 300 steps. (Not for good: after 600, each at its own rate, the two are
#   level in section 6's table.) Why, we have not measured; the rate may suit the one better than the other.
#   What tying saves is memory: 46,000 of 235,000 weights here, but 38 of 101 million in base.
# - **Warm-up** is not needed: without is better for each of the seeds. Our norms stand before the parts, and
#   chapter 09 (C22) found that warm-up is what *post-norm* needs. (Without it, the rate also starts at its
#   peak; and there was one rate for both.)
# - **Dropout** helps where the model learns by heart. After 64 rounds through 200 pairs it knows these, loss
#   0.004 to 0.005; with dropout it knows them less well, 0.03 to 0.05, and more of the held-out ones.
# - **Label smoothing** makes no difference in exact match there, and the loss is worse: the model was taught to
#   doubt.
#
# The paper trained 100,000 steps on real text. There (table 3, development set, BLEU 25.8) no dropout costs
# 1.2 BLEU and no smoothing 0.5, though it gives the better perplexity, 4.67 against 4.92. So each has its
# place, and needs a look whether one is there: in the small, short trainings of the next sections we leave
# dropout and smoothing out.
#
# > **E1 · one of four.** *Our question*: which ingredients of the paper help at this size: tied embeddings,
# > warm-up, dropout, label smoothing?
# >
# > *Measured*: Exact match, three seeds, rate 0.004. All pairs, 300 steps: as it is (tied, with warm-up)
# > 0.343 to 0.415, not tied 0.625 to 0.672, no warm-up 0.390 to 0.485. 200 pairs, 400 steps: as it is 0.205
# > to 0.247 with a loss of 0.98 to 1.06, dropout 0.258 to 0.297 and 0.66 to 0.83, smoothing 0.228 to 0.242
# > and 1.05 to 1.14.
#


# %% [markdown]
# ## 5. Decoding
#
# A trained translator gives probabilities for the next token. Chapter 03 made sentences from such
# probabilities in three ways, and they work here unchanged: `greedy` takes the likeliest token each time;
# `sample` draws one, flatter or sharper by a temperature, or among the $k$ likeliest; `beam_search` follows
# several beginnings at once and keeps the likeliest whole. All they need is a function `step` that gives
# scores for the next token, and here it is one line. The *state* that goes from step to step holds what
# belongs to each sentence: its memory, which source tokens are real, and the cache, of which more below.


# %%
def stepper(model):
    """The scores of the next token, for textbook.decoding; state: memory, real tokens, cache."""
    return lambda tokens, state: (model.decode(tokens, *state), state)


def begin(model, source, cached=True):
    """The state before the first step."""
    cache = [({}, {}) for _ in model.decoder.blocks] if cached else None
    return model.encode(source), real_tokens(source), cache


def until_end(rows):
    """Rows of tokens as lists, without <s> and up to </s>."""
    found = []
    for row in rows.tolist():
        found.append(row[1 : row.index(END)] if END in row else row[1:])
    return found


@mt.no_grad()
def translate(step, state, count, limit=40):
    """Greedy translations of ``count`` sources, lists of numbers of pieces."""
    start = mt.full((count, 1), START)
    return until_end(greedy(step, start, limit, end=END, pad=PAD, state=state))


# %% [markdown]
# ### Greedy, sampled, beam (E9)
#
# The full run lets a model speak that was trained for 600 steps; this run one of 250. Both are not tied (E1).


# %%
QUESTIONS = [
    ("<de>", "two hundred and ninety-three", "zweihundertdreiundneunzig"),
    (
        "<de>",
        "four thousand, seven hundred and eighty-three",
        "viertausendsiebenhundertdreiundachtzig",
    ),
    ("<iso>", "Friday, March 10, 1978", "1978-03-10"),
]


@mt.no_grad()
def answers(model):
    """What a model says to QUESTIONS: greedily, by sampling, and with a beam."""
    source = Corpus(QUESTIONS).source
    said = translate(stepper(model), begin(model, source), len(source))
    found = {"greedy": list(map(joint.decode, said)), "sampled": {}, "beam": []}
    options = dict(end=END, pad=PAD)
    start, one = mt.full((1, 1), START), source[:1]
    for name, how in {
        "temperature 1": {},
        "temperature 2": dict(temperature=2.0),
        "temperature 2, top 3": dict(temperature=2.0, top_k=3),
    }.items():
        mt.manual_seed(0)
        drawn = sample(stepper(model), start, 30, state=begin(model, one), **options, **how)
        found["sampled"][name] = joint.decode(until_end(drawn)[0])
    tokens, scores = beam_search(
        stepper(model), start, 30, beams=4, state=begin(model, one), **options
    )
    for numbers, score in zip(until_end(tokens[0]), scores[0].tolist(), strict=True):
        found["beam"].append([joint.decode(numbers), score])
    return found


@lab.experiment("E9", quick=dict(steps=250), full=dict(steps=600))
def speaking(steps):
    model = translating("not tied", 0, RATE, steps, None)
    return answers(model) | judge(model)


speaking_here = speaking.run()
speaking_full = speaking.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(speaking_here, speaking_full).items():
    print(f"{setting}: exact match {result['exact']:.3f}")
    for (_, text, right), said in zip(QUESTIONS, result["greedy"], strict=True):
        print(f"    {text} -> {said} ({'right' if said == right else 'WRONG'})")
    for name, said in result["sampled"].items():
        print(f"    sampled, {name}: {said}")
    for said, score in result["beam"]:
        print(f"    beam {score:6.2f}: {said}")

# %%
if speaking_full:
    right = [answer for *_, answer in QUESTIONS]
    print("E9, full: all three are right:", speaking_full["result"]["greedy"] == right)
print("   quick: the first is right or the loss is below 0.6:", end=" ")
print(speaking_here["greedy"][0] == QUESTIONS[0][2] or speaking_here["loss"] < 0.6)

# %% [markdown]
# Where only one answer is right, drawing can do nothing but harm: at temperature 2 *neunzig* became
# *sechzig*. Keeping the three likeliest pieces gave the right answer here and not with the quick model; one
# draw each says no more. The beam finds what greedy found, and its list shows where the model has doubts. For
# a text that has many good continuations it is the other way round: section 3 drew. (All three go token by
# token: a Transformer, too, decodes step by step.)
#
# > **E9 · no.** *Our question*: where one answer is right, does a beam or drawing find more than the
# > likeliest piece each time?
# >
# > *Measured*: With the model of the full run, 0.980 exact match: on one question greedy and the first of the
# > beam are right, and so are draws at temperature 1 and among the three likeliest; at temperature 2 the draw
# > is wrong. One draw each.
#
# ### The cache (E2)
#
# `greedy` as written asks for the scores of *all* tokens so far at each step, and uses only the last row. The
# rest it has computed before. What of it must be kept? The new token's query meets the keys and values of all
# tokens before it, and these never change, since no token sees a later one. So we keep keys and values, of
# every layer and head, and run only the new token through the stack. That is the **key-value cache**, the
# lines with `cache` in `MultiHeadAttention.forward`. In cross-attention, keys and values come from the
# memory; they are computed at the first step and stay. Nothing is approximated:

# %%
with mt.no_grad():
    exact = Transformer(V, V, **SIZES).double()
    tokens = held_out.target[:8, :12]
    memory, real, kept = begin(exact, held_out.source[:8])
    at_once = exact.decode(tokens, memory, real)
    cached = [exact.decode(tokens[:, : t + 1], memory, real, kept) for t in range(12)]
print("scores with the cache equal those without, to 1e-12:")
print((mt.cat(cached, dim=1) - at_once).abs().max().item() < 1e-12)
print("each step computed one row:", {row.shape[1] for row in cached} == {1})
translator = translating("not tied", 0, RATE, speaking.quick["steps"], None)
few = held_out.source[:50]
fast, slow = (
    translate(stepper(translator), begin(translator, few, cached), 50) for cached in (True, False)
)
print("the same translations:", fast == slow)

# %% [markdown]
# What does it save? Without the cache, token $t$ costs $t$ times what one token costs, and the scores among
# them $t^2$; all $n$ tokens together are of the order $n^2 d^2 + n^3 d$. With it, token $t$ costs its own
# projections and $t$ scores, together $n d^2 + n^2 d$. (Our code also builds the whole mask at each step, which
# takes time but no products.) We let a language model of random weights write $n$
# tokens in both ways.


# %%
@mt.no_grad()
def cost_of_writing(n, cached, width):
    """FLOPs and seconds of processor time for writing n tokens, and the tokens."""
    mt.manual_seed(0)
    model = OneStack(100, width, heads=4, hidden=4 * width, layers=2)
    cache = [({}, {}) for _ in model.stack.blocks] if cached else None
    start = process_time()
    with count_flops() as counter:
        tokens = greedy(lambda t, c: (model(t, c), c), mt.zeros(1, 1).long(), n, state=cache)
    return {"flops": counter.total, "seconds": process_time() - start, "tokens": tokens}


@lab.experiment(
    "E2",
    quick=dict(lengths=[16, 64], width=64, repeats=1),
    full=dict(lengths=[16, 32, 64, 128, 256, 512], width=128, repeats=3),
)
def caching(lengths, width, repeats):
    return {
        name: {
            str(n): [cost_of_writing(n, name == "cache", width) for _ in range(repeats)]
            for n in lengths
        }
        for name in ("no cache", "cache")
    }


caching_here = caching.run()
caching_full = caching.recorded

# %%
shown = caching_full["result"] if caching_full else caching_here
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.8)
for name, by_length in shown.items():
    sizes = sorted(map(int, by_length))
    flops = [by_length[str(n)][0]["flops"] / n for n in sizes]
    left.plot(sizes, flops, marker="o", label=name)
    times = zip(
        *([1000 * run["seconds"] / n for run in by_length[str(n)]] for n in sizes), strict=False
    )
    plot.spread(right, sizes, list(times), marker="o", label=name)
for axes, ylabel in ((left, "FLOPs a token"), (right, "milliseconds a token")):
    axes.set(xlabel="tokens written", ylabel=ylabel, xscale="log")
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
left.set_yscale("log")
right.set_ylim(0)
left.legend()
plot.show(
    figure,
    alt="FLOPs and time for each token written against the number of tokens: with the cache nearly level, "
    "without it growing in proportion to the number.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(caching_here, caching_full).items():
    for name, by_length in result.items():
        for n in sorted(by_length, key=int):
            runs = by_length[n]
            times = ", ".join(f"{1000 * run['seconds'] / int(n):.2f}" for run in runs)
            print(
                f"{setting:5} {name:8} {n:>4} tokens: {runs[0]['flops'] / int(n):12,.0f} FLOPs, {times} ms a token"
            )

# %%
for n, [run, *_] in caching_here["cache"].items():
    plain, *_ = caching_here["no cache"][n]
    print(f"{n} tokens: the same text {run['tokens'] == plain['tokens']},", end=" ")
    print(f"FLOPs without the cache over FLOPs with it: {plain['flops'] / run['flops']:.1f}")

# %% [markdown]
# For $n$ tokens the cache saves a factor of about $(n + 1)/2$ in FLOPs. Time tells less: a single token is so
# little work that most of the time goes into calling the operations. Chapter 12 comes back to what the cache
# does to the exponents (C25), and to its own price, memory.
#
# > **E2 · FLOPs, less so time.** *Our question*: what does the key-value cache save?
# >
# > *Measured*: The same text. A token of 512 written, width 128: 298,027,008 FLOPs and 13.0 to 15.0 ms
# > without the cache, 1,074,688 and 4.3 to 4.5 ms with it; of 16 written 6,998,016 and 4.6 to 4.8 ms, 820,736
# > and 3.2 to 3.6 ms.


# %% [markdown]
# ## 6. Beside the recurrent models
#
# Is it better than what we had? The models of chapters 03 and 04 get the same pieces, the same pairs, the
# same batches and schedule. Both read with a bidirectional GRU and write with a GRU; the second also attends,
# with the additive score.


# %%
class RecurrentTranslator(nn.Module):
    """Chapter 03's translator; with ``attending`` chapter 04's. Called as the Transformer is."""

    def __init__(self, vocabulary, width, attending):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, width // 2, bidirectional=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.attending = attending
        if attending:
            self.of_query = nn.Linear(width, width, bias=False)
            self.of_key = nn.Linear(width, width, bias=False)
            self.score = nn.Linear(width, 1, bias=False)
        self.out = nn.Linear(2 * width if attending else width, vocabulary)

    def encode(self, source):
        """The decoder's first state, the memory, and which source tokens are real."""
        real = source != PAD
        packed = pack_padded_sequence(source, real.sum(1), batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed._replace(data=self.source(packed.data)))
        memory, _ = pad_packed_sequence(states, batch_first=True)
        return mt.cat([last[:1], last[1:]], dim=-1), memory, real

    def decode(self, tokens, state):
        hidden, memory, real = state
        x, hidden = self.decoder(self.target(tokens), hidden)  # (B, T, H)
        if self.attending:
            mixed = self.of_query(x).unsqueeze(2) + self.of_key(memory).unsqueeze(1)
            scores = self.score(mixed.tanh()).squeeze(-1)  # (B, T, n)
            weights = scores.masked_fill(~real.unsqueeze(1), -math.inf).softmax(-1)
            x = mt.cat([x, weights @ memory], dim=-1)
        return self.out(x), (hidden, memory, real)

    def forward(self, source, tokens):
        return self.decode(tokens, self.encode(source))[0]


# %% [markdown]
# **The rules.** Equal parameters: the widths are chosen so that all have nearly as many. The Transformer runs
# twice, with tied embeddings as in the paper, and without, as the GRUs are; without, it is a little narrower.
# Equal care: the rate of each comes from the same grid of five; same batches, clipping, rise and fall of the
# rate. Two kinds of equality, as they answer different questions: equal *data*, the same number of steps; and
# equal *compute*, as many steps as the FLOPs of the tied Transformer's training buy. Everything is judged on
# the same held-out pairs, after greedy decoding: exact match, and BLEU over pieces (a number that compares
# with no paper's). The last column is not measured but counted, as in chapter 05: how many steps of one
# training pass have to wait for the one before. It grows with the lengths $n + T$ for a recurrence, and with
# the number of blocks for a Transformer.


# %%
BUILD = {
    "seq2seq": partial(RecurrentTranslator, V, 92, attending=False),
    "with attention": partial(RecurrentTranslator, V, 78, attending=True),
    "Transformer": partial(Transformer, V, V, **SIZES),
    "Transformer, not tied": partial(
        Transformer, V, V, width=56, heads=4, hidden=112, layers=2, tied=False
    ),
}


@mt.no_grad()
def translations(model, source):
    """Greedy translations by any of the models."""
    if isinstance(model, Transformer):
        return translate(stepper(model), begin(model, source), len(source))

    def step(tokens, state):
        return model.decode(tokens[:, -1:], state)

    return translate(step, model.encode(source), len(source))


def competitor(name, seed, rate, steps):
    """One of the models, trained, with its training FLOPs and seconds."""
    mt.manual_seed(seed)
    model = BUILD[name]()
    betas = (0.9, 0.98) if isinstance(model, Transformer) else (0.9, 0.999)
    start = process_time()
    with count_flops() as counter:
        train(model, partial(next_token, learned.batches(32), 0.0), rate, steps, betas=betas)
    return model, counter.total, process_time() - start


def compete(name, seed, rate, steps):
    """Train one of the models, and what the table says of it."""
    model, flops, seconds = competitor(name, seed, rate, steps)
    said, wanted = translations(model, held_out.source), until_end(held_out.target)
    spelled = [[list(map(str, row)) for row in rows] for rows in (said, wanted)]
    return judge(model) | {
        "parameters": sum(p.numel() for p in model.parameters()),
        "flops": flops,
        "seconds": seconds,
        "bleu": bleu(*spelled),
        "decoded": sum(map(list.__eq__, said, wanted)) / len(said),
    }


tuning = Corpus(
    [row for row in examples(300, held_out=True, seed=2) if row not in set(held_out_rows)]
)


def loss_at(name, rate, steps):
    """Loss on pairs that the table does not use, from a seed that it does not use either."""
    model, *_ = competitor(name, 3, rate, steps)
    with mt.no_grad():
        scores = model(tuning.source, tuning.target[:, :-1]).flatten(0, 1)
    return F.cross_entropy(scores, tuning.target[:, 1:].flatten(), ignore_index=PAD).item()


@cache
def flops_a_step(name):
    """Training FLOPs of a mean batch; all models get the same batches."""
    model, batches = BUILD[name](), learned.batches(32)
    mt.manual_seed(0)
    with count_flops() as counter:
        for _ in range(40):
            next_token(batches, 0.0, model).backward()
    return counter.total / 40


# %% [markdown]
# ### The table (C23)


# %%
FOR_60_STEPS = {"seq2seq": 3.2e-2, "with attention": 3.2e-2, "Transformer, not tied": 8e-3}  # rates


@lab.experiment(
    "C23",
    quick=dict(names=list(FOR_60_STEPS), seeds=[0], rates=[], steps=[60], budget=0),
    full=dict(
        names=list(BUILD),
        seeds=[0, 1, 2],
        rates=[2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2],
        steps=[200, 600],
        budget=600,
    ),
)
def table(names, seeds, rates, steps, budget):
    result = {}
    for name in names:
        tried = {str(rate): loss_at(name, rate, steps[-1]) for rate in rates}
        rate = float(min(tried, key=tried.get)) if tried else FOR_60_STEPS[name]
        numbers = list(steps)
        if budget and name != "Transformer":
            bought = budget * flops_a_step("Transformer") / flops_a_step(name)
            numbers.append(round(bought))
        result[name] = {
            "rate": rate,
            "tried": tried,
            "runs": {str(n): [compete(name, seed, rate, n) for seed in seeds] for n in numbers},
        }
    return result


table_here = table.run()
table_full = table.recorded

# %% tags=["nbval-ignore-output"]
columns = "rate    steps parameters  TFLOPs  seconds  exact match          BLEU"
print(" " * 28, columns)
for setting, result in measured_of(table_here, table_full).items():
    for name, of_model in result.items():
        for steps in sorted(of_model["runs"], key=int):
            runs = of_model["runs"][steps]
            exact = " ".join(f"{run['decoded']:.3f}" for run in runs)
            scores = " ".join(f"{run['bleu']:.1f}" for run in runs)
            seconds = sorted(run["seconds"] for run in runs)[len(runs) // 2]
            size, flops = runs[0]["parameters"], runs[0]["flops"] / 1e12
            row = f"{of_model['rate']:<6} {steps:>6} {size:>10,} {flops:7.3f} {seconds:8.0f}"
            print(f"{setting:5} {name:22} {row}  {exact:20} {scores}")

# %%
shown = table_full["result"] if table_full else table_here
figure, (left, right) = plot.subplots(1, 2, width=8, height=2.6, sharey=True)
for name, of_model in shown.items():
    steps = sorted(of_model["runs"], key=int)
    runs = list(zip(*(of_model["runs"][n] for n in steps), strict=True))
    exact = [[run["decoded"] for run in of_seed] for of_seed in runs]
    plot.spread(left, list(map(int, steps)), exact, marker="o", label=name)
    plot.spread(right, [run["flops"] / 1e12 for run in runs[0]], exact, marker="o")
left.set(xlabel="training steps (equal data)", ylabel="exact match")
right.set(xlabel="training TFLOPs (equal compute)")
left.set_title("full: three seeds" if table_full else "quick: one seed")
figure.legend(*left.get_legend_handles_labels(), loc="outside right center", fontsize=9)
plot.show(
    figure,
    alt="Exact match against training steps, and against training FLOPs: the GRU with attention is highest "
    "everywhere, plain seq2seq lowest at the end, the Transformers in between.",
)

# %%
losses = {}
for name, of_model in table_here.items():
    fewest = min(of_model["runs"], key=int)
    losses[name] = of_model["runs"][fewest][0]["loss"]
attending = losses["with attention"]
print(f"C23 after {fewest} steps: the loss of the GRU with attention is lower than that of")
print("     the GRU without, by 0.1:", attending < losses["seq2seq"] - 0.1)
print("     the Transformer, by 0.3:", attending < losses["Transformer, not tied"] - 0.3)

# %% [markdown]
# The recorded table in short, three seeds each:
#
# | | parameters | steps | training TFLOPs | seconds | BLEU | exact match | steps that wait |
# | --- | --- | --- | --- | --- | --- | --- | --- |
# | seq2seq | 189,973 | 600 | 0.15 | 13 | 68 to 77 | .34 to .57 | $n + T$ |
# | equal compute | | 963 | 0.25 | 20 | 80 to 85 | .47 to .72 | |
# | with attention | 190,057 | 200 | 0.05 | 6 | 95 to 97 | .89 to .93 | $n + T$ |
# | equal data | | 600 | 0.17 | 18 | 99.9 | .997 to .998 | |
# | equal compute | | 874 | 0.24 | 27 | 99.9 to 100 | .998 to 1.000 | |
# | Transformer | 189,248 | 600 | 0.25 | 32 | 97 to 99 | .94 to .97 | 2 + 2 blocks |
# | Transformer, not tied | 188,104 | 200 | 0.06 | 9 | 64 to 70 | .27 to .42 | 2 + 2 blocks |
# | equal data | | 600 | 0.19 | 28 | 98 to 99 | .94 to .97 | |
# | equal compute | | 766 | 0.25 | 36 | 99.7 to 99.8 | .993 to .995 | |
#
# So the Transformer beats *plain* seq2seq here, and not the GRU *with attention*. Chapter 04's model gets .89
# to .93 right after 200 steps; both Transformers have as much at the next count that we measured, 600 steps
# and about four times the FLOPs. At equal compute the one without tied embeddings comes close, but not past
# it.
#
# Two things to know when you judge this table. The rate of each model was chosen after 600 steps, by the loss
# on pairs of their own, with a seed of its own: 0.016 for both GRUs, 0.004 for the tied Transformer and 0.008
# for the other, none at an edge of the grid. And Adam's betas are the paper's (0.9, 0.98) for the
# Transformers, PyTorch's (0.9, 0.999) for the GRUs. Our first grid ended at 0.008, and made the GRU with
# attention look much slower than it is: a baseline is as good as the care that it gets.
#
# None of this contradicts the paper. Eleven pieces are read by one layer of recurrence at little cost. (Our guess
# at why it learns sooner: it comes with the order that the task needs, and a Transformer has to learn first what
# order is.) What the Transformer offers is the last
# column: nothing in its training waits for the token before. What that is worth we cannot measure on two
# cores; the paper's authors name it as their reason. (When it *writes*, a Transformer waits for each token as
# the GRU does.)
#
# > **C23 · holds against plain seq2seq, not against a GRU with attention.** *The lectures* (deck 3, "Great
# > Results with Transformers"; deck 4, "The Success of the Transformer"): "Not just better Machine Translation
# > BLEU scores", "Also more efficient to train!"
# >
# > *Measured*: Exact match, three seeds, 188,104 to 190,057 weights, every rate from one grid. The same data
# > (600 steps): Transformer 0.935 to 0.967, not tied 0.938 to 0.972, seq2seq 0.340 to 0.570, GRU with
# > attention 0.997 to 0.998. Equal compute (0.25 TFLOPs): 0.935 to 0.967, 0.993 to 0.995, 0.472 to 0.722,
# > 0.998 to 1.000. Numbers and dates, not text.

# %% [markdown]
# ### Two look-ups, one after the other (E8)
#
# So is there a task at this size that the Transformer does better? It should be one where looking once is not
# enough. Here is the smallest. A code book lies open, its entries in any order: each says that key $k$ stands
# for key $f(k)$, where $f$ is a permutation that is new in every example. Then comes a question $k$, and
# wanted is $f(f(k))$: look up $k$, and then look up what was found. One layer of attention can do the first
# look-up, and the second depends on its result. Two layers can do both: in the second, the last position asks
# with what it found in the first. The recurrent model reads the book with its bidirectional GRU and looks
# back with the additive score from its last state: once, or twice, the second time asking with what the first
# look has found (Sukhbaatar et al., 2015).
#
# Entries have no order, so the Transformer gets no positions. The rules are those of the table: equal
# parameters, rates from one grid, as many steps as the FLOPs of the Transformer of two blocks buy. (The betas
# are (0.9, 0.98) for all.)


# %%
def code_book(count, keys):
    """Entries k -> f(k) and a question, tokens (B, keys + 1); f(f(question)), (B)."""
    f = mt.rand(count, keys).argsort(1)  # a permutation in each row
    order = mt.rand(count, keys).argsort(1)
    question = mt.randint(0, keys, (count, 1))
    entries = keys * order + f.gather(1, order)
    tokens = mt.cat([entries, keys * keys + question], dim=1)
    return tokens, f.gather(1, f.gather(1, question)).squeeze(1)


class Reader(nn.Module):
    """Tokens (B, n) to scores of the keys (B, keys), through blocks, or a GRU that looks back."""

    def __init__(self, kind, keys, width, layers, looks=1):
        super().__init__()
        self.looks = looks
        self.embedding = nn.Embedding(keys * keys + keys, width)
        self.stack = Stack(layers, width, 2, 2 * width) if kind == "Transformer" else None
        if self.stack is None:
            options = dict(num_layers=layers, bidirectional=True, batch_first=True)
            self.gru = nn.GRU(width, width // 2, **options)
            self.of_query = nn.Linear(width, width, bias=False)
            self.of_key = nn.Linear(width, width)
            self.score = nn.Linear(width, 1, bias=False)
        self.out = nn.Linear(width if self.stack else 2 * width, keys)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.stack is not None:
            return self.out(self.stack(x)[:, -1])
        states, _ = self.gru(x)  # (B, n, d)
        found = last = states[:, -1:]
        for _ in range(self.looks):  # each asks with what the one before has found
            scores = self.score((self.of_query(found) + self.of_key(states)).tanh())  # (B, n, 1)
            found = (scores.softmax(1) * states).sum(1, keepdim=True)
        return self.out(mt.cat([last, found], dim=-1)[:, 0])


READERS = {
    "GRU with attention, 1 layer": dict(kind="GRU", width=98, layers=1),
    "GRU with attention, 2 layers": dict(kind="GRU", width=76, layers=2),
    "GRU with attention, 2 looks": dict(kind="GRU", width=98, layers=1, looks=2),
    "Transformer, 1 block": dict(kind="Transformer", width=90, layers=1),
    "Transformer, 2 blocks": dict(kind="Transformer", width=64, layers=2),
}


def question_loss(keys, model):
    tokens, wanted = code_book(64, keys)
    return F.cross_entropy(model(tokens), wanted)


def looked_up(name, keys, seed, rate, steps):
    """The share of right answers to 2,000 new questions after training, and what it took."""
    mt.manual_seed(seed)
    model = Reader(keys=keys, **READERS[name])
    with count_flops() as counter:
        train(model, partial(question_loss, keys), rate, steps)
    tokens, wanted = code_book(2000, keys)
    with mt.no_grad():
        right = (model(tokens).argmax(-1) == wanted).float().mean().item()
    parameters = sum(p.numel() for p in model.parameters())
    return {"right": right, "parameters": parameters, "steps": steps, "flops": counter.total}


@lab.experiment(
    "E8",
    quick=dict(
        names=["GRU with attention, 1 layer", "Transformer, 2 blocks"],
        keys=5,
        seeds=[0],
        rates=[4e-3],
        budget=100,
    ),
    full=dict(
        names=list(READERS),
        keys=6,
        seeds=[0, 1, 2],
        rates=[2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2],
        budget=600,
    ),
)
def two_look_ups(names, keys, seeds, rates, budget):
    def flops_of(name):
        with count_flops() as counter:
            question_loss(keys, Reader(keys=keys, **READERS[name])).backward()
        return counter.total

    result = {}
    for name in names:
        steps = round(budget * flops_of("Transformer, 2 blocks") / flops_of(name))
        tried = {
            str(rate): looked_up(name, keys, 3, rate, steps)["right"]
            for rate in rates
            if len(rates) > 1
        }
        rate = float(max(tried, key=tried.get)) if tried else rates[0]
        runs = [looked_up(name, keys, seed, rate, steps) for seed in seeds]
        result[name] = {"rate": rate, "tried": tried, "runs": runs}
    return result


looked_here = two_look_ups.run()
looked_full = two_look_ups.recorded

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(looked_here, looked_full).items():
    for name, of_model in result.items():
        run, *_ = of_model["runs"]
        right = " ".join(f"{run['right']:.2f}" for run in of_model["runs"])
        size = f"{run['parameters']:6,} parameters, {run['steps']:5} steps"
        print(f"{setting:5} {name:29} {size}, {run['flops'] / 1e12:.3f} TFLOPs: right {right}")

# %%
by_model = {name: of_model["runs"][0]["right"] for name, of_model in looked_here.items()}
print("E8, quick, 5 keys: the Transformer is ahead by 0.15:", end=" ")
print(by_model["Transformer, 2 blocks"] > by_model["GRU with attention, 1 layer"] + 0.15)

# %% [markdown]
# With two blocks the Transformer answers every question. One block is not enough, with as many weights
# and as many FLOPs. The GRUs lie in between, and a second look does not help them in this many steps. Why, we have not
# measured; but there is a difference in kind. In a block *every* position looks, and the residual connection keeps
# what it was beside what it found. The GRU looks from one position, into states that had to carry the book past
# each entry in 49 numbers in either direction. (Read backwards, the question comes first, so that an entry can
# already know whether it is asked for. That may be how one look gets so far.)
#
# So at this size: for translating piece by piece the recurrent order is a good guess, and cheap; where one
# look-up depends on another, blocks of attention win. This is the kind of step that a language model needs
# whenever the meaning of a word is settled elsewhere in the text (deck 2's "pizza ... oven ... it").
#
# > **E8 · yes.** *Our question*: is there a task at this size that a Transformer does better than a GRU with
# > attention?
# >
# > *Measured*: Right answers where one look-up depends on another, equal parameters and FLOPs, three seeds:
# > Transformer of two blocks 1.00 (at the smallest rate of the grid), of one block 0.61 to 0.66; GRU with
# > attention of one layer 0.78 to 0.81, two layers 0.65 to 0.73, two looks 0.68 to 0.72.

# %% [markdown]
# ### The paper's table
# Here is table 2 of Vaswani et al. (2017; arXiv version 5), which decks 1 and 4 show. For each Transformer the
# paper gives one cost for both languages. BLEU is on newstest2014 (WMT 2014).
#
# | model | BLEU EN-DE | EN-FR | FLOPs EN-DE | FLOPs EN-FR |
# | --- | --- | --- | --- | --- |
# | ByteNet (Kalchbrenner et al.) | 23.75 | | | |
# | Deep-Att + PosUnk (Zhou et al.) | | 39.2 | | $1.0 \cdot 10^{20}$ |
# | GNMT + RL (Wu et al.) | 24.6 | 39.92 | $2.3 \cdot 10^{19}$ | $1.4 \cdot 10^{20}$ |
# | ConvS2S (Gehring et al.) | 25.16 | 40.46 | $9.6 \cdot 10^{18}$ | $1.5 \cdot 10^{20}$ |
# | MoE (Shazeer et al.) | 26.03 | 40.56 | $2.0 \cdot 10^{19}$ | $1.2 \cdot 10^{20}$ |
# | Deep-Att + PosUnk, ensemble | | 40.4 | | $8.0 \cdot 10^{20}$ |
# | GNMT + RL, ensemble | 26.30 | 41.16 | $1.8 \cdot 10^{20}$ | $1.1 \cdot 10^{21}$ |
# | ConvS2S, ensemble | 26.36 | 41.29 | $7.7 \cdot 10^{19}$ | $1.2 \cdot 10^{21}$ |
# | **Transformer, base** | 27.3 | 38.1 | $3.3 \cdot 10^{18}$ | $3.3 \cdot 10^{18}$ |
# | **Transformer, big** | 28.4 | 41.8 | $2.3 \cdot 10^{19}$ | $2.3 \cdot 10^{19}$ |
#
# What does it say, read slowly?
#
# - **English-German is a clear win.** Base is 1.3 BLEU above the best single model and 0.9 above the best ensemble,
#   for a third of the cheapest one's cost.
# - **English-French is not, for base.** 38.1 is *below* all other rows of that column, Deep-Att's 39.2
#   included. It took a thirtieth of their training, or less, so what the row shows is a trade, not a win on
#   both counts.
# - **Big has the best number in both columns, but is not cheap** for English-German: $2.3 \cdot 10^{19}$ is
#   what GNMT + RL took, and more than ConvS2S ($9.6 \cdot 10^{18}$) and MoE ($2.0 \cdot 10^{19}$). 41.8 is
#   the number of the later arXiv versions; the proceedings of 2017, and the text of all versions, have 41.0,
#   which is below two ensembles.
# - **The costs are capacities**, hours times processors times an assumed speed (section 2), of different
#   processors. A factor of two between rows says little.
# - **One run each, no spread**, by different groups with different care and different cutting of words. The
#   Transformer's rows also average their last checkpoints. A BLEU counted on a group's own tokens moves by a
#   point and more with the tokens (Post, 2018).
#
# Deck 1's second table is about documents: Wikipedia articles from their sources (Liu et al., 2018, table 4).
# $L$ is the number of input tokens that a first stage picks out for the model.
#
# | model | $L$ | "test perplexity" | ROUGE-L | what changed from the row above |
# | --- | --- | --- | --- | --- |
# | seq2seq with attention | 500 | 5.05 | 12.7 | |
# | Transformer, encoder and decoder | 500 | 2.47 | 34.2 | architecture, *and size* |
# | Transformer, decoder only | 4000 | 2.22 | 33.6 | architecture, $L$, half the weights |
# | with memory-compressed attention | 11000 | 2.05 | 36.2 | attention and $L$ |
# | the same, 128 experts | 11000 | 1.93 | 37.9 | number of weights |
# | the same, 256 experts | 7500 | 1.90 | 38.8 | number of weights and $L$ |
#
# - **Only one step changes one thing**: the experts in the fifth row. The large step, from the first row to
#   the second, has the same $L$, but the paper says that the seq2seq model was a library's ready-made setting
#   with two layers of width 128, and the Transformer was base, of width 512, trained for a million steps.
#   That compares sizes and care as much as architectures.
# - **From the second to the third row ROUGE-L falls** while the perplexity gets better. The two scores do not
#   measure the same.
# - **The perplexities are logarithms.** A perplexity of 1.9 a wordpiece would mean a text that is nearly
#   known in advance. Another table of the same paper has the same 2.46645 under "log-perplexity", and its
#   text speaks of "log-perplexity from 2.05 to 1.93". If the logarithms are natural, as in the library that
#   was used, the perplexities are $e^{5.05} = 156$, $e^{2.47} = 12$ and $e^{1.90} = 6.7$. They hold for that
#   vocabulary of pieces only (section 3). None of this says that the results are wrong. It says how much they
#   can carry.

# %% [markdown]
# ## 7. Depth and heads
#
# Two sentences of deck 5 are left: that Transformers can be made deeper than recurrent networks, and
# that about eight heads work well. The task is that of section 3 with single characters, which recurrent
# networks can do too.
#
# ### Deeper, and how many heads (C38)
#
# Recurrent layers are stacked as in chapter 01: the outputs of one are the inputs of the next, which is what
# `nn.LSTM(num_layers=...)` does. A Transformer's blocks are not stacked like this: they have a residual connection
# and a norm. So a comparison of the two says nothing about attention by itself. We therefore add a third kind, an
# LSTM whose layers are wired as our blocks are: $x + \operatorname{LSTM}(\operatorname{norm}(x))$, and a last norm.


# %%
class Recurrent(nn.Module):
    """Tokens (B, n) to scores (B, n, V): recurrent layers, one on the other, or wired as Blocks."""

    def __init__(self, cell, vocabulary, width, layers, residual=False):
        super().__init__()
        self.residual = residual
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(cell(width, width, batch_first=True) for _ in range(layers))
        norm = nn.LayerNorm if residual else nn.Identity
        self.norms = nn.ModuleList(norm(width) for _ in range(layers + 1))
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for norm, layer in zip(self.norms[:-1], self.layers, strict=True):
            y, _ = layer(norm(x))
            x = x + y if self.residual else y
        return self.out(self.norms[-1](x))


CELLS = {"GRU": nn.GRU, "LSTM": nn.LSTM, "LSTM, residual": nn.LSTM}


def network(kind, vocabulary, layers, width, heads):
    """A language model of this kind."""
    if kind == "Transformer":
        return OneStack(vocabulary, width, heads, 4 * width, layers)
    return Recurrent(CELLS[kind], vocabulary, width, layers, "residual" in kind)


def next_character(numbers, model, length):
    """The loss of the next character in random windows."""
    window = windows(numbers, BATCH, length + 1)
    return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


@cache
def loss_after(kind, layers, rate, seed, steps, length, width, heads=4):
    """Loss on the validation text, in nats a character, after so many steps of training."""
    encoding, training, validation = pieces_of_text(0)
    mt.manual_seed(seed)
    model = network(kind, len(encoding), layers, width, heads)
    train(model, partial(next_character, training, length=length), rate, steps)
    count = (len(validation) - 1) // length
    inputs = validation[: count * length].reshape(count, length)
    with mt.no_grad():
        scores = model(inputs).flatten(0, 1)
    return F.cross_entropy(scores, validation[1 : count * length + 1]).item()


def at_best_rate(rates, seeds, **setting):
    """Losses of all seeds at the rate that is best for the first seed."""
    best = min(rates, key=lambda rate: loss_after(rate=rate, seed=seeds[0], **setting))
    return {"rate": best, "losses": [loss_after(rate=best, seed=s, **setting) for s in seeds]}


@lab.experiment(
    "C38",
    quick=dict(
        kinds=["LSTM", "LSTM, residual", "Transformer"],
        depths=[1, 4],
        depth_rates=[1e-2],
        steps=80,
        heads=[],
        head_rates=[],
        head_steps=0,
        seeds=[0],
        longer=[],
    ),
    full=dict(
        kinds=["GRU", "LSTM", "LSTM, residual", "Transformer"],
        depths=[1, 2, 4, 8],
        depth_rates=[1e-2, 3e-2],
        steps=300,
        heads=[1, 2, 4, 8, 16],
        head_rates=[1e-2, 2e-2],
        head_steps=400,
        seeds=[0, 1, 2],
        longer=[4, 8],
    ),
)
def depth_and_heads(
    kinds, depths, depth_rates, steps, heads, head_rates, head_steps, seeds, longer
):
    small = dict(length=8, width=32)

    def of_depth(kind, layers):
        setting = dict(kind=kind, layers=layers, steps=steps, **small)
        return at_best_rate(depth_rates, seeds, **setting)

    def with_patience(layers):
        return loss_after("LSTM", layers, depth_rates[0], seeds[0], 5 * steps, **small)

    def of_heads(count):
        setting = dict(kind="Transformer", layers=2, steps=head_steps, length=32, width=32)
        return at_best_rate(head_rates, seeds, heads=count, **setting)

    return {
        "depth": {kind: {str(n): of_depth(kind, n) for n in depths} for kind in kinds},
        "heads": {str(count): of_heads(count) for count in heads},
        "longer": {str(n): with_patience(n) for n in longer},
    }


depth_here = depth_and_heads.run()
depth_full = depth_and_heads.recorded

# %%
if depth_full:
    figure, (left, right) = plot.subplots(1, 2, width=9, height=2.9)
    by_heads = depth_full["result"]["heads"]
    counts = sorted(map(int, by_heads))
    runs = zip(*(by_heads[str(count)]["losses"] for count in counts), strict=True)
    plot.spread(right, counts, list(runs), marker="o", color=plot.COLORS[3])
    right.set(xscale="log", xlabel="heads", title="Transformer, 2 blocks, full")
    right.set_xticks(counts, counts)
    right.minorticks_off()
else:
    figure, left = plot.subplots(width=6, height=3)
for kind, by_depth in (depth_full["result"] if depth_full else depth_here)["depth"].items():
    depths = sorted(map(int, by_depth))
    runs = zip(*(by_depth[str(depth)]["losses"] for depth in depths), strict=True)
    plot.spread(left, depths, list(runs), marker="o", label=kind)
left.set(xscale="log", xlabel="layers", ylabel="nats per character")
left.set_title("full: three seeds" if depth_full else "quick: one seed")
left.set_xticks(depths, depths)
left.minorticks_off()
figure.legend(*left.get_legend_handles_labels(), loc="outside right center", fontsize=9)
plot.show(
    figure,
    alt="Left: loss against the number of layers. Plain stacks of GRU and LSTM layers rise to about 3.13; "
    "the LSTM with residual connections and the Transformer fall. Right: loss against heads.",
)

# %% tags=["nbval-ignore-output"]
for setting, result in measured_of(depth_here, depth_full).items():
    for kind, by_depth in result["depth"].items():
        for depth in sorted(by_depth, key=int):
            run = by_depth[depth]
            row = ", ".join(f"{loss:.3f}" for loss in run["losses"])
            print(f"{setting:5} {kind:15} {depth} layers, rate {run['rate']:<5}: {row}")
    for count in sorted(result["heads"], key=int):
        run = result["heads"][count]
        row = ", ".join(f"{loss:.3f}" for loss in run["losses"])
        print(f"{setting:5} Transformer, {count:>2} heads, rate {run['rate']:<5}: {row}")
    for depth in sorted(result["longer"], key=int):
        print(f"{setting:5} LSTM, {depth} layers, 5 x the steps: {result['longer'][depth]:.3f}")
print(f"letter frequencies: {unigram:.3f}")

# %%
one, four = (
    {kind: by_depth[depth]["losses"][0] for kind, by_depth in depth_here["depth"].items()}
    for depth in ("1", "4")
)
plain, wired, blocks = (four[kind] for kind in ("LSTM", "LSTM, residual", "Transformer"))
print("C38: four plain layers of LSTM are worse than one:", plain > one["LSTM"] + 0.05)
print("     four blocks of the Transformer are not:      ", blocks < one["Transformer"] + 0.05)
print("     they are ahead of the four plain layers:     ", blocks < plain - 0.15)
print("     so are four layers of LSTM wired like blocks:", wired < plain - 0.15)

# %% [markdown]
# All this is small: windows of 8 characters (32 for the heads), width 32, and 300 steps of 16 windows, 38,000
# characters in all. Each has the better of two rates, 0.01 and 0.03, chosen on the first of the three seeds,
# and where 0.03 won (all residual LSTMs among them) a larger one might be better still; a block has half as
# many weights again as a layer of LSTM, and tied embeddings. So look at the direction of each curve, not at
# which is lowest. **Depth, stacked plainly, makes these recurrent networks worse**: four and eight layers end
# at the loss of someone who knows how often each character occurs and nothing else. The Transformer trains at
# all four depths. But look at the third curve: the same LSTM layers, wired like our blocks, train at every
# depth too, and gain more from it than the Transformer. What can be made deep is not attention but *residual
# connection and norm*; and a Transformer without them cannot be made deep either (chapter 09, C20). Nor is
# this a matter of principle. With five times the steps the four layers get off the plateau, to 2.40. The
# eight still stand at 3.13. (One seed.)
#
# Why a plateau? Here is how far apart the states of different texts are in stacks that have not been trained.


# %%
@mt.no_grad()
def spread_of_states(kind, layers=8):
    """Standard deviation of the last states over 64 texts, before the first layer and after each."""
    mt.manual_seed(0)
    model = network(kind, 258, layers, width=32, heads=4).double()
    x = model.embedding(mt.randint(0, 258, (64, 16)))  # (B, n, d)
    spreads = [x[:, -1].std(dim=0).mean().item()]
    for norm, layer in zip(model.norms[:-1], model.layers, strict=True):
        y, _ = layer(norm(x))
        x = x + y if model.residual else y
        spreads.append(x[:, -1].std(dim=0).mean().item())
    return spreads


for kind in CELLS:
    before, one_layer, *_, last = spread_of_states(kind)
    print(f"{kind:14} before {before:.2f}, after one layer {one_layer:.2f}, after eight {last:.1e}")

# %% [markdown]
# With usual initial weights, the first layer of LSTM hands on an eighth of what tells texts apart, the first of
# GRU a quarter, and eight of them a hundred-thousandth and a quarter of a percent. The output layer sees nearly
# the same state whatever was read. That may be why all that it learns at first is how frequent each character is.
# With the residual connection nothing is lost.
#
# **Heads make little difference here, once there are a few**: between four, eight and sixteen the seeds
# decide. With every seed one head is the worst and two are next. The paper's table 3 has one head 0.9 BLEU
# below eight, four 0.3 below, sixteen equal, thirty-two 0.4 below. So "around eight work well" is true of
# both; that four and sixteen do as well is ours, at width 32. (The rate of the heads is 0.02 throughout, the
# larger of two.)
#
# > **C38 · holds for depth by residual connection and norm, for heads from four on.** *The lectures* (deck 5,
# > "Why transformers?", "Multi-head attention"): of a Transformer, "In practice, can make it much deeper (more
# > layers) than RNN"; "around 8 heads seems to work pretty well for big models".
# >
# > *Measured*: Loss in nats per character, three seeds, 300 steps, one layer and eight: LSTM 2.35 to 2.41 and
# > 3.14, GRU 2.38 to 2.44 and 3.13 to 3.14, Transformer 2.40 to 2.42 and 2.36 to 2.38, LSTM wired like our
# > blocks 2.33 to 2.41 and 2.05 to 2.08; letter frequencies have 3.126. Heads, 400 steps: one 2.21 to 2.25,
# > two 2.19 to 2.21, four 2.14 to 2.17, eight 2.14 to 2.19, sixteen 2.15 to 2.19.

# %% [markdown]
# ## 8. On a GPU
#
# All models of this chapter train within minutes on a laptop, and their data is made. Two experiments are for
# those who have an NVIDIA GPU (with CuPy: `pip install -e ".[cuda12]"`) and a connection, by which the
# book fetches two well-known corpora and checks that they are the right files:
#
# - a language model of a million characters of Shakespeare, as large as that of a well-known teaching
#   program, nanoGPT (Karpathy, 2022): 6 blocks of width 384, 10.7 M weights, dropout 0.2, 5,000 steps of 64
#   windows of 256 characters. nanoGPT reports **1.47** nats per character on the last tenth of the text, the
#   best of its checkpoints;
# - translation from German into English on Multi30k (Elliott et al., 2016), 29,000 captions of photographs:
#   9.5 M weights, and all that this chapter has: byte-pair encoding, tied embeddings, dropout, label
#   smoothing, warm-up. It is scored by BLEU on the 1,000 sentences of `test_2016_flickr`, with greedy
#   decoding and with five beams.
#
# **These numbers are still to come: no GPU was at hand.** The code below runs as it stands, on both corpora
# on a processor, and on the stand-in for CuPy that the tests use. At full size a processor core takes about
# half a minute for a step on Shakespeare and three to six seconds for one on Multi30k. With a GPU, `python
# book.py experiment 10 E3 E4` measures and records both; without one, `python book.py experiment 10` says
# that a GPU is lacking, and records the rest.
#
# The training loop is the one of section 3, with two things added that long runs need: a rate for each step, and
# a look at the validation data now and then.


# %%
def train_long(model, loss_of_batch, rate_of_step, steps, every, validate, **options):
    """Train; returns ``validate(model)`` after each ``every`` steps."""
    optimizer = mt.optim.AdamW(model.parameters(), **options)
    measured = []
    for step in tqdm(range(1, steps + 1), leave=False):
        optimizer.param_groups[0]["lr"] = rate_of_step(step)
        loss = loss_of_batch(model)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % every == 0:
            model.eval()
            with mt.no_grad():
                measured.append(validate(model))
            model.train()
    return measured


def lacks(data):
    """What a full run needs and this machine does not have, or None."""
    if not mt.cuda.is_available():
        return "a GPU"
    try:
        data()
    except (ConnectionError, ModuleNotFoundError) as error:
        return f"data: {error}"


# %% [markdown]
# ### Shakespeare (E3)
#
# In the quick setting, which the chapter runs, a tiny model makes a few steps on the language reference, only to
# see that the code works.

# %%
TEXTS = {"language reference": language_reference, "tiny Shakespeare": tiny_shakespeare}


def cosine(step, steps, rate, warm):
    """Up in a line for ``warm`` steps, then down along a cosine to a tenth of the rate."""
    if step < warm:
        return rate * step / warm
    return rate * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / (steps - warm)))


def text_loss(model, numbers, length, batch, device):
    """Mean loss on a text read in windows that lie side by side, in nats a token."""
    count = (len(numbers) - 1) // length
    inputs = numbers[: count * length].reshape(count, length)
    targets = numbers[1 : count * length + 1].reshape(count, length)
    total = 0.0
    for x, y in zip(inputs.split(batch), targets.split(batch), strict=True):
        scores = model(x.to(device)).flatten(0, 1)
        total += F.cross_entropy(scores, y.flatten().to(device), reduction="sum").item()
    return total / (count * length)


@lab.experiment(
    "E3",
    quick=dict(
        text="language reference",
        device="cpu",
        seeds=[0],
        sizes=dict(width=32, heads=2, hidden=128, layers=1, dropout=0.2),
        length=32,
        batch=8,
        steps=20,
        every=10,
        rate=1e-2,
        warm=5,
    ),
    full=dict(
        text="tiny Shakespeare",
        device="cuda",
        seeds=[0, 1, 2],
        sizes=dict(width=384, heads=6, hidden=1536, layers=6, dropout=0.2),
        length=256,
        batch=64,
        steps=5000,
        every=250,
        rate=1e-3,
        warm=100,
    ),
    lacks=partial(lacks, tiny_shakespeare),
)
def shakespeare(text, device, seeds, sizes, length, batch, steps, every, rate, warm):
    text = TEXTS[text]()
    vocabulary = Vocabulary(text)
    training, validation = split(vocabulary.encode(text))

    def loss_of_batch(model):
        window = windows(training, batch, length + 1).to(device)
        return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())

    def run(seed):
        mt.manual_seed(seed)
        model = OneStack(len(vocabulary), **sizes).to(device)
        start = perf_counter()
        losses = train_long(
            model,
            loss_of_batch,
            lambda step: cosine(step, steps, rate, warm),
            steps,
            every,
            lambda model: text_loss(model, validation, length, batch, device),
            betas=(0.9, 0.99),
            weight_decay=0.1,
        )
        seconds = perf_counter() - start
        prompt = vocabulary.encode("\n")[None].to(device)
        written = sample(
            lambda tokens, _: (model(tokens[:, -length:]), None),
            prompt,
            min(length, 300),
            temperature=0.8,
        )[0]
        return {
            "losses": losses,
            "seconds": seconds,
            "text": "".join(vocabulary.decode(written)),
        }

    return [run(seed) for seed in seeds]


shakespeare_here = shakespeare.run()
shakespeare_full = shakespeare.recorded

# %%
for run in shakespeare_full["result"] if shakespeare_full else ():
    print(f"full  best of {len(run['losses'])} validation losses: {min(run['losses']):.3f} (1.47)")
first, last = shakespeare_here[0]["losses"]
print("quick: the code runs, and the loss falls:", last < first)
print("full: ", "recorded" if shakespeare_full else "still to come")

# %% [markdown]
# For whoever compares: the best of twenty checkpoints, chosen by the very text that it is measured on, is a
# little too good, in nanoGPT and here; and nanoGPT has learned positions and gelu.
#
# > **E3 · still to come.** *Our question*: does our decoder reach nanoGPT's loss on Shakespeare?
# >
# > *Measured*: Nothing yet: the full setting needs a GPU. The quick one shows that the code runs and the loss
# > falls.
#
# ### Multi30k (E4)
#
# Here too the quick setting only shows that everything runs: numbers in words, thirty steps.


# %%
def numbers_in_words(part):
    """Made-up pairs in place of a corpus."""
    count, held_out = (512, False) if part == "train" else (8, True)
    pairs = number_pairs(count, digits=(1, 6), held_out=held_out, source="de", target="en")
    return [(" ".join(pair.source), " ".join(pair.target)) for pair in pairs]


CORPORA = {"numbers": numbers_in_words, "Multi30k": partial(multi30k, source="de", target="en")}
MARKS = ["<pad>", "<s>", "</s>"]


@mt.no_grad()
def captioned(model, encoding, sources, device, beams):
    """Translations of encoded sources; one beam is greedy decoding."""

    def step(tokens, state):
        return model.decode(tokens, *state), state

    texts = []
    for first in range(0, len(sources), 100):
        source = pad(sources[first : first + 100], PAD, batch_first=True)[0].to(device)
        start = mt.full((len(source), 1), encoding["<s>"], device=device)
        caches = [({}, {}) for _ in model.decoder.blocks]
        state = model.encode(source), real_tokens(source), caches
        tokens, _ = beam_search(step, start, 80, beams=beams, end=encoding["</s>"], state=state)
        texts += [encoding.decode(best) for best in tokens[:, 0].tolist()]
    return texts


@lab.experiment(
    "E4",
    quick=dict(
        corpus="numbers",
        device="cpu",
        seeds=[0],
        merges=50,
        sizes=dict(width=32, heads=2, hidden=128, layers=1, dropout=0.1),
        batch=32,
        steps=30,
        every=15,
        warm=10,
        smoothing=0.1,
    ),
    full=dict(
        corpus="Multi30k",
        device="cuda",
        seeds=[0, 1, 2],
        merges=8000,
        sizes=dict(width=256, heads=8, hidden=1024, layers=4, dropout=0.3),
        batch=128,
        steps=8000,
        every=1000,
        warm=2000,
        smoothing=0.1,
    ),
    lacks=partial(lacks, CORPORA["Multi30k"]),
)
def captions(corpus, device, seeds, merges, sizes, batch, steps, every, warm, smoothing):
    parts = {part: CORPORA[corpus](part) for part in ("train", "val", "test_2016_flickr")}
    both = "\n".join(sentence for pair in parts["train"] for sentence in pair)
    encoding = BytePairEncoding.learn(both, merges, MARKS)
    start, end = mt.tensor([encoding["<s>"]]), mt.tensor([encoding["</s>"]])
    encoded = {
        part: [(encoding.encode(s), mt.cat([start, encoding.encode(t), end])) for s, t in pairs]
        for part, pairs in parts.items()
    }

    def loss(model, pairs, **options):
        """Sum or mean over the target tokens of these pairs."""
        sources, targets = zip(*pairs, strict=True)
        source = pad(sources, PAD, batch_first=True)[0].to(device)
        target = pad(targets, PAD, batch_first=True)[0].to(device)
        scores, next_tokens = model(source, target[:, :-1]), target[:, 1:]
        return F.cross_entropy(
            scores.flatten(0, 1), next_tokens.flatten(), ignore_index=PAD, **options
        )

    def validate(model):
        pairs = encoded["val"]
        chunks = [pairs[first : first + batch] for first in range(0, len(pairs), batch)]
        total = sum(loss(model, chunk, reduction="sum").item() for chunk in chunks)
        return total / sum(len(target) - 1 for _, target in pairs)

    def batches():
        while True:
            yield from BatchesByLength([len(source) for source, _ in encoded["train"]], batch)

    def run(seed):
        mt.manual_seed(seed)
        model = Transformer(len(encoding), len(encoding), **sizes).to(device)
        order = batches()
        began = perf_counter()
        losses = train_long(
            model,
            lambda model: loss(
                model, [encoded["train"][i] for i in next(order)], label_smoothing=smoothing
            ),
            lambda step: warm_up(step, sizes["width"], warm),
            steps,
            every,
            validate,
            betas=(0.9, 0.98),
            weight_decay=0.0,
        )
        seconds = perf_counter() - began
        model.eval()
        sources = [source for source, _ in encoded["test_2016_flickr"]]
        references = [target for _, target in parts["test_2016_flickr"]]
        greedily, by_beam = (captioned(model, encoding, sources, device, k) for k in (1, 5))
        return {
            "losses": losses,
            "seconds": seconds,
            "weights": sum(p.numel() for p in model.parameters()),
            "greedy": bleu(greedily, references),
            "beam": bleu(by_beam, references),
            "examples": list(zip(references, greedily, by_beam, strict=True))[:5],
        }

    return [run(seed) for seed in seeds]


captions_here = captions.run()
captions_full = captions.recorded

# %%
for run in captions_full["result"] if captions_full else ():
    print(f"full  BLEU on test_2016_flickr: greedy {run['greedy']:.1f}, 5 beams {run['beam']:.1f}")
[run] = captions_here
first, last = run["losses"]
print("quick: the code runs, and the loss falls:", last < first)
print("       BLEU is computed:", 0 <= run["greedy"] <= 100 and 0 <= run["beam"] <= 100)
print("full: ", "recorded" if captions_full else "still to come")

# %% [markdown]
# > **E4 · still to come.** *Our question*: what BLEU does our translator reach from German into English on
# > Multi30k?
# >
# > *Measured*: Nothing yet: the full setting needs a GPU. The quick one shows that the code runs, the loss
# > falls and BLEU is computed.
#
# **Try it**: let the translator write French
# (`number_words(n, "fr")`, with a tag of its own); train it in post-norm, with and without warm-up; set
# `heads=1` in `SIZES`; take a text of your own in section 3 (`read_text` of `textbook.data`).
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | right is | where |
# | --- | --- | --- |
# | recurrent networks: "we cannot parallelize and use GPUs for training and inference" (deck 4) | the sentences of a batch are read side by side (chapter 03); and when it writes, a Transformer too goes token by token | § 5 |
# | the table of BLEU and training cost without the Transformer's own rows (deck 1), and without a word on how the cost was counted (decks 1 and 4) | deck 4 has the rows; the cost is what the hardware was taken to be able to do | § 2, § 6 |
#
# </details>
#
# ## Summary
#
# - Parameters and training FLOPs are sums that can be checked exactly. "3.3e18 FLOPs" is what the hardware
#   was taken to be able to do; the products of base are 29 % of it.
# - Losses of different vocabularies compare in nats per character. Pieces of words beat bytes at the same
#   number of steps (E5).
# - In our short trainings tied embeddings slowed the first steps and warm-up was not needed (in pre-norm).
#   Dropout helped where a few pairs were learned by heart, label smoothing did not (E1). Measure at your size.
# - Keys and values do not change, so they are kept: the same text for $2/(n + 1)$ of the FLOPs (E2).
# - On a translation of short sentences the Transformer beats plain seq2seq at equal compute, and the GRU with
#   attention beats the Transformer (C23). Where one look-up depends on another, the Transformer wins (E8). A
#   table compares what its columns say: ask for sizes, seeds, care, and what was counted.
# - What makes depth possible is residual connection and norm, for LSTM layers too; four heads or more are
#   alike (C38).
#
# What costs most when the text gets long, and what has been tried since 2017 to make it cheaper, is chapter 12.
#
# **Read on**: Vaswani et al. (2017), *Attention is all you need*. Sennrich, Haddow and Birch (2016),
# *Neural machine translation of rare words with subword units*. Press and Wolf (2017), *Using the output
# embedding to improve language models*. Srivastava et al. (2014), *Dropout*. Szegedy et al. (2016),
# *Rethinking the Inception architecture for computer vision* (label smoothing). Wu et al. (2016), *Google's
# neural machine translation system*. Liu et al. (2018), *Generating Wikipedia by summarizing long
# sequences*. Post (2018), *A call for clarity in reporting BLEU scores*. Sukhbaatar et al. (2015), *End-to-end
# memory networks*. Chen et al. (2018), *The best of both worlds: combining recent advances in neural
# machine translation*, who took the ingredients apart.
