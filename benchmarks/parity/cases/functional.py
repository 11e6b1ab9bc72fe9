"""Functions of nn.functional."""

_EXTREME = "x.values([[1e4, -1e4, 0.0], [1e4, 1e4, 1e4], [float('-inf'), 0.0, 1.0]])"
_MINUS = "x.values([[float('-inf')] * 3, [0.0, 1.0, float('-inf')]])"


def _softmax(f):
    return f"""
        F.{f}(x(3, 4), dim=-1)
        F.{f}(x(3, 4), 0)
        F.{f}(x(2, 3, 4), dim=1)
        torch.{f}(x(3, 4), dim=1)
        x(3, 4).{f}(-1)
        x(3, 4).{f}(dim=1)
        F.{f}(x(4), dim=0)
        F.{f}(x(), dim=0)
        F.{f}(x(0, 3), dim=-1)
        F.{f}(x(3, 0), dim=-1)
        F.{f}(x.double(3, 4), dim=-1)
        F.{f}(x(4, 3).t(), dim=-1)
        F.{f}({_EXTREME}, dim=-1)
        F.{f}({_MINUS}, dim=-1)
        F.{f}(x.values([[float('inf'), 0.0]]), dim=-1)
        F.{f}(x(2, 5000, dtype='float16'), dim=-1)
        F.{f}(x(3, 4), dim=-1, dtype=torch.float64)
        !F.{f}(x(3, 4), dim=2)
        !F.{f}(x.ints(3, 4), dim=1)  ## RuntimeError: use .float()
        """


