"""A masked language model, and its continuations of a batch of prompts."""

import functools
import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.checks.chapter_07.masks import steps_back
from minitorch.checks.exercise import Draw, exercise

# The model and its loss


def _text_cases(draw, hidden):
    """Sizes (V, d), then a batch whose sequences have different lengths."""
    sizes = [((3, 2), 2, 3), ((5, 4), 3, 4)] + [((7, 3), 4, 6)] * hidden
    for (vocabulary_size, width), batch, n in sizes:
        lengths = mt.cat([1 + draw.integers(n - 1, batch - 1), mt.tensor([n])])
        yield (vocabulary_size, width), draw.integers(vocabulary_size, batch, n), lengths


@functools.cache
def _weights(sizes):
    draw, shapes = Draw(0), _Model(*sizes).state_dict().items()
    return {name: draw.normal(*weight.shape) for name, weight in shapes}


def _made(answer, sizes):
    """The model in float64, with weights that depend on the sizes alone."""
    model = answer(*sizes).double()
    model.load_state_dict(_weights(sizes))
    return model


def _run(answer, sizes, tokens, lengths):
    model = _made(answer, sizes)
    scores, loss = model(tokens), model.loss(tokens, lengths)
    if isinstance(loss, mt.Tensor) and loss.requires_grad and loss.numel() == 1:
        loss.backward()
    return {
        "the tensor of scores": scores.detach() if isinstance(scores, mt.Tensor) else scores,
        "the loss": loss.detach() if isinstance(loss, mt.Tensor) else loss,
        **{
            f"the gradient of the loss with respect to {name}": (
                mt.zeros_like(x) if x.grad is None else x.grad
            )
            for name, x in model.named_parameters()
        },
    }


def _nothing_leaks(answer, sizes, tokens, lengths):
    model, others = _made(answer, sizes), tokens.clone()
    others[:, -1] = (tokens[:, -1] + 1) % sizes[0]
    before, after = model(tokens), model(others)
    if not mt.equal(before[:, :-1], after[:, :-1]):
        return "Another last token must not change any score before it."
    return None


def _padding_takes_no_part(answer, sizes, tokens, lengths):
    model = _made(answer, sizes)
    padding = mt.arange(tokens.shape[1]) >= lengths.unsqueeze(1)
    others = mt.where(padding, (tokens + 1) % sizes[0], tokens)
    if not mt.equal(model.loss(tokens, lengths), model.loss(others, lengths)):
        return "What stands in the padding must not change the loss."
    return None


@exercise(
    cases=_text_cases,
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, @, masked_fill and softmax",
    properties=(_nothing_leaks, _padding_takes_no_part),
    gradients=False,
    see='chapter 07, "A masked language model"',
)
class MaskedLanguageModel(nn.Module):
    """Tokens (B, n) -> scores (B, n, V); tokens and lengths (B) -> the loss.

    The pieces that mistakes exchange are methods of their own.
    """

    def __init__(self, vocabulary_size, width):
        super().__init__()
        self.start = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size + 1, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, vocabulary_size)

    def forward(self, tokens):
        X = self.embedding(tokens)  # (B, n, d)
        scores = self.query(X) @ self.key(X).transpose(1, 2) * self.scale(X.shape[-1])
        return self.output(self.weights(scores) @ self.value(X))

    def scale(self, width):
        return 1 / math.sqrt(width)

    def weights(self, scores):
        return scores.masked_fill(~self.allowed(steps_back(scores.shape[-1])), -mt.inf).softmax(-1)

    def allowed(self, back):
        return back >= 0

    def loss(self, tokens, lengths):
        losses = F.cross_entropy(
            self.predicted(tokens).transpose(1, 2), tokens, reduction="none"
        )  # (B, n)
        return self.averaged(losses, mt.arange(tokens.shape[1]) < lengths.unsqueeze(1))

    def predicted(self, tokens):
        """The scores (B, n, V) of the tokens."""
        return self(self.read(tokens))

    def read(self, tokens):
        first = mt.full_like(tokens[:, :1], self.start)
        return mt.cat([first, tokens[:, :-1]], dim=1)

    def averaged(self, losses, real):
        return (losses * real).sum() / real.sum()


_Model = MaskedLanguageModel.reference


@MaskedLanguageModel.wrong(
    "a model without a mask: it sees the token that it has to predict",
    "Where key j comes after query i the score is minus infinity, before the softmax.",
)
class _(_Model):
    def allowed(self, back):
        return back == back


@MaskedLanguageModel.wrong(
    "a model with a strict mask: a token does not see itself",
    "Position i has read token i and predicts the next one: j <= i is allowed, the diagonal "
    "included. With j < i the first row is not a number.",
)
class _(_Model):
    def allowed(self, back):
        return back > 0


@MaskedLanguageModel.wrong(
    "a model with a transposed mask: it sees the future alone",
    "Row i is query i, column j is key j: the lower triangle is allowed.",
)
class _(_Model):
    def allowed(self, back):
        return back <= 0


