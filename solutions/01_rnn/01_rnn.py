# %% [markdown]
# # Exercises 01: recurrent neural networks
#
# Ten exercises, from easy to hard, 40 points, about three hours. They belong to
# [chapter 01](../../notebooks/01_rnn.ipynb) and stand alone: none needs the answer to another.
#
# **How it works.** Replace `raise NotImplementedError` by your answer and keep the first line of the
# function. Run the cell, then the check below it. The check looks at what your function does, on
# random inputs of several sizes: any way of writing it that gives the right result is right. A wrong
# answer is told what it looks like. What you see passing are the *public checks*; when the set is
# graded, the same checks run once more on other numbers and sizes. Where an exercise does not allow an
# operation, the check records what runs inside your function, under whatever name you call it. In
# exercises 1, 2, 5 and 6 the gradients of your results are compared, too: the results must stay tensors
# that the library's operations have made of the inputs, so keep away from `.item()`, `.detach()` and
# NumPy there.
#
# **When something fails** that should not, restart the kernel and run all cells from the top.
#
# **Shapes.** As in the chapter, time comes first: $T$ steps, $B$ sequences side by side, $d$ numbers per
# input, $H$ units per state, $V$ tokens in the vocabulary. Inputs are $(T, B, d)$, states $(T, B, H)$.

# %%
import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks import chapter_01 as check
from textbook.checks import progress

progress.show("01")

# %% [markdown]
# ## 1. One step
#
# *Goal: write the recurrent cell. Easy, 10 minutes, 2 points.*
#
# $$h_t = \tanh(x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b)$$
#
# for a whole batch at once: `x_t` is $(B, d)$, `h` is $(B, H)$, `W_ih` $(H, d)$, `W_hh` $(H, H)$, `b` $(H)$.
# Return the new state, $(B, H)$.
#
# Not allowed: `F.linear`, `nn.Linear`, `nn.RNNCell` and `nn.RNN` (the operations `linear` and `rnn`).


# %% solution="rnn_cell"
def rnn_cell(x_t, h, W_ih, W_hh, b):
    """One step: input (B, d) and state (B, H) give the next state (B, H)."""
    ### BEGIN SOLUTION
    return (x_t @ W_ih.T + h @ W_hh.T + b).tanh()
    ### END SOLUTION


