# %% [markdown]
# # 02 LSTM and GRU
#
# *The keys near the old house ___ lost.* Was or were? The answer stands five words back, in one
# letter. A reader who comes to the blank must still know that there were several keys, although a
# single house has come by since. The plain RNN of chapter 01 rewrites its whole memory at every word.
# This chapter gives it a memory that is *added to* instead, and **gates** that decide what is
# written, kept and shown. At the end we find the cell of a trained network that holds this letter. We
# turn that one number round, and the verb follows.
#
# **After this chapter you will be able to**
#
# - write an LSTM cell and a GRU cell from tensors, and say what each gate is for;
# - set the weights of a cell by hand so that it stores a bit, and explain why that survives any
#   distance;
# - predict from the forget bias which initialization keeps gradients alive longer;
# - compare RNN, GRU and LSTM fairly: rates tuned for each, several seeds and budgets, a rival that
#   deserves the name;
# - find a cell that means something, and test whether the network uses it.
#
# **Time**: about 120 minutes to read and try; the side roads behind the summary take 25 more. All
# cells together run in less than a minute.
# **Before it**: chapter 01 (the recurrent cell, backpropagation through time, vanishing gradients,
# clipping, the language model).
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If
# it still fails, restart the kernel and run all cells. Your copy in `my/` is yours to change; the
# original stays in `notebooks/`. Folded cells hold the code that draws and judges; a click opens
# them.

# %%
import math
from collections import Counter, defaultdict

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_01 import LanguageModel, characters, mean_loss, token_loss
from textbook.data import Vocabulary, first_edition, split, windows
from textbook.diagrams import cells as diagrams
from textbook.lab import Budgets, Lab, Tuned, colored_text, finding, measured

lab = Lab("02")

# %% [markdown]
# ## 1. What breaks: a memory that is rewritten
#
# What does a reader do with our sentence, word by word?

# %% evidence
# What the reader does at each word: a drawing
figure, axes = plot.subplots(width=8, height=1.7)
keys = "the keys near the old house were lost .".split()
diagrams.kept_word(axes, keys, 1, [2, 3, 4, 5], 6, "more than one")
plot.show(
    figure,
    alt="The sentence as a row of words. At 'keys' an arrow leads up into a memory, which runs as a "
    "line above 'near the old house', none of which is let in, and comes down at 'were'.",
)

# %% [markdown]
# Three things happen. At *keys* something is **written**: there is more than one. Over *near the old
# house* it is **kept**, and the single house is not let in. At the verb it is **shown**. And after the
# full stop the memory can be emptied for the next sentence.
#
# Can a unit of a plain RNN keep a number? Take one unit, no input, and let it remember 0.6:
# $h_t = \tanh(w\,h_{t-1})$ from $h_0 = 0.6$. Beside it, a memory that is only ever *added to*:
# $c_t = c_{t-1} + 0$.


# %%
def follow(step, steps=30):
    """The states that ``step`` makes of 0.6, and the slope d state_T / d state_0 at each T."""
    start = mt.tensor(0.6).double().requires_grad_()
    state, states, slopes = start, [0.6], [1.0]
    for _ in range(steps):
        state = step(state)
        [slope] = mt.autograd.grad(state, [start], retain_graph=True)
        states.append(state.item())
        slopes.append(slope.item())
    return states, slopes


memories = {
    "tanh(0.5 h)": follow(lambda h: (0.5 * h).tanh()),
    "tanh(h)": follow(lambda h: h.tanh()),
    "tanh(1.5 h)": follow(lambda h: (1.5 * h).tanh()),
    "c + 0": follow(lambda c: c + 0.0),
}
# %% evidence
# Four memories of one number: the states and their slopes
figure, (left, right) = plot.subplots(1, 2, width=9, height=2.8)
for name, (states, slopes) in memories.items():
    left.plot(states, label=name)
    right.plot(slopes, label=name)
    print(f"{name:12} state after 30 steps {states[-1]:.3f}, slope {slopes[-1]:.1e}")
left.set(xlabel="step", ylabel="state", title="what becomes of 0.6", ylim=(-0.05, 1.05))
right.set(xlabel="step T", ylabel="d state_T / d state_0", yscale="log", title="slope")
right.legend(fontsize=8, loc="lower left")
plot.show(
    figure,
    alt="Left: three states of a tanh unit leave 0.6, downward or to a fixed point; the added "
    "state stays. Right: their slopes fall on a log scale, that of the added state stays at one.",
)

# %% [markdown]
# On the left, each $\tanh$ unit drifts away from 0.6. With weights 0.5 and 1 it drifts to 0. With 1.5 it runs to 0.859,
# from wherever above zero it starts: it keeps the *sign* of its start and forgets the number. On the right is the slope
# $\partial h_T / \partial h_0$: how much of a change at the start is still felt after $T$ steps. It is a product of one
# factor a step (chapter 01), and it shrinks. The dotted sum keeps any number, and its slope is 1. (Chapter 01's network of
# gain 1.5 did keep its gradient. It had an input at every step that kept it moving; a unit left alone comes to rest.)
#
# But a memory that never changes is of no use. Something has to decide, at each word and for each unit: write, keep, show.
#
# ## 2. The memory cell and its gates
#
# Who decides? A **gate** is a number between 0 (closed) and 1 (open) that multiplies something. It is
# computed from what the network sees at this word: a sigmoid of a linear map of $x_t$ and $h_{t-1}$.
# So a gate is learned, and it can open at one word and close at the next. Long short-term memory,
# **LSTM**, has three gates for each unit. Its memory is the **memory cell** $c_t$. Here they come one
# at a time.
#
# ### Keep: the forget gate

# %% evidence
# The forget gate and the line on top, lit: a drawing
figure, axes = plot.subplots(width=6.5, height=2.6)
diagrams.lstm(axes, lit=["keep"])
plot.show(
    figure,
    alt="One LSTM cell. Dark: the memory runs from left to right along the top and is multiplied "
    "once, by the forget gate, which sees the input and the old hidden state. All else is faint.",
)

# %% [markdown]
# $$f_t = \sigma(x_t W_{ih}^{f\,\top} + h_{t-1} W_{hh}^{f\,\top} + b^f)$$
#
# The memory comes in from the left and is multiplied by $f_t$. At *near*, *the*, *old* and *house* the
# gate should be near 1: what came in goes out. After the full stop it should be near 0: the next
# sentence has a subject of its own.
#
# ### Write: the input gate and the candidate

# %% evidence
# The input gate and the candidate, lit: a drawing
figure, axes = plot.subplots(width=6.5, height=2.6)
diagrams.lstm(axes, lit=["write"])
plot.show(
    figure,
    alt="The same cell. Dark: the input gate times the candidate, which is added to the memory.",
)

# %% [markdown]
# $$i_t = \sigma(x_t W_{ih}^{i\,\top} + h_{t-1} W_{hh}^{i\,\top} + b^i) \qquad
# g_t = \tanh(x_t W_{ih}^{g\,\top} + h_{t-1} W_{hh}^{g\,\top} + b^g)$$
#
# The **candidate** $g_t$ is what could be written: say $+1$ for a plural, $-1$ for a singular. It is
# the plain RNN's cell. The input gate $i_t$ decides whether it is written: yes at *keys*, no at
# *house*. Their product is added. So far we have the whole memory:
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t$$
#
# ### Show: the output gate

# %% evidence
# The output gate, lit: a drawing
figure, axes = plot.subplots(width=6.5, height=2.6)
diagrams.lstm(axes, lit=["show"])
plot.show(
    figure,
    alt="The same cell. Dark: the tanh of the memory times the output gate is the hidden state.",
)

# %% [markdown]
# $$o_t = \sigma(x_t W_{ih}^{o\,\top} + h_{t-1} W_{hh}^{o\,\top} + b^o) \qquad
# h_t = o_t \odot \tanh(c_t)$$
#
# The rest of the network (the output, the next layer, the gates of the next step) sees only the
# **hidden state** $h_t$. The output gate $o_t$ opens when the memory is needed: before the verb.
#
# ### All of it

# %% evidence
# One step of an LSTM between its neighbours: a drawing
figure, axes = plot.subplots(width=8.5, height=3.4)
diagrams.lstm(axes)
plot.show(
    figure,
    alt="Three equal cells in a row. Inside the middle one the memory runs along a straight line on "
    "top: times the forget gate, plus the input gate times the candidate. Its tanh times the output "
    "gate is the hidden state. Input and old hidden state feed the gates.",
)

# %% [markdown]
# And what should the gates of our unit do, over the sentence?

# %% evidence
# Which gate of one unit is open at which word: a drawing
figure, axes = plot.subplots(width=8, height=1.8)
gates = {
    "keep: forget gate f": [1, 0, 1, 1, 1, 1, 1, 1, 0],
    "write: input gate i": [0, 1, 0, 0, 0, 0, 0, 0, 0],
    "show: output gate o": [0, 0, 0, 0, 0, 1, 0, 0, 0],
}
diagrams.gates_over(axes, keys, gates)
plot.show(
    figure,
    alt="Three rows of circles over the words of the sentence, full where a gate is open. The forget gate is open at all words "
    "but 'keys' and the full stop, the input gate at 'keys' alone, the output gate at 'house'.",
)

# %% [markdown]
# A full circle is an open gate. At *keys* the old memory goes and the new one is written. It is kept to the full stop. And
# it is shown after *house*, since there the next word may be the verb.
#
# | symbol | meaning | shape |
# | --- | --- | --- |
# | $x_t$ | input at step $t = 1 \dots T$, a row | $(d)$ |
# | $h_t$, $c_t$ | hidden state and memory cell, $h_0 = c_0 = 0$ | $(H)$ |
# | $f_t$, $i_t$, $o_t$ | gates: what is kept, written, shown; between 0 and 1 | $(H)$ |
# | $g_t$ | candidate, between $-1$ and 1 | $(H)$ |
# | $W_{ih}^i$, $W_{ih}^f$, $W_{ih}^g$, $W_{ih}^o$ | from the input | $(H, d)$ each |
# | $W_{hh}^i$, $W_{hh}^f$, $W_{hh}^g$, $W_{hh}^o$ | from the hidden state | $(H, H)$ each |
# | $b^i, b^f, b^g, b^o$ | biases | $(H)$ each |
#
# Vectors are rows, and the weights stand as PyTorch stores them, $(H, d)$ and $(H, H)$; hence the
# $\top$. $\odot$ multiplies element by element: unit 3 of the cell has its own three gates, and no
# other unit touches it on the straight line from $c_{t-1}$ to $c_t$.
#
# To compute with a pencil we take the example sentence of chapter 01, with its fixed vectors
# ($d = 2$). The cell has $H = 2$ units, and weights of few digits.

# %%
sentence = "we read one word at a time".split()
x = mt.tensor(
    [[1.0, 0.6], [0.4, 0.8], [0.8, 0.0], [0.0, -1.0], [-0.6, 0.2], [0.2, -0.4], [-0.8, -0.6]]
)  # (T, d)

W_ih = {
    "i": mt.tensor([[0.5, 1.0], [-0.5, 1.0]]),
    "f": mt.tensor([[-1.0, 0.5], [0.5, -0.5]]),
    "g": mt.tensor([[1.0, 0.5], [-0.8, 1.0]]),
    "o": mt.tensor([[0.5, 0.5], [1.0, -0.5]]),
}
W_hh = {
    "i": mt.tensor([[0.4, -0.6], [0.8, 0.2]]),
    "f": mt.tensor([[0.6, 0.3], [-0.5, 0.7]]),
    "g": mt.tensor([[-0.4, 0.9], [0.5, -0.3]]),
    "o": mt.tensor([[0.2, 0.5], [-0.6, 0.4]]),
}
b = {"i": mt.zeros(2), "f": mt.ones(2), "g": mt.zeros(2), "o": mt.zeros(2)}


# %%
def lstm_step(x_t, h, c):
    """One step: input (..., d), states (..., H) and (..., H) give the next two states."""
    i = (x_t @ W_ih["i"].T + h @ W_hh["i"].T + b["i"]).sigmoid()  # (..., H)
    f = (x_t @ W_ih["f"].T + h @ W_hh["f"].T + b["f"]).sigmoid()
    g = (x_t @ W_ih["g"].T + h @ W_hh["g"].T + b["g"]).tanh()
    o = (x_t @ W_ih["o"].T + h @ W_hh["o"].T + b["o"]).sigmoid()
    c = f * c + i * g
    h = o * c.tanh()
    return h, c


h_1, c_1 = lstm_step(x[0], mt.zeros(2), mt.zeros(2))
print("c_1 =", c_1)
print("h_1 =", h_1)

# %% [markdown]
# With a pencil, for "we", $x_1 = (1.0, 0.6)$, and the first unit:
# $i = \sigma(0.5 + 0.6) = \sigma(1.1) = 0.750$ and $g = \tanh(1.0 + 0.3) = \tanh(1.3) = 0.862$. The
# cell was empty, so the forget gate has nothing to do, and $c = 0.750 \cdot 0.862 = 0.647$. The
# output gate is $o = \sigma(0.5 + 0.3) = \sigma(0.8) = 0.690$, and
# $h = 0.690 \cdot \tanh(0.647) = 0.393$.
#
# ### Four settings of two gates
#
# What can $c_t = f\,c_{t-1} + i\,g_t$ do? Hold the gates still, and feed $g_t$ a few pulses:

# %%
pulses = mt.zeros(30)
pulses[4], pulses[12], pulses[20] = 1.0, 1.0, -1.0


def with_gates(f, i, c=0.5):
    """The cell at all steps, its gates held still."""
    kept = []
    for g in pulses.tolist():
        c = f * c + i * g
        kept.append(c)
    return kept


