# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 00 Tensors and autograd
#
# How can a machine learn that "cat" is followed by "sat"? Every model in this book, from the plain RNN to the
# Transformer, learns in the same three steps: compute a loss, ask how the loss changes with each parameter, and move
# each parameter a little. The second step is the hard one. In this chapter we write the machine that does it: 54 lines,
# which at the end of section 6 say "the cat sat", and then invent words, many of which are in no dictionary.
#
# **After this chapter you will be able to**
#
# - compute a gradient by hand with the chain rule, and write an engine that does it for you;
# - use tensors: shapes, broadcasting, `backward`, `no_grad`, and check a gradient that you do not trust;
# - derive the gradient of softmax with cross-entropy, and read a perplexity;
# - train a small network with SGD, momentum and Adam, and say what each of them does to the step;
# - tell a finding from luck.
#
# **Time**: about 120 minutes to read and try; all cells together run in less than half a minute. **Before it**: Python
# with functions and classes, NumPy arrays, partial derivatives, the product of matrices, mean and
# variance. **Symbols** are listed on one page, [the book's notation](../docs/notation.md).
#
# **The lectures.** The book follows five lecture decks: 1 and 3, *Self-Attention and Transformers* (CS224N,
# by Tatsunori Hashimoto and of 2023), 2, *Attention & Transformers* (10-701, Hoda Heidari), 4, *Attention &
# Transformers* (Advanced NLP, Richard Sieg), and 5, *Is Attention All We Need?* (without a name). You need
# none of them. What they claim has a number, C1, C2, ..., in the heading of the section that measures it;
# questions of our own are E1, E2, ... A box at the section's end says what came out, and
# [one page](../docs/claims.md) has all boxes.
#
# **When a cell fails**, run the cells above it in order (*Run > Run All Above Selected Cell*). If it still fails,
# restart the kernel and run all cells. Your copy in `my/` is yours to change; the original stays in `notebooks/`.
# Folded cells hold the code that draws and judges; a click opens them.

# %%
import inspect
import math
import re
from collections import Counter
from itertools import product
from time import perf_counter

import autograd
import autograd.numpy as anp
import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook import plot
from textbook.data import first_edition
from textbook.diagrams import autograd as diagrams
from textbook.lab import Budgets, Lab, Tuned, finding, measured

lab = Lab("00")

# %% [markdown]
# `minitorch` is the book's own library. It has PyTorch's names and behavior: with PyTorch, `import torch` takes the
# place of `import minitorch as mt`, and the rest of the code stays as it is. Until section 7 we do without it.
#
# ## 1. One sentence, one loss
#
# One example goes through the whole chapter: the sentence "the cat sat". Our language has three words, numbered 0, 1
# and 2. Each word $i$ has a vector of two numbers, row $i$ of the matrix $E$. A model reads one word and predicts the
# next, so it should learn that "cat" is followed by "sat".

# %%
words = ["the", "cat", "sat"]
E = np.array([[0.6, -1.0], [1.0, -0.5], [-0.7, 0.6]])  # (3, 2): one row a word
x = E[words.index("cat")]
print(x)

# %% [markdown]
# The smallest part of a neural network is one **unit**. It weighs its inputs, adds a bias, and squashes the sum:
#
# $$a = w_1 x_1 + w_2 x_2 + b, \qquad h = \tanh(a).$$
#
# Suppose that we want $h = 1$ after "cat". The **loss** $L = (h - 1)^2$ says how far away we are.


# %%
def unit_loss(w1, w2, b):
    h = np.tanh(w1 * x[0] + w2 * x[1] + b)
    return (h - 1) ** 2


w1, w2, b = 0.8, -0.4, -0.5
print(f"L = {unit_loss(w1, w2, b):.4f}")

# %% [markdown]
# Which way should $w_1$ move, and how much does it matter? Here is the loss for many values of $w_1$. The slope of the
# curve at our place answers both questions: it falls to the right, and steeply.

# %% evidence
# The loss against w_1, with its slope where we are
figure, axes = plot.subplots(width=6, height=3)
places, near = np.linspace(-1, 3, 100), np.array([-0.3, 0.6])
axes.plot(places, unit_loss(places, w2, b), label="loss")
here, slope = unit_loss(w1, w2, b), (unit_loss(w1 + 1e-5, w2, b) - unit_loss(w1, w2, b)) / 1e-5
axes.plot(w1 + near, here + slope * near, label=f"its slope here, {slope:.2f}")
axes.plot(w1, here, "o", color="black", markersize=7)
arrow = dict(arrowstyle="-|>", color="black", linewidth=1.5)
axes.annotate("", (w1 + 0.7, here), (w1 + 0.1, here), arrowprops=arrow)
axes.text(w1 + 0.78, here, "downhill: against the slope", va="center")
axes.set(xlabel="$w_1$", ylabel="L")
axes.legend()
plot.show(
    figure,
    alt="The loss falls from 3.5 to almost 0 as w_1 grows. At w_1 = 0.8 a straight line touches it, with slope -0.85, "
    "and an arrow points to the right, downhill.",
)

# %% [markdown]
# How do we get the slope? We could change $w_1$ a little in both directions and watch $L$. That is a **finite
# difference**,
#
# $$\frac{\partial L}{\partial w_1} \approx \frac{L(w_1 + \varepsilon) - L(w_1 - \varepsilon)}{2 \varepsilon}.$$

# %%
eps = 1e-5
differences = [
    (unit_loss(w1 + eps, w2, b) - unit_loss(w1 - eps, w2, b)) / (2 * eps),
    (unit_loss(w1, w2 + eps, b) - unit_loss(w1, w2 - eps, b)) / (2 * eps),
    (unit_loss(w1, w2, b + eps) - unit_loss(w1, w2, b - eps)) / (2 * eps),
]
print("slopes for w1, w2, b:", [f"{slope:.4f}" for slope in differences])

# %% [markdown]
# This works, and we shall use it to test better methods. But it runs the model twice for each parameter: a network
# with a million parameters would need two million runs for one step of training. Can we get all slopes at once?
# **Reverse-mode differentiation** does, with one run forward and one run backward.
#
# ## 2. The chain rule on a graph
#
# How does a change of $w_1$ find its way to $L$? We take the computation apart, until each step is a single operation:

# %%
s1, s2 = w1 * x[0], w2 * x[1]
s = s1 + s2
a = s + b
h = np.tanh(a)
r = h + -1.0  # what is missing
L = r * r
print(f"s1 = {s1}, s2 = {s2}, s = {s}, a = {a}, h = {h:.3f}, r = {r:.3f}, L = {L:.3f}")

# %% [markdown]
# Drawn as a **graph**, each value is a node, with arrows from the values it was computed from, its **parents**. On
# each arrow stands the **local slope**: how much the child changes when this parent alone changes a little. Local
# slopes are easy. A sum has slope 1 for each parent; a product has the *other* factor; $\tanh$ has $1 - h^2$.

# %% evidence
# The graph of the unit with its values and local slopes
names = ["x_1", "w_1", "w_2", "x_2", "b", "s_1", "s_2", "s", "a", "h", "-1", "r", "L"]
values = dict(zip(names, [x[0], w1, w2, x[1], b, s1, s2, s, a, h, -1, r, L], strict=True))
slopes = {"s_1": (w1, x[0]), "s_2": (x[1], w2), "h": (1 - h * h,), "L": (r, r)}
slopes |= {"s": (1, 1), "a": (1, 1), "r": (1, 1)}
figure, axes = plot.subplots(width=9.5, height=3.6)
diagrams.unit(axes, values, slopes)
plot.show(
    figure,
    alt="From left to right: the products of inputs and weights, their sum, plus the bias, tanh, minus one, and the "
    "product of r with itself, the loss. Each box has an operation and a value, each arrow a local slope. Two arrows "
    "lead from r to L. The parameters are in orange.",
)

# %% [markdown]
# In the picture orange boxes are parameters, and blue numbers are local slopes. A change of $w_1$ reaches $L$ along
# the arrows. On one path, the slopes *multiply*. Where there are several
# paths, each brings its own change, and the changes *add up*. That is the chain rule for a graph:
#
# > The slope of $L$ with respect to a value is the sum over all paths from that value to $L$ of the product of the
# > local slopes along the path.
#
# Large graphs have far too many paths to list them. But they need not be listed. Write $\bar q = \partial L / \partial
# q$ for any value $q$, its **gradient**. Every path from $q$ begins with an arrow to some child $c$, and $\bar c$ has
# already added up the rest. So, starting from $\bar L = 1$,
#
# $$\bar q = \sum_{\text{children } c} \bar c \; \frac{\partial c}{\partial q}.$$
#
# We walk from the loss back, and each node hands each parent its own gradient times the local slope:

# %%
L_bar = 1.0
r_bar = L_bar * r + L_bar * r  # two arrows from r to L: two shares
h_bar = r_bar * 1
a_bar = h_bar * (1 - h * h)
s_bar, b_bar = a_bar * 1, a_bar * 1
s1_bar, s2_bar = s_bar * 1, s_bar * 1
w1_bar, w2_bar = s1_bar * x[0], s2_bar * x[1]
by_hand = [w1_bar, w2_bar, b_bar]
print("by hand:             ", [f"{slope:.4f}" for slope in by_hand])
print("equal to differences:", np.allclose(by_hand, differences))

# %% evidence
# The same walk in four frames: a gradient, in blue, appears where all its shares have come
found = {"L": L_bar, "r": r_bar, "h": h_bar, "-1": r_bar, "a": a_bar, "s": s_bar, "b": b_bar}
found |= {"s_1": s1_bar, "s_2": s2_bar, "w_1": w1_bar, "w_2": w2_bar}
found |= {"x_1": s1_bar * w1, "x_2": s2_bar * w2}
frames = [
    ("1. L hands on: both shares go to r", ["L"], ["L", "r"]),
    ("2. r, then h", ["r", "h"], ["L", "r", "h", "-1", "a"]),
    ("3. a, then s", ["a", "s"], ["L", "r", "h", "-1", "a", "s", "b", "s_1", "s_2"]),
    ("4. both products: done", ["s_1", "s_2"], list(found)),
]
alts = [
    "Two frames. A thick arrow pair leads back from L to r; then arrows lead from r to h and to a.",
    "Two frames. Arrows lead back from a and s to both products and to b; then from the products to all four leaves.",
]
for part, alt in zip((frames[:2], frames[2:]), alts, strict=True):
    figure, panels = plot.subplots(1, 2, width=10.5, height=3.5)
    for axes, (title, visited, known) in zip(panels, part, strict=True):
        passed = {name: slopes[name] for name in visited}
        grads = {name: found[name] for name in known}
        diagrams.unit(axes, values, passed, grads=grads, visited=visited, title=title)
    plot.show(figure, alt)

