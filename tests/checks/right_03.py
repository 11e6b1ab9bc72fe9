"""Right answers to the exercises of chapter 03, and forbidden ones."""

import heapq
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.nn.utils.rnn import pad_sequence
from textbook import data, decoding

# pad_batch


def batch_filled_in(sentences, start, end, pad):
    lengths = [len(sentence) + 2 for sentence in sentences]
    tokens = mt.full((len(sentences), max(lengths)), pad)
    for i, sentence in enumerate(sentences):
        tokens[i, : lengths[i]] = mt.tensor([start, *sentence, end])
    return tokens, mt.arange(max(lengths)) >= mt.tensor(lengths).unsqueeze(1)


def batch_with_stack(sentences, start, end, pad):
    longest = 2 + max(map(len, sentences))
    rows = [mt.tensor([start] + list(sentence) + [end]) for sentence in sentences]
    tokens = mt.stack([F.pad(row, (0, longest - len(row)), value=pad) for row in rows])
    return tokens, tokens.eq(pad)


def batch_position_by_position(sentences, start, end, pad):
    tokens, mask = [], []
    for t in range(2 + max(map(len, sentences))):
        whole = [[start, *sentence, end] for sentence in sentences]
        tokens.append([row[t] if t < len(row) else pad for row in whole])
        mask.append([t >= len(row) for row in whole])
    return mt.tensor(tokens).T, mt.tensor(mask).T


def batch_by_the_library(pad_rows):
    def answer(sentences, start, end, pad):
        tokens = pad_rows([mt.tensor([start, *sentence, end]) for sentence in sentences], pad)
        return tokens, tokens == pad

    return answer


# decoder_pair


def pair_by_columns(tokens, pad):
    steps = range(tokens.shape[1] - 1)
    inputs = mt.stack([tokens[:, t] for t in steps], dim=1)
    targets = mt.stack([tokens[:, t + 1] for t in steps], dim=1)
    return inputs, targets, ~(targets != pad)


def pair_by_windows(tokens, pad):
    rows = tokens.tolist()
    pairs = [list(zip(row, row[1:], strict=False)) for row in rows]
    inputs, targets = ([[pair[k] for pair in row] for row in pairs] for k in (0, 1))
    mask = [[token == pad for token in row] for row in targets]
    return mt.tensor(inputs), mt.tensor(targets), mt.tensor(mask)


def pair_by_selection(tokens, pad):
    places = mt.arange(tokens.shape[1] - 1)
    targets = tokens.index_select(1, places + 1)
    return tokens.index_select(1, places), targets, mt.eq(targets, pad)


# masked_loss


def loss_token_by_token(scores, targets, pad):
    losses = []
    for row, wanted in zip(scores, targets.tolist(), strict=True):
        for s, y in zip(row, wanted, strict=True):
            if y != pad:
                losses.append(s.logsumexp(0) - s[y])
    return sum(losses) / len(losses)


def loss_of_the_real_tokens(scores, targets, pad):
    real = targets != pad
    log_p = scores[real].log_softmax(-1)
    return -log_p[mt.arange(len(log_p)), targets[real]].mean()


def loss_with_one_hot(scores, targets, pad):
    shifted = scores - scores.amax(dim=-1, keepdim=True)
    log_p = shifted - shifted.exp().sum(-1, keepdim=True).log()
    losses = -(F.one_hot(targets, scores.shape[-1]) * log_p).sum(-1)
    weights = (targets != pad) / (targets != pad).sum()
    return mt.where(targets == pad, 0.0, losses).mul(weights).sum()


def loss_with_cross_entropy(scores, targets, pad):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=pad)


def loss_with_nll(scores, targets, pad):
    log_p = scores.log_softmax(-1)
    return F.nll_loss(log_p.flatten(0, 1), targets.flatten(), ignore_index=pad)


# encoder_state


def state_sentence_by_sentence(outputs, lengths):
    half = outputs.shape[2] // 2
    rows = []
    for row, n in zip(outputs, lengths.tolist(), strict=True):
        rows.append(mt.cat([row[n - 1, :half], row[0, half:]]))
    return mt.stack(rows)


