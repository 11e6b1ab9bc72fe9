"""Names to languages, one letter at a time: an RNN made of two linear layers, trained by hand."""

import random

import minitorch as torch
import minitorch.nn as nn

LETTERS = "abcdefghijklmnopqrstuvwxyz '"
NAMES = {
    "Italian": ["rossi", "bianchi", "conti", "moretti", "ricci", "marino", "greco", "gallo"],
    "German": ["schmidt", "schulz", "koch", "richter", "schroeder", "krause", "lehmann", "vogt"],
    "Czech": ["novak", "svoboda", "dvorak", "cerny", "prochazka", "kucera", "vesely", "horak"],
}
LANGUAGES = list(NAMES)


def letter_index(letter):
    return LETTERS.find(letter)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(LETTERS))
    for li, letter in enumerate(line):
        tensor[li][0][letter_index(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super(RNN, self).__init__()  # noqa: UP008
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(input_size + hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        output = self.i2o(combined)
        output = self.softmax(output)
        return output, hidden

    def init_hidden(self):
        return torch.zeros(1, self.hidden_size)


def category_from_output(output):
    top_n, top_i = output.data.topk(1)
    category_i = top_i[0][0]
    return LANGUAGES[category_i], int(category_i)


def train(rnn, criterion, category_tensor, line_tensor, learning_rate=0.05):
    hidden = rnn.init_hidden()
    rnn.zero_grad()
    for i in range(line_tensor.size()[0]):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return output, loss.item()


def build():
    return RNN(len(LETTERS), 32, len(LANGUAGES))


def run(model):
    criterion = nn.NLLLoss()
    chooser = random.Random(1)
    losses, current_loss, right = [], 0, 0
    for step in range(1, 181):
        category = chooser.choice(LANGUAGES)
        line = chooser.choice(NAMES[category])
        category_tensor = torch.LongTensor([LANGUAGES.index(category)])
        output, loss = train(model, criterion, category_tensor, line_to_tensor(line))
        guess, guess_i = category_from_output(output)
        right += guess == category and step > 120
        current_loss += loss
        if step % 30 == 0:
            losses.append(current_loss / 30)
            current_loss = 0
    confusion = torch.zeros(len(LANGUAGES), len(LANGUAGES))
    with torch.no_grad():
        for i, category in enumerate(LANGUAGES):
            for name in NAMES[category]:
                hidden = model.init_hidden()
                for letter in line_to_tensor(name):
                    output, hidden = model(letter, hidden)
                confusion[i][output.argmax(1).item()] += 1
    for i in range(len(LANGUAGES)):
        confusion[i] = confusion[i] / confusion[i].sum()
    return {"losses": losses, "rows": confusion.sum(1).numpy(), "right": right}
