"""Proximal policy optimization on a corridor: walk right to the goal; one step has noise.

The draws are made by hand from fixed numbers, so that two libraries walk the same ways.
"""

import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
import minitorch.optim as optim
from minitorch.distributions import Categorical, Normal, kl_divergence

CELLS, STEPS, GAMMA, LAMBDA, CLIP = 6, 12, 0.95, 0.9, 0.2


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(CELLS, 32)
        self.rnn = nn.LSTM(32, 16)
        self.action, self.value = nn.Linear(16, 3), nn.Linear(16, 1)
        self.noise = nn.ParameterDict({"log_scale": nn.Parameter(torch.zeros(1))})

    def forward(self, states):
        x = torch.tanh(self.body(F.one_hot(states, CELLS).float())).unsqueeze(1)
        y, _ = self.rnn(x)
        return Categorical(logits=self.action(y.squeeze(1))), self.value(y.squeeze(1)).squeeze(-1)


def walk(probs, draws):
    """Cells, actions and rewards of one walk; actions are stay, left, right."""
    cell, cells, actions, rewards = 0, [], [], []
    for step in range(STEPS):
        edges = torch.cumsum(probs[cell], 0).tolist()
        action = next((a for a, edge in enumerate(edges) if draws[step] < edge), 2)
        cells.append(cell)
        actions.append(action)
        cell = min(max(cell + (0, -1, 1)[action], 0), CELLS - 1)
        rewards.append(1.0 if cell == CELLS - 1 else -0.05)
    return torch.tensor(cells), torch.tensor(actions), rewards


def advantages(rewards, values):
    result, running = [], 0.0
    following = [*values[1:], 0.0]
    for reward, value, after in reversed(list(zip(rewards, values, following, strict=True))):
        running = reward + GAMMA * after - value + GAMMA * LAMBDA * running
        result.insert(0, running)
    return torch.tensor(result)


def build():
    return Policy()


def run(model):
    optimizer = optim.Adam(model.parameters(), lr=0.02, foreach=False)
    losses, fits, drift = [], [], []
    for episode in range(25):
        draws = [((episode * 37 + step * 101) % 97) / 97 for step in range(STEPS)]
        with torch.no_grad():
            table, _ = model(torch.arange(CELLS))
            cells, actions, rewards = walk(table.probs, draws)
            before, values = model(cells)
            old = before.log_prob(actions)
            gain = advantages(rewards, values.tolist())
            target = gain + values
        for _ in range(3):
            policy, value = model(cells)
            ratio = torch.exp(policy.log_prob(actions) - old)
            clipped = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
            surrogate = torch.min(ratio * gain, clipped * gain)
            fit = F.smooth_l1_loss(value, target.detach())
            spread = Normal(0.0, model.noise["log_scale"].exp())
            shape = -spread.log_prob(target - value.detach()).mean()
            loss = -surrogate.mean() + fit - 0.01 * policy.entropy().mean() + 0.1 * shape
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
        with torch.no_grad():
            drift.append(kl_divergence(before, model(cells)[0]).mean().item())
        losses.append(STEPS - sum(rewards))
        fits.append(fit.item())
    return {
        "losses": losses,
        "fits": fits,
        "drift": drift,
    }
