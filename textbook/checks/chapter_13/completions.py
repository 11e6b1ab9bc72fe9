"""Log probabilities of completions, many questions in a batch."""

import minitorch as mt
from textbook.chapter_10 import OneStack
from textbook.checks.compare import brief
from textbook.checks.exercise import Draw, exercise


class _Model:
    """A causal language model that counts its calls."""

    def __init__(self, vocabulary, seed):
        self.calls = 0
        self.vocabulary = vocabulary
        self.model = OneStack(vocabulary, 8, 2, 12, 1, causal=True).double().eval()
        self.model.load_state_dict(
            {name: 0.7 * x for name, x in Draw(seed).state(self.model).items()}
        )

    def __call__(self, tokens):
        self.calls += 1
        return self.model(tokens)

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"a language model of {self.vocabulary} tokens"


def _completion_cases(draw, hidden):
    """A model, prompts, choices, and whether the mean is asked for."""
    V, random = 9 + 4 * hidden, draw.random
    model = _Model(V, 5 + hidden)

    def text(length):
        return [int(x) for x in random.integers(1, V, length)]

    for lengths in (
        [(2, (1,))],
        [(3, (2, 2))],
        [(1, (1, 3, 2))],
        [(4, (2, 1)), (2, (3, 1, 1))],
        [(2, (4, 2, 1)), (5, (1, 2)), (1 + hidden, (2,)), (3, (1, 1, 3, 5))],
    ):
        prompts = [text(length) for length, _ in lengths]
        choices = [[text(length) for length in each] for _, each in lengths]
        for mean in (False, True):
            yield model, prompts, choices, mean


def _log_p(model, tokens):
    return model(tokens).log_softmax(dim=-1)


def _padded(rows):
    longest = max(map(len, rows))
    return mt.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


def _scoring(
    log_p=_log_p,
    pad=_padded,
    seen=lambda prompt, choice: prompt + choice,
    first=lambda prompt, row, n: len(prompt),
    last=lambda prompt, row, n: len(row),
    shift=1,
    joined=lambda values: values.sum(),
    divisor=lambda prompt, choice, row: len(choice),
    mean=lambda mean: mean,
    each=lambda scores: scores,
    batches=lambda rows: [rows],
):
    """The scorer with one of its pieces exchanged."""

    def scoring(model, prompts, choices, normalise):
        pairs = [(i, p, c) for i, p in enumerate(prompts) for c in choices[i]]
        rows = [seen(p, c) for _, p, c in pairs]
        tables = []
        for batch in batches(rows):
            tables += [(table, tokens) for table, tokens in _read(log_p, model, pad(batch))]
        found = [[] for _ in prompts]
        for (i, prompt, choice), row, (table, tokens) in zip(pairs, rows, tables, strict=True):
            begin, end = first(prompt, row, len(tokens)), last(prompt, row, len(tokens))
            places = mt.arange(max(begin, shift), max(end, begin, shift))
            values = table[places - shift, tokens[places]]
            score = joined(values) if len(values) else table[0, 0] * 0
            if mean(normalise):
                score = score / divisor(prompt, choice, row)
            found[i].append(score)
        return [each(mt.stack(scores)) for scores in found]

    return scoring


def _read(log_p, model, tokens):
    return list(zip(log_p(model, tokens), tokens, strict=True))


def _scored(answer, model, prompts, choices, mean):
    """The scores without their graph, and how often the model was asked."""
    before = model.calls
    result = answer(model, prompts, choices, mean)
    calls = model.calls - before
    form = "a list of tensors, one for each prompt"
    formed = (
        isinstance(result, (list, tuple))
        and len(result) == len(prompts)
        and all(isinstance(x, mt.Tensor) for x in result)
    )
    found = {"the form of the result": form if formed else brief(result)}
    found["the scores"] = [x.detach() for x in result] if formed else None
    found["the number of calls of the model"] = calls
    return found


