"""Decoding: tokens out of a model that gives scores for the next one.

The model comes as a function ``step(tokens, state)``. It gets all tokens so far, (B, T), and the
state that it returned the time before (at first the argument ``state``), and returns the scores of
the next token, (B, V) or those of all positions (B, T, V), and the new state::

    def step(tokens, state):               # a language model without a state
        return model(tokens), None

    def step(tokens, h):                   # a recurrent one: only what it has not read yet
        return rnn(tokens if h is None else tokens[:, -1:], h)

    def step(tokens, memory):              # a decoder that attends to the encoder's output
        return model.decode(tokens, memory), memory

A state is a tensor, or tuples, lists and dicts of tensors (a key-value cache), or None. Beam search
reorders it; what a step needs of each sentence must therefore be in the state.
"""

import math

import minitorch as mt


def top_k_filter(logits, k):
    """The scores (..., V) with all but the ``k`` largest set to minus infinity (Fan et al., 2018).

    Scores that equal the k-th largest all stay. ::

        probabilities = top_k_filter(logits, 40).softmax(-1)
    """
    if k < 1:
        raise ValueError(f"top-k needs k of at least 1, got {k}")
    smallest = logits.topk(min(k, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < smallest, -math.inf)


def top_p_filter(logits, p):
    """The scores (..., V) without the tail: the likeliest tokens stay until they make up ``p``.

    What stays is the smallest set with a probability of at least p (the "nucleus", Holtzman et
    al., 2020), and whatever equals its least likely member. ::

        probabilities = top_p_filter(logits, 0.9).softmax(-1)
    """
    if not 0 < p <= 1:
        raise ValueError(f"top-p needs 0 < p <= 1, got {p}")
    if p == 1:
        return logits
    ordered = logits.sort(descending=True).values
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    count = (before < p).sum(-1, keepdim=True)
    return logits.masked_fill(logits < ordered.gather(-1, count - 1), -math.inf)


def greedy(step, prompt, max_new_tokens, *, end=None, pad=None, state=None):
    """Append the likeliest token, again and again: (B, T) -> (B, T + n), n <= ``max_new_tokens``.

    A row is finished after the token ``end``; then it is filled with ``pad`` (``end`` if None)
    until all rows are finished. Of equal scores the first wins. ::

        start = minitorch.full((len(source), 1), vocabulary["<s>"])
        tokens = greedy(step, start, 50, end=vocabulary["</s>"], state=model.encode(source))
    """
    return _append(lambda logits: logits.argmax(-1), step, prompt, max_new_tokens, end, pad, state)


def sample(
    step,
    prompt,
    max_new_tokens,
    *,
    temperature=1.0,
    top_k=None,
    top_p=None,
    generator=None,
    end=None,
    pad=None,
    state=None,
):
    """Append tokens drawn from softmax(logits / ``temperature``); else as ``greedy``.

    ``top_k`` and ``top_p`` filter the scores first, see ``top_k_filter`` and ``top_p_filter``. ::

        generator = minitorch.Generator().manual_seed(0)
        tokens = sample(step, prompt, 100, temperature=0.8, top_p=0.9, generator=generator)
        print("".join(vocabulary.decode(tokens[0])))
    """
    if temperature <= 0:
        raise ValueError(
            f"temperature must be positive, got {temperature}; its limit 0 is greedy()"
        )

    def choose(logits):
        logits = logits / temperature
        if top_k is not None:
            logits = top_k_filter(logits, top_k)
        if top_p is not None:
            logits = top_p_filter(logits, top_p)
        return mt.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]

    return _append(choose, step, prompt, max_new_tokens, end, pad, state)


@mt.no_grad
def _append(choose, step, tokens, max_new_tokens, end, pad, state):
    _check(tokens, max_new_tokens)
    pad = end if pad is None else pad
    finished = None
    for _ in range(max_new_tokens):
        logits, state = step(tokens, state)
        chosen = choose(_last(logits, tokens))
        if end is not None:
            if finished is not None:
                chosen = chosen.masked_fill(finished, pad)
            ended = chosen == end
            finished = ended if finished is None else finished | ended
        tokens = mt.cat([tokens, chosen.unsqueeze(1)], dim=1)
        if end is not None and finished.all():
            break
    return tokens


