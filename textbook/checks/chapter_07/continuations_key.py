"""Answers to the exercises of ``continuations.py``."""

import minitorch as mt
from minitorch.nn.utils.rnn import pad_sequence
from textbook.checks.chapter_07.continuations import _prompt_cases, continue_prompts


@continue_prompts.answer(
    hidden_cases=lambda draw: _prompt_cases(
        draw, more=[((6, 2, 4, 1), 6), ((4, 4), 1), ((2, 7), 9)]
    )
)
def continue_prompts(model, prompts, end, count):
    """Prompts, lists of tokens, give a list of new tokens for each, up to count or to end."""
    new = [[] for _ in prompts]
    for _ in range(count):
        rows = [prompt + more for prompt, more in zip(prompts, new, strict=True)]
        n = max(len(row) for row in rows)
        tokens = mt.tensor([[0] * (n - len(row)) + row for row in rows])
        lengths = mt.tensor([len(row) for row in rows])
        real = mt.arange(n) >= n - lengths.unsqueeze(1)  # (B, n): padding stands in front
        causal = mt.ones(n, n, dtype=mt.bool).tril()
        scores = model(tokens, causal & real[:, None, None])  # (B, n, V)
        for more, token in zip(new, scores[:, -1].argmax(dim=-1).tolist(), strict=True):
            if not more or more[-1] != end:
                more.append(token)
    return new


# Right in another way


def continued_with_padding_at_the_end(model, prompts, end, count):
    rows, open_rows = [list(prompt) for prompt in prompts], set(range(len(prompts)))
    for _ in range(count):
        if not open_rows:
            break
        n = max(map(len, rows))
        batch = pad_sequence([mt.tensor(row) for row in rows], batch_first=True, padding_value=3)
        allowed = mt.ones(n, n, dtype=mt.bool).tril().expand(len(rows), 1, n, n)
        scores = model(batch, allowed)
        for b in sorted(open_rows):
            token = scores[b, len(rows[b]) - 1].argmax().item()
            rows[b].append(token)
            if token == end:
                open_rows.discard(b)
    return [row[len(prompt) :] for row, prompt in zip(rows, prompts, strict=True)]


def continued_in_tensors(model, prompts, end, count):
    """Room for all new tokens from the start; what comes after the end is cut off."""
    n = max(map(len, prompts))
    real = mt.tensor([[False] * (n - len(p)) + [True] * len(p) for p in prompts])
    tokens = mt.tensor([[1] * (n - len(p)) + p for p in prompts])
    for _ in range(count):
        n = tokens.shape[1]
        allowed = mt.ones(n, n).tril().bool() & real[:, None, None, :]
        token = model(tokens, allowed)[:, -1].argmax(-1, keepdim=True)
        tokens, real = mt.cat([tokens, token], dim=1), mt.cat([real, token >= 0], dim=1)
    new = tokens[:, -count:].tolist()
    return tuple(row[: row.index(end) + 1] if end in row else row for row in new)


right = {
    "continue_prompts": [continued_with_padding_at_the_end, continued_in_tensors],
}
