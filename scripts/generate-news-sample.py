#!/usr/bin/env python3
"""Writes the sample of the ag_news program, examples/ag_news/sample/{train.csv,test.csv,classes.txt,vocab.txt}; no
arguments, no packages.

The news is invented: templates filled with words of a class, words that all classes share, and
made-up people, places, teams and companies. Some titles hold shared words only, and a second sentence that begins with
"Elsewhere" is of another class, so single words mislead at times. The text is then damaged as AG News is: the ampersands
of some entities become blanks, line breaks become backslashes, and tags remain. The draws use random.random() only, which gives the
same numbers in every version of Python.
"""

import os
import random
import re
import string

from sample import EXAMPLES, shuffled, vocabulary, write

TRAIN, TEST, SEED = 1200, 160, 4
OUT = os.path.join(EXAMPLES, "ag_news", "sample")

OTHER_CLASS = 0.7  # the share of second sentences, quotes excepted, that are of another class
VAGUE_TITLE = 0.5  # the share of titles that hold shared words only
AS_ENTITIES = 0.5  # the share of titles and of descriptions whose apostrophes, quotes and ampersands are entities
RARE = 1  # words that occur at most this often are not in the vocabulary; WordPiece splits them

CLASSES = ["World", "Sports", "Business", "Sci/Tech"]

# Words of a class. A | separates items that hold blanks.
WORDS = {
    "World": {
        "actor": "the president|rebels|the foreign minister|police|election officials|peacekeepers|villagers",
        "verb": "condemn|delay|reject|debate|welcome|demand|suspend",
        "thing": "a cease-fire|the border treaty|an election recount|the peace plan|a hostage release|new sanctions",
        "aside": "a parliament vote|the refugee camps|the ambassador's visit|a roadside blast|the interim government",
    },
    "Sports": {
        "actor": "the <team>|the <team>' coach|the goalkeeper|a rookie pitcher|the champion|the home side|the striker",
        "verb": "beat|outplay|chase|dominate|edge|survive|celebrate",
        "thing": "the <team>|a season opener|a playoff game|the second half|a thriller|the cup final|the relay",
        "aside": "a sprained ankle|the league standings|a late penalty kick|the trials|a crowd of <number>,000 fans",
    },
    "Business": {
        "actor": "<company>|shareholders|the central bank|oil traders|<company>'s chairman|an airline|retailers",
        "verb": "cut|raise|forecast|refinance|post|report|revise",
        "thing": "quarterly earnings|interest rates|a $<number> million buyout|crude prices|a dividend|job losses",
        "aside": "the blue-chip index|weak retail sales|a bankruptcy filing|its credit rating|the trade deficit",
    },
    "Sci/Tech": {
        "actor": "researchers|the space agency|<company>'s engineers|a software maker|astronomers|security experts",
        "verb": "test|discover|patch|unveil|download|decode|build",
        "thing": "a browser flaw|a solar probe|the search engine|a wireless chip|fossil remains|an e-mail worm",
        "aside": "open-source code|the moon's orbit|a faster processor|the online music store|a genome study",
    },
}

# Words that all classes share. In a title or a sentence, such a word may replace a word of the class.
SHARED = {
    "actor": "officials|critics|both sides|the leader|the newcomer|a spokesman|insiders",
    "verb": "announce|plan|lose|win|drop|strike|open|attack|defend|seek",
    "thing": "a deal|a record|the talks|a long race|the court ruling|a key launch|the market|a new field|the lead",
    "aside": "the weather|months of talks|a surprise rival|the deadline|last year's loss",
}
SHARED_SHARE = {"actor": 0.3, "verb": 0.5, "thing": 0.35, "aside": 0.35}

NEUTRAL = {
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "place": "Norvale|Port Adell|Ostmark|Lake Tarn|San Brio|Kellmouth|Varna Bay|East Hollin",
    "person": "Anna Delmore|Tom Karvik|Lena Ostrow|Raul Medina-Voss|Ian O'Harn|Mei Tanaro",
    "team": "Hawks|Rovers|Comets|Mariners|Stags|Wolves",
    "company": "Altrix Corp.|Bramwell & Co.|Norvane Inc.|Quill Software|T&M Holding|Zelco",
    "agency": "NWS|Evening Post|Wire Desk",
    "then": "after <aside>|despite <aside>|because of <aside>|ahead of <aside>",
    "vague": "Record Deal Ends Long Wait|New Leader Faces a Hard Test|Late Strike Stuns Rivals|The Race Is On|"
             "A Costly Loss in <place>|<person> Takes the Lead|Both Sides Look for a Win|Talks, Then a Surprise",
    "quote": "\"This isn't over,\" said <person>.|\"We're ready,\" a spokesman said.|<person> called it \"a fresh start.\"",
}

