# %% [markdown]
# # 03 Sequence to sequence
#
# The networks of chapters 01 and 02 say one thing for each token they read, or one thing for the
# whole sequence. A translation is neither: it has its own length, its own words and its own order.
# This chapter reads a sequence with one recurrent network, hands its last state to a second one, and
# lets that one write. It was the first neural design that translated well (Sutskever, Vinyals and Le,
# 2014), and the place where it breaks is the reason for attention.
#
# **After this chapter you will be able to**
#
# - build an encoder and a decoder, and train them with teacher forcing;
# - put sequences of different lengths into one batch: padding, packing, and a mask for the loss;
# - translate with greedy and with beam search, and score translations by exact match and BLEU;
# - measure what one vector for a whole sentence costs (C5), and what teacher forcing costs;
# - encode a sentence by its last state, by mean and by max pooling, and say when each is best (C31).
#
# **Time**: about 120 minutes to read and try; all cells together run in less than a minute.
# **Before it**: chapter 01 (recurrent networks, teacher forcing, sampling) and chapter 02 (GRU).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the
# original stays in `notebooks/`.

# %%
import math
from copy import deepcopy
from functools import cache
from typing import NamedTuple

from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, plot
from minitorch.data import Vocabulary, join_pieces, number_pair, number_pairs
from minitorch.decoding import greedy
from minitorch.experiments import Experiments
from minitorch.nn.utils.rnn import pack_padded_sequence

lab = Experiments("03")

# %% [markdown]
# ## 1. The task: numbers in words
#
# We translate numbers, written in words, from English to German and to French. That is a small piece of
# real translation: the words change, their number changes, and so does their order. We can make as many
# pairs as we like, and we know for certain which translation is right. This pair will go with us:

# %%
example = {language: number_pair(293, target=language) for language in ("de", "fr")}
print("en", example["de"].source)
for language, pair in example.items():
    print(language, pair.target, "written", join_pieces(pair.target, language))

# %% [markdown]
# German writes all of it as one word; our tokens are its parts. German says the unit before the ten
# ("three and ninety"), French counts by twenties up there ("four twenty thirteen").


# %%
def aligned(axes, pair, title):
    """Source above, target below, and a line between words that speak for the same digits."""
    longest = max(len(pair.source), len(pair.target))
    columns = [
        [i + (longest - len(words)) / 2 for i in range(len(words))]
        for words in (pair.source, pair.target)
    ]
    for words, row, xs in zip((pair.source, pair.target), (1, 0), columns, strict=True):
        for word, x in zip(words, xs, strict=True):
            axes.text(x, row, word, ha="center", va="center")
    for j, partners in enumerate(pair.alignment):
        for i in partners:
            axes.plot([columns[0][i], columns[1][j]], [0.85, 0.15], color="0.4", linestyle="-")
    axes.set(xlim=(-0.5, longest - 0.5), ylim=(-0.2, 1.2), title=title)
    axes.axis("off")


figure, panels = plot.subplots(1, 2, width=9.5, height=1.8)
for axes, (language, name) in zip(panels, {"de": "German", "fr": "French"}.items(), strict=True):
    aligned(axes, example[language], f"293 in English and {name}")
plot.show(
    figure,
    alt="Lines join the words of 293 in English with those in German, where the lines of ninety and "
    "three cross, and in French, where ninety has a line to three words.",
)

# %% [markdown]
# ### Two ways to hold data out
#
# - **By number.** A tenth of all numbers, scattered evenly, never occurs in training. This asks: has the
#   model understood how numbers are built, or has it learned the pairs by heart?
# - **By length.** The model is trained on short numbers only and tested on longer ones. This asks: does
#   what it has understood reach further than what it has seen?
#
# Numbers have 1 to 9 digits, each number of digits equally often.