# %% [markdown]
# Black is the value, blue the gradient. Watch two places. In frame 1, $r$ gets *two* shares, $-0.538$ and $-0.538$, and
# adds them. In frame 3, a sum hands its gradient on unchanged to both parents; in frame 4, a product hands each
# parent its gradient times the *other* factor. Even the inputs get a gradient: that is how word vectors will learn.
#
# Each arrow is used once. So one walk gives the gradients of *all* values, at about the cost of the run forward
# (twice that cost for a product, which has two parents). Two things must be right: a node hands on only when all of
# its own shares have come, and shares are added.
#
# ## 3. An engine for numbers
#
# Can a program do this bookkeeping? It only has to remember. A `Value` knows its parents and the slope of the step
# with respect to each of them, a number known as soon as the step is done.


# %%
class Value:
    """A number that remembers how it was computed."""

    def __init__(self, data, parents=(), slopes=()):
        self.data = data
        self.grad = 0.0  # dL / d self, for backward to fill in
        self.parents = parents
        self.slopes = slopes  # d self / d parent, one a parent

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, (self,), (1 - t * t,))


# %% [markdown]
# A node may hand on its gradient only when it is complete. So we list the values such that parents come before children,
# a **topological order**, and walk the list in reverse. A value is listed once all of its parents are. Until then it waits
# on a stack. (Recursion would be shorter, and fails on deep graphs.)


# %%
def in_order(root):
    """Everything that root was computed from, parents before children."""
    order, done, stack = [], set(), [root]
    while stack:
        node = stack[-1]
        missing = [parent for parent in node.parents if parent not in done]
        if missing:
            stack.extend(missing)
        elif stack.pop() not in done:
            order.append(node)
            done.add(node)
    return order


# %% [markdown]
# A first try at `backward`, on our unit:


# %%
def first_try(loss):
    loss.grad = 1.0
    for node in reversed(in_order(loss)):
        for parent, slope in zip(node.parents, node.slopes, strict=True):
            parent.grad = node.grad * slope


def unit(w1, w2, b):
    """Our unit's loss as a graph of values."""
    a = w1 * Value(x[0]) + w2 * Value(x[1]) + b
    r = a.tanh() + Value(-1.0)
    return r * r


parameters = [Value(w1), Value(w2), Value(b)]
first_try(unit(*parameters))
print("first try:", [f"{parameter.grad:.4f}" for parameter in parameters])
print("by hand:  ", [f"{slope:.4f}" for slope in by_hand])

# %% [markdown]
# Nothing crashed, and every gradient is wrong by a factor of two. We know where to look: $L = r \cdot r$ has two arrows
# to $r$, and `=` lets the second share overwrite the first. It must be `+=`.
#
# But a sum has to start from zero. What if `backward` is called twice? A leaf keeps what it has, so that the gradients of
# several losses add up. A value in the *middle* must not: it would hand on its old gradient a second time. So the walk
# begins by clearing the middle:


# %%
def walk_back(loss):
    """The values that loss was computed from, children before parents, ready to be given shares."""
    order = in_order(loss)
    for node in order:
        if node.parents:
            node.grad = 0.0
    loss.grad = 1.0
    return reversed(order)


def backward(loss):
    """Add to the gradient of each value that loss was computed from."""
    for node in walk_back(loss):
        for parent, slope in zip(node.parents, node.slopes, strict=True):
            parent.grad += node.grad * slope


parameters = [Value(w1), Value(w2), Value(b)]
loss = unit(*parameters)
backward(loss)
print("once: ", [f"{parameter.grad:.4f}" for parameter in parameters])
backward(loss)
print("twice:", [f"{parameter.grad:.4f}" for parameter in parameters])

# %% [markdown]
# The first line is what we found by hand; a second call doubles it, as it should. (**Try it**: take the clearing out.
# By which factors have $\bar w_1$ and $\bar b$ grown after two calls, and why do the factors differ?)
#
# What if the program has a loop, and nobody knows beforehand how often it runs? The graph is recorded while the program
# runs, so loops and branches need no care: the engine differentiates what was done.


# %%
def grow(w):
    """w times w times w ..., until it is above 10."""
    h = w
    while h.data < 10:
        h = h * w
    return h


w = Value(1.5)
grown = grow(w)
backward(grown)
print(
    f"1.5 to the power 6 is {grown.data:.4f}, its slope {w.grad:.4f}; 6 * 1.5**5 = {6 * 1.5**5:.4f}"
)

# %% [markdown]
# The engine can draw what it has recorded. Orange is the weight, black a value, blue its gradient:

# %% evidence
# The graph that the engine has recorded, drawn from the values themselves
figure, axes = plot.subplots(width=9.5, height=2.5)
diagrams.values(axes, grown, {"w": w, "result": grown})
plot.show(
    figure,
    alt="A chain of five products. Below it stands the weight 1.5, which leads into each, twice into the first. Its gradient "
    "is 45.562.",
)

# %% [markdown]
# One weight is used six times, and gets the sum of six shares. Remember this picture: a recurrent network is such a
# loop, with a matrix in place of $w$. (**Try it**: `diagrams.values(axes, loss)` draws any graph that you build. Draw
# our unit with `unit(*parameters)`, then your own formula.)
#
# ## 4. From numbers to arrays
#
# Would this engine train a network? Slowly: a layer with 100 inputs and 100 units has 10,000 products, each with an
# object of its own. So we let each node hold an array. Then a step maps a vector $x \in \mathbb{R}^n$ to a vector $y
# \in \mathbb{R}^m$, and its slope is a matrix, the **Jacobian**
#
# $$J \in \mathbb{R}^{m \times n}, \qquad J_{ij} = \frac{\partial y_i}{\partial x_j}.$$
#
# Going backward, we have $g = \partial L / \partial y \in \mathbb{R}^m$ and need $\partial L / \partial x$. Element
# $x_j$ acts on each $y_i$, so its gradient is the sum of all their shares, $\sum_i g_i J_{ij}$. All elements together are the
# row $gJ \in \mathbb{R}^n$, the **vector-Jacobian product**.
#
# Why do we go *backward*? Through several steps the gradient is $g\, J_3 J_2 J_1$. We may start at the left or at the right.
# From the left, from the loss back, each step is a row times a matrix: about $n^2$ products. From the right, from
# the inputs forward, each step is a matrix times a matrix: $n^3$ products. So backward is cheap, because a loss is *one*
# number while parameters are many.
#
# And we never have to build $J$. For $h = \tanh(a)$, for example, $J$ is diagonal, and $gJ$ is an element-wise product.

# %%
a = np.array([0.5, -0.9, 2.0])
g = np.array([1.0, 10.0, 100.0])  # dL / dh
J = np.diag(1 - np.tanh(a) ** 2)  # (3, 3)
print("through the Jacobian:", g @ J)
print("without it:          ", g * (1 - np.tanh(a) ** 2))

# %% [markdown]
# **A matrix product.** Let $Y = XW$ with $X \in \mathbb{R}^{n \times k}$ and $W \in \mathbb{R}^{k \times m}$. Which
# numbers act on the one element $Y_{ij}$? Row $i$ of $X$ and column $j$ of $W$. So its gradient goes back to these two:

# %% evidence
# What one element of a product is made of, and where its gradient goes
X, W = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([[1.0, -1.0], [0.5, 2.0]])
G = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])
to_X, to_W = np.zeros((3, 2)), np.zeros((2, 2))
to_X[2], to_W[:, 0] = G[2, 0] * W[:, 0], G[2, 0] * X[2]
figure, panels = plot.subplots(2, 3, width=8.5, height=4.6)
lit = [lambda i, j: i == 2, lambda i, j: j == 0, lambda i, j: (i, j) == (2, 0)]
upper = [("X", X), ("W", W), ("Y = X W", X @ W)]
lower = [("to X: G[2, 0] times the column", to_X), ("to W: G[2, 0] times the row", to_W)]
lower += [("G, the gradient of Y", G)]
for axes, chosen, (title, numbers) in zip(panels.flat, lit * 2, upper + lower, strict=True):
    diagrams.product(axes, numbers, chosen, title=title)
plot.show(
    figure,
    alt="Above: the last row of X, 5 and 6, and the first column of W, 1 and 0.5, are lit, and with them one element of Y, "
    "8. Below: this element of G is 2. It gives 2 and 1, twice the column, to the row of X, and 10 and 12, twice the row, "
    "to the column of W.",
)

# %% [markdown]
# Above, forward: the lit row times the lit column is the lit element, $5 \cdot 1 + 6 \cdot 0.5 = 8$. Below, backward:
# the element's gradient $G_{ij} = \partial L / \partial Y_{ij}$ is 2. The row gets 2 times the column, the column
# gets 2 times the row. This is the product rule of section 2, "times the other factor". All elements of $Y$ do so,
# and the shares add up; first as a loop, then in matrices:

# %%
X, W = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([[1.0, -1.0], [0.5, 2.0]])
G = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])  # (n, m), as Y
X_bar, W_bar = np.zeros_like(X), np.zeros_like(W)
for i, j in np.ndindex(G.shape):  # Y[i, j] = X[i] @ W[:, j]
    X_bar[i] += G[i, j] * W[:, j]
    W_bar[:, j] += G[i, j] * X[i]
print("dL/dX = G W^T:", np.allclose(X_bar, G @ W.T), X_bar.tolist())
print("dL/dW = X^T G:", np.allclose(W_bar, X.T @ G), W_bar.tolist())

# %% [markdown]
# $$\frac{\partial L}{\partial X} = G W^\top \quad (n, k), \qquad \frac{\partial L}{\partial W} = X^\top G \quad (k, m).$$
#
# A gradient has the shape of what it belongs to: that tells where the transposes go.
#
# **Broadcasting.** NumPy and all tensor libraries line shapes up from the right, and stretch an axis of size 1 to the
# size of its partner. A bias of shape $(m)$ is added to each row of an $(n, m)$ matrix in this way.

# %%
column = np.array([[0], [10], [20]])  # (3, 1)
row = np.array([1, 2, 3, 4])  # (4)
print(column + row)  # (3, 4)

# %% [markdown]
# A stretched number is used several times, so its gradient is the sum over its copies. Every operation that broadcasts
# needs this, so one small function does it for all of them.


