# %% [markdown]
# # 01 Recurrent neural networks
#
# A multilayer perceptron takes one vector of fixed size. Text, speech and measurements come as
# sequences, of any length, in which order matters. This chapter builds the first network that
# reads such input: one small network, applied step by step, that hands a summary of what it has
# read to its own next step.
#
# **After this chapter you will be able to**
#
# - turn text into numbers, and split it so that a test on it means something;
# - write a recurrent cell, unroll it, stack it, and run it in both directions;
# - compute its gradient by hand (backpropagation through time) and say why it vanishes or explodes;
# - train it with three kinds of loss, clip its gradient, and truncate its history;
# - train a language model on real English prose, measure its perplexity, and write text with it.
#
# **Time**: about 120 minutes to read and try; all cells together run in less than a minute.
# **Before it**: chapter 00 (tensors, gradients, softmax and cross-entropy, perplexity, spectral
# radius).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it
# still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the
# original stays in `notebooks/`.

# %%
import math
import textwrap
import tracemalloc
from collections import Counter

from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd import record_operations
from textbook import plot
from textbook.data import Vocabulary, language_reference, split, windows
from textbook.experiments import Experiments

lab = Experiments("01")

# %% [markdown]
# The library has PyTorch's names. In PyTorch you would write `import torch` for
# `import minitorch as mt`, and almost everything else would stay as it is.

# %% [markdown]
# ## 1. From text to numbers
#
# A network reads numbers, so we cut text into **tokens** and number them. Tokens may be words,
# characters, or pieces of words (chapter 11). The list of all known tokens is the **vocabulary**;
# $V$ is its size. One sentence will go with us through this chapter. Its tokens are words:

# %%
sentence = "we read one word at a time".split()

known = ["<unk>", "<s>", *sorted(set(sentence))]
number_of = {token: number for number, token in enumerate(known)}
print([number_of[token] for token in sentence])

# %% [markdown]
# Two entries are no words. `<unk>` stands for every token that we have not met before, and `<s>`
# marks the start of a text; section 9 shows what that is good for. The book's `Vocabulary` does
# the same, and it puts frequent tokens first.

# %%
vocabulary = Vocabulary(sentence, specials=["<unk>", "<s>"])
tokens = vocabulary.encode(sentence)  # (T,)
print("numbers:", tokens.tolist())
print("back again:", " ".join(vocabulary.decode(tokens)))
print("unknown word:", vocabulary.decode(vocabulary.encode(["we", "read", "music"])))

# %% [markdown]
# A number is only a name: token 8 is not twice token 4. As in chapter 00, an **embedding** gives
# each token a vector, row $i$ of a matrix $E$ of shape $(V, d)$. Usually $E$ is learned; here we fix
# it, with $d = 2$, so that every number of the next sections can be checked with a pencil.

# %%
E = mt.tensor(
    [
        [0.0, 0.0],  # <unk>
        [0.0, 0.0],  # <s>
        [0.2, -0.4],  # a
        [-0.6, 0.2],  # at
        [0.8, 0.0],  # one
        [0.4, 0.8],  # read
        [-0.8, -0.6],  # time
        [1.0, 0.6],  # we
        [0.0, -1.0],  # word
    ]
)
x = E[tokens]  # (T, d)
print(x.shape)

# %% [markdown]
# What could we do with these $T$ vectors without a new idea? We could add them up, which works for
# any $T$. But a sum does not know the order:

# %%
backwards = vocabulary.encode(sentence[::-1])
print("same sum read backwards:", mt.allclose(E[tokens].sum(0), E[backwards].sum(0)))

# %% [markdown]
# ### Training and validation text
#
# We want to know how a model does on text that it has not seen, so we keep some aside. With text
# this is easy to get wrong. Cutting out random windows does not do: they overlap, so the model has
# seen most of each test window in training. We cut once, and keep the last tenth. Even then the two
# parts may hold copies of the same paragraph.
#
# Our corpus is the reference manual of the Python language, which every Python carries along. Its
# topics repeat whole passages; `language_reference` keeps each paragraph once, and leaves out
# programs and grammar, so that what remains is English prose, one paragraph a line.

# %%
paragraphs = language_reference().splitlines()
training_text, validation_text = split(paragraphs, validation=0.1)

print("no paragraph is in both:", not set(training_text) & set(validation_text))

# %% tags=["nbval-ignore-output"]
for name, part in {"training": training_text, "validation": validation_text}.items():
    print(f"{name:10} {len(part):4} paragraphs, {sum(map(len, part)):7,} characters")
print()
print(training_text[40])

# %% [markdown]
# ## 2. The recurrent cell
#
# The idea of Elman (1990): keep a vector $h_t$, the **hidden state**, that sums up what was read up to
# step $t$, and compute it from the new input $x_t$ and the state before:
#
# $$h_t = \tanh(W_{ih}\, x_t + W_{hh}\, h_{t-1} + b)$$
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $x_t$ | input at step $t = 1 \dots T$ | $(d)$ |
# | $h_t$ | hidden state after step $t$, with $h_0 = 0$ | $(H)$ |
# | $W_{ih}$ | from the input to the hidden state | $(H, d)$ |
# | $W_{hh}$ | from the hidden state to the next one | $(H, H)$ |
# | $b$ | bias | $(H)$ |
#
# The same three parameters serve every step. So the number of parameters does not depend on $T$, and
# the cell can read a sequence of any length. In formulas our vectors are columns, as in deck 2 of the
# lectures and in PyTorch's documentation; in code they are rows, so that a batch is a matrix, and $W x$ becomes
# `x @ W.T`.

# %%
W_ih = mt.tensor([[1.0, 0.5], [-0.5, 1.0], [0.6, -0.4]])
W_hh = mt.tensor([[0.5, -0.6, 0.2], [0.7, 0.4, -0.3], [-0.2, 0.5, 0.8]])
b = mt.tensor([0.1, 0.0, -0.1])


def cell(x_t, h):
    """One step: input (..., d) and state (..., H) give the next state (..., H)."""
    return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()


h_1 = cell(x[0], mt.zeros(3))
print(h_1)

# %% [markdown]
# With a pencil: $x_1 = (1.0, 0.6)$ for "we", the state before is zero, and so the first component is
# $\tanh(1.0 \cdot 1.0 + 0.5 \cdot 0.6 + 0.1) = \tanh(1.4) = 0.885$.

# %% [markdown]
# ## 3. Unrolling
#
# To read the sentence, apply the cell once a token. Drawn step by step, the loop becomes a deep
# network with one layer a step, all layers sharing their weights: the network is **unrolled**.


# %%
def unroll(cell, inputs, h):
    """All states h_1 ... h_T, stacked (T, ..., H), from inputs (T, ..., d) and h_0."""
    states = []
    for x_t in inputs:
        h = cell(x_t, h)
        states.append(h)
    return mt.stack(states)


states = unroll(cell, x, mt.zeros(3))  # (T, H)
print(states)

