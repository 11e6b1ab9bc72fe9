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
# Every model in this book, from the plain RNN to the Transformer, learns in the same way: compute a loss, compute how
# the loss changes with each parameter, move each parameter a little. This chapter builds the machine that does the
# second step, and collects the mathematics that the later chapters lean on.
#
# After it you can
#
# - compute a gradient by hand with the chain rule, and write an engine that does it for you;
# - use tensors: shapes, broadcasting, `backward`, `no_grad`, and check a gradient that you do not trust;
# - derive the gradient of softmax with cross-entropy, and read a perplexity;
# - train a small network with SGD and Adam, and say how much of a result is luck;
# - explain why signals die or explode in deep products, what a rotation keeps, and what a matrix product costs.
#
# **Time**: about 120 minutes with the code; to run everything takes less than a minute. **Prerequisites**: Python with
# functions and classes, NumPy arrays, the derivative of a function of one variable, the product of matrices.
# **Symbols** are listed on one page, [the book's notation](../docs/notation.md).
#
# **The lectures.** The book follows five lecture decks: 1 and 3, *Self-Attention and Transformers* (CS224N,
# by Tatsunori Hashimoto and of 2023), 2, *Attention & Transformers* (10-701, Hoda Heidari), 4, *Attention &
# Transformers* (Advanced NLP, Richard Sieg), and 5, *Is Attention All We Need?* (without a name). You need
# none of them. What they claim has a number, C1, C2, ..., in the heading of the section that measures it;
# questions of our own are E1, E2, ..., counted anew in each chapter. A box at the section's end says what
# came out, and [one page](../docs/claims.md) has all boxes. A result is *quick* when this run of the notebook
# produced it, and *full* when it was recorded before, with more seeds or larger sizes.
#
# **If a cell fails,** most often a cell above it was not run, or was changed. Choose *Run > Restart Kernel and Run All
# Cells*. If it fails again, rename your copy of this notebook: the next `python book.py lab` gives you a fresh one.

# %%
import inspect
import math

import matplotlib.pyplot as plt
import numpy as np
from tqdm.auto import tqdm

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook import plot

# %% [markdown]
# `minitorch` is the book's own library. It has PyTorch's names and behavior: with PyTorch, `import torch` takes the
# place of `import minitorch as mt`, and the rest of the code stays as it is.

# %% [markdown]
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
# Suppose that we want $h = 1$ after "cat". The **loss** $L = (h - 1)^2$ says how far we are from that.


# %%
def unit_loss(w1, w2, b):
    h = np.tanh(w1 * x[0] + w2 * x[1] + b)
    return (h - 1) ** 2


w1, w2, b = 0.8, -0.4, -0.5
print(f"L = {unit_loss(w1, w2, b):.4f}")

# %% [markdown]
# Which way should $w_1$ move? We could try: change it a little in both directions and watch $L$. That is a **finite
# difference**,
#
# $$\frac{\partial L}{\partial w_1} \approx \frac{L(w_1 + \varepsilon) - L(w_1 - \varepsilon)}{2 \varepsilon}.$$

# %%
eps = 1e-5
slopes = [
    (unit_loss(w1 + eps, w2, b) - unit_loss(w1 - eps, w2, b)) / (2 * eps),
    (unit_loss(w1, w2 + eps, b) - unit_loss(w1, w2 - eps, b)) / (2 * eps),
    (unit_loss(w1, w2, b + eps) - unit_loss(w1, w2, b - eps)) / (2 * eps),
]
print("slopes for w1, w2, b:", [f"{slope:.4f}" for slope in slopes])

# %% [markdown]
# This works, and we shall use it to test better methods. But it runs the model twice for each parameter. A network with
# a million parameters would need two million runs for one step of training. **Reverse-mode differentiation** gets all
# of the slopes from one run forward and one run backward.

# %% [markdown]
# ## 2. The chain rule on a graph
#
# Write the loss as a chain of small steps, each with one result: $p_1 = w_1 x_1$, $p_2 = w_2 x_2$, $s = p_1 + p_2$,
# $a = s + b$, $h = \tanh(a)$, $e = h - 1$, $L = e \cdot e$. The chain rule multiplies the slopes of the steps, and
# it pays to start at the loss. For every quantity $v$ we want $\bar v = \partial L / \partial v$:
#
# $$\bar e = 2e, \quad \bar h = \bar e, \quad \bar a = \bar h\,(1 - h^2), \quad \bar b = \bar s = \bar a, \quad
# \bar w_1 = \bar a\, x_1, \quad \bar w_2 = \bar a\, x_2.$$
#
# Each line uses what the line before it found. That is the whole idea.

# %%
h = np.tanh(w1 * x[0] + w2 * x[1] + b)
e_bar = 2 * (h - 1)
a_bar = e_bar * (1 - h**2)
by_hand = [a_bar * x[0], a_bar * x[1], a_bar]
print("by hand:             ", [f"{slope:.4f}" for slope in by_hand])
print("equal to differences:", np.allclose(by_hand, slopes))

# %% [markdown]
# ## 3. An engine for numbers
#
# A program can do the same bookkeeping. Each `Value` remembers the values it was computed from, its `parents`, and the
# slope of the step with respect to each of them, a number known as soon as the step is done. `backward` visits the
# values from the loss back to the inputs, and hands each parent its share: the gradient of the child times the slope.


# %%
class Value:
    def __init__(self, data, parents=(), slopes=()):
        self.data = data
        self.grad = 0.0  # dL / d self, filled in by backward
        self.parents = parents
        self.slopes = slopes  # d self / d parent, one a parent

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, (self,), (1 - t * t,))

    def backward(self):
        self.grad = 1.0
        for node in reversed(in_order(self)):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad += node.grad * slope


# %% [markdown]
# Two details matter. The shares are *added* (`+=`), because a value that is used twice changes the loss along two paths:
# in $L = e \cdot e$, each factor contributes $e$, together $2e$. (Call `backward` once for a graph: a second call would
# find the shares of the first still there, and pass them on again.) And a value may pass its gradient on only when all of
# its own shares have arrived. So we need an order in which parents come before children, a **topological order**, and
# walk it in reverse. A stack instead of recursion lets the graph be as deep as it likes.


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
# Now the unit again, step by step, so that we can look at every value.

