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
# # Exercises 00: tensors and autograd
#
# Ten exercises on [chapter 00](../../notebooks/00_tensors_and_autograd.ipynb), from easy to hard, 30 points, about
# three hours. Each stands by itself: do them in any order, and leave out what you like.
#
# Replace `raise NotImplementedError` by your answer, run the cell, then run the check below it. The check runs your
# function on many inputs. When an answer is wrong, it names the mistake if it is a usual one; otherwise it shows the
# smallest input on which you differ. "Public checks" are what you see here; graders run the same checks with other
# numbers.
#
# An exercise may forbid some of the library's functions, because they are what you are to write. All else is allowed.
# Leave the arguments of your functions as they are: no in-place changes.

# %%
import math

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks import chapter_00 as check
from textbook.checks import progress

progress.show("00")

# %% [markdown]
# ## 1. Softmax
#
# *Goal: turn scores into probabilities without overflow. Easy, 10 minutes, 2 points.*
#
# `scores` has shape $(\dots, V)$. Return $p$ of the same shape, with $p_i = e^{z_i} / \sum_j e^{z_j}$ along the last
# axis. Scores may be as large as 1000 and differ from row to row.
#
# Forbidden: the library's softmax, in all its forms, and what is made with it or makes it: `log_softmax`, `logsumexp`,
# `cross_entropy`.