# %%
def unbroadcast(grad, shape):
    """Sum grad over the axes that broadcasting added or stretched."""
    grad = np.sum(grad, axis=tuple(range(np.ndim(grad) - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return np.sum(grad, axis=stretched, keepdims=True)


shares = np.ones((3, 4))  # dL / d(column + row)
print("column:", unbroadcast(shares, (3, 1)).tolist(), "row:", unbroadcast(shares, (4,)).tolist())

# %% [markdown]
# The array engine is the scalar engine with one change. In place of a slope, a node keeps a *function* for each
# parent. It takes the node's gradient $g$ and returns the parent's share $gJ$. Take the product $y = 2 \cdot 5$, and say that
# $g = \partial L / \partial y = 3$ comes back. Then the 2 gets $3 \cdot 5 = 15$ and the 5 gets $3 \cdot 2 = 6$: times the
# other factor. In Python, `lambda g: g * five` is such a function:

# %%
two, five = 2.0, 5.0
to_two, to_five = (lambda g: g * five), (lambda g: g * two)
print("share of 2:", to_two(3.0), " share of 5:", to_five(3.0))

# %% [markdown]
# Below, each operation makes its result and these functions, one for each parent. `in_order` and `walk_back` serve both
# engines.


# %%
class Node:
    """An array that remembers how it was computed, and how gradients go back to its parents."""

    def __init__(self, data, parents=(), to_parents=()):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad = 0.0
        self.parents = parents
        self.to_parents = to_parents  # functions from dL / d self to a parent's share

    def backward(self):
        for node in walk_back(self):
            for parent, to_parent in zip(node.parents, node.to_parents, strict=True):
                parent.grad += unbroadcast(to_parent(node.grad), parent.data.shape)


# %%
class Array(Node):
    """A node with operations."""

    def __add__(self, other):
        return Array(self.data + other.data, (self, other), (lambda g: g, lambda g: g))

    def __mul__(self, other):
        to_parents = (lambda g: g * other.data, lambda g: g * self.data)
        return Array(self.data * other.data, (self, other), to_parents)

    def __matmul__(self, other):
        to_parents = (lambda g: g @ other.data.T, lambda g: self.data.T @ g)
        return Array(self.data @ other.data, (self, other), to_parents)

    def tanh(self):
        t = np.tanh(self.data)
        return Array(t, (self,), (lambda g: g * (1 - t * t),))

    def exp(self):
        e = np.exp(self.data)
        return Array(e, (self,), (lambda g: g * e,))

    def log(self):
        return Array(np.log(self.data), (self,), (lambda g: g / self.data,))

    def sum(self):
        return Array(self.data.sum(), (self,), (lambda g: g * np.ones_like(self.data),))


# %% evidence
# How long our engines are, in lines that are not blank
def lines_of(thing):
    """Lines of code of a function, or of all functions of a class and its first line."""
    if not inspect.isclass(thing):
        return sum(bool(line.strip()) for line in inspect.getsourcelines(thing)[0])
    return 1 + sum(lines_of(f) for f in vars(thing).values() if inspect.isfunction(f))


ordering = lines_of(in_order) + lines_of(walk_back)
scalar = lines_of(Value) + lines_of(backward) + ordering
arrays = lines_of(unbroadcast) + lines_of(Node) + lines_of(Array) + ordering
print(f"the engine for numbers has {scalar} lines, that for arrays {arrays}")

# %% [markdown]
# ## 5. Scores, probabilities, surprise
#
# How does a number become a word? A complete language model has to answer that. From the vector $x$ of the word that
# was read, ours computes two hidden units (the first is our unit from above). From them it makes a **score** for each
# of the three words:
#
# $$h = \tanh(xW + b), \quad z = h W_o, \qquad x \in \mathbb{R}^{1 \times 2},\ W \in \mathbb{R}^{2 \times 2},\
# b \in \mathbb{R}^2,\ W_o \in \mathbb{R}^{2 \times 3},\ z \in \mathbb{R}^{1 \times 3}.$$

# %%
W = np.array([[0.8, -0.6], [-0.4, 1.0]])  # column 0 is the unit from section 1
b = np.array([-0.5, 0.2])
W_o = np.array([[1.0, -1.0, 0.5], [0.5, 0.0, -1.5]])
z = np.tanh(E[1] @ W + b) @ W_o  # (3): the scores after "cat"
print("scores after 'cat':", dict(zip(words, z.round(4).tolist(), strict=True)))

# %% [markdown]
# Scores can be any numbers. **Softmax** turns the scores of $V$ words ($V = 3$ here) into probabilities $p \in
# \mathbb{R}^V$, positive and adding up to one:
#
# $$p_i = \frac{e^{z_i}}{\sum_{j=1}^{V} e^{z_j}}.$$
#
# Only differences of scores matter: a constant added to all of them cancels. This is also how to compute it safely.
# Large scores overflow, so we subtract the largest one first.


# %%
def softmax_of(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


p = softmax_of(z)
print("probabilities:     ", dict(zip(words, p.round(4).tolist(), strict=True)))
with np.errstate(all="ignore"):
    print("as the formula says, scores + 1000:", np.exp(z + 1000) / np.exp(z + 1000).sum())
print("largest first, scores + 1000:      ", softmax_of(z + 1000).round(4))

# %% [markdown]
# How do the probabilities move when a score moves? It is easiest for their logarithm, $\log p_i = z_i - \log \sum_j e^{z_j}$.
# Its derivative is $\partial \log p_i / \partial z_j = \mathbb{1}[i = j] - p_j$, where $\mathbb{1}[i = j]$ is 1 if $i =
# j$ and else 0. A change of $\log p_i$ is a change of $p_i$ divided by $p_i$. So we multiply by $p_i$, and the Jacobian is
#
# $$\frac{\partial p_i}{\partial z_j} = p_i \, (\mathbb{1}[i = j] - p_j), \qquad J = \operatorname{diag}(p) - p^\top p
# \in \mathbb{R}^{V \times V}.$$
#
# (Here $p$ is a row, so $p^\top p$ is the table of all products $p_i p_j$.) Our engine knows none of this, and finds the
# same matrix, a row at a time:

# %% evidence
# The Jacobian by the formula, and by our engine
J = np.diag(p) - np.outer(p, p)
rows = []
for i in range(3):
    scores = Array(z)
    log_p = scores + scores.exp().sum().log() * Array(-1.0)
    p_i = (log_p.exp() * Array(np.eye(3)[i])).sum()
    p_i.backward()
    rows.append(scores.grad)
print(J.round(4))
print("the engine's rows are the same:", np.allclose(J, rows))

# %% [markdown]
# What if the model is very sure? When one probability comes close to 1, all entries of $J$ come close to 0, and almost
# no gradient passes. Larger scores do that:

# %% evidence
# Softmax of small and large scores, and the size of its Jacobian
scales = np.linspace(0, 12, 49)
norms = []
for scale in scales:
    q = softmax_of(scale * z)
    norms.append(np.linalg.norm(np.diag(q) - np.outer(q, q)))
figure, (left, right) = plot.subplots(1, 2, width=8.5)
for shift, scale, hatch in [(-0.27, 0.25, ".."), (0, 1, ""), (0.27, 4, "//")]:
    bars = softmax_of(scale * z)
    left.bar(np.arange(3) + shift, bars, width=0.25, hatch=hatch, label=f"scores times {scale}")
    print(f"scores times {scale:4}:", dict(zip(words, bars.round(3).tolist(), strict=True)))
left.set_xticks(range(3), words)
left.set(ylabel="probability", title="Softmax of the scores after 'cat'")
left.legend()
right.plot(scales, norms)
right.set(xlabel="scores multiplied by", ylabel="root of the sum of squares of J")
right.set_title("Confident means deaf")
print("size of the Jacobian at 0, 1, 4, 12:", [f"{norms[i]:.4f}" for i in (0, 4, 16, 48)])
alt = "Larger scores give one word nearly all probability; the Jacobian's size falls to zero."
plot.show(figure, alt)

# %% [markdown]
# On the left the same scores, times 0.25, 1 and 4: the bars go from hesitant to certain. On the right, what is left for
# the gradient. Confident means deaf. (Chapter 05 divides scores by $\sqrt{d}$ for this reason.)
#
# **Cross-entropy.** If the word that really came next has number $y$, the loss is its **surprise**,
#
# $$L = -\log p_y = \log \sum_j e^{z_j} - z_y.$$
#
# We have just seen that $\partial \log p_y / \partial z_j = \mathbb{1}[j = y] - p_j$. With the opposite sign,
#
# $$\frac{\partial L}{\partial z_j} = p_j - \mathbb{1}[j = y],$$
#
# what we predicted minus what happened. A step against this gradient pushes the scores like this:

# %% evidence
# How a step against the gradient pushes three probabilities: a drawing
figure, axes = plot.subplots(width=5, height=2.6)
diagrams.pushes(axes, words, p, "sat")
plot.show(
    figure,
    alt="Bars for the, cat and sat. A green arrow pushes sat up, from 0.68 to 1; orange arrows push the and cat down to 0.",
)

# %% [markdown]
# The right word goes up by what it lacks to 1, every other word goes down by what it has, and the arrows add up to zero.
# A model that is confidently wrong gets the longest
# arrows: the logarithm undoes the saturation of the softmax.

# %%
scores, sat = Array(z), np.eye(3)[2]  # a 1 at the number of "sat"
surprise = scores.exp().sum().log() + (scores * Array(-sat)).sum()
surprise.backward()
print("surprise at 'sat':", surprise.data.round(4), " -log p:", -np.log(p[2]).round(4))
print("backward:", scores.grad.round(4), " p - one_hot(y):", (p - sat).round(4))

# %% [markdown]
# **One-hot times a matrix is an embedding.** A vector like `sat`, 1 at a word's number and 0 elsewhere, is called
# **one-hot**. Multiplied by $E$ it picks the word's row; looking the row up gives the same without multiplying zeros.
# In the gradient, a row collects the sum over all places where its word stands.

# %%
text = [0, 1, 2, 0]  # the cat sat the
one_hot, table = np.eye(3)[text], Array(E)  # (4, 3), (3, 2)
picked = Array(one_hot) @ table  # (4, 2)
picked.sum().backward()
print("product and look-up are equal:", np.array_equal(picked.data, E[text]))
print(table.grad.tolist())  # "the" stands there twice

# %% [markdown]
# **Perplexity.** The mean surprise over a text of $T$ words is hard to picture, its exponential is not:
#
# $$\text{perplexity} = \exp\Big(-\frac{1}{T} \sum_{t=1}^{T} \log p(\text{word}_t \mid \text{words before})\Big).$$
#
# It is the number of equally likely words among which the model seems to choose. Guessing evenly among $V$ words has
# perplexity $V$; knowing every word in advance has perplexity 1. A single word with probability 0 makes it infinite.
#
# ## 6. Our engine learns a sentence
#
# Now all of it together. "the" and "cat" go in, as rows of a matrix; "cat" and "sat" are to come out. The loss is the
# mean of the surprises. (`Array.sum` adds up everything; to sum each row, we multiply by a column of ones.)

# %%
inputs, targets = np.eye(3)[[0, 1]], np.eye(3)[[1, 2]]  # (2, 3) each, a row a word


def our_loss(parameters, inputs, targets):
    E, W, b, W_o = parameters
    h = (Array(inputs) @ E @ W + b).tanh()
    z = h @ W_o  # (rows, V)
    log_sums = (z.exp() @ Array(np.ones((targets.shape[1], 1)))).log()  # (rows, 1)
    return (log_sums.sum() + (z * Array(-targets)).sum()) * Array(1 / len(targets))


def probabilities(parameters, one_hot):
    E, W, b, W_o = (parameter.data for parameter in parameters)
    return softmax_of(np.tanh(one_hot @ E @ W + b) @ W_o)


ours = [Array(parameter) for parameter in (E, W, b, W_o)]
loss = our_loss(ours, inputs, targets)
loss.backward()
first_gradients = [parameter.grad for parameter in ours]
print(f"L = {loss.data:.4f}, perplexity {np.exp(loss.data):.3f}")

# %% [markdown]
# Guessing evenly among three words has perplexity 3, so this model is worse than guessing. What does it say? A short
# loop lets it speak: start with "the", take the likeliest word, and go on from there.


# %%
def speak(parameters):
    said = [0]  # "the"
    while len(said) < 3:
        said.append(int(np.argmax(probabilities(parameters, np.eye(3)[said[-1]]))))
    return " ".join(words[word] for word in said)


print("before training:", speak(ours))

# %% [markdown]
# Nobody has trained these weights. To train them, we move each parameter $w$ a little against its gradient $g$, by a
# step of size $\eta$, the **learning rate**: $w \leftarrow w - \eta\, g$. That is **gradient descent**.


# %%
def go_downhill(parameters, inputs, targets, rate):
    """One step; returns the loss before it."""
    for parameter in parameters:
        parameter.grad = 0.0
    loss = our_loss(parameters, inputs, targets)
    loss.backward()
    for parameter in parameters:
        parameter.data = parameter.data - rate * parameter.grad
    return float(loss.data)


our_losses, tables = [], []
for step in range(100):
    tables.append(probabilities(ours, inputs[0]))  # after "the"
    if step in (0, 5, 10, 50):
        after_cat = probabilities(ours, inputs[1])[2]
        print(f'step {step:2}: says "{speak(ours)}", p(sat | cat) = {after_cat:.2f}')
    our_losses.append(go_downhill(ours, inputs, targets, rate=0.5))
print(f'at the end: says "{speak(ours)}", perplexity {math.exp(our_losses[-1]):.2f}')

# %% evidence
# The probabilities after "the", step by step, and what the model says
figure, axes = plot.subplots(width=8, height=3)
for word, line in enumerate(np.transpose(tables)):
    axes.plot(line, label=f"p({words[word]} | the)")
axes.set(xlabel="step", ylabel="probability", xlim=(0, 99), ylim=(0, 1))
axes.legend(loc="center right")
axes.set_title(f'"{speak(ours)}"', fontsize=26)
plot.show(
    figure,
    alt='The title, in large letters: "the cat sat". After "the", the probability of "sat" starts near 0.6 and falls, '
    'that of "cat" rises to nearly 1.',
)

# %% [markdown]
# It speaks: one wrong word at the start, and soon the whole sentence. A language model, trained by an engine that we
# have written ourselves.
#
# ### The same engine invents words
#
# Is that all it can do, one sentence by heart? Nothing in `our_loss` knows about three words. Let the "words" be
# letters: the model reads the last three letters of a word and predicts the next one. A dot marks the place before
# and after a word. Three one-hot rows side by side make one long row, $(3 \cdot 27)$, and `E` gets as many rows. The
# text: every word of five or more letters that the first edition of this book uses at least twice.

# %%
letters = "." + "abcdefghijklmnopqrstuvwxyz"
known = Counter(re.findall(r"\b[a-z]{5,}\b", first_edition()))
known = sorted(word for word, count in known.items() if count > 1)
reads = 3  # letters that the model sees
starts, nexts = [], []
for word in known:
    padded = "." * reads + word + "."
    for i in range(len(word) + 1):
        starts.append([letters.index(letter) for letter in padded[i : i + reads]])
        nexts.append(letters.index(padded[i + reads]))
starts, nexts = np.array(starts), np.array(nexts)  # (examples, reads), (examples)
print(len(known), "words,", len(nexts), "examples, such as 'cau' -> 't'")

# %%
rng = np.random.default_rng(0)
shapes = {"E": (reads * 27, 30), "W": (30, 100), "b": (100,), "W_o": (100, 27)}
inventor = [Array(rng.normal(size=shape) * 0.15) for shape in shapes.values()]


def invent():
    """A word, each letter drawn with the probability that the model gives it."""
    word = "." * reads
    while not word.endswith(".") or len(word) == reads:
        recent = np.eye(27)[[letters.index(letter) for letter in word[-reads:]]]
        word += letters[rng.choice(27, p=probabilities(inventor, recent.reshape(-1)))]
        if len(word) > 15 + reads:
            break
    return word.strip(".") or invent()


# %%
invented = {0: [invent() for _ in range(10)]}
for step in range(1, 3001):
    rows = rng.integers(len(nexts), size=128)  # 128 examples, drawn at random
    batch = np.eye(27)[starts[rows]].reshape(128, -1)  # (128, reads * 27)
    go_downhill(inventor, batch, np.eye(27)[nexts[rows]], rate=1.0 if step < 2500 else 0.1)
    if step in (200, 3000):
        invented[step] = [invent() for _ in range(10 if step == 200 else 20)]

# %% evidence
# What the engine writes before, early in and after training; words of the book in grey
figure, panels = plot.subplots(1, 3, width=8.5, height=3.4, width_ratios=[2, 2, 4])
for axes, (step, list_of) in zip(panels, invented.items(), strict=True):
    for place, word in enumerate(list_of):
        column, row = divmod(place, 10)
        ink = "0.6" if word in known else "black"
        size = 13 if step == 3000 else 10
        axes.text(column, -row, word, ha="center", va="center", fontsize=size, color=ink)
    columns = len(list_of) // 10
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(-10, 1))
    axes.set_title(f"after {step:,} steps" if step else "before training")
    axes.axis("off")
measured("after 3,000 steps:", *invented[3000])
plot.show(
    figure,
    alt="Three columns of words that the engine wrote: before training letters at random, after 200 steps words that can "
    "almost be spoken, after 3,000 steps words that look English and of which many do not exist.",
)

# %% [markdown]
# Read the words on the right aloud. Those in black stand nowhere in the list, so it was never shown them. Some are
# English all the same. Others nobody has ever written: they come from what letters do in English. The program is the one that
# learned "the cat sat". Only the arrays are larger. (**Try it**: run the last two cells again, or set `reads` to 1, 2 or 4.)
#
# ## 7. The library's tensors
#
# What does a real library add? Speed, more operations, good error messages, and no other idea. A `Tensor` is such an
# array. By default its numbers are 32-bit floats, which are half as large as NumPy's 64-bit ones and faster to
# multiply; whole numbers are `int64`. A tensor that is made with `requires_grad=True` is a leaf of the graph whose
# gradient we want. Our model again:


# %%
read, came = mt.tensor([0, 1]), mt.tensor([1, 2])  # "the" -> "cat", "cat" -> "sat"


def library_loss(E, W, b, W_o):
    h = mt.tanh(E[read] @ W + b)  # (2, 2)
    return F.cross_entropy(h @ W_o, came)  # of scores (2, 3) and the numbers of the words


params = [mt.tensor(array, requires_grad=True) for array in (E, W, b, W_o)]  # 64 bits, as E
optimizer = mt.optim.SGD(params, lr=0.5)
library_losses = []
for _ in range(100):
    optimizer.zero_grad()
    loss = library_loss(*params)
    loss.backward()
    optimizer.step()
    library_losses.append(loss.item())
for step in range(0, 100, 20):
    both = math.exp(our_losses[step]), math.exp(library_losses[step])
    print("step {:2}: perplexity {:.3f} with our engine, {:.3f} here".format(step, *both))
same = np.allclose(our_losses, library_losses, rtol=1e-12, atol=0)
print("equal in all 100 steps, to 12 digits:", same)

# %% [markdown]
# The same numbers, step for step. There is no magic in a library: it walks the same graph in the same order. And every
# training loop of the book has these five lines: `zero_grad`, the forward pass, the loss, `backward`, `step`.
#
# Each operation left a node behind. The loss holds the last one, and from there the library finds the others:

# %%
print(loss.grad_fn)

# %% evidence
# The graph that the library has recorded
figure, axes = plot.subplots(width=9.5, height=2.6)
plot.graph(axes, library_loss(*params), dict(zip(["E", "W", "b", "W_o"], params, strict=True)))
plot.show(
    figure,
    alt="The library's graph from left to right: rows of E are picked, multiplied by W, b is added, then tanh, the "
    "product with W_o, and the cross-entropy. Boxes are the four parameters with their shapes.",
)

# %% [markdown]
# Four rules to learn now. Most of the puzzles that come later come from forgetting one of them.
#
# **Gradients accumulate.** `backward` adds to `.grad`, so that a loss can be computed in parts. If you want a fresh
# gradient, call `zero_grad` (or set it to `None`) first.

# %%
params = [mt.tensor(array, requires_grad=True) for array in (E, W, b, W_o)]
loss = library_loss(*params)
loss.backward()
W_t = params[1]
first = W_t.grad.clone()
library_loss(*params).backward()
print("a second loss without zeroing doubles the gradient:", mt.allclose(W_t.grad, 2 * first))

# %% [markdown]
# **A graph is used once.** The library's `backward` frees it as it goes, to save memory. A second pass needs a new
# forward pass.

# %%
try:
    loss.backward()
except RuntimeError as error:
    print(error)

# %% [markdown]
# **Not everything should be recorded.** A step of training changes the parameters, but is no part of the model. Inside
# `no_grad` nothing is recorded; `detach` cuts a single tensor off from its past.

# %%
with mt.no_grad():
    W_t -= 0.1 * first
    stepped = library_loss(*params)
print(f"loss before the step {loss.item():.4f}, after it {stepped.item():.4f}")
print("recorded inside no_grad:", stepped.requires_grad)
print("recorded after detach:", (W_t * 2).detach().requires_grad)

# %% [markdown]
# **Read the shapes in an error.** Nearly every mistake with tensors is a shape that is not what we thought it was.

# %%
try:
    mt.zeros(32, 64) @ mt.zeros(128, 10)
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## 8. Do we trust it?
#
# What if a gradient is wrong? It does not crash. It trains, badly, and costs days. So we check an engine against
# something that does not share its mistakes. `gradcheck` compares `backward` with finite differences. It needs 64-bit
# floats, since in 32 bits the difference of two nearly equal losses is mostly rounding.

# %%
print("gradcheck of the model:", mt.autograd.gradcheck(library_loss, params))

# %% [markdown]
# A check that cannot fail is worth nothing, so we plant a mistake: one `detach` too many.


# %%
def careless_loss(E, W, b, W_o):
    h = mt.tanh(E[read] @ W + b).detach()
    return F.cross_entropy(h @ W_o, came)


try:
    mt.autograd.gradcheck(careless_loss, params)
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# The second check is an independent engine. `autograd` (Maclaurin, Duvenaud and Adams, 2015) differentiates programs
# written in NumPy. The same model, the same numbers:


# %%
def numpy_loss(E, W, b, W_o):
    z = anp.tanh(E[:2] @ W + b) @ W_o  # (2, 3)
    return anp.mean(anp.log(anp.sum(anp.exp(z), axis=1)) - anp.sum(z * targets, axis=1))


params = [mt.tensor(array, requires_grad=True) for array in (E, W, b, W_o)]
library = mt.autograd.grad(library_loss(*params), params)
theirs = autograd.grad(numpy_loss, argnum=(0, 1, 2, 3))(E, W, b, W_o)

# %% evidence
# The gradients of three engines, the first four numbers of each parameter
print("gradient          ours  minitorch   autograd")
agree = True
for name, *found in zip(["E", "W", "b", "W_o"], first_gradients, library, theirs, strict=True):
    own, lib, other = map(np.asarray, found)
    for place in list(np.ndindex(own.shape))[:4]:
        numbers = "".join(f"{gradient[place]:11.6f}" for gradient in (own, lib, other))
        print(f"d{name + str(list(place)):10}{numbers}")
    agree &= np.allclose(own, other, rtol=0, atol=1e-12) and np.allclose(lib, other, 0, 1e-12)
print("all of them agree to 12 digits:", agree)

# %% [markdown]
# ## 9. Training
#
# We have gradients that we trust. How far should we step? With a loss on a few examples drawn at random, the step
# $w \leftarrow w - \eta\, g$ is called **stochastic gradient descent** (SGD). It has a weakness. Take a valley, steep
# across and flat along,
#
# $$L = \tfrac12 \, (w_1^2 + 100\, w_2^2).$$
#
# Across the valley the slope is steep: above $\eta = 0.02$ a step lands higher on the other side. Along the valley the slope
# is flat, and there such steps are far too short.
#
# **Momentum** steps along a running sum of gradients $u$:
#
# $$u \leftarrow \mu\, u + g, \qquad w \leftarrow w - \eta\, u, \qquad \mu = 0.9 \text{ as a rule.}$$
#
# What does that do? Along the valley all gradients agree, and $u$ grows to $g\,(1 + \mu + \mu^2 + \dots) = g / (1 -
# \mu)$: with $\mu = 0.9$ momentum makes a step **ten times as long**. Plain SGD at ten times the rate would make the
# same step, and fly out of the valley. With momentum it does not: across, gradients change their sign and cancel.


# %%
def roll_down(rate, momentum, start, steps=60):
    """Places (steps + 1, 2) on the way down the valley."""
    w, u, places = np.array(start), np.zeros(2), [start]
    for _ in range(steps):
        g = w * np.array([1.0, 100.0])
        u = momentum * u + g
        w = w - rate * u
        places.append(w)
    return np.array(places)


for momentum, rate in [(0.0, 0.019), (0.0, 0.021), (0.9, 0.021), (0.9, 0.037), (0.9, 0.039)]:
    w2_at_end = abs(roll_down(rate, momentum, (-10.0, 1.0), steps=500)[-1, 1])
    print(f"momentum {momentum}, rate {rate}: w_2 after 500 steps {w2_at_end:.1g}")

# %% [markdown]
# SGD's limit is a rate of 0.02, momentum's is 0.038, so its longest safe step $\eta / (1 - \mu)$ is 19 times as long.
# **Momentum makes a longer step where gradients agree, and damps them where they change sign**, at the walls. (Goh, 2017,
# shows it in moving pictures.)

# %% [markdown]
# **Adam** (Kingma and Ba, 2015) adds a second idea: each parameter gets a step size of its own. It keeps running means
# of the gradient, $u$, and of its square, $v$, corrects both for having started at 0, and divides one by the root of
# the other. At step $t$:
#
# $$u \leftarrow \beta_1 u + (1 - \beta_1)\, g, \quad v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2, \quad
# w \leftarrow w - \eta\, \frac{u / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}.$$
#
# Usually $\beta_1 = 0.9$ and $\beta_2 = 0.999$; the tiny $\epsilon$ prevents a division by zero. The size of the
# gradient cancels. In the first step $u / (1 - \beta_1) = g$ and $v / (1 - \beta_2) = g^2$, so each parameter moves by
# $\eta$, however flat or steep the loss is:

# %%
for scale in (0.01, 1.0, 100.0):
    w = mt.tensor([1.0, 1.0], requires_grad=True)
    adam = mt.optim.Adam([w], lr=0.1)
    (scale * (w * mt.tensor([3.0, -5.0])).sum()).backward()
    adam.step()
    print("gradient", w.grad, "after one step", w.data)


# %% evidence
# Three ways down a valley, each at the rate that is best from another start
def roll_down_adam(rate, start, steps=60):
    w = mt.tensor(start, dtype=mt.float64, requires_grad=True)
    adam, places = mt.optim.Adam([w], lr=rate), [start]
    for _ in range(steps):
        adam.zero_grad()
        ((w**2 * mt.tensor([0.5, 50.0], dtype=mt.float64)).sum()).backward()
        adam.step()
        places.append(tuple(w.tolist()))
    return np.array(places)


ways = {
    "SGD": lambda rate, start: roll_down(rate, 0.0, start),
    "momentum": lambda rate, start: roll_down(rate, 0.9, start),
    "Adam": roll_down_adam,
}
rates = [10 ** (k / 20) for k in range(-60, 21)]  # 0.001 to 10
figure, panels = plot.subplots(3, 1, width=7, height=4.4, sharex=True)
along, across = np.meshgrid(np.linspace(-11, 1, 200), np.linspace(-1.2, 1.2, 100))
height = (along**2 + 100 * across**2) / 2
for i, (name, way) in enumerate(ways.items()):
    with np.errstate(all="ignore"):
        last = [np.hypot(*way(rate, (9.0, -0.8))[-10:].T).max() for rate in rates]
    rate = rates[int(np.argmin(np.nan_to_num(last, nan=np.inf)))]
    places = way(rate, (-10.0, 1.0))
    axes = panels[i]
    axes.contour(along, across, height, levels=[1, 8, 25], colors="0.75", linewidths=1)
    axes.grid(False)
    axes.plot(*places[:21].T, "o-", color=plot.COLORS[i], markersize=3, linewidth=0.8)
    axes.plot(0, 0, "*", color="black", markersize=9)
    left = np.hypot(*places[60])
    axes.set_title(f"{name}, rate {rate:.2g}: {left:.2g} away after 60 steps", fontsize=10)
    axes.set(aspect="equal", ylabel="$w_2$", xlim=(-11, 1), ylim=(-1.2, 1.2))
    measured(f"{name}: rate {rate:.3g}, distance after 60 steps {left:.3g}")
panels[2].set_xlabel("$w_1$")
plot.show(
    figure,
    alt="Three paths of 20 steps down the same long narrow valley, drawn to scale. SGD jumps from wall to wall and creeps "
    "along. With momentum the path swings less and less while it runs along. Adam swings once and runs along from the "
    "start.",
)

# %% [markdown]
# Each picture shows 20 steps toward the star; each method has the rate that brought it closest from *another* start. SGD
# spends its steps on the walls. Momentum and Adam spend them on the way.
#
# ### A network for three arms
#
# Now a network, and a task that one straight cut cannot solve: points on a spiral with three arms, and the question
# which arm a point is on. The network is a **multi-layer perceptron** (MLP): linear maps with a tanh between them, $2
# \to 32 \to 32 \to 3$.


# %%
def spiral(count):
    """Points (3 * count, 2) on three noisy arms, and the number of each point's arm."""
    arm = mt.arange(3).repeat(count)
    radius = 0.1 + 0.9 * mt.rand(3 * count)
    angle = 4 * radius + arm * (2 * math.pi / 3) + 0.1 * mt.randn(3 * count)
    return mt.stack([radius * mt.cos(angle), radius * mt.sin(angle)], dim=1), arm


def perceptron():
    return nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)
    )


def optimizer_for(name, parameters, rate):
    if name == "Adam":
        return mt.optim.Adam(parameters, lr=rate)
    return mt.optim.SGD(parameters, lr=rate, momentum=0.9 if name == "momentum" else 0.0)


# %%
def train_spiral(model, optimizer, points, arms, steps):
    for _ in range(steps):
        batch = mt.randint(len(points), (64,))  # 64 points, drawn at random
        optimizer.zero_grad()
        loss = F.cross_entropy(model(points[batch]), arms[batch])
        loss.backward()
        optimizer.step()


def spiral_loss(points, arms, model):
    with mt.no_grad():
        return F.cross_entropy(model(points), arms).item()


# %% evidence
# What the network has learned after 20, 60 and 200 steps, as regions of the plane
mt.manual_seed(0)
points, arms = spiral(200)
model = perceptron()
optimizer = optimizer_for("Adam", model.parameters(), 0.03)
axis = mt.linspace(-1.2, 1.2, 120)
grid = mt.stack([axis.repeat(120), axis.reshape(120, 1).expand(120, 120).flatten()], dim=1)
figure, panels = plot.subplots(1, 3, width=9.5, height=3.5)
for axes, (steps, more) in zip(panels, [(20, 20), (60, 40), (200, 140)], strict=True):
    train_spiral(model, optimizer, points, arms, more)
    with mt.no_grad():
        region = model(grid).argmax(dim=1).reshape(120, 120)
        right = (model(points).argmax(dim=1) == arms).float().mean().item()
    between = [-0.5, 0.5, 1.5, 2.5]  # levels that separate the numbers 0, 1 and 2
    axes.contourf(axis, axis, region, levels=between, colors=plot.COLORS[:3], alpha=0.25)
    for arm, marker in enumerate("os^"):
        chosen = points[arms == arm].numpy()
        axes.scatter(chosen[:, 0], chosen[:, 1], s=6, marker=marker)
    axes.set(aspect="equal", xticks=[], yticks=[], title=f"{steps} steps: {right:.0%} right")
    measured(f"after {steps} steps {right:.3f} of the points are right")
plot.show(
    figure,
    alt="Points on three spiral arms, and the regions that the network gives to each arm: after 20 steps three wedges, "
    "after 60 bent ones, after 200 three spirals.",
)

# %% [markdown]
# Wedges bend until they follow the arms: that is what hidden layers are for.
#
# ### Three arms, three optimizers (E1)
#
# Which optimizer is best? The question has no answer before we say how the learning rate was chosen. So we try many
# rates. This is the book's first **experiment**, and all others are built like it:
#
# - A function measures *one run*: it takes settings and returns numbers. Here: train, then measure the loss on points that
#   the network has not seen.
# - The line `@lab.experiment` above it names the question and the values to try. A list is tried value by value.
# - A **seed** fixes all random numbers of a run, here the points, the first weights and the batches. With another seed we
#   see how much is luck.
# - `.run()` makes the *quick* runs, with one seed, while you wait. The `full` ones, here with 20 seeds, were *recorded*
#   before and come with the book. A figure shows the recorded ones as a line (the median) in a band (from the smallest to the
#   largest), and those just *measured here* as circles.
# - Below the figure stand verdicts: a sentence, the numbers, and the bound that we ask them to keep. "Set after a look"
#   admits that we had seen numbers when we chose the bound.

# %%
rates = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]


