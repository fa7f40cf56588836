"""Prepares the texts of AG News for tokenization."""

import csv
import re
import string

NAMED = {
    "quot": '"',
    "amp": "&",
    "lt": "<",
    "gt": ">",
    "nbsp": " ",
    "hellip": "\u2026",
    "mdash": "\u2014",
    "rsquo": "\u2019",
}
ENTITY = re.compile(r"(?:[& ]|^)(?:#([0-9]+)|(%s));" % "|".join(NAMED))
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
CLEAN = str.maketrans(string.ascii_uppercase, string.ascii_lowercase, string.digits + string.punctuation)


def character(match):
    """Returns what an entity stands for, or the entity itself if its number is not that of a character."""
    number, name = match.groups()
    if name:
        return NAMED[name]
    code = int(number)
    if 128 <= code <= 159:
        return bytes([code]).decode("cp1252", errors="ignore") or match[0]
    if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return match[0]
    return " " if code == 160 else chr(code)


def repair(text):
    r"""Undoes the damage of the data set's extraction, in this order, one pass each.

    - A backslash stands for a line break and becomes a blank, but `\$` is a dollar sign.
    - Entities are decoded. An entity begins with `&` or with a blank in place of it; at the start of the text, both may be
      missing. `#N;` is a code point, or a byte of Windows-1252 from 128 to 159.
    - Tags are dropped: `<` or `</`, an ASCII letter, and all up to `>`. That includes tickers, such as `<GOOG.O>`.
    """
    text = re.sub(r"\\(\$?)", lambda match: match[1] or " ", text)
    return TAG.sub("", ENTITY.sub(character, text))


def clean(text, stop_words=frozenset(), lemmas={}):
    """Returns the words in lower case, without ASCII digits, ASCII punctuation and stop words, each as its lemma."""
    words = re.findall(r"[^ \t\n\v\f\r]+", text.translate(CLEAN))
    return " ".join(lemmas.get(word, word) for word in words if word not in stop_words)


def read_lines(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


class Preparation:
    """What is done to a text before it is tokenized: repair, and cleaning unless `plain` is true."""

    def __init__(self, plain=False, stop_words=None, lemmas=None):
        self.plain = plain
        self.stop_words = frozenset(read_lines(stop_words) if stop_words else ())
        self.lemmas = dict(line.split("\t") for line in read_lines(lemmas)) if lemmas else {}

    def __call__(self, text):
        text = repair(text)
        return text if self.plain else clean(text, self.stop_words, self.lemmas)


def read_csv(path, limit=None):
    """Returns texts and labels: classes 1 to 4 become 0 to 3; title and description are joined by a blank."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[:limit]
    return [f"{title} {description}" for _, title, description in rows], [int(label) - 1 for label, _, _ in rows]
