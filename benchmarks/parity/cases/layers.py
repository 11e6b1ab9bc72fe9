"""Modules: what a Module is, layers, losses, containers, initial values."""

_NET = (
    "N = type('N', (nn.Module,), {'__init__': lambda s: (nn.Module.__init__(s), "
    "setattr(s, 'a', nn.Linear(2, 3)), setattr(s, 'b', nn.Sequential(nn.Tanh(), nn.Linear(3, 1))), "
    "setattr(s, 'w', nn.Parameter(torch.ones(2))), s.register_buffer('c', torch.zeros(2)), "
    "s.register_buffer('d', torch.ones(1), persistent=False), None)[-1], "
    "'forward': lambda s, x: s.b(s.a(x * s.w))}); n = N(); "
)


def _with_net(text):
    return "\n".join(
        ("!" + _NET + line.strip()[1:]) if line.strip().startswith("!") else _NET + line.strip()
        for line in text.splitlines()
        if line.strip()
    )


def _loss(call, *more):
    lines = [call.replace("{o}", f"reduction='{r}'") for r in ("mean", "sum", "none")]
    return "\n".join([*lines, *more])


_CROSS = "nn.CrossEntropyLoss({o})"

TABLE = {
    "Module": _with_net("""
        m(n)(x(4, 2))
        n.training, n.eval().training, n.a.training, n.train() is n, n.b[0].training
        len(list(n.parameters())), len(list(n.children())), len(list(n.modules()))
        n.zero_grad(), [p.grad for p in n.parameters()]
        n.float() is n, n.double().a.weight.dtype, n.c.dtype
        n.to(torch.float64).w.dtype
        n.to('cpu') is n, n.cpu() is n
        n.requires_grad_(False) is n, [p.requires_grad for p in n.parameters()]
        n.extra = 3; n.extra, hasattr(n, 'nothing')
        n.a = nn.Linear(2, 4); n.a.weight.shape
        n.w = nn.Parameter(torch.zeros(5)); n.w.shape, len(list(n.parameters()))
        n.add_module('e', nn.Linear(1, 1)); list(n.state_dict())[-1]
        n.register_parameter('p', None); n.p, len(list(n.parameters()))
        n.get_parameter('a.weight').shape, n.get_submodule('b.1').out_features
        n.b[1].weight is n.get_parameter('b.1.weight')
        del n.w; [k for k, p in n.named_parameters()]
        !n.w = torch.ones(2); n
        !n.nothing
        !n(x(3, 7))
        !nn.Module()(1)
        sum(p.numel() for p in n.parameters() if p.requires_grad)
        show(nn.Linear(2, 3)), show(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
        n.forward(x.plain(4, 2)).shape
        next(n.parameters()).device, next(n.parameters()).is_leaf
        isinstance(n, nn.Module), n.a.in_features, n.a.out_features
        f = []; n.register_forward_hook(lambda mod, i, o: f.append(o.shape)); n(x.plain(4, 2)); f
        """)
    + """
        A = type('A', (), {'greet': lambda s: 5}); \
N = type('N', (nn.Module, A), {}); n = N(); n.l = nn.Linear(2, 2); n.greet(), list(n.state_dict())
        N = type('N', (nn.Module,), {'__init__': lambda s: setattr(s, 'l', 5)}); N().l
        !N = type('N', (nn.Module,), {'__init__': lambda s: setattr(s, 'l', nn.Linear(1, 1))}); N()
        """,
    "register_buffer": _with_net("""
        n.c, [k for k, b in n.named_buffers()], list(n.state_dict())
        n.c.requires_grad, n.register_buffer('e', None), n.e
        n.c = torch.ones(2); n.state_dict()['c']
        n.double().c.dtype
        !n.register_buffer('a', torch.ones(1))
        !n.register_buffer('x.y', torch.ones(1))
        !n.register_buffer('z', 3)
        """),
    "apply": _with_net("""
        s = []; n.apply(lambda k: s.append(type(k).__name__)) is n, s
        f = torch.no_grad()(lambda k: k.weight.fill_(0.5) if type(k) == nn.Linear else None); \
n.apply(f); n.a.weight
        f = lambda k: nn.init.constant_(k.weight, 2) if isinstance(k, nn.Linear) else None; \
n.apply(f); n.a.weight
        n.apply(lambda k: k.weight.data.normal_(0.0, 0.02) if hasattr(k, 'weight') else None); \
bool(n.a.weight.abs().max() < 0.2)
        """),
    "named_*": _with_net("""
        [k for k, p in n.named_parameters()]
        [(k, p.shape) for k, p in n.named_parameters()]
        [k for k, p in n.named_modules()]
        [k for k, p in n.named_children()]
        [k for k, p in n.named_buffers()]
        [k for k, p in n.named_parameters(prefix='net', recurse=False)]
        [k for k, p in n.named_parameters(recurse=False)]
        n.b[1].weight = n.a.weight; [k for k, p in n.named_parameters()]
        dict(n.named_parameters())['a.weight'].shape
        """),
    "state_dict": _with_net("""
        list(n.state_dict())
        [v.requires_grad for v in n.state_dict().values()]
        type(n.state_dict()).__mro__[1].__name__
        s = n.state_dict(); n.a.weight.data.fill_(3); s['a.weight']
        list(n.state_dict(prefix='m.'))
        n.b[1].weight = n.a.weight; list(n.state_dict())
        {k: v.shape for k, v in n.a.state_dict().items()}
        """),
    "load_state_dict": _with_net("""
        show(n.load_state_dict(n.state_dict()))
        n.load_state_dict({'a.weight': torch.ones(3, 2)}, strict=False); n.a.weight
        r = n.load_state_dict({'a.weight': torch.ones(3, 2), 'q': torch.ones(1)}, strict=False); \
r.missing_keys, r.unexpected_keys
        n.load_state_dict({'a.weight': torch.ones(3, 2).double()}, strict=False); n.a.weight.dtype
        w = n.a.weight; n.load_state_dict(n.state_dict()); w is n.a.weight
        !n.load_state_dict({'a.weight': torch.ones(3, 2)})
        !n.load_state_dict({**n.state_dict(), 'q': torch.ones(1)})
        !n.load_state_dict({'a.weight': torch.ones(2, 3)}, strict=False)
        """),
    "deepcopy": _with_net("""
        import copy; c = copy.deepcopy(n); c.a.weight.data.fill_(9); m(n).a.weight
        import copy; c = copy.deepcopy(n); list(c.state_dict()), c.a is n.a
        import copy; l = nn.ModuleList([copy.deepcopy(n.a) for _ in range(3)]); len(l), l[0] is l[1]
        import copy; n.b[1].weight = n.a.weight; c = copy.deepcopy(n); c.b[1].weight is c.a.weight
        import copy; c = copy.deepcopy(m(n)); c(x(2, 2))
        import copy; c = copy.copy(n); c.a is n.a
        import pickle, copy; c = copy.deepcopy(n.state_dict()); n.a.weight.data.zero_(); \
bool((c['a.weight'] == 0).all())
        """),
    "Linear": """
        m(nn.Linear(3, 4))(x(2, 3))
        m(nn.Linear(3, 4, bias=False))(x(2, 3))
        m(nn.Linear(3, 4))(x(2, 5, 3))
        m(nn.Linear(3, 4))(x(3))
        m(nn.Linear(3, 4))(x(0, 3))
        m(nn.Linear(3, 4))(x(3, 2).t())
        m(nn.Linear(3, 4, dtype=torch.float64))(x.double(2, 3))
        m(nn.Linear(in_features=3, out_features=1))(x(2, 3)).squeeze(-1)
        nn.Linear(3, 4).bias.shape, nn.Linear(3, 4, bias=False).bias
        bool(nn.Linear(100, 50).weight.abs().max() <= 0.1)
        !m(nn.Linear(3, 4))(x(2, 4))
        !m(nn.Linear(3, 4))(x.ints(2, 3))
        !m(nn.Linear(3, 4))(x.double(2, 3))
        m(nn.Identity())(x(2))
        m(nn.Flatten())(x(2, 3, 4))
        """,
    "Embedding": """
        m(nn.Embedding(5, 3))(x.ints(2, 4))
        m(nn.Embedding(5, 3))(x.ints())
        m(nn.Embedding(5, 3, padding_idx=0))(torch.tensor([[0, 1, 1], [2, 0, 3]]))
        m(nn.Embedding(5, 3, padding_idx=-1))(torch.tensor([4, 1]))
        nn.Embedding(5, 3, padding_idx=2).weight[2]
        m(nn.Embedding(5, 3))(torch.zeros(0, dtype=torch.long))
        m(nn.Embedding(5, 3))(x.ints(2, dtype='int32'))
        nn.Embedding(5, 3).num_embeddings, nn.Embedding(5, 3).embedding_dim, \
nn.Embedding(5, 3).padding_idx
        e = m(nn.Embedding(5, 3)); l = nn.Linear(3, 5, bias=False); l.weight = e.weight; \
l(e(x.ints(2, 2)))
        e = nn.Embedding(3, 2); e.weight.data.uniform_(-0.1, 0.1); e.weight.requires_grad
        !m(nn.Embedding(5, 3))(torch.tensor([5]))
        !m(nn.Embedding(5, 3))(torch.tensor([-1]))
        !m(nn.Embedding(5, 3))(x(2))
        """,
    "from_pretrained": """
        nn.Embedding.from_pretrained(x.plain(4, 3)).weight
        nn.Embedding.from_pretrained(x.plain(4, 3)).weight.requires_grad
        nn.Embedding.from_pretrained(x.plain(4, 3), freeze=False)(x.ints(2, high=4))
        nn.Embedding.from_pretrained(x.plain(4, 3), padding_idx=0)(x.ints(2, high=4))
        """,
    "Dropout": """
        d = nn.Dropout(0.5); d.eval(); d(x(3, 4))
        nn.Dropout(0.0)(x(3, 4))
        nn.Dropout(1.0)(x(3, 4))
        y = nn.Dropout(0.25)(torch.ones(4000)); y.unique()
        y = nn.Dropout(0.25)(torch.ones(4000)); bool(abs(y.mean() - 1) < 0.06)
        a = x(50); y = nn.Dropout(0.5)(a); y.sum().backward(); \
((a.grad == 2) == (y != 0)).all(), a.grad.zero_()
        nn.Dropout().p, nn.Dropout(p=0.1).p
        torch.manual_seed(0); a = nn.Dropout(0.5)(torch.ones(9)); torch.manual_seed(0); \
torch.equal(a, nn.Dropout(0.5)(torch.ones(9)))
        !nn.Dropout(1.5)
        """,
    "Parameter": """
        nn.Parameter(torch.ones(2))
        nn.Parameter(torch.ones(2), requires_grad=False).requires_grad
        isinstance(nn.Parameter(torch.ones(2)), torch.Tensor)
        (nn.Parameter(torch.ones(2)) * 2).sum()
        nn.Parameter(torch.Tensor(2, 3)).shape
        isinstance(nn.Parameter(torch.ones(1)) * 2, nn.Parameter)
        show(nn.Parameter(torch.ones(2)))
        nn.Parameter(torch.randn(2, 3) / 2).is_leaf
        type(nn.Parameter(torch.ones(1)).data).__name__
        """,
    "ModuleList": """
        l = m(nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])); y = x(1, 2); \
[y := k(y) for k in l]; y
        l = nn.ModuleList([nn.Linear(1, 1)]); l.append(nn.Linear(1, 2)); len(l), list(l.state_dict())
        l = nn.ModuleList(); l.extend([nn.Tanh(), nn.ReLU()]); len(l)
        l = nn.ModuleList([nn.Linear(1, i + 1) for i in range(3)]); l[-1].out_features, len(l[:2])
        l = nn.ModuleList([nn.Linear(1, 1)]); l[0] = nn.Linear(1, 4); l[0].out_features
        l = nn.ModuleList([nn.Tanh()]); l.insert(0, nn.ReLU()); type(l[0]).__name__
        [type(a).__name__ for a in nn.ModuleList([nn.Tanh(), nn.ReLU()])]
        !nn.ModuleList([nn.Tanh()])[3]
        !nn.ModuleList([3])
        """,
    "ModuleDict": """
        d = nn.ModuleDict({'a': nn.Linear(1, 2), 'b': nn.Tanh()}); list(d.keys()), \
list(d.state_dict()), 'a' in d, len(d)
        d = nn.ModuleDict(); d['x'] = nn.Linear(1, 3); d['x'].out_features
        d = m(nn.ModuleDict(dict(wte=nn.Embedding(3, 2), h=nn.ModuleList([nn.Linear(2, 2)])))); \
d.h[0](d.wte(x.ints(4, high=3)))
        d = m(nn.ModuleDict([['lrelu', nn.ReLU()], ['t', nn.Tanh()]])); d['t'](x(2))
        [k for k, v in nn.ModuleDict({'a': nn.Tanh()}).items()]
        """,
    "Sequential": """
        m(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))(x(4, 2))
        s = nn.Sequential(nn.Linear(2, 3), nn.ReLU()); len(s), type(s[1]).__name__, s[0].in_features
        from collections import OrderedDict; \
s = m(nn.Sequential(OrderedDict([('l', nn.Linear(2, 3)), ('t', nn.Tanh())]))); s(x(1, 2))
        s = nn.Sequential(nn.Linear(2, 3)); s.append(nn.Tanh()); s.add_module('k', nn.ReLU()); \
[k for k, v in s.named_children()]
        m(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.ReLU()))[:2](x(1, 2))
        nn.Sequential()(x(2))
        [type(a).__name__ for a in nn.Sequential(nn.Tanh(), nn.ReLU())]
        s = nn.Sequential(*[nn.Linear(1, 1) for _ in range(2)]); list(s.state_dict())
        """,
    "LayerNorm": """
        m(nn.LayerNorm(4))(x(2, 3, 4))
        m(nn.LayerNorm((3, 4)))(x(2, 3, 4))
        m(nn.LayerNorm(4, eps=1e-2))(x(2, 4))
        m(nn.LayerNorm(4, elementwise_affine=False))(x(2, 4))
        m(nn.LayerNorm(4, bias=False))(x(2, 4))
        m(nn.LayerNorm(4))(x(4))
        m(nn.LayerNorm(4))(torch.ones(2, 4))
        m(nn.LayerNorm(4))(x(0, 4))
        m(nn.LayerNorm(4))(x(4, 2).t())
        m(nn.LayerNorm(4))(x(2, 4) * 1e4)
        nn.LayerNorm(4).normalized_shape, nn.LayerNorm(4).eps
        m(nn.LayerNorm(x(2, 4).size()[1:]))(x(2, 4))
        !m(nn.LayerNorm(4))(x(2, 3))
        """,
    "RMSNorm": """
        m(nn.RMSNorm(4))(x(2, 3, 4))
        m(nn.RMSNorm(4, eps=1e-5))(x(2, 4))
        m(nn.RMSNorm((3, 4)))(x(2, 3, 4))
        m(nn.RMSNorm(4, elementwise_affine=False))(x(2, 4))
        m(nn.RMSNorm(4))(torch.zeros(2, 4))
        m(nn.RMSNorm(4).double())(x.double(2, 4))
        !m(nn.RMSNorm(4))(x(2, 3))
        """,
    "BatchNorm1d": """
        m(nn.BatchNorm1d(4))(x(5, 4))
        m(nn.BatchNorm1d(4))(x(5, 4, 3))
        b = m(nn.BatchNorm1d(4)); b.eval(); b(x(5, 4))
        b = m(nn.BatchNorm1d(4)); b(x(5, 4)); b.running_mean, b.running_var, b.num_batches_tracked
        b = m(nn.BatchNorm1d(4, momentum=0.3)); b(x(5, 4)); b(x(5, 4)); b.running_mean, b.running_var
        m(nn.BatchNorm1d(4, affine=False))(x(5, 4))
        b = m(nn.BatchNorm1d(4, track_running_stats=False)); b.eval(); b(x(5, 4))
        b = m(nn.BatchNorm1d(4, momentum=None)); b(x(5, 4)); b(x(6, 4)); b.running_mean
        list(nn.BatchNorm1d(4).state_dict()), nn.BatchNorm1d(4).num_batches_tracked
        !m(nn.BatchNorm1d(4))(x(1, 4))
        !m(nn.BatchNorm1d(4))(x(5, 3))
        !m(nn.BatchNorm1d(4))(x(4))
        """,
    "ReLU": "m(nn.ReLU())(x(2, 3))\nnn.ReLU(inplace=True)(x(3) * 1)",
    "LeakyReLU": "nn.LeakyReLU()(x(2, 3))\nnn.LeakyReLU(0.2)(x(3))\nshow(nn.LeakyReLU(0.2))",
    "ELU": "nn.ELU()(x(2, 3))\nnn.ELU(alpha=0.5)(x(3))\nnn.ELU()(x.values([0.0, 90.0, -90.0]))",
    "Softplus": "nn.Softplus()(x(2, 3))\nnn.Softplus(beta=2.0)(x(3))\nnn.Softplus(threshold=0.5)(x(3))",
    "ParameterList": """
        n = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(3))]); list(n.state_dict())
        n = nn.ParameterList([torch.ones(2)]); n.append(torch.ones(1)); len(n), n[-1].requires_grad
        n = nn.ParameterList([torch.ones(2), torch.zeros(1)]); [p.shape for p in n]
        !nn.ParameterList([torch.ones(2)])[1]
        """,
    "GELU": "m(nn.GELU())(x(2, 3))\nm(nn.GELU(approximate='tanh'))(x(2, 3))\nnn.GELU('tanh')(x(3))",
    "SiLU": "m(nn.SiLU())(x(2, 3))\nnn.SiLU()(x.values([1e4, -1e4, 0.0]))",
    "Tanh": "m(nn.Tanh())(x(2, 3))",
    "Sigmoid": "m(nn.Sigmoid())(x(2, 3))\nnn.Sigmoid()(x.values([1e4, -1e4, 0.0]))",
    "Softmax": "m(nn.Softmax(dim=-1))(x(2, 3))\nnn.Softmax(0)(x(2, 3))\nnn.Softmax(1)(x(2, 3, 4))",
    "LogSoftmax": "m(nn.LogSoftmax(dim=1))(x(2, 3))\nnn.LogSoftmax(-1)(x(3))\nnn.LogSoftmax(0)(x(2, 3))",
    "CrossEntropyLoss": _loss(
        f"{_CROSS}(x(4, 3), x.ints(4, high=3))",
        *(
            _loss(f"nn.CrossEntropyLoss({o}, {{o}})(x(4, 3), torch.tensor([0, 2, 1, 2]))")
            for o in (
                "weight=torch.tensor([0.2, 1.0, 3.0])",
                "ignore_index=2",
                "label_smoothing=0.1",
                "weight=torch.tensor([0.2, 1.0, 3.0]), ignore_index=1, label_smoothing=0.3",
            )
        ),
        "nn.CrossEntropyLoss()(x(2, 3, 5), x.ints(2, 5, high=3))",
        "nn.CrossEntropyLoss(reduction='none')(x(2, 3, 2, 2), x.ints(2, 2, 2, high=3))",
        "nn.CrossEntropyLoss()(x(3), torch.tensor(1))",
        "nn.CrossEntropyLoss(ignore_index=0)(x(2, 3), torch.tensor([0, 0]))",
        "nn.CrossEntropyLoss(ignore_index=0, reduction='sum')(x(2, 3), torch.tensor([0, 0]))",
        "nn.CrossEntropyLoss()(x(2, 3), torch.tensor([-100, 1]))",
        "nn.CrossEntropyLoss()(x.values([[1e4, -1e4, 0.0]]), torch.tensor([1]))",
        "nn.CrossEntropyLoss()(x.values([[float('-inf'), 0.0, 1.0]]), torch.tensor([1]))",
        "nn.CrossEntropyLoss()(x.values([[float('-inf'), 0.0, 1.0]]), torch.tensor([0]))",
        "nn.CrossEntropyLoss()(x(0, 3), torch.zeros(0, dtype=torch.long))",
        "nn.CrossEntropyLoss()(x.double(4, 3), x.ints(4, high=3))",
        "nn.CrossEntropyLoss()(x(4, 3), torch.softmax(x.plain(4, 3), 1))",
        "nn.CrossEntropyLoss(label_smoothing=0.1)(x(4, 3), torch.softmax(x.plain(4, 3), 1))",
        "!nn.CrossEntropyLoss()(x(4, 3), torch.tensor([0, 1, 2, 3]))",
        "!nn.CrossEntropyLoss()(x(4, 3), x.ints(5, high=3))",
        "!nn.CrossEntropyLoss()(x(4, 3), torch.tensor([0, -1, 2, 1]))",
        "!nn.CrossEntropyLoss(reduction='average')(x(4, 3), x.ints(4, high=3))",
    ),
    "NLLLoss": _loss(
        "nn.NLLLoss({o})(torch.log_softmax(x(4, 3), 1), x.ints(4, high=3))",
        _loss("nn.NLLLoss(ignore_index=0, {o})(x(4, 3), torch.tensor([0, 1, 2, 0]))"),
        _loss(
            "nn.NLLLoss(weight=torch.tensor([0.2, 1.0, 3.0]), {o})(x(4, 3), torch.tensor([0, 1, 2, 0]))"
        ),
        "nn.NLLLoss()(x(2, 3, 4), x.ints(2, 4, high=3))",
        "nn.NLLLoss()(x(3), torch.tensor(2))",
        "!nn.NLLLoss()(x(4, 3), torch.tensor([0, 1, 2, 3]))",
        "nn.NLLLoss()(x(2, 3), torch.tensor([-100, -100]))",
    ),
    "MSELoss": _loss(
        "nn.MSELoss({o})(x(4, 3), x(4, 3))",
        "!nn.MSELoss()(x(4, 3), x(5))",
        "nn.MSELoss()(x(4, 3), x(3))",
        "nn.MSELoss()(x(4, 1), x(4))",
        "F.mse_loss(x(4), x.plain(4))",
    ),
    "L1Loss": _loss(
        "nn.L1Loss({o})(x(4, 3), x(4, 3))",
        "!nn.L1Loss()(x(4, 3), x(5))",
        "nn.L1Loss()(x.values([1.0, 2.0]), torch.tensor([1.0, 3.0]))",
        "F.l1_loss(x(4), x.plain(4))",
    ),
    "BCELoss": _loss(
        "nn.BCELoss({o})(torch.sigmoid(x(4, 3)), x.plain(4, 3, low=0, high=1))",
        "nn.BCELoss()(x.values([0.0, 1.0, 0.5]), torch.tensor([0.0, 0.0, 1.0]))",
        "nn.BCELoss(weight=torch.tensor([2.0, 1.0]))(torch.sigmoid(x(3, 2)), torch.ones(3, 2))",
        "!nn.BCELoss()(torch.tensor([2.0]), torch.tensor([1.0]))",
        "!nn.BCELoss()(torch.sigmoid(x(4, 1)), torch.ones(4))",
    ),
    "BCEWithLogitsLoss": _loss(
        "nn.BCEWithLogitsLoss({o})(x(4, 3), x.plain(4, 3, low=0, high=1))",
        "nn.BCEWithLogitsLoss()(x.values([1e4, -1e4, 0.0]), torch.tensor([0.0, 1.0, 1.0]))",
        "nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 1.0, 3.0]))(x(4, 3), torch.ones(4, 3))",
        "nn.BCEWithLogitsLoss(weight=torch.tensor([2.0, 1.0, 3.0]))(x(4, 3), torch.ones(4, 3))",
        "!nn.BCEWithLogitsLoss()(x(4, 1), torch.ones(4))",
    ),
    "KLDivLoss": "\n".join(
        f"nn.KLDivLoss(reduction='{r}'{o})(torch.log_softmax(x(4, 3), -1), {t})"
        for r in ("mean", "sum", "none", "batchmean")
        for o, t in (
            ("", "torch.softmax(x(4, 3), -1)"),
            (", log_target=True", "torch.log_softmax(x(4, 3), -1)"),
        )
    )
    + """
        nn.KLDivLoss(reduction='sum')(torch.log_softmax(x(2, 3), -1), \
torch.tensor([[0.0, 0.9, 0.1], [0.0, 0.0, 0.0]]))
        F.kl_div(torch.log_softmax(x(2, 3), -1), torch.softmax(x(2, 3), -1), reduction='batchmean')
        """,
    "nn.init": """
        t = torch.empty(3, 4); nn.init.zeros_(t)
        t = torch.empty(3, 4); nn.init.ones_(t), nn.init.constant_(t, 2.5)
        t = torch.empty(300, 4); bool(nn.init.uniform_(t, -0.1, 0.1).abs().max() <= 0.1)
        t = torch.empty(300, 40); abs(round(nn.init.normal_(t, std=0.02).std().item(), 3))
        t = torch.empty(300, 100); b = (6 / 400) ** 0.5; \
m = nn.init.xavier_uniform_(t).abs().max().item(); 0.97 * b < m <= b
        t = torch.empty(300, 100); s = nn.init.xavier_normal_(t).std().item(); \
round(s / (2 / 400) ** 0.5, 1)
        t = torch.empty(300, 100); s = nn.init.xavier_normal_(t, gain=2).std().item(); \
round(s / (2 / 400) ** 0.5, 1)
        t = torch.empty(300, 100); b = (6 / 100) ** 0.5; \
m = nn.init.kaiming_uniform_(t, nonlinearity='relu').abs().max().item(); 0.97 * b < m <= b
        t = torch.empty(300, 100); m = nn.init.kaiming_uniform_(t, a=5 ** 0.5).abs().max().item(); \
0.097 < m <= 0.1
        t = torch.empty(300, 100); s = nn.init.kaiming_normal_(t, mode='fan_out').std().item(); \
round(s / (2 / 300) ** 0.5, 1)
        t = torch.empty(5, 5); nn.init.orthogonal_(t); t @ t.t()
        t = torch.empty(3, 5); nn.init.orthogonal_(t, gain=2); t @ t.t()
        t = torch.empty(3000); m = nn.init.trunc_normal_(t, std=0.02, a=-0.04, b=0.04).abs().max(); \
bool(m <= 0.04)
        nn.init.calculate_gain('tanh'), nn.init.calculate_gain('relu')
        l = nn.Linear(2, 3); nn.init.zeros_(l.weight); l.weight
        l = nn.Linear(2, 3); nn.init.normal_(l.weight, mean=0.0, std=0.02); l.weight.requires_grad
        !nn.init.xavier_uniform_(torch.empty(3))
        """,
}