# %% evidence
# The cell under four settings of its gates
settings = {
    "keep: f = 1, i = 0": with_gates(1.0, 0.0),
    "overwrite: f = 0, i = 1": with_gates(0.0, 1.0),
    "sum up: f = 1, i = 1": with_gates(1.0, 1.0),
    "fade: f = 0.8, i = 0.2": with_gates(0.8, 0.2),
}
figure, panels = plot.subplots(1, 4, width=10, height=2.2, sharey=True)
for axes, (name, kept) in zip(panels, settings.items(), strict=True):
    axes.bar(range(30), pulses.tolist(), color="0.8", width=1.0)
    axes.step(range(30), kept, where="mid")
    axes.set(title=name, xlabel="step")
    axes.title.set_fontsize(9)
    print(f"{name:24} c after steps 1, 5, 13, 30:", [round(kept[t], 2) for t in (0, 4, 12, 29)])
panels[0].set_ylabel("c (pulses: grey)")
plot.show(
    figure,
    alt="Four panels with the same three pulses: a cell that stays at 0.5, one that shows only the "
    "pulse of the moment, one that sums the pulses up, one that fades after each.",
)

# %% [markdown]
# Follow the blue line, the cell; the grey bars are the pulses. It ignores them, copies them, adds them up, or follows them
# slowly and forgets. And the network need not choose once and for all: gates depend on the input, so the same unit may
# overwrite at *keys* and keep at *near*.
#
# ## 3. The loop, one product for all gates, and the library
#
# How do we run the step over a sentence, and fast? First as a loop, as in chapter 01, now with two
# states to carry.

# %%
h = c = mt.zeros(2)
states, cells = [], []
for x_t in x:
    h, c = lstm_step(x_t, h, c)
    states.append(h)
    cells.append(c)
states, cells = mt.stack(states), mt.stack(cells)  # (T, H) each

# %% evidence
# Memory cell and hidden state over the sentence
figure, panels = plot.subplots(1, 2, width=9, height=2.4)
for axes, values, name in zip(panels, (cells, states), ("c", "h"), strict=True):
    rows = [f"${name}$, unit {unit}" for unit in (1, 2)]
    plot.heatmap(
        axes, values.T, column_labels=sentence, row_labels=rows, vmin=-1, vmax=1, cmap="PuOr"
    )
    axes.tick_params(axis="x", rotation=45)
    axes.set_title({"c": "memory cell", "h": "hidden state"}[name])
    print(f"{name}, unit 1:", [round(value, 3) for value in values[:, 0].tolist()])
plot.show(
    figure,
    alt="Two heat maps over the seven words. The cell changes by larger steps and has larger "
    "values than the hidden state, which is a shrunken view of it.",
)

# %% [markdown]
# The hidden state on the right is a shrunken view of the memory on the left.
#
# All four maps read the same $x_t$ and $h_{t-1}$. So we stack their matrices on top of each other,
# in the order $i, f, g, o$, into one $W_{ih}$ of shape $(4H, d)$ and one $W_{hh}$ of shape
# $(4H, H)$, take **one product** each, and cut the result in four. The products with $x_t$ do not
# wait for the state: they are taken for all steps before the loop.


# %%
def lstm(inputs, W_ih, W_hh, b, h, c):
    """All h_t and c_t from inputs (T, ..., d); W_ih (4H, d), W_hh (4H, H), b (4H): i, f, g, o."""
    states, cells = [], []
    for from_input in inputs @ W_ih.T + b:  # (..., 4H)
        i, f, g, o = (from_input + h @ W_hh.T).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
        cells.append(c)
    return mt.stack(states), mt.stack(cells)


stacked = [mt.cat([part[gate] for gate in "ifgo"]) for part in (W_ih, W_hh, b)]
fast_states, fast_cells = lstm(x, *stacked, mt.zeros(2), mt.zeros(2))
print("same states:", mt.allclose(fast_states, states, atol=1e-6))
print("same cells: ", mt.allclose(fast_cells, cells, atol=1e-6))

# %% [markdown]
# `nn.LSTM` keeps its weights in just this form, as `weight_ih_l0` and `weight_hh_l0`, and runs the
# whole loop as one operation. It returns all $h_t$, and the last pair $(h_T, c_T)$. As in `nn.RNN`
# there are two biases that are added.

# %%
library = nn.LSTM(input_size=2, hidden_size=2)
with mt.no_grad():
    for parameter, value in zip(library.parameters(), [*stacked, mt.zeros(8)], strict=True):
        parameter.copy_(value)  # weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0

output, (h_last, c_last) = library(x)  # (T, H), (layers, H), (layers, H)
print("all states agree:", mt.allclose(output, states, atol=1e-6))
print("last cell agrees:", mt.allclose(c_last[0], cells[-1], atol=1e-6))

# %% [markdown]
# The order of the gates is a convention, and not everybody's. Weights copied in another order run
# without an error and give nonsense. Comparing numbers, as we just did, finds it.
#
# **Stacked and bidirectional** networks work as in chapter 01, section 5: the hidden states of a
# layer are the inputs of the next, and a second LSTM may read from the end. Each layer and direction
# has cells of its own, which nobody else sees. (The folded cell builds both from our loop.)


# %% evidence
# Stacked and bidirectional networks from our loop
def layer_of(module, suffix, inputs):
    """All h_t of one layer and direction of an nn.LSTM, by our loop."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    W_ih, W_hh, b_ih, b_hh = (getattr(module, f"{name}_{suffix}") for name in names)
    start = mt.zeros(module.hidden_size)
    return lstm(inputs, W_ih, W_hh, b_ih + b_hh, start, start)[0]


mt.manual_seed(0)
deep = nn.LSTM(2, 3, num_layers=2)
upper = layer_of(deep, "l1", layer_of(deep, "l0", x))
both = nn.LSTM(2, 3, bidirectional=True)
backward = layer_of(both, "l0_reverse", x.flip(0)).flip(0)
side_by_side = mt.cat([layer_of(both, "l0", x), backward], dim=-1)  # (T, 2H)
print("stacked agrees with nn.LSTM:      ", mt.allclose(upper, deep(x)[0], atol=1e-6))
print("bidirectional agrees with nn.LSTM:", mt.allclose(side_by_side, both(x)[0], atol=1e-6))

# %% [markdown]
# ## 4. A cell set by hand
#
# The lecture: *the internal state allows information to move through time without needing to affect
# the hidden representations*. Is that so? We build it. One unit; the input has two numbers, a **bit**
# to be stored ($+1$ or $-1$ at the first step, 0 afterwards), and a **question mark** (1 at the last
# step, 0 before). The weights:
#
# - the candidate is the bit: $g = \tanh(10\,x_\text{bit})$, about $\pm 1$, and exactly 0 without a
#   bit;
# - everything is kept: $f = \sigma(200) = 1$, and anything may be written: $i = \sigma(200) = 1$;
# - the output gate is shut except when asked: $o = \sigma(400\,x_\text{question} - 200)$.
#
# (A gate need not be that open. $\sigma(10)$ keeps 0.9 of a number for 2,000 steps: try it.)
#
# ### A bit behind a closed gate (C30)

# %%
large = 200.0
by_hand = [
    mt.tensor([[0.0, 0.0], [0.0, 0.0], [10.0, 0.0], [0.0, 2 * large]]),  # W_ih, rows i, f, g, o
    mt.zeros(4, 1),  # W_hh
    mt.tensor([large, large, 0.0, -large]),  # b
]


def question(bit, steps):
    """Inputs (T, 2): the bit at the first step, the question mark at the last."""
    inputs = mt.zeros(steps, 2)
    inputs[0, 0], inputs[-1, 1] = bit, 1.0
    return inputs


# %%
@lab.experiment("C30", bit=[1.0, -1.0], steps=[10, 100, 500], full=dict(steps=[10, 100, 2000]))
def hidden_bit(bit, steps):
    inputs, nothing = question(bit, steps).requires_grad_(), mt.zeros(1)
    h_1, c_1 = (states[0] for states in lstm(inputs[:1], *by_hand, nothing, nothing))
    states, cells = lstm(inputs[1:], *by_hand, h_1, c_1)
    to_memory, to_inputs = mt.autograd.grad(states[-1].sum(), [c_1, inputs])
    return {
        "largest |h| before": mt.cat([h_1, states[:-1, 0]]).abs().max().item(),
        "h at the question": states[-1].item(),
        "d h_T / d c_1": to_memory.item(),
        "d h_T / d bit": to_inputs[0, 0].item(),
        "all h": [h_1.item(), *states[:, 0].tolist()],
        "all c": [c_1.item(), *cells[:, 0].tolist()],
    }


# %% evidence
# A bit in the cell and out of sight: figure of 40 steps, table over distances, verdicts
runs = hidden_bit.run()
figure, panels = plot.subplots(1, 2, width=9, height=2.4, sharey=True)
for bit in (1.0, -1.0):
    shown = hidden_bit(bit, 40)
    panels[0].plot(range(1, 41), shown["all c"], label=f"bit {bit:+.0f}")
    panels[1].plot(range(1, 41), shown["all h"])
panels[0].set(xlabel="step", title="memory cell c", ylim=(-1.1, 1.1))
panels[1].set(xlabel="step", title="hidden state h")
panels[0].legend(loc="center right")
plot.show(
    figure,
    alt="The memory cell stays at plus or minus one for forty steps. The hidden state is zero for "
    "both bits until the last step, where it jumps to plus or minus 0.76.",
)
names = ["largest |h| before", "h at the question", "d h_T / d c_1", "d h_T / d bit"]
runs.table("steps", names, bit=1.0)
runs.holds(
    "the hidden state shows nothing until the question",
    lambda rows: rows.values("largest |h| before"),
    below=1e-30,
)
runs.holds(
    "the answer has the sign of the bit at every distance, and is as large",
    lambda rows: [row["h at the question"] * row["bit"] for row in rows],
    between=(0.76, 0.763),
)
runs.holds(
    "its gradient with respect to the stored bit c_1 is the same at every distance",
    lambda rows: rows.values("d h_T / d c_1"),
    between=(0.419, 0.421),
)

# %% [markdown]
# On the left the cell keeps the bit. On the right, until the question, the hidden state is the same for both bits: nothing
# outside this cell can tell which one is stored. A plain RNN cannot do that: what is not in $h_t$ is gone. The gradient of
# the answer with respect to the stored bit, $c_1$, is the same at every distance, since each step multiplies it by $f = 1$.
# But it ends there. $\tanh(10)$ is flat, and lets no gradient through to the *input* bit or to the weights that stored it.
# **A cell that is set hard remembers well and learns nothing.**
#
# > **C30 · holds: A cell set by hand keeps a bit for 2,000 steps while its hidden state stays below 1e-30.**
# > *The lectures* (deck 2, "Long Short-Term Memory (Hochreiter & Schmidhuber, 1997)"): "The internal state
# > allows information to move through time without needing to affect the hidden representations!"
# >
# > *Measured*: A cell set by hand: until it is asked, the hidden state stays below 1e-30 for either bit;
# > asked, it is 0.762 with the sign of the bit, after 10, 100 and 2,000 steps. The gradient at the stored
# > bit is 0.42 at each distance.
#
# ### What the forget gate is for
#
# Our cell is that of 1997: with $f = 1$ it can add, but never empty itself. What happens if one bit comes after the other,
# as in a text without end, and we ask for the latest one? The sum grows, and the last bit drowns in it. The cure (of 2000)
# is a forget gate that closes when a new bit arrives, and so empties the cell first:
# $f = \sigma(200 - 400\,|x_\text{bit}|)$. (We give the cell $|x_\text{bit}|$ as a third input.)

# %%
mt.manual_seed(0)
bits = 2.0 * mt.randint(0, 2, (200,)) - 1
stream = mt.stack([bits, mt.zeros(200), bits.abs()], dim=1)  # (T, 3)


def cell_over_bits(reset):
    """The cell at all steps; the forget gate's weight for a new bit is ``reset``."""
    weights = mt.tensor([[0.0, 0, 0], [0, 0, reset], [10, 0, 0], [0, 0, 0]])
    _, cells = lstm(stream, weights, mt.zeros(4, 1), by_hand[2], mt.zeros(1), mt.zeros(1))
    return cells[:, 0]


# %% evidence
# 200 bits in a row, without and with a forget gate that closes
figure, axes = plot.subplots(width=7, height=2.4)
for name, reset in {"1997: f = 1": 0.0, "2000: f closes at a new bit": -2 * large}.items():
    kept = cell_over_bits(reset)
    axes.plot(kept.tolist(), label=name, linewidth=1)
    right = (kept.sign() == bits).float().mean().item()
    print(f"{name:28} largest |c| {kept.abs().max().item():5.1f}, latest bit right {right:.2f}")
axes.set(xlabel="step", ylabel="cell c")
axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
plot.show(
    figure,
    alt="Without a forget gate the cell wanders away from zero; with one it jumps between plus and "
    "minus one.",
)

# %% [markdown]
# ## 5. The gated recurrent unit
#
# Is all of that needed? Cho et al. (2014) asked, and left out the second state and one gate. The
# **GRU** has only $h_t$, a **reset gate** $r_t$ and an **update gate** $z_t$:

# %% evidence
# One step of a GRU between its neighbours: a drawing
figure, axes = plot.subplots(width=8.5, height=3.9)
diagrams.gru(axes)
plot.show(
    figure,
    alt="Three equal cells in a row. Inside the middle one the only state runs along a straight "
    "line on top: times the update gate z, plus one minus z times the candidate. For the candidate "
    "the old state goes through its matrix first, then the reset gate multiplies the product.",
)

