"""Translation: bidirectional GRU encoder, additive attention, beam search."""

import random

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
import minitorch.optim as optim
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD, SOS, EOS = 0, 1, 2


class Encoder(nn.Module):
    def __init__(self, input_dim, emb_dim, enc_hid_dim, dec_hid_dim):
        super().__init__()
        self.embedding = nn.Embedding(input_dim, emb_dim, padding_idx=PAD)
        self.rnn = nn.GRU(emb_dim, enc_hid_dim, bidirectional=True)
        self.fc = nn.Linear(enc_hid_dim * 2, dec_hid_dim)

    def forward(self, src, src_len):
        packed = pack_padded_sequence(self.embedding(src), src_len)
        packed_outputs, hidden = self.rnn(packed)
        outputs, _ = pad_packed_sequence(packed_outputs)
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, enc_hid_dim, dec_hid_dim):
        super().__init__()
        self.attn = nn.Linear((enc_hid_dim * 2) + dec_hid_dim, dec_hid_dim)
        self.v = nn.Linear(dec_hid_dim, 1, bias=False)

    def forward(self, hidden, encoder_outputs, mask):
        src_len = encoder_outputs.shape[0]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        encoder_outputs = encoder_outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((hidden, encoder_outputs), dim=2)))
        attention = self.v(energy).squeeze(2)
        attention = attention.masked_fill(mask == 0, -1e10)
        return F.softmax(attention, dim=1)


class Decoder(nn.Module):
    def __init__(self, output_dim, emb_dim, enc_hid_dim, dec_hid_dim, attention):
        super().__init__()
        self.output_dim = output_dim
        self.attention = attention
        self.embedding = nn.Embedding(output_dim, emb_dim)
        self.rnn = nn.GRU((enc_hid_dim * 2) + emb_dim, dec_hid_dim)
        self.fc_out = nn.Linear((enc_hid_dim * 2) + dec_hid_dim + emb_dim, output_dim)

    def forward(self, input, hidden, encoder_outputs, mask):
        embedded = self.embedding(input.unsqueeze(0))
        a = self.attention(hidden, encoder_outputs, mask).unsqueeze(1)
        weighted = torch.bmm(a, encoder_outputs.permute(1, 0, 2)).permute(1, 0, 2)
        rnn_input = torch.cat((embedded, weighted), dim=2)
        output, hidden = self.rnn(rnn_input, hidden.unsqueeze(0))
        assert (output == hidden).all()
        prediction = self.fc_out(
            torch.cat((output.squeeze(0), weighted.squeeze(0), embedded.squeeze(0)), dim=1)
        )
        return prediction, hidden.squeeze(0), a.squeeze(1)


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, src_pad_idx, device):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.src_pad_idx = src_pad_idx
        self.device = device

    def create_mask(self, src):
        return (src != self.src_pad_idx).permute(1, 0)

    def forward(self, src, src_len, trg, chooser, teacher_forcing_ratio=0.5):
        trg_len, batch_size = trg.shape
        outputs = torch.zeros(trg_len, batch_size, self.decoder.output_dim).to(self.device)
        encoder_outputs, hidden = self.encoder(src, src_len)
        input = trg[0, :]
        mask = self.create_mask(src)
        for t in range(1, trg_len):
            output, hidden, _ = self.decoder(input, hidden, encoder_outputs, mask)
            outputs[t] = output
            teacher_force = chooser.random() < teacher_forcing_ratio
            top1 = output.argmax(1)
            input = trg[t] if teacher_force else top1
        return outputs


def init_weights(m):
    for name, param in m.named_parameters():
        if "weight" in name:
            nn.init.normal_(param.data, mean=0, std=0.1)
        else:
            nn.init.constant_(param.data, 0)


def count_parameters(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@torch.no_grad()
def beam_search(model, src, src_len, width=3, max_len=8):
    encoder_outputs, hidden = model.encoder(src, src_len)
    mask = model.create_mask(src)
    beams = [(torch.tensor([SOS]), torch.tensor(0.0), hidden)]
    finished = []
    for _ in range(max_len):
        candidates = []
        for tokens, score, state in beams:
            if tokens[-1].item() == EOS:
                finished.append((score / (len(tokens) - 1), tokens))
                continue
            output, new_state, _ = model.decoder(tokens[-1:], state, encoder_outputs, mask)
            logp, index = F.log_softmax(output, dim=-1).squeeze(0).topk(width)
            for j in range(width):
                candidates.append(
                    (torch.cat((tokens, index[j].view(1))), score + logp[j], new_state)
                )
        if not candidates:
            break
        beams = sorted(candidates, key=lambda c: c[1].item(), reverse=True)[:width]
    finished += [(score / (len(tokens) - 1), tokens) for tokens, score, _ in beams]
    return max(finished, key=lambda f: f[0].item())


def batches(count, seed=2):
    """The target is the source reversed."""
    chooser = random.Random(seed)
    for _ in range(count):
        lengths = sorted((chooser.randint(2, 5) for _ in range(8)), reverse=True)
        rows = [[chooser.randint(3, 9) for _ in range(n)] for n in lengths]
        src = torch.full((max(lengths), 8), PAD, dtype=torch.long)
        trg = torch.full((max(lengths) + 2, 8), PAD, dtype=torch.long)
        for i, row in enumerate(rows):
            src[: len(row), i] = torch.tensor(row)
            trg[: len(row) + 2, i] = torch.tensor([SOS, *row[::-1], EOS])
        yield src, torch.tensor(lengths), trg


def build():
    device = torch.device("cpu")
    decoder = Decoder(10, 12, 12, 16, Attention(12, 16))
    model = Seq2Seq(Encoder(10, 12, 12, 16), decoder, PAD, device).to(device)
    model.apply(init_weights)
    return model


def run(model):
    chooser = random.Random(0)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    losses = []
    model.train()
    for src, src_len, trg in batches(28):
        optimizer.zero_grad()
        output = model(src, src_len, trg, chooser)
        output_dim = output.shape[-1]
        loss = criterion(output[1:].view(-1, output_dim), trg[1:].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    src, src_len, trg = next(iter(batches(1, seed=9)))
    score, tokens = beam_search(model, src[:, :1], src_len[:1])
    return {
        "losses": losses,
        "score": score.item(),
        "starts": tokens[0].item() == SOS,
        "parameters": count_parameters(model),
    }
