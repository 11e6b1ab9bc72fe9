"""The feed-forward network and the block, as modules."""

import functools

import minitorch as mt
from minitorch import nn
from minitorch.checks.exercise import Draw, exercise


def _shapes(parameters):
    """Their shapes by name, as text: what a message shows."""
    return {name: f"shape {tuple(x.shape)}" for name, x in parameters}


@functools.cache
def _drawn(reference, sizes):
    """Parameters that depend on the sizes alone."""
    draw = Draw(0)
    return {name: draw.normal(*x.shape) for name, x in reference(*sizes).named_parameters()}


def made(reference, answer, sizes):
    """The module in float64, with drawn parameters where it has those of the reference."""
    module = answer(*sizes).double()
    drawn = _drawn(reference, sizes)
    if _shapes(module.named_parameters()) == _shapes(drawn.items()):
        module.load_state_dict(drawn)
    return module


def _results(reference, answer, sizes, x, *others):
    """Its parameters; and, if these are as they should be, its output and all gradients."""
    module, drawn = made(reference, answer, sizes), _drawn(reference, sizes)
    results = {"the dict of parameters": _shapes(module.named_parameters()), "the output": None}
    results |= {f"the gradient with respect to {name}": None for name in ("x", *drawn)}
    if results["the dict of parameters"] != _shapes(drawn.items()):
        return results
    output = module(x.requires_grad_(), *others)
    results["the output"] = output
    if isinstance(output, mt.Tensor) and output.requires_grad:
        (output * Draw(1).normal(*output.shape)).sum().backward()
        results["the output"] = output.detach()
    return results | {
        f"the gradient with respect to {name}": mt.zeros_like(x) if x.grad is None else x.grad
        for name, x in {"x": x, **dict(module.named_parameters())}.items()
    }


# The feed-forward network


def _network_cases(draw, hidden):
    """Sizes (width, hidden) and an input; all sizes differ, so that a swapped one shows."""
    public = [((2, 5), (3, 2)), ((3, 4), (2, 2, 3))]
    for sizes, shape in [((4, 2), (2, 3, 4)), ((1, 6), (2, 1, 3, 1))] if hidden else public:
        yield sizes, draw.normal(*shape)


def _run_network(answer, sizes, x):
    return _results(_Network, answer, sizes, x)


def _positions_stay_apart(answer, sizes, x):
    network, others = made(_Network, answer, sizes), x.clone()
    if not mt.equal(network(x), network(x)):
        return "Two calls with the same input must give the same output."
    others[..., -1, :] += 1
    if not mt.allclose(network(x)[..., :-1, :], network(others)[..., :-1, :]):
        return "The output at a position must not depend on what stands at another."
    return None


@exercise(
    cases=_network_cases,
    run=_run_network,
    properties=(_positions_stay_apart,),
    gradients=False,
    see='chapter 09, "The feed-forward network"',
)
class FeedForward(nn.Module):
    """(..., width) -> (..., width). What mistakes exchange is a method of its own."""

    bias = True

    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=self.bias)
        self.down = nn.Linear(hidden, width, bias=self.bias)

    def forward(self, x):
        return self.down(self.between(self.up(x)))

    def between(self, x):
        return x.relu()


_Network = FeedForward.reference


@FeedForward.wrong(
    "two linear layers with nothing between them, so one linear map",
    "Put the ReLU between up and down: without it the network cannot compute more than a matrix.",
)
class _(_Network):
    def between(self, x):
        return x


