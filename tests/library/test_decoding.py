"""Decoding against its definition: all sequences enumerated, frequencies, rows by themselves."""

import itertools

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from minitorch.backend import to_numpy
from textbook.decoding import beam_search, greedy, reorder, sample, top_k_filter, top_p_filter

END, V = 0, 4


def table_model(seed, size=V, order=2):
    """A random model whose next scores depend on the last ``order`` tokens; and its step."""
    mt.manual_seed(seed)
    table = mt.randn(*(size,) * order, size) * 2

    def step(tokens, state):
        padded = mt.cat([mt.zeros(len(tokens), order, dtype=mt.int64), tokens], dim=1)
        return table[tuple(padded[:, -i] for i in range(order, 0, -1))], None

    return step


def score(step, prompt, new, alpha, batch_row=0):
    """log P(new | prompt) / ((5 + n) / 6)^alpha, one token after the other."""
    total, tokens = 0.0, prompt
    for token in new:
        logits, _ = step(tokens, None)
        total += logits.log_softmax(-1)[batch_row, token].item()
        tokens = mt.cat([tokens, mt.tensor([[token]])], dim=1)
    return total / ((5 + len(new)) / 6) ** alpha


def hypotheses(length, size=V):
    """All sequences that end, and those of full length that do not."""
    for n in range(1, length + 1):
        for new in itertools.product(range(size), repeat=n):
            if END not in new[:-1] and (new[-1] == END or n == length):
                yield new


def new_tokens(row, prompt_length):
    """Without the prompt, up to the first end."""
    new = row.tolist()[prompt_length:]
    return tuple(new[: new.index(END) + 1] if END in new else new)


def prompts():
    return mt.tensor([[1, 2], [3, 1], [2, 2]])


# Greedy


def test_greedy_takes_the_likeliest_and_pads_finished_rows():
    following = mt.tensor([[0, 0, 0, 1], [9, 0, 0, 0], [0, 9, 0, 0], [0, 0, 9, 0]]).float()
    tokens = greedy(
        lambda tokens, state: (following[tokens.clamp(max=3)], None),
        mt.tensor([[1], [2], [3], [1]]),
        9,
        end=END,
        pad=7,
    )
    assert tokens.tolist() == [[1, 0, 7, 7], [2, 1, 0, 7], [3, 2, 1, 0], [1, 0, 7, 7]]


def test_greedy_pads_with_the_end_and_keeps_the_length():
    step = table_model(0)
    tokens = greedy(step, prompts(), 5)
    assert tokens.shape == (3, 7) and tokens[:, :2].tolist() == prompts().tolist()
    ended = greedy(step, prompts(), 30, end=END)
    for row, free in zip(ended, greedy(step, prompts(), 30), strict=True):
        new = new_tokens(free, 2)
        assert new_tokens(row, 2) == new
        assert set(row.tolist()[2 + len(new) :]) <= {END}


def test_ties_go_to_the_first():
    def step(tokens, state):
        return mt.zeros(len(tokens), 5), None

    assert greedy(step, prompts(), 2)[:, 2:].tolist() == [[0, 0]] * 3
    tokens, scores = beam_search(step, prompts(), 1, beams=3)
    assert tokens[:, :, 2].tolist() == [[0, 1, 2]] * 3
    assert np.ptp(to_numpy(scores.array)) == 0


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
def test_nothing_is_recorded_and_mistakes_are_named(decode):
    linear = nn.Linear(3, 3)
    seen = []

    def step(tokens, state):
        seen.append(linear(mt.zeros(len(tokens), 3)))
        return seen[-1], None

    decode(step, prompts(), 2)
    assert not any(logits.requires_grad for logits in seen)
    with pytest.raises(ValueError, match=r"prompt must have the shape \(B, T\)"):
        decode(step, prompts()[0], 2)
    with pytest.raises(ValueError, match="max_new_tokens must be at least 1"):
        decode(step, prompts(), 0)
    with pytest.raises(ValueError, match=r"must return scores of shape .* got \(2, 3\)"):
        decode(lambda tokens, state: (mt.zeros(2, 3), None), prompts(), 2)


