# %% [markdown]
# # Exercises 09: feed-forward network, norm and residual connection
#
# Ten exercises, 40 points, about five hours. The **core** (1, 2, 4, 9) takes 90 minutes. They belong
# to [chapter 09](../../notebooks/09_feed_forward_norm_residual.ipynb).
#
# **How it works.** Replace `raise NotImplementedError`, run the cell, then its check. [The rules](../../docs/exercises.md).
# In exercises 1 and 2 the gradients of your results are compared, too: no `.item()`, no NumPy, no `.detach()` of what is returned.
#
# **Shapes.** $B$ sequences, $n$ tokens, $d$ features of a token (`width` of a module). $(\ldots, d)$ may have any axes in front.

# %%
import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks import chapter_09 as check
from textbook.checks import progress

progress.show("09")

# %% [markdown]
# ## 1. Layer norm of large numbers
#
# *Core · easy · 25 minutes · 4 points*
#
# Bring each token back to mean 0 and variance 1, even where its squares overflow:
#
# $$y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad \mu = \frac1d \sum_j x_j, \qquad \sigma^2 = \frac1d \sum_j (x_j - \mu)^2 .$$
#
# ```pycon
# >>> huge = mt.tensor([[1.0, 3.0], [1e200, 3e200]], dtype=mt.float64)
# >>> layer_norm(huge, mt.ones(2), mt.zeros(2), eps=0.0).tolist()  # mean 2, variance 1
# [[-1.0, 1.0], [-1.0, 1.0]]
# ```
#
# - `x` is $(\ldots, d)$, `gain` $\gamma$ and `bias` $\beta$ are $(d)$, `eps` is $\epsilon$.
# - Features may be $10^{200}$, in float64: their sums do not overflow, **their squares do**. Other tokens have usual sizes.
# - All features of a token may be equal, with $\epsilon > 0$.
#
# *Not allowed*: `F.layer_norm` and `nn.LayerNorm` (the operation `layer_norm`).
#
# <details><summary>First hint</summary>
#
# Divide a token's differences by a number: what becomes of the fraction?
#
# </details>
# <details><summary>Second hint</summary>
#
# By the largest of them, at least 1. Then $\epsilon$ is divided by its square, in two steps.
#
# </details>


# %% solution="layer_norm"