# %% [markdown]
# $$
# \begin{aligned}
# r_t &= \sigma(x_t W_{ih}^{r\,\top} + h_{t-1} W_{hh}^{r\,\top} + b^r) &&\text{reset: how much past the candidate sees}\\
# z_t &= \sigma(x_t W_{ih}^{z\,\top} + h_{t-1} W_{hh}^{z\,\top} + b^z) &&\text{update: how much of the past is kept}\\
# n_t &= \tanh(x_t W_{ih}^{n\,\top} + b_{ih}^n + r_t \odot (h_{t-1} W_{hh}^{n\,\top} + b_{hh}^n)) &&\text{candidate}\\
# h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1} &&\text{the state, an average of new and old}
# \end{aligned}
# $$
#
# In the drawing, the line on top is again the memory. There is one knob where the LSTM has two: $z_t$ lets the old state
# through, and $1 - z_t$ lets the candidate in. Over our sentence:

# %% evidence
# The update gate of one GRU unit over the sentence: a drawing
figure, axes = plot.subplots(width=8, height=1.3)
kept = [1, 0, 1, 1, 1, 1, 1, 1, 0]
diagrams.gates_over(axes, keys, {"keep: z": kept, "write: 1 - z": [1 - share for share in kept]})
plot.show(
    figure,
    alt="Two rows of circles over the words of the sentence. The update gate z is open at all words but 'keys' and the full "
    "stop; one minus z is open at these two alone.",
)

# %% [markdown]
# The second row is the first one turned round: what is kept is not written. (At the full stop something is written, say a
# zero.) There is no third row. The memory is always shown.
#
# Shapes are as above. Mind the order in the candidate: first the product with $W_{hh}^n$, then the reset
# gate, as in PyTorch. (Cho et al. reset before the product.) So the candidate keeps its two biases
# apart: one stands inside the brackets. Part by part:
#
# | LSTM | GRU | |
# | --- | --- | --- |
# | $f_t$, what is kept | $z_t$ | |
# | $i_t$, what may be written | $1 - z_t$ | tied to the first: what is kept is not written |
# | $g_t$, candidate | $n_t$ | |
# | $c_t$ and $h_t$ | $h_t$ | one state |
# | $o_t$, what is shown | none | all of the memory is always shown: section 4 has no counterpart |
# | none | $r_t$ | the past can be hidden from the candidate |
#
# This tie has a consequence: **a GRU that ignores an input keeps its state.** An LSTM that shuts its
# input gate may still lose the state through its forget gate. Remember this for section 7.
#
# Our sentence again, with the weights of $i$, $f$, $g$ for $r$, $z$, $n$.

# %%
from_x = {"r": W_ih["i"], "z": W_ih["f"], "n": W_ih["g"]}
from_h = {"r": W_hh["i"], "z": W_hh["f"], "n": W_hh["g"]}


def gru_step(x_t, h):
    """One step: input (..., d) and state (..., H) give the next state; b^z = 1, no other bias."""
    r = (x_t @ from_x["r"].T + h @ from_h["r"].T).sigmoid()  # (..., H)
    z = (x_t @ from_x["z"].T + h @ from_h["z"].T + 1.0).sigmoid()
    n = (x_t @ from_x["n"].T + r * (h @ from_h["n"].T)).tanh()
    return (1 - z) * n + z * h


print("h_1 =", gru_step(x[0], mt.zeros(2)))

# %% [markdown]
# With a pencil, for "we" and the first unit: $z = \sigma(-1.0 + 0.3 + 1) = \sigma(0.3) = 0.574$,
# $n = \tanh(1.3) = 0.862$ as before, and $h = 0.426 \cdot 0.862 = 0.367$. The library stacks in the
# order $r, z, n$:

# %%
library = nn.GRU(2, 2)
values = [mt.cat(list(from_x.values())), mt.cat(list(from_h.values()))]
values += [mt.tensor([0.0, 0, 1, 1, 0, 0]), mt.zeros(6)]
h, states = mt.zeros(2), []
for x_t in x:
    h = gru_step(x_t, h)
    states.append(h)
with mt.no_grad():
    for parameter, value in zip(library.parameters(), values, strict=True):
        parameter.copy_(value)
print("agrees with nn.GRU:", mt.allclose(mt.stack(states), library(x)[0], atol=1e-6))

# %% [markdown]
# What the three cells cost, in parameters: one block of $H(d + H + 2)$ for each matrix pair with
# its two biases, times 1, 3 and 4.

# %%
for kind, blocks in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    count = sum(p.numel() for p in getattr(nn, kind)(32, 64).parameters())
    print(f"{kind:4} {count:6,} parameters = {blocks} x {64 * (32 + 64 + 2):,}")

# %% [markdown]
# ## 6. What keeps a gradient alive
#
# Why should an LSTM *learn* what a plain RNN cannot reach? One step back along the top line, from $c_t$
# to $c_{t-1}$, multiplies the gradient by
#
# $$\frac{\partial c_t}{\partial c_{t-1}} = \operatorname{diag}(f_t) +
# (\text{what goes through } h_{t-1} \text{ and the gates}).$$
#
# No matrix and no $\tanh'$ stands in the first term. Over $k$ steps it gives the product of $k$ forget
# gates, unit by unit. So a gradient survives "if gates permit it", as the lecture says. Do they? At the start of training
# the gate is about $\sigma(b_f)$, and `nn.LSTM` comes with $b_f$ near 0. Here is the way back along the top line, with
# three biases:

# %% evidence
# A gradient on its way back through eight forget gates, with three biases: a drawing
figure, panels = plot.subplots(3, 1, width=8.5, height=3.6)
for axes, bias in zip(panels, (0, 1, 3), strict=True):
    diagrams.through_gates(axes, 1 / (1 + math.exp(-bias)), f"$b_f = {bias}$")
plot.show(
    figure,
    alt="Three rows of nine cells. Between neighbours a bar is as thick as the gradient on its way from the right to the left: "
    "with bias 0, gates of 0.50, it is soon a hair; with bias 1, gates of 0.73, it thins out; with bias 3, gates of "
    "0.95, it stays thick.",
)

# %% [markdown]
# Read from right to left: the bar is as thick as the gradient that is left. It is chapter 01's picture of the fading gradient,
# with a gate in place of $W_{hh}$. The difference: a gate can be opened. Over 40 steps:

# %%
for bias in (0.0, 1.0, 3.0):
    gate = 1 / (1 + math.exp(-bias))
    print(f"b_f = {bias:.0f}: gate {gate:.3f}, after 40 steps {gate**40:.0e}")

# %% [markdown]
# A half-open gate is a closed gate, forty times over. Gers et al. (2000) already suggest a positive
# $b_f$. Jozefowicz, Zaremba and Sutskever (2015) found that $b_f = 1$ closes much of the gap between
# architectures, and Keras starts there. If the distance $T$ is known, *chrono initialization* asks for
# $b_f$ near $\log(T - 1)$, and for the negative of it as the input gate's bias (Tallec and Ollivier, 2018);
# exercise 5 finds such a bias.
#
# ### The gradient against the distance, again (C4)
#
# Does the straight line decide, or what goes round it? We draw the plot of chapter 01 for the new cells: how
# large is the gradient at the memory, $\partial \mathcal L / \partial c_t$, at each distance $T - t$ back from the
# end? (For RNN and GRU the memory is $h_t$. The loss is a random weighted sum of the last hidden state. Each curve
# is divided by its value at distance 0.)
#
# The inputs are those of a task that we use from here on, **recall**: one of four **marks** (tokens 0 to 3), then
# **noise** (tokens 4 to 7). At the end the network has to name the mark.

# %% evidence
# Recall: a mark that is written, kept over noise, and shown: a drawing
figure, axes = plot.subplots(width=8, height=1.7)
diagrams.kept_word(axes, [*"25774654", "= 2"], 0, [1, 2, 3, 4, 5, 6, 7], 8, "the mark is 2")
plot.show(
    figure,
    alt="Nine tokens in a row. At the first, a 2, an arrow leads up into a memory, which runs as a line above seven digits of "
    "noise, none of which is let in, and comes down at the answer, 2.",
)

# %% [markdown]
# It is the sentence with the keys, stripped to the bone: write the mark, let no noise in, show it at the end. The number of
# noise tokens is the **delay**.
#
# How a network starts is a choice like the learning rate. $W_{hh}$ stays **as it comes** (uniform within
# $\pm 1/\sqrt H$), or each of its blocks is made **orthogonal**. The gated cells have a bias to choose
# besides: $b_f$ of the LSTM, $b_z$ of the GRU's update gate.

# %% evidence
# The six networks, their two starts, and the inputs of recall
NETWORKS = {
    "RNN": (nn.RNN, None),
    "GRU, b_z = 0": (nn.GRU, 0.0),
    "GRU, b_z = 3": (nn.GRU, 3.0),
    "LSTM, b_f = 0": (nn.LSTM, 0.0),
    "LSTM, b_f = 1": (nn.LSTM, 1.0),
    "LSTM, b_f = 3": (nn.LSTM, 3.0),
}


@mt.no_grad()
def recurrent_layer(network, start, size, hidden):
    """One of ``NETWORKS``; ``start`` of W_hh is "as it comes" or "orthogonal"."""
    kind, bias = NETWORKS[network]
    rnn = kind(size, hidden)
    if start == "orthogonal":
        for block in rnn.weight_hh_l0.split(hidden):
            nn.init.orthogonal_(block)
    if bias is not None:  # f and z are both the second block
        rnn.bias_ih_l0[hidden : 2 * hidden] = bias
        rnn.bias_hh_l0[hidden : 2 * hidden] = 0.0
    return rnn


def marked(delay, batch_size):
    """Tokens (delay + 1, B): a mark from 0 to 3, then noise from 4 to 7."""
    mark = mt.randint(0, 4, (1, batch_size))
    return mt.cat([mark, mt.randint(4, 8, (delay, batch_size))])


# %% evidence
# The gradient at each c_t (or h_t): a zero is added to it, and asked for its gradient
def nudged_step(rnn, weights, x_t, h, c, nudge):
    """One step of an RNN, GRU or LSTM, with ``nudge`` added to its memory: the next h and c."""
    W_ih, W_hh, b_ih, b_hh = weights
    from_x, from_h = x_t @ W_ih.T + b_ih, h @ W_hh.T + b_hh
    if isinstance(rnn, nn.LSTM):
        i, f, g, o = (from_x + from_h).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh() + nudge
        return o.sigmoid() * c.tanh(), c
    if isinstance(rnn, nn.GRU):
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_x.chunk(3, dim=-1), from_h.chunk(3, dim=-1)
        z = (z_x + z_h).sigmoid()
        n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
        return (1 - z) * n + z * h + nudge, c
    return (from_x + from_h).tanh() + nudge, c


def gradient_to_memory(rnn, tokens):
    """Norms of d L / d memory at distances 0, 1, ..., relative to distance 0; tokens (T, B)."""
    weights = [p.detach().double() for p in rnn.parameters()]
    nudges = mt.zeros(*tokens.shape, rnn.hidden_size).double().requires_grad_()  # (T, B, H)
    h = c = mt.zeros(tokens.shape[1], rnn.hidden_size).double()
    for x_t, nudge in zip(F.one_hot(tokens, 8).double(), nudges, strict=True):
        h, c = nudged_step(rnn, weights, x_t, h, c, nudge)
    (h @ mt.randn(rnn.hidden_size).double()).sum().backward()
    norms = nudges.grad.norm(dim=2).mean(1).flip(0)  # (T): distance 0 first
    return (norms / norms[0]).tolist()


# %%
@lab.experiment(
    "C4",
    network=list(NETWORKS),
    start=["as it comes", "orthogonal"],
    full=dict(seeds=5),
)
def gradient_before_training(network, start):
    rnn = recurrent_layer(network, start, 8, 64)
    norms = gradient_to_memory(rnn, marked(60, 8))
    return {"distance": list(range(61)), "gradient": norms, "at distance 40": norms[40]}


# %% evidence
# Gradient against distance: figure, table and verdicts
def say_what_is_drawn(figure, runs):
    recorded = "recorded: median, band from the smallest to the largest over the seeds"
    figure.suptitle(recorded if runs.full else "measured here", fontsize=9, color="0.35")


runs = gradient_before_training.run()
figure, axes = plot.subplots(width=7.5, height=3.6)
for network, start in (
    ("LSTM, b_f = 3", "as it comes"),
    ("RNN", "orthogonal"),
    ("LSTM, b_f = 1", "as it comes"),
    ("GRU, b_z = 0", "as it comes"),
    ("LSTM, b_f = 0", "as it comes"),
    ("RNN", "as it comes"),
):
    part = runs.best.where(network=network, start=start)
    label = network if start == "as it comes" else f"{network}, orthogonal"
    plot.spread(axes, part[0]["distance"], part.values("gradient"), label=label)
axes.set(yscale="log", xlabel="distance T - t", ylabel="norm of the gradient, relative")
axes.set(ylim=(1e-13, 1e2))
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
say_what_is_drawn(figure, runs)
plot.show(
    figure,
    alt="Gradient norm against distance on a log scale. As they come, RNN, LSTM and GRU with bias 0 "
    "fall steeply together; LSTM with bias 1 falls slower; with bias 3 it stays near one. An RNN with "
    "an orthogonal matrix falls little.",
)
runs.table("network", "at distance 40", columns="start")


def at_40(rows, network, start):
    return rows.values("at distance 40", network=network, start=start)