# %%
v = {"x1": Value(1.0), "x2": Value(-0.5), "w1": Value(0.8), "w2": Value(-0.4), "b": Value(-0.5)}
v["p1"] = v["w1"] * v["x1"]
v["p2"] = v["w2"] * v["x2"]
v["s"] = v["p1"] + v["p2"]
v["a"] = v["s"] + v["b"]
v["h"] = v["a"].tanh()
v["e"] = v["h"] + Value(-1.0)
v["L"] = v["e"] * v["e"]
v["L"].backward()
print("engine:", [f"{v[name].grad:.4f}" for name in ("w1", "w2", "b")])
print("equal to ours by hand:", np.allclose([v[n].grad for n in ("w1", "w2", "b")], by_hand))

# %%
places = {"x1": (0, 4), "w1": (0, 3), "w2": (0, 2), "x2": (0, 1), "b": (0, 0)}
places |= {"p1": (1, 3.5), "p2": (1, 1.5), "s": (2, 2.5)}
places |= {"a": (3, 1.5), "h": (4, 1.5), "e": (5, 1.5), "L": (6, 1.5)}
names = {value: name for name, value in v.items()}
figure, axes = plot.subplots(width=9.5, height=3.6)
for name, (column, row) in places.items():
    print(f"{name:2} {v[name].data:7.3f}  grad {v[name].grad:7.3f}")
    text = f"{name} = {v[name].data:.3f}\ngrad {v[name].grad:.3f}"
    color = "#F7DFC4" if name in ("w1", "w2", "b") else "#EEF3F8"
    box = dict(facecolor=color, edgecolor="#444444")
    axes.text(column, row, text, ha="center", va="center", fontsize=9, bbox=box)
    for parent in set(v[name].parents) & set(names):
        start = np.add(places[names[parent]], (0.33, 0))
        axes.annotate("", (column - 0.33, row), start, arrowprops=dict(arrowstyle="->"))
axes.set(xlim=(-0.5, 6.5), ylim=(-0.5, 4.5))
axes.set_title("Values flow to the right, gradients to the left (parameters in orange)")
axes.axis("off")
alt = "Graph of the unit, from its inputs to the loss L; each box has a value and a gradient."
plot.show(figure, alt)

# %% [markdown]
# ## 4. From numbers to arrays
#
# An engine of single numbers is slow: a layer with 100 inputs and 100 units has 10,000 products, each with its own
# object. So we let each node hold an array. Then a step maps a vector $x \in \mathbb{R}^n$ to a vector
# $y \in \mathbb{R}^m$, and its slope is a matrix, the **Jacobian**
#
# $$J \in \mathbb{R}^{m \times n}, \qquad J_{ij} = \frac{\partial y_i}{\partial x_j}.$$
#
# The chain rule multiplies Jacobians. Going backward, we carry $g = \partial L / \partial y \in \mathbb{R}^m$ and need
# $\partial L / \partial x = g J \in \mathbb{R}^n$, the **vector-Jacobian product**. We never have to build $J$. For
# $y = \tanh(x)$, for example, $J$ is diagonal, and $gJ$ is an element-wise product.

# %%
a = np.array([0.5, -0.9, 2.0])
g = np.array([1.0, 10.0, 100.0])  # dL / dy
J = np.diag(1 - np.tanh(a) ** 2)  # (3, 3)
print("through the Jacobian:", g @ J)
print("without it:          ", g * (1 - np.tanh(a) ** 2))

# %% [markdown]
# **A matrix product.** For $Y = XW$ with $X \in \mathbb{R}^{n \times k}$ and $W \in \mathbb{R}^{k \times m}$, the element
# $Y_{ij} = \sum_l X_{il} W_{lj}$ depends on row $i$ of $X$ and on column $j$ of $W$. With $G = \partial L / \partial Y$,
# adding over all paths gives
#
# $$\frac{\partial L}{\partial X_{il}} = \sum_j G_{ij} W_{lj}, \quad \text{that is} \quad
# \frac{\partial L}{\partial X} = G W^\top, \qquad \frac{\partial L}{\partial W} = X^\top G.$$
#
# The shapes alone tell where the transposes go: a gradient has the shape of what it belongs to.
#
# **Broadcasting.** NumPy and all tensor libraries line shapes up from the right, and stretch an axis of size 1 to the
# size of its partner. A bias of shape $(m)$ is added to each row of an $(n, m)$ matrix in this way.

# %%
column = np.array([[0], [10], [20]])  # (3, 1)
row = np.array([1, 2, 3, 4])  # (4)
print(column + row)  # (3, 4)

# %%
figure, panels = plot.subplots(1, 3, width=9, height=2.4)
pictures = [
    ("(3, 1) stretched to (3, 4)", column + 0 * row, lambda i, j: j == 0),
    ("(4) stretched to (3, 4)", 0 * column + row, lambda i, j: i == 0),
    ("their sum, (3, 4)", column + row, lambda i, j: True),
]
for axes, (title, table, is_given) in zip(panels, pictures, strict=True):
    for (i, j), number in np.ndenumerate(table):
        ink = "black" if is_given(i, j) else "#888888"
        fill = "#F7DFC4" if is_given(i, j) else "white"
        axes.add_patch(plt.Rectangle((j, -i), 1, 1, facecolor=fill, edgecolor=ink))
        axes.text(j + 0.5, 0.5 - i, number, ha="center", va="center", color=ink)
    axes.set(xlim=(-0.1, 4.1), ylim=(-2.1, 1.1), title=title, aspect="equal")
    axes.axis("off")
alt = "A column of 3 and a row of 4 numbers, each repeated to fill a 3 by 4 table, and their sum."
plot.show(figure, alt)

# %% [markdown]
# A stretched number is used several times, so its gradient is the sum over its copies. Every operation that broadcasts
# needs this, so one small function does it for all of them.


# %%
def unbroadcast(grad, shape):
    """Sum grad over the axes that broadcasting added or stretched."""
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return grad.sum(axis=stretched, keepdims=True)


