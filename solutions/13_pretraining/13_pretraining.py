# %% [markdown]
# # Exercises 13: pretraining
#
# Ten exercises, from easy to hard, 40 points, about five and a quarter hours. They belong to
# [chapter 13](../../notebooks/13_pretraining.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run the
# cell, then the check below it. The check looks at what your function does, on inputs of several
# sizes: any way of writing it that gives the right result is right. A wrong answer is told what it looks
# like. What you see passing are the *public checks*; when the set is graded, the same checks run once more
# on other numbers and sizes. Where an exercise does not allow an operation, the check records what runs
# inside your function, under whatever name you call it. In exercises 4 and 8 the gradients of your results
# count, too: stay with tensors there, and away from `.item()`, `detach()` and NumPy.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** $B$ sequences of $n$ tokens from a vocabulary of $V$; states have the size $d$. Token 0 is padding and stands
# at the end of a sequence. *Blanks* are the places that a masked language model is asked about, a boolean tensor
# $(B, n)$ that is True there, whatever the input shows in them. The model is `OneStack` of [chapter 10](../../notebooks/10_transformer.ipynb), with the
# sizes `vocabulary, width, heads, hidden, layers`.

# %%
import copy
import math
from collections import defaultdict
from itertools import pairwise

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from minitorch.flops import count_flops
from textbook import plot
from textbook.chapter_10 import OneStack
from textbook.checks import chapter_13 as check
from textbook.checks import progress

progress.show("13")

# %% [markdown]
# ## 1. Tokens for a loss
#
# *Goal: say how much text a model needed, and no more than the curve says. Easy, 20 minutes, 3 points.*
#
# A run has been measured on the way: after `tokens` tokens, a list of rising numbers, its losses were `losses`, a list as
# long. Return the number of tokens at which the loss was `loss` or lower **for the first time**. Losses are restless: they
# may rise in between. Between two points the curve is a straight line over the **logarithm** of the tokens.
#
# If the first point has reached the loss already, return its tokens. If no point has reached it, return None: the curve
# says nothing of what comes after its end.
#
# Everything is allowed.


# %% solution="tokens_needed"
def tokens_needed(tokens, losses, loss):
    """The number of tokens at which the loss is reached first; None if it never is."""
    ### BEGIN SOLUTION
    if losses[0] <= loss:
        return tokens[0]
    points = zip(tokens, losses, strict=True)
    for (t, before), (u, after) in pairwise(points):
        if after <= loss:
            share = (before - loss) / (before - after)
            return t * (u / t) ** share
    return None
    ### END SOLUTION


# %% tests="tokens_needed" points=3
check.tokens_needed(tokens_needed)
small = [20_000, 60_000, 180_000, 540_000], [2.95, 2.80, 2.62, 2.45]
large = [20_000, 60_000, 180_000, 540_000], [2.94, 2.71, 2.36, 2.10]  # made up
for loss in (2.8, 2.5, 2.2):
    print(f"loss {loss}:", *(tokens_needed(*curve, loss) for curve in (small, large)))
