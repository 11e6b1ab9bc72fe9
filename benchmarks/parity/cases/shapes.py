"""Shapes: views, joins, splits, copies."""

TABLE = {
    "size": """
        x(2, 3).size()
        x(2, 3).size(0), x(2, 3).size(-1), x(2, 3).size(dim=1)
        b, t = x(2, 3).size(); b * t
        isinstance(x(2, 3).size(), tuple)
        x(2, 3).size()[:-1] + (4,)
        !x(2, 3).size(2)
        """,
    "shape": """
        x(2, 3).shape
        x(2, 3).shape == (2, 3), x(2, 3).shape[-1], x().shape
        show(x(2, 3).shape)
        x(2, 3).shape.numel()
        *s, d = x(2, 3, 4).shape; s
        x(2, 3).shape[:1] + (5,)
        torch.Size([2, 3]) == x(2, 3).shape
        """,
    "dim": "x(2, 3).dim()\nx().dim()",
    "ndim": "x(2, 3).ndim\nx().ndim\nx(2, 3).ndimension()",
    "numel": "x(2, 3).numel()\nx().numel()\nx(0, 3).nelement()\ntorch.numel(x(2, 2))",
    "len": "len(x(3, 2))\nlen(x(0, 2))\n!len(x())",
    "iteration": """
        [a for a in x(3, 2)]
        a, b = x(2, 3); a * b
        [float(a) for a in x(3)]
        list(enumerate(x.ints(3)))
        list(zip(x(2), x.ints(2)))
        [i for i in x(0, 2)]
        list(reversed(x(3)))
        torch.stack([a.sum() for a in x(3, 4)])
        !list(x())
        """,
    "item": """
        x(1).item()
        x().item(), x.ints().item(), x.truths(1).item()
        type(x.ints().item()).__name__, type(x.truths().item()).__name__
        float(x()), int(x.ints(1)), bool(x.truths())
        [0, 1, 2][x.ints(high=3)]
        '%.3f' % x(1), f'{x().item():.2f}'
        x.double().item()
        !x(2).item()
        !bool(x(2))
        !x(0).item()
        !range(x())
        """,
    "view": """
        x(2, 6).view(3, 4)
        x(2, 6).view(-1)
        x(2, 6).view(2, -1, 3)
        x(2, 6).view((4, 3))
        x(2, 3, 4).view(2, -1)
        x(2, 6).view(x(4, 3).size())
        x(2, 6).view(2, 2, 3).transpose(1, 2)
        x(3).view(1, 1, -1)
        x().view(1)
        x(0, 3).view(3, 0)
        x(2, 3, 4).transpose(0, 1).view(3, 2, 2, 2)
        x(3, 1).expand(3, 4).view(3, 2, 2)
        a = x.plain(4); a.view(2, 2)[0, 0] = 9; a
        x(6).view_as(x(2, 3))
        x.ints(4).view(2, 2)
        x(2, 3)[:, :2].view(2, 2)
        x(1, 4).view(-1, 1, 2)
        !x(2, 3).t().view(6)
        !x(2, 3).view(4)
        !x(2, 3).view(-1, -1)
        !x(2, 3, 4).transpose(1, 2).view(2, 12)
        !x(0, 3).view(-1, 0)
        """,
    "reshape": """
        x(2, 6).reshape(3, 4)
        x(2, 3).t().reshape(6)
        torch.reshape(x(2, 3), (3, -1))
        x(2, 3).reshape(-1, 1)
        x(2, 3, 4).transpose(1, 2).reshape(2, 12)
        x(1).reshape(())
        x(0, 3).reshape(0)
        x(2, 3).reshape([6])
        !x(2, 3).reshape(4)
        !x(0, 3).reshape(-1, 0)
        """,
    "flatten": """
        x(2, 3, 4).flatten()
        x(2, 3, 4).flatten(1)
        torch.flatten(x(2, 3, 4), start_dim=0, end_dim=1)
        x(2, 3, 4).flatten(-2)
        x().flatten()
        x(2, 12).unflatten(1, (3, 4))
        """,
    "transpose": """
        x(2, 3).transpose(0, 1)
        x(2, 3, 4).transpose(-2, -1)
        torch.transpose(x(2, 3, 4), 0, 2)
        x(2, 3).transpose(0, 0)
        x(2, 3).transpose(dim0=0, dim1=1)
        x(2, 3).transpose(0, 1).is_contiguous()
        x(2, 3).swapaxes(0, 1)
        x(2, 3, 4).mT
        !x(2, 3).transpose(0, 2)
        """,
    "permute": """
        x(2, 3, 4).permute(2, 0, 1)
        x(2, 3, 4).permute((1, 0, 2))
        torch.permute(x(2, 3, 4), (0, 2, 1))
        x(2, 3, 4).permute(0, -1, 1)
        x(2, 3, 4).permute(1, 0, 2).contiguous().view(3, 8)
        x(2, 3, 4).movedim(0, 2)
        !x(2, 3).permute(0, 0)
        !x(2, 3).permute(0)
        """,
    "t": "x(2, 3).t()\nx(3).t()\nx().t()\ntorch.t(x(2, 3))\n!x(2, 3, 4).t()",
    "T": "x(2, 3).T\nx(3).T",
    "unsqueeze": """
        x(2, 3).unsqueeze(0)
        x(2, 3).unsqueeze(-1)
        x(2, 3).unsqueeze(1).unsqueeze(2)
        torch.unsqueeze(x(3), 0)
        x().unsqueeze(0)
        y = x.plain(3); y.unsqueeze_(0); y
        !x(2).unsqueeze(3)
        """,
    "squeeze": """
        x(1, 3, 1).squeeze()
        x(1, 3, 1).squeeze(0)
        x(1, 3, 1).squeeze(-1)
        x(1, 3, 1).squeeze(1)
        torch.squeeze(x(1, 1))
        x(1, 3, 1).squeeze((0, 2))
        x().squeeze()
        !x(1, 3).squeeze(2)
        """,
    "expand": """
        x(3, 1).expand(3, 4)
        x(3).expand(2, 3)
        x(1, 3).expand(-1, 3)
        x(3, 1).expand(3, -1)
        x(1, 1, 3).expand(2, -1, -1)
        x().expand(2, 2)
        x(3).expand_as(x(2, 3))
        x(1).expand(0)
        x(3, 1).expand((3, 2))
        torch.broadcast_to(x(3), (2, 3))
        !x(3).expand(4)
        !x(2, 3).expand(3)
        !x(3).expand(-1, 3)
        """,
    "repeat": """
        x(2, 3).repeat(2, 1)
        x(3).repeat(2, 2)
        x(2, 3).repeat(1, 1, 2)
        x(3).repeat(4)
        x(2, 3).repeat((2, 2))
        x(2).repeat(0)
        x(1, 2, 3).repeat(4, 1, 1)
        x().repeat(3)
        torch.tile(x(2, 3), (2,))
        !x(2, 3).repeat(2)
        """,
    "repeat_interleave": """
        x(3).repeat_interleave(2)
        torch.repeat_interleave(x(2, 3), 2, dim=0)
        x(2, 3).repeat_interleave(2, dim=-1)
        x(2, 3).repeat_interleave(2)
        torch.repeat_interleave(x(3), torch.tensor([0, 1, 2]))
        x(3, 2).repeat_interleave(torch.tensor([2, 1, 1]), dim=0)
        """,
    "cat": """
        torch.cat([x(2, 3), x(2, 3)])
        torch.cat((x(2, 3), x(2, 1)), dim=1)
        torch.cat((x(2, 3), x(2, 1)), 1)
        torch.cat([x(2, 3), x(2, 3)], -1)
        torch.cat([x(3)])
        a = x(2, 3); torch.cat([a, a])
        torch.cat([x(2, 3), x(0, 3)])
        torch.cat([x(0), x(2, 3)])  ## no gradient (None) where PyTorch gives zeros
        torch.cat([x.ints(2), x(2)])
        torch.concat([x(2), x(3)])
        torch.cat([x.ints(1, 2), torch.tensor([[7]])], dim=1)
        torch.cat([x(2, 3).t(), x(3, 2)], axis=0)
        torch.hstack([x(2, 3), x(2, 1)])
        torch.vstack([x(1, 3), x(2, 3)])
        !torch.cat([x(2, 3), x(2, 4)])
        !torch.cat([])
        !torch.cat([x(), x()])
        !torch.cat([x(2), x(2)], dim=1)
        !torch.cat([x(2), 3])
        """,
    "stack": """
        torch.stack([x(3), x(3)])
        torch.stack((x(2, 3), x(2, 3)), dim=1)
        torch.stack([x(2, 3), x(2, 3)], -1)
        torch.stack([x(), x()])
        torch.stack([-x(2, 2)[..., 1], x(2, 2)[..., 0]], dim=-1).flatten(-2)
        torch.stack(list(x(3, 2)))
        torch.stack([x(3), x.ints(3)])
        !torch.stack([x(3), x(4)])
        !torch.stack([])
        """,
    "split": """
        x(6).split(2)
        x(5, 2).split(2)
        torch.split(x(2, 6), 3, dim=1)
        x(2, 6).split([1, 2, 3], dim=1)
        a, b, c = x(2, 6).split(2, dim=-1); a * b + c
        a, b = x(2, 6).split(3, 1); a
        torch.split(x(3), 5)
        x(0).split(2)
        !x(6).split([1, 2])
        """,
    "chunk": """
        x(6).chunk(3)
        x(5, 2).chunk(2)
        x(2, 8).chunk(4, dim=1)
        torch.chunk(x(2, 6), 2, -1)
        a, b = x(2, 4).chunk(2, 1); torch.sigmoid(a) * torch.tanh(b)
        x(2).chunk(5)
        !x(2).chunk(0)
        """,
    "unbind": """
        x(3, 2).unbind()
        x(2, 3).unbind(1)
        torch.unbind(x(2, 3), dim=-1)
        q, k, v = x(3, 2, 4).unbind(0); q * k + v
        """,
    "flip": """
        x(3, 4).flip(0)
        x(3, 4).flip([0, 1])
        torch.flip(x(3, 4), dims=(1,))
        torch.flip(x(4), [-1])
        x.ints(3).flip(0)
        """,
    "roll": """
        x(5).roll(1)
        x(5).roll(-2)
        torch.roll(x(3, 4), 1, dims=1)
        torch.roll(x(3, 4), shifts=(1, -1), dims=(0, 1))
        x(2, 3).roll(1)
        torch.roll(x.ints(5), shifts=7, dims=0)
        """,
    "tril": """
        torch.tril(torch.ones(4, 4))
        x(4, 4).tril()
        x(3, 5).tril(diagonal=1)
        torch.tril(x(2, 3, 3), -1)
        torch.tril(torch.ones(3, 3)).view(1, 1, 3, 3)
        torch.tril(torch.ones(3, 3, dtype=torch.bool))
        torch.tril(torch.ones(3, 3)) == 0
        !x(3).tril()
        """,
    "triu": """
        torch.triu(torch.ones(4, 4), diagonal=1)
        x(4, 3).triu()
        torch.triu(torch.ones(3, 3), 1).bool()
        torch.triu(torch.full((3, 3), float('-inf')), diagonal=1)
        (torch.triu(torch.ones(3, 3)) == 1).transpose(0, 1)
        torch.triu(x.ints(3, 3), 1).type(torch.uint8)
        torch.from_numpy(np.triu(np.ones((1, 3, 3)), k=1).astype('uint8')) == 0
        torch.diag(x(3))
        torch.diag(x(3, 3))
        torch.diagonal(x(3, 4))
        """,
    "meshgrid": """
        torch.meshgrid(torch.arange(3), torch.arange(2), indexing='ij')
        torch.meshgrid(x(3), x(2), indexing='xy')
        torch.meshgrid([x(2), x(3)], indexing='ij')
        """,
    "contiguous": """
        x(2, 3).t().contiguous()
        x(2, 3).t().contiguous().is_contiguous(), x(2, 3).is_contiguous()
        a = x(2, 3); a.contiguous() is a
        x(2, 3).stride(), x(2, 3).t().stride()
        x(2, 3).t().contiguous().view(-1)
        """,
    "clone": """
        x(2, 3).clone()
        a = x.plain(2); b = a.clone(); b[0] = 7; a
        torch.clone(x(3)) * 2
        x(3, 1).expand(3, 4).clone()
        x(2).clone().detach().requires_grad_(True)
        """,
}
