"""How good a translation is: BLEU and exact match."""

from collections.abc import Sequence

import numpy as np

from textbook.data.optional import needs

Text = str | Sequence[str]


def _same_length(hypotheses: Sequence[Text], references: Sequence[Text]) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("hypotheses and references are lists, with one entry a sentence")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses cannot be compared with {len(references)} references: "
            "one reference a hypothesis is needed"
        )
    if not len(hypotheses):
        raise ValueError("there is nothing to compare: the lists are empty")


def _spaced(tokens: Sequence[str]) -> str:
    line = " ".join(tokens)
    if len(line.split()) != len(tokens):
        raise ValueError(f"tokens are not empty and hold no spaces, got {list(tokens)}")
    return line


def bleu(hypotheses: Sequence[Text], references: Sequence[Text]) -> float:
    """BLEU of a corpus, from 0 to 100 (Papineni et al., 2002), as sacrebleu counts it.

    One reference for each hypothesis. Strings are cut into words as mteval-v13a does; lists of
    tokens are taken as they are (numbers of their own make scores that compare with no paper's).
    BLEU counts runs of up to four words: a corpus without any four in a row scores 0.
    ValueError for lists that are empty or of different lengths.
    """
    _same_length(hypotheses, references)
    tokenized = {not isinstance(text, str) for text in (*hypotheses, *references)}
    if len(tokenized) == 2:
        raise TypeError("hypotheses and references are all strings or all lists of tokens")
    with needs("sacrebleu", "BLEU"):
        from sacrebleu import BLEU
    if tokenized == {False}:
        return BLEU().corpus_score(hypotheses, [references]).score
    metric = BLEU(tokenize="none", force=True)
    spaced = list(map(_spaced, hypotheses)), [list(map(_spaced, references))]
    return metric.corpus_score(*spaced).score


def bleu_of_draws(
    hypotheses: Sequence[str], references: Sequence[str], draws: int = 300
) -> list[float]:
    """BLEU of as many sentences drawn with replacement, ``draws`` times (Koehn, 2004).

    Between which numbers most of these lie says how much of a BLEU is owed to the sentences it was
    measured on. The draws are the same for every model that is judged on as many sentences, so that
    two models can be compared draw by draw.
    """
    _same_length(hypotheses, references)
    with needs("sacrebleu", "BLEU"):
        from sacrebleu import BLEU
    metric = BLEU(effective_order=True)  # of a sentence alone; its counts are those of ``bleu``
    scores = [metric.sentence_score(h, [r]) for h, r in zip(hypotheses, references, strict=True)]
    counts = np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])
    chosen = np.random.default_rng(0).integers(0, len(counts), (draws, len(counts)))
    sums = counts[chosen].sum(axis=1).tolist()  # (draws, 10)
    found = [BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9]) for row in sums]
    return [round(score.score, 2) for score in found]


def exact_match(hypotheses: Sequence[Text], references: Sequence[Text]) -> float:
    """The share of hypotheses that equal their reference, from 0 to 1.

    ValueError for lists that are empty or of different lengths.
    """
    _same_length(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(_plain(a) == _plain(b) for a, b in pairs) / len(references)


def _plain(text: Text) -> str | list:
    return text if isinstance(text, str) else list(text)