# %%
pairs = {
    "training": number_pairs(20_000, digits=(1, 9), seed=0),
    "held out": number_pairs(900, digits=(1, 9), held_out=True, seed=1),
}
numbers = {name: {pair.number for pair in part} for name, part in pairs.items()}
print("no number is in both parts:", not numbers["training"] & numbers["held out"])
for name, part in pairs.items():
    lengths = [len(pair.source) for pair in part]
    print(f"{name:9} {len(part):6} pairs of {min(lengths)} to {max(lengths)} English words")

# %% [markdown]
# As in chapter 01, each language has a vocabulary. It has three entries that are no words: `<pad>` fills
# up short sequences (section 4), `<s>` starts a translation and `</s>` ends it (section 3).

# %%
SPECIALS = ["<pad>", "<s>", "</s>"]
french_pairs = number_pairs(2000, target="fr")
words = {
    "en": Vocabulary((word for pair in pairs["training"] for word in pair.source), SPECIALS),
    "de": Vocabulary((word for pair in pairs["training"] for word in pair.target), SPECIALS),
    "fr": Vocabulary((word for pair in french_pairs for word in pair.target), SPECIALS),
}
for language, vocabulary in words.items():
    print(language, len(vocabulary), vocabulary.tokens[:10], "...")
PAD, START, END = (words["de"][special] for special in SPECIALS)

# %% [markdown]
# ## 2. The encoder
#
# The **encoder** reads the source $x_1, \dots, x_S$ ($S$ tokens) and keeps only where it ends. With the
# embedding $E$ of shape $(V_{en}, d)$ and any recurrent cell, here the GRU of chapter 02,
#
# $$h_s = \mathrm{GRU}(E_{x_s}, h_{s-1}), \qquad h_0 = 0, \qquad c = h_S .$$
#
# $c$ of shape $(H)$ is the **encoding** of the sentence: whatever its length, $H$ numbers. We start small,
# $d = 4$ and $H = 3$, with the weights of an untrained `nn.GRU`, and write the cell out.

# %%
mt.manual_seed(0)
E_source = mt.randn(len(words["en"]), 4)  # (V, d)
encoder = nn.GRU(4, 3)


