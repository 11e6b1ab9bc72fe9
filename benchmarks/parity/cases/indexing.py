"""Reading and writing by index; gather, scatter and kin."""

_READS = """
    a[0]
    a[-1]
    a[1, 2]
    a[1][2]
    a[:]
    a[1:3]
    a[:, 0]
    a[:, 0::2]
    a[..., -1]
    a[..., :2]
    a[None]
    a[:, None]
    a[:, None, :, None]
    a[:, :-1]
    a[::2, 1::2]
    a[[0, 2]]
    a[[0, 0, 1]]
    a[torch.tensor([0, 2, 0])]
    a[torch.tensor([[0, 1], [2, 0]])]
    a[torch.arange(3), torch.tensor([1, 0, 2])]
    a[:, torch.tensor([3, 0])]
    a[torch.tensor(1)]
    a[torch.tensor([True, False, True])]
    a[a > 0]
    a[a.detach() > 10]
    a[torch.arange(3)[:, None], torch.arange(2)]
    a[1, ...]
    a[0, None]
    a[True]
    a[None, ..., None]
    a[torch.tensor([-1, -2])]
    a[5:]
    a[1:1]
    a[(0, 1)]
    a[[True, False, True]]
    a[np.array([0, 2])]
    a[torch.tensor([1, 0], dtype=torch.int32)]
    a[slice(0, 2)]
    a[torch.tensor([], dtype=torch.long)]
    """


def _lines(template, pattern):
    return "\n".join(pattern.format(line.strip()) for line in template.splitlines() if line.strip())


_WRITES = """
    [0] = 1
    [-1] = b[0]
    [1, 2] = 5.0
    [:] = 0
    [:, 0::2] = b[:, 0::2]
    [:, 1::2] = torch.cos(b[:, 1::2])
    [1:3] = b[0]
    [..., -1] = 2
    [[0, 2]] = b[:2]
    [torch.tensor([0, 2])] = 7
    [torch.arange(3), torch.tensor([1, 0, 2])] = b[:, 0]
    [:, torch.tensor([3, 0])] = 1.5
    [torch.tensor([True, False, True])] = b[0]
    [b > 0] = 0
    [b > 0] = b[b > 0]
    [torch.ones(3, 4, dtype=torch.bool)] = 3
    [0, :] = b[1]
    [0][1] = 9
    [None] = b
    [...] = b
    [torch.tensor(1)] = b[0]
    """