@MaskedLanguageModel.wrong(
    "a model with the mask the wrong way round",
    "masked_fill changes the places where its mask is True: give it the places that are not "
    "allowed.",
)
class _(_Model):
    def allowed(self, back):
        return back < 0


@MaskedLanguageModel.wrong(
    "a model that is masked after the softmax",
    "The weights no longer add up to 1, and through their sum the future leaks. Mask the scores, "
    "before the softmax.",
)
class _(_Model):
    def weights(self, scores):
        return scores.softmax(-1) * self.allowed(steps_back(scores.shape[-1]))


@MaskedLanguageModel.wrong(
    "a model with scores of 0 for the future",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)
class _(_Model):
    def weights(self, scores):
        return (scores * self.allowed(steps_back(scores.shape[-1]))).softmax(-1)


@MaskedLanguageModel.wrong(
    "a model whose scores are not divided by the square root of d",
    "From chapter 05 on, scores are query . key / sqrt(d).",
)
class _(_Model):
    def scale(self, width):
        return 1.0


@MaskedLanguageModel.wrong(
    "a model whose softmax goes over the queries",
    "Every query shares its attention among the keys: the softmax goes over the last axis.",
)
class _(_Model):
    def weights(self, scores):
        future = ~self.allowed(steps_back(scores.shape[-1]))
        return scores.masked_fill(future, -mt.inf).softmax(1)


@MaskedLanguageModel.wrong(
    "right but for the scores, which have been through a softmax",
    "forward returns the scores themselves: cross_entropy does the softmax.",
)
class _(_Model):
    def forward(self, tokens):
        return super().forward(tokens).softmax(dim=-1)


@MaskedLanguageModel.wrong(
    "right in forward, but the loss asks for the token that has just been read",
    "Without the shift the model reads each token before it has to predict it: its loss falls, and "
    "it is good for nothing. The inputs are the start token and then all tokens but the last.",
)
class _(_Model):
    def read(self, tokens):
        return tokens


@MaskedLanguageModel.wrong(
    "right in forward, but the loss leaves out the first token of each sequence",
    "The first token is predicted, too, from the start token: self.start comes before the others.",
)
class _(_Model):
    def loss(self, tokens, lengths):
        scores, targets = self(tokens[:, :-1]), tokens[:, 1:]
        real = mt.arange(1, tokens.shape[1]) < lengths.unsqueeze(1)
        losses = F.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
        return self.averaged(losses, real)


@MaskedLanguageModel.wrong(
    "right in forward, but the loss also counts the padding",
    "Position t of sequence b counts if t < lengths[b].",
)
class _(_Model):
    def averaged(self, losses, real):
        return losses.mean()


@MaskedLanguageModel.wrong(
    "right in forward, but the loss is divided by all positions, padding included",
    "Divide by the number of real tokens.",
)
class _(_Model):
    def averaged(self, losses, real):
        return (losses * real).mean()


@MaskedLanguageModel.wrong(
    "right in forward, but the loss is a sum, not a mean",
    "Divide by the number of real tokens.",
)
class _(_Model):
    def averaged(self, losses, real):
        return (losses * real).sum()


@MaskedLanguageModel.wrong(
    "right in forward, but the loss is the mean over the sequences of each one's mean",
    "Every token counts the same: one sum over all real tokens, divided once.",
)
class _(_Model):
    def averaged(self, losses, real):
        return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@MaskedLanguageModel.wrong(
    "right in forward, but the loss leaves out the last token of each sequence",
    "Positions count from 0: position t counts if t < lengths[b].",
)
class _(_Model):
    def averaged(self, losses, real):
        last = mt.arange(real.shape[1]) == real.sum(dim=1, keepdim=True) - 1
        return super().averaged(losses, real & ~last)


# Continuations


class _RunningSum:
    """A causal model without a limit of length: tokens (B, n) -> scores (B, n, V)."""

    def __init__(self, draw, vocabulary_size):
        self.embedding = 2 * draw.normal(vocabulary_size, 6)
        self.output = 2 * draw.normal(6, vocabulary_size)

    def __call__(self, tokens):
        return self.embedding[tokens].cumsum(dim=1).sin() @ self.output

    def __repr__(self):
        return f"<a causal model of {len(self.embedding)} tokens>"

    def __deepcopy__(self, memo):
        return self


def likeliest(scores):
    """(B, V) -> (B): greedy decoding."""
    return scores.argmax(dim=-1)


def drawn_with_a_fixed_number(scores):
    """(B, V) -> (B): sampling, were the random number always 0.6."""
    return (scores.softmax(dim=-1).cumsum(dim=-1) < 0.6).sum(dim=-1)