def gru_cell(gru, x, h, layer=0):
    """One step of chapter 02's GRU: input (..., d) and state (..., H) to the next state (..., H)."""
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    W_ih, W_hh, b_ih, b_hh = (getattr(gru, f"{part}_l{layer}") for part in parts)
    r_x, z_x, n_x = (x @ W_ih.T + b_ih).chunk(3, dim=-1)
    r_h, z_h, n_h = (h @ W_hh.T + b_hh).chunk(3, dim=-1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return (1 - z) * n + z * h


source = words["en"].encode(example["de"].source)  # (S)
h = mt.zeros(3)
for word, number in zip(example["de"].source, source.tolist(), strict=True):
    h = gru_cell(encoder, E_source[number], h)
    print(f"{word:8} {[round(value, 3) for value in h.tolist()]}")
c = h

# %%
states, last = encoder(E_source[source])  # (S, H), (layers, H)
print("the library's GRU gives the same encoding:", mt.allclose(last[0], c, atol=1e-6))

# %% [markdown]
# ## 3. The decoder
#
# The **decoder** is a language model (chapter 01, section 9) of the target language that does not start
# from nothing: its first state is the encoding. It writes $y_1, \dots, y_T$, one token at a time,
#
# $$g_0 = c, \qquad g_t = \mathrm{GRU}'(E'_{y_{t-1}}, g_{t-1}), \qquad
# P(y_t \mid y_{<t}, x) = \mathrm{softmax}(W_o\, g_t + b_o)_{y_t},$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $g_t$ | state of the decoder at step $t$ | $(H)$ |
# | $E'$ | embedding of the target language | $(V', d)$ |
# | $W_o$, $b_o$ | from the state to scores of all $V'$ target tokens | $(V', H)$, $(V')$ |
# | $y_0$ | the **start token** `<s>`: something has to be the first input | |
# | $y_T$ | the **end token** `</s>`: the only way to say "I am done" | |
#
# and the probability of a translation is the product over its tokens, the end token included,
# $P(y \mid x) = \prod_{t=1}^{T} P(y_t \mid y_{<t}, x)$. Without the end token a model would never learn
# where to stop.


# %%
def encoder_decoder(axes, source, target):
    """Draw the encoder on the source, the decoder on the target, and the arrow between the two."""
    arrow = dict(arrowstyle="->", color="0.35", shrinkA=14, shrinkB=14)
    inputs = [*source, "<s>", *target[:-1]]
    for x, word in enumerate(inputs):
        decoding = x >= len(source)
        state = f"$g_{{{x - len(source) + 1}}}$" if decoding else f"$h_{{{x + 1}}}$"
        box = dict(boxstyle="circle", facecolor=plot.COLORS[5] if decoding else "0.93")
        axes.text(x, 0, word, ha="center", va="center")
        axes.text(x, 1, state, ha="center", va="center", bbox=box)
        axes.annotate("", (x, 1), (x, 0), arrowprops=arrow)
        if x:
            bottleneck = x == len(source)
            thick = dict(arrow, linewidth=4, color=plot.COLORS[1]) if bottleneck else arrow
            axes.annotate("", (x, 1), (x - 1, 1), arrowprops=thick)
        if decoding:
            axes.text(x, 2, target[x - len(source)], ha="center", va="center", weight="bold")
            axes.annotate("", (x, 2), (x, 1), arrowprops=arrow)
    axes.text(len(source) - 0.5, 1.35, "c", ha="center", color=plot.COLORS[1], weight="bold")
    axes.set(xlim=(-0.5, len(inputs) - 0.5), ylim=(-0.3, 2.3))
    axes.axis("off")


figure, axes = plot.subplots(width=10, height=2.6)
encoder_decoder(axes, example["de"].source, [*example["de"].target, "</s>"])
plot.show(
    figure,
    alt="Five encoder states read 'two hundred and ninety three'; a thick arrow leads from the last to "
    "the first of six decoder states, which read the start token and the German words so far and "
    "write the next one, at last the end token.",
)

# %% [markdown]
# Everything that the decoder ever learns of the source goes through the thick arrow. The lower row is
# what the decoder reads: the true words so far. That is **teacher forcing**, as in chapter 01, and it
# makes training simple: inputs `<s>` $y_1 \dots y_{T-1}$, targets $y_1 \dots y_{T-1}$ `</s>`, the same
# tokens one step apart.

# %%
E_target = mt.randn(len(words["de"]), 4)
decoder, out = nn.GRU(4, 3), nn.Linear(3, len(words["de"]))

target = words["de"].encode(["<s>", *example["de"].target, "</s>"])
inputs, targets = target[:-1], target[1:]  # (T), (T)

g, log_p = c, []
for before, after in zip(inputs.tolist(), targets.tolist(), strict=True):
    g = gru_cell(decoder, E_target[before], g)
    log_p.append(out(g).log_softmax(-1)[after])
    print(f"reads {words['de'].tokens[before]:8} is to say {words['de'].tokens[after]}")
loss = -mt.stack(log_p).mean()
print(f"mean loss a token {loss.item():.3f}; guessing evenly {math.log(len(words['de'])):.3f}")

# %% [markdown]
# Since all inputs are known beforehand, the loop is one call of the library's GRU, with $c$ as its first
# state; and the loss is the cross-entropy of chapter 00.

# %%
states, _ = decoder(E_target[inputs], c.unsqueeze(0))  # (T, H)
at_once = F.cross_entropy(out(states), targets)
print("loop and whole sequence agree:", mt.allclose(at_once, loss, atol=1e-6))

# %% [markdown]
# **More layers.** As in chapter 01, the states of one layer are the inputs of the next. Each layer of the
# encoder hands its own last state to the same layer of the decoder. So an encoding has the shape
# $(\text{layers}, H)$, which is just what `nn.GRU` returns and takes.

# %%
deep_encoder, deep_decoder = nn.GRU(4, 3, num_layers=2), nn.GRU(4, 3, num_layers=2)
_, encoding = deep_encoder(E_source[source])  # (2, H)

g, top = list(encoding), []
for before in inputs.tolist():
    x = E_target[before]
    for layer in range(2):
        g[layer] = x = gru_cell(deep_decoder, x, g[layer], layer)
    top.append(x)
agree = mt.allclose(mt.stack(top), deep_decoder(E_target[inputs], encoding)[0], atol=1e-6)
print("two layers, by hand and in the library, agree:", agree)

# %% [markdown]
# ## 4. Batches of different lengths
#
# To be fast we want many sentences in one matrix product, but sentences have different lengths. Short ones
# are filled up with `<pad>` to the longest: **padding**. Here are three sources.

# %%
three = [number_pair(number) for number in (293, 7, 40_016)]
padded, padding = words["en"].encode_batch([p.source for p in three], batch_first=True)  # (B, S)
lengths = (~padding).sum(1)
for row in padded:
    print(words["en"].decode(row))
print("lengths", lengths.tolist())

# %% [markdown]
# A GRU knows nothing of padding. It goes on reading, and the state after the last column is no longer the
# state after the last word. **Packing** solves that: sequences are sorted by length, longest first, and
# laid out step by step without the padding. At step $s$ only the first $B_s$ sequences are still
# running, so the network works on a shrinking batch, and each sequence stops where it ends.

# %%
packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
print("running at each step:", packed.batch_sizes.tolist(), "longest first:", packed.sorted_indices)

tokens_of = iter(words["en"].decode(packed.data))
grid = [[next(tokens_of) for _ in range(size)] for size in packed.batch_sizes.tolist()]
figure, (left, right) = plot.subplots(1, 2, width=10, height=1.9)
layouts = {"padded": [words["en"].decode(column) for column in padded.T], "packed": grid}
for axes, (name, columns) in zip((left, right), layouts.items(), strict=True):
    for x, column in enumerate(columns):
        for y, word in enumerate(column):
            shade = "0.75" if word == "<pad>" else plot.COLORS[5]
            axes.text(x, -y, word, ha="center", va="center", bbox=dict(facecolor=shade, pad=4))
    axes.set(xlim=(-0.6, len(columns) - 0.4), ylim=(-2.5, 0.5), title=f"{name}: a column a step")
    axes.axis("off")
plot.show(
    figure,
    alt="Left: three sentences in rows, short ones filled with pad tokens. Right: sorted by length, "
    "the same tokens without padding, in columns of 3, 2, 2, 2 and 2 tokens.",
)

# %%
alone = mt.stack([encoder(E_source[words["en"].encode(p.source)])[1][0] for p in three])  # (B, H)
_, from_packed = encoder(packed._replace(data=E_source[packed.data]))
_, from_padded = encoder(E_source[padded].transpose(0, 1))
for name, last in {"packed": from_packed[0], "padded": from_padded[0]}.items():
    distance = (last - alone).abs().amax(1)
    same = [value < 1e-6 for value in distance.tolist()]
    print(f"{name}: the same last state as each sentence alone: {same}")

# %% [markdown]
# Packed sequences give the states of the sentences alone; padded ones are wrong for all but the longest.
# And packing is work saved, here 5 of 15 cells. (`_replace` puts vectors in the place of token numbers:
# we embed after packing, so that no padding is ever looked up.)
#
# ### A mask for the loss
#
# The decoder's sequences are padded too. Its states at `<pad>` come after `</s>` and disturb nobody, since
# nothing reads them. But their losses must not count: the model would be paid for predicting `<pad>`,
# which is easy and useless. The **mask** $m_{bt}$ is 1 at tokens and 0 at padding, and the loss is the
# mean over real tokens only:
#
# $$L = \frac{\sum_{b,t} m_{bt}\, \ell_{bt}}{\sum_{b,t} m_{bt}} .$$

# %%
padded_target, _ = words["de"].encode_batch(
    [p.target for p in three], start=True, end=True, batch_first=True
)
inputs, targets = padded_target[:, :-1], padded_target[:, 1:]  # (B, T), (B, T)
states, _ = decoder(E_target[inputs].transpose(0, 1), from_packed)
scores = out(states).transpose(0, 1)  # (B, T, V)

each = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none")
mask = (targets != PAD).flatten()
by_hand = (each * mask).sum() / mask.sum()
by_library = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=PAD)
print("mask by hand equals ignore_index:", mt.allclose(by_hand, by_library))
print(f"share of padding among the targets: {1 - mask.float().mean().item():.2f}")

