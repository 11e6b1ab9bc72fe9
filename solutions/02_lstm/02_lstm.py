# %% [markdown]
# # Exercises 02: LSTM and GRU
#
# Ten exercises, 40 points, about five hours. The **core** (1, 4, 6) takes 75 minutes. They belong
# to [chapter 02](../../notebooks/02_lstm.ipynb).
#
# **How it works.** Replace `raise NotImplementedError` by your answer, run the cell, then the check below it. [The rules](../../docs/exercises.md).
# In exercises 1 and 4 the gradients of your results are compared, too: no `.item()`, `.detach()` or NumPy on the way there.
#
# **Shapes.** As in the chapter: $T$ steps, $B$ sequences, $d$ numbers per input, $H$ units. Inputs are $(T, B, d)$, states $(T, B, H)$.
# Vectors are rows; $W_{ih}$, $(H, d)$, and $W_{hh}$, $(H, H)$, stand as PyTorch stores them, so the product is $x_t W_{ih}^\top$. The
# sums of an LSTM stand in the order $i, f, g, o$.

# %%
import math

import minitorch as mt
from textbook.checks import chapter_02 as check
from textbook.checks import progress
from textbook.lab import measured

progress.show("02")

# %% [markdown]
# ## 1. Gates that look into the cell
#
# *Core · easy · 20 minutes · 4 points*
#
# Give the gates **peepholes** (Gers and Schmidhuber, 2000): each also looks at its own unit's cell, with one number a unit. Write a step:
#
# $$i_t = \sigma(a^i_t + p^i \odot c_{t-1}) \qquad f_t = \sigma(a^f_t + p^f \odot c_{t-1}) \qquad g_t = \tanh(a^g_t)$$
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t \qquad o_t = \sigma(a^o_t + p^o \odot c_t) \qquad h_t = o_t \odot \tanh(c_t)$$
#
# ```pycon
# >>> zero, one = mt.zeros(1, 1), mt.ones(1, 1)
# >>> peepholes = mt.tensor([[0.0], [9.0], [0.0]])  # the forget gate sees the cell, and opens
# >>> peephole_cell(zero, zero, one, mt.zeros(4, 1), mt.zeros(4, 1), mt.zeros(4), peepholes)
# (tensor([[0.3808]]), tensor([[0.9999]]))
# ```
#
# - $a_t = x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b$, $(B, 4H)$, holds the four sums. `W_ih` is $(4H, d)$, `W_hh` $(4H, H)$, `b` $(4H)$.
# - `peepholes` $(3, H)$ holds $p^i$, $p^f$, $p^o$. Return the new `h` and the new `c`, each $(B, H)$.
# - Multiply by a matrix at most twice, once by `W_ih` and once by `W_hh`. Sums may be in the thousands.
#
# *Not allowed*: `F.linear`, `nn.Linear`, `nn.LSTMCell`, `nn.LSTM` (the operations `linear` and `lstm`). *Useful*: `chunk(4, dim=-1)`.
#
# <details><summary>First hint</summary>
#
# Compute all four sums at once, then cut them. In which order do the six lines run?
#
# </details>
# <details><summary>Second hint</summary>
#
# The new cell is there before the output gate is asked. The library's `sigmoid` and `tanh` take large sums.
#
# </details>


# %% solution="peephole_cell"

