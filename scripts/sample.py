"""The parts that the generators of the samples share. No packages."""

import os

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "examples")


def shuffled(rng, items):
    """Returns the items in an order drawn by random(), whose numbers are the same in every version of Python."""
    return [item for _, item in sorted((rng.random(), item) for item in items)]


def vocabulary(words):
    """Returns a vocabulary in BERT's layout: special tokens, ASCII characters, continuations (##), words.

    The continuations are the same characters and common endings.
    """
    characters = [chr(c) for c in range(33, 127)]
    endings = "es ed ing er est ly ness ful less able ment ion al ous ive".split()
    pieces = ["##" + piece for piece in characters + endings]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + characters + pieces + words


def write(folder, name, lines, encoding="ascii"):
    """Writes the lines of a file, each with a line feed."""
    with open(os.path.join(folder, name), "w", encoding=encoding, newline="\n") as file:
        file.write("\n".join(lines) + "\n")
