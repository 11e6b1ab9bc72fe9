"""Names that the book does not teach: functions, activations, losses, layers."""


def _activation(f, *more):
    lines = [
        f"F.{f}(x(3, 4))",
        f"F.{f}(x.double(3, 4).t())",
        f"F.{f}(x.values([float('inf'), float('-inf'), float('nan'), 0.0]))",
        f"F.{f}(x(0))",
        f"F.{f}(x())",
    ]
    return "\n".join([*lines, *more])


def _loss(f, module, option):
    return f"""
        F.{f}(x(3, 4), x(3, 4))
        F.{f}(x(3, 4), x(3, 4), reduction='sum', {option}=0.5)
        F.{f}(x(3, 4), x(3, 4), reduction='none', {option}=2.0)
        F.{f}(x(3, 4), x(4))
        F.{f}(x.values([1.0, 2.0, 3.0]), x.values([1.0, 1.0, 5.0]))
        nn.{module}()(x(5), x(5))
        nn.{module}(reduction='sum', {option}=0.3)(x(5), x(5))
        show(nn.{module}())
        !F.{f}(x(3), x(3), {option}=-1.0)
        !F.{f}(x(3), x(3), reduction='no')
        """


def _lstm(options, *inputs):
    return [f"l = m(nn.LSTM({options})); l({given})" for given in inputs]


