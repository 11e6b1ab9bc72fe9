"""New tensors, types, casts, random numbers, saving."""

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]

TABLE = {
    "tensor": """
        torch.tensor(3)
        torch.tensor(3.5)
        torch.tensor(True)
        torch.tensor([])
        torch.tensor([[1, 2], [3, 4]])
        torch.tensor([1, 2.5])
        torch.tensor([True, 2])
        torch.tensor([1, 2], dtype=torch.float)
        torch.tensor([1.7, -1.7], dtype=torch.long)
        torch.tensor(np.arange(3.0))
        torch.tensor(np.arange(3, dtype='int32'))
        torch.tensor([np.float64(1.5), np.float64(2)])
        torch.tensor([np.arange(2), np.arange(2)])
        torch.tensor([torch.tensor(1), torch.tensor(2)])
        torch.tensor(((1, 2), (3, 4)))
        torch.tensor([1.0], requires_grad=True)
        a = torch.tensor([1.0]); torch.tensor(a)
        torch.as_tensor([1, 2])
        a = np.zeros(2); t = torch.as_tensor(a); a[0] = 5; t
        a = np.zeros(2); t = torch.from_numpy(a); a[0] = 5; t
        a = np.zeros(2); t = torch.tensor(a); a[0] = 5; t
        !torch.tensor([[1, 2], [3]])
        !torch.tensor([1], requires_grad=True)
        !torch.tensor('abc')
        !torch.from_numpy([1, 2])
        torch.is_tensor(torch.ones(1)), torch.is_tensor(1)
        """,
    "Tensor": """
        torch.Tensor([1, 2])
        torch.Tensor([[1, 2], [3, 4]])
        torch.Tensor(2, 3).shape
        torch.Tensor(np.arange(3)).dtype
        isinstance(torch.ones(1), torch.Tensor)
        torch.Tensor([1, 2]).requires_grad
        torch.Tensor().shape
        """,
    "FloatTensor": """
        torch.FloatTensor([1, 2])
        torch.FloatTensor([[1.5, 2], [3, 4]])
        torch.FloatTensor(2, 3).shape
        torch.FloatTensor(2, 3).zero_()
        torch.FloatTensor(3).uniform_(-1, 1).shape
        """,
    "LongTensor": """
        torch.LongTensor([1, 2])
        torch.LongTensor([[1, 2], [3, 4]])
        torch.LongTensor(2, 3).dtype
        torch.LongTensor(2, 3).fill_(7)
        x.ints(2).type(torch.LongTensor)
        """,
    "zeros": """
        torch.zeros(2, 3)
        torch.zeros((2, 3))
        torch.zeros([2, 3], dtype=torch.int64)
        torch.zeros(torch.Size([2, 0]))
        torch.zeros(2, dtype=torch.bool)
        torch.zeros(())
        torch.zeros(2, requires_grad=True)
        torch.zeros(2, device='cpu')
        torch.zeros(2, 3, device=torch.device('cpu'), dtype=torch.uint8)
        torch.zeros(size=(2, 3))
        !torch.zeros(-1)
        !torch.zeros(2.5)
        """,
    "ones": """
        torch.ones(2, 3)
        torch.ones((2, 3), dtype=torch.float64)
        torch.ones(1, 4, 4, dtype=torch.uint8)
        torch.ones(x(2, 3).shape)
        torch.ones(x(2, 3).size(0), x(2, 3).size(1))
        """,
    "zeros_like": """
        torch.zeros_like(x(2, 3))
        torch.zeros_like(x.ints(2, 3))
        torch.zeros_like(x(2, 3), dtype=torch.bool)
        torch.zeros_like(x(2, 3), requires_grad=True)
        torch.ones_like(x.double(2, 3))
        torch.ones_like(x(2, 3), dtype=torch.long)
        torch.full_like(x(2, 3), 7)
        torch.full_like(x.ints(2, 3), 7)
        torch.full_like(x.ints(2, 3), 1.5, dtype=torch.float)
        torch.empty_like(x(2, 3)).shape
        torch.rand_like(x(2, 3)).shape
        torch.randn_like(x.double(2, 3)).dtype
        """,
    "new_zeros": """
        x.plain(2).new_zeros(2, 3)
        x.double(2).new_zeros((2, 3))
        x.ints(2).new_zeros(2)
        x.plain(2).new_zeros(2, dtype=torch.long)
        x.plain(2).new_ones(2, 3)
        x.plain(2).new_full((2, 3), 4)
        x.ints(2).new_tensor([1, 2])
        x.plain(2).new_tensor([1, 2])
        x.plain(2).new_empty(2, 3).shape
        next(iter(m(nn.Linear(2, 2)).parameters())).new_zeros(3)
        """,
    "full": """
        torch.full((2, 3), 1.5)
        torch.full((2, 3), 2)
        torch.full((2,), True)
        torch.full((2, 2), float('-inf'))
        torch.full((2,), 2, dtype=torch.float64)
        torch.full([], 3)
        """,
    "empty": """
        torch.empty(2, 3).shape
        torch.empty(2, 3, dtype=torch.long).dtype
        torch.empty(0)
        torch.empty((2, 0, 3)).numel()
        torch.empty(5).fill_(2)
        torch.empty(2, 3).requires_grad
        """,
    "eye": """
        torch.eye(3)
        torch.eye(2, 3)
        torch.eye(3, dtype=torch.long)
        torch.eye(3)[x.ints(4, low=0, high=3)]
        torch.eye(0)
        """,
    "arange": """
        torch.arange(5)
        torch.arange(5.0)
        torch.arange(2, 8, 3)
        torch.arange(0, 1, 0.25)
        torch.arange(5, 0, -2)
        torch.arange(0, 6, 2).float()
        torch.arange(3, dtype=torch.float)
        torch.arange(3, dtype=torch.float64, requires_grad=True)
        torch.arange(start=1, end=4)
        torch.arange(0, 10, 2, dtype=torch.float) * -(np.log(10000.0) / 10)
        torch.arange(0)
        torch.arange(5, device='cpu').unsqueeze(0)
        torch.arange(2.5)
        torch.arange(1, 2, 0.1)
        torch.arange(x.ints(low=3, high=6))
        !torch.arange(5, 2)
        !torch.arange(1, 5, 0)
        """,
    "linspace": """
        torch.linspace(0, 1, 5)
        torch.linspace(-2, 2, steps=4)
        torch.linspace(0, 1, 1)
        torch.linspace(0, 10, 5, dtype=torch.float64)
        torch.linspace(5, 0, 3, requires_grad=True)
        torch.linspace(0, 1, 0)
        """,
    "rand": """
        torch.rand(2, 3).shape, torch.rand((2, 3)).dtype
        a = torch.rand(2000); (a >= 0).all(), (a < 1).all(), bool(abs(a.mean() - 0.5) < 0.05)
        torch.rand(2, dtype=torch.float64).dtype
        torch.rand(2, requires_grad=True).requires_grad
        """,
    "randn": """
        torch.randn(2, 3).shape, torch.randn((2, 3)).dtype
        a = torch.randn(5000); bool(abs(a.mean()) < 0.1), bool(abs(a.std() - 1) < 0.1)
        torch.randn(2, 3, requires_grad=True).requires_grad
        torch.randn(3, dtype=torch.float64).dtype
        torch.randn(()).shape
        torch.normal(0.0, 1.0, (2, 3)).shape
        torch.normal(0, 0.02, size=(2, 3)).dtype
        torch.normal(torch.zeros(3), torch.ones(3)).shape
        """,
    "randint": """
        torch.randint(5, (2, 3)).dtype
        torch.randint(2, 5, (1000,)).min(), torch.randint(2, 5, (1000,)).max()
        torch.randint(0, 10, size=(2, 3)).shape
        torch.randint(high=3, size=(2,)).shape
        torch.randint(0, 2, (4,), dtype=torch.float).dtype
        torch.randint(5, (1,)).item() in range(5)
        """,
    "randperm": """
        torch.randperm(10).sort()[0]
        torch.randperm(5).dtype
        torch.randperm(0)
        torch.randperm(6, generator=torch.Generator().manual_seed(1)).shape
        """,
    "bernoulli": """
        torch.bernoulli(torch.ones(3)), torch.bernoulli(torch.zeros(3))
        torch.bernoulli(torch.full((2000,), 0.5)).unique()
        torch.bernoulli(torch.full((2, 3), 0.5)).dtype
        torch.zeros(3).bernoulli_(1.0)
        torch.empty(2, 3).bernoulli_(0.5).shape
        """,
    "multinomial": """
        torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
        torch.multinomial(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), num_samples=1)
        torch.multinomial(torch.ones(5), 5).sort()[0]
        torch.multinomial(torch.ones(2, 3), 7, replacement=True).shape
        torch.multinomial(torch.ones(5), 2).dtype
        torch.multinomial(torch.tensor([1.0, 0.0]), 2)  ## never draws what has the weight 0
        torch.multinomial(torch.tensor([3.0, 1.0]), 1).item() in (0, 1)
        !torch.multinomial(torch.ones(2), 3)
        !torch.multinomial(torch.tensor([-1.0, 1.0]), 1)
        !torch.multinomial(torch.zeros(3), 1)
        """,
    "manual_seed": """
        torch.manual_seed(3); a = torch.randn(4); torch.manual_seed(3); torch.equal(a, torch.randn(4))
        torch.manual_seed(3); a = torch.rand(4); torch.equal(a, torch.rand(4))
        torch.manual_seed(1); a = nn.Linear(2, 2); torch.manual_seed(1); \
torch.equal(a.weight, nn.Linear(2, 2).weight)
        type(torch.manual_seed(0)).__name__
        """,
    "Generator": """
        g = torch.Generator().manual_seed(2); a = torch.randn(3, generator=g); \
g.manual_seed(2); torch.equal(a, torch.randn(3, generator=g))
        g = torch.Generator(); g.manual_seed(5); g.initial_seed()
        torch.rand(2, generator=torch.Generator().manual_seed(1)).shape
        torch.randint(0, 5, (3,), generator=torch.Generator().manual_seed(1)).shape
        torch.multinomial(torch.ones(4), 2, generator=torch.Generator(device='cpu')).shape
        """,
    "type": """
        x(2).type(torch.float64)
        x(2).type(torch.LongTensor)
        x.ints(2).type(torch.FloatTensor)
        x.ints(2).type('torch.FloatTensor')
        x(2).type()
        x.ints(2).type()
        x.truths(3).type(torch.uint8)
        x(2).type_as(x.double(2))
        """,
    ".to": """
        x(2).to(torch.float64)
        x(2).to('cpu')
        x(2).to(torch.device('cpu'))
        x(2).to('cpu', torch.float64)
        x(2).to(device='cpu', dtype=torch.long)
        x(2).to(x.double(2))
        a = x(2); a.to(torch.float32) is a
        x.truths(3).to(torch.int64)
        x(2, low=-3, high=3).to(torch.int64)
        x.ints(3).to(torch.bool)
        x(2).to('cpu', non_blocking=True)
        x(2, low=-100, high=-1).to(torch.uint8).dtype
        """,
    "cast": "\n".join(
        f"x.values([0, 1, 2, 3], dtype='{a}').to(torch.{b})" for a in DTYPES for b in DTYPES
    ),
    ".float": """
        x.ints(3).float()
        x.double(3).float()
        x.truths(3).float()
        a = x(3); a.float() is a
        x(3).half()
        """,
    ".long": """
        x(3, low=-3, high=3).long()
        x.truths(3).long()
        x.double(3).long()
        x(3, low=-3, high=3).int()
        """,
    ".bool": """
        x.values([0.0, 1, -2, float('nan')]).bool()
        x.ints(4).bool()
        """,
    ".double": "x(3).double()\nx.ints(3).double()\nx.truths(3).double()",
    ".cpu": "x(3).cpu()\na = x(3); a.cpu() is a\nx(3).is_cuda",
    ".numpy": """
        x.plain(2, 3).numpy()
        x.plain(2, 3).numpy().tolist()
        a = x.plain(3); a.numpy()[0] = 9; a
        x(3).detach().numpy().tolist()
        x(3).data.cpu().numpy().tolist()
        np.asarray(x.plain(2)).tolist()
        np.array(x.ints(2)).tolist()
        x.ints(2).tolist(), x(2, 2).tolist(), x.truths(2).tolist()
        !x(3).numpy()
        !np.asarray(x(3))
        """,
    "float32": """
        torch.float32 == torch.float, torch.float32.is_floating_point, torch.ones(1).dtype
        show(torch.float32)
        torch.ones(2).dtype == torch.float32
        torch.ones(2).dtype is torch.float
        torch.get_default_dtype()
        torch.float32.itemsize
        """,
    "float64": "torch.float64 == torch.double\ntorch.ones(2, dtype=torch.float64)",
    "int64": "torch.int64 == torch.long\ntorch.ones(2, dtype=torch.int64)\ntorch.tensor(2).dtype",
    "uint8": """
        torch.ones(2, dtype=torch.uint8)
        torch.tensor([250], dtype=torch.uint8) + 10
        torch.tensor([1, 0], dtype=torch.uint8) == 0
        """,
    "bool": "torch.ones(2, dtype=torch.bool)\nshow(torch.bool)\ntorch.tensor([True, False])",
    "finfo": """
        torch.finfo(torch.float32).min, torch.finfo(torch.float32).max
        torch.finfo(torch.float32).eps, torch.finfo(torch.float64).tiny
        x(3).masked_fill(x.truths(3), torch.finfo(x(3).dtype).min)
        torch.iinfo(torch.int64).max
        """,
    "inf": "torch.inf, -torch.inf, torch.pi, torch.e\ntorch.isnan(torch.tensor(torch.nan))",
    "device": """
        torch.device('cpu').type
        show(torch.device('cpu')), show(torch.device('cuda:0'))
        torch.device('cuda', 1).index
        torch.device('cpu') == torch.ones(1).device
        x(2).device
        torch.device('cuda' if torch.cuda.is_available() else 'cpu').type
        repr(torch.device('cuda:1'))
        torch.device(torch.device('cpu'))
        torch.ones(2, device=x(2).device)
        !torch.device('cup')
        """,
    "cuda.is_available": "torch.cuda.is_available()\ntorch.cuda.device_count()",
    "save": """
        import io; f = io.BytesIO(); torch.save({'a': x.plain(2), 'n': 3}, f); f.seek(0); \
torch.load(f)
        import io; f = io.BytesIO(); torch.save(x.plain(2, 3), f); f.seek(0); torch.load(f)
        import io; f = io.BytesIO(); torch.save(x.ints(2, 3), f); f.seek(0); torch.load(f)
        """,
    "load": """
        import tempfile, os; p = os.path.join(tempfile.mkdtemp(), 'model.pt'); \
l = m(nn.Linear(2, 3)); torch.save(l.state_dict(), p); k = nn.Linear(2, 3); \
k.load_state_dict(torch.load(p)); k.weight
        import tempfile, os; p = os.path.join(tempfile.mkdtemp(), 'c.pt'); \
l = m(nn.Linear(2, 3)); o = torch.optim.Adam(l.parameters(), lr=0.1); \
l(x.plain(4, 2)).sum().backward(); o.step(); \
torch.save({'model': l.state_dict(), 'optim': o.state_dict(), 'epoch': 3, 'loss': 0.5}, p); \
c = torch.load(p); c['epoch'], c['loss'], c['optim']['state'][0]['exp_avg']
        torch.load.__name__
        import tempfile, os; p = os.path.join(tempfile.mkdtemp(), 'm.pt'); \
torch.save(x.plain(2), p); torch.load(p, map_location='cpu'), \
torch.load(p, map_location=torch.device('cpu')), torch.load(p, weights_only=True)
        import tempfile, os; d = tempfile.mkdtemp(); f = open(os.path.join(d, 'm'), 'wb'); \
f.write(b'no'); f.close(); os.path.getsize(os.path.join(d, 'm'))
        !torch.load('/nowhere/to/be/found.pt')
        """,
}