# %% tests="layer_norm" points=4
check.layer_norm(layer_norm)
### BEGIN HIDDEN TESTS
# (1, 3) has the mean 2 and the variance 1: it becomes (-1, 1). Differences divided by c have a variance
# that is divided by c squared. If eps is divided by c squared as well, the quotient stays as it is.
check.layer_norm(layer_norm, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. A gated feed-forward network
#
# *Core · easy · 15 minutes · 3 points*
#
# Write the network that most large language models have today (Shazeer, 2020):
#
# $$\operatorname{FFN}(x) = \big(\operatorname{SiLU}(x W_g) \odot x W_u\big)\, W_d, \qquad \operatorname{SiLU}(z) = z \cdot \operatorname{sigmoid}(z) .$$
#
# ```pycon
# >>> network = FeedForward(width=4, hidden=6)
# >>> [tuple(weight.shape) for weight in network.parameters()], network(mt.randn(2, 3, 4)).shape
# ([(6, 4), (6, 4), (4, 6)], minitorch.Size([2, 3, 4]))
# ```
#
# - `__init__` makes three `nn.Linear` **without** biases: `self.gate` ($W_g$), `self.up` ($W_u$), `self.down` ($W_d$).
# - `forward` takes and returns $(\ldots, n, \text{width})$. No residual connection, norm or dropout in here.
#
# Which `hidden` gives as many weights as two matrices of hidden size $4d$?
#
# <details><summary>First hint</summary>
#
# `F.silu` is there.
#
# </details>
# <details><summary>Second hint</summary>
#
# Only the gate goes through SiLU.
#
# </details>


# %% solution="FeedForward"

# %% tests="FeedForward" points=3
check.FeedForward(FeedForward)
### BEGIN HIDDEN TESTS
# Three matrices d times hidden against two of d times 4d: hidden is 8d/3.
check.FeedForward(FeedForward, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then add
#
# *Practice · medium · 25 minutes · 4 points*
#
# What is left of a token after many sums? A vector's *size* is the root of its mean square.
#
# ```pycon
# >>> found = shares_of_a_sum(parts=3, a=1.0)
# >>> found["size of the sum, pre-norm"], found["input, pre-norm"]
# (2.0, 0.5)
# ```
#
# An input of size 1 passes `parts` parts. Each gives a vector of size `a`, independent of all before it, so **squares of sizes add up**.
#
# - Pre-norm adds each part to the sum. Post-norm then divides each sum by its size.
# - A *share* is a contribution's size in the result, after all divisions, divided by the result's size.
#
# Return a dict: `"size of the sum, pre-norm"`, and the shares `"input, pre-norm"`, `"last part, pre-norm"`,
# `"input, post-norm"`, `"last part, post-norm"`.
#
# Guess for 24 parts, $a = 1$: which keeps more of the input?
#
# <details><summary>First hint</summary>
#
# In pre-norm the square of the size is $1 + a^2 + a^2 + \dots$
#
# </details>
# <details><summary>Second hint</summary>
#
# In post-norm each norm divides everything by $\sqrt{1 + a^2}$.
#
# </details>


# %% solution="shares_of_a_sum"

# %% tests="shares_of_a_sum" points=4
check.shares_of_a_sum(shares_of_a_sum)
parts, a, d = 24, 1.0, 100_000
predicted = shares_of_a_sum(parts, a)
mt.manual_seed(0)
start, before = mt.randn(d), 0.0
pre, post = start, start
for _ in range(parts):
    added = a * mt.randn(d)
    pre, post = pre + added, (post + added) / (post + added).std()
measured = {
    "size of the sum, pre-norm": pre.std(),
    "input, pre-norm": (pre * start).mean() / pre.std(),
    "last part, pre-norm": (pre * added).mean() / a / pre.std(),
    "input, post-norm": (post * start).mean(),
    "last part, post-norm": (post * added).mean() / a,
}
for name, value in measured.items():
    print(f"{name:26} predicted {predicted[name]:.3f}, drawn {value.item():.2f}")
### BEGIN HIDDEN TESTS
# In pre-norm a fifth of the input is left and the last part adds a fifth as well: late parts change less and
# less. In post-norm each part has the share 0.71, and of the input 0.0002 is left.
check.shares_of_a_sum(shares_of_a_sum, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Paths through a stack
#
# *Core · medium · 25 minutes · 4 points*
#
# A stack with residual connections is a sum of paths.
#
# ```pycon
# >>> two, three = mt.tensor([[[2.0]]]), mt.tensor([[[3.0]]])
# >>> [A.item() for A, _ in paths([two, three], [mt.eye(1), mt.eye(1)])]  # past both, 1 alone, 2 alone, both
# [1.0, 2.0, 3.0, 6.0]
# ```
#
# Take $L$ attention layers with one head and fixed weights. Layer $l$ makes $X + A_l X V_l$ of $X$ $(B, n, d)$. Multiplied out, the output is a sum of $2^L$ terms $A X V$.
# Return the list of their pairs, $A$ $(B, n, n)$ and $V$ $(d, d)$.
#
# - `weights` is the list of $A_1, \dots, A_L$, `values` that of $V_1, \dots, V_L$, the first layer first.
# - Path $k = 0, \dots, 2^L - 1$ goes through layer $l$ if bit $l - 1$ of $k$ is 1, else past it. Path 0 is two identities.
#
# How many of the paths of 12 layers go through more than half of them?
#
# <details><summary>First hint</summary>
#
# One layer more splits each path into two. In which order are they listed?
#
# </details>
# <details><summary>Second hint</summary>
#
# Through layer $l$, the pair $(A, V)$ becomes $(A_l A, V V_l)$.
#
# </details>


# %% solution="paths"

# %% tests="paths" points=4
check.paths(paths)
### BEGIN HIDDEN TESTS
# Each set of layers is a path, so as many go through at least seven of twelve as through at most five:
# 1,586 of 4,096, 39 %. Without residual connections there is one path, through all twelve.
check.paths(paths, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A batch norm that knows of padding
#
# *Practice · medium · 20 minutes · 4 points*
#
# Take the statistics of batch norm over real tokens alone.
#
# ```pycon
# >>> x, real = mt.tensor([[[1.0], [mt.nan]], [[3.0], [mt.inf]]]), mt.tensor([[True, False], [True, False]])
# >>> batch_statistics(x, real)
# (tensor([2.]), tensor([1.]))
# ```
#
# Return two tensors $(d)$, over the real tokens of all sequences: each feature's mean, and the mean of its squared differences from that.
#
# - `x` is $(B, n, d)$, `real` $(B, n)$ True at real tokens. These stand anywhere; a sequence may have none, the batch has one.
# - Padding may hold anything, also infinity or NaN.
#
# <details><summary>First hint</summary>
#
# Zero times NaN is NaN. How to take only some rows?
#
# </details>
# <details><summary>Second hint</summary>
#
# `x[real]` is (number of real tokens, $d$).
#
# </details>


# %% solution="batch_statistics"

# %% tests="batch_statistics" points=4
check.batch_statistics(batch_statistics)
### BEGIN HIDDEN TESTS
check.batch_statistics(batch_statistics, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Find out
#
# *Practice · open · 60 minutes · 4 points*
#
# Ask your own question about what a deep stack needs to learn, and answer it by runs. For example: does a smaller start make a warm-up needless? `check.losses`
# trains a stack of exercise 10 and returns its losses.
#
# - `run(setting, seed)` trains and measures **once**: a number, the same for the same seed.
# - `report()` returns the dict that [the rules](../../docs/exercises.md#Open-questions) explain: `"question"`, `"settings"`, five or more `"seeds"`, `"fixed"`, and three `"sentences"`:
#   what you found, how sure that is, what your runs do *not* show.
#
# <details><summary>First hint</summary>
#
# Measure the mean of the last losses, or the steps to a goal.
#
# </details>
# <details><summary>Second hint</summary>
#
# Run first with any report: the check prints means and spreads.
#
# </details>


# %% solution="find_out"
def run(setting, seed):
    """Train once, and measure once: a number."""
    ### BEGIN SOLUTION
    warm_up = {"no warm-up": 0, "a warm-up": 30}[setting]
    losses = check.losses("post-norm", 1.0, 0.01, warm_up, steps=80, seed=seed)
    return sum(losses[-10:]) / 10
    ### END SOLUTION


def report():
    """Question, settings, seeds, what was fixed, and three sentences: a dict."""
    ### BEGIN SOLUTION
    return {
        "question": "Does a warm-up of 30 steps help twelve post-norm layers within 80 steps?",
        "settings": ["no warm-up", "a warm-up"],
        "seeds": [1, 2, 3, 4, 5],
        "fixed": {"warm-up": 30, "steps": 80, "rate": 0.01},
        "sentences": [
            "After 80 steps, with no warm-up the loss is 0.70, with a warm-up 0.62.",
            "Between no warm-up and a warm-up p = 0.06, and 4 of the seeds agree: with five seeds "
            "that is no finding.",
            "At the one rate of 0.01 more seeds may decide it, and a larger rate may need the "
            "warm-up more.",
        ],
    }
    ### END SOLUTION


# %% tests="find_out" points=4
check.find_out(run, report)
### BEGIN HIDDEN TESTS
# The check gives the points for runs that can be repeated and true numbers; who reads takes away one
# for each that is missing (docs/instructors.md has the rubric).
# An answer of "not known" is a full one: here four of five seeds are not enough.
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these blocks is broken?
#
# *Practice · hard · 30 minutes · 4 points*
#
# Tell a pre-norm block from what looks like one. Return the numbers of the broken programs, from 0. Of these eight five are:
#
# ```pycon
# >>> len(broken_blocks(check.programs()))
# 5
# ```
#
# `program(x, norm_1, attention, norm_2, network)` gets `x` $(B, n, d)$ and four functions, each from a tensor to one of the same shape. It should return `y + network(norm_2(y))` with
# $y = x + \operatorname{attention}(\operatorname{norm}_1(x))$. It is broken if for some `x` and some functions its output, **or the gradient that reaches `x`**, is another one.
#
# - The functions are yours, and need not be norms or networks.
# - Compare in float64; differences below $10^{-9}$ are rounding.

# %%
eight = check.programs()

# %% [markdown]
# *Useful*: `mt.allclose`, `mt.autograd.grad`, `.double()`.
#
# <details><summary>First hint</summary>
#
# Four *different* functions show which was called where.
#
# </details>
# <details><summary>Second hint</summary>
#
# Write the right block. Compare outputs, and gradients of (output times random weights). `attention` mixes tokens.
#
# </details>


# %% solution="broken_blocks"

# %% tests="broken_blocks" points=4
check.broken_blocks(broken_blocks)
print("broken:", broken_blocks(eight))
### BEGIN HIDDEN TESTS
check.broken_blocks(broken_blocks, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The gradient of RMSNorm
#
# *Challenge · hard · 35 minutes · 5 points*
#
# Go back through a norm by hand. RMSNorm leaves out the mean: $y = \gamma \odot \hat x$ with $\hat x = x / r$ and $r = \sqrt{\frac1d \sum_j x_j^2 + \epsilon}$. Return $\partial L / \partial x$, $(\ldots, d)$,
# and $\partial L / \partial \gamma$, $(d)$.
#
# ```pycon
# >>> x, one = mt.tensor([[3.0, 4.0]]), mt.ones(2)
# >>> rms_norm_gradient(x, one, mt.ones(1, 2), eps=0.0)[1]  # r is the root of 12.5
# tensor([0.8485, 1.1314])
# ```
#
# `x` and `grad_output` $= \partial L / \partial y$ are $(\ldots, d)$, `gain` $\gamma$ is $(d)$.
#
# *Not allowed*: `backward` and `mt.autograd.grad` (the operation `backward`).
#
# <details><summary>First hint</summary>
#
# All tokens add to the gain's gradient. From the gradient at $\hat x$ on, each is for itself.
#
# </details>
# <details><summary>Second hint</summary>
#
# $x_j$ acts on $\hat x$ directly and through $r$, and $\partial r / \partial x_j = x_j / (d\, r)$.
#
# </details>


# %% solution="rms_norm_gradient"

# %% tests="rms_norm_gradient" points=5
check.rms_norm_gradient(rms_norm_gradient)
### BEGIN HIDDEN TESTS
check.rms_norm_gradient(rms_norm_gradient, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Not yet, or never?
#
# *Core · medium · 25 minutes · 4 points*
#
# A stack has not learned within its budget. *Can* it not, or is it slow?
#
# ```pycon
# >>> def train(setting, seed, steps):  # "slow" learns after 200 steps
# ...     return [float(setting == "shut" or step < 200) for step in range(steps)]
# >>> at_ten_times(train, ["slow", "shut"], seeds=[1, 2], budget=50, goal=0.5)
# {'slow': ([0, 0, 2], 'learns later'), 'shut': ([0, 0, 0], 'never seen to')}
# ```
#
# Return a dict from each setting to a pair: how many seeds *have learned* after `budget` steps, after 3 and after 10 times as many; and the first verdict that holds:
#
# - `"learns"`: all seeds after one budget;
# - `"learns later"`: all after ten;
# - `"never seen to"`: none at any of the three;
# - `"luck of the seed"`: else.
#
# A run has learned after $s$ steps if the last ten of its first $s$ losses have a mean below `goal`.
# A longer run begins like a shorter one: train each setting with each seed **once**.
#
# <details><summary>First hint</summary>
#
# One run of ten budgets holds all three readings.
#
# </details>
# <details><summary>Second hint</summary>
#
# `sum(losses[n - 10 : n]) / 10 < goal`; NaN is not below.
#
# </details>


# %% solution="at_ten_times"

# %% tests="at_ten_times" points=4
check.at_ten_times(at_ten_times)


def twelve_networks(wiring, seed, steps):
    return check.losses(wiring, start=1.0, rate=0.01, warm_up=0, steps=steps, seed=seed)


found = at_ten_times(
    twelve_networks, ["norm", "residual", "pre-norm"], seeds=[1, 2], budget=60, goal=0.4
)
for wiring, (_, verdict) in found.items():
    print(f"{wiring:9} {verdict}")
### BEGIN HIDDEN TESTS
# "Without norms it does not learn" would have been said too soon: it learns, only later. A norm alone is not
# seen to learn within ten budgets, which is no proof that it never does.
check.at_ten_times(at_ten_times, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Make twelve layers learn
#
# *Challenge · hard · 35 minutes · 4 points: 2 for the measure, 2 for what is reached*
#
# ### The measure
#
# When has a deep stack learned? Return after how many steps the **mean of the last** `window` of its `losses` was first below `goal`; None
# if never.
#
# ```pycon
# >>> steps_needed([4.0, 2.0, 1.0, 0.0], goal=2.0, window=2)  # means 3, 1.5, 0.5 after 2, 3, 4 steps
# 3
# ```
#
# A window with NaN is not below the goal; a later one may be.
#
# <details><summary>First hint</summary>
#
# The window that ends after `end` steps is `losses[end - window : end]`.
#
# </details>
# <details><summary>Second hint</summary>
#
# A running sum never recovers from NaN: sum each window afresh.
#
# </details>


# %% solution="steps_needed"

# %% tests="steps_needed" points=2
check.steps_needed(steps_needed)
### BEGIN HIDDEN TESTS
check.steps_needed(steps_needed, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# Twelve small networks and a linear layer have to reverse a vector.
# `check.losses(wiring, start, rate, warm_up, steps, seed)` trains them and returns the losses. Return a dict:
#
# - `"wiring"`: `"neither"`, `"norm"`, `"residual"`, `"pre-norm"` or `"post-norm"`;
# - `"start"`, above 0, at most 1: multiplies the last matrix of each network at first;
# - `"rate"` of Adam, below 1, and `"warm-up"`, 0 to 199: over how many of 200 steps it rises.
#
# With **each** of the seeds 11 to 13 the mean of the last 10 losses must be below 0.15 within the first 150 steps. Choose with others.


# %% solution="chosen_stack"
def chosen_stack():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"wiring": "pre-norm", "start": 0.1, "rate": 0.01, "warm-up": 0}
    ### END SOLUTION


# %% tests="chosen_stack" points=2
check.reached(steps_needed, chosen_stack)
### BEGIN HIDDEN TESTS
# Without residual connections the loss stays near 1. With them alone it falls, but too slowly, unless the
# start is small; in pre-norm it arrives from either start.
check.steps_needed(steps_needed, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# Next, in [chapter 10](../../notebooks/10_transformer.ipynb): the whole Transformer.
