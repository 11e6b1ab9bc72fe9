"""Sums, means, extremes, sorting, norms, products."""

_ARGUMENTS = """
    x(3, 4).{f}()
    torch.{f}(x(3, 4), 0)
    torch.{f}(x(3, 4), dim=-1)
    x(3, 4).{f}(1, keepdim=True)
    x(2, 3, 4).{f}(dim=1)
    x().{f}()
    x.double(3, 4).{f}(0)
    x(3, 4).t().{f}(0)
    !x(3, 4).{f}(2)
    """


def _reduction(f, *more):
    return "\n".join([_ARGUMENTS.replace("{f}", f), *more])


def _axes(f, *more):
    lines = [f"x(2, 3, 4).{f}((0, 2))", f"x(2, 3, 4).{f}(dim=(1, -1), keepdim=True)"]
    return _reduction(f, *lines, *more)


_TIES = "x.values([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])"


def _extreme(f):
    return f"""
        x(3, 4).{f}()
        torch.{f}(x(3, 4))
        x(3, 4).{f}(dim=1)
        x(3, 4).{f}(-1)
        x(3, 4).{f}(1).values, x(3, 4).{f}(1).indices
        x(3, 4).{f}(1)[0]
        x(2, 3, 4).{f}(1, keepdim=True)
        torch.{f}(x(3, 4), 0)
        {_TIES}.{f}()
        {_TIES}.{f}(1)
        {_TIES}.a{f}(1)
        {_TIES}.a{f}((0, 1))
        torch.a{f}(x(3, 4))
        x.values([[1.0, float('nan'), 3.0]]).{f}(1)
        x.values([float('inf'), float('-inf')]).{f}()
        x.ints(5).{f}()
        x.ints(3, 4).{f}(dim=1)
        x().{f}()
        x(2, 0).{f}(0)
        !x(0).{f}()
        !x(2, 0).{f}(1)
        """


