"""Changes in place, also through views, and the errors that protect gradients."""

TABLE = {
    "+=": """
        y = x(3) * 2; y += x(3); y
        y = x(3) * 2; y += 1; y
        y = x.plain(3); y += 2; y
        y = x.ints(3); y += 2; y
        y = x.plain(3); z = y; y -= 1; z
        y = x(3) * 2; y *= x(3); y
        y = x(3) * 2; y /= 2; y
        y = x(2, 3) * 1; y += x(3); y
        y = x.plain(3); y += x(3); y
        y = x.plain(3); y **= 2; y
        y = x.ints(5); y //= 2; y
        y = x.double(3) * 1; y += x(3); y
        h = 0; h += x(3); h += x(3); h
        y = x(3) * 1; y += y; y
        !y = x(3) * 1; y *= y; y.sum().backward()
        y = x(3) * 1; y.mul_(2).add_(1); y
        loss = 0; loss += x(3).sum(); loss += x(2).sum(); loss
        with_grad = x(3); y = with_grad.detach(); y += 1; with_grad
        !y = x(3); y += 1
        !y = x.ints(3); y += 1.5
        !y = x.ints(3); y /= 2
        !y = x.plain(3); y += x(2, 3)
        !y = x(3).exp(); z = y * y; y += 1; z.sum().backward()
        !y = x(3); y.requires_grad_(); y.mul_(2)
        """,
    "in-place": """
        y = x(3) * 1; y.add_(x(3)); y
        y = x(3) * 1; y.add_(x(3), alpha=0.5); y
        y = x.plain(3); y.add_(-0.1, x.plain(3)) if False else y.add_(x.plain(3), alpha=-0.1); y
        y = x(3) * 1; y.sub_(1); y
        y = x(3) * 1; y.mul_(x(3)); y
        y = x(3) * 1; y.div_(2); y
        y = x.positive(3) * 1; y.pow_(2); y
        y = x.positive(3) * 1; y.sqrt_(); y
        y = x(3) * 1; y.neg_(); y
        y = x(3) * 1; y.copy_(x(3)); y  ## no gradient (None) where PyTorch gives zeros
        y = x.plain(2, 3); y.copy_(x.plain(3)); y
        y = x.ints(3); y.copy_(x.plain(3, low=0, high=3)); y
        y = x(3) * 1; y.zero_(); y
        y = x(3) * 1; y.clamp_(min=0); y
        y = torch.empty(1000).normal_(mean=1, std=0.02); bool(abs(y.mean() - 1) < 0.01)
        y = torch.empty(1000).uniform_(-0.1, 0.1); bool((y.abs() <= 0.1).all())
        y = x(2, 3) * 1; y[0].mul_(2); y
        y = x(2, 3) * 1; y[0] += x(3); y
        y = x(2, 3) * 1; y[:, 1].add_(x(2)); y
        y = x(2, 3) * 1; y.view(6)[2:4] = x(2); y
        y = x(2, 3) * 1; y.t()[0] = x(2); y
        y = x(2, 3) * 1; v = y[0]; v *= 3; v, y
        y = x(2, 3) * 1; v = y[0]; y *= 3; v, y
        y = x(2, 3) * 1; v = y.view(6); y[0] = x(3); v
        y = x(2, 3) * 1; v = y[0]; w = v[1:]; w.mul_(2); y, v, w
        y = x(2, 6) * 1; a, b = y.view(2, 2, 3).transpose(0, 1); a.shape
        y = x.plain(2, 3); y[0].add_(x(3)); y
        y = x.plain(2, 3); v = y[:, 1:]; v.mul_(x(2)); y * 2
        y = torch.zeros(2, 3); y.narrow(1, 0, 2).copy_(x(2, 2)); y
        y = x(2, 3) * 1; y.squeeze_(); y
        w = x(3); v = w.detach(); v.zero_(); w
        w = x(3); w.data.add_(1.0); w
        w = x(3); w.data -= 0.1 * torch.ones(3); w
        w = x(3); w.data = torch.ones(3); w
        w = x(3); w.data.uniform_(-0.1, 0.1).shape
        w = x(3); w.data[0] = 5; w
        !y = x(2, 3); y[0].mul_(2)
        !y = x(2, 3); y.view(6).add_(1)
        !y = x(3, 1).expand(3, 2) * 1; z = x(3, 1).expand(3, 2); z += 1
        !y = x(3) * 1; z = y ** 2; y.add_(1); z.sum().backward()
        !y = x(3).sigmoid(); z = y * 2; y.mul_(2); z.sum().backward()
        !y = x(2, 3) * 1; z = y[0] ** 2; y[0, 0] = 1; z.sum().backward()
        !y = x(2, 3) * 1; z = y * y; y[1] = 0; z.sum().backward()
        !y = x(3) * 1; z = y.tanh(); z.detach().zero_(); z.sum().backward()
        y = x(3) * 1; z = y + 1; y.mul_(2); z.sum() + y.sum()
        a, b = (x(2, 3) * 1).unbind(0); a * b
        !a, b = (x(2, 3) * 1).unbind(0); a.mul_(2)
        !a, b = (x(4) * 1).split(2); a.mul_(2)
        !a, b = (x(4) * 1).chunk(2); a += 1
        """,
    "fill_": """
        y = x(3) * 1; y.fill_(2); y
        x.ints(3).fill_(7)
        x.plain(2, 3)[0].fill_(1.5)
        x.truths(3).fill_(True)
        y = x.plain(3); y.data.fill_(0.01); y
        x.plain(3).fill_(torch.tensor(3.0))
        """,
    "masked_fill_": """
        y = x(3, 4) * 1; y.masked_fill_(x.truths(3, 4), -1e9); y
        y = x.plain(2, 3, 4); y.masked_fill_(x.truths(3, 4), float('-inf')); y
        y = x.plain(3, 4); y.data.masked_fill_(x.truths(3, 4), 0); y
        x.ints(3).masked_fill_(x.truths(3), -100)
        y = x(2, 3) * 1; y[0].masked_fill_(x.truths(3), 0); y
        !x(3).masked_fill_(x.truths(3), 0)
        """,
}
