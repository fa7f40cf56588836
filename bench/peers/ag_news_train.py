#!/usr/bin/env python3
"""Trains the model of the ag_news program in PyTorch. With --dtype float64 --order sequential --init FILE it computes the
reference for the program's losses. With the defaults it trains the model that ag_news_compare.py times.

    bench/peers/ag_news_train.py --data DIR --vocab FILE [--stop-words F] [--lemmas F] [--plain-text] [--embeddings DIR] ...

Prints JSON lines in the format of the program's --metrics. Needs torch, tokenizers and safetensors.
"""

import argparse
import os

import torch
from ag_news_model import Classifier, Config, read_embeddings
from ag_news_text import Preparation, read_csv
from tokens import Tokenizer
from training import (
    Rows,
    add_training_flags,
    begin,
    prepare,
    print_json,
    report_final,
    save_weights,
    train,
    training_arguments,
)

EVALUATION_BATCH = 64
TRAIN_ROWS, VALID_ROWS = 20_000, 1_000


def training_file(folder):
    full = os.path.join(folder, "train.csv")
    return full if os.path.exists(full) else os.path.join(folder, "train_subset.csv")


def encode(texts, labels, preparation, tokenizer):
    return Rows(tokenizer([preparation(text) for text in texts]), torch.tensor(labels))


def make_tokenizer(vocab, max_length=512):
    return Tokenizer(vocab, max_length=max_length, sep=False)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with test.csv and train.csv or train_subset.csv")
    parser.add_argument("--vocab", required=True, help="cased WordPiece vocabulary")
    parser.add_argument("--stop-words", help="file with one word per line")
    parser.add_argument("--lemmas", help="file with lines of word<TAB>lemma")
    parser.add_argument("--plain-text", action="store_true", help="repair the text, but do not clean it")
    parser.add_argument("--embeddings", help="Hugging Face BERT folder; by default, embeddings are drawn at random")
    parser.add_argument("--train-embeddings", action="store_true")
    add_training_flags(parser, epochs=5, batch_size=32, lr=5e-5)
    parser.add_argument("--train-rows", type=int, default=TRAIN_ROWS, help="the first N rows")
    parser.add_argument("--valid-rows", type=int, default=VALID_ROWS, help="the first N rows of test.csv")
    parser.add_argument("--d-model", type=int, default=768, help="width of the model; ignored with --embeddings")
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--max-length", type=int, default=512, help="maximum tokens in a text, limited by the positions of --embeddings")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    return parser.parse_args()


def main():
    flags = arguments()
    begin(flags)
    tables = read_embeddings(flags.embeddings) if flags.embeddings else {}
    config = Config(
        max_length=flags.max_length,
        d_model=flags.d_model,
        heads=flags.heads,
        train_embeddings=flags.train_embeddings,
        attention=flags.attention,
    )
    if tables:
        config.vocab_size, config.d_model = tables["word_embeddings.weight"].shape
        config.max_length = len(tables["position_embeddings.weight"])
        config.token_types = len(tables["token_type_embeddings.weight"])
    tokenizer = make_tokenizer(flags.vocab, min(flags.max_length, config.max_length))
    if not tables:
        config.vocab_size = tokenizer.vocab_size
    preparation = Preparation(flags.plain_text, flags.stop_words, flags.lemmas)
    train_rows = encode(*read_csv(training_file(flags.data), flags.train_rows), preparation, tokenizer)
    valid_rows = encode(*read_csv(os.path.join(flags.data, "test.csv"), flags.valid_rows), preparation, tokenizer)
    model = Classifier(config)
    if tables:
        model.embedder.embeddings.load_state_dict(tables)
    model = prepare(model, flags)
    train(
        model,
        train_rows,
        drop_last=True,
        valid=valid_rows,
        evaluation_batch=EVALUATION_BATCH,
        **training_arguments(flags),
    )
    report_final(model, {"train": train_rows, "valid": valid_rows}, print_json, EVALUATION_BATCH)
    if flags.save:
        save_weights(model, flags.save)


if __name__ == "__main__":
    main()
