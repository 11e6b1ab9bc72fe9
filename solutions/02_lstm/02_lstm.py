# %% [markdown]
# # Exercises 02: LSTM and GRU
#
# Ten exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 02](../../notebooks/02_lstm.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the first line of the
# function. Run the cell, then the check below it. The check looks at what your function does, on
# random inputs of several sizes: any way of writing it that gives the right result is right. A wrong
# answer is told what it looks like. What you see passing are the *public checks*; when the set is
# graded, the same checks run once more on other numbers and sizes. Where an exercise does not allow an
# operation, the check records what runs inside your function, under whatever name you call it. In
# exercises 1 to 4 and 8 the gradients of your results are compared, too: the results must stay tensors
# that the library's operations have made of the inputs, so keep away from `.item()`, `.detach()` and
# NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** Time comes first: $T$ steps, $B$ sequences side by side, $d$ numbers per input, $H$ units
# per state. Inputs are $(T, B, d)$, states $(T, B, H)$; at one step, $(B, d)$ and $(B, H)$. The hidden state is
# $h_t$, the memory cell $c_t$, and the gates of the LSTM stand in PyTorch's order: $i, f, g, o$. Vectors are
# rows, and $W_{ih}$, $(H, d)$, and $W_{hh}$, $(H, H)$, stand as PyTorch stores them, as in the chapter: the product
# is $x_t W_{ih}^\top$.

# %%
import minitorch as mt
from textbook.checks import chapter_02 as check
from textbook.checks import progress

progress.show("02")

# %% [markdown]
# ## 1. The gates
#
# *Goal: compute what opens and shuts the cell. Easy, 10 minutes, 2 points.*
#
# Each of the four has its own weights, a tuple $(W_{ih}, W_{hh}, b)$ of shapes $(H, d)$, $(H, H)$ and $(H)$, and
# looks at the input and at the old hidden state:
#
# $$i = \sigma(x_t W_{ih}^{i\,\top} + h_{t-1} W_{hh}^{i\,\top} + b^i) \qquad f = \sigma(x_t W_{ih}^{f\,\top} + h_{t-1} W_{hh}^{f\,\top} + b^f)$$
#
# $$g = \tanh(x_t W_{ih}^{g\,\top} + h_{t-1} W_{hh}^{g\,\top} + b^g) \qquad o = \sigma(x_t W_{ih}^{o\,\top} + h_{t-1} W_{hh}^{o\,\top} + b^o)$$
#
# $i$, $f$, $o$ are the input gate, the forget gate and the output gate; $g$ is the candidate, what is to be
# written. For a whole batch: `x_t` is $(B, d)$, `h` is $(B, H)$. Return `i, f, g, o`, each $(B, H)$.
#
# Not allowed: `F.linear` and `nn.Linear` (the operation `linear`).


# %% solution="lstm_gates"
def lstm_gates(x_t, h, weights_i, weights_f, weights_g, weights_o):
    """Input (B, d) and old state (B, H) give i, f, g, o, each (B, H)."""
    ### BEGIN SOLUTION
    all_weights = [weights_i, weights_f, weights_g, weights_o]
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b for W_ih, W_hh, b in all_weights)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    ### END SOLUTION