TABLE = {
    "sum": _axes(
        "sum",
        "x(0).sum()",
        "x(2, 0).sum(1)",
        "x.truths(5).sum()",
        "x.ints(5).sum()",
        "torch.sum(x(3, 4), dim=[0, 1])",
        "x.truths(2, 3).sum(1)",
        "(x(3) > 0).sum().item()",
        "x.ints(3, dtype='uint8').sum()",
        "x(3).sum(dtype=torch.float64)",
        "x(3, 4).sum(axis=1)",
        "sum([x(3), x(3)])",
        "x(3, 4).sum(None)",
        "x(5000, 2, dtype='float16').sum(0)",
        "!x(2, 2).sum((0, 0))",
    ),
    "mean": _axes(
        "mean",
        "x(0).mean()",
        "!x.ints(3).mean()",
        "x.ints(3).float().mean()",
        "x.ints(3).mean(dtype=torch.float)",
        "torch.mean(x(3, 4), dim=-1, keepdim=True)",
        "torch.ones(70000).half().mean()",
    ),
    "var": _axes(
        "var",
        "x(3, 4).var(-1, unbiased=False)",
        "x(3, 4).var(dim=-1, keepdim=True, unbiased=False)",
        "torch.var(x(3, 4), dim=1, correction=0)",
        "x(3, 4).var(unbiased=False)",
        "x(1).var()",
        "x(3, 4).var(-1, keepdim=True, correction=1)",
        "torch.var_mean(x(3, 4), dim=1)",
        "!x.ints(3).var()",
    ),
    "std": _axes(
        "std",
        "x(3, 4).std(-1, keepdim=True)",
        "x(3, 4).std(-1, unbiased=False)",
        "x(1, 4).std(0)",
        "torch.ones(3).std()",
        "x.values([1.0, 1.0]).std()",
        "torch.std(x(3, 4), dim=1, correction=0)",
    ),
    "prod": """
        x(3, 4).prod()
        x(3, 4).prod(1)
        x(3, 4).prod(dim=0, keepdim=True)
        torch.prod(x(4))
        x.ints(4).prod()
        x.values([0.0, 2.0, 3.0]).prod()
        x.values([0.0, 2.0, 0.0]).prod()
        x(0).prod()
        torch.prod(torch.tensor(x(2, 3).shape))
        """,
    "max": _extreme("max") + "\nx(3, 4).max(1)[1]\n_, i = x(3, 4).max(1); i\ntorch.max(x(3), x(3))",
    "min": _extreme("min"),
    "argmax": f"""
        x(3, 4).argmax()
        x(3, 4).argmax(1)
        torch.argmax(x(3, 4), dim=-1, keepdim=True)
        {_TIES}.argmax(1)
        x.ints(3, 4).argmax(0)
        x().argmax()
        x(3, 4).argmax(dim=-1)
        x(3, 4).argmin(1)
        torch.argmin(x(4))
        x.values([1.0, float('nan'), 3.0]).argmax()
        x(5).argmax().item()
        !x(0).argmax()
        """,
    "topk": f"""
        x(3, 5).topk(2)
        torch.topk(x(5), 3)
        x(3, 5).topk(2, dim=0)
        x(3, 5).topk(1)
        x(3, 5).topk(2, largest=False)
        x(3, 5).topk(5, dim=-1)[0]
        v, i = x(3, 5).topk(1); i.squeeze().detach()
        v, i = x(1, 5).data.topk(1); i[0][0].item()
        x(3, 5).topk(k=2).values, x(3, 5).topk(k=2).indices
        x.ints(6, high=100).topk(3)[0]
        x(2, 3, 4).topk(2, dim=1)
        torch.topk(x(5), min(10, 5), sorted=True)
        {_TIES}.topk(2)[0]
        !x(3).topk(4)
        """,
    "sort": """
        x(3, 4).sort()
        torch.sort(x(3, 4), descending=True)
        x(3, 4).sort(0)
        x(3, 4).sort(dim=1, descending=True)
        torch.sort(x(4)).values, torch.sort(x(4)).indices
        x.ints(6, high=100).sort()[0]
        torch.tensor([2, 1, 2, 1]).sort(stable=True)
        torch.tensor([2, 1, 2, 1]).sort(stable=True, descending=True)
        x.values([1.0, float('nan'), 0.0]).sort()[0]
        x().sort()
        v, i = torch.sort(x(2, 6), descending=True); torch.cumsum(torch.softmax(v, -1), -1)
        """,
    "argsort": """
        x(3, 4).argsort()
        torch.argsort(x(3, 4), dim=0)
        x(5).argsort(descending=True)
        torch.argsort(x.ints(5, high=1000))
        i = torch.argsort(x(5)); torch.argsort(i)
        """,
    "cumsum": """
        x(3, 4).cumsum(0)
        torch.cumsum(x(3, 4), dim=-1)
        x.ints(4).cumsum(0)
        x.truths(4).cumsum(0)
        x().cumsum(0)
        x(0).cumsum(0)
        torch.cumprod(x(3, 4), dim=1)
        x(3000, dtype='float16').cumsum(0)
        !x(3).cumsum()
        """,
    "logsumexp": """
        x(3, 4).logsumexp(1)
        torch.logsumexp(x(3, 4), dim=-1, keepdim=True)
        torch.logsumexp(x(2, 3, 4), (0, 2))
        x.values([[1e4, 1e4], [-1e4, -1e4]]).logsumexp(1)
        x.values([[float('-inf'), float('-inf')], [float('inf'), 0.0]]).logsumexp(1)  ## the gradient of a row of -inf is 0, not NaN
        x.values([[float('-inf'), 1.0]]).logsumexp(1)
        x.values([float('nan'), 1.0]).amax()  ## the gradient is 1 at NaN, not NaN everywhere
        x(2, 0).logsumexp(1)
        """,
    "norm": """
        x(3, 4).norm()
        x(3, 4).norm(2, dim=1)
        x(3, 4).norm(p=1, dim=-1, keepdim=True)
        torch.norm(x(4))
        torch.norm(x(3, 4), dim=-1)
        x(4).norm(float('inf'))
        x(4).norm(p=3)
        x(3, 4).norm(dim=(0, 1))
        torch.zeros(3, requires_grad=True).norm()
        x.values([0.0, 0.0]).norm()
        x(3, 4).norm(p=2).item()
        x(3, 4).norm('fro')
        """,
    "all": """
        x.truths(3, 4).all()
        x.truths(3, 4).all(1)
        x.truths(3, 4).any(dim=0)
        torch.any(x.ints(3))
        torch.all(x(3) > -5)
        torch.ones(0).all(), torch.ones(0).any()
        x.ints(3, dtype='uint8').all()
        x.truths(3, 4).any(1, keepdim=True)
        """,
    "matmul": """
        torch.matmul(x(3, 4), x(4, 5))
        torch.matmul(x(4), x(4))
        torch.matmul(x(3, 4), x(4))
        torch.matmul(x(4), x(4, 5))
        torch.matmul(x(2, 3, 4), x(2, 4, 5))
        torch.matmul(x(2, 3, 4), x(4, 5))
        torch.matmul(x(2, 3, 4), x(4))
        torch.matmul(x(4), x(2, 4, 5))
        torch.matmul(x(2, 1, 3, 4), x(3, 4, 5))
        torch.matmul(x(3, 4), x(2, 4, 5))
        x(3, 4).matmul(x(4, 5))
        torch.matmul(x(3, 4).t(), x(3, 5))
        torch.matmul(x(2, 3, 4), x(2, 5, 4).transpose(-2, -1))
        a = x(3, 3); torch.matmul(a, a)
        torch.matmul(x(3, 0), x(0, 5))
        torch.matmul(x(0, 4), x(4, 5))
        torch.matmul(x.ints(3, 4), x.ints(4, 5))
        torch.matmul(x.double(3, 4), x.double(4, 5))
        torch.mv(x(3, 4), x(4))
        torch.dot(x(4), x(4))
        x(3, 4).mm(x(4, 5))
        torch.addmm(x(5), x(3, 4), x(4, 5))
        torch.trace(x(2, 3))
        x(3, 2).trace()
        torch.trace(x.ints(3, 3, dtype='int32'))
        torch.trace(x(0, 3))
        torch.baddbmm(x(2, 3, 5), x(2, 3, 4), x(2, 4, 5), beta=0.5, alpha=2)
        !torch.matmul(x(3, 4), x(3, 4))
        !torch.matmul(x(), x(3))
        !torch.matmul(x(3, 4), x.double(4, 5))
        !torch.mm(x(2, 3, 4), x(4, 5))
        !torch.dot(x(3, 4), x(4))
        !torch.mv(x(4), x(4))
        """,
    "@": """
        x(3, 4) @ x(4, 5)
        x(2, 3, 4) @ x(2, 4, 5)
        x(2, 2, 3, 4) @ x(2, 2, 3, 4).transpose(-2, -1)
        x(3, 4) @ x(4)
        !x(3, 4) @ x(5, 4)
        !x(3, 4) @ 2
        """,
    "bmm": """
        torch.bmm(x(2, 3, 4), x(2, 4, 5))
        x(2, 1, 4).bmm(x(2, 4, 5))
        torch.bmm(x(2, 3, 4), x(2, 5, 4).transpose(1, 2))
        torch.bmm(x(2, 3, 4), x(2, 4, 1)).squeeze(2)
        torch.bmm(x(0, 3, 4), x(0, 4, 5))
        !torch.bmm(x(3, 4), x(4, 5))
        !torch.bmm(x(2, 3, 4), x(3, 4, 5))
        !torch.bmm(x(1, 3, 4), x(2, 4, 5))
        """,
    "einsum": """
        torch.einsum('ij,jk->ik', x(3, 4), x(4, 5))
        torch.einsum('bhqd,bhkd->bhqk', x(2, 2, 3, 4), x(2, 2, 5, 4))
        torch.einsum('bhqk,bkhd->bqhd', x(2, 2, 3, 5), x(2, 5, 2, 4))
        torch.einsum('nqhd,nkhd->nhqk', [x(2, 3, 2, 4), x(2, 5, 2, 4)])
        torch.einsum('ij->ji', x(3, 4))
        y = x(3, 4) * 1; torch.einsum('ij->ji', y).mul_(2)
        y = x.plain(3, 4); torch.einsum('ij->ji', y).mul_(2); y  ## a copy, not a view
        torch.einsum('ii->i', x(3, 3))
        torch.einsum('ii', x(3, 3))
        torch.einsum('ij->', x(3, 4))
        torch.einsum('ij', x(3, 4))
        torch.einsum('i,j->ij', x(3), x(4))
        torch.einsum('i,i->', x(3), x(3))
        torch.einsum('...ij,...jk->...ik', x(2, 3, 4), x(2, 4, 5))
        torch.einsum('bij,jk', x(2, 3, 4), x(4, 5))
        torch.einsum('bi,ijk,bk->bj', x(2, 3), x(3, 4, 5), x(2, 5))
        torch.einsum('i , j -> i j', x(3), x(4))
        torch.einsum('bld,de->ble', x(2, 0, 4), x(4, 5))
        a = x(3, 3); torch.einsum('ij,jk->ik', a, a)
        torch.einsum('ij,ij->i', x.ints(3, 4), x.ints(3, 4))
        !torch.einsum('ij,jk->ik', x(3, 4), x(3, 4))
        !torch.einsum('ijk->ik', x(3, 4))
        """,
    "outer": """
        torch.outer(x(3), x(4))
        torch.outer(torch.arange(3).float(), x(4))
        x(3).outer(x(2))
        torch.outer(x(0), x(3))
        !torch.outer(x(2, 2), x(3))
        """,
    "unique": """
        x.ints(10).unique()
        torch.unique(x.ints(10), return_counts=True)
        torch.bincount(x.ints(10))
        """,
}