print(unbroadcast(np.ones((3, 4)), (3, 1)).T, unbroadcast(np.ones((3, 4)), (4,)))

# %% [markdown]
# The array engine is the scalar engine with two changes: the slopes become functions, from the gradient of the result
# to the gradient of the parent, and `backward` undoes broadcasting. `in_order` serves both.


# %%
class Array:
    def __init__(self, data, parents=(), vjps=()):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad = np.zeros_like(self.data)
        self.parents, self.vjps = parents, vjps

    def __add__(self, other):
        return Array(self.data + other.data, (self, other), (lambda g: g, lambda g: g))

    def __mul__(self, other):
        vjps = (lambda g: g * other.data, lambda g: g * self.data)
        return Array(self.data * other.data, (self, other), vjps)

    def __matmul__(self, other):
        vjps = (lambda g: g @ other.data.T, lambda g: self.data.T @ g)
        return Array(self.data @ other.data, (self, other), vjps)

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

    def backward(self):
        self.grad = np.ones_like(self.data)
        for node in reversed(in_order(self)):
            for parent, vjp in zip(node.parents, node.vjps, strict=True):
                parent.grad = parent.grad + unbroadcast(vjp(node.grad), parent.data.shape)


# %% [markdown]
# This is enough for a complete language model. It turns "cat" into its vector $x \in \mathbb{R}^{1 \times 2}$, computes
# two hidden units (the first is our unit from above), and scores each of the three words:
#
# $$h = \tanh(xW + b), \quad z = hU, \qquad W \in \mathbb{R}^{2 \times 2},\ b \in \mathbb{R}^2,\ U \in \mathbb{R}^{2 \times 3},\
# z \in \mathbb{R}^{1 \times 3}.$$
#
# The loss is $L = \log \sum_j e^{z_j} - z_y$ with $y$ the number of the word that came next, "sat". Section 7 explains
# this formula; here it is one more program to differentiate.

# %%
W = np.array([[0.8, -0.6], [-0.4, 1.0]])  # column 0 is the unit from section 1
b = np.array([-0.5, 0.2])
U = np.array([[1.0, -1.0, 0.5], [0.5, 0.0, -1.5]])
cat, sat = np.eye(3)[[1]], np.eye(3)[[2]]  # (1, 3) each: a 1 at the word's number


def model_loss(E, W, b, U):
    h = (Array(cat) @ E @ W + b).tanh()  # (1, 2)
    z = h @ U  # (1, 3)
    return z.exp().sum().log() + (z * Array(-sat)).sum()


mine = [Array(parameter) for parameter in (E, W, b, U)]
loss = model_loss(*mine)
loss.backward()
print(f"L = {loss.data:.4f}")
print("dL/dW =\n", mine[1].grad.round(4))

# %% [markdown]
# How long is our engine? We count the lines that are not blank.


# %%
def lines_of(thing):
    """Lines of code of a function, or of all functions of a class and its first line."""
    if not inspect.isclass(thing):
        return sum(bool(line.strip()) for line in inspect.getsourcelines(thing)[0])
    return 1 + sum(lines_of(f) for f in vars(thing).values() if inspect.isfunction(f))


counts = {thing.__name__: lines_of(thing) for thing in (Value, in_order, unbroadcast, Array)}
print(counts, "together", sum(counts.values()))
assert sum(counts.values()) < 100

# %% [markdown]
# Real libraries add speed, many more operations, and good error messages. They do not add another idea.

# %% [markdown]
# ## 5. The library's tensors
#
# A `Tensor` is such an array. By default its numbers are 32-bit floats, which are half as large as NumPy's 64-bit ones
# and faster to multiply; whole numbers are `int64`. A tensor that is made with `requires_grad=True` is a leaf of the
# graph whose gradient we want.

# %%
names = ["E", "W", "b", "U"]
params = [mt.tensor(array, dtype=mt.float32, requires_grad=True) for array in (E, W, b, U)]
for name, parameter in zip(names, params, strict=True):
    print(name, tuple(parameter.shape), parameter.dtype)


# %%
def library_loss(E, W, b, U):
    h = mt.tanh(E[[1]] @ W + b)  # (1, 2)
    z = h @ U  # (1, 3)
    return F.cross_entropy(z, mt.tensor([2]))


loss = library_loss(*params)
loss.backward()
print(loss)
print(params[1].grad)

# %% [markdown]
# The same loss and the same gradient as our engine. `loss.grad_fn` is the last node of the graph, and each node knows
# the nodes before it.

# %%
node = loss.grad_fn
while hasattr(node, "next_functions"):
    print(node)
    node = node.next_functions[0]

# %% [markdown]
# Four rules to learn now. Most of the puzzles that come later come from forgetting one of them.
#
# **Gradients accumulate.** `backward` adds to `.grad`, so that a loss can be computed in parts. Who wants a fresh
# gradient sets it to `None` or calls `zero_grad` first.

# %%
W_t = params[1]
first = W_t.grad.clone()
library_loss(*params).backward()
print("second call without zeroing doubles the gradient:", mt.allclose(W_t.grad, 2 * first))

# %% [markdown]
# **A graph is used once.** `backward` frees it as it goes, to save memory. A second pass needs a new forward pass.

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
# ## 6. Do we trust it?
#
# A wrong gradient does not crash. It trains, badly, and costs days. So we check an engine against something that does
# not share its mistakes. `gradcheck` compares `backward` with finite differences. It needs 64-bit floats, since in
# 32 bits the difference of two nearly equal losses is mostly rounding.

# %%
params64 = [mt.tensor(array, requires_grad=True) for array in (E, W, b, U)]
print("gradcheck of the model:", mt.autograd.gradcheck(library_loss, params64))

# %% [markdown]
# A check that cannot fail is worth nothing, so we plant a mistake: one `detach` too many.


# %%
def careless_loss(E, W, b, U):
    h = mt.tanh(E[[1]] @ W + b).detach()
    return F.cross_entropy(h @ U, mt.tensor([2]))


