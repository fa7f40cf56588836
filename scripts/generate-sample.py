#!/usr/bin/env python3
"""Writes the sample of the sst2 program, examples/sst2/sample/{train.tsv,dev.tsv,vocab.txt}; no arguments, no packages.

Sentences of sentiment come from a small grammar that decides the label first. A slot in angle brackets is a rule or a word
list; a sign asks for that polarity relative to the sentence: <-adj> in a positive sentence is a negative word. So the same
words stand on both sides, and negation, order and which clause counts decide. The draws use random.random() only, which
Python keeps the same in all versions.
"""

import os
import random
import re
import string

TRAIN, DEV, SEED = 2000, 200, 20
OUT = os.path.join(os.path.dirname(__file__), "..", "examples", "sst2", "sample")

# Per domain: the thing itself, then groups of its parts, each with the adjectives that suit it: (nouns, positive, negative).
DOMAINS = [
    {
        "thing": ("film comedy thriller", "gripping lively", "slow silly"),
        "parts": [
            ("plot script ending dialogue", "clever gripping", "silly muddled"),
            ("acting photography music", "lively inspired", "wooden careless"),
        ],
    },
    {
        "thing": ("restaurant cafe bakery", "friendly cosy", "noisy shabby"),
        "parts": [
            ("soup bread cake coffee", "fresh tasty", "stale greasy"),
            ("service waiter chef", "friendly quick", "rude slow"),
        ],
    },
    {
        "thing": ("hotel inn hostel", "clean cosy", "noisy shabby"),
        "parts": [
            ("room bed garden", "clean cosy", "shabby greasy"),
            ("porter owner staff", "friendly quick", "rude careless"),
        ],
    },
    {
        "thing": ("book novel memoir", "gripping clever", "slow muddled"),
        "parts": [
            ("prose plot opening ending", "clever gripping", "wooden muddled"),
            ("narrator heroine villain", "lively inspired", "wooden silly"),
        ],
    },
    {
        "thing": ("program app game", "quick reliable", "slow broken"),
        "parts": [
            ("search editor menu", "quick reliable", "slow broken"),
            ("manual design layout", "clever fresh", "muddled careless"),
        ],
    },
    {
        "thing": ("concert album festival", "lively inspired", "noisy slow"),
        "parts": [
            ("singer drummer choir", "lively inspired", "wooden careless"),
            ("sound opening finale", "fresh inspired", "muddled noisy"),
        ],
    },
]

# Signed words that suit every domain: (positive, negative).
SIGNED = {
    "adj": (
        "good great excellent lovely charming wonderful brilliant pleasant",
        "bad poor awful dreadful dull boring terrible clumsy",
    ),
    "plural": ("strengths charms virtues", "flaws faults mistakes"),
    "noun": ("triumph treat joy", "failure mess bore"),
    "rescues": ("saves rescues lifts", "ruins spoils sinks"),
    "rescue": ("save rescue lift", "ruin spoil sink"),
    "rescued": ("saved rescued lifted", "ruined spoiled sunk"),
    "like": ("love enjoy admire", "hate regret dislike"),
    "liked": ("loved enjoyed admired", "hated regretted disliked"),
}

PLAIN = {
    "very": ["", "", "", "very ", "truly ", "quite "],
    "is": ["is", "is", "was", "seems"],
    "not": ["is not", "is n't", "was not", "is never", "is hardly", "is far from"],
    "open": ["to be honest , ", "on the whole , ", "for once , ", "if you ask me , ", "this time , "],
    "close": [" , my sister says", " from start to finish", " , we all agreed", " , even on a monday"],
    "one": ["nobody", "no one"],
}

