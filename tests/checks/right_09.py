"""Right answers to the exercises of chapter 09, and forbidden ones."""

import functools
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_09 import Block, FeedForward

# layer_norm


def norm_with_var(x, gain, bias, eps=1e-5):
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    return gain * (x - x.mean(-1, keepdim=True)) * (variance + eps) ** -0.5 + bias


def norm_by_second_moment(x, gain, bias, eps=1e-5):
    mean = x.sum(-1, keepdim=True) / x.size(-1)
    variance = x.square().mean(-1, keepdim=True) - mean**2
    scale = gain / (variance + eps).sqrt()
    return x * scale + (bias - mean * scale)


def norm_token_by_token(x, gain, bias, eps=1e-5):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        mean = sum(token) / len(token)
        variance = sum((number - mean) ** 2 for number in token) / len(token)
        rows.append((token - mean) / mt.sqrt(variance + eps) * gain + bias)
    return mt.stack(rows).reshape(x.shape)


def norm_with_matrices(x, gain, bias, eps=1e-5):
    """Subtracting the mean is a product with I - 1/d."""
    d = x.shape[-1]
    centered = x @ (mt.eye(d) - 1 / d)
    return centered / (centered * centered @ mt.full((d, 1), 1 / d) + eps).sqrt() * gain + bias


def library_norm(x, gain, bias, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), gain, bias, eps)


def norm_of_the_module(x, gain, bias, eps=1e-5):
    norm = nn.LayerNorm(x.shape[-1], eps=eps, elementwise_affine=False).double()
    return norm(x) * gain + bias


# rms_norm


def rms_with_power(x, gain, eps=1e-5):
    return gain * x * (x.square().mean(-1, keepdim=True) + eps) ** -0.5


def rms_from_length(x, gain, eps=1e-5):
    d = x.shape[-1]
    return x * gain * math.sqrt(d) / ((x * x).sum(-1, keepdim=True) + d * eps).sqrt()


def rms_with_einsum(x, gain, eps=1e-5):
    squares = mt.einsum("...d,...d->...", x, x) / len(gain)
    return x / (squares + eps).sqrt().unsqueeze(-1) * gain


def library_rms(x, gain, eps=1e-5):
    return F.rms_norm(x, (x.shape[-1],), gain, eps)


def rms_by_norm_of_both_signs(x, gain, eps=1e-5):
    """The mean of x and -x is 0, so layer norm of both is an RMSNorm."""
    both = mt.cat([x, -x], dim=-1)
    return F.layer_norm(both, (both.shape[-1],), eps=eps)[..., : x.shape[-1]] * gain


# FeedForward


