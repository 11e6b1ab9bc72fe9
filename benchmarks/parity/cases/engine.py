"""Gradients: backward, no_grad, detach, hooks' absence, errors."""

TABLE = {
    "backward": """
        a = x(3); (a * a).sum().backward(); a.grad
        a = x(3); (a * a).sum().backward(); (a * 2).sum().backward(); a.grad
        a = x(3); y = (a * a).sum(); y.backward(retain_graph=True); y.backward(); a.grad
        a = x(3); y = a * a; y.backward(torch.ones(3)); a.grad
        a = x(3); y = a * a; y.backward(gradient=torch.tensor([1.0, 2.0, 3.0])); a.grad
        a = x(); (a * 3).backward(); a.grad
        a = x(1); (a * 3).backward(); a.grad
        a, b = x(3), x(3); (a * b).sum().backward(); a.grad, b.grad
        a = x(3); b = a * 2; b.retain_grad(); (b * b).sum().backward(); b.grad
        a, b = x(3), x(3); torch.autograd.grad((a * b).sum(), [a, b])
        a = x(3); torch.autograd.grad((a * a).sum(), a)[0]
        a, b = x(3), x(3); torch.autograd.grad((a * 2).sum(), [a, b], allow_unused=True)
        a = x(3); y = a * 2; torch.autograd.backward([y.sum(), (y * y).sum()]); a.grad
        a = x(3); a.sum().backward(); a.grad.zero_(); a.grad
        a = x(3); a.sum().backward(); a.grad.data.zero_(); a.grad
        a = x(3); a.sum().backward(); a.grad = None; a.grad
        a = x(3); a.sum().backward(); a.grad *= 2; a.grad
        a = x(3); a.sum().backward(); a.grad.requires_grad, a.grad.is_leaf
        a = x.double(3); a.sum().backward(); a.grad.dtype
        a = x(3); b = a.double(); b.sum().backward(); a.grad.dtype
        a = x(3); y = a; [y := y * 1.001 for _ in range(3000)]; y.sum().backward(); a.grad
        a = x(3); y = a[0] + a[0] + a[1]; y.backward(); a.grad
        a = x(3); (a * a.detach()).sum().backward(); a.grad
        a = x(3); (a + torch.zeros(3)).sum().backward(); a.grad is None
        a = x(3); b = x(3); (a.detach() * b).sum().backward(); a.grad is None
        !a = x(3); (a * a).backward()
        !a = x(3); y = (a * a).sum(); y.backward(); y.backward()
        !torch.ones(3).sum().backward()
        !a = x(3); y = a * a; y.backward(torch.ones(2))
        !a = x(3); torch.autograd.grad((a * 2).sum(), x(3))
        !x.ints(3).sum().backward()
        !a = x(3); a.requires_grad_(); a.long().float().sum().backward()
        """,
    "no_grad": """
        with_grad = x(3); y = (lambda: with_grad * 2); g = torch.no_grad(); g.__enter__(); \
z = y(); g.__exit__(None, None, None); z.requires_grad, y().requires_grad
        f = torch.no_grad()(lambda a: a * 2); f(x(3)).requires_grad
        f = torch.enable_grad()(lambda a: a * 2); g = torch.no_grad()(lambda a: f(a)); \
g(x(3)).requires_grad
        torch.is_grad_enabled(), torch.no_grad()(torch.is_grad_enabled)()
        f = torch.no_grad()(lambda a: a.add_(1)); f(x(3))
        f = torch.no_grad()(lambda a: a.mul_(2).requires_grad); f(x(3))
        torch.no_grad()(lambda: torch.zeros(2, requires_grad=True).requires_grad)()
        torch.inference_mode()(lambda a: (a * 2).requires_grad)(x(3))
        torch.no_grad()(lambda: m(nn.Linear(2, 2)))()(x(3, 2))
        torch.set_grad_enabled(False); y = x(2) * 2; torch.set_grad_enabled(True); y.requires_grad
        """,
    "detach": """
        x(3).detach()
        a = x.plain(3); a.detach().fill_(1); a
        y = x(3) * 2; y.detach().requires_grad, y.detach().is_leaf
        y = x(3) * 2; y.detach_(); y
        h = tuple(t.detach() for t in (x(2) * 1, x(2) * 2)); h
        y = x(3) * 2; (y.detach() * y).sum()
        """,
    ".data": """
        x(3).data
        x(3).data.requires_grad
        a = x(3); a.data.mul_(2); a
        a = x(3); a.data = a.data * 0.5; a
        a = x(3); a.data[0]
        a = x(3) * 2; a.data.max(0)[1]
        m(nn.Linear(2, 3)).weight.data
        l = m(nn.Linear(2, 3)); l.weight.data.fill_(0.5); l.bias.data.zero_(); l(x(1, 2))
        l = m(nn.Linear(2, 3)); l.weight.data = torch.ones(3, 2); l(x(1, 2))
        l = m(nn.Linear(2, 3)); k = nn.Embedding(3, 2); k.weight.data.copy_(l.weight.data); k.weight
        """,
    "requires_grad": """
        x(3).requires_grad, x.plain(3).requires_grad
        a = x.plain(3); a.requires_grad = True; (a * 2).requires_grad
        a = x.plain(3).requires_grad_(); a.requires_grad
        a = x.plain(3).requires_grad_(False); a.requires_grad
        (x(3) + x.plain(3)).requires_grad
        (x(3) > 0).requires_grad
        x(3).argmax().requires_grad
        x(3).is_leaf, (x(3) * 2).is_leaf, x.plain(3).is_leaf
        (x(3) * 2).grad_fn is None, x(3).grad_fn is None
        a = x(3); a.requires_grad = False; (a * 2).requires_grad
        x(2).grad
        !a = x.ints(3); a.requires_grad = True
        !a = x(3) * 2; a.requires_grad = False
        """,
    "deepcopy of tensors": """
        import copy; copy.deepcopy(x(3))
        import copy; copy.deepcopy(x.ints(3))
        import copy; a = x(3); b = copy.deepcopy(a); b.requires_grad, b is a
        import copy; a = x.plain(2); b = copy.copy(a); b
        !import copy; copy.deepcopy(x(3) * 2)
        """,
    "missing names": """
        !torch.cta
        !x(3).unsqeeze(0)
        !nn.Liner
        !F.sofmax
        hasattr(torch, 'no_such_name'), hasattr(x(1), 'no_such_name')
        """,
}
