"""The works that are measured, written once for both libraries.

Each function takes a library (``torch`` or ``minitorch``) and a device, and returns a function
without arguments that does the work once: a training step, or a sequence decoded.
"""

WIDTH, HEADS, LAYERS, CONTEXT = 128, 4, 4, 64
CHARACTERS, WORDS = 65, 1000


def transformer_parts(torch):
    """A Transformer block and an embedding with positions, from layers both libraries have."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        """Multi-head attention from ``x`` to ``memory``, or to ``x`` itself."""

        def __init__(self, causal=False):
            super().__init__()
            self.causal = causal
            self.query = nn.Linear(WIDTH, WIDTH)
            self.key_value = nn.Linear(WIDTH, 2 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, x, memory=None, cache=None):
            batch, length, _ = x.shape
            k, v = self.key_value(x if memory is None else memory).split(WIDTH, dim=2)
            q, k, v = (
                t.view(batch, -1, HEADS, WIDTH // HEADS).transpose(1, 2)  # (B, h, n, d/h)
                for t in (self.query(x), k, v)
            )
            if cache is not None:
                if cache:
                    k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
                cache[:] = k, v
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and length > 1)
            return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))

    class Block(nn.Module):
        """Attention to itself, to a memory if there is one, and an MLP; a norm before each."""

        def __init__(self, causal=False, cross=False):
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention(causal)
            if cross:
                self.norm2, self.cross = nn.LayerNorm(WIDTH), Attention()
            self.norm3 = nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, memory=None, cache=None):
            x = x + self.attention(self.norm1(x), cache=cache)
            if memory is not None:
                x = x + self.cross(self.norm2(x), memory)
            return x + self.down(F.gelu(self.up(self.norm3(x))))

    class Embedded(nn.Module):
        """Vectors of tokens plus vectors of positions."""

        def __init__(self, vocabulary):
            super().__init__()
            self.token = nn.Embedding(vocabulary, WIDTH)
            self.position = nn.Embedding(CONTEXT, WIDTH)

        def forward(self, tokens, start=0):
            positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
            return self.token(tokens) + self.position(positions)

    return Block, Embedded


def training(torch, model, scores_and_targets):
    """A training step on cross-entropy, with AdamW as it comes."""
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        scores, targets = scores_and_targets()
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()

    return step


def gpt_model(torch):
    """A decoder-only Transformer of characters."""
    nn = torch.nn
    Block, Embedded = transformer_parts(torch)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedded = Embedded(CHARACTERS)
            self.blocks = nn.ModuleList([Block(causal=True) for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS)

        def forward(self, tokens, caches=None, start=0):
            x = self.embedded(tokens, start)
            for i, block in enumerate(self.blocks):
                x = block(x, cache=None if caches is None else caches[i])
            return self.head(self.norm(x))

    return GPT()


def gpt(torch, device):
    """GPT, 4 layers, width 128, context 64, batch 12: a training step."""
    model = gpt_model(torch).to(device)
    text = torch.randint(0, CHARACTERS, (12, CONTEXT + 1), device=device)
    return training(torch, model, lambda: (model(text[:, :-1]), text[:, 1:]))


def transformer(torch, device):
    """Encoder and decoder of 2 layers, width 128, batch 64, length 32: a training step."""
    nn = torch.nn
    Block, Embedded = transformer_parts(torch)

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = Embedded(WORDS), Embedded(WORDS)
            self.encoder = nn.ModuleList([Block() for _ in range(2)])
            self.decoder = nn.ModuleList([Block(causal=True, cross=True) for _ in range(2)])
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, WORDS)

        def forward(self, source, target):
            memory, x = self.source(source), self.target(target)
            for block in self.encoder:
                memory = block(memory)
            memory = self.norm1(memory)
            for block in self.decoder:
                x = block(x, memory)
            return self.head(self.norm2(x))

    model = Transformer().to(device)
    source = torch.randint(0, WORDS, (64, 32), device=device)
    target = torch.randint(0, WORDS, (64, 33), device=device)
    return training(torch, model, lambda: (model(source, target[:, :-1]), target[:, 1:]))


def language_model(torch, device, kind):
    nn = torch.nn

    class LanguageModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(CHARACTERS, 256)
            self.recurrent = getattr(nn, kind)(256, 256, batch_first=True)
            self.head = nn.Linear(256, CHARACTERS)

        def forward(self, tokens):
            return self.head(self.recurrent(self.embedding(tokens))[0])

    model = LanguageModel().to(device)
    text = torch.randint(0, CHARACTERS, (32, 65), device=device)
    return training(torch, model, lambda: (model(text[:, :-1]), text[:, 1:]))


def lstm(torch, device):
    """LSTM language model, hidden 256, batch 32, length 64: a training step."""
    return language_model(torch, device, "LSTM")


def rnn(torch, device):
    """The same with a plain RNN."""
    return language_model(torch, device, "RNN")


def seq2seq(torch, device):
    """GRU to GRU with additive attention, width 128, batch 64, length 20: a training step."""
    nn = torch.nn

    class Seq2Seq(nn.Module):
        """Bahdanau et al. (2015), written as teaching programs write it: a loop over steps."""

        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
            self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
            self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.score = nn.Linear(WIDTH, 1)
            self.head = nn.Linear(2 * WIDTH, WORDS)

        def forward(self, source, target):
            states, last = self.encoder(self.source(source))
            hidden, keys = last[0], self.key(states)
            inputs, outputs = self.target(target), []
            for t in range(target.shape[1]):
                energy = torch.tanh(self.query(hidden).unsqueeze(1) + keys)
                weights = torch.softmax(self.score(energy), dim=1)  # (B, n, 1)
                context = (weights * states).sum(dim=1)
                hidden = self.cell(torch.cat([inputs[:, t], context], dim=1), hidden)
                outputs.append(torch.cat([hidden, context], dim=1))
            return self.head(torch.stack(outputs, dim=1))

    model = Seq2Seq().to(device)
    source = torch.randint(0, WORDS, (64, 20), device=device)
    target = torch.randint(0, WORDS, (64, 21), device=device)
    return training(torch, model, lambda: (model(source, target[:, :-1]), target[:, 1:]))


def decoding(torch, device, cached):
    model = gpt_model(torch).to(device).eval()
    first = torch.zeros(1, 1, dtype=torch.int64, device=device)

    def decode():
        tokens, caches = first, [[] for _ in range(LAYERS)]
        with torch.no_grad():
            for t in range(CONTEXT - 1):
                scores = model(tokens[:, -1:], caches, t) if cached else model(tokens)
                tokens = torch.cat([tokens, scores[:, -1:].argmax(dim=-1)], dim=1)

    return decode


def decode(torch, device):
    """Greedy decoding of 63 characters with the GPT, batch 1, all computed anew each time."""
    return decoding(torch, device, cached=False)


def decode_cached(torch, device):
    """The same with a cache of keys and values."""
    return decoding(torch, device, cached=True)


def attention(n):
    """Causal attention of 4 heads of width 32 over n positions, forward and backward."""

    def make(torch, device):
        q, k, v = (torch.randn(1, 4, n, 32, device=device, requires_grad=True) for _ in "qkv")

        def work():
            q.grad = k.grad = v.grad = None
            F = torch.nn.functional
            F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

        return work

    make.__doc__ = f"Causal attention, 4 heads of width 32, {n} positions, forward and backward."
    return make


def one_operation(torch, device):
    """100 products of vectors of 8 numbers, forward and backward."""
    x = torch.ones(8, device=device, requires_grad=True)

    def work():
        y = x
        for _ in range(100):
            y = y * x
        y.sum().backward()
        x.grad = None

    return work


# name -> (how to make it, the time to reach divided by PyTorch's)
WORKS = {
    "W1": (gpt, 0.95),
    "W2": (transformer, 1.0),
    "W3": (lstm, 1.15),
    "W3r": (rnn, 0.85),
    "W4": (seq2seq, 1.0),
    "decode": (decode, 1.1),
    "decode-cache": (decode_cached, 1.5),
    **{f"attention-{n}": (attention(n), None) for n in (64, 256, 1024)},
    "operation": (one_operation, 1.1),
}
