# %% [markdown]
# # Exercises 01: recurrent neural networks
#
# Ten exercises, from easy to hard, 40 points, about four and a half hours. They belong to
# [chapter 01](../../notebooks/01_rnn.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the lines above it. Run the cell, then
# the check below it. The check looks at what your function does, on inputs of several sizes: any way of writing it that
# gives the right result is right. A wrong answer is told what it looks like. What you see passing are the *public
# checks*; when the set is graded, the same checks run once more on other numbers and sizes. Where an exercise does not
# allow an operation, the check records what runs inside your function, under whatever name you call it. In
# exercises 1 and 4 the gradients of your results are compared, too: the results must stay tensors that the library's
# operations have made of the inputs, so keep away from `.item()`, `.detach()` and NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** As in the chapter, time comes first: $T$ steps, $B$ sequences side by side, $d$ numbers per input, $H$ units
# per state, $V$ tokens in the vocabulary. Inputs are $(T, B, d)$, states $(T, B, H)$. Where sequences differ in length, the short
# ones are padded at their end: sequence $i$ has the steps 0 to `lengths[i] - 1`, and what comes after them is padding, any
# numbers at all.

# %%
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks import chapter_01 as check
from textbook.checks import progress

progress.show("01")

# %% [markdown]
# ## 1. All steps, short and long
#
# *Goal: unroll the cell over a padded batch. Easy, 20 minutes, 3 points.*
#
# `x` is $(T, B, d)$, with the lengths in `lengths`, integers $(B)$ from 1 to $T$; behind them any finite numbers may stand. Start from `h0` $(B, H)$, or from zeros where it is None,
# and take the steps
#
# $$h_t = \tanh(x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b)$$
#
# for all sequences at once. At the end of a sequence its state **stays as it is** while the others go on: then the last
# row of the result holds the last state of every sequence. Return all states $h_1 \dots h_T$ as one tensor $(T, B, H)$. `W_ih` is $(H, d)$, `W_hh`
# $(H, H)$, `b` $(H)$. The gradient must be able to flow back through all steps.
#
# Not allowed: `nn.RNN` (the operation `rnn`), which would do the loop for you.


# %% solution="unroll"
def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    """Inputs (T, B, d) and lengths (B) give the states h_1 ... h_T, (T, B, H)."""
    ### BEGIN SOLUTION
    h = mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0
    states = []
    for t, x_t in enumerate(x):
        new = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()  # (B, H)
        h = mt.where((t < lengths).unsqueeze(1), new, h)
        states.append(h)
    return mt.stack(states)  # (T, B, H)
    ### END SOLUTION