try:
    mt.autograd.gradcheck(careless_loss, params64)
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# The second check is an independent engine. `autograd` (Maclaurin, Duvenaud and Adams, 2015) differentiates programs
# written in NumPy. The same model, the same numbers:

# %%
import autograd
import autograd.numpy as anp


def numpy_loss(E, W, b, U):
    h = anp.tanh(E[1] @ W + b)  # (2)
    z = h @ U  # (3)
    return anp.log(anp.sum(anp.exp(z))) - z[2]


theirs = autograd.grad(numpy_loss, argnum=(0, 1, 2, 3))(E, W, b, U)
library = mt.autograd.grad(library_loss(*params64), params64)

# %%
print("gradient          ours  minitorch   autograd")
for name, own, lib, other in zip(names, mine, library, theirs, strict=True):
    for place in np.ndindex(other.shape):
        numbers = [own.grad[place], lib.numpy()[place], other[place]]
        print(f"dL/d{name}{list(place)!s:8}" + "".join(f"{number:11.6f}" for number in numbers))
    assert np.allclose(own.grad, other, atol=1e-12) and np.allclose(lib.numpy(), other, atol=1e-12)
print("all three agree to 12 digits")

# %% [markdown]
# ## 7. Scores, probabilities, surprise
#
# The model's last layer gives a score $z_j$ to each of the $V$ words ($V = 3$ here). **Softmax** turns the scores into
# probabilities $p \in \mathbb{R}^V$, positive and adding up to one:
#
# $$p_i = \frac{e^{z_i}}{\sum_{j=1}^{V} e^{z_j}}.$$
#
# Only differences of scores matter: a constant added to all of them cancels. This is also how to compute it safely.
# Large scores overflow, so we subtract the largest one first.

# %%
z = np.tanh(E[1] @ W + b) @ U  # (3): the scores after "cat"
p = np.exp(z) / np.exp(z).sum()
for word, score, probability in zip(words, z, p, strict=True):
    print(f"{word:4} score {score:7.4f}  probability {probability:.4f}")

large = mt.tensor(z + 1000, dtype=mt.float32)
print("as the formula says:", mt.exp(large) / mt.exp(large).sum())
print("largest first:      ", F.softmax(large, dim=0))

# %% [markdown]
# How do the probabilities move when a score moves? Take the logarithm, $\log p_i = z_i - \log \sum_j e^{z_j}$, and
# differentiate: $\partial \log p_i / \partial z_j = \mathbb{1}[i = j] - p_j$. Since
# $\partial p_i = p_i \, \partial \log p_i$, the Jacobian is
#
# $$\frac{\partial p_i}{\partial z_j} = p_i \, (\mathbb{1}[i = j] - p_j), \qquad J = \operatorname{diag}(p) - p\, p^\top
# \in \mathbb{R}^{V \times V}.$$

# %%
J = np.diag(p) - np.outer(p, p)
rows = []
for i in range(3):
    scores = mt.tensor(z, requires_grad=True)
    F.softmax(scores, dim=0)[i].backward()
    rows.append(scores.grad.numpy())
print(J.round(4))
print("the library's rows are the same:", np.allclose(J, rows))

# %% [markdown]
# When one probability comes close to 1, all entries of $J$ come close to 0, and almost no gradient passes. Scaling the
# scores up does that. Keep the right-hand picture in mind for chapter 05, where scores are divided by $\sqrt{d}$.