### BEGIN HIDDEN TESTS
check.tokens_needed(tokens_needed, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Predict, then count
#
# *Goal: know what a budget buys before it is spent. Easy, 25 minutes, 3 points.*
#
# A `OneStack` of `layers` blocks, width $d$ = `width`, hidden size `hidden` and vocabulary $V$ is trained as a masked language
# model, with `batch` sequences of $n$ tokens a step. A share `share` of the tokens are blanks. `budget` FLOPs may be
# spent, forward and backward together, a multiplication with its addition counted as 2. Count products alone: those
# with weights, and the two of attention ([chapter 12](../../notebooks/12_what_would_we_fix.ipynb)); all places go through all layers, the output included. Return a dict:
#
# - `"FLOPs of a token"`: what a token costs in training;
# - `"steps"`: the whole steps that the budget pays;
# - `"passes"`: how often these steps read a text of `text` tokens;
# - `"blanks"`: how many predictions the loss sees in all, on average.
#
# When your prediction stands, the cell of the check lets a model make a step and counts. What happens to the number of steps
# when the same budget trains a model twice as wide, and when the batch is four times as large?
#
# Everything is allowed.


# %% solution="training_plan"
def training_plan(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    """FLOPs of a token, steps, passes over the text, and blanks, for a budget of FLOPs."""
    ### BEGIN SOLUTION
    block = 4 * width**2 + 2 * width * hidden + 2 * n * width
    each = 3 * 2 * (layers * block + width * vocabulary)
    steps = int(budget // (each * batch * n))
    tokens = steps * batch * n
    return {
        "FLOPs of a token": each,
        "steps": steps,
        "passes": tokens / text,
        "blanks": share * tokens,
    }
    ### END SOLUTION


# %% tests="training_plan" points=3
check.training_plan(training_plan)
predicted = training_plan(1e9, 35, 16, 40, 2, 9, 8, text=10_000, share=0.15)
tokens = mt.randint(4, 35, (8, 9))
with count_flops() as counter:
    scores = OneStack(35, 16, 4, 40, 2, causal=False)(tokens)
    F.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
print(f"a token: predicted {predicted['FLOPs of a token']:,}, counted {counter.total / 72:,.0f}")
print(f"{predicted['steps']} steps, {predicted['passes']:.2f} passes over the text")
for width, batch in ((32, 4), (64, 4), (32, 16)):
    plan = training_plan(2e11, 98, width, 4 * width, 2, 64, batch, text=5_900_000, share=0.15)
    print(f"width {width}, batch {batch}: {plan['steps']} steps")
### BEGIN HIDDEN TESTS
# Twice the width costs a little less than four times as much (the output and attention's products
# grow with the width, not with its square), so not many more than a quarter of the steps are left.
# Four times the batch leaves a quarter of the steps. A large model on a small budget is short of
# updates, which a small batch makes up for.
check.training_plan(training_plan, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A figure with an error
#
# *Goal: read an isoFLOP figure, and see what does not belong in it. Medium, 35 minutes, 4 points.*
#
# Each run below has spent a budget on a model of some size; a curve joins the runs of one budget. The numbers are made up.
# Look before you compute: one run has been drawn on the wrong curve. Which one, and what would the figure say of the
# best size if nobody noticed? And which curve cannot tell its best size?

# %%
figure, axes = plot.subplots(width=7, height=4)
for budget in sorted({run["budget"] for run in check.figure}):
    curve = [run for run in check.figure if run["budget"] == budget]
    weights, losses = ([run[key] for run in curve] for key in ("weights", "loss"))
    axes.plot(weights, losses, marker="o", label=f"{budget:.3g} FLOPs")
axes.set(xscale="log", xlabel="weights N", ylabel="loss")
axes.legend()
plot.show(figure, alt="Loss against the size of the model, a curve for each of four budgets")
print("     budget  weights  FLOPs of a token     tokens   loss")
for run in check.figure:
    each, tokens = f"{run['FLOPs of a token']:,.0f}", f"{run['tokens']:,}"
    print(f"{run['budget']:11.3g} {run['weights']:8,} {each:>17} {tokens:>10}  {run['loss']:.3f}")

# %% [markdown]
# Now write the reader down. `runs` is a list of dicts like those of `check.figure`, in any order. Return a dict from
# each budget to the best number of weights $N$:
#
# - leave out every run whose FLOPs, those of a token times the tokens, differ from its budget by more than 5 % (some
#   of each budget are left);
# - if the lowest of the losses that are left stands at the smallest or the largest size, the best size is not known: None;
# - else draw a parabola of the loss over $\log N$ through the lowest point and its two neighbours: the best size
#   is where it is lowest.
#
# Everything is allowed. Useful: `np.polyfit`.


# %% solution="best_sizes"
def best_sizes(runs):
    """The best number of weights for each budget: a dict, None where it is not bracketed."""
    ### BEGIN SOLUTION
    found = {}
    for budget in {run["budget"] for run in runs}:
        curve = []
        for run in runs:
            spent = run["FLOPs of a token"] * run["tokens"]
            if run["budget"] == budget and abs(spent - budget) <= 0.05 * budget:
                curve.append((math.log(run["weights"]), run["loss"]))
        curve.sort()
        losses = [loss for _, loss in curve]
        lowest = losses.index(min(losses))
        if 0 < lowest < len(curve) - 1:
            x, y = zip(*curve[lowest - 1 : lowest + 2], strict=True)
            a, b, _ = np.polyfit(x, y, 2)
            found[budget] = math.exp(-b / (2 * a))
        else:
            found[budget] = None
    return found
    ### END SOLUTION


# %% tests="best_sizes" points=4
check.best_sizes(best_sizes)
for budget, size in sorted(best_sizes(check.figure).items()):
    print(f"{budget:9.3g} FLOPs:", "not bracketed" if size is None else f"{size:,.0f} weights")
### BEGIN HIDDEN TESTS
# At 2e11 FLOPs the run with 110,000 weights has read four times the tokens that its budget pays. It
# is the lowest of its curve, so the best size would stand at its edge, far above that of the others:
# "not known", or much too large. At 8e11 the loss rises from the largest size to smaller ones alone,
# so this curve has no minimum inside.
check.best_sizes(best_sizes, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The loss of a batch in parts
#
# *Goal: ask about blanks alone, all alike. Medium, 25 minutes, 4 points.*
#
# A batch that is too large for the memory is computed in parts. `parts` is a list of one or more tuples: scores $(B, n, V)$ of the model,
# the original tokens $(B, n)$, and the blanks $(B, n)$. $B$, $n$ and the number of blanks differ from part to part. Return
# the loss of the whole batch,
#
# $$\frac{1}{\text{number of blanks in all parts}} \sum_{\text{blanks}} -\log p(\text{original token}),$$
#
# a tensor without axes, as if all had been computed at once. Why is that not the mean of the parts' losses?
#
# What the model says elsewhere has no part in it: those scores may even be NaN, and their gradient is 0. A batch may
# have no blank at all: its loss is 0, and `backward` gives the gradient 0. Scores may be in the thousands.
#
# Not allowed: `F.cross_entropy`, whose `ignore_index` does half of this unseen.


# %% solution="blank_loss"
def blank_loss(parts):
    """Parts (scores (B, n, V), original (B, n), blanks (B, n)): the mean loss of all blanks."""
    ### BEGIN SOLUTION
    total, count = 0.0, 0
    for scores, original, blanks in parts:
        asked, targets = scores[blanks], original[blanks]  # (k, V), (k)
        log_p = asked.log_softmax(dim=-1)
        total = total - log_p[mt.arange(len(targets)), targets].sum()
        count += len(targets)
    return total / max(count, 1)
    ### END SOLUTION


# %% tests="blank_loss" points=4
check.blank_loss(blank_loss)
### BEGIN HIDDEN TESTS
# Each part would count alike, so a blank in a part with few of them would weigh more than one in a
# part with many: the gradient would depend on how the batch was cut.
check.blank_loss(blank_loss, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Multiple choice
#
# *Goal: let a causal language model choose among answers, without training it. Medium, 30 minutes, 4 points.*
#
# `model(tokens)` makes of tokens $(B, n)$ scores $(B, n, V)$ and looks at no later token. `prompts` is a list of prompts, each a
# list of tokens, at least one; `choices[i]` is the list of completions of prompt $i$, each a list of tokens, at least one. Return
# a list with a tensor for each prompt: for each of its completions $c$ of $k$ tokens
#
# $$\log p(c \mid \text{prompt}) = \sum_{j=1}^{k} \log p(c_j \mid \text{prompt}, c_1, \dots, c_{j-1}),$$
#
# divided by $k$ if `mean` is True. All completions of all prompts go through the model in **one** call: pad with 0. Which of
# the two scores prefers short completions, and why?
#
# Everything is allowed.


# %% solution="completion_scores"
def completion_scores(model, prompts, choices, mean):
    """Log probabilities of the choices after their prompts: a list of tensors."""
    ### BEGIN SOLUTION
    rows = [
        (prompt, choice) for prompt, each in zip(prompts, choices, strict=True) for choice in each
    ]
    n = max(len(prompt) + len(choice) for prompt, choice in rows)
    tokens = mt.zeros(len(rows), n, dtype=mt.int64)
    asked = mt.zeros(len(rows), n, dtype=mt.bool)
    for i, (prompt, choice) in enumerate(rows):
        end = len(prompt) + len(choice)
        tokens[i, :end] = mt.tensor(prompt + choice)
        asked[i, len(prompt) : end] = True
    with mt.no_grad():
        log_p = model(tokens).log_softmax(dim=-1)[:, :-1]  # of the tokens from the second on
    found = mt.gather(log_p, 2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    scores = found.masked_fill(~asked[:, 1:], 0.0).sum(dim=1)
    if mean:
        scores = scores / asked.sum(dim=1)
    return list(scores.split([len(each) for each in choices]))
    ### END SOLUTION


# %% tests="completion_scores" points=4
check.completion_scores(completion_scores)
### BEGIN HIDDEN TESTS
# The sum: each token more adds a logarithm below 0. The mean does not, but it favours completions
# whose last tokens follow from the first ones, since these are cheap.
check.completion_scores(completion_scores, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. What does a state know?
#
# *Goal: fit a probe that has seen nothing of what it reports. Medium, 35 minutes, 4 points.*
#
# `train` $(N, d)$, `validation` and `test` are states of an encoder, in float64; `labels` are the classes of the training states,
# the numbers from 0 to $C - 1$, each of which occurs, and `validation_labels` those of the validation states, from the same classes.
# The labels of the test stay with somebody else. The probe is linear, a ridge regression on one-hot targets:
#
# - standardise: from each of the $d$ numbers take its mean away and divide by its standard deviation (divisor $N$), both
#   those of the **training** states. A number that is the same in all training states counts as 0 everywhere.
# - for each strength $\lambda > 0$ in the list `strengths` find weights $W$ $(d, C)$ and an offset $b$ $(C)$ that minimise
#   $\sum_i \|x_i W + b - y_i\|^2 + \lambda \|W\|^2$ over the training states, $y_i$ the one-hot class. The offset is not penalised.
# - choose the strength with the largest share of right answers on the **validation** states (the class with the largest score is
#   the answer); among equally good ones the largest strength.
#
# Return the chosen strength and the scores $(M, C)$ of the test states, a tensor or an array. Which second probe must be
# fitted before anyone may say that *pretraining* has taught the encoder this?
#
# Everything is allowed, NumPy included: `np.linalg.solve(A, B)` finds $X$ with $AX = B$.


# %% solution="probe"
def probe(train, labels, validation, validation_labels, test, strengths):
    """The chosen strength and the scores (M, C) of the test states (M, d)."""
    ### BEGIN SOLUTION
    mean, spread = train.mean(dim=0), train.std(dim=0, correction=0)
    spread = spread.masked_fill(spread == 0, mt.inf)
    x, v, t = (((states - mean) / spread).numpy() for states in (train, validation, test))
    y = np.eye(labels.max().item() + 1)[labels.numpy()]
    offset = y.mean(axis=0)  # the columns of x have the mean 0
    best = -1.0
    for strength in sorted(strengths, reverse=True):
        weights = np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ (y - offset))
        found = (v @ weights + offset).argmax(axis=1)
        right = (found == validation_labels.numpy()).mean()
        if right > best:
            best, chosen, scores = right, strength, t @ weights + offset
    return chosen, scores
    ### END SOLUTION


# %% tests="probe" points=4
check.probe(probe)
### BEGIN HIDDEN TESTS
# The same probe on the states of an encoder with random weights: much can be read off these, too.
check.probe(probe, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Words as blanks
#
# *Goal: choose what is asked, and what is shown there. Medium, 30 minutes, 5 points.*
#
# Where words are cut into several tokens, hiding one token is too easy a question: the rest of the word gives it away. So whole words
# become blanks. `tokens` $(B, n)$; `words` $(B, n)$ says which word of its sequence a token belongs to, counted from 0, and
# is $-1$ at special tokens (padding, beginning, end). Each word becomes a blank with the probability `share`, whatever
# happens to other words and in other sequences. All tokens of such a word are blanks, and each of them, whatever its
# neighbours show, shows
#
# - the token `mask` with the probability 0.8,
# - a random token with the probability 0.1, drawn from `ordinary`, a tensor of all ordinary tokens, each as likely (the
#   token itself is one of them),
# - itself with the probability 0.1.
#
# Return the inputs $(B, n)$ and the blanks $(B, n)$, boolean. Nothing else changes, and every call draws anew. The check counts in
# large samples: write it without a loop over tokens if you can.
#
# Everything is allowed. Useful: `mt.rand`, `mt.randint`, `mt.gather`, `mt.where`.


# %% solution="mask_words"
def mask_words(tokens, words, share, mask, ordinary):
    """Tokens and words (B, n) give inputs (B, n) and blanks (B, n), whole words."""
    ### BEGIN SOLUTION
    inside = words >= 0
    chosen = mt.rand(tokens.shape) < share  # of word k of a sequence: column k
    blanks = mt.gather(chosen, 1, words.clamp(min=0)) & inside
    how = mt.rand(tokens.shape)
    drawn = ordinary[mt.randint(len(ordinary), tokens.shape)]
    shown = mt.where(how < 0.8, mask, mt.where(how < 0.9, drawn, tokens))
    return mt.where(blanks, shown, tokens), blanks
    ### END SOLUTION


# %% tests="mask_words" points=5
check.mask_words(mask_words)
### BEGIN HIDDEN TESTS
check.mask_words(mask_words, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. The last blocks alone
#
# *Goal: train a part of a pretrained model, and leave the rest as it is. Medium, 35 minutes, 4 points.*
#
# `pretrained` is a `OneStack` with the parts `embedded`, `blocks`, `norm` and `out` and the method `states(tokens)`, $(B, n)$ to
# $(B, n, d)$. Make a module of it that gives texts `classes` scores: a new layer `nn.Linear(d, classes)` reads the mean of
# the states of all **real** tokens (0 is padding).
#
# - The last `trained` blocks, the norm behind them and the new layer are trained, everything else is frozen (the old `out`, which is not used, may go). With `trained` = 0 the
#   new layer alone is trained.
# - The model is trained by `AdamW(module.parameters(), ...)`, which is to leave what is frozen exactly as it is.
# - In `train()` the dropout of the blocks that are trained is on; what is frozen has none, since its states should be those of
#   `eval()`. In `eval()` all dropout is off. Both return the module, as always; `eval()` calls `train(False)`.
# - `pretrained` is needed for the next run: it stays as it is, and can still be trained as a whole.
#
# Everything is allowed. Useful: `copy.deepcopy`, `requires_grad_`.


# %% solution="PartlyTuned"
class PartlyTuned(nn.Module):
    """Tokens (B, n) to scores (B, classes): a pretrained encoder, its last blocks trained."""

    def __init__(self, pretrained, classes, trained):
        super().__init__()
        ### BEGIN SOLUTION
        self.encoder = copy.deepcopy(pretrained)
        self.head = nn.Linear(pretrained.norm.weight.shape[0], classes)
        blocks = list(self.encoder.blocks)
        self.fixed = [self.encoder.embedded, *blocks[: len(blocks) - trained], self.encoder.out]
        if not trained:
            self.fixed.append(self.encoder.norm)
        for part in self.fixed:
            part.requires_grad_(False)
        ### END SOLUTION

    def train(self, mode=True):
        ### BEGIN SOLUTION
        super().train(mode)
        for part in self.fixed:
            part.eval()
        return self
        ### END SOLUTION

    def forward(self, tokens):
        ### BEGIN SOLUTION
        real = (tokens != 0).unsqueeze(-1)
        states = self.encoder.states(tokens) * real
        return self.head(states.sum(dim=1) / real.sum(dim=1))
        ### END SOLUTION


# %% tests="PartlyTuned" points=4
check.PartlyTuned(PartlyTuned)
### BEGIN HIDDEN TESTS
check.PartlyTuned(PartlyTuned, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Which of these studies is unfair?
#
# *Goal: find a comparison that pretraining cannot lose, by a test. Hard, 40 minutes, 4 points.*
#
# Eight studies compare a frozen pretrained encoder, a frozen untrained one, and training from scratch: the methods
# `"frozen"`, `"untrained"` and `"from scratch"`. A study is a procedure that trains what it likes:
#
#     study(accuracy, rates, steps, choosing, reporting)
#
# calls `accuracy(method, rate, count, seed, data)`, all positional, where `count` is a number of steps and `data` is `"validation"` or
# `"test"`, and returns a dict from each method to its `"mean"` and whether its choice stands `"at the edge"`. An honest
# study does the following, for each method by itself:
#
# - it tries every rate of the list `rates` with every number of steps of the list `steps` (both in any order), each with all seeds in
#   `choosing`, on validation data, and chooses the pair with the best mean, of equally good ones any;
# - it reports the mean of the accuracies on test data with this pair, over all seeds in `reporting`;
# - it says True for `"at the edge"` if the chosen rate is the smallest or the largest of `rates`, or the chosen number of steps the
#   largest of `steps`, which means: perhaps not trained to the end. Else False.
#
# You do not know what is inside a study. But `accuracy`, rates, steps and seeds are yours: hand it accuracies that you have
# made up, and compare what it reports with what an honest study reports. A study is **unfair** if there are accuracies for
# which these differ. More runs than necessary are not unfair, as long as the report is right, and differences below $10^{-9}$
# are rounding. Return the numbers of the unfair studies, counted from 0, as a list.
#
# Here are eight studies to try your test on; five of them are unfair.

# %%
eight = check.studies()

# %% [markdown]
# Everything is allowed.


# %% solution="unfair"
def unfair(studies):
    """The numbers of the studies that do not always report what the honest procedure reports."""
    ### BEGIN SOLUTION
    methods = ["frozen", "untrained", "from scratch"]

    def honest(accuracy, rates, steps, choosing, reporting):
        found = {}
        for method in methods:
            best = -1.0
            for rate in rates:
                for count in steps:
                    values = [
                        accuracy(method, rate, count, seed, "validation") for seed in choosing
                    ]
                    if sum(values) > best:
                        best, choice = sum(values), (rate, count)
            values = [accuracy(method, *choice, seed, "test") for seed in reporting]
            edge = choice[0] in (min(rates), max(rates)) or choice[1] == max(steps)
            found[method] = {"mean": sum(values) / len(values), "at the edge": edge}
        return found

    def agree(one, other):
        return all(
            one[method]["at the edge"] == other[method]["at the edge"]
            and abs(one[method]["mean"] - other[method]["mean"]) < 1e-9
            for method in methods
        )

    found = []
    for i, study in enumerate(studies):
        for trial in range(20):
            random = np.random.default_rng(trial)
            table = defaultdict(random.random)  # the accuracy of each run, drawn once
            grid = [0.01, 0.1, 0.001, 0.03], [300, 100, 30], [1, 2, 3], [4, 5, 6, 7]
            case = (lambda *run, table=table: table[run], *grid)
            if not agree(study(*case), honest(*case)):
                found.append(i)
                break
    return found
    ### END SOLUTION


# %% tests="unfair" points=4
check.unfair(unfair)
### BEGIN HIDDEN TESTS
check.unfair(unfair, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Pretrain, and measure what it is worth
#
# *Goal: pretrain an encoder yourself, and compare it fairly. Hard, 45 minutes, 5 points: 3 for the training, 2 for what it reaches.*
#
# ### The training
#
# `model(tokens)` gives scores $(B, n, V)$ for tokens $(B, n)$; `sentences` $(N, n)$ are tokens without labels, padded with 0.
# Train the model as a masked language model, in place: `steps` steps, each with a batch of sentences drawn at random, of
# whose tokens that are not special a small share, a third at most, is hidden anew in each step. At least half of the blanks show the token `mask`. The
# tokens in the list `special` (padding, beginning, end, mask) are never blanks. The loss is that of the blanks alone.
# Return the list of the losses of all steps, as plain numbers.
#
# What else the training needs is yours: optimizer, size of a batch, how the rate rises and falls. `rate` is its largest value, and at
# the rate 0 nothing changes. Batches of 32 sentences are large enough. The check hands your function small models with
# sentences that are easy to guess: Adam learns them in 100 steps at the rate 0.01.
#
# Everything is allowed. Useful: `optim.Adam`, `nn.utils.clip_grad_norm_`.


# %% solution="pretrain"
def pretrain(model, sentences, special, mask, steps, rate):
    """Train a model to fill blanks, in place; the loss of each step."""
    ### BEGIN SOLUTION
    model.train()
    special = mt.tensor(special)
    optimizer = optim.Adam(model.parameters(), betas=(0.9, 0.98))
    losses = []
    for step in range(steps):
        rise, fall = min(10 * (step + 1) / steps, 1.0), 1 - step / steps
        optimizer.param_groups[0]["lr"] = rate * rise * fall
        original = sentences[mt.randint(len(sentences), (32,))]  # (B, n)
        ordinary = (original.unsqueeze(-1) != special).all(dim=-1)
        blanks = (mt.rand(original.shape) < 0.15) & ordinary
        how, others = mt.rand(original.shape), original[ordinary]
        drawn = others[mt.randint(len(others), original.shape)]
        shown = mt.where(how < 0.8, mask, mt.where(how < 0.9, drawn, original))
        scores = model(mt.where(blanks, shown, original))
        loss = F.cross_entropy(scores[blanks], original[blanks])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% tests="pretrain" points=3
check.pretrain(pretrain)
### BEGIN HIDDEN TESTS
check.pretrain(pretrain, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### What it is worth
#
# The last check pretrains an encoder of width 64 on 5,000 numbers in words, by your function, and then teaches it with **20 labelled
# numbers** what each word counts: units, hundreds, thousands, hundreds of thousands. The same is done with a fresh
# encoder, from scratch. In both all weights are trained. Both are measured as in exercise 9: every one of your rates with every
# one of your numbers of steps, chosen on validation sentences, reported on numbers that are in no training text, with three
# other seeds. Return a dict:
#
# - `"pretraining steps"`, 1,500 at most, and `"pretraining rate"`;
# - `"rates"`, three to six of them, and `"steps"`, three to five numbers up to 400: what both methods may choose from.
#
# The gain in the share of right places must be at least 0.1 and at least twice the larger of the two standard deviations. And the
# baseline must have had its chance: the choice of neither method may stand at the edge, neither the smallest nor the largest of your
# rates, nor the largest number of steps. To try things out, `check.encoder()` makes a fresh encoder, `check.sentences(count, seed)` the
# numbers, in which 1 is the mask and 0 to 3 are special. The check takes about half a minute.


# %% solution="plan"
def plan():
    """What is tried: a dict."""
    ### BEGIN SOLUTION
    return {
        "pretraining steps": 1000,
        "pretraining rate": 0.003,
        "rates": [0.0001, 0.0003, 0.001, 0.003, 0.01],
        "steps": [15, 30, 60, 120],
    }
    ### END SOLUTION


# %% tests="plan" points=2
check.reached(pretrain, plan)
### BEGIN HIDDEN TESTS
check.pretrain(pretrain, hidden=True)
### END HIDDEN TESTS
