#!/usr/bin/env python3
"""Compares heddle's answers to questions with those of transformers' pipeline, for models with random weights:

    bench/peers/questions_compare.py --program build/release/bench/bert_program --data DIR [--only CASE] [--pairs N]

Each model has 500 questions with several options: titles of AG News and lines of SST-2. Their contexts are articles of AG News,
lines of SST-2 and surnames, some of several spans. Places and texts must be equal, and scores within 1e-5. If an answer is not
the pipeline's in float32, it must be the pipeline's in float64. Scores near 0 are left out: at 0 the pipeline lists places that
are not in the context, or too long. Exit code 1 when an answer differs. Needs torch and transformers 4.57: transformers 5 does
not have the pipeline.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from bert_folders import BASE, ODD, draw

THREADS, BOUND, SMALLEST = 2, 1e-5, 1e-30  # smaller scores are subnormal numbers, or 0, in float32
MODELS = {
    "bert": (transformers.BertForQuestionAnswering, transformers.BertTokenizerFast),
    "distilbert": (transformers.DistilBertForQuestionAnswering, transformers.DistilBertTokenizerFast),
}
# Groups of questions: their share, and their options.
GROUPS = [
    (0.4, {}),
    (0.2, {"count": 5, "may_be_empty": True}),
    (0.12, {"count": 3, "max_length": 100, "stride": 30}),
    (0.12, {"max_length": 64, "longest": 3}),
    (0.08, {"count": 20, "longest": 40, "max_length": 200}),
    (0.08, {"count": 2, "max_length": 48, "stride": 0, "may_be_empty": True}),
]
ARGUMENTS = {  # the pipeline's names of the options
    "count": "top_k",
    "longest": "max_answer_len",
    "may_be_empty": "handle_impossible_answer",
    "stride": "doc_stride",
    "max_length": "max_seq_len",
}
ODDITIES = ["the CAFÉ", "cafe\u0301", "The café", "naïve\tİstanbul", "東京 (Tōkyō)", "\u200b\u00ad", "ΟΔΟΣ", "οδος", "#$%&"]
ODDITIES += ["x" * 120, "[MASK]", "[CLS]", "\U0001f600", "line\nbreak"]


def make_folder(folder, case, data):
    """Writes a model with random weights and its tokenizer, a cased one if the width is odd."""
    torch.manual_seed(1)
    of_model, of_tokenizer = MODELS[case.family]
    config = case.config()
    config.num_labels = 2
    model = of_model(config)
    draw(model, case.width)
    model.save_pretrained(folder)
    uncased = case.width % 2 == 0
    vocab = os.path.join(data, f"vocab/bert-base-{'uncased' if uncased else 'cased'}-vocab.txt")
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (getattr(config, "type_vocab_size", 0) > 1)
    tokenizer = of_tokenizer(vocab_file=vocab, do_lower_case=uncased, model_max_length=config.max_position_embeddings,
                             model_input_names=names)  # fmt: skip
    tokenizer.save_pretrained(folder)
    return folder


class Texts:
    """Draws questions and contexts."""

    def __init__(self, data, seed=1):
        self.random = random.Random(seed)
        with open(os.path.join(data, "ag_news/test.csv"), encoding="utf-8", newline="") as file:
            self.articles = [(title.strip(), text.strip()) for _, title, text in csv.reader(file)]
        with open(os.path.join(data, "sst2/dev.tsv"), encoding="utf-8") as file:
            self.lines = [line.split("\t")[0] for line in file][1:]
        self.names = []
        for language in ("Czech", "French", "Polish", "Spanish"):
            with open(os.path.join(data, f"names/{language}.txt"), encoding="utf-8") as file:
                self.names += file.read().split("\n")

    def question(self):
        source = self.random.choice([*self.lines, *(title for title, _ in self.articles)])
        return " ".join(source.split()[:8]) + "?"

    def context(self):
        choose = self.random
        parts = [text for _, text in choose.sample(self.articles, *choose.choices([0, 1, 2, 4, 12, 30], [6, 18, 12, 6, 3, 1]))]
        parts += choose.sample(self.lines, choose.choice([0, 1, 3]))
        parts += choose.sample(self.names, choose.choice([0, 0, 5, 20]))
        parts += choose.choices(ODDITIES, k=choose.choice([0, 0, 1, 6]))
        choose.shuffle(parts)
        return choose.choice([" ", "\n", ", "]).join(parts) or "a"

    def groups(self, pairs):
        """Yields the groups that bert_program reads."""
        for share, options in GROUPS:
            count = round(share * pairs)
            yield {**options, "questions": [self.question() for _ in range(count)], "contexts": [self.context() for _ in range(count)]}


def bytes_of(context, answer):
    """Returns an answer of the pipeline as heddle's: with offsets of bytes."""
    begin, end = (len(context[: answer[at]].encode()) for at in ("start", "end"))
    return {"begin": begin, "end": end, "text": answer["answer"], "score": answer["score"]}