TABLE = {
    "indexing": _lines(_READS, "a = x(3, 4); {}")
    + """
        x(2, 3, 4)[:, -1, :]
        x(2, 3, 4)[:, 1]
        x(2, 3, 4)[torch.arange(2), torch.tensor([2, 0])]
        x(2, 3, 4)[:, torch.tensor([0, 1]), torch.tensor([1, 2])]
        x(2, 3, 4)[torch.tensor([0, 1]), :, torch.tensor([1, 2])]
        x(2, 3, 4)[0, :, torch.tensor([1, 2])]
        x(2, 3, 4)[x.truths(2, 3)]
        x(2, 3, 4)[:, x.truths(3)]
        x(2, 3, 4)[torch.tensor([0]), None, :, torch.tensor([1])]
        x(2, 3, 4)[torch.tensor([[0], [1]]), torch.tensor([0, 2])]
        x.ints(5)[2:4]
        x()[None]
        x()[...]
        x(3, 4)[x.ints(2, high=3), x.ints(2, high=4)].sum()
        a = x(5); a[x.ints(7)]
        a = x(5); a[1:] - a[:-1]
        a = x.plain(3, 4); a[0].fill_(7); a
        a = x.plain(3, 4); a[:, 1].zero_(); a
        a = x(3, 4); a[torch.tensor([1, 0], dtype=torch.uint8).bool().repeat(2)[:3]]
        !x(3)[3]
        !x(3)[0, 0]
        !x(3)[torch.tensor([5])]
        !x(3)[1.5]
        !x(3)['a']
        !x()[0]
        !x(3)[x.truths(4)]
        !x(3)[torch.tensor([1.0])]
        !x(4)[::-1]
        """,
    "assignment": _lines(_WRITES, "a = torch.zeros(3, 4); b = x(3, 4); a{}; a")
    + _lines(_WRITES, "\na = x(3, 4) * 2; b = x(3, 4); a{}; a")
    + """
        a = torch.zeros(3, dtype=torch.long); a[1] = 2.7; a
        a = torch.zeros(3, 2); a[0] = torch.tensor([1, 2]); a
        a = torch.zeros(3); a[1] = x(); a
        a = torch.zeros(2, 3, 4); a[:, 0] = x(2, 4); a[:, 2] = x(4); a
        a = torch.zeros(2, 3, 4); a[0, 1] = x(4); a[torch.tensor([1, 0]), 2] = x(2, 4); a
        out = torch.zeros(4, 2, 3); h = x(2, 3); out[0] = h; h = torch.tanh(h); out[1] = h; out
        a = torch.zeros(5); i = x.ints(3); a[i] = a[i] + x(3); a.shape
        a = torch.ones(3, dtype=torch.bool); a[0] = False; a
        a = torch.zeros(2, 3); a[:, 1] = torch.tensor(4.0); a
        a = x.ints(2, 3); a[a == 1] = -100; a
        pe = torch.zeros(4, 6); p = torch.arange(0, 4).unsqueeze(1).float(); \
d = torch.exp(torch.arange(0, 6, 2).float() * -(np.log(10000.0) / 6)); \
pe[:, 0::2] = torch.sin(p * d); pe[:, 1::2] = torch.cos(p * d); pe
        a = torch.zeros(3); a[0] += 2; a[1:] -= x(2); a
        a = torch.zeros(3, 2); a[0] += x(2); a[:, 1] *= 3; a
        a = x(3, 2) * 1; a[0] += x(2); a
        a = x(3, 2) * 1; a[1] = a[0] * 2; a
        a = x(3, 2) * 1; b = a[0]; a[1] = 5; b
        !a = x(3); a[0] = 1
        !a = torch.zeros(3); a[5] = 1
        !a = torch.zeros(3); a[0:2] = x(3)
        !a = torch.zeros(3); a['k'] = 1
        """,
    "gather": """
        x(3, 4).gather(1, x.ints(3, 2, high=4))
        torch.gather(x(3, 4), 0, x.ints(2, 4, high=3))
        x(3, 4).gather(-1, x.ints(3, 1, high=4)).squeeze(-1)
        x(2, 3, 4).gather(2, x.ints(2, 3, 2, high=4))
        x(3, 4).gather(1, torch.zeros(3, 3, dtype=torch.long))
        x(3, 4).gather(dim=1, index=x.ints(2, 2, high=4))
        x(3, 4).gather(1, x.ints(3, 2, high=4, dtype='int32'))
        x().gather(0, torch.tensor(0))
        x().gather(-1, torch.tensor([0, 0, 0]))
        x(3).gather(0, torch.tensor(1))
        !x(3, 4).gather(1, x.ints(3, 2, high=4, dtype='int16'))
        !x(3, 4).gather(1, x.ints(3))
        !x(3, 4).gather(1, x.ints(3, 2, low=4, high=6))
        !x(3, 4).gather(1, x(3, 2))
        """,
    "scatter": """
        torch.zeros(3, 4).scatter(1, x.ints(3, 1, high=4), 1.0)
        torch.zeros(3, 4).scatter(1, torch.tensor([[0, 1], [1, 2], [3, 0]]), x(3, 2))
        a = torch.zeros(3, 4); a.scatter_(1, x.ints(3, 1, high=4), 0.9); a
        a = torch.full((3, 4), 0.1); a.scatter_(1, x.ints(3, high=4).unsqueeze(1), 0.9)
        a = x.plain(3, 4); a.data.scatter_(1, x.ints(3, 1, high=4), 0.5); a
        torch.zeros(3, 4).scatter_add(0, torch.tensor([[0, 0, 1, 2]]), x(1, 4))
        torch.zeros(3, 4).scatter_add_(1, x.ints(3, 6, high=4), x(3, 6))
        x(3, 4).scatter(1, torch.tensor([[0, 1], [1, 2], [3, 0]]), x(3, 2))
        torch.zeros(2, 3, dtype=torch.bool).scatter(1, torch.tensor([[1], [2]]), torch.ones(2, 1).bool())
        x(3, 4).scatter(1, torch.tensor([[0, 1], [1, 2], [3, 0]], dtype=torch.int32), x(3, 2))
        x(3, 4).scatter_add(0, x.ints(2, 4, high=3, dtype='int32'), x(2, 4))
        x().scatter(0, torch.tensor(0), x())
        x().scatter(0, torch.tensor([0]), x(1))
        x().scatter(0, torch.tensor(0), 2.5)
        x().scatter_add(0, torch.tensor([0, 0]), x(2))
        !torch.zeros(3, 4).scatter(1, x.ints(3, 1, low=4, high=6), 1.0)
        """,
    "index_select": """
        x(3, 4).index_select(0, torch.tensor([0, 2, 0]))
        torch.index_select(x(3, 4), 1, torch.tensor([3, 1]))
        x(4).index_select(0, x.ints(2, high=4))
        x(2, 3, 4).index_select(-1, torch.tensor([0]))
        x(3, 4)[:, [1, 1, 2]]
        !x(3).index_select(0, torch.tensor([5]))
        !x(3).index_select(0, torch.tensor([[0]]))
        """,
    "index_add": """
        torch.zeros(4, 2).index_add(0, torch.tensor([0, 2, 0]), x(3, 2))
        a = torch.zeros(4, 2); a.index_add_(0, torch.tensor([1, 1]), x(2, 2)); a
        x(4, 2).index_add(0, torch.tensor([0, 3]), x(2, 2))
        x(2, 4).index_add(1, torch.tensor([0, 3]), x(2, 2), alpha=2)
        x().index_add(0, torch.tensor(0), x())
        x().index_copy(0, torch.tensor([0]), x(1))
        x(3, 4).index_fill(1, torch.tensor([0, 2, 0]), 1.5)
        x(3, 4).index_fill(0, torch.tensor([-1]), 2.0)
        x(3, 4).index_fill(0, torch.tensor([2]), x())
        x().index_fill(0, torch.tensor(0), x())
        a = x.plain(3, 4); a.index_fill_(-1, torch.tensor([1]), torch.tensor(2.0)); a
        !x(3, 4).index_fill(0, torch.tensor([0]), x(1))
        !x(3, 4).index_fill(0, torch.tensor([3]), 1.0)
        """,
    "nonzero": """
        x.truths(3, 4).nonzero()
        torch.nonzero(x.ints(5))
        x.truths(5).nonzero(as_tuple=True)
        (x.ints(6) == 2).nonzero().squeeze()
        torch.zeros(3).nonzero()
        torch.nonzero(torch.tensor(3), as_tuple=True)
        torch.nonzero(torch.tensor(0), as_tuple=True)
        torch.nonzero(torch.tensor(3))
        torch.where(torch.tensor(True))
        torch.where(x.ints(2, 3))
        (x.ints(6) == 2).nonzero(as_tuple=True)[0]
        torch.nonzero(x.ints(2, 3) > 1, as_tuple=False)
        """,
    "masked_select": """
        torch.masked_select(x(3, 4), x.truths(3, 4))
        x(4).masked_select(x.truths(4))
        torch.take_along_dim(x(3, 4), x.ints(3, 1, high=4), dim=1)
        """,
}