def _prompt_cases(draw, hidden):
    cases = [(1, 2, 2, likeliest), (2, 3, 3, likeliest), (3, 4, 4, drawn_with_a_fixed_number)]
    extra = [(1, 1, 5, drawn_with_a_fixed_number), (4, 6, 7, likeliest), (3, 5, 1, likeliest)]
    for batch, n, count, pick in cases + extra * hidden:
        shorter = 1 + draw.integers(max(n - 1, 1), batch)
        lengths = mt.where(mt.arange(batch) == 1, n, shorter)
        real = mt.arange(n) < lengths.unsqueeze(1)
        tokens = draw.integers(9, batch, n) * real
        yield _RunningSum(draw, 9), tokens, lengths, count, pick


def _continuing(
    place=lambda lengths, t: lengths + t - 1,
    choose=lambda pick, scores: pick(scores),
    write=lambda grown, place, token: mt.where(
        mt.arange(grown.shape[1]) == place.unsqueeze(1), token.unsqueeze(1), grown
    ),
):
    """Continuations with one piece exchanged."""

    def continued(model, tokens, lengths, count, pick):
        rows = mt.arange(len(tokens))
        grown = mt.cat([tokens, mt.zeros(len(tokens), count, dtype=tokens.dtype)], dim=1)
        new = []
        for t in range(count):
            scores = model(grown)[rows, place(lengths, t)]  # (B, V)
            new.append(choose(pick, scores))
            grown = write(grown, lengths + t, new[-1])
        return mt.stack(new, dim=1)

    return continued


@exercise(cases=_prompt_cases, gradients=False, see='chapter 07, "A masked language model"')
def continue_prompts(model, tokens, lengths, count, pick):
    """Prompts (B, n) of which lengths (B) are real -> count new tokens for each, (B, count)."""
    return _continuing()(model, tokens, lengths, count, pick)


@continue_prompts.wrong(
    "right where a prompt has no padding; else it goes on after the padding",
    "The first new token of sequence b takes position lengths[b], where its padding begins; the "
    "scores for it stand at position lengths[b] - 1.",
)
def _(model, tokens, lengths, count, pick):
    for _ in range(count):
        tokens = mt.cat([tokens, pick(model(tokens)[:, -1]).unsqueeze(1)], dim=1)
    return tokens[:, -count:]


continue_prompts.wrong(
    "off by one: it reads the scores behind the last token",
    "Position i has read the tokens up to i and predicts the one at i + 1: read the scores at the "
    "last token that is there, lengths[b] - 1 at first.",
)(_continuing(place=lambda lengths, t: lengths + t))
continue_prompts.wrong(
    "off by one: it reads the scores one position too early",
    "Those scores predict the last token that is there. Read at lengths[b] - 1, then one further "
    "with each new token.",
)(_continuing(place=lambda lengths, t: (lengths + t - 2).clamp(min=0)))
continue_prompts.wrong(
    "reads every sequence at the end of the longest prompt",
    "Each sequence goes on from its own last token: position lengths[b] - 1 at first.",
)(_continuing(place=lambda lengths, t: lengths.max().expand(len(lengths)) + t - 1))
continue_prompts.wrong(
    "read off one single pass: what has been picked is never put into the sequence",
    "In training all tokens are known, so that one pass gives all scores. A new token is known "
    "when it has been picked: write it at position lengths[b] + t, then let the model read again.",
)(_continuing(write=lambda grown, place, token: grown))
continue_prompts.wrong(
    "one and the same step, count times: every new token is the first one again",
    "Write each new token at position lengths[b] + t, and read one position further each time.",
)(_continuing(place=lambda lengths, t: lengths - 1))


@continue_prompts.wrong(
    "written without a context: the model is shown the last token alone",
    "A recurrent network keeps a state; this model knows only what it is shown. Give it the whole "
    "sequence.",
)
def _(model, tokens, lengths, count, pick):
    token = tokens[mt.arange(len(tokens)), lengths - 1]
    new = []
    for _ in range(count):
        token = pick(model(token.unsqueeze(1))[:, 0])
        new.append(token)
    return mt.stack(new, dim=1)


continue_prompts.wrong(
    "always the likeliest token: pick is not used",
    "pick decides which token is taken, so that one loop serves greedy decoding and sampling.",
)(_continuing(choose=lambda pick, scores: likeliest(scores)))
continue_prompts.wrong(
    "right but for what pick is given: probabilities, not scores",
    "Hand the scores on as they are. A sampling pick does the softmax itself.",
)(_continuing(choose=lambda pick, scores: pick(scores.softmax(dim=-1))))


@continue_prompts.wrong(
    "right but for the prompts, which are returned, too",
    "Return the new tokens alone, (B, count).",
)
def _(model, tokens, lengths, count, pick):
    new = continue_prompts.reference(model, tokens, lengths, count, pick)
    return mt.cat([tokens, new], dim=1)


@continue_prompts.wrong(
    "right but for the order of the axes: it is (count, B)",
    "One row for each prompt: stack the new tokens along axis 1.",
)
def _(model, tokens, lengths, count, pick):
    return continue_prompts.reference(model, tokens, lengths, count, pick).T