# %% tests="lstm_gates" points=2
check.lstm_gates(lstm_gates)
### BEGIN HIDDEN TESTS
check.lstm_gates(lstm_gates, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The cell in one product
#
# *Goal: write the whole step of the LSTM as a library does. Easy, 15 minutes, 4 points.*
#
# Now the weights of all four are stacked: `W_ih` is $(4H, d)$, `W_hh` is $(4H, H)$, `b` is $(4H)$. The first
# $H$ rows belong to $i$, the next to $f$, then $g$, then $o$. So one sum, $(B, 4H)$, holds all that goes into the
# gates. Cut it into four, squash each part as in exercise 1, and update both states:
#
# $$c_t = f \odot c_{t-1} + i \odot g \qquad h_t = o \odot \tanh(c_t)$$
#
# Return the new `h` and the new `c`, each $(B, H)$. Your answer may multiply by a matrix at most twice, once by
# `W_ih` and once by `W_hh`. (Some lectures write $h_t = o \odot c_t$. This exercise asks for the usual form,
# with the tanh.)
#
# Not allowed: `F.linear`, `nn.Linear`, `nn.LSTMCell` and `nn.LSTM` (the operations `linear` and `lstm`). Useful:
# `chunk(4, dim=-1)`.


# %% solution="lstm_cell"
def lstm_cell(x_t, h, c, W_ih, W_hh, b):
    """Input (B, d) and old states (B, H) give the new h and the new c, each (B, H)."""
    ### BEGIN SOLUTION
    sums = x_t @ W_ih.T + h @ W_hh.T + b  # (B, 4 H)
    i, f, g, o = sums.chunk(4, dim=-1)  # (B, H) each
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c
    ### END SOLUTION


# %% tests="lstm_cell" points=4
check.lstm_cell(lstm_cell)
### BEGIN HIDDEN TESTS
check.lstm_cell(lstm_cell, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. All steps
#
# *Goal: run the cell over a sequence and carry both states. Easy, 10 minutes, 3 points.*
#
# `x` is $(T, B, d)$, the weights are stacked as in exercise 2. `state` is the pair `(h, c)` to start from, each
# $(B, H)$; where it is None, both are zeros. Apply the step of exercise 2 to `x[0]`, `x[1]`, ... Return two things: all
# hidden states $h_1 \dots h_T$ as one tensor $(T, B, H)$, and the pair `(h, c)` after the last step. The gradient must
# be able to flow back through all steps.
#
# Not allowed: `nn.LSTM` and `nn.LSTMCell` (the operation `lstm`).


# %% solution="lstm"
def lstm(x, W_ih, W_hh, b, state=None):
    """Inputs (T, B, d) give the states h_1 ... h_T, (T, B, H), and the last pair (h, c)."""
    ### BEGIN SOLUTION
    if state is None:
        zeros = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
        state = zeros, zeros
    h, c = state
    states = []
    for x_t in x:
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()  # (B, H)
        h = o.sigmoid() * c.tanh()  # (B, H)
        states.append(h)
    return mt.stack(states), (h, c)
    ### END SOLUTION


# %% tests="lstm" points=3
check.lstm(lstm)
### BEGIN HIDDEN TESTS
check.lstm(lstm, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The GRU
#
# *Goal: write the step of a GRU in PyTorch's form. Medium, 15 minutes, 4 points.*
#
# The weights are stacked in the order $r, z, n$: `W_ih` is $(3H, d)$, `W_hh` is $(3H, H)$, and there are two biases,
# `b_ih` and `b_hh`, each $(3H)$.
#
# $$r = \sigma(x_t W_{ih}^{r\,\top} + b_{ih}^r + h_{t-1} W_{hh}^{r\,\top} + b_{hh}^r) \qquad z = \sigma(x_t W_{ih}^{z\,\top} + b_{ih}^z + h_{t-1} W_{hh}^{z\,\top} + b_{hh}^z)$$
#
# $$n = \tanh(x_t W_{ih}^{n\,\top} + b_{ih}^n + r \odot (h_{t-1} W_{hh}^{n\,\top} + b_{hh}^n)) \qquad h_t = (1 - z) \odot n + z \odot h_{t-1}$$
#
# Two things differ from paper to paper. The first paper has $(r \odot h_{t-1}) W_{hh}^{n\,\top}$: the reset gate acts before
# the product, so this product has to wait for $r$. Here it acts after it, so that one product, $h_{t-1} W_{hh}^\top$, serves all
# three, and $r$ also multiplies the bias. And some papers exchange $z$ and $1 - z$. Weights trained in one form give other
# numbers in another; this is PyTorch's. Return the new state, $(B, H)$.
#
# Not allowed: `F.linear`, `nn.Linear`, `nn.GRUCell` and `nn.GRU` (the operations `linear` and `gru`).


# %% solution="gru_cell"
def gru_cell(x_t, h, W_ih, W_hh, b_ih, b_hh):
    """Input (B, d) and old state (B, H) give the new state (B, H)."""
    ### BEGIN SOLUTION
    r_x, z_x, n_x = (x_t @ W_ih.T + b_ih).chunk(3, dim=-1)  # (B, H) each
    r_h, z_h, n_h = (h @ W_hh.T + b_hh).chunk(3, dim=-1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return (1 - z) * n + z * h
    ### END SOLUTION


# %% tests="gru_cell" points=4
check.gru_cell(gru_cell)
### BEGIN HIDDEN TESTS
check.gru_cell(gru_cell, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. How many parameters
#
# *Goal: know the size of a recurrent network before you build it. Medium, 15 minutes, 4 points.*
#
# Return how many parameters `nn.RNN`, `nn.GRU` or `nn.LSTM` has, a whole number. `kind` is `"RNN"`, `"GRU"` or `"LSTM"`;
# `inputs` is $d$, `hidden` is $H$, `layers` the number of layers; `bidirectional` is True or False. Each layer and direction has
# `W_ih`, `W_hh` and, as in PyTorch, two biases, `b_ih` and `b_hh`. A layer above the first reads the output
# of the layer below, that of both directions if there are two.
#
# Everything is allowed, but building the network to count its weights will not do: the check also asks for sizes
# that fit into no memory.


# %% solution="count_parameters"
def count_parameters(kind, inputs, hidden, layers, bidirectional):
    """The number of parameters of nn.RNN, nn.GRU or nn.LSTM."""
    ### BEGIN SOLUTION
    blocks = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 2 if bidirectional else 1
    total = 0
    for layer in range(layers):
        width = inputs if layer == 0 else directions * hidden
        total += directions * blocks * hidden * (width + hidden + 2)
    return total
    ### END SOLUTION


# %% tests="count_parameters" points=4
check.count_parameters(count_parameters)
### BEGIN HIDDEN TESTS
check.count_parameters(count_parameters, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The forget bias
#
# *Goal: let an LSTM start with open forget gates. Medium, 15 minutes, 3 points.*
#
# `lstm` is an `nn.LSTM` with any number of layers, in one or two directions. Change its parameters in place, so that
# in every layer and direction **the biases that go into the forget gate add up to** `value`, for each unit.
# PyTorch has two of them, `bias_ih` and `bias_hh`, each of shape $(4H)$ in the order $i, f, g, o$. How `value` is
# shared between the two is up to you. Leave all other numbers as they are. Nothing needs to be returned.
#
# Everything is allowed. `lstm.named_parameters()` gives names such as `bias_ih_l0`, `bias_hh_l1_reverse` with their
# tensors, `lstm.hidden_size` is $H$, and parameters may be changed in place inside a block of `mt.no_grad()`.


# %% solution="set_forget_bias"
def set_forget_bias(lstm, value):
    """Let the two biases of each forget gate of an nn.LSTM add up to value."""
    ### BEGIN SOLUTION
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    with mt.no_grad():
        for name, parameter in lstm.named_parameters():
            if name.startswith("bias_ih"):
                parameter[forget] = value
            elif name.startswith("bias_hh"):
                parameter[forget] = 0
    ### END SOLUTION


# %% tests="set_forget_bias" points=3
check.set_forget_bias(set_forget_bias)
### BEGIN HIDDEN TESTS
check.set_forget_bias(set_forget_bias, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. The path through the cell
#
# *Goal: see why the gates decide how long a gradient lives. Medium, 10 minutes, 3 points.*
#
# Take the gates as given numbers, so that $c_t = f_t \odot c_{t-1} + i_t \odot g_t$ is all that links one cell to the next.
# `forget` holds the forget gates $f_1, \dots, f_T$, a tensor $(T, B, H)$. Return a tensor of the same shape
# whose row $t$ is $\partial c_T / \partial c_t$: for each unit of each sequence one number, which says how much of a change of
# $c_t$ arrives in $c_T$. The last row is $\partial c_T / \partial c_T$. A gate may be exactly 0.
#
# Everything is allowed. Useful: `flip`, `cumprod`.


# %% solution="cell_path"
def cell_path(forget):
    """Forget gates (T, B, H) give d c_T / d c_t for each t, (T, B, H)."""
    ### BEGIN SOLUTION
    paths = [mt.ones_like(forget[0])]  # (B, H)
    for f in forget[1:].flip(0):
        paths.append(paths[-1] * f)
    return mt.stack(paths).flip(0)
    ### END SOLUTION


# %% tests="cell_path" points=3
check.cell_path(cell_path)
### BEGIN HIDDEN TESTS
check.cell_path(cell_path, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Deep, in both directions, with the last states
#
# *Goal: build what nn.LSTM does with several layers. Medium, 20 minutes, 5 points.*
#
# `layers` is a list of pairs `(forward, backward)`. Each of the two runs an LSTM over its input **from the first
# step to the last**, from zeros: `states, (h, c) = forward(x)` gives all hidden states, $(T, B, H)$, and the pair after the
# last step, each $(B, H)$. All layers have the same $H$.
#
# In each layer, `forward` reads the sequence from left to right and `backward` reads it from right to left. The
# output of the layer at step $t$ is the forward state that has read the steps up to $t$, followed by the backward state that
# has read the steps from the end down to $t$: $(T, B, 2H)$. It is the input of the next layer.
#
# Return three tensors: the output of the last layer, $(T, B, 2H)$; and for all layers, from below, and in each
# first forward, then backward, the state in which the LSTM **ended its reading**: all $h$, $(2L, B, H)$, and all $c$,
# $(2L, B, H)$, where $L$ is the number of layers.
#
# Everything is allowed. `x.flip(0)` reverses the first axis.


# %% solution="deep_bidirectional"
def deep_bidirectional(x, layers):
    """Inputs (T, B, d) give the output (T, B, 2 H) and the last h and c, each (2 L, B, H)."""
    ### BEGIN SOLUTION
    hidden, cells = [], []
    for forward, backward in layers:
        past, (h_forward, c_forward) = forward(x)
        future, (h_backward, c_backward) = backward(x.flip(0))
        hidden += [h_forward, h_backward]
        cells += [c_forward, c_backward]
        x = mt.cat([past, future.flip(0)], dim=-1)  # (T, B, 2 H)
    return x, mt.stack(hidden), mt.stack(cells)
    ### END SOLUTION


# %% tests="deep_bidirectional" points=5
check.deep_bidirectional(deep_bidirectional)
### BEGIN HIDDEN TESTS
check.deep_bidirectional(deep_bidirectional, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. A bit behind a shut gate
#
# *Goal: set the weights of an LSTM by hand. Hard, 25 minutes, 5 points.*
#
# An LSTM with **one unit** reads three numbers at each step, $x_t$ = (`write`, `bit`, `read`). `write` and `read` are 0 or 1,
# `bit` is $-1$ or $+1$. Find weights such that
#
# - where `write` is 1, the cell takes the `bit` of this step, whatever it held before;
# - where `write` is 0, it keeps what it has, over hundreds of steps, whatever `bit` says;
# - where `read` is 1, the output shows the bit in the cell, also one that is written at this very step: $h_t > 0.5$ for
#   $+1$ and $h_t < -0.5$ for $-1$;
# - where `read` is 0, the output gate is shut: $|h_t| < 0.05$, while the cell keeps its bit.
#
# Return `W_ih` $(4, 3)$, `W_hh` $(4, 1)$ and `b` $(4)$, the rows in the order $i, f, g, o$. The run starts from $h = c = 0$,
# and its first step writes. There are many solutions; the check only looks at what the cell does. When it fails, it
# shows the output step by step: `+` and `-` for a bit, `.` for nothing, `?` for a number in between, and
# `. x5` for five steps of the same kind.


# %% solution="keep_a_bit"
def keep_a_bit():
    """W_ih (4, 3), W_hh (4, 1) and b (4) of an LSTM that keeps a bit."""
    ### BEGIN SOLUTION
    W_ih = mt.tensor(
        [
            [30.0, 0.0, 0.0],  # i: open to write
            [-30.0, 0.0, 0.0],  # f: open unless we write
            [0.0, 4.0, 0.0],  # g: the bit
            [0.0, 0.0, 30.0],  # o: open to read
        ]
    )
    return W_ih, mt.zeros(4, 1), mt.tensor([-15.0, 15.0, 0.0, -15.0])
    ### END SOLUTION


# %% tests="keep_a_bit" points=5
check.keep_a_bit(keep_a_bit)
### BEGIN HIDDEN TESTS
check.keep_a_bit(keep_a_bit, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. One step backward
#
# *Goal: compute the gradient of an LSTM step without the engine. Hard, 35 minutes, 7 points.*
#
# A step is done. Its sums, $a = x_t W_{ih}^\top + h W_{hh}^\top + b$, went through sigmoid and tanh and gave `gates`, the tuple
# `(i, f, g, o)`, each $(B, H)$; then $c' = f \odot c + i \odot g$ and $h' = o \odot \tanh(c')$. You get the old states `h` and
# `c`, each $(B, H)$, the matrix `W_hh` $(4H, H)$, the gates, and two gradients, each $(B, H)$: `grad_h_new` is
# $\partial \mathcal L / \partial h'$, and `grad_c_new` is the part of $\partial \mathcal L / \partial c'$ that comes back from
# the **next cell**, so not through $h'$.
#
# Return three tensors: $\partial \mathcal L / \partial h$, $(B, H)$; $\partial \mathcal L / \partial c$, $(B, H)$; and this step's
# $\partial \mathcal L / \partial W_{hh}$, $(4H, H)$, summed over the batch.
#
# Go backward: from $h'$ to $o$ and $c'$; from $c'$ to $f$, $c$, $i$ and $g$; from the gates to their sums, $(B, 4H)$;
# from the sums to $h$ and $W_{hh}$.
#
# Not allowed: `nn.LSTM`, `nn.LSTMCell` (the operation `lstm`) and the engine's `backward()`.


# %% solution="lstm_step_backward"
def lstm_step_backward(h, c, W_hh, gates, grad_h_new, grad_c_new):
    """The gradients with respect to h (B, H), c (B, H) and W_hh (4 H, H)."""
    ### BEGIN SOLUTION
    i, f, g, o = gates
    shown = (f * c + i * g).tanh()  # tanh(c'), (B, H)
    grad_c_new = grad_c_new + grad_h_new * o * (1 - shown**2)
    grad_sums = mt.cat(
        [
            grad_c_new * g * i * (1 - i),
            grad_c_new * c * f * (1 - f),
            grad_c_new * i * (1 - g**2),
            grad_h_new * shown * o * (1 - o),
        ],
        dim=-1,
    )  # (B, 4 H)
    return grad_sums @ W_hh, grad_c_new * f, grad_sums.T @ h
    ### END SOLUTION


# %% tests="lstm_step_backward" points=7
check.lstm_step_backward(lstm_step_backward)
### BEGIN HIDDEN TESTS
check.lstm_step_backward(lstm_step_backward, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# With both cells, their layers, their gradient and the weights of one memory written by yourself, the LSTM is no longer a
# diagram with many arrows. Chapter 03 puts two such networks together, one that reads and one that writes.