# %% tests="unroll" points=3
check.unroll(unroll)
### BEGIN HIDDEN TESTS
check.unroll(unroll, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Clipping
#
# *Goal: clip gradients by their global norm, also when they explode. Easy, 20 minutes, 3 points.*
#
# `gradients` is a list of tensors of any shapes. Think of all their elements as one long vector $g$ with the Euclidean norm
# $\lVert g \rVert$. Where the norm is above `max_norm`, scale every tensor by `max_norm` $/ \lVert g \rVert$, else leave
# them as they are. Return two things: a new list, and the norm as it was before, a number. Do not change the tensors that you were given.
#
# An item may be None, if a parameter has no gradient: it stays None, in its place. All may be None: then the norm is 0. And where gradients explode they are
# **large**: up to $10^{200}$, in float64. Their norm is a number still; the squares are not.
#
# Not allowed: `norm` and `clip_grad_norm_` (the operation `norm`). Write the norm out.


# %% solution="clip_gradients"
def clip_gradients(gradients, max_norm):
    """A list of gradients whose joint norm is at most max_norm, and the norm that it was."""
    ### BEGIN SOLUTION
    given = [g for g in gradients if g is not None]
    largest = max((g.abs().max().item() for g in given), default=0.0)
    if largest == 0:
        return gradients, 0.0
    norm = largest * sum(((g / largest) ** 2).sum().item() for g in given) ** 0.5
    factor = min(1.0, max_norm / norm)
    return [None if g is None else g * factor for g in gradients], norm
    ### END SOLUTION


# %% tests="clip_gradients" points=3
check.clip_gradients(clip_gradients)
### BEGIN HIDDEN TESTS
check.clip_gradients(clip_gradients, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Predict, then run: how far does a gradient reach?
#
# *Goal: know from the matrix how long a gradient lives. Easy, 25 minutes, 4 points.*
#
# Without the factors $1 - h^2$, a gradient that goes back $k$ steps is multiplied by $W_{hh}^k$. Return the **largest** distance $k$ from 0 to `most`,
# both included, at which the norm of this power is `share` or more; None if there is none. The norm is the factor by which a matrix stretches
# the vector that it stretches most, `np.linalg.norm(power, 2)`; `W_hh` is a tensor $(H, H)$ of ordinary numbers, `share` a positive number. Note that a power may grow before it falls, and that
# it may become too large or too small for a floating-point number: both are in the check.
#
# Before you run the cell of the check: below are three matrices of the same spectral radius, 0.9. Which one reaches farthest, down to a
# share of 0.01? And will the real network, with its factors $1 - h^2$, reach farther than you predict, or less far?
#
# Everything is allowed.


# %% solution="reach"
def reach(W_hh, share, most):
    """The largest distance, up to `most`, at which the power's norm is at least `share`."""
    ### BEGIN SOLUTION
    W, found = W_hh.numpy(), None
    power, logarithm = np.eye(len(W)), 0.0  # power * exp(logarithm) is W to the power of k
    for k in range(most + 1):
        norm = np.linalg.norm(power, 2)
        if norm == 0:
            break
        power, logarithm = power / norm, logarithm + math.log(norm)
        if logarithm >= math.log(share):
            found = k
        power = power @ W
    return found
    ### END SOLUTION


# %% tests="reach" points=4
check.reach(reach)
mt.manual_seed(0)
random = mt.randn(2, 2).double()
random = 0.9 * random / np.abs(np.linalg.eigvals(random.numpy())).max()
turn = 0.9 * mt.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()
steep = mt.tensor([[0.9, 5.0], [0.0, 0.9]]).double()
for name, W_hh in {"random": random, "turn": turn, "steep": steep}.items():
    h, jacobian, measured = mt.zeros(2).double(), mt.eye(2).double(), 0
    for k in range(1, 201):
        h = (h @ W_hh.T + 0.2 * mt.randn(2)).tanh()
        jacobian = (1 - h**2).unsqueeze(1) * (W_hh @ jacobian)  # of h_k with respect to h_0
        if np.linalg.norm(jacobian.numpy(), 2) >= 0.01:
            measured = k
    print(f"{name:7} predicted {reach(W_hh, 0.01, 200)}, in a network {measured}")
### BEGIN HIDDEN TESTS
# "steep" reaches farthest: its powers first grow twentyfold, and only then do they fall by 0.9 a step.
# The radius says how a gradient ends, not how far it gets. In a network the factors 1 - h^2 are at most
# 1, so it does not reach as far; the larger the states, the less.
check.reach(reach, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Both directions, short and long
#
# *Goal: let a second network read each sequence from its own end. Medium, 25 minutes, 4 points.*
#
# `forward` and `backward` are two functions that run an RNN over their input **from the first step to the last**: `forward(x)`
# gives all states, $(T, B, H)$. Here `x` is a padded batch $(T, B, d)$ with `lengths` $(B)$; the padding holds any finite numbers.
#
# The result at step $t$ of a sequence is the state of `forward` that has read the steps up to $t$, followed by the state of `backward` that has
# read the steps of this sequence from its end down to $t$, and none of the padding: $(T, B, 2H)$. In the padding the result is 0.
#
# Everything is allowed. Useful: `x[places, mt.arange(B)]` with integers `places` $(T, B)$ takes from each column its own rows.


# %% solution="both_directions"
def both_directions(x, lengths, forward, backward):
    """Inputs (T, B, d) and lengths (B) give both halves of the states, (T, B, 2 H)."""
    ### BEGIN SOLUTION
    steps = mt.arange(len(x)).unsqueeze(1)  # (T, 1)
    inside = steps < lengths  # (T, B)
    turned = mt.where(inside, lengths - 1 - steps, steps)  # each sequence from its own end
    batch = mt.arange(x.shape[1])
    past = forward(x)  # (T, B, H)
    future = backward(x[turned, batch])[turned, batch]  # (T, B, H)
    return mt.cat([past, future], dim=-1).masked_fill(~inside.unsqueeze(-1), 0.0)
    ### END SOLUTION


# %% tests="both_directions" points=4
check.both_directions(both_directions)
### BEGIN HIDDEN TESTS
check.both_directions(both_directions, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The probability of a text
#
# *Goal: apply the chain rule with a start token, an end and teacher forcing. Medium, 20 minutes, 4 points.*
#
# `step` is one step of an RNN language model: `scores, h = step(token, h)` reads one token of each sequence, $(B)$, and the
# state (None at first), and returns the scores $(B, V)$ of the **next** token and the new state. `texts` is a list of texts of
# different lengths, each a list of numbers of tokens. `start` is the number of the token `<s>`, which stands before every text, and **after** it: as in
# the chapter, a text is over when the model says `<s>`. Neither of the two belongs to the list. Return, for each text $x_1 \dots x_n$, the logarithm of the
# probability that the model writes just this text and stops:
#
# $$\log P = \sum_{t=1}^{n} \log P(x_t \mid \text{<s>}, x_1, \dots, x_{t-1}) + \log P(\text{<s>} \mid \text{<s>}, x_1, \dots, x_n),$$
#
# a tensor with as many elements as there are texts. A text may be empty, and it may be so long that its probability is smaller than
# any positive floating-point number.
#
# Why must the end be counted, if texts of different lengths are compared?
#
# Everything is allowed. One text at a time will do, as a batch of one: `mt.tensor([token])`.


# %% solution="log_probability"
def log_probability(step, texts, start):
    """The log-probability of each text with its end, a tensor."""
    ### BEGIN SOLUTION
    totals = []
    for text in texts:
        total, h = 0.0, None
        for token, following in zip([start, *text], [*text, start], strict=True):
            scores, h = step(mt.tensor([token]), h)  # (1, V)
            total += scores.log_softmax(dim=-1)[0, following].item()
        totals.append(total)
    return mt.tensor(totals)
    ### END SOLUTION


# %% tests="log_probability" points=4
check.log_probability(log_probability)
### BEGIN HIDDEN TESTS
# Without it, a text is at least as probable as any text that goes on from it, and the probabilities of
# all texts add up to far more than 1: those of one token alone to 1 already.
check.log_probability(log_probability, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Which language model is best?
#
# *Goal: compare only what can be compared. Medium, 25 minutes, 4 points.*
#
# Seven models have been measured. `"loss"` is the mean loss of a **token**, in nats; `"tokens"` and `"characters"` say how many there are in the text that was
# read; `"unknown"` counts the tokens that were `<unk>`; `"reads"` and `"text"` say what the model looks at, and which text it was. The numbers are made up. Look before
# you compute: which model has the lowest perplexity? Which rows say nothing about how well a model predicts?

# %%
for row in check.table:
    perplexity = math.exp(row["loss"])
    print("{model:22} loss {loss:.2f}".format(**row), f" perplexity {perplexity:6.2f}", end="  ")
    print("{tokens:7,} tokens {characters:7,} characters".format(**row), end="  ")
    print("{unknown:3} unknown, reads {reads}, {text} text".format(**row))

# %% [markdown]
# Now write the ranking down. `rows` is a list of dicts like those of `check.table`. Leave out each model that has met an unknown token,
# that reads more than `"the past"`, or whose text is not the `"validation"` text. For the others
# compute the loss in nats a **character**: that of the whole text, shared among its characters. Return a list of pairs
# (model, nats a character), the best model first.
#
# Why must models with unknown tokens be left out, even a single one?
#
# Everything is allowed.


# %% solution="ranking"
def ranking(rows):
    """Pairs (model, nats a character) of the models that can be compared, the best first."""
    ### BEGIN SOLUTION
    found = []
    for row in rows:
        honest = row["reads"] == "the past" and row["text"] == "validation"
        if honest and row["unknown"] == 0:
            found.append((row["model"], row["loss"] * row["tokens"] / row["characters"]))
    return sorted(found, key=lambda pair: pair[1])
    ### END SOLUTION


# %% tests="ranking" points=4
check.ranking(ranking)
for model, nats in ranking(check.table):
    print(f"{model:22} {nats:.3f} nats a character")
### BEGIN HIDDEN TESTS
# The network that reads both directions has the lowest perplexity, and has read the answers. The large
# one was measured on what it has learned by heart. Among the rest the tokens differ: pieces look worst,
# with a perplexity of 60, and are best.
# <unk> stands for all words that are not known: to say that one of them comes is easier than to say
# which. With a vocabulary of <unk> alone, the loss would be 0.
check.ranking(ranking, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Which of these readers is broken?
#
# *Goal: find wrong windows by a test. Medium, 35 minutes, 5 points.*
#
# Below are nine programs that cut a long text for training with a carried state: `reader(text, count, window)` gives, for a text $(N)$ of numbers of tokens, a list of pairs
# (inputs, targets) in the order in which they are read. How a reader cuts is its own business, but it must follow these rules, whatever the text:
#
# 1. inputs and targets have the shape (`window`, `count`); only the last pair may have fewer rows, but not none;
# 2. the target of each input is the token that comes after it in the text;
# 3. along each column the text goes on, within a window and from each window to the next;
# 4. no place of the text is asked for twice, and of the $N - 1$ that could be asked for, fewer than `count` times `window` are left out.
#
# A reader looks at places, not at tokens. A reader that breaks a rule for some text and some sizes is broken. You cannot look inside, but the text is yours. Return the numbers of the broken
# readers, counted from 0, as a list. Five of these nine are broken; the check has others, too. Give them texts that hold a
# window at least, $N$ > `count` times `window`: no rule says what is made of a shorter one.

# %%
nine = check.readers()

# %% [markdown]
# Everything is allowed. Which text makes this easy?


# %% solution="broken_readers"
def broken_readers(readers):
    """The numbers of the readers that break a rule."""
    ### BEGIN SOLUTION

    def follows_the_rules(reader, length, count, window):
        pieces = reader(mt.arange(length), count, window)  # a token is its place
        sizes = [len(inputs) for inputs, _ in pieces]
        if not sizes or any(size != window for size in sizes[:-1]) or not 0 < sizes[-1] <= window:
            return False
        if any(x.shape != y.shape or x.shape[1] != count for x, y in pieces):
            return False
        inputs = mt.cat([x for x, _ in pieces])  # (steps, count)
        targets = mt.cat([y for _, y in pieces])
        asked = targets.flatten().tolist()
        return (
            mt.equal(targets, inputs + 1)
            and mt.equal(inputs[1:], inputs[:-1] + 1)  # goes on where it stopped
            and len({*asked}) == len(asked)
            and length - 1 - len(asked) < count * window
        )

    trials = [(25, 4, 3), (29, 4, 3), (26, 3, 4), (12, 1, 4)]
    return [
        i
        for i, reader in enumerate(readers)
        if not all(follows_the_rules(reader, *trial) for trial in trials)
    ]
    ### END SOLUTION


# %% tests="broken_readers" points=5
check.broken_readers(broken_readers)
print("broken:", broken_readers(nine))
### BEGIN HIDDEN TESTS
# mt.arange(N): a token that is its own place tells where it came from.
check.broken_readers(broken_readers, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Truncated backpropagation through time
#
# *Goal: write the training loop that carries the state and cuts the gradient, and train with it. Medium, 40 minutes, 5 points: 3 for the loop, 2 for what is reached.*
#
# ### The loop
#
# `model(inputs, h)` runs a recurrent model over some steps, from state `h` (None at first), and returns two
# things: the outputs at these steps and the state at their end, $(1, B, H)$. `loss_function(outputs, targets)` gives the loss. `x` is $(T, B, d)$, `y` $(T, B, 1)$
# and `begins` $(T, B)$, True where a new text begins in a column. Texts begin at the first steps of windows only.
#
# Cut `x` and `y` along time into windows of `window` steps; the last one may be shorter. Go through them
# once, in their order: run the model on the window from the state in which the last window ended, but a column in which a **new text** begins starts from a state of zeros. Update
# the parameters by the gradient of this window's loss alone. The gradient must not flow back into earlier windows. Return the list of the losses, one number a window.
#
# Everything is allowed.


# %% solution="truncated_bptt"
def truncated_bptt(model, loss_function, optimizer, x, y, begins, window):
    """One pass over x and y in windows: a list of losses."""
    ### BEGIN SOLUTION
    h, losses = None, []
    pieces = (each.split(window) for each in (x, y, begins))
    for inputs, targets, new in zip(*pieces, strict=True):
        if h is not None:
            h = h.detach().masked_fill(new[0].unsqueeze(-1), 0.0)
        outputs, h = model(inputs, h)
        loss = loss_function(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% tests="truncated_bptt" points=3
check.truncated_bptt(truncated_bptt)
### BEGIN HIDDEN TESTS
check.truncated_bptt(truncated_bptt, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ### The training
#
# The task: 32 streams of random symbols, four of them; name at each step the symbol of **five** steps before. `check.trained(loop, window, rate, seed)` trains an RNN of 48 units by your
# loop and Adam, on 3,000 steps of every stream, in some seconds, and returns it; `check.right(model)` is the share that it recalls in new streams. Whatever the window, the model reads the same: what changes is
# how far a gradient reaches and how many updates there are. Return a dict with a `"window"`, 1 to 64, and a `"rate"`.
#
# The last check trains your choice with three seeds of its own, 11 to 13: choose with others. At least 90 % have to be recalled with **each** seed. Where do windows fail that are too short, and
# where those that are too long?


# %% solution="chosen_window"
def chosen_window():
    """What is trained: a dict."""
    ### BEGIN SOLUTION
    return {"window": 15, "rate": 0.004}
    ### END SOLUTION


# %% tests="chosen_window" points=2
check.reached(truncated_bptt, chosen_window)
### BEGIN HIDDEN TESTS
# A window of five steps holds no symbol together with the place where it is asked for: no gradient
# says what should have been kept. One of 64 steps holds plenty, but leaves only 47 updates.
check.truncated_bptt(truncated_bptt, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Backpropagation through time by hand
#
# *Goal: compute the gradient of a recurrent network without the engine. Hard, 35 minutes, 5 points.*
#
# This cell keeps a part of its old state: with a number `leak` $= \alpha$ above 0 and at most 1 ($\alpha = 1$ is the cell of the chapter),
#
# $$h_t = (1 - \alpha)\, h_{t-1} + \alpha \tanh(a_t), \qquad a_t = x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b .$$
#
# A forward pass is done. You get the states `states` $(T, B, H)$ (row 0 is $h_1$), the first state `h0` $(B, H)$, `W_hh` $(H, H)$, `leak`, and `grad_states` $(T, B, H)$: the
# gradient of the loss with respect to each state as far as it reaches the loss **directly**, through the output at that step, not through later states. Return two tensors: $\partial L
# / \partial W_{hh}$, $(H, H)$, and $\partial L / \partial h_0$, $(B, H)$.
#
# For one sequence and $\alpha = 1$, [section 6 of the chapter](../../notebooks/01_rnn.ipynb#6.-Backpropagation-through-time) derives what you need. Here there are $B$ of them, each a row, and the gradient of $W_{hh}$ is the sum over all. The inputs are not given, and not
# needed: how do you get at $\tanh(a_t)$? And what does a small $\alpha$ do to a gradient that has far to go?
#
# Not allowed: `nn.RNN` (the operation `rnn`) and the engine's `backward`, which this exercise is about.


# %% solution="backprop_through_time"
def backprop_through_time(states, h0, W_hh, leak, grad_states):
    """The gradients of the loss with respect to W_hh (H, H) and h0 (B, H)."""
    ### BEGIN SOLUTION
    grad_W_hh = mt.zeros_like(W_hh)
    from_later = mt.zeros_like(h0)  # what comes back through the next state, (B, H)
    for t in reversed(range(len(states))):
        before = states[t - 1] if t > 0 else h0
        u = (states[t] - (1 - leak) * before) / leak  # tanh(a_t), (B, H)
        grad_h = grad_states[t] + from_later  # (B, H)
        grad_a = leak * (1 - u**2) * grad_h  # (B, H)
        grad_W_hh = grad_W_hh + grad_a.T @ before  # (H, H), summed over the batch
        from_later = grad_a @ W_hh + (1 - leak) * grad_h  # two ways back
    return grad_W_hh, from_later
    ### END SOLUTION


# %% tests="backprop_through_time" points=5
check.backprop_through_time(backprop_through_time)
### BEGIN HIDDEN TESTS
# tanh(a_t) = (h_t - (1 - alpha) h_(t-1)) / alpha. On the way past the tanh, a gradient is multiplied by
# 1 - alpha a step and by nothing else: with a small alpha it lives long. Chapter 02 makes a gate of it.
check.backprop_through_time(backprop_through_time, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Temperature, top-k and top-p
#
# *Goal: turn scores into the distribution to sample from. Medium, 25 minutes, 3 points.*
#
# `scores` is $(B, V)$. Return probabilities $(B, V)$, after these steps, in this order:
#
# 1. divide the scores by `temperature`; at temperature 0 the likeliest token of each row has probability 1, whatever comes next;
# 2. unless `top_k` (1 to $V$) is None, only the `top_k` highest scores of each row stay possible;
# 3. softmax: each row is a distribution over what stayed possible;
# 4. unless `top_p` (above 0, at most 1) is None, only the fewest most probable tokens whose probabilities add up to at least `top_p` stay
#    possible, and what is left of each row is divided by its sum.
#
# What is no longer possible has probability 0, and every token keeps its place in the row. There are no ties between scores, and they may be in the thousands.
#
# Everything is allowed. Useful: `topk`, `sort(dim, descending=True)`, which also returns the order, `cumsum`,
# `gather`, `masked_fill`, and `order.argsort(-1)`, the place of each token in the sorted row.


# %% solution="sampling_distribution"
def sampling_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    """The probabilities (B, V) to sample the next token from."""
    ### BEGIN SOLUTION
    if temperature == 0:
        return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    scores = scores / temperature
    if top_k is not None:
        smallest_kept = scores.topk(top_k, dim=-1)[0][:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < smallest_kept, -mt.inf)
    probabilities = scores.softmax(dim=-1)
    if top_p is not None:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        likelier = ordered.cumsum(dim=-1) - ordered  # what the tokens before each one have together
        kept = (likelier < top_p).gather(-1, order.argsort(dim=-1))
        probabilities = probabilities * kept
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return probabilities
    ### END SOLUTION


# %% tests="sampling_distribution" points=3
check.sampling_distribution(sampling_distribution)
### BEGIN HIDDEN TESTS
check.sampling_distribution(sampling_distribution, hidden=True)
### END HIDDEN TESTS
