"""Answers to the exercises of ``windows.py``."""

import minitorch as mt
from textbook.checks.chapter_01.windows import _window_cases, truncated_bptt

# Truncated backpropagation through time


@truncated_bptt.answer(
    hidden_cases=lambda draw: _window_cases(draw, more=[(3, 20, 2, 6), (1, 2, 3, 1)])
)
def truncated_bptt(model, loss_function, optimizer, x, y, begins, window):
    """One pass over x and y in windows: a list of losses."""
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


# Right in another way


def windows_by_range(model, loss_function, optimizer, x, y, begins, window):
    losses, h = [], None
    for start in range(0, len(x), window):
        optimizer.zero_grad()
        piece = slice(start, start + window)
        outputs, h = model(x[piece], h)
        loss = loss_function(outputs, y[piece])
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if start + window < len(x):
            h = h.detach() * (~begins[start + window]).float().reshape(1, -1, 1)
    return [loss.item() for loss in losses]


def windows_by_while(model, loss_function, optimizer, x, y, begins, window):
    """No detach() here: the state is rebuilt from its numbers."""
    losses, rest, targets, new, state = [], x, y, begins, None
    while len(rest):
        if state is not None:
            for column, fresh in enumerate(new[0].tolist()):
                if fresh:
                    state[:, column] = 0
        outputs, h = model(rest[:window], state)
        loss = loss_function(outputs, targets[:window])
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        optimizer.step()
        state = mt.tensor(h.tolist(), dtype=h.dtype)
        losses.append(float(loss))
        rest, targets, new = rest[window:], targets[window:], new[window:]
    return losses


right = {
    "truncated_bptt": [windows_by_range, windows_by_while],
}