@lab.experiment("E1", optimizer=["SGD", "momentum", "Adam"], rate=rates, full=dict(seeds=20))
def spiral_by_rate(optimizer, rate, steps=200):
    """One run: train on one spiral, and measure the loss on another."""
    model, (points, arms) = perceptron(), spiral(200)
    train_spiral(model, optimizer_for(optimizer, model.parameters(), rate), points, arms, steps)
    return {"loss on new points": spiral_loss(*spiral(200), model)}


# %% evidence
# E1: the loss on new points against the rate, and against the length of the step
runs = spiral_by_rate.run()
figure, panels = plot.subplots(1, 2, width=9.5, height=3.4, sharey=True)
for i, name in enumerate(["SGD", "momentum", "Adam"]):
    rows, style = runs.best.where(optimizer=name), dict(color=plot.COLORS[i])
    losses = [rows.values("loss on new points", rate=rate) for rate in rates]
    here = [runs.here.values("loss on new points", optimizer=name, rate=rate)[0] for rate in rates]
    for axes, longer in zip(panels, (1, 10 if name == "momentum" else 1), strict=True):
        if axes is panels[0] or name != "Adam":
            at = [rate * longer for rate in rates]
            plot.spread(
                axes, at, np.transpose(losses), label=name, linestyle=plot.LINES[i], **style
            )
            axes.plot(at, here, "o", fillstyle="none", markersize=4, linestyle="", **style)
