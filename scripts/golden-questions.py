#!/usr/bin/env python3
"""Writes question_bert and question_distilbert in tests/golden/models, and questions.txt, their answers in float64.

    scripts/golden-questions.py          needs torch and transformers 4.57

The answers are those of QuestionAnsweringPipeline, which transformers 5 does not have. questions.txt is in the format of
tests/golden/README.md; tests/golden/models/README.md describes its cases.
"""

import pathlib
import shutil
import sys

import torch
import transformers

import golden
import golden_models

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench/peers"))
import questions_compare  # noqa: E402

POSITIONS = 32
SIZES = {"max_position_embeddings": POSITIONS, "num_labels": 2}
LONG = (
    "the big dog sat on the mat , the cat sat on the big cat . it is a big big mat ! is it the dog ? I sat , the cat is "
    "unaffable . a dog , a cat , a mat : the Cat 's mat . the café is big , the cafe isn't ."
)
# The question, the context, and the options.
CASES = [
    ("is it a cat?", "the cat sat on the mat.", {}),
    ("the dog", "a", {}),
    ("a", "the cat", {"count": 5}),
    ("is it big?", "the big dog sat on the big mat , it is big . Big!", {"count": 4}),
    ("?", "cats , Cats ! CATS . unaffable unaffables", {"count": 20}),
    ("is it a café?", "I sat on un café , café , cafe\u0301 ! 中中 isn't it ?", {"count": 6}),
    ("is it?", "the CAFÉ ; the cafe\u0301 ; the café", {"count": 3, "longest": 2}),
    ("is it the [MASK] ?", "it is the [MASK] cat . [UNK] [SEP] sat [CLS] a dog", {"count": 5}),
    ("\u200b", "the cat sat", {"count": 2}),
    ("is it a cat?", "\u200b \u00ad", {"may_be_empty": True}),
    ("is it a cat?", "the dog sat.", {"may_be_empty": True}),
    ("is it a dog?", "the cat sat on the mat.", {"may_be_empty": True, "count": 3}),
    ("is it?", "the cat , a dog", {"may_be_empty": True, "count": 50}),
    ("is it a cat?", LONG, {}),
    ("is it a cat?", LONG, {"count": 7, "may_be_empty": True}),
    ("is it a cat?", LONG, {"count": 3, "stride": 0}),
    ("is it a cat?", LONG, {"count": 3, "stride": 20, "longest": 30}),
    ("is it a cat?", LONG, {"count": 10, "max_length": 15, "stride": 3, "longest": 1}),
    ("the dog sat on the mat ; is it a big cat?", LONG, {"count": 2, "longest": 3, "stride": 4}),
    ("un", "unaffablesunaffablesunaffablesunaffables " * 4 + "cats", {"count": 4, "max_length": 12, "stride": 4}),
    ("is it?", "中" * 20 + "cafe\u0301 " * 20, {"count": 4, "stride": 10}),
]


def write_cases(out, folder, model, tokenizer):
    pipeline = transformers.pipeline("question-answering", model=model.double(), tokenizer=tokenizer)
    for i, (question, context, options) in enumerate(CASES):
        answers = questions_compare.answers_of(pipeline, question, context, questions_compare.arguments_of(options))
        out.case(folder.name, str(i), question=question, context=context, **options)
        places = [[answer["begin"], answer["end"]] for answer in answers]
        out.tensor("places", torch.tensor(places).reshape(len(answers), 2))
        out.tensor("scores", torch.tensor([answer["score"] for answer in answers], dtype=torch.float64))


def question_bert(out):
    """Writes a cased BERT with vocab.txt."""
    folder = golden_models.OUTPUT / "question_bert"
    config = transformers.BertConfig(**{**golden_models.BERT, **SIZES}, num_hidden_layers=2)
    model = golden_models.draw(transformers.BertForQuestionAnswering(config), 11)
    golden_models.save(model, folder)
    golden_models.write_vocabulary(folder, do_lower_case=False, model_max_length=POSITIONS)
    write_cases(out, folder, model, golden_models.tokenizer_of(folder))


def question_distilbert(out):
    """Writes an uncased DistilBERT with all files of the tokenizer, as transformers 4 saves it."""
    folder = golden_models.OUTPUT / "question_distilbert"
    config = transformers.DistilBertConfig(**{**golden_models.DISTILBERT, **SIZES}, n_layers=2)
    model = golden_models.draw(transformers.DistilBertForQuestionAnswering(config), 12)
    golden_models.save(model, folder)
    vocabulary = folder / "vocab.txt"
    golden_models.write_vocabulary(folder)
    tokenizer = transformers.DistilBertTokenizerFast(vocab_file=str(vocabulary), model_max_length=POSITIONS)
    tokenizer.save_pretrained(folder)
    write_cases(out, folder, model, tokenizer)


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    out = golden.Golden()
    for write in (question_bert, question_distilbert):
        shutil.rmtree(golden_models.OUTPUT / write.__name__, ignore_errors=True)
        write(out)
    sys.argv[1:] = []
    golden.write(out, "models/questions.txt", f"golden-questions.py (transformers {transformers.__version__})")


if __name__ == "__main__":
    main()
