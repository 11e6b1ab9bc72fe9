"""The Transformer of chapter 10 and PyTorch's: ``python benchmarks/parity/chapter_10.py``.

Run by hand in an environment with the packages of ``requirements.txt``. The model is what the
chapter saves, and its function that renames weights is taken from its source. A model gets random
weights; renamed, those of encoder and decoder go into ``torch.nn.Transformer``, and the embedding
and the output layer beside it. Both compute the loss of one padded batch, with the causal mask, and
its gradient. Printed are the largest differences, relative to the largest number of the scores, and
of each weight's gradient; and the time of forward and backward, in turns on one thread,
minitorch's over PyTorch's.

The chapter's model of today needs no renaming: its code is run twice, once with each library under
the names ``mt``, ``nn`` and ``F``, and both get the same weights.
"""

import ast
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
from textbook.chapter_06 import merge_heads, split_heads  # noqa: E402
from textbook.chapter_10 import Transformer  # noqa: E402

CHAPTER = ROOT / "notebooks" / "10_transformer.py"
RENAMING = "named_as_in_pytorch"
TODAY = {"turned", "BlockOfToday", "ModelOfToday"}
SIZES = {
    "small": dict(width=32, heads=4, hidden=64, layers=2),
    "base": dict(width=512, heads=8, hidden=2048, layers=6),
}
VOCABULARY, BATCH, LENGTH = 1000, 8, 30
ROUNDS = 5


def from_the_chapter(wanted, names):
    """The chapter's statements that define what is ``wanted``, run with ``names``; nothing else."""
    tree = ast.parse(CHAPTER.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if _names(node) & wanted]
    exec(compile(tree, str(CHAPTER), "exec"), names)
    return names


def renaming():
    """The chapter's function from our names of weights to PyTorch's."""
    return from_the_chapter({"THEIR_NAMES", RENAMING}, {"mt": mt})[RENAMING]


def compare_today():
    """The largest difference of the scores of the model of today, one code in two libraries."""
    heads = {"split_heads": split_heads, "merge_heads": merge_heads}
    ours, theirs = (
        from_the_chapter(TODAY, {"mt": library, "nn": library.nn, "F": functional} | heads)
        for library, functional in ((mt, mt.nn.functional), (torch, torch.nn.functional))
    )
    models = [names["ModelOfToday"](VOCABULARY, 64, 4, 192, 2, 4) for names in (ours, theirs)]
    models[1].load_state_dict({n: to_torch(w) for n, w in models[0].state_dict().items()})
    tokens = mt.randint(0, VOCABULARY, (BATCH, LENGTH))
    got, expected = models[0](tokens), models[1](to_torch(tokens))
    difference = largest(got.detach().numpy(), expected.detach().numpy())
    print(f"\nthe model of today, its code run in both: scores differ by {difference:.0e}")


def _names(node):
    """What a function or an assignment at the top level is called."""
    targets = getattr(node, "targets", [node])
    return {getattr(target, "id", getattr(target, "name", None)) for target in targets}


def to_torch(tensor):
    return torch.from_numpy(np.array(tensor.detach().numpy()))


def theirs(model, named, sizes, dtype):
    """torch.nn.Transformer, embedding and output layer, with the weights of our model."""
    transformer = torch.nn.Transformer(
        sizes["width"],
        sizes["heads"],
        sizes["layers"],
        sizes["layers"],
        sizes["hidden"],
        dropout=0.0,
        batch_first=True,
        norm_first=True,
        dtype=dtype,
    )
    weights = {name: to_torch(weight) for name, weight in named(model.state_dict()).items()}
    report = transformer.load_state_dict(weights, strict=False)
    assert not report.unexpected_keys, report.unexpected_keys
    for name, weight in transformer.named_parameters():
        assert name in weights or (name.endswith("bias") and not weight.any()), name
    beside = (model.embedded.embedding.weight, model.out.weight, model.out.bias)
    return transformer, [torch.nn.Parameter(to_torch(weight)) for weight in beside]


def their_scores(transformer, beside, codes, source, target):
    """Scores (B, T, V), with PyTorch's masks: True where a query may not look."""
    embedding, weight, bias = beside
    x, y = (embedding[tokens] + codes[: tokens.shape[1]] for tokens in (source, target))
    T = target.shape[1]
    padding = source == 0
    decoded = transformer(
        x,
        y,
        tgt_mask=torch.ones(T, T).tril() == 0,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    return torch.nn.functional.linear(decoded, weight, bias)


def largest(got, expected):
    """The largest difference, relative to the largest number expected."""
    got, expected = got.astype("float64"), expected.astype("float64")
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def compare(named, size, kind):
    """A row: largest difference of scores and of gradients, ratio of times."""
    mt.manual_seed(0)
    sizes = SIZES[size]
    model = Transformer(VOCABULARY, **sizes).to(getattr(mt, kind))
    transformer, beside = theirs(model, named, sizes, getattr(torch, kind))
    lengths = mt.randint(LENGTH // 2, LENGTH + 1, (BATCH, 1))
    source = mt.randint(1, VOCABULARY, (BATCH, LENGTH)).masked_fill(mt.arange(LENGTH) >= lengths, 0)
    target = mt.randint(1, VOCABULARY, (BATCH, LENGTH))
    their_source, their_target = to_torch(source), to_torch(target)
    codes = to_torch(model.embedded.codes)

    def ours():
        model.zero_grad()
        scores = model(source, target[:, :-1])
        mt.nn.functional.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten()).backward()
        return scores

    def pytorch():
        transformer.zero_grad()
        for weight in beside:
            weight.grad = None
        scores = their_scores(transformer, beside, codes, their_source, their_target[:, :-1])
        torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), their_target[:, 1:].flatten()
        ).backward()
        return scores

    scores = largest(ours().detach().numpy(), pytorch().detach().numpy())
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    renamed = named(gradients)
    pairs = [(renamed[n], w.grad) for n, w in transformer.named_parameters() if n in renamed]
    assert len(pairs) == len(renamed)
    ours_beside = (model.embedded.embedding.weight, model.out.weight, model.out.bias)
    pairs += [(our.grad, their.grad) for our, their in zip(ours_beside, beside, strict=True)]
    gradient = max(largest(our.numpy(), their.numpy()) for our, their in pairs)
    ratio = median(_seconds(ours) / _seconds(pytorch) for _ in range(ROUNDS))
    print(f"| {size} | {kind} | {scores:.0e} | {gradient:.0e} | {ratio:.2f} |", flush=True)


def _seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    named = renaming()
    print(f"PyTorch {torch.__version__}, minitorch {mt.__version__}, NumPy {np.__version__}\n")
    print("| size | type | scores | gradients | time |")
    print("| --- | --- | --- | --- | --- |")
    for size in SIZES:
        for kind in ("float64", "float32"):
            compare(named, size, kind)
    compare_today()


if __name__ == "__main__":
    main()
