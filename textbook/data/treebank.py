"""Sentences with their dependency trees, from a small grammar: a treebank without annotators.

A sentence is a few adverbs, a subject and a verb without its ending. A subject is "the" and a noun,
and may hold a phrase: "near" and another subject, or "that", another subject and its verb. So
phrases stand in phrases, as many levels deep as asked for.
"""

import random
from dataclasses import dataclass, field

SINGULAR = "dog cat bird cow girl boy tree".split()
PLURAL = [noun + "s" for noun in SINGULAR]
VERBS = "follow see hear know like find".split()
ADVERBS = "now then here today".split()
WORDS = [*ADVERBS, "the", "near", "that", *SINGULAR, *PLURAL, *VERBS]


@dataclass
class Sentence:
    """Words; the place of each word's head, None for the root; of each verb, if it is plural."""

    words: list[str] = field(default_factory=list)
    heads: list[int | None] = field(default_factory=list)
    plural: list[bool | None] = field(default_factory=list)

    def _add(self, word: str, head: int | None = None, plural: bool | None = None) -> int:
        """Add a word at the end; its place."""
        self.words.append(word)
        self.heads.append(head)
        self.plural.append(plural)
        return len(self.words) - 1

    def _add_subject(self, levels: int, rng: random.Random) -> tuple[int, bool]:
        """Add a subject with phrases ``levels`` deep: the noun's place, and if it is plural."""
        article = self._add("the")
        plural = rng.random() < 0.5
        noun = self._add(rng.choice(PLURAL if plural else SINGULAR))
        self.heads[article] = noun
        if levels:
            near = rng.random() < 0.5
            link = self._add("near" if near else "that")
            inner, inner_plural = self._add_subject(levels - 1, rng)
            if near:
                self.heads[link], self.heads[inner] = inner, noun
            else:
                verb = self._add(rng.choice(VERBS), noun, inner_plural)
                self.heads[link], self.heads[inner] = verb, verb
        return noun, plural


def sentence(levels: int, rng: random.Random) -> Sentence:
    """A random sentence whose subject holds phrases ``levels`` deep; its last word is its verb. ::

    sentence(1, random.Random(0)).words    # e.g. ["now", "the", "dogs", "near", "the", ...]
    """
    made = Sentence()
    adverbs = [made._add(rng.choice(ADVERBS)) for _ in range(rng.randrange(4))]
    noun, plural = made._add_subject(levels, rng)
    verb = made._add(rng.choice(VERBS), None, plural)
    for place in [*adverbs, noun]:
        made.heads[place] = verb
    return made


def ancestors(heads: list[int | None], place: int) -> set[int]:
    """The word at ``place``, its head, the head of that, up to the root."""
    path = {place}
    while heads[place] is not None:
        place = heads[place]
        path.add(place)
    return path


def with_wrong_heads(heads: list[int | None], share: float, rng: random.Random) -> list[int | None]:
    """The heads, this share of them moved to a random other word; it stays a tree."""
    heads = list(heads)
    for place, head in enumerate(heads):
        if head is not None and rng.random() < share:
            heads[place] = rng.choice(
                [i for i in range(len(heads)) if place not in ancestors(heads, i)]
            )
    return heads