# %%
def softmax_of(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


scales = np.linspace(0, 12, 49)
norms = []
for scale in scales:
    q = softmax_of(scale * z)
    norms.append(np.linalg.norm(np.diag(q) - np.outer(q, q)))

figure, (left, right) = plot.subplots(1, 2, width=8)
for shift, scale, hatch in [(-0.27, 0.25, ".."), (0, 1, ""), (0.27, 4, "//")]:
    bars = softmax_of(scale * z)
    left.bar(np.arange(3) + shift, bars, width=0.25, hatch=hatch, label=f"scores times {scale}")
    print(f"scores times {scale:4}:", dict(zip(words, bars.round(3).tolist(), strict=True)))
left.set_xticks(range(3), words)
left.set(ylabel="probability", title="Softmax of the scores after 'cat'")
left.legend()
right.plot(scales, norms)
right.set(xlabel="scores multiplied by", ylabel="norm of J", title="Confident means deaf")
print("norm of the Jacobian at 0, 1, 4, 12:", [f"{norms[i]:.4f}" for i in (0, 4, 16, 48)])
alt = "Larger scores give one word nearly all probability; the Jacobian's norm falls to zero."
plot.show(figure, alt)

# %% [markdown]
# **Cross-entropy.** If the word that really came next has number $y$, the loss is its **surprise**,
#
# $$L = -\log p_y = \log \sum_j e^{z_j} - z_y, \qquad
# \frac{\partial L}{\partial z_j} = p_j - \mathbb{1}[j = y].$$
#
# The gradient follows from the line above by a change of sign. It says: what we predicted minus what happened. It is
# bounded, and it does not vanish while we are confidently wrong, because the logarithm undoes the saturation of the
# softmax.

# %%
scores = mt.tensor(z, requires_grad=True)
loss = F.cross_entropy(scores, mt.tensor(2))
loss.backward()
print("backward:     ", scores.grad)
print("p - one_hot(y):", (p - np.eye(3)[2]).round(4))

# %% [markdown]
# **Perplexity.** The mean surprise over a text of $T$ words is hard to picture, its exponential is not:
#
# $$\text{perplexity} = \exp\Big(-\frac{1}{T} \sum_{t=1}^{T} \log p(\text{word}_t \mid \text{words before})\Big).$$
#
# It is the number of equally likely words among which the model seems to choose. Guessing evenly among $V$ words has
# perplexity $V$; knowing every word in advance has perplexity 1. A single word with probability 0 makes it infinite.

# %%
inputs, targets = mt.tensor([0, 1]), mt.tensor([1, 2])  # "the" -> "cat", "cat" -> "sat"


def sentence_loss(E, W, b, U):
    return F.cross_entropy(mt.tanh(E[inputs] @ W + b) @ U, targets)  # mean over both words


perplexity = mt.exp(sentence_loss(*params64)).item()
guessing = mt.exp(F.cross_entropy(mt.zeros(2, 3), targets)).item()
print(f"perplexity of the model {perplexity:.3f}, of guessing {guessing:.3f}")

# %% [markdown]
# Our model, whose weights nobody has trained, expects "sat" after both words. It is right once and wrong once, and that
# is worse than guessing: a confident mistake costs more than a confident hit gains.
#
# **One-hot times a matrix is an embedding.** The vector of "cat" is row 1 of $E$. We can pick the row, or multiply $E$
# by a **one-hot** vector, 1 at the word's number and 0 elsewhere. Both give the same; picking does not spend
# multiplications on zeros. In the gradient, a row collects the sum over all places where its word stands.

# %%
text = mt.tensor([0, 1, 2, 0])  # the cat sat the
table = mt.tensor(E, requires_grad=True)
by_product = F.one_hot(text, 3).double() @ table  # (4, 3) @ (3, 2)
by_index = F.embedding(text, table)  # (4, 2)
print("equal:", mt.equal(by_product, by_index))
by_index.sum().backward()
print(table.grad)  # "the" stands there twice

# %% [markdown]
# ## 8. Training
#
# One step of **stochastic gradient descent** (SGD) moves each parameter $w$ against its gradient $g$, by a step of size
# $\eta$, the learning rate: $w \leftarrow w - \eta\, g$. Every training loop of the book has the same five lines.

# %% tags=["nbval-ignore-output"]
parameters = [mt.tensor(array, dtype=mt.float32, requires_grad=True) for array in (E, W, b, U)]
optimizer = mt.optim.SGD(parameters, lr=0.5)
progress = tqdm(range(100))
for step in progress:
    optimizer.zero_grad()
    loss = sentence_loss(*parameters)
    loss.backward()
    optimizer.step()
    progress.set_postfix(loss=loss.item())
    if step % 20 == 0:
        print(f"step {step:2}: perplexity {math.exp(loss.item()):.3f}")

# %%
print("perplexity of 'the cat sat' below 1.1:", math.exp(loss.item()) < 1.1)

# %% [markdown]
# The model now knows our sentence by heart. Two refinements of SGD are in daily use.
#
# **Momentum** steps along a running sum of gradients, so that steps which agree add up and steps which disagree cancel:
# $u \leftarrow \mu u + g$, then $w \leftarrow w - \eta u$, with $\mu = 0.9$ as a rule.
#
# **Adam** (Kingma and Ba, 2015) gives each parameter its own step size. It keeps running means of the gradient and of
# its square, corrects both for having started at 0, and divides one by the root of the other. At step $t$:
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1)\, g, \quad v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2, \quad
# w \leftarrow w - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}.$$
#
# Usually $\beta_1 = 0.9$ and $\beta_2 = 0.999$; the tiny $\epsilon$ prevents a division by zero. The size of the gradient
# cancels. In the first step $m / (1 - \beta_1) = g$ and $v / (1 - \beta_2) = g^2$, so each
# parameter moves by $\eta$, however flat or steep the loss is.

# %%
for scale in (0.01, 1.0, 100.0):
    w = mt.tensor([1.0, 1.0], requires_grad=True)
    adam = mt.optim.Adam([w], lr=0.1)
    (scale * (w * mt.tensor([3.0, -5.0])).sum()).backward()
    adam.step()
    print("gradient", w.grad, "after one step", w.data)

# %% [markdown]
# ### Three arms, two optimizers
#
# Now a task that needs hidden layers: points on a spiral with three arms, and the question which arm a point is on. The
# network is a **multi-layer perceptron** (MLP): linear maps with a tanh between them, $2 \to 32 \to 32 \to 3$.


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


mt.manual_seed(0)
points, arms = spiral(200)
new_points, new_arms = spiral(200)  # never trained on