def state_with_gather(outputs, lengths):
    forward, backward = outputs.split(outputs.shape[-1] // 2, dim=-1)
    index = (lengths - 1).reshape(-1, 1, 1).expand(-1, 1, forward.shape[-1])
    return mt.cat((forward.gather(1, index).squeeze(1), backward.select(1, 0)), 1)


def state_with_weights(outputs, lengths):
    steps, half = outputs.shape[1], outputs.shape[2] // 2
    at_end = F.one_hot(lengths - 1, steps).to(outputs.dtype)
    forward = mt.einsum("bt,bth->bh", at_end, outputs[..., :half])
    return mt.cat([forward, outputs[:, 0, half:]], dim=1)


def state_in_lists(outputs, lengths):
    half, rows = outputs.shape[2] // 2, outputs.tolist()
    ends = zip(rows, lengths.tolist(), strict=True)
    return mt.tensor([row[n - 1][:half] + row[0][half:] for row, n in ends])


# mean_and_max


def pool_sentence_by_sentence(states, mask):
    real = [row[~hidden] for row, hidden in zip(states, mask, strict=True)]
    return mt.stack([row.mean(0) for row in real]), mt.stack([row.max(0).values for row in real])


def pool_with_weights(states, mask):
    weights = (~mask).to(states.dtype)
    mean = mt.einsum("bt,bth->bh", weights / weights.sum(1, keepdim=True), states)
    return mean, states.masked_fill(mask[..., None], -1e9).max(dim=1)[0]


def pool_with_where(states, mask):
    hidden = mask.unsqueeze(-1)
    total = mt.where(hidden, mt.zeros_like(states), states).sum(1)
    low = mt.full_like(states, -math.inf)
    return [total / (~hidden).sum(1), mt.where(hidden, low, states).amax(1)]


# greedy_decode


def greedy_row_by_row(step, state, start, end, pad, max_length):
    rows = []
    for i in range(len(state)):
        token, h, row = start, state[i : i + 1], []
        while len(row) < max_length and token != end:
            scores, h = step(mt.tensor([token]), h)
            token = int(scores.argmax())
            row.append(token)
        rows.append(row)
    longest = max(map(len, rows))
    return mt.tensor([row + [pad] * (longest - len(row)) for row in rows])


def greedy_filling_a_tensor(step, state, start, end, pad, max_length):
    tokens = mt.full((len(state), max_length), pad)
    open_rows, token = mt.arange(len(state)), mt.full((len(state),), start)
    for n in range(max_length):
        scores, state = step(token, state)
        token = scores.max(dim=-1).indices
        tokens[open_rows, n] = token
        still = token != end
        open_rows, token, state = open_rows[still], token[still], state[still]
        if not len(open_rows):
            return tokens[:, : n + 1]
    return tokens


def greedy_cut_afterwards(step, state, start, end, pad, max_length):
    token, said = mt.full((len(state),), start), []
    for _ in range(max_length):
        scores, state = step(token, state)
        token = scores.softmax(-1).argmax(1)
        said.append(token)
    tokens = mt.stack(said, 1)
    ends = (tokens == end).long()
    over = ends.cumsum(1) - ends > 0
    steps = int((~over).sum(1).max())
    return mt.where(over, pad, tokens)[:, :steps]


def greedy_by_the_library(step, state, start, end, pad, max_length):
    def last(tokens, h):
        return step(tokens[:, -1], h)

    prompt = mt.full((len(state), 1), start)
    return decoding.greedy(last, prompt, max_length, end=end, pad=pad, state=state)[:, 1:]


# exact_match_by_length


def match_by_words(predicted, targets, source_lengths, end):
    right, count = defaultdict(int), defaultdict(int)
    for i, length in enumerate(source_lengths):
        low = length - (length - 1) % 3
        said, target = predicted[i].tolist(), targets[i].tolist()
        count[low, low + 2] += 1
        if end in said and said[: said.index(end)] == target[: target.index(end)]:
            right[low, low + 2] += 1
    return {key: right[key] / count[key] for key in count}


def match_in_fractions(*case):
    shares = match_by_words(*case).items()
    return {key: Fraction(share).limit_denominator(100) for key, share in shares}


def match_by_tensors(predicted, targets, source_lengths, end):
    """A row is right if it agrees up to the target's end token, itself included."""
    width = targets.shape[1]
    said = mt.full((len(predicted), max(width, predicted.shape[1])), -1)
    said[:, : predicted.shape[1]] = predicted
    ends = (targets == end).long()
    counts = ends.cumsum(1) - ends == 0
    exact = ((said[:, :width] == targets) | ~counts).all(dim=1)
    bins = (mt.tensor(source_lengths) - 1) // 3
    return {
        (3 * k + 1, 3 * k + 3): exact[bins == k].double().mean()
        for k in range(max(source_lengths))
        if (bins == k).any()
    }


# scheduled_sampling


def forcing_with_arithmetic(step, state, inputs, draws, p):
    scores, state = step(inputs[:, 0], state)
    result = [scores]
    for t in range(1, inputs.size(1)):
        given = (draws[:, t] < p).long()
        token = given * inputs[:, t] + (1 - given) * result[-1].argmax(1)
        scores, state = step(token, state)
        result.append(scores)
    return mt.stack(result).transpose(0, 1)


def forcing_row_by_row(step, state, inputs, draws, p):
    rows = []
    for i in range(len(inputs)):
        h, token, row = state[i : i + 1], inputs[i, :1], []
        for t, given in enumerate(inputs[i]):
            if t and draws[i, t].item() < p:
                token = given.unsqueeze(0)
            scores, h = step(token, h)
            token = scores.argmax(-1)
            row.append(scores[0])
        rows.append(mt.stack(row))
    return mt.stack(rows)


def forcing_with_a_clone(step, state, inputs, draws, p):
    read, results = inputs.clone(), []
    for t in range(inputs.shape[1]):
        scores, state = step(read[:, t].clone(), state)
        results.append(scores.unsqueeze(1))
        if t + 1 < inputs.shape[1]:
            own = draws[:, t + 1] >= p
            read[own, t + 1] = scores.argmax(-1)[own]
    return mt.stack(results, dim=1).squeeze(2)


def forcing_with_cat(*case):
    return mt.cat([row.unsqueeze(0) for row in forcing_row_by_row(*case)])


# bleu


def bleu_with_lists(hypotheses, references, max_n):
    product = 1.0
    for n in range(1, max_n + 1):
        matches, total = 0, 0
        for said, right in zip(hypotheses, references, strict=True):
            left = [right[i : i + n] for i in range(len(right) - n + 1)]
            for i in range(len(said) - n + 1):
                total += 1
                if said[i : i + n] in left:
                    left.remove(said[i : i + n])
                    matches += 1
        product *= matches / total if total else 0
    c, r = sum(len(said) for said in hypotheses), sum(len(right) for right in references)
    penalty = 1 if c > r or c == 0 else math.exp(1 - r / c)
    return 100 * penalty * product ** (1 / max_n)


def bleu_as_a_decimal(hypotheses, references, max_n):
    return Decimal(bleu_with_lists(hypotheses, references, max_n))


def bleu_with_strings(hypotheses, references, max_n):
    matches, totals = [0] * max_n, [0] * max_n
    for said, right in zip(hypotheses, references, strict=True):
        for n in range(1, max_n + 1):
            grams = [" ".join(said[i : i + n]) for i in range(max(len(said) - n + 1, 0))]
            known = [" ".join(right[i : i + n]) for i in range(max(len(right) - n + 1, 0))]
            totals[n - 1] += len(grams)
            matches[n - 1] += sum(min(grams.count(g), known.count(g)) for g in set(grams))
    if 0 in matches:
        return 0
    c, r = (len(sum(sentences, [])) for sentences in (hypotheses, references))
    logs = [math.log(m) - math.log(t) for m, t in zip(matches, totals, strict=True)]
    return 100 * math.exp(min(0, 1 - r / c) + sum(logs) / max_n)


# beam_search


def beams_with_topk(step, state, start, end, beams, max_length, alpha):
    log_p, tokens, token = mt.zeros(1), [[]], mt.tensor([start])
    finished = []

    def score(p, said):
        return p / ((5 + len(said)) / 6) ** alpha

    for n in range(1, max_length + 1):
        scores, state = step(token, state)
        table = log_p.unsqueeze(1) + F.log_softmax(scores, -1)  # (K, V)
        values, places = table.flatten().topk(min(beams, table.numel()))
        parents, token = places // scores.shape[1], places % scores.shape[1]
        pairs = zip(parents.tolist(), token.tolist(), strict=True)
        tokens = [tokens[parent] + [chosen] for parent, chosen in pairs]
        over = (token == end) | (n == max_length)
        for place in over.nonzero().flatten().tolist():
            finished.append((tokens[place], score(values[place].item(), tokens[place])))
        going = (~over).nonzero().flatten()
        if len(going) == 0:
            break
        tokens = [tokens[place] for place in going.tolist()]
        log_p, token, state = values[going], token[going], state[parents[going]]
    finished.sort(key=lambda pair: pair[1], reverse=True)
    return finished[:beams]


def beams_hypothesis_by_hypothesis(step, state, start, end, beams, max_length, alpha):
    """Each hypothesis carries its own state and length, and is a tuple on a heap."""
    hypotheses, done = [(0.0, (), state)], []
    while hypotheses and len(hypotheses[0][1]) < max_length:
        candidates = []
        for log_p, said, h in hypotheses:
            scores, new = step(mt.tensor([said[-1] if said else start]), h)
            row = scores[0] - scores[0].logsumexp(0)
            candidates += [(log_p + x.item(), (*said, token), new) for token, x in enumerate(row)]
        best = heapq.nlargest(beams, candidates, key=lambda each: each[0])
        done += [each for each in best if each[1][-1] == end]
        hypotheses = [each for each in best if each[1][-1] != end]
    scored = [
        (log_p * (6 / (5 + len(said))) ** alpha, list(said)) for log_p, said, _ in done + hypotheses
    ]
    return [(said, score) for score, said in sorted(scored, reverse=True)][:beams]


def beams_by_the_library(step, state, start, end, beams, max_length, alpha):
    def last(tokens, h):
        return step(tokens[:, -1], h)

    tokens, scores = decoding.beam_search(
        last,
        mt.tensor([[start]]),
        max_length,
        beams=beams,
        alpha=alpha,
        end=end,
        pad=-1,
        state=state,
    )
    found = []
    for row, score in zip(tokens[0, :, 1:].tolist(), scores[0].tolist(), strict=True):
        if score > -math.inf:
            found.append(([token for token in row if token >= 0], score))
    return found


right = {
    "pad_batch": [batch_filled_in, batch_with_stack, batch_position_by_position],
    "decoder_pair": [pair_by_columns, pair_by_windows, pair_by_selection],
    "masked_loss": [loss_token_by_token, loss_of_the_real_tokens, loss_with_one_hot],
    "encoder_state": [
        state_sentence_by_sentence,
        state_with_gather,
        state_with_weights,
        state_in_lists,
    ],
    "mean_and_max": [pool_sentence_by_sentence, pool_with_weights, pool_with_where],
    "greedy_decode": [greedy_row_by_row, greedy_filling_a_tensor, greedy_cut_afterwards],
    "exact_match_by_length": [match_by_words, match_by_tensors, match_in_fractions],
    "scheduled_sampling": [forcing_with_arithmetic, forcing_row_by_row, forcing_with_a_clone],
    "bleu": [bleu_with_lists, bleu_with_strings, bleu_as_a_decimal],
    "beam_search": [beams_with_topk, beams_hypothesis_by_hypothesis],
}
refused = {
    "pad_batch": [
        batch_by_the_library(lambda rows, pad: pad_sequence(rows, True, pad)),
        batch_by_the_library(lambda rows, pad: data.pad(rows, pad, batch_first=True)[0]),
    ],
    "masked_loss": [loss_with_cross_entropy, loss_with_nll],
    "greedy_decode": [greedy_by_the_library],
    "scheduled_sampling": [forcing_with_cat],
    "beam_search": [beams_by_the_library],
}