def arguments_of(options):
    return {ARGUMENTS[name]: value for name, value in options.items() if name in ARGUMENTS}


def questions_of(groups):
    """Returns each question with its context and the pipeline's arguments."""
    return [(*pair, arguments_of(group)) for group in groups for pair in zip(group["questions"], group["contexts"])]


def answers_of(pipeline, question, context, arguments):
    """Returns the pipeline's answers as heddle's."""
    answers = pipeline(question=question, context=context, **arguments)
    return compared([bytes_of(context, answer) for answer in ([answers] if isinstance(answers, dict) else answers)])


def compared(answers):
    """Leaves out answers with a score near 0."""
    return [answer for answer in answers if answer["score"] >= SMALLEST]


def difference(found, expected):
    """Returns the greatest relative difference of a score, or infinity if places or texts differ."""
    if any(a[key] != b[key] for a, b in zip(found, expected) for key in ("begin", "end", "text")) or len(found) != len(expected):
        return float("inf")
    return max((abs(a["score"] - b["score"]) / b["score"] for a, b in zip(found, expected)), default=0.0)


def compare(case, options, folder):
    """Prints the result for a model. Returns whether all answers are equal."""
    make_folder(folder, case, options.data)
    groups = list(Texts(options.data).groups(options.pairs))
    path = os.path.join(folder, "questions.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(groups, file)
    command = [options.program, "answer", folder, "--threads", str(THREADS), "--questions", path]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode:  # its standard error went to ours
        sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
    ours = [compared(answers) for answers in json.loads(done.stdout)["answers"]]

    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    questions = questions_of(groups)

    def expected(i):
        return answers_of(transformers.pipeline("question-answering", model=model, tokenizer=tokenizer), *questions[i])

    theirs = [expected(i) for i in range(len(ours))]
    differences = [difference(a, b) for a, b in zip(ours, theirs)]
    rounded = [i for i, value in enumerate(differences) if value > BOUND]
    model.double()
    for i in rounded:
        theirs[i] = expected(i)
        differences[i] = difference(ours[i], theirs[i])
    wrong = [i for i in rounded if differences[i] > BOUND]
    worst = max((value for value in differences if value <= BOUND), default=0.0)
    print(f"{case.name}: {len(ours)} questions, {sum(map(len, theirs))} answers, {len(wrong)} questions differ (from float32: "
          f"{len(rounded)}), scores of the others by at most {worst:.1e}", flush=True)  # fmt: skip
    for i in wrong[:3]:
        print(f"  {differences[i]:.1e} {questions[i]!r}\n  found    {ours[i]}\n  expected {theirs[i]}")
    return not wrong


def main():
    cases = {case.name: case for case in [*ODD, *BASE]}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="path of the program bench/bert_program")
    parser.add_argument("--data", required=True, help="folder with ag_news/, sst2/, names/ and vocab/")
    parser.add_argument("--only", choices=cases)
    parser.add_argument("--pairs", type=int, default=500, help="questions for each model")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    transformers.utils.logging.set_verbosity_error()
    equal = []
    for name in [options.only] if options.only else cases:
        with tempfile.TemporaryDirectory() as folder:
            equal.append(compare(cases[name], options, folder))
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
