"""The checks of chapter 07 catch and name what is wrong, and pass what is right."""

import math

import pytest

import minitorch as mt
from minitorch.flops import count_flops
from tests.checks import right_07
from tests.checks.proof import proofs
from textbook.checks import CheckFailed, chapter_07
from textbook.checks.compare import difference


@pytest.mark.parametrize("proof", list(proofs(chapter_07, right_07)))
def test_checks(proof):
    proof()


@pytest.mark.parametrize("name", right_07.refused)
def test_references_agree_with_the_library(name):
    check = getattr(chapter_07, name)
    run = check.run or (lambda answer, *case: {"the result": answer(*case)})
    for case in check.all_cases():
        expected = run(check.reference, *case)
        for answer in right_07.refused[name]:
            assert difference(run(answer, *case), expected, name) is None


def test_a_late_mask_with_care_still_leaves_a_gradient_at_the_hidden_keys():
    """Divided anew it has the right values here, but the gradient is not exactly zero."""

    def late(query, key, value, allowed):
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        largest = scores.masked_fill(~allowed, -mt.inf).amax(dim=-1, keepdim=True)
        largest = largest.masked_fill(largest == -mt.inf, 0.0)
        weights = (scores - largest).clamp(max=0).softmax(dim=-1) * allowed
        total = weights.sum(dim=-1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1.0) @ value

    with pytest.raises(CheckFailed, match="gradient at a key .* must be exactly 0"):
        chapter_07.masked_attention(late)


def masked_pass(X, Q, K, V):
    n = X.shape[1]
    allowed = mt.ones(n, n, dtype=mt.bool).tril()
    return chapter_07.masked_attention.reference(X @ Q, X @ K, X @ V, allowed)


def keys_made_anew(X, Q, K, V):
    outputs = []
    for t in range(X.shape[1]):
        seen = X[:, : t + 1]
        scores = seen[:, -1:] @ Q @ (seen @ K).transpose(1, 2) / math.sqrt(len(Q))
        outputs.append(scores.softmax(dim=-1) @ (seen @ V))
    return mt.cat(outputs, dim=1)


@pytest.mark.parametrize(("answer", "cost"), [(masked_pass, 3_456), (keys_made_anew, 6_624)])
def test_the_growing_keys_are_neither_masked_nor_made_anew(answer, cost):
    """Both give the right outputs; what they cost is what the message says."""
    draw = mt.Generator().manual_seed(0)
    inputs = mt.randn(1, 12, 4, generator=draw), *(mt.randn(4, 4, generator=draw) for _ in "QKV")
    assert mt.allclose(answer(*inputs), chapter_07.one_at_a_time.reference(*inputs), atol=1e-5)
    with count_flops() as counter:
        answer(*inputs)
    with pytest.raises(CheckFailed, match="each query, key and value once") as caught:
        chapter_07.one_at_a_time(answer)
    assert f"{counter.total:,}" in str(caught.value)
    assert counter.total == cost


def test_a_causal_mask_needs_no_padding_mask_where_the_padding_comes_last():
    """What the text of the exercise says: no real query sees more by the causal mask alone."""
    real = chapter_07.real_tokens.reference(mt.tensor([2, 4, 1]), 4)
    joined = chapter_07.joined_mask.reference(real).squeeze(1)
    causal = chapter_07.causal_mask.reference(4)
    assert mt.equal(joined[real], causal.expand(3, 4, 4)[real])
    assert not mt.equal(joined, causal.expand(3, 4, 4))


def test_a_table_of_all_scores_is_refused_even_if_it_costs_no_flops():
    def all_pairs(X, Q, K, V):
        queries, keys, values = X @ Q, X @ K, X @ V
        scores = (queries[:, :, None] * keys[:, None]).sum(-1) / math.sqrt(len(Q))
        future = mt.ones(scores.shape[1:], dtype=mt.bool).triu(1)
        weights = scores.masked_fill(future, -mt.inf).softmax(-1)
        return (weights[..., None] * values[:, None]).sum(2)

    with pytest.raises(CheckFailed, match="n x n places"):
        chapter_07.one_at_a_time(all_pairs)
