"""A masked language model in the manner of BERT, then fine-tuning its first token."""

import numpy as np

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.optim import AdamW
from minitorch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

PAD, CLS, MASK = 0, 1, 2
VOCAB = 16


class BertEmbeddings(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_len, type_vocab_size=2):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size, padding_idx=PAD)
        self.position_embeddings = nn.Embedding(max_len, hidden_size)
        self.token_type_embeddings = nn.Embedding(type_vocab_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(0.0)
        self.register_buffer("position_ids", torch.arange(max_len).expand((1, -1)))

    def forward(self, input_ids, token_type_ids=None):
        seq_length = input_ids.size(1)
        position_ids = self.position_ids[:, :seq_length]
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        embeddings = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        embeddings += self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(embeddings))


class BertLayer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.attention_norm = nn.LayerNorm(hidden)
        self.intermediate = nn.Linear(hidden, hidden * 4)
        self.output = nn.Linear(hidden * 4, hidden)
        self.output_norm = nn.LayerNorm(hidden)

    def forward(self, hidden_states, attention_mask, need_weights=False):
        attended, weights = self.attention(
            hidden_states,
            hidden_states,
            hidden_states,
            key_padding_mask=~attention_mask,
            need_weights=need_weights,
            average_attn_weights=False,
        )
        hidden_states = self.attention_norm(hidden_states + attended)
        hidden_states = self.output_norm(
            hidden_states + self.output(F.gelu(self.intermediate(hidden_states)))
        )
        return hidden_states, weights


class BertForMaskedLM(nn.Module):
    def __init__(self, vocab_size=VOCAB, hidden=24, heads=3, layers=2, max_len=12):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab_size, hidden, max_len)
        self.layers = nn.ModuleList(BertLayer(hidden, heads) for _ in range(layers))
        self.transform = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.decoder = nn.Linear(hidden, vocab_size, bias=False)
        self.decoder.weight = self.embeddings.word_embeddings.weight
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.pooler = nn.Linear(hidden, hidden)
        self.classifier = nn.Linear(hidden, 2)
        self.apply(self.init_weights)

    def init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.05)
        elif isinstance(module, nn.LayerNorm):
            module.bias.data.zero_()
            module.weight.data.fill_(1.0)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def forward(self, input_ids, attention_mask=None):
        if attention_mask is None:
            attention_mask = input_ids.ne(PAD)
        states = self.embeddings(input_ids)
        for layer in self.layers:
            states, _ = layer(states, attention_mask)
        return self.decoder(self.transform(states)) + self.bias, states

    def classify(self, input_ids):
        _, states = self(input_ids)
        return self.classifier(torch.tanh(self.pooler(states[:, 0])))


def mask_tokens(inputs, random):
    labels = inputs.clone()
    chosen = torch.from_numpy(random.random(tuple(inputs.shape)) < 0.3)
    special = (inputs == PAD) | (inputs == CLS)
    chosen.masked_fill_(special, value=False)
    labels[~chosen] = -100
    replaced = torch.from_numpy(random.random(tuple(inputs.shape)) < 0.8) & chosen
    inputs = inputs.clone()
    inputs[replaced] = MASK
    shuffled = torch.from_numpy(random.random(tuple(inputs.shape)) < 0.5) & chosen & ~replaced
    words = torch.from_numpy(random.integers(3, VOCAB, tuple(inputs.shape)))
    inputs[shuffled] = words[shuffled]
    return inputs, labels


def sentences(random, count=12):
    """Words of one of three topics, of four words each."""
    ids = torch.full((count, 10), PAD, dtype=torch.long)
    ids[:, 0] = CLS
    for row in range(count):
        length = int(random.integers(4, 10))
        topic = int(random.integers(0, 3))
        ids[row, 1:length] = torch.from_numpy(random.integers(0, 4, length - 1)) + 4 * topic + 3
    return ids


def build():
    return BertForMaskedLM()


def run(model):
    random = np.random.default_rng(6)
    no_decay = ["bias", "norm.weight", "LayerNorm.weight"]
    grouped = [
        {
            "params": [
                p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)
            ],
            "weight_decay": 0.01,
        },
        {
            "params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = AdamW(grouped, lr=1e-2, eps=1e-8)
    scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
    losses = []
    for _ in range(32):
        inputs, labels = mask_tokens(sentences(random), random)
        scores, _ = model(inputs)
        loss = F.cross_entropy(scores.view(-1, VOCAB), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    for parameter in model.embeddings.parameters():
        parameter.requires_grad = False
    tuned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(tuned, lr=5e-3)
    scheduler = CosineAnnealingLR(optimizer, T_max=10)
    frozen = model.embeddings.word_embeddings.weight.detach().clone()
    tuning = []
    for _ in range(10):
        ids = sentences(random)
        labels = ids[:, 1].lt(7).long()
        loss = nn.CrossEntropyLoss()(model.classify(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        tuning.append(loss.item())
    model.eval()
    ids = sentences(random, 2)
    _, weights = model.layers[0](model.embeddings(ids), ids.ne(PAD), need_weights=True)
    on_padding = weights.detach().masked_select(ids.eq(PAD)[:, None, None, :].expand_as(weights))
    return {
        "losses": losses,
        "tuning": tuning,
        "frozen": torch.equal(frozen, model.embeddings.word_embeddings.weight),
        "weights": weights.sum(-1).detach().numpy(),
        "on padding": on_padding.abs().sum().item(),
    }
