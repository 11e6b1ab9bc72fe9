"""The adaptive softmax for many classes, of which few are frequent (Grave et al., 2017)."""

from collections import namedtuple

from minitorch.nn.containers import ModuleList, Sequential
from minitorch.nn.functional import log_softmax
from minitorch.nn.layers import Linear
from minitorch.nn.module import Module
from minitorch.operations.shapes import cat

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

ASMoutput = namedtuple("ASMoutput", "output loss")


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax over ``n_classes``, sorted by frequency: the head and a cluster for each rest.

    The head has the classes below ``cutoffs[0]`` and one place for each cluster; the i-th cluster
    has those between two cutoffs, on in_features // div_value^(i + 1) features.
    """

    def __init__(
        self,
        in_features,
        n_classes,
        cutoffs,
        div_value=4.0,
        head_bias=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        cutoffs = list(cutoffs)
        rising = all(a < b for a, b in zip([0, *cutoffs], [*cutoffs, n_classes], strict=True))
        if not cutoffs or not rising or any(int(c) != c for c in cutoffs):
            raise ValueError(
                f"cutoffs must be different integers in rising order between 1 and "
                f"{n_classes - 1}, got {cutoffs}"
            )
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs, self.head_bias = [*cutoffs, n_classes], head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i, (start, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            size = int(in_features // div_value ** (i + 1))
            first = Linear(in_features, size, bias=False, **options)
            second = Linear(size, end - start, bias=False, **options)
            self.tail.append(Sequential(first, second))

    def reset_parameters(self):
        """Draw all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input, target):
        """The log-probability of each target, and minus their mean; input (N, d) or (d)."""
        if input.ndim != target.ndim + 1 or input.ndim > 2:
            raise RuntimeError(
                "the adaptive softmax takes input (N, d) and target (N), or (d) and (); "
                f"got shapes {tuple(input.shape)} and {tuple(target.shape)}"
            )
        if input.ndim == 1:
            output, loss = self(input.unsqueeze(0), target.unsqueeze(0))
            return ASMoutput(output.squeeze(0), loss)
        if len(input) != len(target):
            raise RuntimeError(f"{len(input)} inputs need as many targets, got {len(target)}")
        if len(target) and not 0 <= target.min().item() <= target.max().item() < self.n_classes:
            raise RuntimeError(
                f"targets must be 0 to {self.n_classes - 1}; "
                f"got {target.min().item()} to {target.max().item()}"
            )
        head = log_softmax(self.head(input), 1)
        place = target.clone()
        output = input.new_zeros(len(target))
        for i, (start, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            (rows,) = ((target >= start) & (target < end)).nonzero(as_tuple=True)
            if len(rows):
                place[rows] = self.shortlist_size + i
                within = log_softmax(self.tail[i](input[rows]), 1)
                found = within.gather(1, (target[rows] - start).unsqueeze(1)).squeeze(1)
                output = output.index_add(0, rows, found)
        output = output + head.gather(1, place.unsqueeze(1)).squeeze(1)
        return ASMoutput(output, -output.mean())

    def log_prob(self, input):
        """The log-probabilities of all classes: (N, d) -> (N, n_classes)."""
        head = log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            chosen = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(log_softmax(cluster(input), 1) + chosen)
        return cat(parts, 1)

    def predict(self, input):
        """The most probable class: (N, d) -> (N)."""
        return self.log_prob(input).argmax(1)