# %% [markdown]
# Divide by the number of real tokens, not by $B \cdot T$ and not by sentence: with the mean of each
# sentence's mean, a token of a short sentence would weigh more than one of a long one.
#
# ## 5. The model and its training
#
# All of it in one class. The encoder reads in both directions, since the source is there as a whole
# (chapter 01, section 4): two GRUs of width $H/2$, and their last states side by side start the decoder,
# which has width $H = 128$.


# %%
class Seq2Seq(nn.Module):
    """Source tokens (B, S) and target tokens so far (B, T) to scores of the next ones (B, T, V)."""

    def __init__(self, source_size, target_size, width=128, layers=1):
        super().__init__()
        self.source_embedding = nn.Embedding(source_size, width)
        self.target_embedding = nn.Embedding(target_size, width)
        self.encoder = nn.GRU(width, width // 2, layers, bidirectional=True)
        self.decoder = nn.GRU(width, width, layers, batch_first=True)
        self.out = nn.Linear(width, target_size)

    def encode(self, source, lengths):
        """The last states of both directions side by side, (layers, B, H)."""
        packed = pack_padded_sequence(source, lengths, batch_first=True, enforce_sorted=False)
        packed = packed._replace(data=self.source_embedding(packed.data))
        _, last = self.encoder(packed)  # (2 layers, B, H/2): forward, backward, forward, ...
        return mt.cat([last[0::2], last[1::2]], dim=-1)

    def decode(self, tokens, state):
        """Scores of the token after each of ``tokens`` (B, T), and the decoder's last state."""
        states, state = self.decoder(self.target_embedding(tokens), state)  # (B, T, H)
        return self.out(states), state

    def forward(self, source, lengths, tokens):
        return self.decode(tokens, self.encode(source, lengths))[0]


# %% [markdown]
# We turn the pairs into numbers once, and cut batches out of these.


# %%
class Corpus(NamedTuple):
    """Pairs, and their tokens: source (N, S), lengths (N), target with <s> and </s> (N, T + 1)."""

    pairs: list
    language: str
    source: mt.Tensor
    lengths: mt.Tensor
    target: mt.Tensor

    def batch(self, rows):
        """Source, lengths and target of some rows, no longer than the longest of them."""
        lengths, target = self.lengths[rows], self.target[rows]
        longest = int((target != PAD).sum(1).max())
        return self.source[rows][:, : int(lengths.max())], lengths, target[:, :longest]


def corpus(pairs, language):
    """The pairs as a Corpus."""
    source, padding = words["en"].encode_batch([p.source for p in pairs], batch_first=True)
    target, _ = words[language].encode_batch(
        [p.target for p in pairs], start=True, end=True, batch_first=True
    )
    return Corpus(pairs, language, source, (~padding).sum(1), target)


def train(model, optimizer, data, steps, batch_size=64):
    """Train with teacher forcing; the loss at each step. Called again, it goes on."""
    losses = []
    with tqdm(total=steps, desc="training") as progress:
        while len(losses) < steps:
            for rows in mt.randperm(len(data.pairs)).split(batch_size):
                source, lengths, target = data.batch(rows)
                scores = model(source, lengths, target[:, :-1])
                loss = F.cross_entropy(
                    scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
                progress.update()
                if len(losses) == steps:
                    break
    return losses


# %% [markdown]
# `trained` makes a model and trains it, and remembers it, so that later sections need not train again. It
# keeps a copy after each number of steps in `checkpoints`.


# %%
class Run(NamedTuple):
    """Copies of a model after some numbers of steps, and the loss of every step."""

    models: dict
    losses: list


german, held_out_german = corpus(pairs["training"], "de"), corpus(pairs["held out"], "de")


@cache
def trained(seed, checkpoints, rate):
    """A model that translates to German, trained from this seed."""
    mt.manual_seed(seed)
    model = Seq2Seq(len(words["en"]), len(words["de"]))
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    run = Run({}, [])
    for steps in checkpoints:
        run.losses.extend(train(model, optimizer, german, steps - len(run.losses)))
        run.models[steps] = deepcopy(model)
    return run


run = trained(seed=0, checkpoints=(300,), rate=4e-3)
model = run.models[300]

# %%
figure, axes = plot.subplots(width=7, height=2.6)
plot.losses(axes, {"training": run.losses}, smooth=10, ylabel="loss (nats a token)")
axes.axhline(math.log(len(words["de"])), color="0.5", linewidth=1, linestyle="-")
axes.text(300, math.log(len(words["de"])), "guessing evenly", ha="right", va="bottom")
plot.show(
    figure, alt="The loss a token falls from that of even guessing to near zero in 300 steps."
)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

# %% tags=["nbval-ignore-output"]
print("mean loss of steps 291 to 300:", round(sum(run.losses[-10:]) / 10, 3))

# %% [markdown]
# ## 6. Translating
#
# At test time there is no teacher: the decoder reads what it has written itself, until it says `</s>`.
# **Greedy** decoding takes the likeliest token at each step.


# %%
@mt.no_grad()
def translate_one(model, source_words, language="de", limit=40):
    """The greedy translation of one sentence, a list of words."""
    source = words["en"].encode(source_words).unsqueeze(0)  # (1, S)
    state = model.encode(source, [len(source_words)])
    token, said = mt.tensor([[START]]), []
    for _ in range(limit):
        scores, state = model.decode(token, state)
        token = scores[:, -1].argmax(-1, keepdim=True)  # (1, 1)
        if token.item() == END:
            break
        said += words[language].decode(token[0])
    return said


# %% [markdown]
# `minitorch.decoding.greedy` does this for a batch. It takes a function that gets all tokens so far and
# the state it returned the time before; ours reads the last token only, for the state holds the rest.


# %%
def next_scores(model):
    """The model as the step function that the decoders of the library want."""
    return lambda tokens, state: model.decode(tokens[:, -1:], state)


@mt.no_grad()
def translate(model, data, limit=40):
    """Greedy translations of a corpus, lists of words."""
    state = model.encode(data.source, data.lengths)
    start = mt.full((len(data.pairs), 1), START)
    tokens = greedy(next_scores(model), start, limit, end=END, pad=PAD, state=state)
    return words[data.language].decode_batch(tokens, batch_first=True)


translations = translate(model, held_out_german)
one_by_one = [translate_one(model, pair.source) for pair in pairs["held out"][:50]]
print("alone and in a batch, the same translations:", translations[:50] == one_by_one)

# %% tags=["nbval-ignore-output"]
for pair, said in list(zip(pairs["held out"], translations, strict=True))[:8]:
    mark = "right" if said == pair.target else "WRONG"
    print(f"{pair.number:>11,} {mark}  {join_pieces(said, 'de')}")
