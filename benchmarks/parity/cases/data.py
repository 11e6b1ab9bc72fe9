"""Data sets and loaders."""

_SETS = (
    "u = torch.utils.data; D = type('D', (u.Dataset,), {'__len__': lambda s: 7, "
    "'__getitem__': lambda s, i: (torch.tensor([i, i * 2]), i)}); d = D(); "
)


def _with_sets(text):
    return "\n".join(
        ("!" if line.strip().startswith("!") else "") + _SETS + line.strip().removeprefix("!")
        for line in text.splitlines()
        if line.strip()
    )


TABLE = {
    "Dataset": _with_sets("""
        len(d), d[3]
        isinstance(d, u.Dataset)
        (d + d)[8], len(d + d)
        len(u.Subset(d, [1, 3])), u.Subset(d, [1, 3])[1]
        len(u.ConcatDataset([d, d]))
        !u.Dataset()[0]
        """),
    "TensorDataset": _with_sets("""
        t = u.TensorDataset(x.plain(4, 2), x.ints(4)); len(t), t[1]
        t = u.TensorDataset(x.plain(4, 2)); t[0]
        t = u.TensorDataset(x.plain(4, 2), x.ints(4)); t[1:3]
        t = u.TensorDataset(x.plain(4, 2), x.ints(4)); t.tensors
        [b for b in u.DataLoader(u.TensorDataset(x.plain(4, 2), x.ints(4)), batch_size=3)]
        !u.TensorDataset(x.plain(4), x.plain(3))
        """),
    "DataLoader": _with_sets("""
        list(u.DataLoader(d, batch_size=3))
        list(u.DataLoader(d))
        list(u.DataLoader(d, 3, drop_last=True))
        len(u.DataLoader(d, 3)), len(u.DataLoader(d, 3, drop_last=True))
        sorted(b[1].item() for b in u.DataLoader(d, shuffle=True))
        [len(b[1]) for b in u.DataLoader(d, 3, True)]
        list(u.DataLoader(d, 3, collate_fn=lambda b: [i for _, i in b]))
        list(u.DataLoader(d, 4, collate_fn=lambda b: nn.utils.rnn.pad_sequence([t for t, _ in b], True)))
        g = torch.Generator().manual_seed(3); a = [b[1] for b in u.DataLoader(d, 3, shuffle=True, generator=g)]; \
g.manual_seed(3); c = [b[1] for b in u.DataLoader(d, 3, shuffle=True, generator=g)]; \
all(torch.equal(i, j) for i, j in zip(a, c))
        l = u.DataLoader(list(range(5)), 2); list(l), list(l)
        list(u.DataLoader([1.5, 2.5], 2))
        list(u.DataLoader([{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}], 2))
        list(u.DataLoader(['a', 'bc'], 2))
        list(u.DataLoader([[1, 2.0], [3, 4.0]], 2))
        list(u.DataLoader([np.zeros(2), np.ones(2)], 2))
        list(u.DataLoader(d, batch_size=None))[0]
        list(u.DataLoader(x.plain(5, 2), batch_size=2))
        list(u.DataLoader(d, 3, num_workers=0, pin_memory=False))[0]
        len(u.DataLoader(d, 3).dataset), u.DataLoader(d, 3).batch_size
        next(iter(u.DataLoader(d, 3)))[1]
        [b for b in u.DataLoader(d, sampler=[2, 0, 5], batch_size=2)]
        [b[1] for b in u.DataLoader(d, batch_sampler=[[0, 6], [1]])]
        !list(u.DataLoader([torch.ones(2), torch.ones(3)], 2))
        !u.DataLoader(d, 0)
        !u.DataLoader(d, 2, shuffle=True, sampler=[0])
        """),
    "random_split": _with_sets("""
        a, b = u.random_split(d, [5, 2]); len(a), len(b), sorted([a[i][1] for i in range(5)] + [b[i][1] for i in range(2)])
        a, b = u.random_split(d, [0.6, 0.4]); len(a), len(b)
        [len(s) for s in u.random_split(range(10), [0.3, 0.3, 0.4])]
        a, b = u.random_split(d, [5, 2], generator=torch.Generator().manual_seed(1)); \
c, e = u.random_split(d, [5, 2], generator=torch.Generator().manual_seed(1)); a.indices == c.indices
        len(next(iter(u.DataLoader(u.random_split(d, [5, 2])[0], 3)))[1])
        !u.random_split(d, [5, 5])
        """),
}
