#!/usr/bin/env python3
"""Writes the sample of the sst2 program, examples/sst2/sample/{train.tsv,dev.tsv,vocab.txt}; no arguments, no packages.

Sentences of sentiment come from a small grammar that starts from the label. A slot in angle brackets is a rule or a
word list; a sign asks for that polarity relative to the sentence: <-adj> in a positive sentence is a negative word.
Sentences come in twins, one of each label, with the same things and parts. If a sentence has one word of each polarity from the same
list, its twin swaps them. Often, therefore, only negation, order and the main clause decide the label. The
draws use random.random() only, which gives the same numbers in every version of Python.
"""

import os
import random
import re
import string

from sample import EXAMPLES, shuffled, vocabulary, write

TRAIN, DEV, SEED = 2000, 200, 20
OUT = os.path.join(EXAMPLES, "sst2", "sample")

# The subjects of sentences: the thing, its parts, and adjectives that suit them (positive, negative).
DOMAINS = [
    ("film comedy thriller", "plot script ending acting dialogue", "gripping clever", "slow silly"),
    ("novel memoir biography", "prose plot opening ending narrator", "vivid clever", "slow muddled"),
    ("restaurant cafe bakery", "soup bread cake coffee dessert", "warm tasty", "cold greasy"),
    ("hotel inn hostel", "room bed lobby garden balcony", "clean cosy", "cold noisy"),
    ("program app website", "search editor menu layout manual", "quick reliable", "slow broken"),
    ("concert album festival", "singer drummer choir sound finale", "vivid inspired", "silly noisy"),
]

# Words of a polarity that suit everything: (positive, negative).
SIGNED = {
    "adj": (
        "good great excellent lovely charming wonderful brilliant",
        "bad poor awful dreadful dull boring terrible",
    ),
    "plural": ("strengths charms virtues", "flaws faults mistakes"),
    "noun": ("triumph treat joy", "failure mess bore"),
    "rescues": ("saves rescues lifts", "ruins spoils sinks"),
    "rescue": ("save rescue lift", "ruin spoil sink"),
    "rescued": ("saved rescued lifted", "ruined spoiled sunk"),
    "like": ("love enjoy admire", "hate regret dislike"),
    "liked": ("loved enjoyed admired", "hated regretted disliked"),
}

NEUTRAL = {
    "very": ["", "", "", "very ", "truly ", "quite "],
    "is": ["is", "is", "is", "was", "seems"],
    "not": ["is not", "is n't", "is never", "is hardly", "is far from"],
    "open": ["to be honest , ", "on the whole , ", "for once , ", "if you ask me , ", "this time , "],
    "close": [" , my sister says", " from start to finish", " , we all agreed", " , even on a monday"],
    "one": ["nobody", "no one"],
}

# Rules for parts of a sentence: (weight, template). The slots of a part get their polarity relative to that
# of the part.
RULES = {
    "clause": [
        (9, "the <part> <is> <very><+adj>"),
        (3, "the <part> <not> <-adj>"),
        (1, "the <part> has no <-plural>"),
        (1, "the <part> is full of <+plural>"),
    ],
    "point": [
        (5, "the <part> <is> <+adj>"),
        (1, "the <part> is not <-adj>"),
        (1, "the <part> has no <-plural>"),
        (1, "the <part> is full of <+plural>"),
    ],
    "whole": [
        (6, "the <thing> <is> <very><+adj>"),
        (4, "the <thing> <is> a <+adj> <+noun>"),
        (3, "the <thing> <not> <-adj>"),
        (2, "i <+liked> the <thing>"),
        (1, "i did n't <-like> the <thing>"),
    ],
}
SENTENCES = {
    "plain": (32, [
        (4, "<+clause>"),
        (4, "<+whole>"),
        (2, "a <very><+thing>"),
        (2, "what a <+thing>"),
        (2, "a <+thing> and its <+part>"),
        (2, "the <part> is <+adj> and the <part> is <+adj>"),
    ]),
    "negation": (14, [
        (2, "it is not a <-thing>"),
        (2, "the <part> is neither <-adj> nor <-adj>"),
        (2, "there is nothing <-adj> about the <part>"),
        (2, "<one> would call the <thing> <-adj>"),
        (2, "the <thing> never feels <-adj>"),
        (2, "we looked in vain for anything <-adj>"),
    ]),
    "double": (8, [
        (2, "the <thing> never fails to be <+adj>"),
        (2, "<one> can deny that the <part> is <+adj>"),
        (2, "there is nothing here that is not <+adj>"),
        (2, "<one> would say that the <thing> is not <+adj>"),
    ]),
    "concession": (44, [
        (6, "<-point> , but <+whole>"),
        (4, "although <-point> , <+whole>"),
        (5, "<+whole> , although <-point>"),
        (2, "despite the <-part> , <+whole>"),
        (2, "<+whole> , despite the <-part>"),
    ]),
    "change": (16, [
        (3, "the <thing> used to be <-adj> , now it is <+adj>"),
        (3, "the <thing> is <+adj> now , it used to be <-adj>"),
        (2, "once <-adj> , the <part> is now <+adj>"),
        (2, "i expected to <-like> the <thing> , but i <+liked> it"),
        (2, "the <thing> begins as a <-noun> and ends as a <+noun>"),
    ]),
    "comparison": (20, [
        (3, "the <part> is more <+adj> than <-adj>"),
        (3, "the <part> is less <-adj> than <+adj>"),
        (3, "the <thing> is <+adj> rather than <-adj>"),
        (2, "the <thing> has more <+plural> than <-plural>"),
        (2, "the <thing> has fewer <-plural> than <+plural>"),
    ]),
    "order": (14, [
        (3, "the <part> <+rescues> the <part>"),
        (2, "the <-part> can not <-rescue> the <thing>"),
        (2, "the <+plural> outweigh the <-plural>"),
        (2, "the <-plural> are outweighed by the <+plural>"),
        (3, "the <+part> overshadows the <-part>"),
        (3, "the <-part> can not hide the <+part>"),
        (2, "a <-thing> is <+rescued> by its <+part>"),
    ]),
}