# %%
def train(optimizer_class, rate, seed, steps=200):
    """The trained model, the loss at each step, and the share of new points that are right."""
    mt.manual_seed(seed)
    model = perceptron()
    optimizer = optimizer_class(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        batch = mt.randint(len(points), (64,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(points[batch]), arms[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with mt.no_grad():
        right = (model(new_points).argmax(dim=1) == new_arms).float().mean().item()
    return model, losses, right


# %% [markdown]
# Which optimizer is best? The question has no answer before we say how the learning rate was chosen. So each optimizer
# gets the same care: the same six learning rates, three seeds each. A **seed** fixes the random numbers: the
# initial weights and the order of the batches.

# %%
optimizers = {"SGD": mt.optim.SGD, "Adam": mt.optim.Adam}
rates = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
accuracy = {name: np.zeros((len(rates), 3)) for name in optimizers}  # (rates, seeds)
for i, rate in enumerate(tqdm(rates)):
    for name, optimizer_class in optimizers.items():
        accuracy[name][i] = [train(optimizer_class, rate, seed)[2] for seed in range(3)]

# %% tags=["nbval-ignore-output"]
figure, axes = plot.subplots()
for name, marker in zip(optimizers, "os", strict=True):
    worst, best = accuracy[name].min(axis=1), accuracy[name].max(axis=1)
    plot.spread(axes, rates, accuracy[name].T, marker=marker, label=name)
    spread = [f"{low:.3f}-{high:.3f}" for low, high in zip(worst, best, strict=True)]
    print(f"{name:4}", "  ".join(f"{r}: {text}" for r, text in zip(rates, spread, strict=True)))
axes.set(xscale="log", xlabel="learning rate", ylabel="new points on the right arm")
axes.set_title("Median of three seeds; the band goes from the worst to the best")
axes.legend(loc="lower left")
alt = "Accuracy against learning rate: Adam works at 0.01 to 0.3, plain SGD only around 1."
plot.show(figure, alt)

# %%
sgd, adam, slow, fast = accuracy["SGD"], accuracy["Adam"], rates.index(0.01), rates.index(1.0)
print("at rate 0.01 Adam is ahead in every seed:", adam[slow].min() > sgd[slow].max() + 0.1)
print("at rate 1.0 SGD is ahead in every seed:", sgd[fast].min() > adam[fast].max() + 0.1)

# %% [markdown]
# With a single learning rate we could have "shown" either result. And with a single seed we might have picked a rate
# that works by luck: see how far apart three seeds lie at 3.0. Now each optimizer at its own best rate, the one whose worst seed did best (the smallest
# of them if several tie), with five new seeds. (They are tested on the same new points that chose the rate, which
# flatters both a little. Section 7 of chapter 03 chooses on other examples than it reports on.)

# %%
best_rate = {name: rates[np.argmax(accuracy[name].min(axis=1))] for name in optimizers}
curves, final = {}, {}
for name, optimizer_class in tqdm(optimizers.items()):
    runs = [train(optimizer_class, best_rate[name], seed) for seed in range(10, 15)]
    curves[name] = np.array([losses for _, losses, _ in runs])  # (seeds, steps)
    final[name] = np.array([right for _, _, right in runs])

# %% tags=["nbval-ignore-output"]
figure, axes = plot.subplots()
for name in optimizers:
    smooth = np.apply_along_axis(np.convolve, 1, curves[name], np.ones(10) / 10, "valid")
    middle, spread = smooth.mean(axis=0), smooth.std(axis=0, ddof=1)
    [line] = axes.plot(middle, label=f"{name}, rate {best_rate[name]}")
    band = middle - spread, middle + spread
    axes.fill_between(range(len(middle)), *band, color=line.get_color(), alpha=0.2)
    print(
        f"{name:4} mean loss of 10 steps from 50, 100, 150:",
        [f"{middle[t]:.3f}" for t in (50, 100, 150)],
    )
    print(f"     right {final[name].mean():.3f}, deviation {final[name].std(ddof=1):.3f}")
axes.set(xlabel="step", ylabel="loss", ylim=(0, 1.2))
axes.set_title("Mean of five seeds and ten steps; the band is one standard deviation")
axes.legend()
plot.show(figure, alt="Two falling loss curves with bands over five seeds; both come close to 0.")

# %%
print("every run is right on more than 90 %:", all(right.min() > 0.9 for right in final.values()))

# %% [markdown]
# **How to read a spread.** With $k$ seeds and results $r_1, \dots, r_k$, the standard deviation
# $s = \sqrt{\sum_i (r_i - \bar r)^2 / (k - 1)}$ says how far one run lies from the mean, and $s / \sqrt{k}$ how far the
# mean lies from what infinitely many runs would give. This book is stricter than the second number asks: it calls no
# difference a finding that is smaller than the spread of the runs. An experiment names its seeds, and its conclusion
# must hold for all of them or say how often it does. So which optimizer is best here? Each at its own rate, both get
# nearly all points right; Adam's loss falls sooner, and it works at more of the rates.

# %% tags=["nbval-ignore-output"]
model, _, _ = train(mt.optim.Adam, best_rate["Adam"], seed=10)
axis = mt.linspace(-1.2, 1.2, 120)
grid = mt.stack([axis.repeat(120), axis.reshape(120, 1).expand(120, 120).flatten()], dim=1)
with mt.no_grad():
    region = model(grid).argmax(dim=1).reshape(120, 120)
figure, axes = plot.subplots(width=4.2, height=3.8)
between = [-0.5, 0.5, 1.5, 2.5]  # levels that separate the numbers 0, 1 and 2
axes.contourf(axis, axis, region, levels=between, colors=plot.COLORS[:3], alpha=0.25)
for arm, marker in enumerate("os^"):
    chosen = points[arms == arm].numpy()
    axes.scatter(chosen[:, 0], chosen[:, 1], s=9, marker=marker, label=f"arm {arm}")
axes.set(title="What the network learned", aspect="equal")
axes.grid(False)
axes.legend(loc="upper right", fontsize=8)
shares = [(region == arm).float().mean().item() for arm in range(3)]
print("share of the square given to each arm:", [f"{share:.2f}" for share in shares])
plot.show(figure, alt="Points on three spiral arms, and the spiral regions that the network sees.")

# %% [markdown]
# ## 9. How large should the first weights be?
#
# Before training, weights are random. Let each unit add $n$ inputs with independent weights of mean 0:
# $y = \sum_{i=1}^{n} x_i w_i$. The mixed terms average out, and
#
# $$\operatorname{Var}(y) = n \cdot \operatorname{Var}(w) \cdot \overline{x^2},$$
#
# where $\overline{x^2}$ is the mean square of the inputs. With $\operatorname{Var}(w) = g^2 / n$, one layer multiplies
# the size of the signal (the root of its mean square) by the gain $g$, and $D$ layers by $g^D$. Going backward, the
# gradient passes through $W^\top$ and is multiplied by $g$ as well.


# %%
def sizes(gain, f=lambda x: x, depth=30, n=256):
    """The signal's size after each of the layers h <- f(h W), and its gradient's at the input."""
    mt.manual_seed(0)
    x = h = mt.randn(64, n, requires_grad=True)  # (64, n)
    result = []
    for _ in range(depth):
        h = f(h @ (mt.randn(n, n) * gain / math.sqrt(n)))
        result.append((h**2).mean().sqrt().item())
    h.backward(mt.randn(64, n))
    return result, (x.grad**2).mean().sqrt().item()


figure, (left, right) = plot.subplots(1, 2, width=8, sharey=True)
identity = [("no function", lambda x: x, gain) for gain in (0.8, 1.0, 1.25)]
others = [("tanh", mt.tanh, gain) for gain in (1.0, 5 / 3)]
others += [("relu", mt.relu, gain) for gain in (1.0, 2**0.5)]
for axes, settings in [(left, identity), (right, others)]:
    for name, f, gain in settings:
        forward, backward = sizes(gain, f)
        axes.plot(range(1, 31), forward, label=f"{name}, gain {gain:.3g}")
        print(f"{name:11} gain {gain:.3f}: forward {forward[-1]:9.3g}, backward {backward:9.3g}")
    axes.set(xlabel="layer", yscale="log")
    axes.legend(fontsize=8)
left.set(ylabel="size of the signal", title="Linear layers: size is gain to the depth")
right.set_title("Each function has its own gain")
plot.show(
    figure,
    alt="Signal size against depth. Left: level for linear layers with gain 1, falling or growing else. "
    "Right: tanh and relu fall with gain 1 and stay nearly level with their own gains.",
)

# %% [markdown]
# A gain that is off by a quarter changes the size about a thousandfold in 30 layers. Tanh shrinks what it gets, relu drops half of it;
# gains of 5/3 and $\sqrt{2}$ make up for that (He et al., 2015, for relu; for tanh the signal stays level, while its
# gradient still grows a little at each layer, over tenfold in all). The functions in `nn.init` know these gains.
# `nn.Linear` starts as PyTorch's does, from $U(-1/\sqrt{n}, 1/\sqrt{n})$, which has variance $1/(3n)$: a gain of only
# 0.58. That is fine for three layers and not for thirty. (Chapter 09 has a better cure than careful gains.)

# %% [markdown]
# ## 10. The same matrix again and again
#
# A recurrent network multiplies its state by the *same* matrix $W \in \mathbb{R}^{n \times n}$ at each step, and its
# gradient by the same $W^\top$. If $x$ is an eigenvector, $xW = \lambda x$, then $xW^t = \lambda^t x$. For almost any
# other start, the eigenvalue with the largest absolute value wins in the end. That absolute value is the **spectral
# radius** $\rho(W) = \max_i |\lambda_i|$. With the matrix norm $\lVert W \rVert$, the factor by which $W$ stretches the
# vector that it stretches most,
#
# $$\lVert W^t \rVert^{1/t} \to \rho(W) \quad \text{as } t \to \infty.$$

# %%
mt.manual_seed(1)
W_random = mt.randn(64, 64, dtype=mt.float64).numpy()
W_random /= np.abs(np.linalg.eigvals(W_random)).max()  # now its spectral radius is 1
for t in (1, 10, 100, 1000):
    norm = np.linalg.norm(np.linalg.matrix_power(W_random, t), 2)
    print(f"t = {t:4}: norm of W^t {norm:.3f}, its t-th root {norm ** (1 / t):.3f}")

# %%
matrices = {f"radius {rho}": rho * W_random for rho in (0.9, 1.0, 1.1)}
matrices["radius 0.9, 2 x 2"] = np.array([[0.9, 5.0], [0.0, 0.9]])
figure, (left, right) = plot.subplots(1, 2, width=8, height=3, width_ratios=[2, 3])
eigenvalues = np.linalg.eigvals(W_random)
left.scatter(eigenvalues.real, eigenvalues.imag, s=14)
left.add_patch(plt.Circle((0, 0), 1, fill=False))
left.set(aspect="equal", xlabel="real part", ylabel="imaginary part", title="Eigenvalues, radius 1")
for name, matrix in matrices.items():
    powers = [np.linalg.norm(np.linalg.matrix_power(matrix, t), 2) for t in range(101)]
    right.plot(powers, label=name)
    print(f"{name:18}", "  ".join(f"t={t}: {powers[t]:.4g}" for t in (0, 1, 10, 50, 100)))
right.set(yscale="log", xlabel="t", title="Norm of W to the power t")
right.legend(fontsize=8)
plot.show(
    figure, alt="Eigenvalues in a circle; norms of powers fall for radius 0.9 and grow for 1.1."
)

# %% [markdown]
# Radius 0.9 dies, radius 1.1 explodes, and only near 1 does a signal last. This is chapter 01's trouble in one picture.
# The last line is a warning: a matrix of radius 0.9 whose powers first grow twentyfold. The radius tells the end of the
# story, the largest stretch (the norm at $t = 1$) tells the first step. Between two steps an RNN also applies tanh,
# whose slope $1 - h^2$ is at most 1, so that it can only shrink the gradient.

# %% [markdown]
# ## 11. Rank: how many directions get through
#
# A matrix $A \in \mathbb{R}^{d \times r}$ followed by $B \in \mathbb{R}^{r \times d}$ squeezes everything through $r$
# numbers. The product $AB$ is a $d \times d$ matrix of **rank** at most $r$: its rows span only $r$ directions. It has
# $2dr$ parameters instead of $d^2$.

# %%
mt.manual_seed(2)
d, r = 64, 8
A, B = mt.randn(d, r, dtype=mt.float64).numpy(), mt.randn(r, d, dtype=mt.float64).numpy()
print("rank of A B:", np.linalg.matrix_rank(A @ B), "of", d)
print("parameters:", A.size + B.size, "instead of", d * d)

# %% [markdown]
# In the other direction, the singular value decomposition $M = S \operatorname{diag}(\sigma)\, T$ writes any matrix
# as a sum of rank-1 parts with weights $\sigma_1 \ge \sigma_2 \ge \dots$, and keeping the $r$ largest is the best
# approximation of rank $r$ (Eckart and Young, 1936). What is left out is exactly what is lost.

# %%
M = A @ B + 0.1 * mt.randn(d, d, dtype=mt.float64).numpy()
S, sigma, T = np.linalg.svd(M)
best = (S[:, :r] * sigma[:r]) @ T[:r]
lost, left_out = np.linalg.norm(M - best), np.linalg.norm(sigma[r:])
print(f"lost {lost:.4f}, left out {left_out:.4f}, the whole {np.linalg.norm(M):.4f}")

# %% [markdown]
# Chapter 04 scores queries against keys with such a thin product, chapter 12 makes attention cheap with one.

# %% [markdown]
# ## 12. Rotations: position as an angle
#
# In the plane, the matrix
#
# $$R(\theta) = \begin{pmatrix} \cos\theta & \sin\theta \\ -\sin\theta & \cos\theta \end{pmatrix}$$
#
# turns a row vector $x$ into $xR(\theta)$, by the angle $\theta$ to the left. Rotations keep all lengths
# ($R R^\top = I$), so no product of them can vanish or explode. And they add up: $R(\alpha) R(\beta) = R(\alpha +
# \beta)$, $R(\beta)^\top = R(-\beta)$. Hence, for two vectors $q, k \in \mathbb{R}^2$ turned by $m\theta$ and $n\theta$,
#
# $$\big(q R(m\theta)\big) \cdot \big(k R(n\theta)\big) = q\, R(m\theta) R(n\theta)^\top k^\top = q\, R((m - n)\theta)\, k^\top.$$
#
# The product depends on the *difference* $m - n$ alone. If the positions of two words are turned into angles, their
# score knows how far apart they are. This is rotary position encoding (chapter 08); for $d > 2$ it turns each pair of
# coordinates by its own angle.


# %%
def rotation(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, s], [-s, c]])


theta = 0.35
q, k = E[words.index("cat")], E[words.index("sat")]
turned_q = np.array([q @ rotation(m * theta) for m in range(8)])  # (8, 2)
turned_k = np.array([k @ rotation(n * theta) for n in range(8)])
products = turned_q @ turned_k.T  # (8, 8)
print("lengths of q:", np.linalg.norm(turned_q, axis=1).round(4))
print("positions (0, 2), (1, 3), (5, 7):", products[[0, 1, 5], [2, 3, 7]].round(4))
same = [np.ptp(np.diag(products, i)) < 1e-12 for i in range(-7, 8)]
print("constant on every diagonal:", all(same))

# %%
figure, (left, right) = plot.subplots(1, 2, width=8, height=3.4)
for name, vectors, color in [("cat", turned_q, "#0072B2"), ("sat", turned_k, "#D55E00")]:
    for m, vector in enumerate(vectors):
        arrow = dict(arrowstyle="->", color=color, alpha=1 - m / 10)
        left.annotate("", vector, (0, 0), arrowprops=arrow)
        left.text(*(1.12 * vector), m, color=color, ha="center", va="center", fontsize=8)
    left.plot([], [], color=color, linestyle="-", label=name)
left.set(xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal", title="Turned by the position's angle")
left.legend(loc="lower right", fontsize=8)
plot.heatmap(right, products)
right.set(xlabel="position of k", ylabel="position of q", title="Dot products")
print(products[0].round(3))
plot.show(figure, alt="Arrows turned step by step; a table of dot products with equal diagonals.")

# %% [markdown]
# ## 13. Counting the cost
#
# Seconds depend on the machine; operations can be counted. To multiply $(n, k)$ by $(k, m)$ takes $nm$ sums of $k$
# products, that is $2nkm$ floating-point operations (**FLOPs**): one multiplication and one addition each. In a network,
# matrix products outweigh everything else.
#
# Backward, each product needs two of the same size, $G W^\top$ and $X^\top G$. So with $P$ weights, one example costs
# about $2P$ forward, $4P$ backward, $6P$ together. (The input of the first layer needs no gradient, which saves a
# little.)


# %%
def matmul_flops(n, k, m):
    return 2 * n * k * m


weights = [layer.weight for layer in perceptron() if isinstance(layer, nn.Linear)]  # (out, in)
forward = sum(matmul_flops(1, inputs, outputs) for outputs, inputs in (w.shape for w in weights))
P = sum(w.numel() for w in weights)
print(f"the perceptron: P = {P} weights, {forward} FLOPs forward, that is {forward // P} P")
print(f"with backward about {3 * forward} an example")
print(f"the runs of section 8: {(6 * 2 * 3 + 2 * 5) * 200 * 64 * 6 * P:.2e} FLOPs")

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

figure, axes = plot.subplots(width=5.5)
axes.loglog(lengths, projection, marker="o", label="projection, 2 n d d")
axes.loglog(lengths, pairs, marker="s", label="all pairs, 2 n n d")
axes.set(xlabel="length n", ylabel="FLOPs", title=f"The lines cross at n = d = {d}")
axes.legend()
plot.show(figure, alt="FLOPs against length: all pairs rise twice as steeply and cross at 128.")

# %% [markdown]
# Counts are not times. A small product is dominated by the cost of calling it, a large one by how well it uses the
# memory. On this machine:

# %% tags=["nbval-ignore-output"]
from time import perf_counter

for n in (8, 32, 128, 512):
    X = mt.randn(n, n)
    repeats = max(3, 10**7 // n**3)
    start = perf_counter()
    for _ in range(repeats):
        X @ X
    seconds = (perf_counter() - start) / repeats
    speed = matmul_flops(n, n, n) / seconds / 1e9
    print(f"n = {n:3}: {1e6 * seconds:9.1f} microseconds, {speed:6.1f} billion FLOPs a second")

# %% [markdown]
# ## Summary
#
# - A gradient is computed by walking the graph of the computation backward. Each step hands on a vector-Jacobian product,
#   and a value that was used twice gets the sum. The engine that does this has fewer than 100 lines.
# - Broadcasting repeats values, so its gradient sums. Gradients accumulate until they are zeroed. `gradcheck` in 64 bits
#   finds wrong ones.
# - The gradient of cross-entropy after softmax is $p - \text{one-hot}(y)$. Perplexity is the exponential of the mean
#   loss. An embedding is a one-hot product done cheaply.
# - A comparison needs a learning rate chosen with equal care on both sides, several seeds, and their spread.
# - In a product of many factors, sizes go with the gain or the spectral radius to the power of the depth. Rotations keep
#   sizes, and turn positions into differences.
# - $(n, k)$ times $(k, m)$ costs $2nkm$ FLOPs; training costs about $6P$ an example.
#
# **Exercises:** [the set of this chapter](../exercises/00_tensors_and_autograd/00_tensors_and_autograd.ipynb). You write
# parts of the engine, softmax, cross-entropy and more, and are told which mistake a wrong answer looks like.
#
# **Where to read on.** Baydin, Pearlmutter, Radul and Siskind (2018), *Automatic differentiation in machine learning: a
# survey*. Griewank and Walther (2008), *Evaluating derivatives*. Rumelhart, Hinton and Williams (1986) on
# backpropagation. Glorot and Bengio (2010) and He et al. (2015) on initialization. Kingma and Ba (2015) on Adam. Kaplan
# et al. (2020) for the rule $6P$.
#
# Next: [chapter 01](01_rnn.ipynb), where one matrix is applied at each word of a text.