runs.holds(
    "as they come, the LSTM with b_f = 1 keeps over a thousand times what the RNN keeps",
    lambda rows: at_40(rows, "LSTM, b_f = 1", "as it comes") / at_40(rows, "RNN", "as it comes"),
    above=1e3,
)
runs.holds(
    "as they come, b_f = 1 keeps over ten thousand times what b_f = 0 keeps",
    lambda rows: (
        at_40(rows, "LSTM, b_f = 1", "as it comes") / at_40(rows, "LSTM, b_f = 0", "as it comes")
    ),
    above=1e4,
)
runs.holds(
    "b_f = 3 keeps the gradient above a tenth, with either start",
    lambda rows: rows.values("at distance 40", network="LSTM, b_f = 3"),
    above=0.1,
)
runs.holds(
    "orthogonal, the LSTM with b_f = 0 keeps less than a hundredth of what the RNN keeps",
    lambda rows: at_40(rows, "LSTM, b_f = 0", "orthogonal") / at_40(rows, "RNN", "orthogonal"),
    below=1e-2,
)

# %% [markdown]
# Read the figure from below. As they come, RNN, GRU and LSTM with bias 0 fall together: a half-open
# gate is no better than a matrix that shrinks. Open the gate ($b_f = 1$, then 3), and the curve lies
# down. So the bias puts the LSTM's curves in the right order. It does not give their height: for $b_f = 0$ we measure ten
# thousand times the product of the gates, 9e-13, since the gates see $h_{t-1}$, and that opens side paths. With $b_f = 3$
# these paths can make the gradient *grow* with distance. An LSTM can explode, too, so we go on clipping.
#
# The plain RNN has a way of its own: an orthogonal $W_{hh}$ neither shrinks nor stretches.
#
# > **C4 · holds with a condition: With forget bias 3 the gradient 40 steps back has 0.8 to 2.9 of its size,
# > with bias 0 at most 2e-8.** *The lectures* (deck 2, "LSTM and Gradients"): the cell-state path is close
# > to the identity "if gates permit it", "so the gradient can survive many steps".
# >
# > *Measured*: Gradient at distance 40 over that at distance 0, five seeds, as it comes: LSTM with forget
# > bias 0 3e-9 to 2e-8, bias 1 0.0008 to 0.003, bias 3 0.8 to 2.9; plain RNN 7e-11 to 4e-8, with an
# > orthogonal matrix 0.04 to 0.05. Training on recall raises the gradient of the network with bias 0, at
# > distance 60, from 1e-12 to between 8e-8 and 0.2.
#
# A gradient that arrives is no more than a chance to learn. (And a vanished one is no verdict: training
# can bring it back. Two side roads at the end follow that.)
#
# ## 7. How far each network remembers
#
# So ask directly: up to which delay does each network learn to name the mark?


# %%
class Recall(nn.Module):
    """Tokens (T, B) to scores of the four marks (B, 4), from the last state."""

    def __init__(self, network, start, hidden):
        super().__init__()
        self.rnn = recurrent_layer(network, start, 8, hidden)
        self.out = nn.Linear(hidden, 4)

    def forward(self, tokens):
        states, _ = self.rnn(F.one_hot(tokens, 8).float())
        return self.out(states[-1])


def train_step(model, optimizer, tokens):
    """One step of training on recall; whether all answers were right."""
    scores = model(tokens)
    loss = F.cross_entropy(scores, tokens[0])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return mt.equal(scores.argmax(-1), tokens[0])


# %% [markdown]
# ### The longest delay (E1)
#
# A delay is **learned** when five batches of 32 in a row are answered without a mistake. How long may a
# network take? A verdict after 200 batches could mean "cannot", or "not yet". So each run goes on to
# 2,000 batches and is read at 200, 600 and 2,000. Every network has 32 units, gets both starts, and for each delay the
# learning rate at which most runs learn, chosen in other seeds. Then eight seeds run.


# %% evidence
# How many batches a network takes until a delay is learned
def batches_to_learn(model, optimizer, delay, budgets):
    """Batches until five in a row are answered without a mistake, or None: read at each budget."""
    done = in_a_row = 0
    for budget in budgets:
        while done < budget and in_a_row < 5:
            right = train_step(model, optimizer, marked(delay, 32))
            in_a_row = in_a_row + 1 if right else 0
            done += 1
        yield done if in_a_row == 5 else None


# %%
@lab.experiment(
    "E1",
    network=["GRU, b_z = 3", "LSTM, b_f = 3"],
    start=["as it comes", "orthogonal"],
    delay=[40],
    rate=3e-3,
    batches=Budgets([200]),
    full=dict(
        network=["RNN", "GRU, b_z = 0", "GRU, b_z = 3", "LSTM, b_f = 0", "LSTM, b_f = 3"],
        delay=[10, 40, 160],
        rate=Tuned(1e-3, 3e-3, 1e-2, 3e-2, 1e-1, lowest="learned after", seeds=3, batches=600),
        batches=Budgets([200, 600, 2000]),
        seeds=8,
    ),
)
def recall(network, start, delay, rate, batches):
    model = Recall(network, start, hidden=32)
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for learned in batches_to_learn(model, optimizer, delay, batches):
        yield {"learned after": learned}


# %% [markdown]
# The GRU ties its gates: what is kept is not written. Is that an advantage? We tie those of an LSTM, $i = 1 -
# f$, change nothing else, and test it at the longer delay. (The folded cells do it. Since $\sigma(-a) = 1 - \sigma(a)$,
# the rows of $i$ are minus the rows of $f$.)


# %% evidence
# An LSTM whose input gate is one minus its forget gate
class TiedLSTM(nn.Module):
    """An nn.LSTM with i = 1 - f: its rows of i are minus those of f, since sigma(-a) = 1 - sigma(a)."""

    def __init__(self, lstm):
        super().__init__()
        self.lstm, self.free = lstm, nn.ParameterDict()
        for name, weight in list(lstm.named_parameters()):
            self.free[name] = nn.Parameter(weight.detach()[lstm.hidden_size :].clone())  # f, g, o
            delattr(lstm, name)

    def forward(self, inputs):
        for name, weight in self.free.items():
            setattr(self.lstm, name, mt.cat([-weight[: self.lstm.hidden_size], weight]))
        return self.lstm(inputs)


# %% evidence
# Recall by an LSTM with tied gates: experiment
@lab.experiment(
    "E1",
    network="LSTM, b_f = 3",
    start="as it comes",
    delay=160,
    rate=0.1,
    batches=Budgets([200]),
    full=dict(
        rate=Tuned(3e-2, 1e-1, 3.33e-1, lowest="learned after", seeds=3, batches=200),
        batches=Budgets([200, 600, 2000]),
        seeds=8,
    ),
)
def recall_with_tied_gates(network, start, delay, rate, batches):
    model = Recall(network, start, hidden=32)
    model.rnn = TiedLSTM(model.rnn)
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for learned in batches_to_learn(model, optimizer, delay, batches):
        yield {"learned after": learned}


# %% evidence
# Smaller rates for the LSTM as it comes, and the tied network's start without its tie: experiments
@lab.experiment(
    "E1",
    rate=[3e-4],
    batches=Budgets([20]),
    delay=40,
    full=dict(rate=[3e-4], batches=Budgets([200, 600, 2000]), delay=160, seeds=8),
)
def recall_at_small_rates(rate, batches, delay):
    model = Recall("LSTM, b_f = 3", "as it comes", hidden=32)
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for learned in batches_to_learn(model, optimizer, delay, batches):
        yield {"learned after": learned}


@lab.experiment(
    "E1",
    rate=[1e-1],
    batches=Budgets([20]),
    delay=40,
    full=dict(rate=[3e-4, 1e-2, 1e-1], batches=Budgets([200, 600]), delay=160, seeds=5),
)
def recall_from_the_tied_start(rate, batches, delay):
    """An LSTM that starts as the tied one does, with i = 1 - f, and may then leave it."""
    model = Recall("LSTM, b_f = 3", "as it comes", hidden=32)
    with mt.no_grad():
        for weight in model.rnn.parameters():
            weight[:32] = -weight[32:64]  # the rows of i, and those of f
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for learned in batches_to_learn(model, optimizer, delay, batches):
        yield {"learned after": learned}


# %% evidence
# Every run as a dot, at the batches that it took: figure, tables, verdicts
runs, tied = recall.run(), recall_with_tied_gates.run()
slowly, untied = recall_at_small_rates.run(), recall_from_the_tied_start.run()
TIED = "LSTM, b_f = 3, i = 1 - f"
NEVER = 5000  # where the runs stand that did not learn
ROWS = ["GRU, b_z = 3", "GRU, b_z = 0", TIED, "LSTM, b_f = 3", "LSTM, b_f = 0", "RNN"]


def took(delay, network):
    """For each start the batches that the runs took, NaN where they did not learn."""
    rows = (tied if network == TIED else runs).best
    settings = dict(delay=delay, network=network.removesuffix(", i = 1 - f"))
    if not rows.has(**settings):
        return {}
    rows = rows.where(**settings, batches=rows.settings_of("batches")[-1])
    return {start: rows.values("learned after", start=start) for start in rows.settings_of("start")}


def arrived(rows, **settings):
    """The share of the runs that learned, with both starts."""
    return np.isfinite(rows.values("learned after", **settings)).mean()


COLOR = {"as it comes": plot.COLORS[1], "orthogonal": plot.COLORS[0]}
DELAYS = [delay for delay in runs.best.settings_of("delay") if delay > 10]
figure, panels = plot.subplots(1, len(DELAYS), width=9, height=3.3, sharey=True, squeeze=False)
for axes, delay in zip(panels[0], DELAYS, strict=True):
    for y, network in enumerate(reversed(ROWS)):
        for start, batches in took(delay, network).items():
            places = np.where(np.isfinite(batches), batches, NEVER)
            up = (0.18 if start == "orthogonal" else -0.18) + np.linspace(-0.1, 0.1, len(places))
            axes.plot(places, y + up, "o", color=COLOR[start], markersize=4)
    axes.set(xscale="log", xlabel="batches until it is learned", title=f"delay {delay}")
    axes.set_xticks([20, 200, 2000, NEVER], ["20", "200", "2,000", "not in\n2,000"])
    axes.minorticks_off()
    axes.axvline(3000, color="0.5", linewidth=1)
    axes.set_yticks(range(len(ROWS)), reversed(ROWS))
for start, color in COLOR.items():
    panels[0][0].plot([], [], "o", color=color, markersize=4, label=f"W_hh {start}")
figure.legend(fontsize=8, loc="upper left", ncols=2)
plot.show(
    figure,
    alt="Every run is a dot at the batches that it took, a row for each network. Delay 160: all GRUs "
    "but one stand left of 200, and so do LSTMs with tied gates; LSTMs with bias 3 are spread up to "
    "2,000 and some do not learn; with bias 0 none does, and of the plain RNNs three.",
)
runs.table(
    "network", "learned after", columns="delay", batches=runs.best.settings_of("batches")[-1]
)
for network in ROWS:
    batches = np.array([n for each in took(160, network).values() for n in each])
    told = ", ".join(f"{(batches <= allowed).sum()}" for allowed in (200, 600, 2000))
    measured(f"delay 160, {network:24} of {len(batches):2} runs learn in 200, 600, 2,000: {told}")
for network in ("GRU, b_z = 3", "LSTM, b_f = 3"):
    runs.holds(
        f"a delay of 40 is learned by {network}, with either start, within 200 batches",
        lambda rows, n=network: arrived(rows, network=n, delay=40, batches=200),
        above=0.8,
    )
runs.holds(
    "within 200 batches a delay of 160 is learned by most GRUs",
    lambda rows: [arrived(rows, network=f"GRU, b_z = {b}", delay=160, batches=200) for b in (0, 3)],
    above=0.8,
)
runs.holds(
    "within 2,000 batches a delay of 160 is learned by most LSTMs with b_f = 3",
    lambda rows: arrived(rows, network="LSTM, b_f = 3", delay=160, batches=2000),
    above=0.6,
)
runs.holds(
    "and by no LSTM with b_f = 0",
    lambda rows: arrived(rows, network="LSTM, b_f = 0", delay=160, batches=2000),
    below=0.05,
)
runs.holds(
    "the RNN as it comes learns a delay of 40, given 2,000 batches",
    lambda rows: arrived(rows, network="RNN", start="as it comes", delay=40, batches=2000),
    above=0.8,
)
tied.holds(
    "with its gates tied, the LSTM with b_f = 3 learns 160 within 200 batches",
    lambda rows: arrived(rows, network="LSTM, b_f = 3", batches=200),
    above=0.8,
)
slowly.holds(
    "at a rate of 0.0003 every LSTM with b_f = 3, as it comes, learns 160 within 600 batches",
    lambda rows: np.isfinite(rows.values("learned after", batches=600)).mean(),
    above=0.95,
)
untied.holds(
    "started like the tied one, but free to leave the tie, none learns it within 600",
    lambda rows: np.isfinite(rows.values("learned after", batches=600)).mean(),
    below=0.05,
)
if runs.full and tied.full:
    for batches in (200, 2000):
        alike = dict(network="LSTM, b_f = 3", start="as it comes", delay=160, batches=batches)
        with_tie, without = (
            np.isfinite(rows.values("learned after", **alike)) for rows in (tied.full, runs.full)
        )
        told = finding(with_tie, without)
        measured(
            f"recorded: within {batches} batches {with_tie.sum()} of 8 learn 160 with the tie, "
            f"{without.sum()} of 8 without: p = {told.p:.2g}, a finding: {told.found}"
        )