# Rules with their weights. They take the sentence's sign; a clause is one judgement, without or with a negation.
CLAUSE = [
    (9, "the <part> <is> <very><+adj>"),
    (3, "the <part> <not> <-adj>"),
    (1, "the <part> has no <-plural>"),
    (1, "the <part> is full of <+plural>"),
]
POINT = [
    (5, "the <part> <is> <+adj>"),
    (1, "the <part> is not <-adj>"),
    (1, "the <part> has no <-plural>"),
    (1, "the <part> is full of <+plural>"),
]
WHOLE = [
    (6, "the <thing> <is> <very><+adj>"),
    (4, "the <thing> <is> a <+adj> <+noun>"),
    (3, "the <thing> <not> <-adj>"),
    (2, "i <+liked> the <thing>"),
    (1, "i did n't <-like> the <thing>"),
]
RULES = {"clause": CLAUSE, "point": POINT, "whole": WHOLE}
SENTENCE = {
    "plain": (24, [
        (4, "<+clause>"),
        (4, "<+whole>"),
        (2, "a <very><+thing>"),
        (2, "what a <+thing>"),
        (2, "a <+thing> with a <+part>"),
        (2, "the <part> is <+adj> and the <part> is <+adj>"),
    ]),
    "negation": (14, [
        (2, "it is not a <-thing>"),
        (2, "the <part> is neither <-adj> nor <-adj>"),
        (2, "not a single <-part> in the <thing>"),
        (2, "<one> would call the <thing> <-adj>"),
        (2, "the <thing> fails to be <-adj>"),
        (2, "we waited in vain for a <-part>"),
    ]),
    "double": (8, [
        (2, "the <thing> never fails to be <+adj>"),
        (2, "<one> can deny that the <part> is <+adj>"),
        (2, "there is no <part> here that is not <+adj>"),
        (2, "<one> would say that the <thing> is not <+adj>"),
    ]),
    "concession": (44, [
        (2, "<-point> , but <+clause>"),
        (4, "<-point> , but <+whole>"),
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
        (3, "the <+part> makes up for the <-part>"),
        (3, "the <-part> can not hide the <+part>"),
        (2, "a <-thing> is <+rescued> by its <+part>"),
    ]),
}


class Draw:
    """One sentence being made: the domain it is about, and the words it has used."""

    def __init__(self, rng):
        self.rng = rng
        self.domain = self.pick(DOMAINS)
        self.adjectives = self.domain["thing"][1:]
        self.used = set()

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def weighted(self, rules):
        at = self.rng.random() * sum(rule[0] for rule in rules)
        for rule in rules:
            at -= rule[0]
            if at < 0:
                return rule[1]
        return rules[-1][1]

    def word(self, words):
        """A word of the list that the sentence has not used yet."""
        word = self.pick([w for w in words.split() if w not in self.used])
        self.used.add(word)
        return word

    def adjective(self, side):
        general, special = SIGNED["adj"][side], self.adjectives[side]
        return self.word(special if self.rng.random() < 0.35 and set(special.split()) - self.used else general)

    def slot(self, sign, name, positive):
        side = 0 if (sign == "+") == positive else 1
        if name == "adj":
            return self.adjective(side)
        if name in SIGNED:
            return self.word(SIGNED[name][side])
        if name in RULES:
            return self.expand(self.weighted(RULES[name]), side == 0)
        if name in ("thing", "part"):
            nouns, *self.adjectives = self.domain["thing"] if name == "thing" else self.pick(self.domain["parts"])
            noun = self.word(nouns)
            return f"{self.adjective(side)} {noun}" if sign else noun
        return self.pick(PLAIN[name])

    def expand(self, template, positive):
        return re.sub(r"<([+-]?)(\w+)>", lambda m: self.slot(m[1], m[2], positive), template)

    def sentence(self, positive):
        rules = self.weighted(list(SENTENCE.values()))
        text = self.expand(self.weighted(rules), positive)
        chance = self.rng.random()
        if chance < 0.1:
            text = self.pick(PLAIN["open"]) + text
        elif chance < 0.2:
            text += self.pick(PLAIN["close"])
        text = re.sub(r"\ba (?=[aeiou])", "an ", text)
        return text + (" ." if self.rng.random() < 0.6 else "")


def sentences(rng, count):
    """Different sentences, positive and negative by turns."""
    made = {}
    while len(made) < count:
        seed = rng.random()
        for positive in (True, False):
            made.setdefault(Draw(random.Random(seed)).sentence(positive), int(positive))
    return list(made.items())


def shuffled(rng, items):
    return [item for _, item in sorted((rng.random(), item) for item in items)]


def vocabulary(texts):
    """BERT's layout: special tokens, characters and continued characters of ASCII, words, common endings."""
    characters = [chr(c) for c in range(33, 127)]
    words = sorted({word for text in texts for word in re.findall(r"[a-z]+", text)} - set(string.ascii_lowercase))
    endings = "s es ed d ing er est ly ness ful less able ment ion al ous ive y".split()
    pieces = ["##" + c for c in characters] + ["##" + e for e in endings if len(e) > 1]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + characters + pieces + words


def write(name, lines):
    with open(os.path.join(OUT, name), "w", encoding="ascii", newline="\n") as file:
        file.write("\n".join(lines) + "\n")


def main():
    rng = random.Random(SEED)
    rows = sentences(rng, TRAIN + DEV)
    for name, part in (("dev.tsv", rows[:DEV]), ("train.tsv", rows[DEV:])):
        write(name, ["sentence\tlabel"] + [f"{text}\t{label}" for text, label in shuffled(rng, part)])
    write("vocab.txt", vocabulary([text for text, _ in rows]))


if __name__ == "__main__":
    main()