TABLE = {
    "F.softmax": _softmax("softmax"),
    "F.log_softmax": _softmax("log_softmax"),
    "F.relu": "F.relu(x(3, 4))\nF.relu(x.ints(3))\nF.relu(x.values([0.0, -0.0, float('nan')]))"
    "\ntorch.maximum(x.values([float('nan'), 1.0]), x.values([2.0, float('nan')]))"
    "\nF.relu(x(3) * 1, inplace=True)\nF.leaky_relu(x(3), 0.1)\nF.tanh(x(3))\nF.sigmoid(x(3))"
    "\nF.silu(x(3))\nF.softplus(x(3))\nF.elu(x(3))",
    "F.gelu": """
        F.gelu(x(3, 4))
        F.gelu(x(3, 4), approximate='tanh')
        F.gelu(x.values([0.0, 1e4, -1e4, 5.0, -5.0]))
        F.gelu(x.values([0.0, 1e4, -1e4, 5.0, -5.0]), approximate='tanh')
        F.gelu(x.double(3, 4))
        F.gelu(x(0))
        !F.gelu(x(3), approximate='no')
        !F.gelu(x.ints(3))  ## integers become float32, as in other functions
        """,
    "one_hot": """
        F.one_hot(x.ints(4), num_classes=5)
        F.one_hot(x.ints(4), 7)
        F.one_hot(torch.tensor([0, 2, 1]))
        F.one_hot(x.ints(2, 3), 5)
        F.one_hot(torch.tensor(2), 4)
        F.one_hot(x.ints(3), 5).float()
        """,
    "F.one_hot": """
        F.one_hot(x.ints(2, 2), 5).dtype
        F.one_hot(torch.zeros(0, dtype=torch.long), 3)
        !F.one_hot(torch.tensor([3]), 3)
        !F.one_hot(torch.tensor([-1]), 3)
        !F.one_hot(x(3), 3)
        """,
    "F.cross_entropy": """
        F.cross_entropy(x(4, 3), x.ints(4, high=3))
        F.cross_entropy(x(2, 5, 3).view(-1, 3), x.ints(2, 5, high=3).view(-1))
        F.cross_entropy(x(2, 5, 3).transpose(1, 2), x.ints(2, 5, high=3))
        F.cross_entropy(x(4, 3), torch.tensor([0, 1, -1, 2]), ignore_index=-1)
        F.cross_entropy(x(4, 3), x.ints(4, high=3), reduction='sum')
        F.cross_entropy(x(4, 3), x.ints(4, high=3), reduction='none')
        F.cross_entropy(x(4, 3), x.ints(4, high=3), label_smoothing=0.1)
        F.cross_entropy(x(4, 3), x.ints(4, high=3), torch.tensor([1.0, 2.0, 3.0]))
        F.cross_entropy(x(4, 3), torch.full((4, 3), 1 / 3))
        F.cross_entropy(x(4, 3).t().reshape(4, 3), x.ints(4, high=3))
        !F.cross_entropy(x(4, 3), x.ints(3, high=3))
        !F.cross_entropy(x(4, 3), x(4))
        !F.cross_entropy(x(2, 5, 3), x.ints(2, 5, high=3))
        """,
    "F.nll_loss": """
        F.nll_loss(F.log_softmax(x(4, 3), dim=1), x.ints(4, high=3))
        F.nll_loss(x(4, 3), torch.tensor([0, 1, 2, 0]), ignore_index=0)
        F.nll_loss(x(4, 3), x.ints(4, high=3), reduction='sum')
        F.nll_loss(x(2, 3, 4), x.ints(2, 4, high=3), reduction='none')
        F.nll_loss(x(4, 3), x.ints(4, high=3), weight=torch.tensor([1.0, 2.0, 3.0]))
        F.nll_loss(x(2, 3), torch.tensor([-100, -100]))
        """,
    "F.dropout": """
        F.dropout(x(3, 4), 0.5, training=False)
        F.dropout(x(3, 4), p=0.0)
        F.dropout(torch.ones(1000), 0.5).unique()
        F.dropout(x(4), 1.0)
        F.dropout(x(4), 0.3, False)
        !F.dropout(x(3), 2.0)
        """,
    "F.layer_norm": """
        F.layer_norm(x(2, 3, 4), (4,))
        F.layer_norm(x(2, 3, 4), [3, 4])
        F.layer_norm(x(2, 4), (4,), x(4), x(4))
        F.layer_norm(x(2, 4), (4,), weight=x(4), bias=None, eps=1e-3)
        F.layer_norm(x(2, 4), x(2, 4).shape[-1:])
        F.layer_norm(x.double(2, 4), (4,), x.double(4), x.double(4))
        F.rms_norm(x(2, 4), (4,), x(4), 1e-5)
        F.normalize(x(3, 4), dim=-1)
        F.normalize(x(3, 4), p=2, dim=1)
        F.cosine_similarity(x(3, 4), x(3, 4), dim=-1)
        F.cosine_similarity(x(3, 4), x(1, 4), dim=0)
        F.cosine_similarity(x(3, 4), x(3, 1), dim=1)
        F.cosine_similarity(x(3, 4), x(4), dim=0)
        F.cosine_similarity(x(2, 1, 4), x(1, 3, 4), dim=-1)
        F.cosine_similarity(x(2), x(2), dim=0, eps=9.0)  ## the gradient of what is computed
        F.layer_norm(x(3, 1), (1,), x(1), x(1))  ## exactly 0, not nearly
        F.layer_norm(x(2, 1, 1), (1, 1))
        F.layer_norm(x(3, 0), (0,))
        F.layer_norm(x(2, 600, low=200, high=300, dtype='float16'), (600,))
        F.rms_norm(x(2, 8, low=200, high=400, dtype='float16'), (8,))
        !F.layer_norm(x(2, 4), (3,))
        """,
    "F.embedding": """
        F.embedding(x.ints(2, 3), x(5, 4))
        F.embedding(torch.tensor([0, 0, 1]), x(5, 4), padding_idx=0)
        F.embedding(torch.tensor(2), x(5, 4))
        !F.embedding(torch.tensor([7]), x(5, 4))
        """,
    "F.linear": """
        F.linear(x(2, 3), x(4, 3))
        F.linear(x(2, 3), x(3))
        F.linear(x(2, 5, 3), x(3))
        F.linear(x(2, 3), x(4, 3), x(4))
        F.linear(x(2, 5, 3), x(4, 3), x(4))
        F.linear(x(3), x(4, 3), bias=x(4))
        F.linear(x(3, 2).t(), x(3, 4).t(), x(4))
        F.linear(x(2, 3), x(3))
        !F.linear(x(2, 3), x(4, 5))
        """,
    "F.pad": """
        F.pad(x(2, 3), (1, 2))
        F.pad(x(2, 3), (1, 2, 0, 1))
        F.pad(x(2, 3, 4), (0, 0, 1, 0))
        F.pad(x(2, 3), (0, 2), value=-1.0)
        F.pad(x.ints(2, 3), (0, 2), 'constant', 9)
        F.pad(x.ints(3), (1, 0), value=7)
        F.pad(x(2, 3), (0, -1))
        F.pad(x(2, 3), (-1, 1))
        F.pad(x(2, 3), (0, 0))
        F.pad(x(2, 3), [1, 1], mode='constant', value=0)
        F.pad(x.truths(3), (0, 2), value=True)
        !F.pad(x(3), (1, 1, 1, 1))
        !F.pad(x(3), (1,))
        """,
}