# %% [markdown]
# A dot is a run. Further left is sooner, and what stands right of the line did not learn. Read the right panel from above:
#
# | delay 160: of 16 runs, those that learn within | 200 batches | 600 | 2,000 |
# | --- | --- | --- | --- |
# | GRU, $b_z = 0$ | 15 | 15 | 15 |
# | GRU, $b_z = 3$ | 16 | 16 | 16 |
# | LSTM, $b_f = 3$, $i = 1 - f$ (8 runs) | 8 | 8 | 8 |
# | LSTM, $b_f = 3$ | 6 | 11 | 13 |
# | LSTM, $b_f = 3$, as it comes, at a rate of 0.0003 (8 runs) | 0 | 8 | 8 |
# | LSTM, $b_f = 0$ | 0 | 0 | 0 |
# | RNN | 0 | 3 | 3 |
#
# **The GRU learns a delay of 160 at once**: 31 of 32 runs, all of them within 100 batches. **The LSTM with $b_f = 3$ is about
# ten times slower**, but it is not unable. At the rates that the search chose 13 of 16 runs learn. For the start as it comes the
# search had tried nothing below 0.001. When we saw this we tried 0.0003, and all eight runs learned, after 212 to 519 batches.
# With $b_f = 0$ no run learned this delay: not one of 42 in the search, at seven rates and up to 600 batches, and not one of
# these 16. (Nor did five more, at rates from 0.001 to 0.01 with other seeds, in 6,000 batches.) In the left panel "not yet"
# and "cannot" come apart: of the RNNs as they come two of eight learn a delay of 40 within 200 batches, and all eight within 2,000. They
# were slow, not unable.
#
# > **E1 · A delay of 160 takes the GRU at most 91 batches in 31 of 32 runs, and the LSTM 142 to 616 at a small rate.**
# > *Our question*: do gated cells learn longer delays than a plain RNN, each at its best rate?
# >
# > *Measured*: One mark, networks of 32 units, two starts, eight seeds each, rates chosen in other seeds.
# > Delay 160, within 200, 600 and 2,000 batches: GRU 31 of 32; LSTM with forget bias 3 in 6, 11
# > and 13 of 16, with bias 0 in none; with bias 3 and $i = 1 - f$ 8 of 8; RNN 0, 3 and 3 of 16. With forget bias 3 at a
# > rate of 0.0003 (asked after a look): 8 of 8 as it comes, 212 to 519 batches; orthogonal 8 of 8, 142 to 616. Delay 40: GRU and
# > LSTM with forget bias 3 all; RNN as it comes 2, 5 and 8 of 8.
#
# ### Why is the GRU so quick?
#
# **It is the tie.** With $i = 1 - f$ all eight LSTMs learn 160 within 57 batches. Without it three of eight do so within
# 200 batches (a finding).
#
# How does the tie help? Our guess: early in training the noise does harm, and the quickest cure is to stop writing. So $i$
# goes down. In a tied cell $f$ goes up with it, and the mark is kept as well. In a free LSTM $f$ can stay where it is, and
# the mark leaks away. Besides, an average of what was written cannot grow. So a tied cell bears the large rates at which
# learning is fast.
#
# Or is it only the start? A tied input gate starts nearly shut, at 0.05. So we gave LSTMs the start of the
# tied ones, without the tie, and tried three rates (0.0003, 0.01, 0.1) with five runs each: none learned 160 within 600
# batches. (Late is not never: in a trial of 2,000 batches, with other seeds, a run at rate 0.003 learned it after 900.) So a
# shut gate alone helps little. It has to open when the other one closes.
#
# And rates decide as much as gates. The free LSTM with $b_f = 3$ learns 160 in all sixteen runs at a
# rate of about 0.0003. In the search, at rates from 0.003 to 0.1, two of 33 runs learned it.
#
# Did section 6 foresee this? No. The GRU with $b_z = 0$ starts from the same vanishing gradient as the LSTM with $b_f = 0$,
# and learns the longest delay. An open gate at the start is one way to a long memory. Gates that cannot work against each
# other are another.
#
# ## 8. An LSTM language model (E3)
#
# Does the longer memory pay where it should, on text? The task of chapter 01: characters of the first
# edition of this book, each predicted from those before. Only the middle layer of the model changes.
# The state that is carried from window to window is now a pair.

# %%
training_text, validation_text = split(first_edition().splitlines(), validation=0.1)
letters = Vocabulary(characters(training_text), specials=["<unk>", "<s>"], min_count=20)
training = letters.encode(characters(training_text))
choosing, validation = split(letters.encode(characters(validation_text)), validation=0.5)

MODELS = {
    "RNN, 128 units": (nn.RNN, 128),
    "GRU, 76 units": (nn.GRU, 76),
    "LSTM, 65 units": (nn.LSTM, 65),
    "LSTM, 128 units": (nn.LSTM, 128),
}


def language_model(name):
    kind, hidden = MODELS[name]
    model = LanguageModel(len(letters), hidden=hidden)
    model.rnn = kind(32, hidden)
    return model


# %% [markdown]
# What is a fair comparison? Two answers are usual, **equal parameters** and **equal compute**. The
# library counts the FLOPs of all products of a step of training, forward and backward. An RNN of 128
# units has as many parameters as a GRU of 76 and an LSTM of 65. We add an LSTM *as wide as* the RNN.


# %% evidence
# Parameters of the four models, and FLOPs of a token of training
def flops_of_step(model, length=64, batch_size=32):
    """FLOPs of one training step, forward and backward."""
    tokens = mt.zeros(length, batch_size).long()
    with count_flops() as counter:
        token_loss(model(tokens)[0], tokens).backward()
    model.zero_grad()
    return counter.total


costs = {}
for name in MODELS:
    model = language_model(name)
    costs[name] = sum(p.numel() for p in model.parameters()), flops_of_step(model)
    print(f"{name:16} {costs[name][0]:6,} parameters {costs[name][1] / 2048:8,.0f} FLOPs a token")

# %% evidence
# Equal parameters mean equal FLOPs: verdicts
passes = 600e9 / (costs["RNN, 128 units"][1] / 2048) / len(training)
print(f"600 GFLOPs are {passes:.1f} passes over the text for an RNN of 128 units")
for what, column in (("parameters", 0), ("FLOPs a token", 1)):
    lab.holds(
        "E3",
        f"the LSTM of 65 units has the {what} of the RNN of 128, to 2 %",
        costs["LSTM, 65 units"][column] / costs["RNN, 128 units"][column],
        between=(0.98, 1.02),
    )

# %% [markdown]
# The two answers nearly agree. A recurrent layer uses each weight once a token, for 2 FLOPs forward
# and 4 backward. So a token costs about 6 FLOPs a weight. Each network gets the same budget of FLOPs. The wide LSTM costs
# three times as much a token, and so gets a third of the steps. The learning rate is chosen on one half of the held-out
# text, and the loss is reported on the other.


# %% evidence
# Training until a budget of FLOPs is spent
def cut(state):
    """The same state without its history."""
    return tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()