def pick(rng, items):
    return items[int(rng.random() * len(items))]


def weighted(rng, rules):
    at = rng.random() * sum(weight for weight, _ in rules)
    for weight, rule in rules:
        at -= weight
        if at < 0:
            return rule
    return rules[-1][1]


class Sentence:
    """Draws one sentence. Both twins take words from the front of the same shuffled lists, so that they differ in sign only."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        thing, part, *special = pick(self.rng, DOMAINS)
        self.nouns = {"thing": shuffled(self.rng, thing.split()), "part": shuffled(self.rng, part.split())}
        self.signed = {
            (name, side): shuffled(self.rng, SIGNED[name][side].split()) for name in SIGNED for side in (0, 1)
        }
        for side in (0, 1):
            words = shuffled(self.rng, special[side].split())
            if self.rng.random() < 0.4:
                self.signed["adj", side][:0] = words

    def slot(self, sign, name, positive):
        side = 0 if (sign == "+") == positive else 1
        if name in RULES:
            return self.expand(weighted(self.rng, RULES[name]), side == 0)
        if name in SIGNED:
            return self.signed[name, side].pop(0)
        if name in self.nouns:  # signed: with an adjective
            return (self.signed["adj", side].pop(0) + " " if sign else "") + self.nouns[name].pop(0)
        return pick(self.rng, NEUTRAL[name])

    def expand(self, template, positive):
        return re.sub(r"<([+-]?)(\w+)>", lambda match: self.slot(match[1], match[2], positive), template)

    def text(self, positive):
        chance = self.rng.random()
        frame = "<open>{}" if chance < 0.08 else "{}<close>" if chance < 0.16 else "{}"
        dot = " ." if self.rng.random() < 0.6 else ""
        rule = weighted(self.rng, weighted(self.rng, list(SENTENCES.values())))
        return re.sub(r"\ba (?=[aeiou])", "an ", self.expand(frame.format(rule), positive)) + dot


def sentences(rng, count):
    """Returns different sentences with their labels, half of them positive."""
    made = {}
    while len(made) < count:
        seed = rng.random()
        twins = {Sentence(seed).text(positive): int(positive) for positive in (True, False)}
        if not made.keys() & twins.keys():
            made.update(twins)
    return list(made.items())


def words_of(texts):
    """Returns the words of more than one letter, sorted."""
    return sorted({word for text in texts for word in re.findall(r"[a-z]+", text)} - set(string.ascii_lowercase))


def main():
    rng = random.Random(SEED)
    rows = sentences(rng, TRAIN + DEV)
    for name, part in (("dev.tsv", rows[:DEV]), ("train.tsv", rows[DEV:])):
        write(OUT, name, ["sentence\tlabel"] + [f"{text}\t{label}" for text, label in shuffled(rng, part)])
    write(OUT, "vocab.txt", vocabulary(words_of([text for text, _ in rows])))


if __name__ == "__main__":
    main()