panels[0].set(xlabel="rate $\\eta$", ylabel="loss on new points", xscale="log", yscale="log")
panels[1].set(xlabel="length of the step, $\\eta / (1 - \\mu)$", xscale="log")
panels[0].legend(fontsize=9)
figure.suptitle("line: recorded, band: 20 seeds; circles: measured here", fontsize=9, color="0.35")
plot.show(
    figure,
    alt="Left: loss against the rate, on log scales: three valleys one after the other, that of Adam first, then momentum, "
    "then SGD. Right: against the length of the step the curves of SGD and momentum lie on each other up to 1; at 3 "
    "some runs of SGD are above 10, and none of momentum.",
)
runs.table("rate", "loss on new points", columns="optimizer")


def ratio(rows, one, other, rate, other_rate=None):
    of_one = rows.values("loss on new points", optimizer=one, rate=rate)
    return of_one / rows.values("loss on new points", optimizer=other, rate=other_rate or rate)


runs.holds(
    "at rate 0.01 Adam's loss is less than a fifth of SGD's",
    lambda rows: ratio(rows, "Adam", "SGD", 0.01),
    below=0.2,
)
runs.holds(
    "at rate 1 SGD's loss is less than a fifth of Adam's",
    lambda rows: ratio(rows, "SGD", "Adam", 1.0),
    below=0.2,
)
runs.holds(
    "momentum at a tenth of SGD's rate, steps up to 1 long: the median ratio of losses is near 1",
    lambda rows: [
        np.median(ratio(rows, "momentum", "SGD", low, high))
        for low, high in [(0.003, 0.03), (0.01, 0.1), (0.03, 0.3), (0.1, 1.0)]
    ],
    between=(0.5, 2),
    derived="with steady gradients the two make the same step",
)
runs.holds(
    "steps of length 3: no run with momentum ends above 1",
    lambda rows: rows.values("loss on new points", optimizer="momentum", rate=0.3),
    below=1,
)
fails = runs.best.values("loss on new points", optimizer="SGD", rate=3.0) > 1
measured(f"steps of length 3: {fails.sum()} of {fails.size} runs of SGD end above 1")