def train_language_model(model, rate, gflops):
    """Spend ``gflops`` on training; the validation loss after each quarter of them."""
    steps = int(gflops * 1e9 // flops_of_step(model))
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    losses, done = [], 0
    while done < steps:
        state = None
        for inputs, targets in windows(training, batch_size=32, length=64):
            scores, state = model(inputs, state)
            state = cut(state)
            loss = token_loss(scores, targets)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.param_groups[0]["lr"] = rate * (1 - done / steps)
            optimizer.step()
            done += 1
            if done * 4 // steps > (done - 1) * 4 // steps:
                losses.append(mean_loss(model, validation))
            if done == steps:
                return losses


# %% evidence
# Language models at equal compute, each at its rate: experiment
@lab.experiment(
    "E3",
    model=["RNN, 128 units", "LSTM, 65 units"],
    gflops=40,
    rate=[2e-2, 4e-2],
    full=dict(
        model=list(MODELS),
        gflops=[40, 120, 600],
        rate=Tuned(1e-2, 2e-2, 4e-2, lowest="loss on other text"),
        seeds=5,
    ),
)
def equal_compute(model, gflops, rate):
    network = language_model(model)
    losses = train_language_model(network, rate, gflops)
    return {
        "GFLOPs spent": [gflops * quarter / 4 for quarter in (1, 2, 3, 4)],
        "validation loss": losses,
        "perplexity": math.exp(losses[-1]),
        "loss on other text": mean_loss(network, choosing),
    }


# %% [markdown]
# And the rival? Counting. An **n-gram** model looks at the last $n - 1$ characters and counts what
# followed them in the training text. Where it has seen few, it asks a shorter history (Witten and
# Bell, 1991). It remembers $n - 1$ characters, and nothing in it is trained.


# %% evidence
# The perplexity of counting, by the number of characters looked at
def counting_perplexity(order):
    """Held-out perplexity of counts after 0, 1, ..., order - 1 characters, mixed (Witten, Bell)."""
    text, told = training.tolist(), validation.tolist()
    seen = [defaultdict(Counter) for _ in range(order)]
    for k in range(order):
        for at in range(k, len(text)):
            seen[k][tuple(text[at - k : at])][text[at]] += 1
    loss = 0.0
    for at in range(order, len(told)):
        p = 1 / len(letters)
        for k in range(order):
            counts = seen[k].get(tuple(told[at - k : at]))
            if counts is None:
                break
            p = (counts[told[at]] + len(counts) * p) / (counts.total() + len(counts))
        loss -= math.log(p)
    return math.exp(loss / (len(told) - order))


counted = {order: counting_perplexity(order) for order in (2, 5)}
for order, perplexity in counted.items():
    print(f"perplexity of counting after {order - 1} characters: {perplexity:.2f}")

# %% evidence
# Validation loss against compute, and perplexity: figure, tables and verdicts
runs = equal_compute.run()
budgets = runs.best.settings_of("gflops")
figure, axes = plot.subplots(width=7.5, height=3.2)
for name in runs.best.settings_of("model"):
    ends = [runs.best.values("perplexity", model=name, gflops=each) for each in budgets]
    plot.spread(axes, budgets, np.stack(ends, axis=1), marker="o", label=name)
for order, perplexity in counted.items():
    axes.axhline(perplexity, color="0.5", linewidth=1)
    axes.text(budgets[0], 0.98 * perplexity, f"counting, {order}-gram", va="top")
axes.set(xscale="log", yscale="log", ylim=(3.3, 12.5), title="less is better")
axes.set(xlabel="GFLOPs of training, each point a run of its own", ylabel="perplexity")
axes.set_xticks(budgets, budgets)
axes.set_yticks([4, 6, 8, 11], [4, 6, 8, 11])
axes.minorticks_off()
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
say_what_is_drawn(figure, runs)
plot.show(
    figure,
    alt="Perplexity against the FLOPs of training. The three networks of equal size come down close "
    "together from above 6, the wide LSTM from above 8; with the largest budget all four lie a "
    "little above the line of the 5-gram, far below that of the 2-gram.",
)
if runs.full:
    runs.table("model", "perplexity", columns="gflops")
for row in runs.here:
    measured(f"here: {row['model']}, rate {row['rate']}: perplexity {row['perplexity']:.2f}")


def best_perplexity(rows, model):
    """The perplexities of the seeds, at the best rate, in the largest budget."""
    rows = rows.where(model=model, gflops=rows.settings_of("gflops")[-1])
    by_rate = [rows.values("perplexity", rate=rate) for rate in rows.settings_of("rate")]
    return min(by_rate, key=np.median)


runs.holds(
    "counting after four characters has less perplexity than each run of LSTM and RNN",
    lambda rows: [
        np.min(best_perplexity(rows, model)) / counted[5]
        for model in ("LSTM, 65 units", "RNN, 128 units")
    ],
    above=1,
)
runs.holds(
    "with equal parameters, LSTM and RNN end within a tenth of each other's perplexity",
    lambda rows: (
        np.median(best_perplexity(rows, "LSTM, 65 units"))
        / np.median(best_perplexity(rows, "RNN, 128 units"))
    ),
    between=(0.9, 1.1),
)
if runs.full:
    wide, narrow = (
        np.median(runs.full.values("perplexity", model=f"LSTM, {units} units", gflops=600))
        for units in (128, 65)
    )
    lab.holds("E3", "at 600 GFLOPs the wide LSTM is level", wide / narrow, between=(0.95, 1.05))
    runs.finding(
        "recorded: at 120 GFLOPs the wide LSTM, with a third of the steps, has the larger perplexity",
        "perplexity",
        larger=dict(model="LSTM, 128 units", gflops=120),
        smaller=dict(model="LSTM, 65 units", gflops=120),
    )
    for model in ("RNN, 128 units", "LSTM, 65 units"):
        runs.finding(
            f"recorded: at 40 GFLOPs the perplexity of {model.replace(',', ' of')} is larger than the GRU's",
            "perplexity",
            larger=dict(model=model, gflops=40),
            smaller=dict(model="GRU, 76 units", gflops=40),
        )

# %% [markdown]
# Follow the curves to the right: with more compute all four come down, and end close together just above the lower grey
# line. Grey are two rivals that are not trained at all. They count.
#
# **Equal parameters**: at 40 GFLOPs the GRU is ahead of the RNN and of the LSTM in all five seeds, a finding. At three times
# the budget, and at fifteen, no difference between the three is one. **Equal compute**: at 120 GFLOPs the wide LSTM is behind the
# narrow one in all five seeds. At 600 it has caught up. While compute is scarce, more steps beat more units, and that is all.
#
# And **counting beats them all**: a 5-gram has a perplexity of 3.77, after one reading and in seconds. Is this "late" or
# "unable"? From 120 to 600 GFLOPs the RNN comes from 4.5 to 5.1 down to 3.8 to 4.1, and 600 GFLOPs are 11 passes over the text.
# Chapter 01 gave an RNN of this size 36 passes, and it came to {{01 on_the_first_edition: loss; passes=36}} nats, just below the
# line of the 5-gram. So it is *late*.
#
# So the memory of an LSTM is no advantage here. Long memory pays where there is something far away to remember, and enough
# text to learn it from. Section 9 makes such a task; chapter 11 has more text.
#
# Mind the learning rates: in the quick runs RNN and LSTM change places between the two, so a comparison at
# one rate would have shown whatever we liked.
#
# > **E3 · No: after 600 GFLOPs LSTM, GRU and RNN of equal size have perplexities from 3.8 to 4.1, and
# > counting five characters has 3.77.** *Our question*: is an LSTM the better language model at equal
# > parameters and compute?
# >
# > *Measured*: Perplexity per character, five seeds, each at its best rate. With 40 GFLOPs LSTM of 65 units
# > 6.1 to 7.4, GRU of 76 5.9 to 6.6, RNN of 128 6.3 to 7.4, LSTM of 128 7.4 to 8.4; with 120 GFLOPs 4.6 to
# > 5.1, 4.6 to 5.1, 4.5 to 5.1, and 6.1 to 7.6; with 600 GFLOPs 3.8 to 4.0, 3.9 to 4.0, 3.8 to 4.1, and 3.8 to 4.1.
# > Counting after one character has 11.29, after four 3.77.
#
# ## 9. A look inside
#
# Back to the keys. Is there a cell in a trained LSTM that holds the *s* of "keys", as the first figure of
# this chapter draws it? We make sentences of a small grammar, a subject, up to three phrases, a verb that
# agrees with the subject, and train a language model of 32 units on them. Each noun of the phrases is
# singular or plural by chance.

# %% evidence
# Sentences of a small grammar: "the keys near the old house were lost"
NOUNS = "key dog car girl book house tree friend".split()
VERBS = ["is", "was", "has", "seems"], ["are", "were", "have", "seem"]
PLACES, ENDS = "near behind under beside".split(), "lost old new small red".split()
plurals = [noun + "s" for noun in NOUNS]
words = Vocabulary([*NOUNS, *plurals, *VERBS[0], *VERBS[1], *PLACES, *ENDS, "the", "."])
nouns = mt.stack([words.encode(NOUNS), words.encode(plurals)])  # (2, 8)
verbs = mt.stack([words.encode(forms) for forms in VERBS])  # (2, 4)


def agreeing_sentences(batch_size, phrases):
    """Tokens (T, B): "the keys near the house are lost ."; and 1 where the subject is plural (B)."""

    def any_of(tokens):
        return tokens[mt.randint(0, len(tokens), (batch_size,))]

    def noun(plural):
        return nouns[plural, mt.randint(0, len(NOUNS), (batch_size,))]

    the, stop = (mt.full((batch_size,), words[token]) for token in ("the", "."))
    plural = mt.randint(0, 2, (batch_size,))
    rows = [the, noun(plural)]
    for _ in range(phrases):
        rows += [any_of(words.encode(PLACES)), the, noun(mt.randint(0, 2, (batch_size,)))]
    rows += [verbs[plural, mt.randint(0, 4, (batch_size,))], any_of(words.encode(ENDS)), stop]
    return mt.stack(rows), plural


# %% evidence
# A language model trained on these sentences
def trained_on_sentences(batches):
    """A language model of sentences with up to three phrases between subject and verb."""
    model = LanguageModel(len(words), width=16, hidden=32)
    model.rnn = recurrent_layer("LSTM, b_f = 1", "as it comes", 16, 32)
    optimizer = mt.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(batches):
        tokens, _ = agreeing_sentences(32, mt.randint(0, 4, ()).item())
        scores, _ = model(tokens[:-1])
        loss = token_loss(scores, tokens[1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


# %% [markdown]
# To see memory and gates at every step we need our own loop, since `nn.LSTM` returns only hidden
# states. It can also do something that no text can: **hold** the cell of one unit at a value, whatever
# the gates say.


# %%
@mt.no_grad()
def look_inside(rnn, inputs, held=None):
    """Gates, cells and states of an nn.LSTM at all steps: i, f, o, c, h, each (T, B, H).

    ``held`` is a unit and what its cell is held at, (B), from the second step on.
    """
    W_ih, W_hh, b_ih, b_hh = rnn.parameters()
    h = c = mt.zeros(inputs.shape[1], rnn.hidden_size)
    seen = {name: [] for name in "ifoch"}
    for t, from_input in enumerate(inputs @ W_ih.T + b_ih + b_hh):
        i, f, g, o = (from_input + h @ W_hh.T).chunk(4, dim=-1)
        i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
        c = f * c + i * g.tanh()
        if held and t:
            c[:, held[0]] = held[1]
        h = o * c.tanh()
        for name, value in zip("ifoch", (i, f, o, c, h), strict=True):
            seen[name].append(value)
    return {name: mt.stack(values) for name, values in seen.items()}


# %% [markdown]
# ### One cell that can be read (E4)
#
# With 32 cells and some patience one finds a meaning in anything. So we say beforehand what we look for:
# the number of the subject. The unit whose cell is most **correlated** with it, in one set of
# sentences, is chosen; the correlation is reported on another set. The same search goes through
# *untrained* networks, as a control. And a correlation shows only that a cell *could* tell, not that the
# network listens to it. So we **turn the cell round**: in every sentence it is held where it stands for
# the other number, from the second word on. Then we ask for the verb.


# %% evidence
# Correlations, what the network says, and a cell that is turned round
def correlations(cells, properties):
    """How each cell (T, B, H) goes with each property (T, B, P), from -1 to 1: (H, P)."""
    cells, properties = cells.flatten(0, 1), properties.flatten(0, 1).float()
    cells, properties = cells - cells.mean(0), properties - properties.mean(0)
    lengths = cells.norm(dim=0).unsqueeze(1) * properties.norm(dim=0) + 1e-9
    return cells.T @ properties / lengths


def number_said(model, h):
    """1 where a plural verb is more likely to come next than a singular one, from states (B, H)."""
    singular, plural = model.out(h).softmax(-1)[:, verbs.flatten()].chunk(2, dim=-1)
    return (plural.sum(-1) > singular.sum(-1)).long()


@mt.no_grad()
def turned_round(model, tokens, plural, unit):
    """The states (B, H) at the end when one cell is held where the other number has it."""
    inputs = model.embedding(tokens)
    cell = look_inside(model.rnn, inputs)["c"][1:, :, unit]
    of_number = mt.stack([cell[:, plural == number].mean() for number in (0, 1)])
    return look_inside(model.rnn, inputs, held=(unit, of_number[1 - plural]))["h"][-1]


# %% evidence
# The search for a cell, and the verbs when it is turned round: experiment
@lab.experiment("E4", batches=[400], full=dict(batches=[0, 400, 1200], seeds=20))
@mt.no_grad()
def number_cell(batches):
    with mt.enable_grad():
        model = trained_on_sentences(batches)
    cells, right = [], []
    for _ in range(2):  # to choose a unit, and to measure it
        tokens, plural = agreeing_sentences(400, phrases=3)
        tokens = tokens[:-3]  # up to the verb, which the model is to say
        inside = look_inside(model.rnn, model.embedding(tokens))
        every_step = plural.expand(len(tokens) - 1, 400).unsqueeze(-1)
        cells.append(correlations(inside["c"][1:], every_step)[:, 0].abs())
    unit = cells[0].argmax().item()
    for h in [inside["h"][-1], *(turned_round(model, tokens, plural, each) for each in range(32))]:
        right.append((number_said(model, h) == plural).float().mean().item())
    free, own = right.pop(0), right.pop(unit)
    return {
        "correlation": cells[1][unit].item(),
        "right": free,
        "right, its cell turned": own,
        "right, another turned": float(np.median(right)),
    }


# %% evidence
# The cell over two sentences, and what the network says; once more with the cell turned round
mt.manual_seed(0)
model = trained_on_sentences(400)
with mt.no_grad():
    known, plural = agreeing_sentences(400, phrases=3)
    cells = look_inside(model.rnn, model.embedding(known[:-3]))["c"][1:]
    follows = correlations(cells, plural.expand(len(cells), 400).unsqueeze(-1))[:, 0]
    unit, sign = follows.abs().argmax().item(), follows[follows.abs().argmax()].sign()
    low, high = (cells[:, plural == number, unit].mean() for number in (0, 1))
    for first in ("keys", "key"):
        told = f"the {first} near the house behind the trees".split()
        inputs = model.embedding(words.encode(told)).unsqueeze(1)
        other = low if first == "keys" else high
        for held in (None, (unit, other)):
            inside = look_inside(model.rnn, inputs, held)
            said = [*told]
            h, c = (inside[name][-1:].clone() for name in "hc")
            token = model.out(h[-1])[0].argmax()
            said.append(words.tokens[token.item()])
            cell = ((inside["c"][:, 0, unit] - low) / (high - low)).tolist()
            before = "turned round: " if held else "as trained:   "
            colored_text(
                [before, *(f"{word} " for word in said[:-1]), said[-1].upper()],
                [0.0, *cell, 0.0],
                alt=f"{before}a sentence that begins 'the {first}' and ends with the verb "
                f"'{said[-1]}'; dark where the cell says plural.",
            )

# %% [markdown]
# Dark is plural. The cell is written at the subject and kept across *house* and *trees*, and the network
# says the right verb, in capitals. Then we turn round this one number of 32, and nothing else: **the verb
# follows the cell.**

# %% evidence
# The cell found, and what turning it does: figure, table and verdicts over the seeds
runs = number_cell.run()
figure, panels = plot.subplots(1, 2, width=8.5, height=2.8)
for name, axes in zip(("correlation", "right"), panels, strict=True):
    shown = (
        [(f"{b:,} batches", b, name) for b in runs.best.settings_of("batches")]
        if name == "correlation"
        else [
            ("as trained", 400, "right"),
            ("another cell\nturned", 400, "right, another turned"),
            ("its cell\nturned", 400, "right, its cell turned"),
        ]
    )
    for place, (_, batches, column) in enumerate(shown):
        values = runs.best.values(column, batches=batches)
        places = place + np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else [place]
        axes.plot(places, values, "o", markersize=4, color=plot.COLORS[place])
    axes.set_xticks(range(len(shown)), [label for label, _, _ in shown])
    axes.set(ylim=(-0.05, 1.05), xlim=(-0.5, len(shown) - 0.5))
panels[0].set(ylabel="|correlation|", title="the cell that follows the number")
panels[1].set(ylabel="share of right verbs", title="what the network says (400 batches)")
figure.suptitle(
    "recorded: a dot a network" if runs.full else "measured here", fontsize=9, color="0.35"
)
plot.show(
    figure,
    alt="Left: correlation of the best cell with the number of the subject, low in untrained networks, "
    "near 0.9 in trained ones. Right: right verbs, 1 as trained and with another cell turned, and near "
    "0 in most networks with this cell turned.",
)
runs.table("batches", ["correlation", "right", "right, its cell turned", "right, another turned"])
if runs.full:
    runs.finding(
        "a trained network has a cell that follows the number more closely",
        "correlation",
        larger=dict(batches=400),
        smaller=dict(batches=0),
    )
runs.holds(
    "in the median network, turning this one cell makes most verbs wrong",
    lambda rows: np.median(rows.values("right, its cell turned", batches=400)),
    below=0.3,
)
runs.holds(
    "turning another cell, the median of the 31, costs nothing",
    lambda rows: np.median(rows.values("right, another turned", batches=400)),
    above=0.95,
)

# %% [markdown]
# A dot is a network. On the left, all twenty trained networks have such a cell: its correlation is 0.88 to 0.94, in
# untrained networks 0.08 to 0.25. On the right, all twenty say every verb right. Turn the cell round, and in 15 of them half
# of the verbs or fewer are still right, in 12 none at all. Turning a typical other cell costs nothing. But in four networks the verb stays right: they listen to another cell than the one that follows the number best, or
# to two that share the work. So a correlation of 0.9 does
# not tell whether the network listens to a cell. **Turning it does.**
#
# Lakretz et al. (2019) found such *number units* in an LSTM trained on Wikipedia, two of 1,300, and switched
# them off. On a text like ours the same search finds less, and a control shows how much of it an untrained
# network has as well: that is the last side road.
#
# > **E4 · One cell follows the number of the subject, 0.88 to 0.94, untrained 0.25 at most, and turns the verb in 15 of 20 networks.** *Our question*: has a trained LSTM a cell that means something, beyond what an
# > untrained one has, and does it use it?
# >
# > *Measured*: Twenty networks of 32 units, 400 batches: right verbs 1.00; with the cell found turned round at most
# > 0.50 in 15 networks, just above in one, 0.94 to 1.00 in four; with the median other cell turned 1.00. After 1,200 batches correlation 0.88 to
# > 0.95, and at most half of the verbs right in 13 of 20.
#
# ## 10. If you build one today
#
# > **Today.** For text, practice takes a Transformer (chapter 10), or a recurrence whose gates look at the
# > input alone, so that all steps can be computed at once (RWKV, Mamba: chapter 12). Where data comes one
# > step at a time, on small devices, in control and in time series, LSTM and GRU are still good. Then:
# >
# > 1. **A GRU first**; an LSTM if something has to be counted (E2). Forget bias 1 to 3, or near the
# >    logarithm of the distance if you know it; $W_{hh}$ orthogonal.
# > 2. **Adam, clipping at norm 1, and a rate found by trying whole decades.** In section 7 the best rates lie
# >    between 0.0003 and 0.3, and a wrong one looks like a network that cannot learn. Begin at 0.003.
# > 3. **Dropout between layers** (`nn.LSTM(..., dropout=)`), one matrix for embedding and output (exercise 00.5
# >    has such ties), and **a counting rival** beside your model.
#
# > **Where LSTMs went.** In 2018 OpenAI's players of the computer game Dota 2, and in 2019
# > DeepMind's of StarCraft II, had an LSTM at their core, trained by reinforcement learning: games
# > of many thousand steps, of which a player sees only a part at any time, need a memory. From
# > about 2015 LSTMs ran large systems for speech and translation. In language they have since been
# > replaced, for the reasons that the next chapters give.
#
# **Try it**: which bias keeps 0.9 of a number for 2,000 steps in section 4? Train the language model with
# $b_f = 1$; give recall two marks, of which the later one counts; turn the cell of section 9 round only at
# the last word before the verb, or the *two* best cells at once, also in networks that kept their verb.
#
# <details>
# <summary>Common slips, and how other texts write it</summary>
#
# | one may read | right is | where |
# | --- | --- | --- |
# | gates without biases (deck 2) | each gate has one; how well an LSTM learns depends on $b_f$ | § 6, § 7 |
# | $h_t = C_t \odot O_t$ (deck 2) | PyTorch and most papers have $o_t \odot \tanh(c_t)$; both work | side roads |
# | three gates under the date 1997 (deck 2) | the cell of 1997 had an input and an output gate, $c_t = c_{t-1} + i_t \odot g_t$; the forget gate came with Gers, Schmidhuber and Cummins (2000) | § 4 |
# | an LSTM's gradient does not vanish | it does where the forget gate is not open | § 6 |
# | $W_f x_t + U_f h_{t-1}$ | the same with columns for vectors; here $x_t W_{ih}^{f\,\top} + h_{t-1} W_{hh}^{f\,\top}$ | § 2 |
# | $h_t = z_t \odot n_t + (1 - z_t) \odot h_{t-1}$ | the names of $z$ and $1 - z$ exchanged | § 5 |
# | a GRU's candidate with $(r_t \odot h_{t-1})\, W_{hh}^{n\,\top}$ (Cho et al.) | PyTorch resets after the product, $r_t \odot (h_{t-1} W_{hh}^{n\,\top} + b_{hh}^n)$, so that one product serves all gates | § 5 |
#
# </details>
#
# ## Summary
#
# - A plain RNN rewrites its memory at every word. An LSTM adds to it: three gates decide what is
#   kept, written and shown. A GRU makes do with two gates and one state. All maps are one product.
# - With the output gate shut, the cell keeps information that no hidden state shows, over any
#   distance (C30).
# - Along the cell, each step multiplies the gradient by the forget gate: it lives if that is open (C4).
#   The bias decides at the start, and the usual $b_f = 0$ is a bad one.
# - On recall the GRU learned the longest delay at once, the LSTM with an open gate up to ten times slower. It
#   is the tie: with $i = 1 - f$ the LSTM learned it at once, too (E1).
# - Parameters and FLOPs a token go together in recurrent networks. As a small, briefly trained model of
#   characters the LSTM was no better than the RNN, and counting five characters beat both (E3).
# - A cell can hold one fact of a sentence, and the network uses it: turn it round, and the verb
#   follows (E4). A correlation alone does not show that.
#
# What remains: everything that was read still has to fit into one vector (two, for an LSTM), and
# the steps have to be taken one after the other. Chapter 03 makes the first painful, chapter 04
# cures it.
#
# **Exercises**: [set 02](../exercises/02_lstm/02_lstm.ipynb)
#
# **Read on**: Hochreiter and Schmidhuber (1997), *Long short-term memory*. Gers, Schmidhuber and
# Cummins (2000), *Learning to forget: continual prediction with LSTM*. Cho et al. (2014), *Learning
# phrase representations using RNN encoder-decoder for statistical machine translation*. Chung et
# al. (2014), *Empirical evaluation of gated recurrent neural networks on sequence modeling*.
# Jozefowicz, Zaremba and Sutskever (2015), *An empirical exploration of recurrent network
# architectures*. Karpathy, Johnson and Li (2015), *Visualizing and understanding recurrent
# networks*. Greff et al. (2017), *LSTM: a search space odyssey*. Tallec and Ollivier (2018), *Can recurrent
# neural networks warp time?* Weiss, Goldberg and Yahav (2018), *On the practical computational power of
# finite precision RNNs for language recognition*. Lakretz et al. (2019), *The emergence of number and syntax
# units in LSTM language models*.
#
# ## Side roads
#
# ### What does training do to the gradient?
#
# *For readers of section 6 who ask whether a bad start is for ever.* Gates are learned. We train the LSTM
# with the worst bias on recall, over delays that vary from 1 to 20, and look again.


# %% evidence
# Training on recall over delays of 1 to 20, and the share of marks that are named
def share_answered(model, delay):
    """The share of 400 fresh sequences whose mark is named."""
    tokens = marked(delay, 400)
    return (model(tokens).argmax(-1) == tokens[0]).float().mean().item()


def trained_on_recall(network, batches):
    """A network after training on recall over delays drawn from 1 to 20."""
    model = Recall(network, "as it comes", hidden=64)
    optimizer = mt.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(batches):
        train_step(model, optimizer, marked(mt.randint(1, 21, ()).item(), 32))
    return model


# %%
@lab.experiment("C4", batches=[0, 150], full=dict(batches=[0, 300], seeds=5))
def gradient_after_training(batches):
    model = trained_on_recall("LSTM, b_f = 0", batches)
    right = share_answered(model, 20)
    norms = gradient_to_memory(model.rnn, marked(60, 8))
    return {"right at delay 20": right, "at distance 20": norms[20], "at distance 60": norms[60]}


# %% evidence
# The same LSTM before and after training: table and verdicts
runs = gradient_after_training.run()
runs.table("batches", ["right at delay 20", "at distance 20", "at distance 60"])


def after(rows, name):
    return rows.values(name, batches=rows.settings_of("batches")[-1])


runs.holds(
    "training raises the gradient at distance 60 by more than a thousand",
    lambda rows: after(rows, "at distance 60") / rows.values("at distance 60", batches=0),
    above=1e3,
)
runs.holds(
    "after training on delays of 1 to 20 the LSTM with b_f = 0 answers those of 20",
    lambda rows: after(rows, "right at delay 20"),
    above=0.95,
)

# %% [markdown]
# Training raises the gradient at distance 60 by many orders of magnitude, in different seeds to very
# different heights. The task is learned in every seed, at the longest delay too. So a vanished gradient
# at the start is no verdict. But the delays varied: the short ones can be learned first, and each makes
# the next one reachable. A fixed delay, as in section 7, is the hardest lesson.
#
# ### How does a plain RNN learn a delay of 20? (E5)
#
# *For readers of section 6 who wonder about its lowest curve.* A plain RNN as it comes has a spectral
# radius near 0.6, and $0.6^{20}$ is $4 \cdot 10^{-5}$: a delay of 20 should be out of its reach. It is
# not. Does a gradient that small suffice, or does something else happen first?
#
# We watch two things: the spectral radius of $W_{hh}$, and the norm of the gradient at the four columns of
# $W_{ih}$ that belong to the marks, which occur at the first step only. And we take things away. One network
# has $W_{hh}$ held fixed. One has SGD in place of Adam. And since Adam divides each weight's gradient by its
# own size, one takes steps in which *only* the sign of the gradient is left.


# %%
class Signs(mt.optim.Optimizer):
    """Steps of one size: each weight moves by the rate, against the sign of its gradient."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @mt.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad.sign()


WAYS = {"Adam": mt.optim.Adam, "W_hh fixed": mt.optim.Adam, "SGD": mt.optim.SGD, "signs": Signs}


# %%
@lab.experiment(
    "E5",
    way=list(WAYS),
    rate=[0.01],
    full=dict(rate=[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0], seeds=5),
)
def plain_rnn_learns(way, rate):
    """A plain RNN as it comes, on recall over 20 steps."""
    model = Recall("RNN", "as it comes", hidden=32)
    W_ih, W_hh = model.rnn.weight_ih_l0, model.rnn.weight_hh_l0
    W_hh.requires_grad_(way != "W_hh fixed")
    optimizer = WAYS[way]([p for p in model.parameters() if p.requires_grad], lr=rate)
    radius, to_marks = [], []
    for _ in range(200):
        train_step(model, optimizer, marked(20, 32))
        radius.append(np.abs(np.linalg.eigvals(W_hh.detach().numpy())).max())
        to_marks.append(W_ih.grad[:, :4].norm().item())
    return {
        "batch": list(range(1, 201)),
        "spectral radius": radius,
        "gradient at the marks": to_marks,
        "right": share_answered(model, 20),
    }


# %% evidence
# Spectral radius and gradient while each way trains: figure, table by rate, verdicts
runs = plain_rnn_learns.run()
SHOWN = (("Adam", 0.01), ("signs", 0.01), ("W_hh fixed", 0.01), ("SGD", 1.0))
figure, panels = plot.subplots(1, 2, width=8.5, height=2.8)
for way, rate in SHOWN:
    if not runs.best.has(way=way, rate=rate):
        continue
    part = runs.best.where(way=way, rate=rate)
    for axes, name in zip(panels, ("spectral radius", "gradient at the marks"), strict=True):
        median = np.median(part.values(name), axis=0)
        axes.plot(part[0]["batch"], median, label=f"{way}, {rate:g}")
        axes.set(xlabel="batch", ylabel=name)
panels[0].axhline(1, color="0.5", linewidth=1)
panels[1].set(yscale="log")
panels[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
said = "recorded: median over the seeds" if runs.full else "measured here"
figure.suptitle(said, fontsize=9, color="0.35")
plot.show(
    figure,
    alt="Left: under Adam and with signs the spectral radius of W_hh rises above one; under SGD it stays "
    "near 0.6. Right: the gradient at the weights of the marks rises a thousandfold and more under Adam "
    "at the same time, with signs later.",
)
under_adam = runs.best.where(way="Adam", rate=0.01)
radius, to_marks = (
    np.median(under_adam.values(name), axis=0)
    for name in ("spectral radius", "gradient at the marks")
)
for batch in (1, 60):
    measured(
        f"Adam, batch {batch:2}: radius {radius[batch - 1]:.2f}, "
        f"gradient at the marks {to_marks[batch - 1]:.0e}"
    )
runs.table("way", "right", columns="rate")
runs.holds(
    "Adam at rate 0.01 names more than nine marks in ten over 20 steps, in the median",
    lambda rows: np.median(rows.values("right", way="Adam", rate=0.01)),
    above=0.9,
)
runs.holds(
    "with W_hh fixed it answers less than half at every rate (a quarter is chance)",
    lambda rows: rows.values("right", way="W_hh fixed").max(),
    below=0.5,
)
runs.holds(
    "SGD answers less than half at every rate",
    lambda rows: rows.values("right", way="SGD").max(),
    below=0.5,
)

runs.holds(
    "steps of one size, by the signs alone, name more than chance (a quarter) in every seed",
    lambda rows: rows.values("right", way="signs", rate=0.01),
    above=0.35,
)

# %% [markdown]
# Under Adam the radius climbs past one in every seed, the gradient at the marks rises with it,
# several thousandfold, and the task is learned in four of five. With $W_{hh}$ held fixed, or with SGD, neither happens, and the
# task is not learned at any of the rates. So it is not the vanished gradient that carries the mark. **The
# weights move first, until it vanishes no more.** Steps that keep only the sign of the
# gradient do it as well, if less surely: at rate 0.01 they answer 0.44 to 1.00 (chance is 0.25). So what Adam adds to
# SGD is that every weight moves by about the rate, however small its gradient is. A radius above one is not
# enough: SGD at rate 3 reaches 5 to 10, and answers 0.43 at most.
#
# | best rate of each | share of marks named, five seeds |
# | --- | --- |
# | Adam | 0.50 to 1.00, four seeds 1.00 |
# | signs of the gradient | 0.44 to 1.00 |
# | SGD | 0.23 to 0.43 |
# | Adam, $W_{hh}$ fixed | 0.25 to 0.29 |
#
# > **E5 · The weights move first: under Adam the gradient at the marks rises from 3e-6 to 0.02 within 60 batches.** *Our question*: how does a plain RNN learn a delay that its gradient does not
# > reach?
# >
# > *Measured*: Delay 20, five seeds, 200 batches, eight rates from 0.001 to 3. Share of marks named: Adam at rate 0.01
# > 1.00 in four seeds and 0.50 in one; signs of the gradient at 0.01 0.44 to 1.00; SGD 0.43 at most, and with
# > $W_{hh}$ fixed 0.29 at most, at every rate.
#
# ### What do trained gates do?
#
# *For readers of section 4 who expect a learned cell to look like the one set by hand.* We train two LSTMs
# on recall over delays from 1 to 20, and read memory and gates of one unit over 40 steps: of each network
# the unit whose cell tells the four marks apart best.

# %% evidence
# Two LSTMs trained on recall
mt.manual_seed(0)
on_recall = {name: trained_on_recall(name, 150) for name in ("LSTM, b_f = 0", "LSTM, b_f = 3")}

# %% evidence
# Memory and gates of the unit that tells the marks apart best, in two trained LSTMs: figure
tokens = marked(40, 400)
figure, panels = plot.subplots(2, 4, width=8.5, height=3.3, sharex=True)
for (name, model), row in zip(on_recall.items(), panels, strict=True):
    inside = look_inside(model.rnn, F.one_hot(tokens, 8).float())
    at_end = mt.stack([inside["c"][-1, tokens[0] == mark].mean(0) for mark in range(4)])  # (4, H)
    unit = at_end.var(dim=0).argmax().item()
    for axes, (part, title) in zip(
        row,
        {"c": "memory c", "f": "forget gate", "i": "input gate", "o": "output gate"}.items(),
        strict=True,
    ):
        for mark in range(4):
            mean = inside[part][:, tokens[0] == mark, unit].mean(1)
            axes.plot(mean.tolist(), label=f"mark {mark}", linewidth=1.4)
        axes.set(title=title, **({} if part == "c" else {"ylim": (-0.03, 1.03)}))
        axes.title.set_fontsize(9)
    row[0].set_ylabel(f"{name}\nunit {unit}")
    measured(
        f"{name}: right at delays 20, 40, 80:",
        ", ".join(f"{share_answered(model, delay):.2f}" for delay in (20, 40, 80)),
        "; mean forget gate of all units "
        f"{inside['f'].mean().item():.2f}; c of unit {unit} after 40 steps, by mark:",
        ", ".join(f"{value:.1f}" for value in at_end[:, unit].tolist()),
    )
for axes in panels[1]:
    axes.set_xlabel("step after the mark")
panels[1][1].legend(fontsize=7, loc="center right")
plot.show(
    figure,
    alt="Two rows of four panels, one row an LSTM. The memory of one unit grows steadily upward for "
    "some marks and downward for others, and stays at zero for one. Its forget, input and output "
    "gates settle within five steps: near one for most marks, low for the mark at zero.",
)

# %% [markdown]
# Within five steps the gates have settled, differently for each mark: they see it through
# $h_{t-1}$. And the memory is not held still, as in section 4. For most marks forget and input gate
# stand open, and the cell moves by up to one at every step, in the direction of the mark: it is
# written again and again. For one mark all three gates close, and the cell stays at zero. Memory,
# hidden state and gates hold each other in place, and so the answers stay right at delays far beyond
# those of training. The average gate need not be near 1 (with $b_f = 0$ it is 0.6). In our two networks,
# what counts is that the few units that remember keep theirs open.
#
# ### Squash the memory or not (E2)
#
# *For readers of the lecture, whose cell shows $h_t = o_t \odot c_t$, while the usual one shows
# $h_t = o_t \odot \tanh(c_t)$.* Does it matter? The memory may grow beyond 1, as just seen, and $\tanh$
# hides by how much: from 3 on everything looks like 1. So we take two tasks: **counting** the ones in a
# stream of bits, trained on 12 steps and tested on longer streams, and **recall** over 10 steps. Each form
# gets a rate of its own.


# %% evidence
# An LSTM that shows o * squash(c), by our own loop
class Shown(nn.Module):
    """An nn.LSTM that shows h = o * squash(c), by our own loop."""

    def __init__(self, lstm, squash):
        super().__init__()
        self.lstm, self.squash = lstm, squash

    def forward(self, inputs):
        W_ih, W_hh, b_ih, b_hh = self.lstm.parameters()
        h = c = mt.zeros(inputs.shape[1], self.lstm.hidden_size)
        states = []
        for from_input in inputs @ W_ih.T + b_ih + b_hh:
            i, f, g, o = (from_input + h @ W_hh.T).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * self.squash(c)
            states.append(h)
        return mt.stack(states), None


SQUASH = {"o * tanh(c)": mt.tanh, "o * c": lambda c: c}


# %% evidence
# Two experiments: counting beyond the trained length, recall over 10 steps
def bits_and_counts(steps, batch_size):
    """Bits as one-hot vectors (T, B, 2), and how many ones there were so far, (T, B)."""
    bits = mt.randint(0, 2, (steps, batch_size))
    return F.one_hot(bits, 2).float(), bits.cumsum(0).float()


@lab.experiment(
    "E2",
    form=list(SQUASH),
    rate=3e-2,
    full=dict(rate=Tuned(1e-2, 3e-2, 1e-1, lowest="error at 12", seeds=3), seeds=5),
)
def count_ones(form, rate):
    """Mean error of the last count, after training on streams of 12 bits."""
    rnn = Shown(recurrent_layer("LSTM, b_f = 1", "as it comes", 2, 8), SQUASH[form])
    out = nn.Linear(8, 1)
    optimizer = mt.optim.Adam([*rnn.parameters(), *out.parameters()], lr=rate)
    for step in range(150):
        inputs, counts = bits_and_counts(12, 32)
        loss = F.mse_loss(out(rnn(inputs)[0]).squeeze(-1), counts)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * (1 - step / 150)
        optimizer.step()
    errors = {}
    for length in (12, 24, 48):
        inputs, counts = bits_and_counts(length, 200)
        last = out(rnn(inputs)[0][-1]).squeeze(-1)
        errors[f"error at {length}"] = (last - counts[-1]).abs().mean().item()
    return errors


@lab.experiment(
    "E2",
    form=list(SQUASH),
    rate=1e-2,
    batches=Budgets([200]),
    full=dict(
        rate=Tuned(3e-3, 1e-2, 3e-2, lowest="learned after", seeds=3, batches=600),
        batches=Budgets([200, 600, 2000]),
        seeds=8,
    ),
)
def recall_in_form(form, rate, batches):
    """Recall over 10 steps, as in section 8."""
    model = Recall("LSTM, b_f = 1", "as it comes", hidden=32)
    model.rnn = Shown(model.rnn, SQUASH[form])
    optimizer = mt.optim.Adam(model.parameters(), lr=rate)
    for learned in batches_to_learn(model, optimizer, 10, batches):
        yield {"learned after": learned}


# %% evidence
# Counting and recall with and without the squashing tanh: tables and verdicts
counting, recalling = count_ones.run(), recall_in_form.run()
counting.table("form", ["error at 12", "error at 24", "error at 48"])
recalling.table("form", "learned after", columns="batches")
counting.finding(
    "at twice the trained length o * tanh(c) is further off than o * c",
    "error at 24",
    larger=dict(form="o * tanh(c)"),
    smaller=dict(form="o * c"),
)
recalling.holds(
    "without the tanh, every seed learns recall over 10 steps within 200 batches",
    lambda rows: arrived(rows, form="o * c", batches=200),
    above=0.99,
)
if recalling.full:
    recalling.finding(
        "recorded: with the tanh recall takes more batches",
        "learned after",
        larger=dict(form="o * tanh(c)", batches=2000),
        smaller=dict(form="o * c", batches=2000),
    )

# %% [markdown]
# Up to the trained length both forms count. At twice that length $o \odot \tanh(c)$ is far off and
# $o \odot c$ much less: a cell that grows by the same amount with each one is a counter, and $\tanh$
# hides where it stands. Further out, small errors of the forget gate have added up, and the spread is
# wide. Recall is learned with and without the $\tanh$, but with it later, in each of
# eight seeds: a finding. So squashing is no part of what makes an LSTM remember. It keeps $h_t$ between $-1$ and
# 1; the price is the count.
#
# > **E2 · Squashing costs the count, an error of 2.8 to 4.3 in place of 0.4 to 1.0, and makes recall slower, 81 batches in place of 34.** *Our question*: does it help to squash the memory, $h = o \odot \tanh(c)$ in
# > place of $o \odot c$?
# >
# > *Measured*: Error of a count at twice the trained length, five seeds: 2.8 to 4.3 squashed, 0.4 to 1.0 not. Batches
# > until recall over ten steps is learned, eight seeds: 18 to 801 squashed, 17 to 48 not.
#
# ### What does a search find in any network? (E6)
#
# *For readers of section 9 who want to look into a network of their own.* The same search on real text: the
# LSTM of section 8, 65 cells, and four properties of the text that we name beforehand, each a number at each
# character. Again the unit is chosen on training text and its correlation measured on held-out text, in
# trained and in untrained networks with the same seed. And again we ask whether the network listens: the
# cell is held at its mean, and we see what the loss does.


# %% evidence
# Streams of text, four properties of each token, and the cell found for each of them
def streams(text, length=600, count=12):
    """The first ``count`` stretches of a text side by side, (length, count)."""
    return text[: length * count].reshape(count, length).T


def text_properties(tokens):
    """Four properties after each token, one row a token: (T, 4)."""
    quoted, letter, capital, place = False, 0, False, 0
    rows = []
    for token in tokens:
        place = 0 if token == "<s>" else place + 1
        quoted = False if token == "<s>" else quoted ^ (token == '"')
        capital = token.isupper() or (capital and token.isalpha())
        letter = letter + 1 if token.isalpha() else 0
        rows.append([quoted, min(letter, 8), capital, min(place, 200)])
    return mt.tensor(rows).float()


PROPERTIES = ["in quotes", "letters in the word", "capital", "place"]
searched, held_out = streams(training), streams(validation)
in_searched, in_held_out = (
    mt.stack([text_properties(letters.decode(stream)) for stream in tokens.T], dim=1)
    for tokens in (searched, held_out)
)  # (T, B, 4) each


@mt.no_grad()
def search(model):
    """For each property the unit chosen on training text, and its held-out correlation."""
    found = []
    for tokens, properties in ((searched, in_searched), (held_out, in_held_out)):
        cells = look_inside(model.rnn, model.embedding(tokens))["c"]
        found.append(correlations(cells[50:], properties[50:]))
    units = found[0].abs().argmax(0)  # (4)
    return units, found[1][units, mt.arange(4)]


# %% evidence
# The experiment: four cells found by their correlation, and the loss when each is held at its mean
@lab.experiment("E6", gflops=[0], full=dict(gflops=[0, 45, 135], seeds=10))
def found_in_text(gflops):
    model = language_model("LSTM, 65 units")
    train_language_model(model, 4e-2, gflops)
    units, there = search(model)
    lost = {}
    with mt.no_grad():
        inputs, targets = model.embedding(held_out[:-1]), held_out[1:]
        inside = look_inside(model.rnn, inputs)
        free = token_loss(model.out(inside["h"]), targets).item()
        for name, unit in zip(PROPERTIES, units.tolist(), strict=True):
            mean = inside["c"][..., unit].mean()
            states = look_inside(model.rnn, inputs, held=(unit, mean))["h"]
            lost[f"held: {name}"] = token_loss(model.out(states), targets).item() - free
    return dict(zip(PROPERTIES, there.abs().tolist(), strict=True)) | lost


# %% evidence
# Correlations and losses, trained and untrained: table and verdicts
runs = found_in_text.run()
runs.table("gflops", PROPERTIES)
runs.table("gflops", [f"held: {name}" for name in PROPERTIES])
if runs.full:
    for name in ("capital", "place"):
        runs.finding(
            f"a trained network has a cell that goes more closely with the property: {name}",
            name,
            larger=dict(gflops=45),
            smaller=dict(gflops=0),
        )
    for name in PROPERTIES:
        more, less = (runs.full.values(name, gflops=gflops) for gflops in (45, 0))
        told = finding(more, less)
        measured(
            f"recorded: {name}, trained above untrained in {(more > less).sum()} of {len(more)} "
            f"seeds, p = {told.p:.2g}, a finding: {told.found}"
        )
runs.holds(
    "with the cell of place held at its mean the loss rises by less than 0.005 nats",
    lambda rows: rows.values("held: place", gflops=45),
    below=0.005,
)

# %%
mt.manual_seed(1)
model = language_model("LSTM, 65 units")
train_language_model(model, rate=4e-2, gflops=45)
units, there = search(model)
at = PROPERTIES.index("letters in the word")
with mt.no_grad():
    inside = look_inside(model.rnn, model.embedding(held_out))
cell = there[at].sign() * inside["c"][..., units[at].item()]  # (T, B)
text = letters.decode(held_out[60:260, 0])

# %% evidence
# The text coloured by that cell
shades = (cell[60:260, 0] - cell.mean()) / (4 * cell.std()) + 0.5
colored_text(
    [{"<s>": "¶"}.get(token, token) for token in text],
    shades.tolist(),
    alt="Held-out text coloured by the cell that goes best with the number of letters read: the darker, "
    "the more letters of the word; pale again after a space.",
)

# %% [markdown]
# The picture makes a fine story: the cell grows darker through a word and pales at each space. Mind the
# control: an untrained network follows the letters nearly as well, 0.50 to 0.67 beside 0.58 to 0.70, since a space is
# an input like no other. What training adds is *place*, how far we are into the paragraph, which no single character
# tells: 0.21 to 0.66, untrained 0.06 at most. Quotes and capitals gain less, and the
# letters least (all four are findings).
#
# And does the network listen? Hold the cell of *place* at its mean, and the loss does not move, by less than 0.0005
# nats in each of ten networks. Hold the cell of the letters, and it rises by up to 0.12. So the property that was
# learned is not used, and the one that is used was half there before training. (Our guess: a cell that counts the
# place runs far beyond 3, where $\tanh$ hides it.) A correlation is a place to look, no result.
#
# > **E6 · A cell follows the place in the paragraph, 0.21 to 0.66, untrained 0.06 at most, but the loss does not need it, 0.000 nats.** *Our question*: which properties of a text does a search find in the cells of a
# > trained network that it does not find in an untrained one?
# >
# > *Measured*: Ten networks, 45 GFLOPs, correlation on held-out text, trained and untrained: place 0.21 to 0.66 and
# > 0.02 to 0.06; in quotes 0.05 to 0.20 and 0.00 to 0.04; capital 0.23 to 0.33 and 0.11 to 0.28; letters in the word
# > 0.58 to 0.70 and 0.50 to 0.67. The cell held at its mean costs 0.000 nats for place and capital, for letters up to
# > 0.12. Three times the training changes none of this.