# %% tests="peephole_cell" points=4
check.peephole_cell(peephole_cell)
### BEGIN HIDDEN TESTS
check.peephole_cell(peephole_cell, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. A GRU that was trained elsewhere
#
# *Practice · easy · 20 minutes · 4 points*
#
# Another program has trained a GRU. A step there is
#
# $$[a^z, a^r, a^n] = x_t\, \text{kernel} + \text{bias}_0 \qquad [u^z, u^r, u^n] = h_{t-1}\, \text{recurrent} + \text{bias}_1$$
#
# $$z = \sigma(a^z + u^z) \qquad r = \sigma(a^r + u^r) \qquad n = \tanh(a^n + r \odot u^n) \qquad h_t = z \odot n + (1 - z) \odot h_{t-1}$$
#
# with `kernel` $(d, 3H)$, `recurrent` $(H, 3H)$, `bias` $(2, 3H)$; the brackets are blocks of $H$ columns. Return weights with which the
# chapter's GRU does the same: `W_ih` $(3H, d)$, `W_hh` $(3H, H)$, `b_ih` and `b_hh` $(3H)$. Three things differ there:
#
# - how the matrices stand;
# - the order of the blocks: $r$, $z$, $n$;
# - its $z = 1$ keeps the old state.
#
# ```pycon
# >>> W_ih, *_ = moved_gru(mt.tensor([[1.0, 2.0, 3.0]]), mt.zeros(1, 3), mt.zeros(2, 3))
# >>> W_ih
# tensor([[ 2.],
#         [-1.],
#         [ 3.]])
# ```
#
# The check runs a GRU with your weights. Why can the two biases not be added up?
#
# <details><summary>First hint</summary>
#
# What must happen to the sum of a gate $z$ so that it becomes $1 - z$?
#
# </details>
# <details><summary>Second hint</summary>
#
# $\sigma(-a) = 1 - \sigma(a)$. The same moves serve kernel, recurrent and both biases.
#
# </details>


# %% solution="moved_gru"

# %% tests="moved_gru" points=4
check.moved_gru(moved_gru)
### BEGIN HIDDEN TESTS
# For r and z only the sum of both biases counts. In the candidate the second one is multiplied by r,
# and the first one is not.
check.moved_gru(moved_gru, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Which cell counts?
#
# *Practice · medium · 30 minutes · 3 points*
#
# Take away what one cell remembers. Return the share of right answers without each unit's cell, $(H)$.
#
# ```pycon
# >>> x = mt.tensor([[[1.0], [1.0], [-1.0]]])  # one step, three sequences; cells of 1/2, 1/2 and -1/2
# >>> W_ih, W_out = mt.tensor([[0.0], [0.0], [9.0], [0.0]]), mt.tensor([[1.0], [-1.0]])
# >>> without_each_cell(x, mt.tensor([0, 0, 1]), W_ih, mt.zeros(4, 1), mt.zeros(4), W_out)  # held at 1/6: all say 0
# tensor([0.6667])
# ```
#
# - For each unit run the LSTM from zeros. At every step, as soon as $c_t$ is computed, **hold** this unit: its cell becomes its mean over
#   the sequences. $h_t$ reads the held cell. All other units are free.
# - The answer has the largest of the scores $h_T W_{out}^\top$, $(B, C)$.
# - `x` is $(T, B, d)$, `answers` $(B)$. `W_ih`, `W_hh` and `b` are those of exercise 1, `W_out` is $(C, H)$.
#
# Below, three LSTMs have learned whether a stream has more *a* than *b*. In which does one cell count?
#
# <details><summary>First hint</summary>
#
# First write the loop without holding. Between which two lines does the mean belong?
#
# </details>
# <details><summary>Second hint</summary>
#
# `c[:, unit]` is a column: put its mean there before $h_t$ is computed. Start anew for each unit.
#
# </details>


# %% solution="without_each_cell"

# %% tests="without_each_cell" points=3
check.without_each_cell(without_each_cell)
for seed in range(3):
    shares = without_each_cell(*check.counter(seed)).tolist()
    measured(f"training {seed}: {', '.join(f'{share:.0%}' for share in shares)}")
### BEGIN HIDDEN TESTS
# In 0 and 2 one cell counts, and most answers stand without any other. In 1 no cell alone is needed: several share the
# count, and each can be missed. So "no single cell does it" does not mean that the network does not count.
check.without_each_cell(without_each_cell, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A padded batch
#
# *Core · medium · 25 minutes · 5 points*
#
# Run an LSTM over sequences of different lengths, and stop each at its own end. Return all hidden states $(T, B, H)$, **zeros at the
# padding**, and the pair `(h, c)`, each $(B, H)$, that every sequence had **after its own last step**.
#
# ```pycon
# >>> x = mt.tensor([[1.0, 1.0], [1.0, math.nan]]).unsqueeze(-1)
# >>> states, (h, c) = read_padded(x, mt.tensor([2, 1]), mt.ones(4, 1), mt.zeros(4, 1), mt.zeros(4))
# >>> states.squeeze(-1), h.T
# (tensor([[0.3696, 0.3696],
#         [0.5453, 0.0000]]), tensor([[0.5453, 0.3696]]))
# ```
#
# - `x` is $(T, B, d)$. Of sequence $b$ the first `lengths[b]` steps are real, from 1 to $T$.
# - The padding may hold anything, **infinity and NaN included**. It changes neither results nor gradients.
# - `W_ih` $(4H, d)$, `W_hh` $(4H, H)$ and `b` $(4H)$ are those of the chapter's LSTM.
# - `state` is the pair `(h, c)` to start from, each $(B, H)$; None means zeros.
#
# *Not allowed*: `nn.LSTM` and `nn.LSTMCell` (the operation `lstm`). *Useful*: `mt.where`.
#
# <details><summary>First hint</summary>
#
# At step $t$ choose between the new pair and the old one, for each sequence.
#
# </details>
# <details><summary>Second hint</summary>
#
# A NaN that `where` throws away comes back with the gradient: zero times NaN is NaN. So replace the input, too.
#
# </details>


# %% solution="read_padded"

# %% tests="read_padded" points=5
check.read_padded(read_padded)
### BEGIN HIDDEN TESTS
check.read_padded(read_padded, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A forget bias for a distance
#
# *Practice · medium · 20 minutes · 3 points*
#
# Through the cell, each step multiplies the gradient by the forget gate, at the start about $\sigma(b_f)$. Open
# the forget gates of `lstm` so far that a share `left` of the gradient (between 0 and 1) is left after `steps` steps.
#
# ```pycon
# >>> lstm = mt.nn.LSTM(1, 1)
# >>> open_forget_gates(lstm, steps=40, left=0.5)
# >>> round((lstm.bias_ih_l0 + lstm.bias_hh_l0)[1].item(), 3)  # sigmoid(4.047) ** 40 is 0.5
# 4.047
# ```
#
# - `lstm` is an `nn.LSTM` with biases, of any number of layers, in one or two directions: set all its forget gates.
# - Two biases go into a gate, `bias_ih` and `bias_hh`, $(4H)$ each: they must **add up** to $b_f$, shared as you like.
# - All other numbers stay. Change parameters **in place**, inside `mt.no_grad()`.
#
# <details><summary>First hint</summary>
#
# Which gate $f$ has $f^{\text{steps}} = $ `left`? Which number has this sigmoid?
#
# </details>
# <details><summary>Second hint</summary>
#
# $b_f = \log\big(f / (1 - f)\big)$, in the rows $H$ to $2H - 1$ of one bias; 0 in the other. `lstm.named_parameters()` gives names such
# as `bias_hh_l1_reverse`, and `lstm.hidden_size` is $H$.
#
# </details>


# %% solution="open_forget_gates"

# %% tests="open_forget_gates" points=3
check.open_forget_gates(open_forget_gates)
for distance in (1, 10, 40, 160):
    one = mt.nn.LSTM(1, 1)
    open_forget_gates(one, distance, 0.5)
    bias = (one.bias_ih_l0 + one.bias_hh_l0)[1].item()
    leaves = 0.7311**distance  # sigmoid(1) is 0.7311
    print(f"half after {distance:3} steps: bias {bias:.2f}; a bias of 1 leaves {leaves:.1e}")
### BEGIN HIDDEN TESTS
check.open_forget_gates(open_forget_gates, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Two bits behind shut gates
#
# *Core · medium · 30 minutes · 4 points*
#
# Set an LSTM's weights by hand so that each of its **two units** keeps a bit. At each step it reads `write`, `slot`, `bit`, `read`, in this order:
# `bit` is $-1$ or $+1$, the rest 0 or 1.
#
# - Where `write` is 1, unit `slot` takes the `bit`. The other keeps its own.
# - Where `write` is 0, both keep theirs, over hundreds of steps.
# - Where `read` is 1, unit `slot` shows its bit, even one just written: $h_t > 0.5$ for $+1$, $h_t < -0.5$ for $-1$.
# - Any other unit has $|h_t| < 0.05$.
#
# Return `W_ih`, `W_hh` and `b`, two rows each for $i, f, g, o$. A run starts from $h = c = 0$ and writes both slots first.
#
# <details><summary>First hint</summary>
#
# Take one gate at a time. When must the input gate of unit 1 be open?
#
# </details>
# <details><summary>Second hint</summary>
#
# "`write` and `slot` are both 1": $30 \cdot \text{write} + 30 \cdot \text{slot} - 45$ is $15$ then, and at most $-15$ else. The forget gate
# is open just where the input gate is shut.
#
# </details>


# %% solution="two_bits"

# %% tests="two_bits" points=4
check.two_bits(two_bits)
### BEGIN HIDDEN TESTS
check.two_bits(two_bits, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these layers is broken?
#
# *Practice · hard · 35 minutes · 4 points*
#
# `states, (h, c) = layer(x, state)` reads `x` $(T, B, 3)$. It returns all states $(T, B, 4)$ and the last pair,
# $(B, 4)$ each. `state` is such a pair, or None. It is right if
#
# 1. `h` is the last state;
# 2. None means zeros, in every call;
# 3. read in two pieces, the second from the first's pair, `x` gives the same;
# 4. no sequence depends on another;
# 5. arguments stay unchanged;
# 6. from `h` a gradient, not all zeros, reaches each sequence's first input.
#
# Test them; return the numbers of the broken ones, counted from 0. Of these eight, five are:
#
# ```pycon
# >>> len(broken_layers(check.unknown_layers()))
# 5
# ```
#
# Values within $10^{-9}$ (float64) are equal.

# %%
eight = check.unknown_layers()

# %% [markdown]
# <details><summary>First hint</summary>
#
# One line for each rule. Which inputs hide a mistake? One step, one sequence, a state of zeros.
#
# </details>
# <details><summary>Second hint</summary>
#
# Keep clones of `x` and `state`. Rule 2: call with None after another call, and compare with zeros: `mt.allclose(a, b, rtol=0, atol=1e-9)`.
#
# </details>


# %% solution="broken_layers"

# %% tests="broken_layers" points=4
check.broken_layers(broken_layers)
print("broken:", broken_layers(eight))
### BEGIN HIDDEN TESTS
check.broken_layers(broken_layers, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Find out
#
# *Practice · open · 60 minutes · 4 points*
#
# Ask a question of your own about what recurrent networks remember, such as: what does a wrong bias cost? Answer it by runs. `check.trained` and
# `check.sequences` train and measure on the task of exercise 10.
#
# - `run(setting, seed)` trains and measures **once**: a number. Same seed, same number.
# - `report()` returns a dict: `"question"`, two to four `"settings"`, five or more `"seeds"`, numbers that you chose as `"fixed"`, and three `"sentences"`:
#   what you found, how sure that is, what your runs do *not* show.
# - Each number in them follows the name of its setting, and is compared with the check's runs: [the rules](../../docs/exercises.md#Open-questions).
#
# <details><summary>First hint</summary>
#
# Change one thing. What would the other side call unfair?
#
# </details>
# <details><summary>Second hint</summary>
#
# Run with any report first: the check prints mean and spread of all settings.
#
# </details>


# %% solution="find_out"
def run(setting, seed):
    """Train once, and measure once: a number."""
    ### BEGIN SOLUTION
    bias = {"a shut gate": -2.0, "an open gate": 2.0}[setting]
    model = check.trained("GRU", bias, rate=0.1, steps=30, seed=seed)
    mt.manual_seed(1000 + seed)
    tokens, answers, _ = check.sequences(24, 400)
    with mt.no_grad():
        return (model(tokens).argmax(dim=-1) == answers).float().mean().item()
    ### END SOLUTION


def report():
    """Question, settings, seeds, what was fixed, and three sentences: a dict."""
    ### BEGIN SOLUTION
    return {
        "question": "After 30 steps, does a GRU remember more if its update gate starts open?",
        "settings": ["a shut gate", "an open gate"],
        "seeds": [1, 2, 3, 4, 5],
        "fixed": {"steps": 30, "rate": 0.1},
        "sentences": [
            "With a shut gate 38 % of the answers are right, with an open gate 68 %.",
            "From a shut gate to an open gate all 5 seeds gain (p = 0.03), and with an open gate "
            "they spread by 13 %.",
            "The rate was 0.1 for both: with a rate of its own, or with more steps, the shut gate may "
            "catch up.",
        ],
    }
    ### END SOLUTION


# %% tests="find_out" points=4
check.find_out(run, report)
### BEGIN HIDDEN TESTS
# The check gives the points for runs that can be repeated and true numbers; who reads takes away one
# for each that is missing: a question whose answer was open; one change, with as good a rate and as large a
# budget for each side; a first sentence that follows from the numbers, a second that weighs them by the
# spread; a third that names what was not tried. The rubric stands in docs/instructors.md.
### END HIDDEN TESTS

# %% [markdown]
# ## 9. One step backward
#
# *Challenge · hard · 35 minutes · 5 points*
#
# Compute the gradient of an LSTM step without the engine. The sums $a = x_t W_{ih}^\top + h W_{hh}^\top + b$ went through
# sigmoid and tanh and gave `gates`, the tuple `(i, f, g, o)`, each $(B, H)$. Then $c' = f \odot c + i \odot g$ and $h' = o \odot \tanh(c')$.
#
# ```pycon
# >>> half, one = mt.full((1, 1), 0.5), mt.ones(1, 1)
# >>> gates = half, half, mt.zeros(1, 1), half
# >>> lstm_step_backward(one, one, mt.zeros(4, 1), gates, mt.zeros(1, 1), one)  # dL/dc = f
# (tensor([[0.]]), tensor([[0.5000]]), tensor([[0.0000],
#         [0.2500],
#         [0.5000],
#         [0.0000]]))
# ```
#
# - `h` and `c` $(B, H)$ are the old states; `W_hh` is $(4H, H)$.
# - `grad_h_new` $(B, H)$ is $\partial \mathcal L / \partial h'$. `grad_c_new` $(B, H)$ is what comes back to $c'$ from the **next cell**, not through $h'$.
# - Return $\partial \mathcal L / \partial h$, $(B, H)$; $\partial \mathcal L / \partial c$, $(B, H)$; and this step's
#   $\partial \mathcal L / \partial W_{hh}$, $(4H, H)$, summed over the batch.
#
# *Not allowed*: `nn.LSTM`, `nn.LSTMCell` (the operation `lstm`), the engine's `backward()` and `autograd.grad`.
#
# <details><summary>First hint</summary>
#
# From $h'$ to $o$ and $c'$, to $f$, $c$, $i$ and $g$, to the sums, to $h$ and $W_{hh}$.
#
# </details>
# <details><summary>Second hint</summary>
#
# Two gradients meet at $c'$: add them before you go on. A sigmoid $s$ has the derivative $s(1 - s)$, a tanh $t$ has $1 - t^2$.
#
# </details>


# %% solution="lstm_step_backward"

# %% tests="lstm_step_backward" points=5
check.lstm_step_backward(lstm_step_backward)
### BEGIN HIDDEN TESTS
check.lstm_step_backward(lstm_step_backward, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Train, and measure how far it remembers
#
# *Challenge · hard · 35 minutes · 4 points: 2 for the measure, 2 for what is reached*
#
# ### The measure
#
# Return a dict from 0, 10, ... to the share of right answers at the distances 0 to 9, 10 to 19, ..., over all batches.
#
# ```pycon
# >>> class Zero(mt.nn.Module):
# ...     def forward(self, tokens):
# ...         return mt.tensor([[1.0, 0.0]]).expand(tokens.shape[1], 2)
# >>> answers, distances = mt.tensor([0, 1, 0]), mt.tensor([3, 9, 31])
# >>> right_by_distance(Zero(), [(mt.zeros(5, 3).long(), answers, distances)])
# {0: 0.5, 30: 1.0}
# ```
#
# - `model(tokens)` gives scores $(B, C)$ for tokens $(T, B)$; the largest is its answer.
# - `batches` is a list of triples: tokens of any length, right answers $(B)$, distances $(B)$.
# - A group without a sequence does not appear.
# - Measure in `eval()`. Afterwards the model is in the mode in which it came.
#
# <details><summary>First hint</summary>
#
# Which group does the distance 27 belong to? `27 // 10 * 10`.
#
# </details>
# <details><summary>Second hint</summary>
#
# Collect all hits of a group over all batches, then divide.
#
# </details>


# %% solution="right_by_distance"

# %% tests="right_by_distance" points=2
check.right_by_distance(right_by_distance)
### BEGIN HIDDEN TESTS
check.right_by_distance(right_by_distance, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# Two marks stand in noise; the network names the **second**. `check.trained(network, bias, rate, steps, seed)`
# trains on 6 to 24 tokens; `check.sequences(steps, batch)` draws tokens, answers and distances. Return a dict:
#
# - `"network"`: `"RNN"`, `"GRU"` or `"LSTM"`;
# - `"bias"`, from -10 to 10, with which the LSTM's forget or GRU's update gate begins;
# - `"rate"`, below 1 (it falls to zero), and `"steps"`, at most 300.
#
# Measured are streams of up to 72 tokens: in each group up to 49, 90 % must be right with **each** of the seeds 11 to 13. Try other seeds,
# and rates far above the usual.


# %% solution="chosen_memory"
def chosen_memory():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"network": "GRU", "bias": 1.0, "rate": 0.2, "steps": 300}
    ### END SOLUTION


# %% tests="chosen_memory" points=2
check.reached(right_by_distance, chosen_memory)
### BEGIN HIDDEN TESTS
# A GRU can, its gate open or not (from a bias of -3 on), and an LSTM whose gate is open; the RNN's state goes through W_hh and tanh at each step. The LSTM depends
# more on the rate: its cell is a sum, which may grow in streams longer than those of training; the GRU's state, an average, cannot.
check.right_by_distance(right_by_distance, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# [Chapter 03](../../notebooks/03_seq2seq.ipynb) puts two such networks together, one that reads and one that writes.