@FeedForward.wrong(
    "right but for the ReLU, which comes after the second layer",
    "It belongs between the two. The output may be negative.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x)).relu()


@FeedForward.wrong(
    "right but for a second ReLU, at the end",
    "The output may be negative: nothing comes after the second layer.",
)
class _(_Network):
    def forward(self, x):
        return super().forward(x).relu()


@FeedForward.wrong(
    "right but for the ReLU, which comes before the first layer",
    "It belongs between the two layers.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x.relu()))


@FeedForward.wrong(
    "right, and then x is added",
    "The residual connection belongs to the block, outside of this network.",
)
class _(_Network):
    def forward(self, x):
        return x + super().forward(x)


@FeedForward.wrong(
    "right but for the function between the layers, which is a softmax",
    "This is no attention: each hidden unit has its ReLU, by itself.",
)
class _(_Network):
    def between(self, x):
        return x.softmax(dim=-1)


@FeedForward.wrong(
    "right but for the function between the layers, which is a tanh",
    "It should be the ReLU.",
)
class _(_Network):
    def between(self, x):
        return x.tanh()


@FeedForward.wrong(
    "right but for the function between the layers, which is a sigmoid",
    "It should be the ReLU.",
)
class _(_Network):
    def between(self, x):
        return x.sigmoid()


@FeedForward.wrong(
    "right but for the function between the layers, which is a GELU",
    "Many models have it there; this one has the ReLU of 2017.",
)
class _(_Network):
    def between(self, x):
        return nn.functional.gelu(x)


@FeedForward.wrong(
    "right but for the sign: it takes the negative part",
    "ReLU(x) is max(x, 0).",
)
class _(_Network):
    def between(self, x):
        return x.clamp(max=0)


@FeedForward.wrong(
    "a network that mixes positions: it takes their mean",
    "Each position goes through the network by itself; nn.Linear does that with any axes in front.",
)
class _(_Network):
    def forward(self, x):
        return super().forward(x.mean(dim=-2, keepdim=True)).expand(*x.shape)


@FeedForward.wrong(
    "right but for the biases, which its layers do not have",
    "b_1 and b_2 are part of it: nn.Linear with its bias.",
)
class _(_Network):
    bias = False


@FeedForward.wrong(
    "a network whose hidden layer is as wide as the input",
    "The layer up goes from width to hidden, the layer down from hidden to width.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(width, width)


@FeedForward.wrong(
    "a network whose two layers are exchanged, or the sizes of its layers",
    "The layer up goes from width to hidden, the layer down from hidden to width.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(hidden, width)


# The block


def _block_cases(draw, hidden):
    """Sizes (width, heads, hidden), x (B, n, width) and where to look."""
    public = [((3, 1, 2), 1, 2, None), ((4, 2, 3), 2, 3, "random")]
    others = [((3, 3, 4), 1, 3, "causal"), ((6, 2, 4), 2, 2, "random")]
    for sizes, batch, n, mask in others if hidden else public:
        allowed = None if mask is None else mt.ones(n, n).tril().bool()
        if mask == "random":  # every query may look somewhere, and none at the last key
            allowed = draw.integers(2, n, n) > 0
            allowed[:, 0], allowed[:, -1] = True, False
        yield sizes, draw.normal(batch, n, sizes[0]), allowed


def _run_block(answer, sizes, x, allowed):
    others = () if allowed is None else (allowed,)
    return _results(_Block, answer, sizes, x, *others)


def _nothing_leaks(answer, sizes, x, allowed):
    if allowed is None:
        return None
    module, others = made(_Block, answer, sizes), x.clone()
    others[:, -1] *= -1
    if not mt.allclose(module(x, allowed)[:, :-1], module(others, allowed)[:, :-1]):
        return "A token that the others are not allowed to look at must not change their outputs."
    return None


@exercise(
    cases=_block_cases,
    run=_run_block,
    properties=(_nothing_leaks,),
    gradients=False,
    see='chapter 09, "The block"',
)
class Block(nn.Module):
    """x (B, n, width), where to look (n, n) or None -> (B, n, width).

    The pieces that mistakes exchange are methods of their own.
    """

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )

    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_2(x))

    def attend(self, x, allowed):
        return self.look(x, x, x, allowed)

    def look(self, query, key, value, allowed):
        return self.attention(query, key, value, attn_mask=self.mask(allowed))[0]

    def mask(self, allowed):
        return None if allowed is None else ~allowed


_Block = Block.reference


@Block.wrong(
    "right but for the mask, which says the opposite",
    "allowed is True where a query may look, attn_mask where it may not: attn_mask=~allowed.",
)
class _(_Block):
    def mask(self, allowed):
        return allowed


@Block.wrong(
    "right but for the mask, which is not used",
    "Hand it on to the attention, the other way round: attn_mask=~allowed.",
)
class _(_Block):
    def mask(self, allowed):
        return None


@Block.wrong(
    "right but for the mask, which is always causal",
    "Use the argument allowed, and no mask where it is None.",
)
class _(_Block):
    def attend(self, x, allowed):
        return super().attend(x, mt.ones(x.shape[1], x.shape[1]).tril().bool())


@Block.wrong(
    "right but for the mask, which is transposed",
    "Row i of allowed belongs to query i, as in attn_mask.",
)
class _(_Block):
    def mask(self, allowed):
        return None if allowed is None else ~allowed.T


@Block.wrong(
    "a post-norm block: the norms come after the sums",
    "Pre-norm: norm_1 stands before the attention, norm_2 before the network, and none on the sum.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = self.norm_1(x + self.attend(x, allowed))
        return self.norm_2(x + self.feed_forward(x))


@Block.wrong(
    "right but for the norms, which stand after attention and network",
    "Pre-norm: norm first, then attention or network, then the sum.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.norm_1(self.attend(x, allowed))
        return x + self.norm_2(self.feed_forward(x))


@Block.wrong(
    "right but for the norms, which are missing",
    "norm_1 stands before the attention, norm_2 before the network.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.attend(x, allowed)
        return x + self.feed_forward(x)


@Block.wrong(
    "right but for norm_2, which is missing",
    "norm_2 stands before the network.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(x)


@Block.wrong(
    "right but for norm_1, which is missing",
    "norm_1 stands before the attention.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.attend(x, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for norm_1, which is used twice",
    "norm_1 stands before the attention, norm_2 before the network: each has a gain of its own.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_1(x))


@Block.wrong(
    "right but for the two norms, which are exchanged",
    "norm_1 stands before the attention, norm_2 before the network.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_2(x), allowed)
        return x + self.feed_forward(self.norm_1(x))


@Block.wrong(
    "right but for the attention, where only the queries have been through the norm",
    "Queries, keys and values all come from norm_1(x).",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.look(self.norm_1(x), x, x, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the attention, where the values have not been through the norm",
    "Queries, keys and values all come from norm_1(x).",
)
class _(_Block):
    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        x = x + self.look(normal, normal, x, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the sums, which add the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + attention(norm_1(x)).",
)
class _(_Block):
    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        normal = self.norm_2(normal + self.attend(normal, allowed))
        return normal + self.feed_forward(normal)


@Block.wrong(
    "right but for the first sum, which adds the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + attention(norm_1(x)).",
)
class _(_Block):
    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        x = normal + self.attend(normal, allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the second sum, which adds the norm of x and not x",
    "The residual connection carries x itself, past the norm: x + feed_forward(norm_2(x)).",
)
class _(_Block):
    def forward(self, x, allowed=None):
        normal = self.norm_2(x + self.attend(self.norm_1(x), allowed))
        return normal + self.feed_forward(normal)


@Block.wrong(
    "right but for both residual connections, which are missing",
    "Add x to what attention and network give.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        return self.feed_forward(self.norm_2(self.attend(self.norm_1(x), allowed)))


@Block.wrong(
    "right but for the residual connection around the attention, which is missing",
    "There are two: one around the attention, one around the network.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the residual connection around the network, which is missing",
    "There are two: one around the attention, one around the network.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.attend(self.norm_1(x), allowed)
        return self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the second sum, which adds the input of the block",
    "The second residual connection starts after the first sum: x has changed by then.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        between = x + self.attend(self.norm_1(x), allowed)
        return x + self.feed_forward(self.norm_2(between))


@Block.wrong(
    "a parallel block: attention and network both get the input",
    "The network comes after the attention: it gets the first sum.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        attended = self.attend(self.norm_1(x), allowed)
        return x + attended + self.feed_forward(self.norm_2(x))


@Block.wrong(
    "right but for the order: the network comes before the attention",
    "First attention, then the network.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        x = x + self.feed_forward(self.norm_2(x))
        return x + self.attend(self.norm_1(x), allowed)


@Block.wrong(
    "right but for a norm at the end",
    "In pre-norm nothing stands on the sum. The one norm at the end of the model comes after the "
    "last block.",
)
class _(_Block):
    def forward(self, x, allowed=None):
        return self.norm_2(super().forward(x, allowed))
