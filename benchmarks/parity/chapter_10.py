"""The Transformer of chapter 10 and PyTorch's: ``python benchmarks/parity/chapter_10.py``.

Run by hand in an environment with the packages of ``requirements.txt``. The chapter's classes and
functions are taken from its source as they stand there. A model gets random weights; under the
names that section 12 gives them they go into ``torch.nn.Transformer``, and the embedding beside it.
Both compute the loss of one padded batch, with the causal mask, and its gradient. Printed are the
largest differences, relative to the largest number of the scores, and of each weight's gradient;
and the time of forward and backward, in turns on one thread, minitorch's over PyTorch's.
"""

import ast
import math
import sys
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import minitorch as mt  # noqa: E402

CHAPTER = ROOT / "notebooks" / "10_transformer.py"
SIZES = {
    "small": dict(width=32, heads=4, hidden=64, layers=2),
    "base": dict(width=512, heads=8, hidden=2048, layers=6),
}
VOCABULARY, BATCH, LENGTH = 1000, 8, 30
ROUNDS = 5


def chapter():
    """The classes, functions and constants of the chapter; nothing of it is run."""
    tree = ast.parse(CHAPTER.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if _only_defines(node)]
    names = {"mt": mt, "nn": mt.nn, "F": mt.nn.functional, "math": math}
    exec(compile(tree, str(CHAPTER), "exec"), names)
    return names


def _only_defines(node):
    if isinstance(node, ast.Assign):
        try:
            ast.literal_eval(node.value)
        except ValueError:
            return False
        return True
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.decorator_list


def to_torch(tensor):
    return torch.from_numpy(np.array(tensor.detach().numpy()))


def theirs(model, named, sizes, norm_first, dtype):
    """torch.nn.Transformer and the embedding, with the weights of our model."""
    transformer = torch.nn.Transformer(
        sizes["width"],
        sizes["heads"],
        sizes["layers"],
        sizes["layers"],
        sizes["hidden"],
        dropout=0.0,
        batch_first=True,
        norm_first=norm_first,
        dtype=dtype,
    )
    weights = {name: to_torch(weight) for name, weight in named(model.state_dict()).items()}
    report = transformer.load_state_dict(weights, strict=False)
    assert not report.unexpected_keys, report.unexpected_keys
    for name, weight in transformer.named_parameters():
        assert name in weights or (name.endswith("bias") and not weight.any()), name
    return transformer, torch.nn.Parameter(to_torch(model.source.embedding.weight))


def their_scores(transformer, embedding, codes, source, target):
    """Scores (B, T, V), with PyTorch's masks: True where a query may not look."""
    x, y = (
        math.sqrt(embedding.shape[1]) * embedding[tokens] + codes[: tokens.shape[1]]
        for tokens in (source, target)
    )
    T = target.shape[1]
    padding = source == 0
    decoded = transformer(
        x,
        y,
        tgt_mask=torch.ones(T, T).tril() == 0,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    return decoded @ embedding.T


def largest(got, expected):
    """The largest difference, relative to the largest number expected."""
    got, expected = got.astype("float64"), expected.astype("float64")
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def compare(names, size, norm_first, kind):
    """A row: largest difference of scores and of gradients, ratio of times."""
    mt.manual_seed(0)
    sizes = SIZES[size]
    model = names["Transformer"](VOCABULARY, VOCABULARY, **sizes, norm_first=norm_first)
    model = model.to(getattr(mt, kind))
    transformer, embedding = theirs(
        model, names["named_as_in_pytorch"], sizes, norm_first, getattr(torch, kind)
    )
    lengths = mt.randint(LENGTH // 2, LENGTH + 1, (BATCH, 1))
    source = mt.randint(1, VOCABULARY, (BATCH, LENGTH)).masked_fill(mt.arange(LENGTH) >= lengths, 0)
    target = mt.randint(1, VOCABULARY, (BATCH, LENGTH))
    their_source, their_target = to_torch(source), to_torch(target)
    codes = to_torch(model.source.codes)

    def ours():
        model.zero_grad()
        scores = model(source, target[:, :-1])
        mt.nn.functional.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten()).backward()
        return scores

    def pytorch():
        transformer.zero_grad()
        embedding.grad = None
        scores = their_scores(transformer, embedding, codes, their_source, their_target[:, :-1])
        torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), their_target[:, 1:].flatten()
        ).backward()
        return scores

    scores = largest(ours().detach().numpy(), pytorch().detach().numpy())
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    named = names["named_as_in_pytorch"](gradients)
    pairs = [(named[n], w.grad) for n, w in transformer.named_parameters() if n in named]
    pairs.append((model.source.embedding.weight.grad, embedding.grad))
    assert len(pairs) == len(named) + 1
    gradient = max(largest(our.numpy(), their.numpy()) for our, their in pairs)
    ratio = median(_seconds(ours) / _seconds(pytorch) for _ in range(ROUNDS))
    norm = "pre-norm" if norm_first else "post-norm"
    print(f"| {size} | {norm} | {kind} | {scores:.0e} | {gradient:.0e} | {ratio:.2f} |", flush=True)


def _seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = chapter()
    print(f"PyTorch {torch.__version__}, minitorch {mt.__version__}, NumPy {np.__version__}\n")
    print("| size | norm | type | scores | gradients | time |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in SIZES:
        for norm_first in (True, False):
            for kind in ("float64", "float32"):
                compare(names, size, norm_first, kind)


if __name__ == "__main__":
    main()