TITLES = ["<actor> <verb> <thing>", "<actor> to <verb> <thing>", "<place>: <actor> <verb> <thing>"]
SENTENCES = [
    "<actor> in <place> will <verb> <thing> <then>, <person> said on <day>.",
    "<actor> said on <day> they would <verb> <thing> <then>.",
    "On <day>, <actor> moved to <verb> <thing> in <place> <then>.",
    "<person> said <actor> could <verb> <thing> this week <then>.",
]


def pick(rng, items):
    return items[int(rng.random() * len(items))]


def fill(rng, template, label):
    """Returns the template with its slots filled, recursively."""

    def slot(match):
        name = match[1]
        if name == "number":
            return str(2 + int(rng.random() * 98))
        if name in NEUTRAL:
            return fill(rng, pick(rng, NEUTRAL[name].split("|")), label)
        words = SHARED if rng.random() < SHARED_SHARE[name] else WORDS[label]
        return fill(rng, pick(rng, words[name].split("|")), label)

    return re.sub(r"<(\w+)>", slot, template)


def capitalized(text):
    return text[0].upper() + text[1:]


def title_of(rng, label):
    if rng.random() < VAGUE_TITLE:
        return fill(rng, "<vague>", label)
    words = fill(rng, pick(rng, TITLES), label).split(" ")
    small = ("a", "an", "of", "the", "to")
    return capitalized(" ".join(word if word in small else capitalized(word) for word in words))


def news_of(rng, label):
    """Returns a title and a description, before the damage."""
    agency = fill(rng, "<agency>", label)
    sentences = [capitalized(fill(rng, pick(rng, SENTENCES), label))]
    chance = rng.random()
    if chance < 0.5:
        if rng.random() < OTHER_CLASS:
            other = pick(rng, [c for c in CLASSES if c != label])
            sentences.append("Elsewhere, " + fill(rng, pick(rng, SENTENCES), other))
        else:
            sentences.append(capitalized(fill(rng, pick(rng, SENTENCES), label)))
    elif chance < 0.75:
        sentences.append(fill(rng, "<quote>", label))
    return f"{title_of(rng, label)} ({agency})", f"{agency} - {' '.join(sentences)}"


def damaged(rng, text):
    """Returns the text with the damage that AG News has."""
    if rng.random() < 0.1:  # a line break, or two, that became backslashes
        words = text.split(" ")
        at = 1 + int(rng.random() * (len(words) - 1))
        text = " ".join(words[:at]) + pick(rng, ["\\", "\\", "\\\\"]) + " ".join(words[at:])
    text = text.replace("$", pick(rng, ["\\$", "\\$", " #36;"]))
    if rng.random() < AS_ENTITIES:
        text = text.replace("&", " amp;").replace("'", " #39;").replace('"', " quot;")
    if rng.random() < 0.04:
        text += " &lt;b&gt;...&lt;/b&gt;"
    if rng.random() < 0.3:
        link = '&lt;A HREF="http://quotes.example.com/?q=ALX.N"&gt;ALX.N&lt;/A&gt;'
        text = text.replace("Altrix Corp.", "Altrix Corp. " + link)
    return text


def rows(rng, count):
    """Returns distinct rows, equally many of each class: (class from 1, damaged title, damaged description, undamaged text)."""
    made, seen = [], set()
    while len(made) < count:
        number = len(made) % len(CLASSES)
        title, description = news_of(rng, CLASSES[number])
        if (title, description) not in seen:
            seen.add((title, description))
            made.append((number + 1, damaged(rng, title), damaged(rng, description), title + " " + description))
    return made


def csv_line(row):
    return ",".join('"' + str(field).replace('"', '""') + '"' for field in row[:3])


def words_of(texts):
    """Returns the words of more than one letter that are not rare, sorted: those of the text as it is, and those of the cleaned text, in
    lower case and without digits and punctuation."""
    clean = str.maketrans("", "", string.punctuation + string.digits)
    counts = {}
    for text in texts:
        for word in re.findall(r"[A-Za-z]+", text) + text.lower().translate(clean).split():
            counts[word] = counts.get(word, 0) + 1
    return sorted(word for word, count in counts.items() if count > RARE and len(word) > 1)


def main():
    rng = random.Random(SEED)
    made = rows(rng, TRAIN + TEST)
    for name, part in (("test.csv", made[:TEST]), ("train.csv", made[TEST:])):
        write(OUT, name, [csv_line(row) for row in shuffled(rng, part)])
    write(OUT, "classes.txt", CLASSES)
    write(OUT, "vocab.txt", vocabulary(words_of([row[3] for row in made])))


if __name__ == "__main__":
    main()
