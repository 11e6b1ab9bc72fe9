"""A language model of reversible blocks, whose inputs are computed again from their outputs.

The blocks are one autograd.Function; the rest of the stack is checkpointed, the activation is a
Function too, and the classes are so many that their softmax is adaptive.
"""

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.autograd import Function
from minitorch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, LENGTH = 40, 16, 12


class Swish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s * (1 + x * (1 - s)))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(Swish.apply(self.up(self.norm(x))))


class Attention(nn.Module):
    def __init__(self, width, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * groups * self.size)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        x = self.norm(x)
        q = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        kv = self.key_value(x).view(batch, length, 2 * self.groups, self.size).transpose(1, 2)
        k, v = kv.chunk(2, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class ReversibleBlock(nn.Module):
    """y1 = x1 + f(x2), y2 = x2 + g(y1)."""

    def __init__(self, width):
        super().__init__()
        self.f, self.g = Attention(width), FeedForward(width)

    def forward(self, x1, x2):
        y1 = x1 + self.f(x2)
        return y1, x2 + self.g(y1)

    def backward_pass(self, y1, y2, dy1, dy2):
        with torch.enable_grad():
            y1.requires_grad_()
            gy1 = self.g(y1)
            torch.autograd.backward(gy1, dy2)
        with torch.no_grad():
            x2 = y2 - gy1
            dx1 = dy1 + y1.grad
        with torch.enable_grad():
            x2.requires_grad_()
            fx2 = self.f(x2)
            torch.autograd.backward(fx2, dx1)
        with torch.no_grad():
            x1 = y1.detach() - fx2
            dx2 = dy2 + x2.grad
        return x1, x2.detach(), dx1, dx2


class ReversibleFunction(Function):
    @staticmethod
    def forward(ctx, x1, x2, blocks):
        for block in blocks:
            x1, x2 = block(x1, x2)
        ctx.y1, ctx.y2, ctx.blocks = x1.detach(), x2.detach(), blocks
        return x1, x2

    @staticmethod
    def backward(ctx, dy1, dy2):
        y1, y2 = ctx.y1, ctx.y2
        for block in reversed(ctx.blocks):
            y1, y2, dy1, dy2 = block.backward_pass(y1, y2, dy1, dy2)
        return dy1, dy2, None


class Model(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, max_norm=4.0)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(ReversibleBlock(WIDTH) for _ in range(depth))
        self.mixed = nn.ModuleList(FeedForward(WIDTH) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, VOCABULARY, [8, 20], div_value=2.0)

    def features(self, ids, reversible=True):
        x = self.embedding(ids) + self.positions(torch.arange(ids.size(1)))
        if reversible:
            y1, y2 = ReversibleFunction.apply(x, x, self.blocks)
        else:
            y1 = y2 = x
            for block in self.blocks:
                y1, y2 = block(y1, y2)
        y = (y1 + y2) / 2
        for layer in self.mixed:
            y = y + (checkpoint(layer, y, use_reentrant=False) if reversible else layer(y))
        return self.norm(y)

    def forward(self, ids, targets, reversible=True):
        features = self.features(ids, reversible)
        return self.softmax(features.reshape(-1, WIDTH), targets.reshape(-1))


def sentences(count):
    start = torch.arange(count).unsqueeze(1)
    steps = torch.arange(LENGTH + 1).unsqueeze(0)
    ids = (start * 5 + steps * (1 + start % 3)) % VOCABULARY
    return ids[:, :-1], ids[:, 1:]


def build():
    return Model()


def run(model):
    inputs, targets = sentences(16)
    differences = []
    for reversible in (True, False):
        model.zero_grad()
        model(inputs, targets, reversible).loss.backward()
        differences.append([p.grad.clone() for p in model.parameters()])
    same = all(bool(torch.allclose(a, b, atol=1e-4)) for a, b in zip(*differences, strict=True))
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-2)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, 5)
    decay = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[5])
    losses, rates = [], []
    for _ in range(40):
        optimizer.zero_grad()
        output, loss = model(inputs, targets)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        rates.append(schedule.get_last_lr()[0])
    model.eval()
    with torch.no_grad():
        features = model.features(inputs).reshape(-1, WIDTH)
        total = model.softmax.log_prob(features).exp().sum(1)
        right = model.softmax.predict(features) == targets.reshape(-1)
    return {
        "losses": losses,
        "rates": rates,
        "same gradients": same,
        "total": total.numpy(),
        "right": right.float().mean().item() > 0.4,
    }
