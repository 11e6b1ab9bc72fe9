"""Sequence to sequence with attention: GRU, teacher forcing, one token at a time."""

import random

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch import optim

SOS_token = 0
EOS_token = 1
MAX_LENGTH = 6
PAIRS = [
    ("je suis grand", "i am tall"),
    ("je suis petit", "i am small"),
    ("tu es grand", "you are tall"),
    ("tu es petit", "you are small"),
    ("il est la", "he is here"),
    ("elle est la", "she is here"),
]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Lang:
    def __init__(self, name):
        self.name = name
        self.word2index = {}
        self.index2word = {0: "SOS", 1: "EOS"}
        self.n_words = 2

    def add_sentence(self, sentence):
        for word in sentence.split(" "):
            if word not in self.word2index:
                self.word2index[word] = self.n_words
                self.index2word[self.n_words] = word
                self.n_words += 1


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size)

    def forward(self, input, hidden):
        embedded = self.embedding(input).view(1, 1, -1)
        output = embedded
        output, hidden = self.gru(output, hidden)
        return output, hidden

    def initHidden(self):
        return torch.zeros(1, 1, self.hidden_size, device=device)


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1, max_length=MAX_LENGTH):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attn = nn.Linear(hidden_size * 2, max_length)
        self.attn_combine = nn.Linear(hidden_size * 2, hidden_size)
        self.dropout = nn.Dropout(dropout_p)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden, encoder_outputs):
        embedded = self.embedding(input).view(1, 1, -1)
        embedded = self.dropout(embedded)
        attn_weights = F.softmax(self.attn(torch.cat((embedded[0], hidden[0]), 1)), dim=1)
        attn_applied = torch.bmm(attn_weights.unsqueeze(0), encoder_outputs.unsqueeze(0))
        output = torch.cat((embedded[0], attn_applied[0]), 1)
        output = self.attn_combine(output).unsqueeze(0)
        output = F.relu(output)
        output, hidden = self.gru(output, hidden)
        output = F.log_softmax(self.out(output[0]), dim=1)
        return output, hidden, attn_weights


def tensor_from_sentence(lang, sentence):
    indexes = [lang.word2index[word] for word in sentence.split(" ")]
    indexes.append(EOS_token)
    return torch.tensor(indexes, dtype=torch.long, device=device).view(-1, 1)


def train(input_tensor, target_tensor, model, optimizers, criterion, teacher_forcing):
    encoder, decoder = model
    encoder_hidden = encoder.initHidden()
    for optimizer in optimizers:
        optimizer.zero_grad()
    input_length = input_tensor.size(0)
    target_length = target_tensor.size(0)
    encoder_outputs = torch.zeros(MAX_LENGTH, encoder.hidden_size, device=device)
    loss = 0
    for ei in range(input_length):
        encoder_output, encoder_hidden = encoder(input_tensor[ei], encoder_hidden)
        encoder_outputs[ei] = encoder_output[0, 0]
    decoder_input = torch.tensor([[SOS_token]], device=device)
    decoder_hidden = encoder_hidden
    for di in range(target_length):
        decoder_output, decoder_hidden, _ = decoder(decoder_input, decoder_hidden, encoder_outputs)
        loss += criterion(decoder_output, target_tensor[di])
        if teacher_forcing:
            decoder_input = target_tensor[di]
        else:
            topv, topi = decoder_output.topk(1)
            decoder_input = topi.squeeze().detach()
            if decoder_input.item() == EOS_token:
                break
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item() / target_length


def evaluate(encoder, decoder, input_tensor, output_lang):
    with torch.no_grad():
        encoder_hidden = encoder.initHidden()
        encoder_outputs = torch.zeros(MAX_LENGTH, encoder.hidden_size, device=device)
        for ei in range(input_tensor.size()[0]):
            encoder_output, encoder_hidden = encoder(input_tensor[ei], encoder_hidden)
            encoder_outputs[ei] += encoder_output[0, 0]
        decoder_input = torch.tensor([[SOS_token]], device=device)
        decoder_hidden = encoder_hidden
        decoded_words = []
        decoder_attentions = torch.zeros(MAX_LENGTH, MAX_LENGTH)
        for di in range(MAX_LENGTH):
            decoder_output, decoder_hidden, decoder_attention = decoder(
                decoder_input, decoder_hidden, encoder_outputs
            )
            decoder_attentions[di] = decoder_attention.data
            topv, topi = decoder_output.data.topk(1)
            if topi.item() == EOS_token:
                break
            decoded_words.append(output_lang.index2word[topi.item()])
            decoder_input = topi.squeeze().detach()
        return decoded_words, decoder_attentions[: di + 1]


def languages():
    input_lang, output_lang = Lang("fra"), Lang("eng")
    for source, target in PAIRS:
        input_lang.add_sentence(source)
        output_lang.add_sentence(target)
    return input_lang, output_lang


def build():
    input_lang, output_lang = languages()
    encoder = EncoderRNN(input_lang.n_words, 24)
    decoder = AttnDecoderRNN(24, output_lang.n_words, dropout_p=0.0)
    return nn.ModuleList([encoder, decoder]).to(device)


def run(model):
    input_lang, output_lang = languages()
    optimizers = [optim.SGD(part.parameters(), lr=0.1) for part in model]
    criterion = nn.NLLLoss()
    chooser = random.Random(3)
    losses, total = [], 0
    for step in range(1, 81):
        source, target = chooser.choice(PAIRS)
        total += train(
            tensor_from_sentence(input_lang, source),
            tensor_from_sentence(output_lang, target),
            model,
            optimizers,
            criterion,
            chooser.random() < 0.7,
        )
        if step % 20 == 0:
            losses.append(total / 20)
            total = 0
    words, attentions = evaluate(*model, tensor_from_sentence(input_lang, PAIRS[0][0]), output_lang)
    return {
        "losses": losses,
        "words": len(words) <= MAX_LENGTH,
        "attention": attentions.sum(dim=1).numpy(),
    }