@mt.no_grad
def beam_search(
    step,
    prompt,
    max_new_tokens,
    *,
    beams=4,
    alpha=0.6,
    end=None,
    pad=None,
    state=None,
    batch_axis=0,
):
    """The best of many hypotheses: tokens (B, beams, T + n) and scores (B, beams), best first.

    In each step every open hypothesis (``beams`` a row, B in all) is continued by every token, and
    the ``beams`` likeliest continuations are kept; those that end are put aside. The score of a
    hypothesis Y of n new tokens, ``end`` included, is log P(Y) / ((5 + n) / 6)^alpha (Wu et al.,
    2016, section 7), which keeps long ones from losing for their length alone; alpha = 0 is log
    P(Y). The search stops when no open hypothesis can come among the best, or at
    ``max_new_tokens``, where open ones count as they are. Places that no hypothesis takes have the
    score minus infinity. Of equal scores the first wins.

    ``step`` gets (B * beams, T) tokens and a state with as many rows along ``batch_axis`` (1 for
    the (layers, B, H) of ``nn.LSTM``); the ``state`` given here has B. ::

        tokens, scores = beam_search(step, start, 50, beams=5, end=2, state=model.encode(source))
        best = tokens[:, 0]
    """
    _check(prompt, max_new_tokens)
    if beams < 1:
        raise ValueError(f"beam_search needs at least one beam, got {beams}")
    if alpha < 0:
        raise ValueError(f"alpha must not be negative, got {alpha}")
    batch, device = prompt.shape[0], prompt.device
    pad = end if pad is None else pad
    rows = mt.arange(batch, device=device).unsqueeze(1).expand(batch, beams).flatten()
    first_row = rows[::beams].unsqueeze(1) * beams  # (B, 1), of each sentence's beams
    tokens = prompt[rows]  # (B * K, T), the open hypotheses
    state = reorder(state, rows, batch_axis, batch)
    log_p = mt.full((batch, beams), -math.inf, device=device)  # (B, K) of the open hypotheses
    log_p[:, 0] = 0
    closed_tokens = tokens.view(batch, beams, -1)  # (B, K, T), the best that have ended
    closed = mt.full_like(log_p, -math.inf)  # (B, K), their scores
    longest = ((5 + max_new_tokens) / 6) ** alpha

    for n in range(1, max_new_tokens + 1):
        logits, state = step(tokens, state)
        next_log_p = _last(logits, tokens).log_softmax(-1).view(batch, beams, -1)  # (B, K, V)
        size = next_log_p.shape[-1]
        dead = log_p.unsqueeze(-1) == -math.inf
        candidates = (log_p.unsqueeze(-1) + next_log_p).masked_fill(dead, -math.inf)
        log_p, place = candidates.flatten(1).topk(beams)  # (B, K)
        rows = (first_row + place // size).flatten()
        tokens = mt.cat([tokens[rows], (place % size).view(-1, 1)], dim=1)
        state = reorder(state, rows, batch_axis, batch * beams)

        over = mt.full_like(log_p, n == max_new_tokens, dtype=mt.bool)
        if end is not None:
            over = over | (tokens[:, -1].view(batch, beams) == end)
        scores = (log_p / ((5 + n) / 6) ** alpha).masked_fill(~over, -math.inf)
        closed, place = mt.cat([closed, scores], dim=1).topk(beams)
        filled = mt.full((batch, beams, 1), pad or 0, device=device)
        closed_tokens = mt.cat([closed_tokens, filled], dim=2)  # (B, K, T + n)
        place = place.unsqueeze(2).expand(closed_tokens.shape)
        closed_tokens = mt.cat([closed_tokens, tokens.view(batch, beams, -1)], dim=1)
        closed_tokens = closed_tokens.gather(1, place)
        log_p = log_p.masked_fill(over, -math.inf)
        if (closed[:, -1] >= log_p.amax(1) / longest).all():
            break
    return closed_tokens, closed


def reorder(state, rows, axis=0, count=None):
    """The ``rows`` of every tensor in tuples, lists and dicts, along ``axis``; the rest unchanged.

    ValueError where a tensor does not have ``count`` rows there. ::

        hidden, cell = reorder((hidden, cell), mt.tensor([0, 0, 1]), axis=1)
    """
    if isinstance(state, mt.Tensor):
        if count is not None and state.shape[axis] != count:
            raise ValueError(
                f"the state holds a tensor of shape {tuple(state.shape)}; along axis {axis} there "
                f"must be {count} rows, one for each row of tokens (see batch_axis)"
            )
        return state.index_select(axis, rows)
    if isinstance(state, dict):
        return {key: reorder(value, rows, axis, count) for key, value in state.items()}
    if isinstance(state, (tuple, list)):
        return type(state)([reorder(value, rows, axis, count) for value in state])
    return state


def _last(logits, tokens):
    """The scores of the next token, (B, V)."""
    if logits.ndim not in (2, 3) or logits.shape[0] != tokens.shape[0]:
        raise ValueError(
            f"step() got tokens of shape {tuple(tokens.shape)}, so it must return scores of shape "
            f"({tokens.shape[0]}, V) or ({tokens.shape[0]}, T, V); got {tuple(logits.shape)}"
        )
    return logits[:, -1] if logits.ndim == 3 else logits


def _check(prompt, max_new_tokens):
    if prompt.ndim != 2 or not prompt.shape[1]:
        raise ValueError(f"prompt must have the shape (B, T) with T >= 1, got {prompt.shape}")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
