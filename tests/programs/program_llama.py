"""A modern decoder: RMSNorm, rotary positions, grouped queries, SwiGLU, a key-value cache."""

import math

import numpy as np

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return normed.type_as(x) * self.weight


def precompute_freqs(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end).float(), freqs)
    return torch.cos(freqs), torch.sin(freqs)


def reshape_for_broadcast(freqs, x):
    shape = [d if i == 1 or i == x.ndim - 1 else 1 for i, d in enumerate(x.shape)]
    return freqs.view(shape)


def apply_rotary_emb(x, freqs_cos, freqs_sin):
    x_r, x_i = x.float().reshape(x.shape[:-1] + (-1, 2)).unbind(-1)
    freqs_cos = reshape_for_broadcast(freqs_cos, x_r)
    freqs_sin = reshape_for_broadcast(freqs_sin, x_r)
    out_r = x_r * freqs_cos - x_i * freqs_sin
    out_i = x_r * freqs_sin + x_i * freqs_cos
    return torch.stack([out_r, out_i], dim=-1).flatten(3).type_as(x)


def repeat_kv(x, n_rep):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x, freqs_cos, freqs_sin, cache=None):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq = apply_rotary_emb(xq, freqs_cos, freqs_sin)
        xk = apply_rotary_emb(xk, freqs_cos, freqs_sin)
        if cache is not None:
            if "k" in cache:
                xk = torch.cat([cache["k"], xk], dim=1)
                xv = torch.cat([cache["v"], xv], dim=1)
            cache["k"], cache["v"] = xk, xv
        xk = repeat_kv(xk, self.n_heads // self.n_kv_heads)
        xv = torch.repeat_interleave(xv, self.n_heads // self.n_kv_heads, dim=2)
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        total = xk.size(2)
        mask = torch.ones(total, total, dtype=torch.bool).tril()[total - seqlen :]
        output = F.scaled_dot_product_attention(xq, xk, xv, attn_mask=mask)
        output = output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.attention = Attention(dim, n_heads, n_kv_heads)
        self.feed_forward = FeedForward(dim, dim * 2)
        self.attention_norm = RMSNorm(dim)
        self.ffn_norm = nn.RMSNorm(dim, eps=1e-6)

    def forward(self, x, freqs_cos, freqs_sin, cache=None):
        h = x + self.attention(self.attention_norm(x), freqs_cos, freqs_sin, cache)
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, vocab_size=11, dim=24, n_layers=2, n_heads=4, n_kv_heads=2, max_len=32):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList()
        for _ in range(n_layers):
            self.layers.append(TransformerBlock(dim, n_heads, n_kv_heads))
        self.norm = RMSNorm(dim)
        self.output = nn.Linear(dim, vocab_size, bias=False)
        freqs_cos, freqs_sin = precompute_freqs(dim // n_heads, max_len)
        self.register_buffer("freqs_cos", freqs_cos, persistent=False)
        self.register_buffer("freqs_sin", freqs_sin, persistent=False)

    def forward(self, tokens, start=0, caches=None):
        length = tokens.size(1)
        h = self.tok_embeddings(tokens)
        cos, sin = self.freqs_cos[start : start + length], self.freqs_sin[start : start + length]
        for i, layer in enumerate(self.layers):
            h = layer(h, cos, sin, None if caches is None else caches[i])
        return self.output(self.norm(h))


def top_p(logits, p):
    sorted_logits, sorted_indices = torch.sort(logits, descending=True)
    cumulative = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
    remove = cumulative > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = 0
    return logits.masked_fill(remove.scatter(1, sorted_indices, remove), -float("inf"))


@torch.no_grad()
def generate(model, tokens, count, cached):
    caches = [{} for _ in model.layers] if cached else None
    chosen = []
    for i in range(count):
        if cached and i:
            logits = model(tokens[:, -1:], tokens.size(1) - 1, caches)[:, -1]
        else:
            logits = model(tokens, 0, caches)[:, -1]
        chosen.append(logits)
        tokens = torch.cat((tokens, logits.argmax(-1, keepdim=True)), dim=1)
    return tokens, torch.stack(chosen, dim=1)


def build():
    return Transformer()


def run(model):
    random = np.random.default_rng(8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for _ in range(24):
        start = torch.from_numpy(random.integers(0, 11, (8, 1)))
        step = torch.from_numpy(random.integers(1, 3, (8, 1)))
        ids = (start + step * torch.arange(10)) % 11
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    prompt = torch.tensor([[3, 4, 5]])
    plain, plain_logits = generate(model, prompt, 8, cached=False)
    cached, cached_logits = generate(model, prompt, 8, cached=True)
    kept = torch.isfinite(top_p(plain_logits[0], 0.9))
    return {
        "losses": losses,
        "tokens": plain.tolist(),
        "cache equal": torch.equal(plain, cached)
        and torch.allclose(plain_logits, cached_logits, atol=1e-4),
        "kept": bool(kept.any(dim=-1).all()),
        "entropy": bool(math.isfinite(plain_logits.logsumexp(-1).sum().item())),
        "logits": cached_logits.numpy(),
    }