# %% [markdown]
# On the left are three valleys. At rate 0.01 Adam wins by far, at rate 1 SGD does: with a single learning rate we
# could have "shown" either result. On the right the same curves against the length of a steady step, which is $\eta$
# for SGD and $10\,\eta$ for momentum. The two fall together: a step of momentum does no more than a step of SGD of
# the same length. But momentum *allows a longer one*. At length 3, 11 of SGD's 20 runs end with a loss
# above 1, and none with momentum.
#
# So each optimizer must get its own rate, by a fair choice. In later chapters you will meet two words for this. `Tuned`
# chooses a rate on points that are not reported, in runs with other seeds, from a grid that is widened where the best rate
# lies at its edge. `Budgets` reads each run several times, here after 200, 600 and 2,000 steps, since "not yet" is not
# "cannot". (Both stand in the folded cell.)


# %% evidence
# The same network at the best rate of each optimizer, read at three budgets: experiment
@lab.experiment(
    "E1",
    optimizer=["SGD", "momentum", "Adam"],
    rate=Tuned(0.1, 0.3, 1.0, lowest="loss elsewhere", seeds=3),
    steps=Budgets([200]),
    full=dict(
        rate=Tuned(0.1, 0.3, 1.0, lowest="loss elsewhere", seeds=10),
        steps=Budgets([200, 600, 2000]),
        seeds=20,
    ),
)
def spiral_at_best(optimizer, rate, steps):
    model, (points, arms), done = perceptron(), spiral(200), 0
    optimizer = optimizer_for(optimizer, model.parameters(), rate)
    elsewhere, new = spiral(200), spiral(200)  # to choose the rate by, to report
    for budget in steps:
        train_spiral(model, optimizer, points, arms, budget - done)
        done = budget
        with mt.no_grad():
            right = (model(new[0]).argmax(dim=1) == new[1]).float().mean().item()
        losses = {
            "loss elsewhere": spiral_loss(*elsewhere, model),
            "loss on new points": spiral_loss(*new, model),
        }
        yield losses | {"right": right}


# %% evidence
# E1: each optimizer at its own best rate, against the steps
runs = spiral_at_best.run()
runs.draw(
    x="steps",
    y="loss on new points",
    by="optimizer",
    log="xy",
    width=7,
    alt="Loss on new points after 200, 600 and 2,000 steps, on log scales: all three fall. The bands of the seeds overlap.",
)
runs.table("steps", "loss on new points", columns="optimizer")
runs.holds(
    "after 2,000 steps, each at its best rate, all are right on more than 99 % of new points",
    lambda rows: rows.values("right", steps=2000),
    above=0.99,
)
runs.finding(
    "after 200 steps SGD's loss is larger than momentum's",
    "loss on new points",
    larger=dict(optimizer="SGD", steps=200),
    smaller=dict(optimizer="momentum", steps=200),
)

# %% [markdown]
# All three solve the task in the end. Adam has the lowest curve and the widest band. Its rate of 0.3 was the best in other
# seeds, but it lies near the limit: most runs do very well, a few badly. (We do not choose again. That would be choosing by
# the points that we report.)
#
# **When is a difference a finding?** After 200 steps SGD's loss is 0.026 to 0.065, momentum's 0.002 to 0.064. Is
# momentum better, or was it lucky? The ranges do not answer that: they overlap, since some spirals are harder than
# others, for both. So this book compares *seed by seed*: one seed gives both optimizers the same first weights and
# the same points.
#
# Suppose that the optimizer made no difference. Then it was chance which run of a pair came out worse, as if a coin had been
# thrown for each. Five coins fall in $2^5 = 32$ ways. We turn the pairs round in all 32 ways, and add up the differences
# each time. How often is the sum at least as large as the one that we measured? This share is $p$. If all five pairs agree,
# it happens in one way of 32: $p = 0.03$.

# %% evidence
# Five pairs, the 32 ways to turn them round, and what the rule says of all seeds
of = {
    name: runs.best.values("loss on new points", optimizer=name, steps=200)
    for name in ("SGD", "momentum")
}
pairs = np.stack([of["SGD"][:5], of["momentum"][:5]])
signs = np.array(list(product([1, -1], repeat=pairs.shape[1])))
sums = signs @ (pairs[0] - pairs[1])
share = (sums >= sums[0] - 1e-12).mean()
figure, (left, right) = plot.subplots(1, 2, width=8.5, height=3, width_ratios=[2, 3])
left.plot([0, 1], pairs, "o-", color="0.4", markersize=5)
left.set(
    xticks=[0, 1], yscale="log", ylabel="loss on new points", title="Five pairs, a line a seed"
)
left.set_xticklabels(["SGD", "momentum"])
left.set_xlim(-0.3, 1.3)
right.hist(sums, bins=24, color=plot.COLORS[5])
right.axvline(sums[0], color=plot.COLORS[1], linestyle="-", label="as it was measured")
right.set(
    xlabel="sum of the differences", ylabel="ways", title=f"{len(sums)} ways to turn them round"
)
right.legend(fontsize=9)
measured(f"of {len(sums)} ways {share:.3f} add up to at least as much")
plot.show(
    figure,
    alt="Left: five lines from SGD's loss to momentum's, all of them falling. Right: a histogram of the sums of all ways to turn "
    "the pairs round, with a line at the largest, where the measured sum lies.",
)
for steps in runs.best.settings_of("steps"):
    for larger, smaller in [("SGD", "momentum"), ("SGD", "Adam"), ("momentum", "Adam")]:
        pair = [
            runs.best.values("loss on new points", optimizer=name, steps=steps)
            for name in (larger, smaller)
        ]
        by_loss, by_log = finding(*pair), finding(*np.log(pair))
        agree = (by_loss.differences > 0).sum()
        measured(
            f"{steps} steps: {larger} above {smaller} in {agree} of {by_loss.seeds} seeds; "
            f"by the loss p = {by_loss.p:.2g}: {'finding' if by_loss.found else 'no finding'}; "
            f"by its logarithm p = {by_log.p:.2g}: {'finding' if by_log.found else 'no finding'}"
        )