# Sampling


def frequencies(logits, count, **options):
    def step(tokens, state):
        return logits.expand(len(tokens), len(logits)), None

    generator = mt.Generator().manual_seed(1)
    tokens = sample(step, mt.zeros(count, 1, dtype=mt.int64), 1, generator=generator, **options)
    return np.bincount(to_numpy(tokens[:, 1].array), minlength=len(logits))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lambda x: x),
        ({"temperature": 0.5}, lambda x: x * 2),
        ({"temperature": 3.0}, lambda x: x / 3),
        ({"top_k": 2}, lambda x: mt.where(x >= 1.0, x, -mt.inf)),
        ({"top_p": 0.8}, lambda x: mt.where(x >= 0.5, x, -mt.inf)),
        ({"temperature": 0.5, "top_p": 0.9}, lambda x: mt.where(x >= 1.0, 2 * x, -mt.inf)),
    ],
)
def test_samples_follow_the_distribution(options, expected):
    """Pearson's statistic stays below the value that chance exceeds once in 10,000 times."""
    logits = mt.tensor([0.5, 2.0, -1.0, 1.0, 0.0])
    count = 4000
    probabilities = to_numpy(expected(logits).softmax(-1).array).astype(float)
    drawn = frequencies(logits, count, **options)
    possible = probabilities > 0
    assert not drawn[~possible].any()
    wanted = count * probabilities[possible]
    assert ((drawn[possible] - wanted) ** 2 / wanted).sum() < 23.5


def test_sample_is_repeatable_ends_and_pads():
    step = table_model(3)
    draws = [
        sample(
            step, prompts(), 20, end=END, pad=9, generator=mt.Generator().manual_seed(5)
        ).tolist()
        for _ in range(2)
    ]
    assert draws[0] == draws[1]
    for row in draws[0]:
        new = new_tokens(mt.tensor(row), 2)
        assert set(row[2 + len(new) :]) <= {9} and 9 not in new


def test_sample_of_one_token_is_greedy():
    step = table_model(1)
    assert sample(step, prompts(), 8, top_k=1).tolist() == greedy(step, prompts(), 8).tolist()
    assert sample(step, prompts(), 8, top_p=1e-6).tolist() == greedy(step, prompts(), 8).tolist()
    assert (
        sample(step, prompts(), 8, temperature=1e-4).tolist() == greedy(step, prompts(), 8).tolist()
    )


def test_filters():
    logits = mt.tensor([[3.0, 1.0, 2.0, 2.0], [-mt.inf, 0.0, -mt.inf, -1.0]])
    kept = [[3, -mt.inf, 2, 2], [-mt.inf, 0, -mt.inf, -1]]
    assert top_k_filter(logits, 2).tolist() == kept  # both of the equal ones stay
    assert top_k_filter(logits, 1).tolist()[0] == [3] + [-mt.inf] * 3
    assert top_k_filter(logits, 99).tolist() == logits.tolist()
    probabilities = mt.tensor([[0.1, 0.5, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]])
    for p, sizes in {0.4: (1, 4), 0.51: (2, 4), 0.79: (2, 4), 0.81: (4, 4), 1: (4, 4)}.items():
        left = top_p_filter(probabilities.log(), p)
        assert (left > -mt.inf).sum(-1).tolist() == list(sizes), p
    stacked = top_p_filter(probabilities.log().view(2, 1, 4), 0.51)
    assert (stacked > -mt.inf).sum().item() == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "temperature must be positive"),
        ({"top_k": 0}, "k of at least 1"),
        ({"top_p": 0}, "0 < p <= 1"),
        ({"top_p": 1.1}, "0 < p <= 1"),
    ],
)
def test_wrong_options_of_sample(options, message):
    with pytest.raises(ValueError, match=message):
        sample(table_model(0), prompts(), 2, **options)


