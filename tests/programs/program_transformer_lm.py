"""A language model with nn.TransformerEncoder: square mask, clipping, the best model kept."""

import copy
import math
import os
import tempfile

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.nn import TransformerEncoder, TransformerEncoderLayer
from minitorch.utils.data import TensorDataset

WORDS = "the sun rises in the east and sets in the west and the moon follows the sun".split()
VOCAB = {word: i for i, word in enumerate(sorted(set(WORDS)))}


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=100):
        super(PositionalEncoding, self).__init__()  # noqa: UP008
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0), :]
        return self.dropout(x)


class TransformerModel(nn.Module):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers, dropout=0.5):
        super(TransformerModel, self).__init__()  # noqa: UP008
        self.model_type = "Transformer"
        self.src_mask = None
        self.pos_encoder = PositionalEncoding(ninp, dropout)
        encoder_layers = TransformerEncoderLayer(ninp, nhead, nhid, dropout)
        self.transformer_encoder = TransformerEncoder(encoder_layers, nlayers)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.ninp = ninp
        self.decoder = nn.Linear(ninp, ntoken)
        self.init_weights()

    def _generate_square_subsequent_mask(self, sz):
        mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
        return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)

    def init_weights(self):
        initrange = 0.1
        self.encoder.weight.data.uniform_(-initrange, initrange)
        self.decoder.bias.data.zero_()
        self.decoder.weight.data.uniform_(-initrange, initrange)

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            device = src.device
            self.src_mask = self._generate_square_subsequent_mask(len(src)).to(device)
        src = self.encoder(src) * math.sqrt(self.ninp)
        src = self.pos_encoder(src)
        output = self.transformer_encoder(src, self.src_mask)
        return self.decoder(output)


def batchify(data, bsz):
    seq_len = data.size(0) // bsz
    data = data[: seq_len * bsz]
    return data.view(bsz, seq_len).t().contiguous()


def get_batch(source, i, bptt=8):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


def evaluate(eval_model, data, ntokens):
    eval_model.eval()
    total_loss = 0.0
    with torch.no_grad():
        for i in range(0, data.size(0) - 1, 8):
            src, targets = get_batch(data, i)
            output_flat = eval_model(src).view(-1, ntokens)
            total_loss += len(src) * F.cross_entropy(output_flat, targets).item()
    return total_loss / (len(data) - 1)


def build():
    return TransformerModel(len(VOCAB), 16, 2, 32, 2, dropout=0.0)


def run(model):
    ntokens = len(VOCAB)
    ids = torch.cat([torch.tensor([VOCAB[w]], dtype=torch.long) for w in WORDS * 6])
    data = batchify(TensorDataset(ids).tensors[0], 3)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.9)
    best_val_loss, best_model = float("inf"), None
    losses = []
    for _epoch in range(5):
        model.train()
        for i in range(0, data.size(0) - 1, 8):
            src, targets = get_batch(data, i)
            optimizer.zero_grad()
            loss = criterion(model(src).view(-1, ntokens), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        val_loss = evaluate(model, data, ntokens)
        losses.append(val_loss)
        if val_loss < best_val_loss:
            best_val_loss = val_loss
            best_model = copy.deepcopy(model)
        scheduler.step()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best_model.pt")
        torch.save(best_model.state_dict(), path)
        reloaded = build()
        reloaded.load_state_dict(torch.load(path))
    reloaded.eval()
    src, _ = get_batch(data, 0)
    changed = src.clone()
    changed[-1] = 0
    first, second = reloaded(src).detach(), reloaded(changed).detach()
    return {
        "losses": losses,
        "reloaded": abs(evaluate(reloaded, data, ntokens) - best_val_loss) < 1e-6,
        "causal": torch.allclose(first[:-1], second[:-1], atol=1e-6),
        "mask": nn.Transformer.generate_square_subsequent_mask(3).numpy(),
        "logits": first[0].numpy(),
    }