TABLE = {
    "median": """
        x(5).median()
        x(6).median()
        torch.median(x(3, 4))
        x(3, 4).median(1)
        x(3, 5).median(dim=0, keepdim=True)
        torch.median(x(2, 3, 4), -2).values
        x.ints(7, high=100).median()
        x.values([1.0, 2.0, 2.0, 2.0, 3.0]).median()
        x.values([1.0, float('nan'), 3.0]).median()
        x.values([[1.0, float('nan'), 3.0], [4.0, 2.0, 9.0]]).median(1)
        x().median()
        x().median(0)
        !x(0, 3).median(0)
        """,
    "dist": """
        torch.dist(x(3, 4), x(3, 4))
        x(4).dist(x(4), 1)
        torch.dist(x(3, 4), x(4), p=3)
        torch.dist(x(4), x(4), float('inf'))
        !torch.dist(x(2), x(3))
        """,
    "linalg.vector_norm": """
        torch.linalg.vector_norm(x(3, 4))
        torch.linalg.vector_norm(x(3, 4), 1, dim=1)
        torch.linalg.vector_norm(x(3, 4), ord=3, dim=(0, 1), keepdim=True)
        torch.linalg.vector_norm(x(3, 4), float('inf'), -1)
        torch.linalg.vector_norm(x(3, 4), -float('inf'), -1)
        torch.linalg.vector_norm(x(4), 0).detach()
        torch.linalg.vector_norm(x(4), dtype=torch.float64)
        """,
    "ravel": "x(2, 3).ravel()\ntorch.ravel(x(2, 3).t())\nx().ravel()",
    "split_with_sizes": """
        torch.split_with_sizes(x(5, 2), [1, 4])
        x(2, 5).split_with_sizes([2, 2, 1], dim=1)
        x(2, 5).split_with_sizes(split_sizes=[5, 0], dim=-1)
        !x(5).split_with_sizes([1, 1])
        """,
    "tensor_split": """
        torch.tensor_split(x(7, 2), 3)
        x(2, 7).tensor_split(3, dim=1)
        x(2).tensor_split(4)
        torch.tensor_split(x(7), [2, 5])
        torch.tensor_split(x(2, 7), (1, 1, 9), dim=-1)
        torch.tensor_split(x(7), torch.tensor([2, 5]))
        torch.tensor_split(x(7), torch.tensor(2))
        torch.tensor_split(x(7), [5, 2])
        !x(3).tensor_split(0)
        """,
    "index_put": """
        x(4).index_put((torch.tensor([0, 2]),), x(2))
        x(3, 4).index_put((torch.tensor([0, 2]), torch.tensor([1, 3])), x(2))
        x(3, 4).index_put((torch.tensor([0, 2]),), x(4))
        x(3, 4).index_put((torch.tensor([0, 2]),), x())
        x(4).index_put([torch.tensor([0, 0, 2])], x(3), accumulate=True)
        torch.index_put(x(3, 4), (torch.tensor([0, 0]), torch.tensor([1, 1])), x(), True)
        x(3).index_put((torch.tensor([True, False, True]),), x(2))
        a = x(4) * 1; a.index_put_((torch.tensor([1, 1]),), x(2), accumulate=True); a
        a = x.plain(4); a.index_put_((torch.tensor([1]),), torch.tensor(5.0)); a
        !x(4).index_put((torch.tensor([0]),), torch.tensor([1]))
        !x(4).index_put((torch.tensor([4]),), x(1))
        """,
    "F.hardtanh": _activation(
        "hardtanh",
        "F.hardtanh(x(9), -0.5, 1.5)",
        "F.hardtanh(x.values([-1.0, 1.0, 0.0]))",
        "F.hardtanh(x(3) * 1, inplace=True)",
        "y = x.plain(3); F.hardtanh(y, -0.1, 0.1, inplace=True); y",
        "show(nn.Hardtanh())",
        "show(nn.Hardtanh(-2.0, 2.0, inplace=True))",
        "nn.Hardtanh(-0.5, 0.5)(x(5))",
    ),
    "F.relu6": _activation(
        "relu6",
        "F.relu6(x(9, low=-9, high=9))",
        "F.relu6(x.values([0.0, 6.0]))",
        "F.relu6(x(3) * 1, True)",
        "show(nn.ReLU6())",
        "nn.ReLU6(inplace=True)(x(3) * 1)",
    ),
    "F.mish": _activation(
        "mish",
        "F.mish(x(9, low=-30, high=30))",
        "F.mish(x(3) * 1, inplace=True)",
        "nn.Mish()(x(3))",
    ).replace("float('inf'), float('-inf'), ", ""),
    "F.softsign": _activation("softsign", "nn.Softsign()(x(3))").replace(
        "float('inf'), float('-inf'), ", ""
    ),
    "F.threshold": """
        F.threshold(x(9), 0.1, 20)
        F.threshold(x(9), threshold=-0.5, value=-1.5)
        F.threshold(x.values([0.1, float('nan'), float('inf')]), 0.1, 3.0)
        F.threshold(x(3) * 1, 0.1, 20.0, inplace=True)
        F.threshold(x.ints(5), 2, 9)
        nn.Threshold(0.1, 20)(x(5))
        show(nn.Threshold(0.1, 20))
        """,
    "F.prelu": """
        F.prelu(x(3, 4), x(1))
        F.prelu(x(3, 4), x(4))
        F.prelu(x(2, 4, 5), x(4))
        F.prelu(x(5), x(1))
        F.prelu(x(), x(1))
        F.prelu(x.values([0.0, -1.0, 2.0]), x(1))
        m(nn.PReLU())(x(3, 4))
        m(nn.PReLU(4, init=0.1))(x(3, 4))
        show(nn.PReLU(3))
        nn.PReLU(2).weight
        !F.prelu(x(3, 4), x(3))
        """,
    "F.softmin": """
        F.softmin(x(3, 4), dim=1)
        F.softmin(x(3, 4), 0)
        F.softmin(x(3, 4), dim=-1, dtype=torch.float64)
        F.softmin(x(3, 4))
        nn.Softmin(dim=1)(x(3, 4))
        show(nn.Softmin(1))
        """,
    "F.smooth_l1_loss": _loss("smooth_l1_loss", "SmoothL1Loss", "beta")
    + "\nF.smooth_l1_loss(x(5), x(5), beta=0.0)",
    "F.huber_loss": _loss("huber_loss", "HuberLoss", "delta"),
    "F.group_norm": """
        F.group_norm(x.double(2, 4), 2)
        F.group_norm(x(2, 8), 2)
        F.group_norm(x(2, 6, 3), 3, x(6), x(6))
        F.group_norm(x(2, 6, 3, 2), 1, weight=x(6), eps=1e-3)
        F.group_norm(x(2, 4, 3), 4)
        m(nn.GroupNorm(2, 6))(x(2, 6, 5))
        m(nn.GroupNorm(2, 6, affine=False))(x(2, 6))
        m(nn.GroupNorm(2, 6, bias=False))(x(2, 6))
        show(nn.GroupNorm(2, 6))
        !F.group_norm(x(2, 4), 3)
        !nn.GroupNorm(3, 4)
        """,
    "F.conv1d": """
        F.conv1d(x(2, 3, 7), x(4, 3, 2))
        F.conv1d(x(2, 3, 7), x(4, 3, 3), x(4), stride=2)
        F.conv1d(x(2, 3, 7), x(4, 3, 3), x(4), padding=2)
        F.conv1d(x(2, 3, 9), x(4, 3, 3), x(4), 2, 1, 2)
        F.conv1d(x(2, 4, 7), x(6, 2, 3), x(6), padding='same', groups=2)
        F.conv1d(x(2, 4, 7), x(4, 1, 4), padding='same', dilation=2, groups=4)
        F.conv1d(x(2, 3, 7), x(4, 3, 3), padding='valid', stride=(2,))
        F.conv1d(x(3, 7), x(4, 3, 3), padding=(1,))
        F.conv1d(x.double(2, 3, 7), x.double(4, 3, 7))
        F.conv1d(x(2, 3, 7).transpose(0, 2).contiguous().transpose(0, 2), x(4, 3, 1))
        m(nn.Conv1d(3, 4, 2))(x(2, 3, 7))
        m(nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False))(x(2, 4, 9))
        m(nn.Conv1d(4, 6, (3,), padding='same'))(x(4, 9))
        show(nn.Conv1d(2, 4, 3))
        show(nn.Conv1d(2, 4, 3, stride=2, padding=1, dilation=2, groups=2, bias=False))
        show(nn.Conv1d(2, 4, 3, padding='same'))
        c = nn.Conv1d(2, 4, 3); c.kernel_size, c.stride, c.padding, c.weight.shape
        !F.conv1d(x(2, 3, 7), x(4, 2, 3))
        !F.conv1d(x(2, 3, 1), x(4, 3, 2))
        !F.conv1d(x(7), x(4, 3, 2))
        !F.conv1d(x(2, 3, 7), x(4, 3, 2), stride=2, padding='same')
        !F.conv1d(x(2, 3, 7), x(4, 3, 2), padding='some')
        !F.conv1d(x(2, 3, 7), x.double(4, 3, 2))
        !nn.Conv1d(3, 4, 2, groups=2)
        !nn.Conv1d(2, 4, 3, stride=2, padding='same')
        !nn.Conv1d(2, 4, 3, padding='some')
        """,
    "LazyLinear": """
        l = nn.LazyLinear(3); y = l(x(2, 5)); m(l)(x(2, 5))
        l = nn.LazyLinear(3, bias=False); y = l(x(2, 5)); type(l).__name__, show(l)
        show(nn.LazyLinear(3))
        l = nn.LazyLinear(3); w = l.weight; y = l(x(2, 5)); w is l.weight, w.shape
        """,
    "LSTM": "\n".join(
        [
            *_lstm(
                "3, 5, proj_size=2", "x(4, 2, 3)", "x(4, 3)", "x(4, 2, 3), (x(1, 2, 2), x(1, 2, 5))"
            ),
            *_lstm(
                "3, 5, num_layers=2, bidirectional=True, proj_size=2, batch_first=True",
                "x(2, 4, 3)",
                "nn.utils.rnn.pack_padded_sequence(x(3, 4, 3), [4, 2, 1], batch_first=True)",
                "nn.utils.rnn.pack_padded_sequence(x(3, 4, 3), [1, 4, 2], True, enforce_sorted=False)",
            ),
            *_lstm("3, 5, bias=False, proj_size=1", "x(4, 2, 3)"),
            "show(nn.LSTM(3, 5, 2, proj_size=2))",
            "nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2)._flat_weights_names",
            "[[p.shape for p in w] for w in nn.LSTM(3, 5, 2, bidirectional=True).all_weights]",
            "[[p.shape for p in w] for w in nn.GRU(3, 5, bias=False).all_weights]",
            "nn.RNN(3, 5, 2)._flat_weights_names",
            "!nn.LSTM(3, 5, proj_size=5)",
            "!nn.LSTM(3, 5, proj_size=-1)",
            "!nn.RNN(3, 5, proj_size=2)",
            "!nn.GRU(3, 5, proj_size=2)",
            "!l = nn.LSTM(3, 5, proj_size=2); l(x(4, 2, 3), (x(1, 2, 5), x(1, 2, 5)))",
        ]
    ),
    "<<": """
        x.ints(3, 4) << 2
        x.ints(5) << x.ints(5)
        2 << x.ints(3)
        y = x.ints(3); y <<= 1; y
        y = x.ints(3); y.bitwise_left_shift_(3); y
        !x(3) << 1
        """,
    ">>": """
        x.ints(3, 4, high=100) >> 2
        -x.ints(5, high=100) >> x.ints(5)
        torch.bitwise_right_shift(x.ints(3, high=100), 1)
        !x(3) >> 1
        """,
    "searchsorted": """
        torch.searchsorted(x.plain(7).sort().values, x(3, 4))
        torch.searchsorted(x.plain(3, 7).sort().values, x.plain(3, 2), right=True)
        torch.searchsorted(x.ints(9).sort().values, x.ints(4), side='right')
        torch.searchsorted(x.plain(7).sort().values, 0.3, out_int32=True)
        s = x.plain(5); torch.searchsorted(s, x.plain(2, 2), sorter=s.argsort())
        !torch.searchsorted(x.plain(2, 3), x.plain(3))
        !torch.searchsorted(x.plain(3), x.plain(3), side='middle')
        """,
    "bucketize": """
        torch.bucketize(x(3, 4), x.plain(5).sort().values)
        torch.bucketize(x.ints(4), x.ints(5).sort().values, right=True)
        torch.bucketize(0.1, x.plain(5).sort().values)
        !torch.bucketize(x(3), x.plain(2, 2))
        """,
    "register_full_backward_hook": """
        l = m(nn.Linear(3, 2)); g = []; l.register_full_backward_hook(lambda n, i, o: g.extend([*i, *o])); l(x(4, 3)).sum().backward(); g
        l = m(nn.Linear(3, 2)); l.register_full_backward_hook(lambda n, i, o: (3 * i[0],)); l(x(4, 3))
        l = m(nn.Linear(3, 2)); l.register_full_backward_pre_hook(lambda n, o: (3 * o[0],)); l(x(4, 3))
        l = m(nn.Linear(3, 2)); h = l.register_full_backward_hook(lambda n, i, o: (3 * i[0],)); h.remove(); l(x(4, 3))
        !l = nn.ReLU(inplace=True); l.register_full_backward_hook(lambda n, i, o: None); l(x(3) * 1)
        !l = nn.Linear(3, 2); l.register_full_backward_hook(lambda n, i, o: ()); l(x(3)).sum().backward()
        """,
    "parametrizations": """
        l = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)); m(l)(x(4, 3))
        l = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 2), dim=None); m(l)(x(4, 3))
        l = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 2, 2), dim=1); m(l)(x(4, 3, 5))
        l = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)); m(l).eval()(x(4, 3))
        !torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=0)
        """,
}
