"""A causal language model and its loss."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_07.masks import steps_back
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, loaded, results_of, values
from textbook.checks.recorded import recorded

LARGE = 4  # models of this width have scores of millions


def _text_cases(draw, hidden):
    """Sizes (V, d), then a batch whose sequences have different lengths."""
    sizes = [((4, 2), 2, 3), ((3, LARGE), 2, 3)] + [((5, 3), 3, 4)] * hidden
    for (vocabulary_size, width), batch, n in sizes:
        lengths = mt.cat([1 + draw.integers(n - 1, batch - 1), mt.tensor([n])])
        yield (vocabulary_size, width), draw.integers(vocabulary_size, batch, n), lengths


def _weights(vocabulary_size, width):
    weights = drawn(_Model, vocabulary_size, width)
    if width == LARGE:
        return {**weights, "query.weight": 1e6 * weights["query.weight"]}
    return weights


def _run(answer, sizes, tokens, lengths):
    return results_of(
        answer(*sizes),
        _weights(*sizes),
        {},
        lambda model: {
            "the tensor of scores": values(model(tokens)),
            "the loss": model.loss(tokens, lengths),
        },
        "the gradient of the loss",
    )


def _nothing_leaks(answer, sizes, tokens, lengths):
    model, others = loaded(answer(*sizes), _weights(*sizes)), tokens.clone()
    others[:, -1] = (tokens[:, -1] + 1) % sizes[0]
    before, after = model(tokens), model(others)
    same = mt.equal if sizes[1] == LARGE else mt.allclose  # a late mask fails by its values there
    if not same(before[:, :-1], after[:, :-1]):
        return (
            "Another last token must not change any score before it, not even in the last digits: "
            "hidden scores must take no part in the softmax."
        )
    return None


def _padding_takes_no_part(answer, sizes, tokens, lengths):
    model = loaded(answer(*sizes), _weights(*sizes))
    padding = mt.arange(tokens.shape[1]) >= lengths.unsqueeze(1)
    others = mt.where(padding, (tokens + 1) % sizes[0], tokens)
    if not mt.equal(model.loss(tokens, lengths), model.loss(others, lengths)):
        return "What stands in the padding must not change the loss."
    return None


@recorded
def _loss_alone(sizes, weights, *batch):
    """The loss of a right model that is called once."""
    model = _Model(*sizes).double()
    model.load_state_dict(weights)
    return model.loss(*batch)


def _calls_are_apart(answer, sizes, tokens, lengths):
    """Two models that take turns, on other texts, do as two that are called once.

    Asked of those alone that are right when they are called once.
    """
    models = [loaded(answer(*sizes), _weights(*sizes)) for _ in range(2)]
    right = _loss_alone(sizes, _weights(*sizes), tokens, lengths)
    if not mt.allclose(models[0].loss(tokens, lengths), right):
        return None
    with mt.no_grad():
        for weight in models[1].parameters():
            weight.mul_(0.5)
    others = (tokens.flip(0) + 1) % sizes[0], lengths.flip(0)
    longer = mt.cat([tokens, tokens], dim=1), 2 * lengths
    for i, batch in ((0, others), (1, longer), (0, longer), (1, (tokens, lengths)), (0, others)):
        alone = _loss_alone(sizes, models[i].state_dict(), *batch)
        if not mt.allclose(models[i].loss(*batch), alone):
            return (
                "Called again with other texts, or in turn with another model, a model does "
                "something else. It must keep nothing from a call."
            )
    return None


@exercise(
    cases=_text_cases,
    run=_run,
    forbidden=("scaled_dot_product_attention",),
    instead="the layers made in __init__, @, masked_fill and softmax",
    properties=(_nothing_leaks, _padding_takes_no_part, _calls_are_apart),
    gradients=False,
    see='chapter 07, "A causal language model"',
)
class CausalLanguageModel(nn.Module):
    """A language model: one layer of masked self-attention between embedding and output."""

    def __init__(self, vocabulary_size, width):
        super().__init__()
        self.start = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size + 1, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, vocabulary_size)

    def forward(self, tokens):
        """Tokens (B, n) give scores (B, n, V); those at position i are for the token after it."""
        X = self.embedding(tokens)  # (B, n, d)
        scores = self.query(X) @ self.key(X).transpose(1, 2) / math.sqrt(X.shape[-1])  # (B, n, n)
        future = mt.ones(scores.shape[1:], dtype=mt.bool).triu(1)
        weights = scores.masked_fill(future, -mt.inf).softmax(dim=-1)
        return self.output(weights @ self.value(X))

    def loss(self, tokens, lengths):
        """Tokens (B, n), of which lengths (B) are real, give the mean cross-entropy."""
        start = mt.full_like(tokens[:, :1], self.start)
        scores = self(mt.cat([start, tokens[:, :-1]], dim=1))  # (B, n, V)
        real = mt.arange(tokens.shape[1]) < lengths.unsqueeze(1)  # (B, n)
        return F.cross_entropy(scores[real], tokens[real])


_Model = CausalLanguageModel.reference


class ModelInPieces(_Model):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, tokens):
        X = self.embedding(tokens)  # (B, n, d)
        scores = self.query(X) @ self.key(X).transpose(1, 2) * self.scale(X.shape[-1])
        return self.output(self.mixed(self.weights(scores), X))

    def scale(self, width):
        return 1 / math.sqrt(width)

    def mixed(self, weights, X):
        return weights @ self.value(X)

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


@CausalLanguageModel.wrong(
    "a model without a mask: it sees the token that it has to predict",
    "Where key j comes after query i the score is minus infinity, before the softmax.",
)
class _(ModelInPieces):
    def allowed(self, back):
        return back == back


@CausalLanguageModel.wrong(
    "a model with a strict mask: a token does not see itself",
    "Position i has read token i and predicts the next one: j <= i is allowed, the diagonal "
    "included. With j < i the first row is not a number.",
)
class _(ModelInPieces):
    def allowed(self, back):
        return back > 0


@CausalLanguageModel.wrong(
    "a model with a transposed mask: it sees the future alone",
    "Row i is query i, column j is key j: the lower triangle is allowed.",
)
class _(ModelInPieces):
    def allowed(self, back):
        return back <= 0


@CausalLanguageModel.wrong(
    "a model with the mask the wrong way round",
    "masked_fill changes the places where its mask is True: give it the places that are not "
    "allowed.",
)
class _(ModelInPieces):
    def allowed(self, back):
        return back < 0


@CausalLanguageModel.wrong(
    "a model that is masked after the softmax",
    "The weights no longer add up to 1, and through their sum the future leaks. Mask the scores, "
    "before the softmax.",
)
class _(ModelInPieces):
    def weights(self, scores):
        return scores.softmax(-1) * self.allowed(steps_back(scores.shape[-1]))


@CausalLanguageModel.wrong(
    "a model that is masked after the softmax and divided by the sum of what is left",
    "On paper that is right, but where the hidden keys have the high scores the softmax leaves 0 "
    "for all others. Mask the scores, before the softmax.",
)
class _(ModelInPieces):
    def weights(self, scores):
        weights = scores.softmax(-1) * self.allowed(steps_back(scores.shape[-1]))
        return weights / weights.sum(dim=-1, keepdim=True)


@CausalLanguageModel.wrong(
    "a model that is masked with a score that is not low enough",
    "Where the other scores are lower still, the future wins. Use minus infinity.",
)
class _(ModelInPieces):
    def weights(self, scores):
        future = ~self.allowed(steps_back(scores.shape[-1]))
        return scores.masked_fill(future, -1e4).softmax(-1)


@CausalLanguageModel.wrong(
    "a model with scores of 0 for the future",
    "A score of 0 still has the weight exp(0) = 1. Only minus infinity takes a key out.",
)
class _(ModelInPieces):
    def weights(self, scores):
        return (scores * self.allowed(steps_back(scores.shape[-1]))).softmax(-1)


@CausalLanguageModel.wrong(
    "a model whose scores are not divided by the square root of d",
    "From chapter 05 on, scores are query . key / sqrt(d).",
)
class _(ModelInPieces):
    def scale(self, width):
        return 1.0


@CausalLanguageModel.wrong(
    "a model whose softmax goes over the queries",
    "Every query shares its attention among the keys: the softmax goes over the last axis.",
)
class _(ModelInPieces):
    def weights(self, scores):
        future = ~self.allowed(steps_back(scores.shape[-1]))
        return scores.masked_fill(future, -mt.inf).softmax(1)


@CausalLanguageModel.wrong(
    "right but for the scores, which have been through a softmax",
    "forward returns the scores themselves: cross_entropy does the softmax.",
)
class _(ModelInPieces):
    def forward(self, tokens):
        return super().forward(tokens).softmax(dim=-1)


@CausalLanguageModel.wrong(
    "right but for the scores, which have been through a log_softmax",
    "forward returns the scores themselves: cross_entropy does the softmax.",
)
class _(ModelInPieces):
    def forward(self, tokens):
        return super().forward(tokens).log_softmax(dim=-1)


@CausalLanguageModel.wrong(
    "a model that averages the embeddings",
    "What is averaged are the values, self.value(X).",
)
class _(ModelInPieces):
    def mixed(self, weights, X):
        return weights @ X


@CausalLanguageModel.wrong(
    "right but for a residual connection: X is added to the output of attention",
    "That is a good idea, and chapter 09's. Here self.output gets what attention gives, alone.",
)
class _(ModelInPieces):
    def mixed(self, weights, X):
        return X + weights @ self.value(X)


@CausalLanguageModel.wrong(
    "right in its loss, but forward itself puts the start token in front and drops the last token",
    "forward gives the scores for what comes after each token of its argument. The shift belongs "
    "into loss.",
)
class _(ModelInPieces):
    def forward(self, tokens):
        return super().forward(ModelInPieces.read(self, tokens))

    def read(self, tokens):
        return tokens


@CausalLanguageModel.wrong(
    "right in forward, but the loss shifts the tokens to the wrong side",
    "Position t must read token t - 1 to predict token t: the start token comes first, and the "
    "last token is not read.",
)
class _(ModelInPieces):
    def read(self, tokens):
        return mt.cat([tokens[:, 1:], mt.full_like(tokens[:, :1], self.start)], dim=1)


@CausalLanguageModel.wrong(
    "right in forward, but the loss drops the wrong end: each token is read before it is asked for",
    "The model reads the start token and all tokens but the last, and the first score is for the "
    "first token.",
)
class _(ModelInPieces):
    def predicted(self, tokens):
        first = mt.full_like(tokens[:, :1], self.start)
        return self(mt.cat([first, tokens], dim=1))[:, 1:]


@CausalLanguageModel.wrong(
    "right in forward, but the loss starts with token 0 in place of self.start",
    "Token 0 is a token like others. The start token has the number self.start.",
)
class _(ModelInPieces):
    def read(self, tokens):
        return mt.cat([mt.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)


@CausalLanguageModel.wrong(
    "right in forward, but the loss asks for the token that has just been read, and for padding",
    "The inputs are the start token and then all tokens but the last; and position t of sequence b "
    "counts if t < lengths[b].",
)
class _(ModelInPieces):
    def read(self, tokens):
        return tokens

    def averaged(self, losses, real):
        return losses.mean()


@CausalLanguageModel.wrong(
    "right in forward, but the loss leaves out each first token, and counts the padding",
    "The first token is predicted, too, from self.start; and position t of sequence b counts if "
    "t < lengths[b].",
)
class _(ModelInPieces):
    def loss(self, tokens, lengths):
        return F.cross_entropy(self(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])


@CausalLanguageModel.wrong(
    "right in forward, but the loss asks for the token that has just been read",
    "Without the shift the model reads each token before it has to predict it: its loss falls, and "
    "it is good for nothing. The inputs are the start token and then all tokens but the last.",
)
class _(ModelInPieces):
    def read(self, tokens):
        return tokens


@CausalLanguageModel.wrong(
    "right in forward, but the loss leaves out the first token of each sequence",
    "The first token is predicted, too, from the start token: self.start comes before the others.",
)
class _(ModelInPieces):
    def loss(self, tokens, lengths):
        scores, targets = self(tokens[:, :-1]), tokens[:, 1:]
        real = mt.arange(1, tokens.shape[1]) < lengths.unsqueeze(1)
        losses = F.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
        return self.averaged(losses, real)


@CausalLanguageModel.wrong(
    "right in forward, but the loss also counts the padding",
    "Position t of sequence b counts if t < lengths[b].",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        return losses.mean()


@CausalLanguageModel.wrong(
    "right in forward, but the loss is divided by all positions, padding included",
    "Divide by the number of real tokens.",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        return (losses * real).mean()


@CausalLanguageModel.wrong(
    "right in forward, but the loss is a sum, not a mean",
    "Divide by the number of real tokens.",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        return (losses * real).sum()


@CausalLanguageModel.wrong(
    "right in forward, but the loss is the mean over the sequences of each one's mean",
    "Every token counts the same: one sum over all real tokens, divided once.",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@CausalLanguageModel.wrong(
    "right in forward, but the loss leaves out the last token of each sequence",
    "Positions count from 0: position t counts if t < lengths[b].",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        last = mt.arange(real.shape[1]) == real.sum(dim=1, keepdim=True) - 1
        return super().averaged(losses, real & ~last)


@CausalLanguageModel.wrong(
    "right in forward, but the loss is divided by the number of texts",
    "The mean is over all real tokens: divide by the sum of lengths.",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        return (losses * real).sum() / len(losses)


@CausalLanguageModel.wrong(
    "right in forward, but the loss leaves out token 0 wherever it stands",
    "Token 0 is a token like others: tell padding by lengths, and mark it by -100.",
)
class _(ModelInPieces):
    def loss(self, tokens, lengths):
        real = mt.arange(tokens.shape[1]) < lengths.unsqueeze(1)
        targets = tokens.masked_fill(~real, 0)
        return F.cross_entropy(self.predicted(tokens).transpose(1, 2), targets, ignore_index=0)


@CausalLanguageModel.wrong(
    "right in forward, but the loss takes positions for classes: the scores are reshaped",
    "cross_entropy wants (B, V, n): exchange two axes, transpose(1, 2). reshape mixes them.",
)
class _(ModelInPieces):
    def predicted(self, tokens):
        scores = super().predicted(tokens)
        return scores.reshape(len(scores), -1, tokens.shape[1]).transpose(1, 2)


@CausalLanguageModel.wrong(
    "right in its values, but the loss is a plain number: it carries no gradient",
    "Return the tensor that cross_entropy gives: without .item(), float() or detach().",
)
class _(ModelInPieces):
    def loss(self, tokens, lengths):
        return super().loss(tokens, lengths).detach()


@CausalLanguageModel.wrong(
    "a model whose forward puts the start token in front by itself",
    "forward takes the tokens as they are; loss gives it the start token and all but the last.",
)
class _(ModelInPieces):
    def forward(self, tokens):
        return super().forward(self.read(tokens))


@CausalLanguageModel.wrong(
    "right in forward, but the loss takes the padding to stand in front",
    "The first lengths[b] positions hold tokens: t < length.",
)
class _(ModelInPieces):
    def averaged(self, losses, real):
        return super().averaged(losses, real.flip(1))
