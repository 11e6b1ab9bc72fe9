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
# **Time:** about two hours with the code; to run everything takes less than a minute. **Prerequisites:** Python with
# functions and classes, NumPy arrays, the derivative of a function of one variable, the product of matrices.
# **Symbols** are listed on one page, [the book's notation](../docs/notation.md).
#
# **If a cell fails,** most often a cell above it was not run, or was changed. Choose *Run > Restart Kernel and Run All
# Cells*. If it fails again, rename your copy of this notebook: the next `python book.py lab` gives you a fresh one.

# %%
import inspect
import math

import matplotlib.pyplot as plt
import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import plot

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
E = np.array([[0.3, 1.0], [1.0, -0.5], [-0.7, 0.6]])  # (3, 2): one row a word
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
# in $L = e \cdot e$, each factor contributes $e$, together $2e$. And a value may pass its gradient on only when all of
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
places = {"x1": (0, 4), "w1": (0, 3), "w2": (0, 2), "x2": (0, 1), "b": (0, 0), "p1": (1, 3.5)}
places |= {
    "L": (6, 1.5),
    "p2": (1, 1.5),
    "s": (2, 2.5),
    "a": (3, 1.5),
    "h": (4, 1.5),
    "e": (5, 1.5),
}
names = {value: name for name, value in v.items()}
figure, axes = plot.subplots(width=9.5, height=3.6)
for name, (column, row) in places.items():
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
# How long is our engine? We count the lines of both classes and the two functions that are not blank.


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
# A `Tensor` is such an array. By default its numbers are 32-bit floats, which are half as large and about twice as fast
# as NumPy's 64-bit ones; whole numbers are `int64`. A tensor that is made with `requires_grad=True` is a leaf of the
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
# Four habits to learn now, because they cause most of the puzzles later.
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
print(
    f"loss before the step {loss.item():.4f}, after {stepped.item():.4f}; recorded: {stepped.requires_grad}"
)
print("after detach:", (W_t * 2).detach().requires_grad)

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
    return F.cross_entropy(h @ U, mt.tensor([2])) + 0 * (E.sum() + W.sum() + b.sum())


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
