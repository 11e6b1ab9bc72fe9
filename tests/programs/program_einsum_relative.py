"""Attention by einsum with relative positions, experts chosen by top-k, and tensor idioms."""

import math

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F


class RelativeAttention(nn.Module):
    def __init__(self, dim, heads, max_distance=4):
        super().__init__()
        self.heads = heads
        self.max_distance = max_distance
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.fc_out = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.Tensor(2 * max_distance + 1, dim // heads))
        nn.init.xavier_uniform_(self.table)
        self.bias = nn.Parameter(torch.zeros(heads, 2 * max_distance + 1))

    def positions(self, length):
        rows, columns = torch.meshgrid(torch.arange(length), torch.arange(length), indexing="ij")
        distance = torch.clamp(columns - rows, -self.max_distance, self.max_distance)
        return distance + self.max_distance

    def forward(self, x, mask):
        n, length, dim = x.shape
        q, k, v = [
            f(x).reshape(n, length, self.heads, dim // self.heads)
            for f in (self.query, self.key, self.value)
        ]
        energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        index = self.positions(length)
        relative = torch.einsum("nqhd,rd->nhqr", q, self.table)
        energy = energy + relative.gather(-1, index.expand(n, self.heads, length, length))
        energy = energy + self.bias.index_select(1, index.view(-1)).view(
            1, self.heads, length, length
        )
        energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / math.sqrt(dim), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, v]).reshape(n, length, dim)
        return self.fc_out(out)


class Experts(nn.Module):
    """Each token goes to its best two of several small networks."""

    def __init__(self, dim, count=3):
        super().__init__()
        self.router = nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(dim, dim), activation)
                for name, activation in zip(
                    ["tanh", "silu", "sigmoid"], [nn.Tanh(), nn.SiLU(), nn.Sigmoid()], strict=True
                )
            }
        )

    def forward(self, x):
        flat = x.view(-1, x.size(-1))
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=1), 2)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        result = torch.zeros_like(flat)
        load = torch.zeros(len(self.experts))
        for i, expert in enumerate(self.experts.values()):
            tokens, nth = torch.where(chosen == i)
            if tokens.numel() == 0:
                continue
            result.index_add_(0, tokens, expert(flat[tokens]) * weights[tokens, nth, None])
            load[i] += tokens.size(0)
        return result.view_as(x), load / load.sum()


class Model(nn.Module):
    def __init__(self, vocab=8, dim=16):
        super().__init__()
        table = torch.linspace(-1, 1, vocab * dim).view(vocab, dim).sin()
        self.fixed = nn.Embedding.from_pretrained(table, freeze=True)
        self.scale = nn.Parameter(torch.full((1,), 2.0))
        self.attention = RelativeAttention(dim, 2)
        self.experts = Experts(dim)
        self.norm = nn.LayerNorm(dim)
        self.relu = nn.ReLU()
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        length = ids.size(-1)
        mask = torch.tril(torch.ones((length, length))).expand(ids.size(0), 1, length, length)
        x = self.fixed(ids) * self.scale
        x = self.norm(x + self.attention(x, mask))
        y, load = self.experts(x)
        shifted = torch.roll(y, 1, dims=1)
        shifted[:, 0] = 0
        return nn.LogSoftmax(dim=-1)(self.out(self.relu(x + y + shifted))), load


def idioms():
    """Small tensor manipulations of such programs, with results that can be told in advance."""
    x = torch.zeros(3, 4)
    x[0] += 1
    x[:, 1] -= torch.arange(3.0)
    x[x < 0] *= 2
    y = torch.eye(3)[torch.LongTensor([2, 0])]
    z = torch.empty(2, 3).fill_(0.5).mul_(2).sub_(y).abs_()
    first, second = torch.chunk(torch.arange(8.0).view(2, 4), 2, dim=1)
    ranks = torch.argsort(torch.argsort(torch.FloatTensor([0.3, 0.1, 0.2])))
    flags = torch.tensor([0, 1, 2]).bool() & ~torch.tensor([False, False, True])
    counts = torch.zeros(4).scatter_add(0, torch.tensor([1, 3, 1]), torch.ones(3))
    mean, std = x.mean(), x.std(unbiased=False)
    normal = (x - mean) / std
    return [
        *x.view(-1).tolist(),
        *z.flatten().tolist(),
        *(first.flip(1) @ second.t()).flatten().tolist(),
        *ranks.tolist(),
        *flags.int().tolist(),
        *counts.tolist(),
        normal.var(unbiased=False).item(),
        x.norm().item(),
        torch.prod(torch.tensor([1, 2, 3])).item(),
        torch.sign(torch.tensor(-3.0)).item() + torch.floor(torch.tensor(2.7)).item(),
        len(torch.nonzero(x)),
        (torch.isnan(torch.tensor([0.0, float("nan")])).sum() + torch.inf > 5).item(),
        torch.equal(torch.stack(x.unbind(0)), x) and torch.allclose(x.T.T.contiguous(), x),
        torch.ones(2, dtype=torch.uint8).type(torch.float64).dtype == torch.float64,
        *torch.outer(torch.ones(2), torch.sqrt(torch.tensor([4.0, 9.0]))).view(-1).tolist(),
        *torch.randperm(3, generator=torch.Generator().manual_seed(0)).sort()[0].tolist(),
        torch.bernoulli(torch.ones(2)).sum().item(),
        x.new_zeros(2, 2).repeat(1, 2).shape[1],
        torch.rand(2, 2).ndim + torch.randn(3).dim(),
        *torch.max(torch.tensor([[1, 5], [7, 2]]), 1)[1].tolist(),
        torch.min(torch.tensor([[1, 5], [7, 2]])).item(),
        F.mse_loss(torch.ones(2), torch.zeros(2)).item(),
        nn.MSELoss()(torch.ones(2), torch.zeros(2)).item(),
        *nn.Softmax(dim=-1)(torch.zeros(2)).tolist(),
        *torch.permute(torch.arange(4).view(2, 2), (1, 0)).reshape(-1).tolist(),
    ]


def build():
    return Model()


def run(model):
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.02)
    losses = []
    ids = (torch.arange(6)[None, :] * torch.arange(1, 8)[:, None]) % 8
    for _ in range(16):
        log_probs, load = model(ids[:, :-1])
        loss = F.nll_loss(log_probs.view(-1, 8), ids[:, 1:].contiguous().view(-1))
        loss += 0.01 * (load * load).sum() + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    one_hot = F.one_hot(ids, num_classes=8).float()
    return {
        "losses": losses,
        "load": load.sum().item(),
        "one hot": one_hot.sum(-1).numpy(),
        "frozen": model.fixed.weight.grad is None,
        "idioms": [float(v) for v in idioms()],
    }