# %%
figure, (left, right) = plot.subplots(1, 2, width=9, height=2.8, width_ratios=[1.5, 1])
plot.unrolled(left, sentence, title="unrolled: one step a token")
units = ["unit 1", "unit 2", "unit 3"]
plot.heatmap(right, states.T, column_labels=sentence, row_labels=units, vmin=-1, vmax=1)
right.tick_params(axis="x", rotation=45)
right.set_title("states $h_1 ... h_7$")
plot.show(
    figure,
    alt="Left: seven states in a row, each fed by its word and by the state before. "
    "Right: the three units of the state change with every word.",
)

# %% [markdown]
# The last state depends on the order of the words, as a sum did not:

# %%
states_backwards = unroll(cell, E[backwards], mt.zeros(3))
print("forwards ", states[-1])
print("backwards", states_backwards[-1])

# %% [markdown]
# ### In matrices, and in the library
#
# A loop in Python over $T$ steps is slow. Two things help. First, many sequences are read side by side:
# the input becomes $(T, B, d)$ and the state $(B, H)$, and our `cell` needs no change.

# %%
batch = mt.stack([x, E[backwards]], dim=1)  # (T, B, d), B = 2
batch_states = unroll(cell, batch, mt.zeros(2, 3))  # (T, B, H)
print("same as one by one:", mt.allclose(batch_states[:, 0], states, atol=1e-6))

# %% [markdown]
# Second, all products $W_{ih} x_t$ can be taken at once before the loop, since they do not wait for the
# state. What waits is $W_{hh} h_{t-1}$: the $T$ steps have to be taken one after the other, on any
# hardware.
#
# `nn.RNN` does this inside a single operation. It has two biases, $b_{ih}$ and $b_{hh}$, which are simply
# added (that is for the sake of PyTorch). With our weights it gives our numbers:

# %%
rnn = nn.RNN(input_size=2, hidden_size=3)
with mt.no_grad():
    rnn.weight_ih_l0.copy_(W_ih)
    rnn.weight_hh_l0.copy_(W_hh)
    rnn.bias_ih_l0.copy_(b)
    rnn.bias_hh_l0.zero_()

output, last = rnn(x)  # (T, H) and (layers, H)
print("all states agree:", mt.allclose(output, states, atol=1e-6))
print("last state:", last)

# %% [markdown]
# ## 4. Deeper, and in both directions
#
# **Deep.** One cell has one layer of nonlinearity a step. We may stack: the states of layer $l$ are the
# inputs of layer $l + 1$, each layer with its own weights,
# $h_t^{(l)} = \tanh(W_{ih}^{(l)} h_t^{(l-1)} + W_{hh}^{(l)} h_{t-1}^{(l)} + b^{(l)})$ with $h_t^{(0)} = x_t$.
#
# **Bidirectional.** The state $h_t$ knows only $x_1 \dots x_t$. To judge a word by what follows it, run a
# second network from the end to the beginning, and lay the two states side by side:
# $[h_t^{(f)}, h_t^{(b)}]$, of width $2H$.

# %%
figure, (left, right) = plot.subplots(1, 2, width=9, height=3)
plot.unrolled(left, sentence[:5], layers=2, title="deep: two layers")
plot.unrolled(right, sentence[:5], bidirectional=True, title="bidirectional")
plot.show(
    figure,
    alt="Left: two rows of states, both running forward, the lower feeding the upper. "
    "Right: two rows fed by the words, one running forward and one backward.",
)


# %%
def cell_of(rnn, suffix):
    """The cell of one layer and direction inside an nn.RNN."""
    names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    W_ih, b_ih, W_hh, b_hh = (getattr(rnn, f"{name}_{suffix}") for name in names)
    return lambda x_t, h: (x_t @ W_ih.T + b_ih + h @ W_hh.T + b_hh).tanh()


mt.manual_seed(0)
deep = nn.RNN(2, 3, num_layers=2)
lower = unroll(cell_of(deep, "l0"), x, mt.zeros(3))  # the first layer's states ...
upper = unroll(cell_of(deep, "l1"), lower, mt.zeros(3))  # ... are the second layer's inputs
print("deep, by hand agrees with nn.RNN:", mt.allclose(upper, deep(x)[0], atol=1e-6))

# %%
both = nn.RNN(2, 3, bidirectional=True)
forward = unroll(cell_of(both, "l0"), x, mt.zeros(3))
backward = unroll(cell_of(both, "l0_reverse"), x.flip(0), mt.zeros(3)).flip(0)
by_hand = mt.cat([forward, backward], dim=-1)  # (T, 2H)
print("bidirectional, by hand agrees with nn.RNN:", mt.allclose(by_hand, both(x)[0], atol=1e-6))

# %% [markdown]
# The backward states are turned round again after the loop (the second `flip`), so that row $t$ of both
# halves speaks of word $t$. Forgetting that is the usual mistake.
#
# Which words can a state depend on? We ask the engine: the norm of the gradient of the *sum* of $h_t$'s
# units at $x_s$, for every pair of steps.


# %%
def influence(network, x):
    """Norms of the gradient of the sum of output_t at x_s, (T, T), row t, column s."""
    rows = []
    for t in range(len(x)):
        inputs = x.detach().requires_grad_()
        network(inputs)[0][t].sum().backward()
        rows.append(inputs.grad.norm(dim=1))
    return mt.stack(rows)


figure, panels = plot.subplots(1, 2, width=8, height=3.4)
networks = {"forward": rnn, "bidirectional": both}
for axes, (name, network) in zip(panels, networks.items(), strict=True):
    reach = influence(network, x)
    plot.heatmap(axes, reach, row_labels=sentence, column_labels=sentence)
    axes.tick_params(axis="x", rotation=45)
    axes.set(title=name, xlabel="input word", ylabel="state after the word")
    print(f"{name:13} states that see a later word: {int((reach.triu(1) > 0).sum())} of 21 pairs")
plot.show(
    figure,
    alt="Influence of each input word on each state: a lower triangle for the forward network, "
    "the full square for the bidirectional one.",
)

# %% [markdown]
# ### Why not for generation
#
# Deck 2 says that RNN language models do not see later time steps, and that bidirectional RNNs
# can address this. For labeling a text that is there, they do. For *predicting the next
# token*, they do not: the backward half has read the very token that is to be predicted. We can show
# it on text that nobody can predict, tokens thrown with a die. The loss of an honest model is
# $\log 6 = 1.79$ at best, give or take the luck of a batch.


# %%
class NextToken(nn.Module):
    """One-hot tokens (T, B) through an RNN to scores (T, B, V), and the last state."""

    def __init__(self, size, hidden, **options):
        super().__init__()
        self.size = size
        self.rnn = nn.RNN(size, hidden, **options)
        self.out = nn.Linear(hidden * (2 if self.rnn.bidirectional else 1), size)

    def forward(self, tokens, h=None):
        states, h = self.rnn(F.one_hot(tokens, self.size).float(), h)
        return self.out(states), h