# Beam search


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_one_beam_is_greedy(seed, alpha):
    step = table_model(seed, size=6)
    tokens, scores = beam_search(step, prompts(), 7, beams=1, alpha=alpha, end=END)
    expected = greedy(step, prompts(), 7, end=END)
    assert tokens[:, 0].tolist() == expected.tolist()
    for row in range(3):
        new = new_tokens(expected[row], 2)
        wanted = score(step, prompts()[row : row + 1], new, alpha)
        assert scores[row, 0].item() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_wide_beam_finds_the_best_of_all(seed, alpha):
    step, length, beams = table_model(seed), 3, V**3
    tokens, scores = beam_search(step, prompts(), length, beams=beams, alpha=alpha, end=END)
    for row in range(3):
        prompt = prompts()[row : row + 1]
        everything = {new: score(step, prompt, new, alpha) for new in hypotheses(length)}
        best = sorted(everything, key=everything.get, reverse=True)[:beams]
        found = [new_tokens(hypothesis, 2) for hypothesis in tokens[row]]
        assert found[: len(best)] == best and len(best) == 40
        wanted = [everything[new] for new in best]
        np.testing.assert_allclose(to_numpy(scores[row, :40].array), wanted, rtol=1e-5)
        assert (scores[row, 40:] == -mt.inf).all()


@pytest.mark.parametrize("seed", range(6))
def test_narrow_beam_scores_what_it_returns(seed):
    step = table_model(seed, size=6)
    tokens, scores = beam_search(step, prompts(), 6, beams=3, end=END, pad=9)
    assert (scores[:, :-1] >= scores[:, 1:]).all()
    for row in range(3):
        seen = set()
        for hypothesis, value in zip(tokens[row], scores[row], strict=True):
            new = new_tokens(hypothesis, 2)
            assert new not in seen
            seen.add(new)
            assert set(hypothesis.tolist()[2 + len(new) :]) <= {9}
            assert value.item() == pytest.approx(
                score(step, prompts()[row : row + 1], new, 0.6), rel=1e-5
            )


def test_rows_of_a_batch_do_not_touch_each_other():
    step = table_model(2, size=6)
    tokens, scores = beam_search(step, prompts(), 8, beams=3, end=END)
    for row in range(3):
        alone, score_alone = beam_search(step, prompts()[row : row + 1], 8, beams=3, end=END)
        assert [new_tokens(x, 2) for x in alone[0]] == [new_tokens(x, 2) for x in tokens[row]]
        np.testing.assert_allclose(to_numpy(score_alone[0].array), to_numpy(scores[row].array))


def test_length_normalisation_chooses_longer_hypotheses():
    """End at once with .45; or 2 and then the end with .55 * .7 = .385. NaN after the end."""
    following = mt.tensor([[0.0, 0.0, 0.0], [0.45, 0.0, 0.55], [0.7, 0.0, 0.3]]).log()

    def step(tokens, state):
        return following[tokens], None

    prompt = mt.tensor([[1]])
    short, _ = beam_search(step, prompt, 5, beams=3, alpha=0.0, end=END)
    longer, _ = beam_search(step, prompt, 5, beams=3, alpha=2.0, end=END)
    assert new_tokens(short[0, 0], 1) == (0,) and new_tokens(longer[0, 0], 1) == (2, 0)


def test_places_that_no_hypothesis_takes():
    def step(tokens, state):
        return mt.tensor([0.0, -mt.inf, -mt.inf]).expand(len(tokens), 3), None

    tokens, scores = beam_search(step, prompts(), 4, beams=3, end=END)
    assert scores.tolist() == [[0, -mt.inf, -mt.inf]] * 3
    assert tokens[:, 0, 2].tolist() == [END] * 3


@pytest.mark.parametrize(("option", "message"), [({"beams": 0}, "beam"), ({"alpha": -1}, "alpha")])
def test_wrong_options_of_beam_search(option, message):
    with pytest.raises(ValueError, match=message):
        beam_search(table_model(0), prompts(), 2, **option)


# Models with a state


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.rnn = nn.RNN(5, 8, num_layers=2)
        self.out = nn.Linear(8, 7)

    def forward(self, tokens, h=None):
        states, h = self.rnn(self.embedding(tokens.T) * 3, h)
        return self.out(states).transpose(0, 1) * 3, h  # (B, T, V), (layers, B, H)


