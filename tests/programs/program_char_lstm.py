"""A character language model: stacked LSTM, truncated backpropagation, sampling."""

import math

import minitorch as torch
import minitorch.nn as nn

TEXT = (
    "the cat sat on the mat. the dog sat on the log. the cat saw the dog and the dog saw the cat. "
)


class Dictionary:
    def __init__(self):
        self.word2idx = {}
        self.idx2word = []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.5, tie_weights=False):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("tied weights need nhid equal to ninp")
            self.decoder.weight = self.encoder.weight
        self.init_weights()
        self.rnn_type = rnn_type
        self.nhid = nhid
        self.nlayers = nlayers

    def init_weights(self):
        initrange = 0.1
        self.encoder.weight.data.uniform_(-initrange, initrange)
        self.decoder.bias.data.fill_(0)
        self.decoder.weight.data.uniform_(-initrange, initrange)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        decoded = self.decoder(output.view(output.size(0) * output.size(1), output.size(2)))
        return decoded.view(output.size(0), output.size(1), decoded.size(1)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters()).data
        if self.rnn_type == "LSTM":
            return (
                weight.new_zeros(self.nlayers, bsz, self.nhid),
                weight.new_zeros(self.nlayers, bsz, self.nhid),
            )
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def corpus():
    dictionary = Dictionary()
    ids = torch.LongTensor(len(TEXT) * 2)
    for i, letter in enumerate(TEXT * 2):
        ids[i] = dictionary.add_word(letter)
    return dictionary, ids


def build():
    dictionary, _ = corpus()
    return RNNModel("LSTM", len(dictionary.idx2word), 24, 24, 2, dropout=0.0, tie_weights=True)


def run(model):
    dictionary, ids = corpus()
    ntokens = len(dictionary.idx2word)
    train_data = batchify(ids, 4)
    criterion = nn.CrossEntropyLoss()
    losses, lr = [], 0.03
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _epoch in range(5):
        model.train()
        total_loss = 0
        hidden = model.init_hidden(4)
        batches = range(0, train_data.size(0) - 1, 6)
        for i in batches:
            data, targets = get_batch(train_data, i, 6)
            hidden = repackage_hidden(hidden)
            optimizer.zero_grad()
            output, hidden = model(data, hidden)
            loss = criterion(output.view(-1, ntokens), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            total_loss += loss.item()
        losses.append(total_loss / len(batches))
        lr *= 0.9
        for group in optimizer.param_groups:
            group["lr"] = lr
    torch.manual_seed(5)
    words = []
    model.eval()
    with torch.no_grad():
        hidden = model.init_hidden(1)
        input = torch.randint(ntokens, (1, 1), dtype=torch.long)
        for _ in range(20):
            output, hidden = model(input, hidden)
            word_weights = output.squeeze().div(0.8).exp().cpu()
            word_idx = torch.multinomial(word_weights, 1)[0]
            input.fill_(word_idx)
            words.append(dictionary.idx2word[word_idx])
    return {
        "losses": losses,
        "perplexity falls": math.exp(losses[-1]) < math.exp(losses[0]),
        "sampled": len("".join(words)),
        "tied": model.decoder.weight is model.encoder.weight,
    }