# %% [markdown]
# All five lines fall, so the sum as it was measured is the largest of the 32. (The top line falls by a hair. With this
# one pair turned, the sum is a hair smaller: that is the second way in the last bar. Only one way reaches the line.) Had chance made it, we should see that
# once in 32 times. This is the rule, for the whole book:
#
# > A difference is a **finding** if there are at least five seeds and $p \le 0.05$.
#
# (`finding(larger, smaller)` in `textbook.lab` counts; it is a *permutation test*, Fisher, 1935.) Which of the two is to be
# larger has to be said before the result is seen. Any other difference happened in these seeds, and we say no more of it.
# The rule has two limits. A finding need not be large: for that, read the median and the range. And of twenty comparisons
# without a difference, about one passes by chance: so we print $p$ and the number of seeds that agree.
#
# So which optimizer is best here? With one rate for all, whoever chooses the rate chooses the winner. With its own rate for
# each, momentum is ahead of SGD, a finding after 200 and 600 steps. For Adam it depends on how one counts a few bad runs;
# the first side road asks that.
#
# > **E1 · It depends on the rate: at 0.01 Adam's loss is 0.04 of SGD's, at 1 SGD's is 0.02 of Adam's.** *Our question*:
# > which optimizer is best, SGD, SGD with momentum, or Adam?
# >
# > *Measured*: Medians of 20 seeds, after 200 steps; the tables above have the ranges. Momentum's loss at a tenth of SGD's
# > rate is 0.86 to 1.11 of it (medians at four step lengths, up to 1). At length 3 11 of 20 runs of SGD end above 1, and none with momentum.
# > Each at its own rate, SGD's loss is larger than momentum's in 20 of 20 seeds after 200 steps, 18 after 600 (findings),
# > and 19 after 2,000 (none, p = 0.11). By its mean loss Adam is ahead of
# > neither at any of the three (no finding). By its mean log loss it is ahead of both from 600 steps on (findings, asked after
# > a look).
#
# > **Today.** Language models are trained with AdamW: Adam, and a little shrinking of each weight at every step (chapter
# > 11). Its rate rises during a warm-up and then falls (chapter 09), and the gradient's norm is clipped (chapter 01).
# > The engine is PyTorch's or JAX's. Both do what yours does, on a GPU, with steps fused and compiled.

# %% [markdown]
# <details><summary>Common slips, and how other texts write it</summary>
#
# | what one may read | what is right | why |
# | --- | --- | --- |
# | $y = Wx + b$ | here $y = xW + b$ | other texts have columns, this book has rows; $W$ is transposed, and $gJ$ becomes $J^\top g$ |
# | `F.cross_entropy` of probabilities | of scores | it takes the softmax itself; twice is no error, and trains badly |
# | $m$ for Adam's mean of the gradient | $u$ here | the papers write $m$, as the exercise does; in this chapter $m$ is a size |
# | $u \leftarrow \mu u + (1 - \mu) g$ for momentum | without the factor, as PyTorch does | with it, the same path needs a rate ten times as large for $\mu = 0.9$ |
# | perplexity as $2^{\text{loss}}$ | $e^{\text{loss}}$ | the loss is in nats, by the natural logarithm; base 2 belongs to bits |
# | "FLOPs" for half as many | $2nkm$ | some count a multiplication with its addition as one |
#
# </details>
#
# ## Summary
#
# - A gradient is a sum over all paths to the loss, computed by walking the graph backward. Each node hands on a
#   vector-Jacobian product. An engine that does this has 54 lines, and trains a model to the digits of the library.
# - Broadcasting repeats values, so its gradient sums. Gradients accumulate until they are zeroed. `gradcheck` in 64 bits
#   finds wrong ones.
# - The gradient of cross-entropy after softmax is $p - \text{one-hot}(y)$. Perplexity is the exponential of the mean
#   loss. An embedding is a one-hot product done cheaply.
# - Momentum lengthens the step where gradients agree, up to ten times, and damps them where they change sign. Adam gives each parameter a step size of its
#   own.
# - Which optimizer is best depends on the rate (E1). So a comparison needs a rate chosen fairly for each side, on other
#   data, and several seeds. A difference is a finding if $p \le 0.05$, seed by seed.
#
# **Exercises**: [set 00](../exercises/00_tensors_and_autograd/00_tensors_and_autograd.ipynb).
# You write parts of the engine, softmax, perplexity and more, and are told which mistake a wrong answer looks like.
#
# **Read on**: Baydin, Pearlmutter, Radul and Siskind (2018), *Automatic differentiation in machine learning: a
# survey*. Griewank and Walther (2008), *Evaluating derivatives*. Rumelhart, Hinton and Williams (1986) on
# backpropagation. Glorot and Bengio (2010) and He et al. (2015) on initialization. Kingma and Ba (2015) on Adam. Goh
# (2017), *Why momentum really works*. Kaplan et al. (2020) for the rule $6P$.
#
# Next: [chapter 01](01_rnn.ipynb), where one matrix is applied at each word of a text.
#
# ## Side roads
#
# Tools for later. Skip them now; each says who needs it.
#
# ### Few bad runs, or many good ones?
#
# *For those who ask whether Adam won in section 9.* Each optimizer has its own rate. Two questions are open:
#
# | 20 seeds, after 200, 600 and 2,000 steps | is the *loss* larger? $p$ | is it larger by a *factor*? $p$ of $\log L$ |
# | --- | --- | --- |
# | SGD above momentum | 0.000001, 0.0001, 0.11 | 0.000001, 0.000004, 0.00002 |
# | SGD above Adam | 0.84, 0.86, 0.75 | 0.03, 0.0007, 0.0007 |
# | momentum above Adam | 1, 0.88, 0.78 | 0.94, 0.046, 0.011 |
#
# The first column adds losses up, so a few bad seeds decide. There Adam, which fails seldom but badly, is never ahead. The
# second adds logarithms up, so a loss that is ten times lower counts the same everywhere. There Adam is ahead of SGD at
# once, and of momentum from 600 steps on, by less. Both answers are right. Which question one asks has to be said before
# one looks, and we asked the first.
#
# ### 10. How large should the first weights be? (E2)
#
# *For those who come from chapter 01 or 09, or whose deep network does not train.* The spiral's network has three
# layers, and its first weights gave no trouble. What if it had thirty? Before training, weights are random. Let each
# unit add $n$ inputs with independent weights of mean 0: $y = \sum_{i=1}^{n} x_i w_i$. Square this and take the mean:
# of the products $x_i w_i x_j w_j$ with $i \ne j$ nothing is left, since the mean of $w_i w_j$ is the product of two
# zeros. So
#
# $$\operatorname{Var}(y) = n \cdot \operatorname{Var}(w) \cdot \overline{x^2},$$
#
# where $\overline{x^2}$ is the mean square of the inputs. With $\operatorname{Var}(w) = \text{gain}^2 / n$, one layer
# multiplies the size of the signal (the root of its mean square) by the gain, and $D$ layers by $\text{gain}^D$. Going
# backward, the gradient passes through $W^\top$ and is multiplied by the gain as well.
#
# Relu, $\max(0, x)$, drops half of what it gets, and a gain of $\sqrt 2$ makes up for that (He et al., 2015). Tanh
# shrinks large numbers more than small ones; 5/3, which PyTorch's `calculate_gain` has, keeps the forward signal
# about level. What happens when a gain is off by a quarter? Here are the signals of a tanh network, layer by layer:

# %% evidence
# Histograms of the signals in a deep tanh network, at four gains
figure, panels = plot.subplots(1, 4, width=9.5, height=2.6, sharey=True)
for axes, gain in zip(panels, (0.8, 1.0, 5 / 3, 3.0), strict=True):
    mt.manual_seed(0)
    h = mt.randn(64, 256)
    for layer in range(1, 31):
        h = mt.tanh(h @ (mt.randn(256, 256) * gain / 16))
        if layer in (1, 10, 30):
            counts, edges = np.histogram(h.numpy(), bins=50, range=(-1, 1), density=True)
            axes.plot((edges[1:] + edges[:-1]) / 2, counts, label=f"layer {layer}")
    dead = (mt.abs(h) > 0.97).float().mean().item()
    axes.set(title=f"gain {gain:.3g}", xlabel="signal", ylim=(0, 4))
    measured(f"gain {gain:.3g}: after 30 layers {dead:.0%} of the signals are beyond 0.97")
panels[0].set_ylabel("density")
panels[0].legend(fontsize=8)
plot.show(
    figure,
    alt="Four panels of histograms after 1, 10 and 30 layers. At gain 0.8 the signals shrink to a spike at 0; at 1 they "
    "shrink more slowly; at 5/3 the histogram keeps its broad shape; at 3 the signals crowd at -1 and 1.",
)

# %% [markdown]
# At 0.8 the signal dies. At 3 the units crowd at $-1$ and $1$, where tanh is flat: confident means deaf, once more. At
# 5/3 the shape stays. Now the sizes, forward and backward, and with other functions:


# %%
FUNCTIONS = {"none": (1.0, lambda x: x), "tanh": (5 / 3, mt.tanh), "relu": (2**0.5, mt.relu)}


@lab.experiment(
    "E2", function=["none", "tanh", "relu"], factor=[0.8, 1.0, 1.25], full=dict(seeds=5)
)
def deep_sizes(function, factor, depth=30, n=256):
    """Sizes of the signal after each layer h <- f(h W), and of the gradient there."""
    gain, f = FUNCTIONS[function]
    h, states = mt.randn(64, n, requires_grad=True), []
    for _ in range(depth):
        h = f(h @ (mt.randn(n, n) * factor * gain / math.sqrt(n)))
        h.retain_grad()  # otherwise only leaves keep theirs
        states.append(h)
    h.backward(mt.randn(64, n))
    signal = [(h**2).mean().sqrt().item() for h in states]
    gradient = [(h.grad**2).mean().sqrt().item() for h in states]
    return {
        "layer": list(range(1, depth + 1)),
        "signal": signal,
        "gradient": gradient,
        "signal, last to first": signal[-1] / signal[0],
        "gradient, first to last": gradient[0] / gradient[-1],
    }


# %% evidence
# E2: sizes forward and backward
runs = deep_sizes.run()
figure, panels = plot.subplots(2, 3, width=8.5, height=4.2, sharex=True, sharey=True)
for axes, name in zip(panels.T, ("none", "tanh", "relu"), strict=True):
    for factor in (0.8, 1.0, 1.25):
        rows = runs.best.where(function=name, factor=factor)
        for row, what in enumerate(("signal", "gradient")):
            plot.spread(
                axes[row], rows[0]["layer"], rows.values(what), label=f"{factor:g} times its gain"
            )
    title = "no function, gain 1" if name == "none" else f"{name}, gain {FUNCTIONS[name][0]:.3g}"
    axes[0].set(yscale="log", title=title)
    axes[1].set_xlabel("layer")