@exercise(
    cases=_completion_cases,
    run=_scored,
    gradients=False,
    see='chapter 13, "A causal language model without fine-tuning"',
)
def completion_scores(model, prompts, choices, mean):
    """Log probabilities of the choices after their prompts: a list of tensors."""
    rows = [
        (prompt, choice) for prompt, each in zip(prompts, choices, strict=True) for choice in each
    ]
    n = max(len(prompt) + len(choice) for prompt, choice in rows)
    tokens = mt.zeros(len(rows), n, dtype=mt.int64)
    asked = mt.zeros(len(rows), n, dtype=mt.bool)
    for i, (prompt, choice) in enumerate(rows):
        end = len(prompt) + len(choice)
        tokens[i, :end] = mt.tensor(prompt + choice)
        asked[i, len(prompt) : end] = True
    with mt.no_grad():
        log_p = model(tokens).log_softmax(dim=-1)[:, :-1]  # of the tokens from the second on
    found = mt.gather(log_p, 2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    scores = found.masked_fill(~asked[:, 1:], 0.0).sum(dim=1)
    if mean:
        scores = scores / asked.sum(dim=1)
    return list(scores.split([len(each) for each in choices]))


def _padded_before(rows):
    longest = max(map(len, rows))
    return mt.tensor([[*[0] * (longest - len(row)), *row] for row in rows])


completion_scores.wrong(
    "right but for the place: it asks each token's own scores for it",
    "The scores at a token are those of the next one: token t is predicted at t - 1.",
)(_scoring(shift=0))
completion_scores.wrong(
    "right but for the place: it looks two tokens back",
    "The scores at a token are those of the next one: token t is predicted at t - 1.",
)(_scoring(shift=2))
completion_scores.wrong(
    "a score of prompt and completion together",
    "The prompt is given. Add up the tokens of the completion alone.",
)(_scoring(first=lambda prompt, row, n: 1))
completion_scores.wrong(
    "right but for the first token of the completion, which is left out",
    "It is predicted at the last token of the prompt.",
)(_scoring(first=lambda prompt, row, n: len(prompt) + 1))
completion_scores.wrong(
    "right but for the last token of the prompt, which it counts, too",
    "The completion begins at len(prompt).",
)(_scoring(first=lambda prompt, row, n: max(len(prompt) - 1, 1)))
completion_scores.wrong(
    "right but for the last token of the completion, which is left out",
    "It is predicted at the token before it, and counts.",
)(_scoring(last=lambda prompt, row, n: len(row) - 1))
completion_scores.wrong(
    "right where no padding follows: it scores the padding, too",
    "After the end of a completion nothing is asked.",
)(_scoring(last=lambda prompt, row, n: n))
completion_scores.wrong(
    "right but for the padding, which comes first: a causal model reads it",
    "Pad at the end: no token looks there, and all keep their places.",
)(
    _scoring(
        pad=_padded_before,
        first=lambda prompt, row, n: n - len(row) + len(prompt),
        last=lambda prompt, row, n: n,
    )
)
completion_scores.wrong(
    "right but for the mean: it always gives the sum",
    "If mean is True, divide by the number of tokens in the completion.",
)(_scoring(mean=lambda mean: False))
completion_scores.wrong(
    "right but for the sum: it always gives the mean",
    "Divide only if mean is True.",
)(_scoring(mean=lambda mean: True))
completion_scores.wrong(
    "right but for sum and mean, which are exchanged",
    "Divide if mean is True.",
)(_scoring(mean=lambda mean: not mean))
completion_scores.wrong(
    "right but for the mean: it divides by the length of prompt and completion",
    "By the number of tokens that were added up: those of the completion.",
)(_scoring(divisor=lambda prompt, choice, row: len(row)))
completion_scores.wrong(
    "right but for the mean: it divides by the length of the prompt",
    "By the number of tokens that were added up: those of the completion.",
)(_scoring(divisor=lambda prompt, choice, row: len(prompt)))
completion_scores.wrong(
    "right but for the mean, which divides by the root of the length",
    "By the number of tokens in the completion.",
)(_scoring(divisor=lambda prompt, choice, row: len(choice) ** 0.5))
completion_scores.wrong(
    "a sum of probabilities, not of their logarithms",
    "The probability of a completion is a product: logarithms add up.",
)(_scoring(joined=lambda values: values.exp().sum()))
completion_scores.wrong(
    "a product of probabilities, without the logarithm",
    "Return the logarithm; products of many probabilities become 0.",
)(_scoring(joined=lambda values: values.sum().exp()))
completion_scores.wrong(
    "a sum of scores that are no logarithms of probabilities yet",
    "Scores become log p by log_softmax over the vocabulary.",
)(_scoring(log_p=lambda model, tokens: model(tokens)))
completion_scores.wrong(
    "right but for the softmax, which goes over the places, not over the vocabulary",
    "The last axis is the vocabulary.",
)(_scoring(log_p=lambda model, tokens: model(tokens).log_softmax(dim=1)))
completion_scores.wrong(
    "right but for the sign: it gives losses",
    "Log probabilities are below 0, and the largest is the best.",
)(_scoring(joined=lambda values: -values.sum()))
completion_scores.wrong(
    "a list of log probabilities that add up to 1 over the choices of a prompt",
    "The log probability of each completion, whatever others there are.",
)(_scoring(each=lambda scores: scores.log_softmax(dim=0)))
completion_scores.wrong(
    "a perplexity, not a log probability",
    "Return the logarithm, without exp and without the minus.",
)(_scoring(joined=lambda values: values.sum(), each=lambda scores: (-scores).exp()))
completion_scores.wrong(
    "a score by the first token of each completion alone",
    "All its tokens count.",
)(_scoring(last=lambda prompt, row, n: len(prompt) + 1))
completion_scores.wrong(
    "a score by the least probable token of each completion",
    "Add up all its tokens.",
)(_scoring(joined=lambda values: values.min()))
completion_scores.wrong(
    "right, but it calls the model once for each completion",
    "Pad the rows to the same length and hand them to the model in one batch.",
)(_scoring(batches=lambda rows: [[row] for row in rows]))
completion_scores.wrong(
    "a list of the best choices",
    "Return all scores: a tensor for each prompt.",
)(_scoring(each=lambda scores: scores.argmax()))


@completion_scores.wrong(
    "right, but it calls the model once for each prompt",
    "Pad the rows of all prompts to the same length and hand them to the model in one batch.",
)
def _(model, prompts, choices, mean):
    pairs = zip(prompts, choices, strict=True)
    answer = completion_scores.reference
    return [answer(model, [prompt], [each], mean)[0] for prompt, each in pairs]


@completion_scores.wrong(
    "a score of the completions by themselves: the model does not see the prompts",
    "What is asked for is the completion given its prompt: the row is prompt + completion.",
)
def _(model, prompts, choices, mean):
    return completion_scores.reference(model, [prompt[:1] for prompt in prompts], choices, mean)


@completion_scores.wrong(
    "right but for the prompts: every row has the first one",
    "Each prompt has choices of its own.",
)
def _(model, prompts, choices, mean):
    return completion_scores.reference(model, prompts[:1] * len(prompts), choices, mean)


@completion_scores.wrong(
    "one tensor of all scores, not a tensor for each prompt",
    "Divide the scores again: split takes a list of lengths.",
)
def _(model, prompts, choices, mean):
    return mt.cat(completion_scores.reference(model, prompts, choices, mean))


@completion_scores.wrong(
    "probabilities, not their logarithms",
    "Products of small numbers vanish. Leave the logarithms as they are.",
)
def _(*case):
    return [scores.exp() for scores in completion_scores.reference(*case)]


@completion_scores.wrong(
    "right but for the mean: it divides by the padded length",
    "By the number of tokens that were added up: those of the completion.",
)
def _(model, prompts, choices, mean):
    found = completion_scores.reference(model, prompts, choices, False)
    longest = max(
        len(prompt) + len(each)
        for prompt, some in zip(prompts, choices, strict=True)
        for each in some
    )
    return [scores / longest if mean else scores for scores in found]