# %% solution="softmax"
def softmax(scores):
    """The softmax along the last axis: (..., V) -> (..., V)."""
    ### BEGIN SOLUTION
    powers = mt.exp(scores - scores.amax(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %% tests="softmax" points=2
check.softmax(softmax)
### BEGIN HIDDEN TESTS
check.softmax(softmax, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Perplexity
#
# *Goal: measure a language model. Easy, 10 minutes, 2 points.*
#
# Row $t$ of `scores`, of shape $(T, V)$, holds a model's scores for word $t$ of a text. `targets`, of shape $(T)$,
# holds the numbers of the words that came. Return the perplexity
# $\exp\big(-\frac{1}{T} \sum_t \log p_{t, \text{targets}_t}\big)$ as a number. Texts may be long.
#
# Forbidden: `cross_entropy`. Allowed: `F.log_softmax`.


# %% solution="perplexity"
def perplexity(scores, targets):
    """(T, V) scores and (T) words -> a number."""
    ### BEGIN SOLUTION
    log_p = F.log_softmax(scores, dim=-1)  # (T, V)
    log_p_of_targets = log_p.gather(1, targets.unsqueeze(1))  # (T, 1)
    return math.exp(-log_p_of_targets.mean().item())
    ### END SOLUTION


# %% tests="perplexity" points=2
check.perplexity(perplexity)
### BEGIN HIDDEN TESTS
check.perplexity(perplexity, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The cost of a training step
#
# *Goal: count FLOPs. Easy, 10 minutes, 2 points.*
#
# A multi-layer perceptron has layers of the widths in the list `sizes`: `[2, 32, 3]` is one matrix from 2 to 32 and one
# from 32 to 3. How many FLOPs do the matrix products of one training step take, on a batch of `batch` examples? Count
# the product of each layer forward; backward, the product for the gradient of each weight, and the one for the gradient
# of each layer's input, except the first layer's: nobody needs the gradient of the data. Leave out biases and
# activations.


# %% solution="training_flops"
def training_flops(sizes, batch):
    """A list of widths and the number of examples -> the number of FLOPs."""
    ### BEGIN SOLUTION
    forward = [2 * batch * n * m for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    return 3 * sum(forward) - forward[0]
    ### END SOLUTION


# %% tests="training_flops" points=2
check.training_flops(training_flops)
### BEGIN HIDDEN TESTS
check.training_flops(training_flops, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Rotating pairs
#
# *Goal: turn vectors, as rotary position codes will in chapter 08. Medium, 15 minutes, 3 points.*
#
# `x` has shape $(\dots, d)$ with $d$ even, `angles` has shape $(d/2)$. Turn each pair of neighbors $(x_{2j}, x_{2j+1})$
# by the angle $\theta_j$ = `angles[j]`, in the book's convention for row vectors:
#
# $$(x_{2j},\; x_{2j+1}) \begin{pmatrix} \cos\theta_j & \sin\theta_j \\ -\sin\theta_j & \cos\theta_j \end{pmatrix}.$$


# %% solution="rotate_pairs"
def rotate_pairs(x, angles):
    """(..., d) vectors and (d / 2) angles -> (..., d)."""
    ### BEGIN SOLUTION
    cos, sin = mt.cos(angles), mt.sin(angles)  # (d / 2)
    first, second = x[..., 0::2], x[..., 1::2]  # (..., d / 2)
    turned = [first * cos - second * sin, first * sin + second * cos]
    return mt.stack(turned, dim=-1).reshape(x.shape)  # (..., d / 2, 2) -> (..., d)
    ### END SOLUTION


# %% tests="rotate_pairs" points=3
check.rotate_pairs(rotate_pairs)
### BEGIN HIDDEN TESTS
check.rotate_pairs(rotate_pairs, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The gradient of the cross-entropy
#
# *Goal: the gradient that trains every model of this book. Medium, 15 minutes, 3 points.*
#
# `scores` has shape $(N, V)$ and `targets` shape $(N)$. The loss is the mean of $-\log p_{n, \text{targets}_n}$ over
# the $N$ rows, where $p$ is the softmax of the scores. Return its gradient with respect to the scores, of shape
# $(N, V)$, by formula.
#
# Forbidden: `backward`, `cross_entropy`, `log_softmax`. Allowed: `F.softmax`, `F.one_hot`.


# %% solution="cross_entropy_gradient"
def cross_entropy_gradient(scores, targets):
    """(N, V) scores and (N) targets -> (N, V)."""
    ### BEGIN SOLUTION
    N, V = scores.shape
    return (F.softmax(scores, dim=-1) - F.one_hot(targets, V)) / N
    ### END SOLUTION


# %% tests="cross_entropy_gradient" points=3
check.cross_entropy_gradient(cross_entropy_gradient)
### BEGIN HIDDEN TESTS
check.cross_entropy_gradient(cross_entropy_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. The gradients of an affine map
#
# *Goal: send a gradient back through a layer. Medium, 20 minutes, 3 points.*
#
# A layer computes $y = xW + b$ with `x` of shape $(\dots, k)$, `weight` of shape $(k, m)$ and a bias of shape $(m)$.
# `g`, of shape $(\dots, m)$, is the gradient of the loss with respect to $y$. Return the gradients with respect to
# $x$, $W$ and $b$, as a tuple of three. The leading axes may be one, $(n, k)$, or several, $(B, T, k)$.
#
# Forbidden: `backward`.


# %% solution="affine_gradients"
def affine_gradients(x, weight, g):
    """(..., k), (k, m), (..., m) -> gradients of shape (..., k), (k, m) and (m)."""
    ### BEGIN SOLUTION
    k, m = weight.shape
    rows, row_gradients = x.reshape(-1, k), g.reshape(-1, m)  # all leading axes as one
    return g @ weight.T, rows.T @ row_gradients, row_gradients.sum(dim=0)
    ### END SOLUTION


# %% tests="affine_gradients" points=3
check.affine_gradients(affine_gradients)
### BEGIN HIDDEN TESTS
check.affine_gradients(affine_gradients, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Finite differences
#
# *Goal: check gradients that you do not trust. Medium, 20 minutes, 3 points.*
#
# `function` takes a tensor and returns a tensor with one element. Return a tensor of the shape of `x` with the central
# difference of step `eps` for each element: the value of the function with that element raised by `eps`, minus its
# value with that element lowered by `eps`, divided by twice `eps`. `x` may have any shape; work on a copy,
# `x.clone()`.
#
# Forbidden: `backward`.


# %% solution="numerical_gradient"
def numerical_gradient(function, x, eps):
    """A function of a tensor, the tensor, the step -> a tensor of the shape of x."""
    ### BEGIN SOLUTION
    moved = x.clone().reshape(-1)
    slopes = []
    for i in range(len(moved)):
        kept = moved[i].item()
        moved[i] = kept + eps
        above = function(moved.reshape(x.shape)).item()
        moved[i] = kept - eps
        below = function(moved.reshape(x.shape)).item()
        moved[i] = kept
        slopes.append((above - below) / (2 * eps))
    return mt.tensor(slopes, dtype=x.dtype).reshape(x.shape)
    ### END SOLUTION


# %% tests="numerical_gradient" points=3
check.numerical_gradient(numerical_gradient)
### BEGIN HIDDEN TESTS
check.numerical_gradient(numerical_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The spectral radius
#
# *Goal: find out what a matrix does when it is applied again and again. Medium, 15 minutes, 3 points.*
#
# Estimate the spectral radius of `matrix`, of shape $(n, n)$, by **power iteration**. Start with a row vector $v$ of $n$
# ones. In each of `steps` steps (at least two), divide $v$ by its length, then multiply it by the matrix: $v \leftarrow
# v W$. The length of this product is the *factor* of the step, by which it stretched a vector of length 1.
#
# Return the **geometric mean of the factors of the second half** of the steps: leave out the first `steps // 2`
# factors, and of the $m$ others return $(f_1 f_2 \cdots f_m)^{1/m} = \exp\big(\frac1m \sum_i \log f_i\big)$. The first
# steps are far from what $v$ becomes. And no single factor will do, not even the last one: where the largest
# eigenvalues are two complex ones, as is usual for a random matrix, $v$ goes on turning, and the factor swings for ever.


# %% solution="spectral_radius"
def spectral_radius(matrix, steps):
    """(n, n) and the number of steps -> a number."""
    ### BEGIN SOLUTION
    v, logs = mt.ones(len(matrix), dtype=matrix.dtype), []
    for _ in range(steps):
        v = (v / v.norm()) @ matrix
        logs.append(math.log(v.norm().item()))
    second_half = logs[steps // 2 :]
    return math.exp(sum(second_half) / len(second_half))
    ### END SOLUTION


# %% tests="spectral_radius" points=3
check.spectral_radius(spectral_radius)
### BEGIN HIDDEN TESTS
check.spectral_radius(spectral_radius, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. A step of Adam
#
# *Goal: write the optimizer that trains most models. Medium, 15 minutes, 3 points.*
#
# `w` are parameters, `g` their gradient, `m` and `v` the running means before this step; all have one shape. `t` is
# the number of this step, counted from 1. Return the new `w`, `m`, `v`, a tuple of three:
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1)\, g, \quad v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2, \quad
# w \leftarrow w - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}.$$


# %% solution="adam_step"
def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    """The parameters and both running means after step t."""
    ### BEGIN SOLUTION
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    corrected_m, corrected_v = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - lr * corrected_m / (corrected_v.sqrt() + eps), m, v
    ### END SOLUTION


# %% tests="adam_step" points=3
check.adam_step(adam_step)
### BEGIN HIDDEN TESTS
check.adam_step(adam_step, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. An engine
#
# *Goal: write a reverse-mode engine alone. Hard, 40 minutes, 6 points.*
#
# Write the class `Value`: a number, in `data`, with its gradient, in `grad`, that remembers how it was computed.
#
# - `Value(3.0)` is a number of its own; its `grad` starts at 0.
# - `a + b`, `a - b`, `a * b`, `a / b` of two values and `a.exp()` return new values.
# - `result.backward()` sets the `grad` of `result` to 1, and the `grad` of every value that it was computed from to the
#   derivative of `result` with respect to that value.
#
# A value may be used many times, along many paths, and a program may have thousands of steps, more than Python lets a
# function call itself. Plain Python numbers are enough. `parents` and `slopes` are a suggestion: `__init__` may take and
# keep whatever you need beside `data`.


# %% solution="Value"
class Value:
    """A number that remembers how it was computed."""

    def __init__(self, data, parents=(), slopes=()):
        ### BEGIN SOLUTION
        self.data = data
        self.grad = 0.0
        self.parents = parents
        self.slopes = slopes  # d self / d parent, one a parent
        ### END SOLUTION

    def __add__(self, other):
        ### BEGIN SOLUTION
        return Value(self.data + other.data, (self, other), (1.0, 1.0))
        ### END SOLUTION

    def __sub__(self, other):
        ### BEGIN SOLUTION
        return Value(self.data - other.data, (self, other), (1.0, -1.0))
        ### END SOLUTION

    def __mul__(self, other):
        ### BEGIN SOLUTION
        return Value(self.data * other.data, (self, other), (other.data, self.data))
        ### END SOLUTION

    def __truediv__(self, other):
        ### BEGIN SOLUTION
        quotient = self.data / other.data
        return Value(quotient, (self, other), (1 / other.data, -quotient / other.data))
        ### END SOLUTION

    def exp(self):
        ### BEGIN SOLUTION
        power = math.exp(self.data)
        return Value(power, (self,), (power,))
        ### END SOLUTION

    def backward(self):
        ### BEGIN SOLUTION
        order, done, stack = [], set(), [self]  # order: parents before children
        while stack:
            node = stack[-1]
            missing = [parent for parent in node.parents if parent not in done]
            if missing:
                stack.extend(missing)
            elif stack.pop() not in done:
                done.add(node)
                order.append(node)
        self.grad = 1.0
        for node in reversed(order):
            for parent, slope in zip(node.parents, node.slopes, strict=True):
                parent.grad += node.grad * slope
        ### END SOLUTION


# %% tests="Value" points=6
check.Value(Value)
### BEGIN HIDDEN TESTS
check.Value(Value, hidden=True)
### END HIDDEN TESTS