figure.suptitle("line: median, band: all seeds; " + ("recorded" if runs.full else "measured here"))
panels[0, 0].set_ylabel("size of the signal")
panels[1, 0].set_ylabel("size of the gradient")
panels[1, 1].legend(fontsize=8, loc="lower left")
plot.show(
    figure,
    alt="Sizes against the layer, on a log scale, without a function, with tanh and with relu. Without one and with "
    "relu, signal and gradient are level at the right gain, and change several hundredfold at 0.8 and 1.25 times it. "
    "With tanh the signal stays level at all three, and the gradient grows toward the input, most at 1.25 times.",
)


ends = ["signal, last to first", "gradient, first to last"]
for what in ends:
    runs.table("function", what, columns="factor")


def against_the_power(rows):
    """Both ratios of runs without tanh, divided by factor^29."""
    chosen = [row for row in rows if row["function"] != "tanh"]
    return [row[what] / row["factor"] ** 29 for row in chosen for what in ends]


runs.holds(
    "without a function and with relu both ratios are factor^29, within a factor of 2",
    against_the_power,
    between=(0.5, 2),
)
runs.holds(
    "with tanh at 1.25 times its gain the signal stays within a factor of 1.5",
    lambda rows: rows.values(ends[0], function="tanh", factor=1.25),
    between=(1 / 1.5, 1.5),
)
runs.holds(
    "there the gradient grows more than fiftyfold",
    lambda rows: rows.values(ends[1], function="tanh", factor=1.25),
    above=50,
)

# %% [markdown]
# Three layers forgive a wrong gain, thirty do not: a factor of 1.25 either way changes the size several hundredfold.
# Tanh is an exception forward, since it cannot exceed 1: the signal stays level at all three. Its gradient does not. It
# grows toward the input, fourteenfold at the gain that keeps the signal, more than a hundredfold at 1.25 times that. So
# the gain that keeps the signal of tanh does not keep its gradient; a smaller one is a compromise.
#
# The functions in `nn.init` know these gains. `nn.Linear` starts as PyTorch's does, uniformly between $-1/\sqrt n$ and
# $1/\sqrt n$. That has variance $1/(3n)$: a gain of only 0.58, fine for the perceptron above and not for thirty layers.
# (Chapter 09 has a better cure than careful gains.)
#
# > **E2 · Yes, without a function and with relu: through 29 layers both grow by the 29th power of the gain, within 0.72 to
# > 1.40.** *Our question*: are signal and gradient multiplied by the gain at each layer?
# >
# > *Measured*: Five seeds. The figure's tables have each ratio. With tanh the answer is no: at 1.25 times its gain the
# > signal keeps 0.92 to 0.93 of its size, and the gradient grows by 123 to 137.
#
# #### The same matrix again and again
#
# *For those who come from chapter 01, section 7.* A recurrent network multiplies its state by the *same* matrix $W
# \in \mathbb{R}^{n \times n}$ at each step. If a row $x$ is an eigenvector, $xW = \lambda x$ (of $W^\top$, if you are
# used to columns: the eigenvalues are the same), then $xW^t = \lambda^t x$. For almost any other start, the
# eigenvalue with the largest absolute value wins in the end. That absolute value is the **spectral radius** $\rho(W)
# = \max_i |\lambda_i|$. With the norm $\lVert W \rVert$, the factor by which $W$ stretches the vector that it
# stretches most,
#
# $$\lVert W^t \rVert^{1/t} \to \rho(W) \quad \text{as } t \to \infty.$$

# %%
mt.manual_seed(1)
W_random = mt.randn(64, 64, dtype=mt.float64).numpy()
W_random /= np.abs(np.linalg.eigvals(W_random)).max()  # now its spectral radius is 1
for t in (1, 10, 100, 1000):
    norm = np.linalg.norm(np.linalg.matrix_power(W_random, t), 2)
    print(f"t = {t:4}: norm of W^t {norm:.3f}, its t-th root {norm ** (1 / t):.3f}")

# %% evidence
# Eigenvalues of a random matrix, and norms of powers
matrices = {f"radius {rho}": rho * W_random for rho in (0.9, 1.0, 1.1)}
matrices["radius 0.9, 2 x 2"] = np.array([[0.9, 5.0], [0.0, 0.9]])
figure, (left, right) = plot.subplots(1, 2, width=8.5, height=3, width_ratios=[2, 3])
eigenvalues = np.linalg.eigvals(W_random)
left.scatter(eigenvalues.real, eigenvalues.imag, s=14)
circle = np.exp(2j * np.pi * np.linspace(0, 1, 100))
left.plot(circle.real, circle.imag, color="0.3", linewidth=1)
left.set(aspect="equal", xlabel="real part", ylabel="imaginary part", title="Eigenvalues, radius 1")
for name, matrix in matrices.items():
    powers = [np.linalg.norm(np.linalg.matrix_power(matrix, t), 2) for t in range(101)]
    right.plot(powers, label=name)
    print(f"{name:18}", "  ".join(f"t={t}: {powers[t]:.4g}" for t in (0, 1, 10, 50, 100)))
right.set(yscale="log", xlabel="t", ylabel="norm of $W^t$", title="Powers of a matrix")
right.legend(fontsize=8)
plot.show(
    figure,
    alt="Left: 64 eigenvalues scattered over the disc of radius 1 in the complex plane. Right: norms of powers fall "
    "for radius 0.9, stay level for 1 and grow for 1.1; those of the 2 by 2 matrix first grow, then fall.",
)

# %% [markdown]
# Radius 0.9 dies, radius 1.1 explodes, and only near 1 does a signal last. (Most eigenvalues of a random matrix come in
# complex pairs: a pair turns a plane while it stretches it.) The last line is a warning: radius 0.9, and powers that
# first grow twentyfold. The radius tells the end of the story, the norm at $t = 1$ the first step.
#
# #### Rotations keep lengths
#
# *For those who come from chapter 08.* Are there matrices that neither shrink nor stretch *any* vector? In the plane,
#
# $$R(\theta) = \begin{pmatrix} \cos\theta & \sin\theta \\ -\sin\theta & \cos\theta \end{pmatrix}$$
#
# turns a row vector $x$ into $xR(\theta)$, by the angle $\theta$ to the left. Lengths stay, so no product of rotations
# can vanish or explode. And angles add up: $R(\alpha) R(\beta) = R(\alpha + \beta)$, $R(\theta)^\top = R(-\theta)$.


# %%
def rotation(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, s], [-s, c]])


turned = x @ np.linalg.matrix_power(rotation(0.35), 1000)
print(
    "length of the vector of 'cat' before and after 1000 turns:",
    np.linalg.norm(x).round(6),
    np.linalg.norm(turned).round(6),
)
print("R(0.3) R(0.5) = R(0.8):", np.allclose(rotation(0.3) @ rotation(0.5), rotation(0.8)))
print("R(0.3) R(0.5)^T = R(-0.2):", np.allclose(rotation(0.3) @ rotation(0.5).T, rotation(-0.2)))

# %% [markdown]
# The last line is the seed of chapter 08: turn two vectors by angles that stand for their places, and their dot product
# depends on the *difference* of the places alone.
#
# ### 11. Counting the cost
#
# *For those who come from chapter 04, 05 or 11.* How much does a model cost? Seconds depend on the machine; operations
# can be counted. To multiply $(n, k)$ by $(k, m)$ takes $nm$ sums of $k$
# products, that is $2nkm$ floating-point operations (**FLOPs**): one multiplication and one addition each. In most
# networks matrix products outweigh everything else.
#
# Backward, each product needs two of the same size, $G W^\top$ and $X^\top G$. So with $P$ weights, one example costs
# about $2P$ forward, $4P$ backward, $6P$ together. (The input of the first layer needs no gradient, which saves a
# little.)


# %%
def matmul_flops(n, k, m):
    return 2 * n * k * m


weights = [layer.weight for layer in perceptron() if isinstance(layer, nn.Linear)]  # (out, in)
forward = sum(matmul_flops(1, *weight.shape) for weight in weights)
P = sum(weight.numel() for weight in weights)
print(f"the perceptron: P = {P} weights, {forward} FLOPs forward, that is {forward // P} P")
print(f"one run of section 9, 200 steps of 64 examples: {200 * 64 * 6 * P:,} FLOPs")

# %% [markdown]
# **Big-O** keeps only what decides for large sizes: $8nd^2 + 4n^2 d$ is $O(n^2 d)$ as $n$ grows, with $d$ fixed. Double
# $n$ and look at the factor: its logarithm to base 2 is the exponent. Two kinds of product will accompany us. A
# **projection** multiplies $n$ vectors by one matrix, $XW$, and a table of **all pairs** multiplies them by each other,
# $XX^\top$, with $X \in \mathbb{R}^{n \times d}$ and $W \in \mathbb{R}^{d \times d}$.

# %%
d = 128
lengths = np.array([16, 32, 64, 128, 256, 512, 1024])
projection, pairs = matmul_flops(lengths, d, d), matmul_flops(lengths, d, lengths)
print("projection:", projection, "exponent", np.log2(projection[1] / projection[0]))
print("all pairs: ", pairs, "exponent", np.log2(pairs[1] / pairs[0]))

# %% evidence
# FLOPs of projections and of all pairs against the length
figure, axes = plot.subplots(width=5.5)
axes.loglog(lengths, projection, marker="o", label="projection, $2nd^2$")
axes.loglog(lengths, pairs, marker="s", label="all pairs, $2n^2d$")
axes.axvline(d, color="0.4", linewidth=1, linestyle=":", label="n = d")
axes.set_xticks(lengths, lengths)
axes.minorticks_off()
axes.set(xlabel="length n", ylabel="FLOPs", title=f"The lines cross at n = d = {d}")
axes.legend()
plot.show(figure, alt="FLOPs against length: all pairs rise twice as steeply and cross at 128.")

# %% [markdown]
# Counts are not times. A small product is dominated by the cost of calling it, a large one by how well it uses the
# memory. On the machine that ran this:

# %% evidence
# How long a product takes here, and how many FLOPs a second that is
for n in (8, 32, 128, 512):
    X = mt.randn(n, n)
    repeats = max(3, 10**7 // n**3)
    start = perf_counter()
    for _ in range(repeats):
        X @ X
    seconds = (perf_counter() - start) / repeats
    speed = matmul_flops(n, n, n) / seconds / 1e9
    measured(f"n = {n:3}: {1e6 * seconds:9.1f} microseconds, {speed:6.1f} billion FLOPs a second")