def test_state_gives_what_reading_everything_again_gives():
    mt.manual_seed(0)
    model = Recurrent()

    def again(tokens, state):
        return model(tokens)[0], None

    def carried(tokens, h):
        return model(tokens if h is None else tokens[:, -1:], h)

    def nested(tokens, state):
        h = None if state is None else mt.stack(state["layers"])
        logits, h = model(tokens if h is None else tokens[:, -1:], h)
        return logits, {"layers": list(h), "length": tokens.shape[1]}

    prompt = mt.tensor([[1, 2, 3], [4, 5, 6], [3, 3, 3]])
    expected = greedy(again, prompt, 9, end=END)
    for step in (carried, nested):
        assert greedy(step, prompt, 9, end=END).tolist() == expected.tolist()
    tokens, scores = beam_search(again, prompt, 9, beams=4, end=END)
    for step, axis in ((carried, 1), (nested, 0)):
        found, found_scores = beam_search(step, prompt, 9, beams=4, end=END, batch_axis=axis)
        assert found.tolist() == tokens.tolist()
        np.testing.assert_allclose(
            to_numpy(found_scores.array), to_numpy(scores.array), rtol=1e-4, atol=1e-5
        )
    with pytest.raises(ValueError, match=r"shape \(2, 12, 8\); along axis 0 there must be 12"):
        beam_search(carried, prompt, 9, beams=4, end=END)


def test_memory_of_an_encoder():
    """The scores of each row are its memory, so every row must keep its own through the search."""
    memory = mt.tensor([[0.0, 3, 0, 1, 0], [0, 0, 3, 0, 1], [3.0, 0, 0, 0, 0]])

    def step(tokens, memory):
        return memory, memory

    start = mt.full((3, 1), 4)
    assert greedy(step, start, 2, state=memory)[:, 1:].tolist() == [[1, 1], [2, 2], [0, 0]]
    assert greedy(lambda tokens, _: (memory, None), start, 1)[:, 1].tolist() == [1, 2, 0]
    tokens, _ = beam_search(step, start, 2, beams=2, state=memory)
    assert tokens[:, 0, 1:].tolist() == [[1, 1], [2, 2], [0, 0]]
    assert tokens[:2, 1, 1:].tolist() == [[1, 3], [2, 4]]


def test_reorder():
    x = mt.arange(6).view(3, 2)
    state = {"a": [x, (x + 1, None)], "n": 3}
    result = reorder(state, mt.tensor([2, 0]))
    assert result["a"][0].tolist() == [[4, 5], [0, 1]]
    assert type(result["a"][1]) is tuple and result["a"][1][0].tolist() == [[5, 6], [1, 2]]
    assert result["a"][1][1] is None and result["n"] == 3
    assert reorder(x, mt.tensor([1, 1]), axis=1).tolist() == [[1, 1], [3, 3], [5, 5]]


def test_search_stops_when_nothing_can_get_better():
    calls = []

    def step(tokens, state):
        calls.append(tokens.shape)
        return mt.tensor([6.0, 0.0, 0.0]).expand(len(tokens), 3), None

    beam_search(step, prompts(), 50, beams=2, alpha=0.6, end=END)
    assert len(calls) < 10
    assert calls[0] == (6, 2)


def test_search_goes_on_while_a_longer_hypothesis_can_win():
    """Two steps fill both places, with scores of -0.92 and -1.28; log(.175) / 6.25 beats them."""
    following = mt.zeros(4, 4)
    following[1] = mt.tensor([0.4, 0.25, 0.35, 0.0])
    following[2] = mt.tensor([0.5, 0.0, 0.0, 0.5])
    following[0, 0] = following[3, 3] = 1.0

    def step(tokens, state):
        return following[tokens].log(), None

    tokens, scores = beam_search(step, mt.tensor([[1]]), 10, beams=2, alpha=2.0, end=END)
    assert tokens[0, 0].tolist() == [1, 2] + [3] * 9
    assert scores[0, 0].item() == pytest.approx(np.log(0.175) / 6.25, rel=1e-5)