# %% save
def token_loss(scores, targets):
    """Cross-entropy of scores (T, B, V) against targets (T, B), averaged over steps and batch."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


# %%
def train_on_dice(bidirectional, steps=150):
    """The loss after training to predict the next throw."""
    mt.manual_seed(0)
    model = NextToken(6, 32, bidirectional=bidirectional)
    optimizer = mt.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        dice = mt.randint(0, 6, (12, 32))  # (T, B)
        scores, _ = model(dice)
        loss = token_loss(scores[:-1], dice[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


dice_losses = {"forward": train_on_dice(False), "bidirectional": train_on_dice(True)}

# %% tags=["nbval-ignore-output"]
for name, loss in dice_losses.items():
    print(f"{name:13} loss {loss:.3f}   (honest models average {math.log(6):.3f} or more)")

# %%
print("forward network stays at chance:", dice_losses["forward"] > 1.6)
print("bidirectional network has read the answer:", dice_losses["bidirectional"] < 0.5)

# %% [markdown]
# A loss that is too good to be true usually is. When we sample from such a model, there is no future
# to read, and it is worth nothing.

# %% [markdown]
# ## 5. Three losses
#
# What we ask of the states decides the loss. In all three, $W_o$ of shape $(C, H)$ (and a bias) maps a
# state to the output.
#
# | task | output | loss |
# | --- | --- | --- |
# | a token for each step | scores $W_o h_t$ | $\frac1T \sum_t \mathrm{CE}(y_t, \mathrm{softmax}(W_o h_t))$ |
# | numbers for each step | $\hat y_t = W_o h_t$ | $\frac1T \sum_t \lVert y_t - \hat y_t \rVert^2$ |
# | one class for the sequence | scores $W_o h_T$, or $W_o \frac1T \sum_t h_t$ | $\mathrm{CE}(y, \mathrm{softmax}(\cdot))$ |
#
# CE is the cross-entropy of chapter 00, $-\log$ of the probability given to the right class. The output
# has no $\tanh$: cross-entropy wants scores of any size, and a forecast may be larger than 1.
#
# ### Next character: cross-entropy at every step
#
# Our sentence again, now as characters, over and over. A window may start anywhere, so after the
# first character "e" the model cannot know which of the four "e" it is. Later it can, if its state
# remembers. We look at the loss of each position.

# %%
letters = Vocabulary(" ".join(sentence) + " ")
circle = letters.encode((" ".join(sentence) + " ") * 3)
size = len(circle) // 3


def window_batch(batch_size, length):
    """Windows of the circle that start anywhere: inputs and targets, each (T, B)."""
    starts = mt.randint(0, size, (1, batch_size))
    at = starts + mt.arange(length + 1).unsqueeze(1)
    return circle[at[:-1]], circle[at[1:]]


mt.manual_seed(0)
model = NextToken(len(letters), 32)
optimizer = mt.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(150):
    inputs, targets = window_batch(16, 20)
    scores, _ = model(inputs)
    loss = token_loss(scores, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
inputs, targets = window_batch(256, 20)
scores, _ = model(inputs)
each = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none")
by_position = each.reshape(targets.shape).mean(1).detach()  # (T,)

figure, axes = plot.subplots(width=6, height=2.6)
axes.bar(range(1, 21), by_position.numpy())
axes.set(xlabel="position in the window", ylabel="mean loss (nats)", xticks=range(1, 21))
plot.show(
    figure,
    alt="Mean loss at each of 20 positions: about one nat at the first, near zero from the fourth on.",
)

# %% tags=["nbval-ignore-output"]
print("loss by position:", [round(value, 2) for value in by_position.tolist()])

# %%
print("the first character leaves doubt:", by_position[0].item() > 0.5)
print("from the sixth on there is none:", by_position[5:].max().item() < 0.1)

# %% [markdown]
# The network is the same at every position. What differs is the state: it has gathered context.
#
# ### Forecasting: squared error at every step
#
# A series made by a formula, two waves, with a little noise in training. At each step the model says
# what comes next; the loss is the mean squared error. The simplest rival says "as now".


# %%
def series(t):
    """A sum of two waves at the times t."""
    return (2 * mt.pi * t / 24).sin() + 0.5 * (2 * mt.pi * t / 9).sin()


class Forecaster(nn.Module):
    """Numbers (T, B) to the next numbers (T, B), and the last state."""

    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.RNN(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, values, h=None):
        states, h = self.rnn(values.unsqueeze(-1), h)
        return self.out(states).squeeze(-1), h


mt.manual_seed(0)
forecaster = Forecaster(32)
optimizer = mt.optim.Adam(forecaster.parameters(), lr=5e-3)
for _ in range(300):
    times = mt.arange(49).unsqueeze(1) + 72 * mt.rand(16)  # (T + 1, B)
    waves = series(times) + 0.05 * mt.randn(*times.shape)
    predicted, _ = forecaster(waves[:-1])
    loss = F.mse_loss(predicted, waves[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# To look further ahead than one step, we feed the forecast back in as the next input. (Both waves together
# repeat every 72 steps, so at step 500 the series is nothing new.)

# %%
seen, ahead = 48, 40
truth = series(mt.arange(500, 500 + seen + ahead)).unsqueeze(1)  # (T, 1)
with mt.no_grad():
    one_step, h = forecaster(truth[:seen])
    value, forecast = one_step[-1:], []
    for _ in range(ahead):
        forecast.append(value.item())
        value, h = forecaster(value, h)
    one_step_error = F.mse_loss(one_step[12:-1], truth[13:seen]).item()
as_now_error = F.mse_loss(truth[12 : seen - 1], truth[13:seen]).item()

figure, axes = plot.subplots(width=8, height=2.8)
axes.plot(truth.squeeze(1).tolist(), label="series")
axes.plot(range(1, seen), one_step[:-1].squeeze(1).tolist(), label="one step ahead")
axes.plot(range(seen, seen + ahead), forecast, label="fed with its own forecasts")
axes.axvline(seen - 0.5, color="0.5")
axes.set(xlabel="step", ylabel="value")
axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
plot.show(
    figure,
    alt="The series, the one-step forecasts that follow it, and forty steps forecast without "
    "seeing the series, which keep its shape.",
)

# %% tags=["nbval-ignore-output"]
print(f"squared error one step ahead: model {one_step_error:.4f}, 'as now' {as_now_error:.4f}")

# %%
print("the model's error is below a tenth of the rival's:", one_step_error < 0.1 * as_now_error)

# %% [markdown]
# ### Classification: the last state or the pooled states
#
# One label for a whole sequence. Somewhere in 60 tokens of noise stands one of two marks, and the label
# says which. The classifier looks either at the last state $h_T$, or at the mean of all states
# (**mean pooling**). The last state has to carry the mark from where it stood to the end; the mean
# only has to notice it once. (With padded batches, the mean must run over the real steps only.)


# %%
def marked_sequences(batch_size, length=60, noise=8):
    """Tokens (T, B) with one of the marks ``noise`` and ``noise + 1`` somewhere, and which (B)."""
    tokens = mt.randint(0, noise, (length, batch_size))
    label = mt.randint(0, 2, (batch_size,))
    tokens[mt.randint(0, length, (batch_size,)), mt.arange(batch_size)] = noise + label
    return tokens, label


class Classifier(nn.Module):
    """Tokens (T, B) to class scores (B, 2), from the last state or from the mean of all."""

    def __init__(self, pooled, hidden=32):
        super().__init__()
        self.pooled = pooled
        self.rnn = nn.RNN(10, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, tokens):
        states, last = self.rnn(F.one_hot(tokens, 10).float())  # (T, B, H), (1, B, H)
        return self.out(states.mean(0) if self.pooled else last[0])


def train_classifier(pooled, steps=300):
    """Accuracy on fresh sequences, every 25 steps."""
    mt.manual_seed(0)
    model = Classifier(pooled)
    optimizer = mt.optim.Adam(model.parameters(), lr=2e-3)
    accuracy = []
    for step in range(1, steps + 1):
        tokens, label = marked_sequences(32)
        loss = F.cross_entropy(model(tokens), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            tokens, label = marked_sequences(400)
            accuracy.append((model(tokens).argmax(-1) == label).float().mean().item())
    return accuracy


accuracies = {"last state": train_classifier(False), "mean of states": train_classifier(True)}

# %%
figure, axes = plot.subplots(width=6, height=2.6)
for name, accuracy in accuracies.items():
    axes.plot(range(25, 301, 25), accuracy, marker="o", label=name)
axes.set(xlabel="training steps", ylabel="accuracy", ylim=(0.4, 1.03))
axes.legend()
plot.show(
    figure,
    alt="Accuracy against training steps: with the mean of states it rises above 0.9, with the last "
    "state it stays lower.",
)

# %% tags=["nbval-ignore-output"]
for name, accuracy in accuracies.items():
    print(f"{name:15}", "  ".join(f"{value:.2f}" for value in accuracy))

# %%
final = {name: sum(accuracy[-4:]) / 4 for name, accuracy in accuracies.items()}
print("mean of states above 0.85 at the end:", final["mean of states"] > 0.85)
print("last state below 0.75 at the end:", final["last state"] < 0.75)

# %% [markdown]
# That is one rate and one seed. Change `length` to 40 and see what the last state does. Chapter 03 makes
# this comparison a proper experiment. Why distance makes it hard is the subject of the next two sections.
#
# ## 6. Backpropagation through time
#
# The unrolled network is an ordinary deep network, so backpropagation applies unchanged; because its
# layers are time steps it is called **backpropagation through time**, BPTT. One thing is special: all
# steps share $W_{hh}$, so its gradient is a sum over steps.
#
# Write $a_t = W_{ih} x_t + W_{hh} h_{t-1} + b$, so $h_t = \tanh(a_t)$, and let $L$ be the sum of
# the losses $\ell_t$ of all steps. $h_t$ acts on $L$ in two ways, through its own output and
# through the next state:
#
# $$\frac{\partial L}{\partial h_t} = \frac{\partial \ell_t}{\partial h_t} + W_{hh}^\top \frac{\partial L}{\partial a_{t+1}},
# \qquad \frac{\partial L}{\partial a_t} = (1 - h_t^2) \odot \frac{\partial L}{\partial h_t},
# \qquad \frac{\partial L}{\partial W_{hh}} = \sum_{t=1}^{T} \frac{\partial L}{\partial a_t}\, h_{t-1}^\top .$$
#
# All three read from the end of the sequence to its beginning. We take our sentence: after each of the
# first six words, predict the next one. Double precision, to compare exactly.

# %%
mt.manual_seed(1)
weights = {"ih": W_ih, "hh": W_hh, "b": b, "out": mt.randn(len(vocabulary), 3)}
weights = {name: value.double().requires_grad_() for name, value in weights.items()}
inputs, targets = x[:-1].double(), tokens[1:]  # (6, d), (6,)

h, hidden = mt.zeros(3).double(), []
for x_t in inputs:
    h = (weights["ih"] @ x_t + weights["hh"] @ h + weights["b"]).tanh()
    hidden.append(h)
scores = mt.stack(hidden) @ weights["out"].T  # (6, V)
loss = F.cross_entropy(scores, targets)
loss.backward()
print(f"loss {loss.item():.4f}")

# %% [markdown]
# Now by hand. From chapter 00, the gradient of the cross-entropy with respect to the scores is
# softmax minus one-hot (divided by $T$ for the mean).

# %%
with mt.no_grad():
    d_scores = (scores.softmax(-1) - F.one_hot(targets, len(vocabulary))) / len(targets)
    d_a, d_W_hh, share = mt.zeros(3).double(), mt.zeros(3, 3).double(), []
    for t in reversed(range(len(hidden))):
        d_h = weights["out"].T @ d_scores[t] + weights["hh"].T @ d_a
        d_a = (1 - hidden[t] ** 2) * d_h
        before = hidden[t - 1] if t > 0 else mt.zeros(3).double()
        d_W_hh += mt.outer(d_a, before)
        share.insert(0, mt.outer(d_a, before).norm().item())

difference = (d_W_hh - weights["hh"].grad).abs().max().item()
print("by hand equals the engine's gradient:", difference < 1e-12)

# %%
figure, axes = plot.subplots(width=6, height=2.4)
axes.bar([f"{t + 1}: {word}" for t, word in enumerate(sentence[:-1])], share)
axes.set(xlabel="step", ylabel="norm")
plot.show(
    figure,
    alt="What each of six steps adds to the gradient of W_hh: nothing at the first step, most at the "
    "third, little at the last.",
)
print("norm of what each step adds:", [round(value, 3) for value in share])

# %% [markdown]
# The first step adds nothing, since $h_0 = 0$. The gradients of $W_{ih}$ and $b$ are the same sums with
# $x_t$ and $1$ in place of $h_{t-1}$.
#
# ## 7. Vanishing and exploding gradients
#
# Follow one loss back to an early state. Each step back multiplies by $W_{hh}^\top\,
# \mathrm{diag}(1 - h^2)$:
#
# $$\frac{\partial \ell_T}{\partial h_t} = \Big(\prod_{k=t+1}^{T} W_{hh}^\top \operatorname{diag}(1 - h_k^2)\Big)\, \frac{\partial \ell_T}{\partial h_T}.$$
#
# A product of $T - t$ matrices behaves like a power: chapter 00 showed that powers of a matrix shrink
# or grow exponentially with the spectral radius. Here $1 - h^2 \le 1$ shrinks in addition. So the
# gradient is bound to **vanish** with distance, or to **explode**, with little in between.
#
# ### The gradient against the distance (C1)
#
# $W_{hh}$ has random entries of standard deviation $g / \sqrt H$; then its spectral radius is about $g$,
# the **gain**. $H = 64$ units, 60 steps of random input. We plot the norm of
# $\partial \ell_T / \partial h_t$ against $T - t$.
#
# This is our first experiment with two settings. What you run here is the **quick** one. The **full** one,
# with more seeds, was run with `python book.py experiment 01` and recorded; pictures and tables show both.


# %%
def gradient_norms(gain, seed, hidden=64, steps=60):
    """Norm of d loss_T / d h_t at each distance T - t = 0, 1, ..., for an untrained RNN."""
    mt.manual_seed(seed)
    W_in = mt.randn(hidden, 8).double() / 16
    W = (mt.randn(hidden, hidden).double() * gain / hidden**0.5).requires_grad_()
    h, states = mt.zeros(hidden).double(), []
    for x_t in mt.randn(steps, 8).double():
        h = (W_in @ x_t + W @ h).tanh()
        h.retain_grad()
        states.append(h)
    (h @ mt.randn(hidden).double() / hidden**0.5).backward()
    return [state.grad.norm().item() for state in reversed(states)]


@lab.experiment(
    "C1",
    quick=dict(gains=[0.5, 1.0, 1.5, 3.0], seeds=[0]),
    full=dict(gains=[0.5, 1.0, 1.5, 3.0], seeds=[0, 1, 2, 3, 4]),
)
def distance(gains, seeds):
    return {str(gain): [gradient_norms(gain, seed) for seed in seeds] for gain in gains}


here = distance.run()
full = distance.recorded

# %%
figure, axes = plot.subplots(width=7, height=3.4)
for gain, runs in here.items():
    [line] = axes.plot(runs[0], label=f"gain {gain}")
    if full:
        low, high = (map(pick, zip(*full["result"][gain], strict=True)) for pick in (min, max))
        band = dict(alpha=0.25, color=line.get_color(), linewidth=0)
        axes.fill_between(range(60), list(low), list(high), **band)
axes.set(yscale="log", xlabel="distance T - t", ylabel="norm of d loss / d h")
axes.set_title("line: quick, measured here; band: full, recorded, five seeds")
axes.legend(loc="lower left")
plot.show(
    figure,
    alt="Norm of the gradient against distance on a log scale: straight lines that fall for small "
    "gain and rise for large gain.",
)

# %% tags=["nbval-ignore-output"]
print("distance       ", "".join(f"{d:>10}" for d in (0, 10, 20, 40, 59)))
for gain, runs in here.items():
    print(f"quick, gain {gain:>4}", "".join(f"{runs[0][d]:10.1e}" for d in (0, 10, 20, 40, 59)))
for gain, runs in (full["result"] if full else {}).items():
    middle = [sorted(run[d] for run in runs)[len(runs) // 2] for d in (0, 10, 20, 40, 59)]
    print(f"full,  gain {gain:>4}", "".join(f"{value:10.1e}" for value in middle))

# %%
vanishes = all(run[40] < 1e-10 * run[0] for run in here["0.5"])
explodes = all(run[40] > 1e2 * run[0] for run in here["3.0"])
print("C1 holds: at distance 40 below 1e-10 of its size (gain 0.5):", vanishes)
print("          at distance 40 above 100 times its size (gain 3):", explodes)

# %% [markdown]
# On a log scale the curves are nearly straight: exponential in the distance. Where the edge between the two
# lies depends on the inputs, and training moves the weights away from it. What vanishes is not the gradient as
# a whole but the part that comes from far away: the network learns what is near and is deaf to what is far.
# Chapter 02 cures this by another cell. For the explosion there is a simpler cure.
#
# > **C1 · holds.** *The lectures* (deck 2, "Training RNNs: Challenges"): "as the sequence length grows, the
# > gradient is more likely to explode or vanish".
# >
# > *Measured*: The norm of the gradient at distance 40, from 1.0 at distance 0 (medians of five seeds):
# > 2.6e-12 at gain 0.5, 4.1e-2 at gain 1, 4.2 at gain 1.5 and 6.7e4 at gain 3. It turns between gains 1 and
# > 1.5, which keep the gradient alive for 60 steps.
#
# ## 8. Clipping and truncation
#
# ### Gradient clipping (C2)
#
# The loss of a recurrent network has cliffs (Pascanu, Mikolov and Bengio, 2013): on one side the
# gradient is tame, at the edge it is enormous, and a single step along it throws the weights far away.
# The *direction* is still useful. So keep it, and bound the length:
#
# $$g \leftarrow g \cdot \min\Big(1, \frac{\tau}{\lVert g \rVert}\Big).$$
#
# Here $g$ is the gradient of **all** parameters together, one long vector with one norm. To clip the
# gradient of each weight matrix by itself is something else: large ones shrink and small ones do not, so
# the direction changes. A small example:

# %%
d_W1, d_W2 = mt.tensor([30.0, 40.0]), mt.tensor([0.6, 0.8])  # norms 50 and 1


def clipped(grad, norm, threshold=1.0):
    return grad * min(1.0, threshold / float(norm))


joint = mt.cat([d_W1, d_W2])
per_matrix = mt.cat([clipped(d, d.norm()) for d in (d_W1, d_W2)])
overall = clipped(joint, joint.norm())
for name, result in {"per matrix": per_matrix, "global norm": overall}.items():
    cosine = (joint @ result / (joint.norm() * result.norm())).item()
    print(f"{name:12} norm {result.norm().item():.3f}, cosine with the gradient {cosine:.3f}")

# %% [markdown]
# `nn.utils.clip_grad_norm_(parameters, max_norm)` does the global one, after `backward` and before
# `step`, and returns the norm before clipping. We try it where it hurts: recall the first symbol after
# 20 steps, with large recurrent weights (gain 1.5) and plain gradient descent with momentum. (Adam
# divides by the size of the gradient anyway, and so hides the effect.) Chance is a loss of
# $\log 8 = 2.08$.


# %%
def recall_first(max_norm, lr, seed, steps, length=20, symbols=8):
    """Losses and gradient norms while an RNN learns to recall the first of ``length`` symbols."""
    mt.manual_seed(seed)
    model = NextToken(symbols, 64)
    nn.init.normal_(model.rnn.weight_hh_l0, std=1.5 / 64**0.5)
    optimizer = mt.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses, norms = [], []
    for _ in range(steps):
        sequence = mt.randint(0, symbols, (length, 32))
        scores, _ = model(sequence)
        loss = F.cross_entropy(scores[-1], sequence[0])
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms


def final_loss(max_norm, lr, seed, steps):
    """Mean loss of the last 50 steps."""
    losses, _ = recall_first(max_norm, lr, seed, steps)
    return sum(losses[-50:]) / 50


@lab.experiment(
    "C2",
    quick=dict(rates=[0.03], seeds=[0], steps=250),
    full=dict(rates=[0.003, 0.01, 0.03, 0.1, 0.3], seeds=[0, 1, 2], steps=400),
)
def clipping(rates, seeds, steps):
    return {
        name: {str(lr): [final_loss(limit, lr, seed, steps) for seed in seeds] for lr in rates}
        for name, limit in {"not clipped": math.inf, "clipped at 1": 1.0}.items()
    }


here = clipping.run()
full = clipping.recorded

# %%
typical = {}
figure, (left, right) = plot.subplots(1, 2, width=9, height=3)
for name, limit in {"not clipped": math.inf, "clipped at 1": 1.0}.items():
    losses, norms = recall_first(limit, lr=0.03, seed=0, steps=250)
    left.plot(losses, label=name)
    typical[name] = (sorted(norms)[125], max(norms))
    if full:
        finals = full["result"][name]
        median = [sorted(runs)[1] for runs in finals.values()]
        right.plot(list(map(float, finals)), median, marker="o", label=name)
for axes in (left, right):
    axes.axhline(math.log(8), color="0.5", linewidth=1)
left.set(xlabel="step", ylabel="loss", title="quick: lr 0.03")
right.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="final loss")
right.set_title("full: median of 3 seeds")
left.legend()
plot.show(
    figure,
    alt="Without clipping the loss falls, jumps back up and stays far from zero, with clipping it goes to "
    "zero; recorded over learning rates, clipping widens the range that works.",
)

# %% tags=["nbval-ignore-output"]
for name, (median, largest) in typical.items():
    print(f"quick, {name:12} norm of the gradient: median {median:.1f}, largest {largest:.1f}")
for name, finals in here.items():
    print(f"quick, {name:12} lr 0.03   final loss {finals['0.03'][0]:.3f}")
for name, finals in (full["result"] if full else {}).items():
    for lr, runs in finals.items():
        print(f"full,  {name:12} lr {lr:6} final losses", [round(run, 3) for run in runs])

# %%
print("C2 holds: final loss without clipping above 0.5:", here["not clipped"]["0.03"][0] > 0.5)
print("          final loss with clipping below 0.2:", here["clipped at 1"]["0.03"][0] < 0.2)

# %% [markdown]
# So clipping does not make a better model. It widens the range of learning rates that work, and it saves the
# run that meets a cliff.
#
# > **C2 · holds at large learning rates.** *The lectures* (deck 2, "Gradient Clipping (Pascanu et al.,
# > 2013)"): scale a gradient above a threshold down to the threshold, a "common strategy to deal with
# > exploding gradients".
# >
# > *Measured*: Final loss, three seeds, chance 2.08. At rates 0.03 and 0.1 all runs without clipping end at
# > 1.8 to 10.9; with it, five of six below 0.01 and one at 0.77. At 0.003 and 0.01 no clipping is needed
# > (0.004 to 0.022 without it), and at 0.003 it slows training down (0.049 to 0.071 with it). At 0.3 neither
# > works.
#
# ### Truncated backpropagation through time (C3)
#
# BPTT keeps all states until the end of the sequence. A text of 160,000 characters is one sequence, and
# we cannot keep it all, nor wait for its end before the first update. So we cut it into windows of $w$
# steps. The **state is carried over** from one window to the next; the **gradient is not**. In code this
# is one word, `detach`: same values, no history.
#
# ```python
# h = None
# for inputs, targets in windows(text, batch_size, w):
#     scores, h = model(inputs, h)
#     h = h.detach()          # carry the state, cut the gradient
#     ...                     # loss, zero_grad, backward, step
# ```
#
# First the cost: a text of 512 steps, read in windows of $w$. We count the operations through which each
# `backward` has to go, and the peak of memory in use. (While a window is built, the states of the one before
# are still held. Only $w = 512$ has none before it, so its peak is too small beside the others.)


# %%
def cost_of_windows(window, length=512, batch_size=8, hidden=64):
    """Operations in the longest backward pass, and peak memory in bytes."""
    cell, h = nn.RNNCell(8, hidden), mt.zeros(batch_size, hidden)
    longest = 0
    tracemalloc.start()
    for _ in range(0, length, window):
        with record_operations() as names:
            states = unroll(cell, mt.zeros(window, batch_size, 8), h)
            states.sum().backward()
        longest = max(longest, len(names))
        h = states[-1].detach()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"operations": longest, "bytes": peak}


# %% [markdown]
# Then what is lost: a stream of random symbols, and at each step the task is to name the symbol of 8
# steps before (chance: 0.25). All windows read the same number of time steps, so that the shorter ones
# get more updates.


# %%
def delayed_recall(window, lr, seed, total_steps, delay=8, symbols=4):
    """Accuracy of naming the symbol ``delay`` steps back, trained with windows of this length."""
    mt.manual_seed(seed)
    model = NextToken(symbols, 64)
    optimizer = mt.optim.Adam(model.parameters(), lr=lr)
    stream, h = mt.randint(0, symbols, (delay, 32)), None
    for _ in range(total_steps // window):
        stream = mt.cat([stream[-delay:], mt.randint(0, symbols, (window, 32))])
        scores, h = model(stream[delay:], h)
        h = h.detach()
        loss = token_loss(scores, stream[:-delay])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with mt.no_grad():
        test = mt.randint(0, symbols, (200, 64))
        guesses = model(test)[0].argmax(-1)
    return (guesses[delay:] == test[:-delay]).float().mean().item()


@lab.experiment(
    "C3",
    quick=dict(
        lengths=[8, 16],
        rates=[3e-3],
        seeds=[0],
        total_steps=5000,
        cost_lengths=[8, 64, 512],
    ),
    full=dict(
        lengths=[4, 8, 9, 12, 16, 24],
        rates=[1e-3, 3e-3, 1e-2],
        seeds=[0, 1, 2],
        total_steps=8000,
        cost_lengths=[8, 16, 32, 64, 128, 256, 512],
    ),
)
def truncation(lengths, rates, seeds, total_steps, cost_lengths):
    def accuracies(window, lr):
        return [delayed_recall(window, lr, seed, total_steps) for seed in seeds]

    return {
        "accuracy": {str(w): {str(lr): accuracies(w, lr) for lr in rates} for w in lengths},
        "cost": {str(w): cost_of_windows(w) for w in cost_lengths},
    }


here = truncation.run()
full = truncation.recorded


# %%
def best_rate(by_rate):
    """The runs at the learning rate whose median is highest."""
    return max(by_rate.values(), key=lambda runs: sorted(runs)[len(runs) // 2])


def by_window(table):
    """The entries of a table in the order of the windows that are its keys."""
    return {window: table[str(window)] for window in sorted(map(int, table))}


results = {"full": full["result"], "quick": here} if full else {"quick": here}
figure, (left, right) = plot.subplots(1, 2, width=9, height=3)
for name, result in results.items():
    cost, rates = by_window(result["cost"]), by_window(result["accuracy"])
    left.plot(cost.keys(), [counted["bytes"] / 2**20 for counted in cost.values()], marker="o")
    middle = [sorted(best_rate(runs))[len(best_rate(runs)) // 2] for runs in rates.values()]
    right.plot(rates.keys(), middle, marker="o", label=name)
left.set(xlabel="window w", ylabel="peak memory (MiB)")
right.axvline(8.5, color="0.5", linewidth=1)
right.axhline(0.25, color="0.5", linewidth=1)
right.set(xlabel="window w", ylabel="accuracy at delay 8", ylim=(0, 1.03))
right.legend(loc="lower right")
plot.show(
    figure,
    alt="Left: memory grows with the window. Right: accuracy at delay 8 is near chance "
    "for windows up to 8 and near one for longer ones.",
)

# %% tags=["nbval-ignore-output"]
for w, cost in by_window(here["cost"]).items():
    print(f"window {w:>3}: {cost['operations']:5} operations, peak {cost['bytes'] / 1024:7.0f} KiB")
for name, result in results.items():
    for w, by_rate in by_window(result["accuracy"]).items():
        print(f"{name:5} window {w:>2}: accuracy", [round(run, 2) for run in best_rate(by_rate)])

# %%
cost = here["cost"]
accuracy = {w: by_rate["0.003"][0] for w, by_rate in here["accuracy"].items()}
print("operations in one backward pass:", {w: counted["operations"] for w, counted in cost.items()})
ratio = cost["512"]["bytes"] / cost["8"]["bytes"]
print("C3 holds: window 512 needs over 16 times the memory of 8:", ratio > 16)
print("          window 8 stays below 0.45:", accuracy["8"] < 0.45)
print("          window 16 gets above 0.9:", accuracy["16"] > 0.9)

# %% [markdown]
# At a window of 8, the symbol 8 steps back is never inside the window with its target: no gradient ever
# says that it should have been kept. A window of 9 has one such pair, and that is enough. The *state* reaches
# further back than the gradient, but only with what it keeps by chance: an untrained state may echo the last
# few symbols, so we did not take a short delay.
#
# > **C3 · holds.** *The lectures* (deck 2, "Truncated Backpropagation Through Time"): "limit the number of
# > time steps to backprop through". What that gives and what it costs, we added.
# >
# > *Measured*: For windows of 8, 64 and 512 steps a backward pass goes through 36, 260 and 2,052 operations,
# > and memory peaks at 148, 688 and 3,972 KiB. Accuracy at delay 8 (chance 0.25; three seeds, the best of
# > three learning rates): 0.25 to 0.33 with a window of 8, 0.96 to 0.97 with 9, 1.00 with 16.

# %% [markdown]
# ## 9. A language model
#
# A **language model** gives a probability to every text. The chain rule of probability splits it, without
# any assumption, into one factor a token:
#
# $$P(x_1, \dots, x_T) = \prod_{t=1}^{T} P(x_t \mid x_{<t}).$$
#
# Each factor is a distribution over $V$ tokens given the past, and an RNN has just the shape for it: the
# state after $x_{t-1}$ sums up the past, and $\mathrm{softmax}(W_o h)$ is the distribution of what comes
# next. Mind the shift: **the output at $x_t$ predicts $x_{t+1}$**. Then nothing predicts $x_1$, unless we put
# a **start token** `<s>` before it. For our sentence and the weights of section 6:

# %%
start = vocabulary.encode(["<s>"])
inputs, targets = mt.cat([start, tokens[:-1]]), tokens  # the same tokens, one step apart
with mt.no_grad():
    scores = unroll(cell, E[inputs], mt.zeros(3)) @ weights["out"].T.float()  # (T, V)
    log_p = scores.log_softmax(-1)[mt.arange(len(targets)), targets]
for before, after, value in zip(vocabulary.decode(inputs), sentence, log_p.tolist(), strict=True):
    print(f"P({after:4} | ... {before:4}) = {math.exp(value):.3f}")
print(f"P(sentence) = {log_p.sum().exp().item():.2e}")
print(f"perplexity  = {math.exp(-log_p.mean().item()):.2f}")

# %% [markdown]
# **Perplexity** is $\exp$ of the mean loss per token (chapter 00): the number of equally likely tokens that
# would be as hard to guess. Guessing evenly among the 9 tokens has perplexity 9. Our random weights do
# worse than that: they are sure of wrong things.
#
# **Teacher forcing.** In training, the input at each step is the true token before, whatever the model
# would have said. So all targets are known in advance, and one pass over the text trains every step.
#
# | | step 1 | step 2 | step 3 | step 4 |
# | --- | --- | --- | --- | --- |
# | training: input | `<s>` | we | read | one |
# | training: target | we | read | one | word |
# | sampling: input | `<s>` | what was drawn | what was drawn | what was drawn |
#
# In sampling, the model feeds on its own output, and may get into places that training never showed it.
#
# ### Train it
#
# Tokens are now characters of the reference manual. Each paragraph starts with `<s>`, which at the same
# time ends the one before. Characters that are rare in the training text become `<unk>`.


# %% save
def characters(paragraphs):
    """All paragraphs as one list of tokens, <s> before each and after the last."""
    return [token for paragraph in paragraphs for token in ["<s>", *paragraph]] + ["<s>"]


# %%
letters = Vocabulary(characters(training_text), specials=["<unk>", "<s>"], min_count=20)
training = letters.encode(characters(training_text))
validation = letters.encode(characters(validation_text))


# %% save
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


# %% save
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


# %%
mt.manual_seed(0)
model = LanguageModel(len(letters))
before_training = write(model, letters)
untrained_loss = mean_loss(model, validation)

# %% tags=["nbval-ignore-output"]
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(letters)} tokens")
print(f"perplexity on the validation text before training: {math.exp(untrained_loss):.1f}")
print(textwrap.fill(before_training, width=90))

# %% [markdown]
# The loop has everything in it: windows with the state carried over, teacher forcing, cross-entropy at
# every step, clipping. It takes about 20 seconds; watch the loss. The learning rate falls to zero, so that
# the last steps settle.

# %%
steps, rate = 600, 4e-3
optimizer = mt.optim.Adam(model.parameters(), lr=rate)
history, checks = [], {}
progress = tqdm(total=steps, desc="training")
while len(history) < steps:
    h = None
    for inputs, targets in windows(training, batch_size=32, length=64):
        scores, h = model(inputs, h)
        h = h.detach()
        loss = token_loss(scores, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - len(history) / steps)
        optimizer.step()
        history.append(loss.item())
        progress.update()
        progress.set_postfix(loss=f"{history[-1]:.2f}")
        if len(history) % 100 == 0:
            checks[len(history)] = mean_loss(model, validation)
        if len(history) == steps:
            break
progress.close()

# %% [markdown]
# For comparison, two models that only count: how often each character occurs (unigram), and how often it
# follows each other one (bigram, with one added to each count).

# %%
seen_in_training, in_validation = training.tolist(), validation.tolist()
singles = Counter(seen_in_training)
pairs = Counter(zip(seen_in_training[:-1], seen_in_training[1:], strict=True))


def counting_loss(probability):
    """Mean loss on the validation text of a model that gives P(token | token before)."""
    steps = zip(in_validation[:-1], in_validation[1:], strict=True)
    return -sum(math.log(probability(a, b)) for a, b in steps) / (len(in_validation) - 1)


V = len(letters)
losses = {
    "all equal": math.log(V),
    "unigram": counting_loss(lambda a, b: (singles[b] + 1) / (len(training) + V)),
    "bigram": counting_loss(lambda a, b: (pairs[a, b] + 1) / (singles[a] + V)),
    "RNN": mean_loss(model, validation),
    "RNN, training text": mean_loss(model, training[: len(validation)]),
}

figure, axes = plot.subplots(width=7.5, height=3.2)
axes.plot(range(1, steps + 1), history, linewidth=0.8, label="training, each step")
axes.plot([0, *checks], [untrained_loss, *checks.values()], marker="o", label="validation")
for name in ("unigram", "bigram"):
    axes.axhline(losses[name], color="0.5", linewidth=1)
    axes.text(steps, losses[name], name, ha="right", va="bottom")
axes.set(xlabel="step", ylabel="loss (nats a character)")
axes.legend()
plot.show(
    figure,
    alt="Training and validation loss fall together, pass the unigram and the bigram model, and part "
    "a little at the end, the training loss below.",
)

# %% tags=["nbval-ignore-output"]
for name, loss in losses.items():
    print(f"{name:20} loss {loss:.3f}   perplexity {math.exp(loss):6.2f}")

# %%
print("perplexity below half of the bigram's:", math.exp(losses["RNN"] - losses["bigram"]) < 0.5)
print("training text is easier than unseen text:", losses["RNN, training text"] < losses["RNN"])

# %% [markdown]
# Now let it write. Before training it had no idea of letters; now it spells many words, sets quotes and
# full stops, and has the tone of a manual. What it says makes no sense: a state of 256 numbers and 20
# seconds of training go no further.

# %% tags=["nbval-ignore-output"]
print(textwrap.fill(f"before: {before_training}", width=90))
mt.manual_seed(1)
for prompt in ("The ", "If a class ", ""):
    print("\n" + textwrap.fill(f"after: {write(model, letters, prompt, length=300)}", width=90))

# %% [markdown]
# ## 10. Choosing the next token
#
# The model gives a distribution; which token to take is another matter. `draw` takes a token with the
# probability that the model gives it. There are others; all change the scores $z$ before the softmax.
#
# - **Greedy**: always the most likely token.
# - **Temperature** $\tau$: $\mathrm{softmax}(z / \tau)$. Below 1 it sharpens, above 1 it flattens; towards 0 it
#   is greedy.
# - **Top-k**: keep the $k$ most likely tokens, give the others probability 0.
# - **Top-p** (nucleus; Holtzman et al., 2020): keep the fewest most likely tokens whose probabilities add up
#   to at least $p$. Where the model is sure, few remain; where it is not, many.


# %%
def greedy(scores):
    return scores.argmax(-1, keepdim=True)


def with_temperature(scores, temperature):
    return scores / temperature


def top_k(scores, k):
    """Scores (V) with all but the k largest at minus infinity."""
    smallest_kept = scores.topk(k)[0][-1]
    return scores.masked_fill(scores < smallest_kept, -math.inf)


def top_p(scores, p):
    """Scores (V) with all but the nucleus of probability p at minus infinity."""
    ordered, order = scores.softmax(-1).sort(descending=True)
    likelier = ordered.cumsum(0) - ordered  # probability of all tokens before this one
    kept = scores.clone()
    kept[order[likelier >= p]] = -math.inf
    return kept


# %% [markdown]
# In top-p, a token is dropped when those before it already reach $p$. The token that crosses the line
# stays: dropping it too would leave less than $p$, and nothing at all where one token has more than $p$.

# %%
example = mt.tensor([0.5, 0.25, 0.15, 0.07, 0.03]).log()
ways = {
    "as it is": example,
    "temperature 0.5": with_temperature(example, 0.5),
    "temperature 2": with_temperature(example, 2.0),
    "top-k, k = 2": top_k(example, 2),
    "top-p, p = 0.8": top_p(example, 0.8),
}
figure, panels = plot.subplots(1, len(ways), width=10, height=2.2, sharey=True)
for axes, (name, changed) in zip(panels, ways.items(), strict=True):
    axes.bar(list("ABCDE"), changed.softmax(-1).tolist())
    axes.set_title(name)
    print(f"{name:16}", [round(value, 3) for value in changed.softmax(-1).tolist()])
panels[0].set_ylabel("probability")
plot.show(
    figure,
    alt="Five bars of a distribution as it is, sharpened, flattened, cut to two tokens, and cut to three.",
)

# %% tags=["nbval-ignore-output"]
choices = {
    "greedy": greedy,
    "temperature 0.5": lambda scores: draw(with_temperature(scores, 0.5)),
    "temperature 1": draw,
    "temperature 1.5": lambda scores: draw(with_temperature(scores, 1.5)),
    "top-k, k = 5": lambda scores: draw(top_k(scores, 5)),
    "top-p, p = 0.8": lambda scores: draw(top_p(scores, 0.8)),
}
for name, choose in choices.items():
    mt.manual_seed(2)
    text = write(model, letters, "The ", length=160, choose=choose)
    print(textwrap.fill(f"{name}: {text}", width=90), "\n")

# %% [markdown]
# Greedy text runs in circles: the likeliest continuation of a phrase is often the phrase itself. High
# temperature breaks words, since many unlikely characters together are likely. The cuts remove that tail.
#
# **Try it**: put a text of your own in place of the manual, `split(open("my_text.txt").read().splitlines())`;
# double `hidden`; train with windows of 8 instead of 64 and look at the perplexity; take the clipping
# away and raise the learning rate.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | right is | where |
# | --- | --- | --- |
# | $h_t = [1, \theta(W^{(1)} x_t + W_h h_{t-1})]$ with $h_0$ all zeros (deck 2) | $h_0 = [1, 0, \dots, 0]$: the leading 1 stands in for the bias, which is then a column of $W_h$; without it the first step has no bias | § 2 |
# | $P(x) \approx o_1(x_1) \cdot o_2(x_2, h_1) \cdots$ (deck 2) | the output at $x_t$ predicts $x_{t+1}$, and a start token predicts $x_1$ | § 9 |
# | that a language model does not see later steps "can be addressed by bidirectional RNNs" (deck 2) | for labeling, yes; when the next token is to be predicted, the backward half has read it | § 4 |
# | clip the gradient $\nabla_W$ of a weight matrix (deck 2) | usually the norm of all parameters together, which keeps the direction | § 8 |
#
# </details>
#
# ## Summary
#
# - An RNN applies one cell step by step; its state sums up what was read. Parameters do not depend on the
#   length, states do: layers may be stacked, and a second network may read backward, though not to predict
#   what comes next.
# - The loss fits the task: cross-entropy or squared error at every step, cross-entropy on the last or the
#   pooled state.
# - BPTT is backpropagation on the unrolled network; gradients of shared weights add up over steps.
# - The gradient from afar vanishes or explodes exponentially (C1). Clipping by the global norm bounds the
#   step (C2). Truncation bounds memory and work, and gives up dependencies longer than the window (C3).
# - A language model multiplies the probabilities of each token given those before. Start token, teacher
#   forcing, perplexity on unseen text; sampling with temperature, top-k, top-p.
#
# What remains: the state is one vector for everything read so far, the far past is out of reach of the
# gradient, and the steps have to be taken one after the other. Chapter 02 works on the second, chapters 03
# and 04 on the first, chapter 05 on the third.
#
# **Exercises**: [`../exercises/01_rnn/01_rnn.ipynb`](../exercises/01_rnn/01_rnn.ipynb)
#
# **Read on**: Elman (1990), *Finding structure in time*. Werbos (1990), *Backpropagation through time*.
# Bengio, Simard and Frasconi (1994), *Learning long-term dependencies with gradient descent is difficult*.
# Schuster and Paliwal (1997), *Bidirectional recurrent neural networks*. Mikolov et al. (2010), *Recurrent
# neural network based language model*. Sutskever, Martens and Hinton (2011), *Generating text with recurrent
# neural networks*. Pascanu, Mikolov and Bengio (2013), *On the difficulty of training recurrent neural
# networks*. Holtzman et al. (2020), *The curious case of neural text degeneration*.