class NetworkOfFunctions(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return F.linear(F.relu(F.linear(x, self.up.weight, self.up.bias)), *self.down.parameters())


class NetworkWithClamp(FeedForward.reference):
    def between(self, x):
        return x.clamp(min=0)


class NetworkInALoop(FeedForward.reference):
    """The layers are made in the other order; positions come one by one."""

    def __init__(self, width, hidden):
        nn.Module.__init__(self)
        self.activation = nn.ReLU()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        rows = [self.down(self.activation(self.up(token))) for token in x.flatten(0, -2)]
        return mt.stack(rows).reshape(x.shape)


class NetworkUnitByUnit(FeedForward.reference):
    """The sum of what the hidden units give."""

    def forward(self, x):
        total = self.down.bias
        for toward, bias, give in zip(
            self.up.weight, self.up.bias, self.down.weight.T, strict=True
        ):
            total = total + (x @ toward + bias).relu().unsqueeze(-1) * give
        return total


# warm_up


def warm_up_in_two_branches(step, width, steps):
    peak = 1 / math.sqrt(width * steps)
    return peak * step / steps if step < steps else peak * math.sqrt(steps / step)


def warm_up_with_numpy(step, width, steps):
    terms = np.array([1 / np.sqrt(step), step / steps**1.5])
    return terms.min() / np.sqrt(width)


def warm_up_as_a_tensor(step, width, steps):
    terms = mt.tensor([step**-0.5, step * steps**-1.5], dtype=mt.float64)
    return terms.min() / math.sqrt(width)


# add_and_norm


def join_step_by_step(x, part, norm, pre):
    given = norm(x) if pre else x
    total = part(given) + x
    return total if pre else norm(total)


def join_with_lambdas(x, part, norm, pre):
    before, after = (norm, lambda y: y) if pre else (lambda y: y, norm)
    return after(mt.stack([x, part(before(x))]).sum(0))


# one_layer


def layers_by_recursion(weights, values):
    if len(weights) == 1:
        return weights[0], values[0]
    A, V = layers_by_recursion(weights[1:], values[1:])
    return A @ weights[0], values[0] @ V


def layers_from_identities(weights, values):
    A = mt.eye(weights[0].shape[-1])
    V = mt.eye(len(values[0]))
    for weight in weights:
        A = weight @ A
    for value in reversed(values):
        V = value @ V
    return [A, V]


def layers_in_numpy(weights, values):
    A = functools.reduce(np.matmul, [weight.numpy() for weight in reversed(weights)])
    V = functools.reduce(np.matmul, [value.numpy() for value in values])
    return mt.tensor(A), mt.tensor(V)


def layers_seen_from_outside(weights, values):
    """What the stack does to the one-hot rows and columns."""
    A = mt.eye(weights[0].shape[-1]).expand(*weights[0].shape)
    for weight in weights:
        A = mt.einsum("bij,bjk->bik", weight, A)
    return A, functools.reduce(mt.matmul, values)


# batch_statistics


def statistics_with_a_mask(x, real):
    mask = real.unsqueeze(-1).to(x.dtype)
    count = mask.sum()
    mean = (x * mask).sum(dim=(0, 1)) / count
    return mean, (((x - mean) * mask) ** 2).sum(dim=(0, 1)) / count


def statistics_by_second_moment(x, real):
    tokens = x.flatten(0, 1)[real.flatten()]
    mean = tokens.mean(0)
    return [mean, (tokens**2).mean(0) - mean**2]


def statistics_of_kept_tokens(x, real):
    tokens = mt.stack([x[b, i] for b in range(len(x)) for i in range(x.shape[1]) if real[b, i]])
    return tokens.mean(dim=0), tokens.var(dim=0, unbiased=False)


def statistics_in_numpy(x, real):
    tokens = x.numpy()[real.numpy()]
    return mt.tensor(tokens.mean(axis=0)), mt.tensor(tokens.var(axis=0))


def statistics_with_products(x, real):
    shares = (real / real.sum()).flatten()
    rows = mt.where(real.unsqueeze(-1), x, 0.0).flatten(0, 1)
    mean = shares @ rows
    return mean, shares @ (rows - mean) ** 2


# layer_norm_gradient


def gradient_with_the_jacobian(x, gain, grad_output, eps=1e-5):
    d = x.shape[-1]
    mean = x.mean(-1, keepdim=True)
    s = (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
    normal = (x - mean) / s
    outer = normal.unsqueeze(-1) * normal.unsqueeze(-2)  # (n, d, d)
    jacobian = (mt.eye(d) - (1 + outer) / d) / s.unsqueeze(-1)
    toward_x = ((grad_output * gain).unsqueeze(-2) @ jacobian).squeeze(-2)
    return [toward_x, (grad_output * normal).sum(0), grad_output.sum(0)]


def gradient_step_by_step(x, gain, grad_output, eps=1e-5):
    """Each operation of the forward pass, backwards."""
    n, d = x.shape
    centered = x - x.mean(-1, keepdim=True)
    s = ((centered**2).mean(-1, keepdim=True) + eps).sqrt()
    toward_normal = grad_output * gain
    toward_s = -(toward_normal * centered).sum(-1, keepdim=True) / s**2
    toward_variance = toward_s / (2 * s)
    toward_centered = toward_normal / s + toward_variance * 2 * centered / d
    toward_mean = -toward_centered.sum(-1, keepdim=True)
    ones = mt.ones(n)
    return (
        toward_centered + toward_mean / d,
        ones @ (grad_output * centered / s),
        ones @ grad_output,
    )


def gradient_token_by_token(x, gain, grad_output, eps=1e-5):
    rows, toward_gain, toward_bias = [], mt.zeros(len(gain)), mt.zeros(len(gain))
    for token, g in zip(x, grad_output, strict=True):
        s = ((token - token.mean()).square().mean() + eps).sqrt()
        normal, at_normal = (token - token.mean()) / s, g * gain
        rows.append((at_normal - at_normal.mean() - normal * (at_normal @ normal) / len(g)) / s)
        toward_gain, toward_bias = toward_gain + g * normal, toward_bias + g
    return mt.stack(rows), toward_gain, toward_bias


def gradient_by_the_engine(x, gain, grad_output, eps=1e-5):
    leaves = [x.clone(), gain.clone(), mt.zeros_like(gain)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    return mt.autograd.grad(norm_with_var(*leaves, eps), leaves, grad_output)


def gradient_by_backward(x, gain, grad_output, eps=1e-5):
    leaves = [x.detach().clone(), gain.detach().clone(), mt.zeros_like(gain)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    library_norm(*leaves, eps).backward(grad_output)
    return [leaf.grad for leaf in leaves]


# Block


class BlockInSteps(Block.reference):
    """The mask of numbers: 0 where a query may look, minus infinity elsewhere."""

    def forward(self, x, allowed=None):
        normal = self.norm_1(x)
        mask = None
        if allowed is not None:
            mask = mt.zeros(allowed.shape).masked_fill(~allowed, -mt.inf)
        attended = self.attention(normal, normal, normal, attn_mask=mask)[0]
        total = attended + x
        for layer in (self.norm_2, *self.feed_forward):
            attended = layer(total if layer is self.norm_2 else attended)
        return total + attended


class BlockSequenceBySequence(Block.reference):
    def forward(self, x, allowed=None):
        if allowed is None:
            allowed = mt.ones(x.shape[1], x.shape[1]).bool()
        rows = []
        for sequence in x:
            normal = self.norm_1(sequence).unsqueeze(0)
            mask = allowed.logical_not()
            attended, _ = self.attention(normal, normal, normal, attn_mask=mask)
            rows.append(sequence + attended[0])
        between = mt.stack(rows)
        return self.feed_forward(self.norm_2(between)) + between


class BlockByHand(Block.reference):
    """From the weights alone, without the modules."""

    def forward(self, x, allowed=None):
        width, heads = x.shape[-1], self.attention.num_heads
        normal = norm_with_var(x, self.norm_1.weight, self.norm_1.bias)
        projected = normal @ self.attention.in_proj_weight.T
        query, key, value = (
            each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in projected.split(width, -1)
        )
        scores = query @ key.mT / math.sqrt(width // heads)
        if allowed is not None:
            scores = mt.where(allowed, scores, -mt.inf)
        joined = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = x + joined @ self.attention.out_proj.weight.T
        return x + self.feed_forward(norm_with_var(x, self.norm_2.weight, self.norm_2.bias))


class BlockWithoutWeights(Block.reference):
    """Without the weights to return, nn.MultiheadAttention takes the fused operation."""

    def forward(self, x, allowed=None):
        x_1, mask = self.norm_1(x), None if allowed is None else ~allowed
        x = x + self.attention(x_1, x_1, x_1, attn_mask=mask, need_weights=False)[0]
        return x + self.feed_forward(self.norm_2(x))


right = {
    "layer_norm": [norm_with_var, norm_by_second_moment, norm_token_by_token, norm_with_matrices],
    "rms_norm": [rms_with_power, rms_from_length, rms_with_einsum],
    "FeedForward": [NetworkOfFunctions, NetworkWithClamp, NetworkInALoop, NetworkUnitByUnit],
    "warm_up": [warm_up_in_two_branches, warm_up_with_numpy, warm_up_as_a_tensor],
    "add_and_norm": [join_step_by_step, join_with_lambdas],
    "one_layer": [
        layers_by_recursion,
        layers_from_identities,
        layers_seen_from_outside,
        layers_in_numpy,
    ],
    "batch_statistics": [
        statistics_with_a_mask,
        statistics_by_second_moment,
        statistics_of_kept_tokens,
        statistics_with_products,
        statistics_in_numpy,
    ],
    "layer_norm_gradient": [
        gradient_with_the_jacobian,
        gradient_step_by_step,
        gradient_token_by_token,
    ],
    "Block": [BlockInSteps, BlockSequenceBySequence, BlockByHand, BlockWithoutWeights],
}
refused = {
    "layer_norm": [library_norm, norm_of_the_module],
    "rms_norm": [library_rms, rms_by_norm_of_both_signs],
    "layer_norm_gradient": [gradient_by_the_engine, gradient_by_backward],
}