# %% tests="rnn_cell" points=2
check.rnn_cell(rnn_cell)
### BEGIN HIDDEN TESTS
check.rnn_cell(rnn_cell, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. All steps
#
# *Goal: unroll the cell over a sequence. Easy, 10 minutes, 3 points.*
#
# `x` is $(T, B, d)$. Start from `h0` $(B, H)$, or from zeros where it is None, apply the step of exercise 1 to
# `x[0]`, `x[1]`, ..., and return all states $h_1 \dots h_T$ as one tensor $(T, B, H)$. The gradient must be able
# to flow back through all steps.
#
# Not allowed: `nn.RNN` (the operation `rnn`).


# %% solution="unroll"
def unroll(x, W_ih, W_hh, b, h0=None):
    """Inputs (T, B, d) give the states h_1 ... h_T, (T, B, H)."""
    ### BEGIN SOLUTION
    h = mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0
    states = []
    for x_t in x:
        h = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()  # (B, H)
        states.append(h)
    return mt.stack(states)  # (T, B, H)
    ### END SOLUTION


# %% tests="unroll" points=3
check.unroll(unroll)
### BEGIN HIDDEN TESTS
check.unroll(unroll, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Clipping
#
# *Goal: clip gradients by their global norm. Easy, 10 minutes, 3 points.*
#
# `gradients` is a list of tensors of any shapes. Think of all their elements as one long vector $g$ with the
# Euclidean norm $\lVert g \rVert$. Where the norm is above `max_norm`, scale every tensor by
# `max_norm` $/ \lVert g \rVert$, else leave them as they are. Return a new list; do not change the tensors
# that you were given.
#
# Not allowed: `norm` and `clip_grad_norm_` (the operation `norm`). Write the norm out.


# %% solution="clip_gradients"
def clip_gradients(gradients, max_norm):
    """A list of tensors whose joint norm is at most max_norm."""
    ### BEGIN SOLUTION
    norm = sum((g**2).sum().item() for g in gradients) ** 0.5
    if norm <= max_norm:
        return gradients
    return [g * (max_norm / norm) for g in gradients]
    ### END SOLUTION


# %% tests="clip_gradients" points=3
check.clip_gradients(clip_gradients)
### BEGIN HIDDEN TESTS
check.clip_gradients(clip_gradients, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. From many states to one vector
#
# *Goal: pool the states of padded sequences. Medium, 15 minutes, 3 points.*
#
# To classify sequences of different lengths in one batch, the short ones are padded at their end.
# `states` is $(T, B, H)$, `lengths` $(B)$ holds integers from 1 to $T$: sequence $i$ has the steps 0 to
# `lengths[i] - 1`, what comes after them is padding. Return two tensors of shape $(B, H)$: the
# **last state** of each sequence, and the **mean** of its states. Neither may depend on the padding.
#
# Everything is allowed. A loop over the batch will do; it also goes without.


# %% solution="pool_states"
def pool_states(states, lengths):
    """States (T, B, H) and lengths (B) give the last state (B, H) and the mean state (B, H)."""
    ### BEGIN SOLUTION
    steps, batch, _ = states.shape
    last = states[lengths - 1, mt.arange(batch)]  # (B, H)
    inside = mt.arange(steps).unsqueeze(1) < lengths  # (T, B)
    mean = (states * inside.unsqueeze(-1)).sum(dim=0) / lengths.unsqueeze(1)  # (B, H)
    return last, mean
    ### END SOLUTION


# %% tests="pool_states" points=3
check.pool_states(pool_states)
### BEGIN HIDDEN TESTS
check.pool_states(pool_states, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The loss of a batch of sequences
#
# *Goal: average the cross-entropy over tokens, not over padding. Medium, 15 minutes, 4 points.*
#
# `scores` $(T, B, V)$ are the scores (logits) for each token, `targets` $(T, B)$ the right tokens, `lengths` $(B)$ as
# in exercise 4. Return
#
# $$L = -\frac{1}{N} \sum_{i=1}^{B} \; \sum_{t < \text{lengths}_i} \log \mathrm{softmax}(\text{scores}_{t,i})[\text{targets}_{t,i}]$$
#
# where $N$ is the number of tokens that are no padding. In the padding, `targets` holds arbitrary tokens.
#
# Not allowed: `F.cross_entropy` (the operation `cross_entropy`). `log_softmax` is allowed.


# %% solution="sequence_loss"
def sequence_loss(scores, targets, lengths):
    """The mean cross-entropy over the tokens that are no padding, one number."""
    ### BEGIN SOLUTION
    log_p = F.log_softmax(scores, dim=-1)  # (T, B, V)
    losses = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (T, B)
    inside = mt.arange(len(scores)).unsqueeze(1) < lengths  # (T, B)
    return (losses * inside).sum() / lengths.sum()
    ### END SOLUTION


# %% tests="sequence_loss" points=4
check.sequence_loss(sequence_loss)
### BEGIN HIDDEN TESTS
check.sequence_loss(sequence_loss, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Deep, and in both directions
#
# *Goal: stack bidirectional layers. Medium, 15 minutes, 4 points.*
#
# `layers` is a list of pairs `(forward, backward)`. Each of the two is a function that runs an RNN over its
# input **from the first step to the last**: `forward(x)` gives all states, $(T, B, H)$. (You wrote such a function
# in exercise 2; here it comes with its weights.)
#
# In each layer, `forward` reads the sequence from left to right and `backward` reads it from right to left. The
# output of the layer at step $t$ is the forward state that has read the steps up to $t$, followed by
# the backward state that has read the steps from the end down to $t$: $(T, B, 2H)$. It is the input of the next
# layer. Return the output of the last layer.
#
# Everything is allowed. `x.flip(0)` reverses the first axis.


# %% solution="deep_bidirectional"
def deep_bidirectional(x, layers):
    """Inputs (T, B, d) give the output of the last layer, (T, B, 2 H)."""
    ### BEGIN SOLUTION
    for forward, backward in layers:
        past = forward(x)  # (T, B, H)
        future = backward(x.flip(0)).flip(0)  # (T, B, H)
        x = mt.cat([past, future], dim=-1)  # (T, B, 2 H)
    return x
    ### END SOLUTION


# %% tests="deep_bidirectional" points=4
check.deep_bidirectional(deep_bidirectional)
### BEGIN HIDDEN TESTS
check.deep_bidirectional(deep_bidirectional, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. The probability of a sequence
#
# *Goal: apply the chain rule with a start token and teacher forcing. Medium, 15 minutes, 4 points.*
#
# `step` is one step of an RNN language model: `scores, h = step(token, h)` reads one token of each sequence, $(B)$,
# and the state (None at first), and returns the scores $(B, V)$ of the **next** token and the new state.
# `tokens` is $(T, B)$, `start` is the number of the start token, which stands before every sequence and is not part
# of it. Return $\log P(x_1, \dots, x_T) = \sum_t \log P(x_t \mid \text{start}, x_1, \dots, x_{t-1})$ for each
# sequence, a tensor $(B)$.
#
# Everything is allowed. `mt.full((batch,), start)` is a batch of start tokens.


# %% solution="sequence_log_probability"
def sequence_log_probability(step, tokens, start):
    """The log-probability of each sequence in tokens (T, B), a tensor (B)."""
    ### BEGIN SOLUTION
    batch = tokens.shape[1]
    previous, h, total = mt.full((batch,), start), None, 0
    for token in tokens:  # (B)
        scores, h = step(previous, h)  # (B, V)
        total = total + scores.log_softmax(dim=-1)[mt.arange(batch), token]
        previous = token
    return total
    ### END SOLUTION


# %% tests="sequence_log_probability" points=4
check.sequence_log_probability(sequence_log_probability)
### BEGIN HIDDEN TESTS
check.sequence_log_probability(sequence_log_probability, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Truncated backpropagation through time
#
# *Goal: write the training loop that carries the state and cuts the gradient. Medium, 20 minutes, 5 points.*
#
# `model(inputs, h)` runs a recurrent model over some steps, from state `h` (None at first), and returns two
# things: the outputs at these steps and the state at their end.
# `loss_function(outputs, targets)` gives the loss. `x` is $(T, B, d)$ and `y` $(T, B, 1)$.
#
# Cut `x` and `y` along time into windows of `window` steps; the last one may be shorter. Go through them
# once, in their order: run the model on the window from the state in which the last window ended, and
# update the parameters by the gradient of this window's loss alone. The gradient must not flow back into
# earlier windows. Return the list of the losses, one number a window.
#
# Everything is allowed.


# %% solution="truncated_bptt"
def truncated_bptt(model, loss_function, optimizer, x, y, window):
    """One pass over x and y in windows: a list of losses."""
    ### BEGIN SOLUTION
    h, losses = None, []
    for inputs, targets in zip(x.split(window), y.split(window), strict=True):
        outputs, h = model(inputs, h)
        h = h.detach()
        loss = loss_function(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% tests="truncated_bptt" points=5
check.truncated_bptt(truncated_bptt)
### BEGIN HIDDEN TESTS
check.truncated_bptt(truncated_bptt, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. Backpropagation through time by hand
#
# *Goal: compute the gradient of a recurrent network without the engine. Hard, 30 minutes, 6 points.*
#
# A forward pass is done: $h_t = \tanh(a_t)$, $a_t = x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + b$. You get the states `states`
# $(T, B, H)$ (row 0 is $h_1$), the first state `h0` $(B, H)$, `W_hh` $(H, H)$, and `grad_states` $(T, B, H)$: the
# gradient of the loss with respect to each state as far as it reaches the loss **directly**, through the
# output at that step, not through later states. Return two tensors: $\partial L / \partial W_{hh}$,
# $(H, H)$, and $\partial L / \partial h_0$, $(B, H)$.
#
# For one sequence, section 6 of the chapter derives what you need. Here there are $B$ of them, each a row, and the
# gradient of $W_{hh}$ is the sum over all.
#
# Not allowed: `nn.RNN` (the operation `rnn`) and the engine's `backward()`.


# %% solution="backprop_through_time"
def backprop_through_time(states, h0, W_hh, grad_states):
    """The gradients of the loss with respect to W_hh (H, H) and h0 (B, H)."""
    ### BEGIN SOLUTION
    grad_W_hh = mt.zeros_like(W_hh)
    from_later = mt.zeros_like(h0)  # what comes back through the next state, (B, H)
    for t in reversed(range(len(states))):
        grad_h = grad_states[t] + from_later  # (B, H)
        grad_a = (1 - states[t] ** 2) * grad_h  # (B, H)
        before = states[t - 1] if t > 0 else h0
        grad_W_hh = grad_W_hh + grad_a.T @ before  # (H, H), summed over the batch
        from_later = grad_a @ W_hh
    return grad_W_hh, from_later
    ### END SOLUTION


# %% tests="backprop_through_time" points=6
check.backprop_through_time(backprop_through_time)
### BEGIN HIDDEN TESTS
check.backprop_through_time(backprop_through_time, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. Temperature, top-k and top-p
#
# *Goal: turn scores into the distribution to sample from. Hard, 30 minutes, 6 points.*
#
# `scores` is $(B, V)$. Return probabilities $(B, V)$, after these steps, in this order:
#
# 1. divide the scores by `temperature`;
# 2. unless `top_k` is None, only the `top_k` highest scores of each row stay possible;
# 3. softmax: each row is a distribution over what stayed possible;
# 4. unless `top_p` is None, only the fewest most probable tokens whose probabilities add up to at least `top_p` stay
#    possible, and what is left of each row is divided by its sum.
#
# What is no longer possible has probability 0, and every token keeps its place in the row. There are no ties
# between scores.
#
# Everything is allowed. Useful: `topk`, `sort(dim, descending=True)`, which also returns the order, `cumsum`,
# `gather`, `masked_fill`, and `order.argsort(-1)`, the place of each token in the sorted row.


# %% solution="sampling_distribution"
def sampling_distribution(scores, temperature=1.0, top_k=None, top_p=None):
    """The probabilities (B, V) to sample the next token from."""
    ### BEGIN SOLUTION
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


# %% tests="sampling_distribution" points=6
check.sampling_distribution(sampling_distribution)
### BEGIN HIDDEN TESTS
check.sampling_distribution(sampling_distribution, hidden=True)
### END HIDDEN TESTS

# %% [markdown]
# With the cell, the loop, the loss, the clipping and the sampling written by yourself, nothing in chapter 01's language
# model is a black box any more. Chapter 02 gives the cell a better memory.
