#!/usr/bin/env python3
"""Writes folders of RoBERTa, XLM-RoBERTa and CamemBERT to tests/golden/models, and roberta.txt, their results in float64.

    scripts/golden-roberta.py          needs torch and transformers

roberta.txt is in the format of tests/golden/README.md; tests/golden/models/README.md lists the folders. They have no tokenizers: a case
is a list of ids. Some texts have the token of padding inside, which transformers leaves out when it counts positions.
"""

import random
import shutil
import sys

import torch
import transformers

import golden
import golden_models as models

VOCABULARY, LONGEST, FIRST_WORD = 61, 24, 5
CLASS_PREFIX = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "attn_implementation": "eager",
}


def texts(padding):
    """Returns texts of 1, 2, 7, 19 and LONGEST tokens, and texts with padding inside and at the end."""
    words = random.Random(padding)
    of_length = [[0] + [words.randrange(FIRST_WORD, VOCABULARY) for _ in range(T - 2)] + [2] * (T > 1) for T in (1, 2, 7, 19, LONGEST)]
    return [*of_length, [0, 7, padding, 9, padding, padding, 12, 2], [padding, 0, 11, 2, padding]]


def folder(out, name, model_type, head, seed, compute, padding=1, dtype=None, **config):
    """Writes a folder, and what compute(model, ids) gives for each text."""
    path = models.OUTPUT / name
    shutil.rmtree(path, ignore_errors=True)
    architecture = getattr(transformers, CLASS_PREFIX[model_type] + head)
    sizes = architecture.config_class(**{**SIZES, "max_position_embeddings": LONGEST + padding + 1, "pad_token_id": padding, **config})
    model = models.draw(architecture(sizes), seed)
    if dtype:
        model = model.to(dtype)
    models.save(model, path)
    model = model.double()
    for i, ids in enumerate(texts(padding)):
        ids = torch.tensor(ids)
        out.case(name, str(i))
        out.tensor("ids", ids)
        with torch.no_grad():
            compute(out, model, ids[None])


def write_logits(out, model, ids):
    out.tensor("y", model(ids).logits[0])


def write_states(out, model, ids):
    """Writes the last hidden state, and all of them for texts with padding."""
    states = model(ids, output_hidden_states=True).hidden_states
    if model.config.pad_token_id in ids[0]:
        out.tensors(**{f"hidden{i}": state[0] for i, state in enumerate(states)})
    out.tensor("y", states[-1][0])


def write_span(out, model, ids):
    result = model(ids)
    out.tensor("y", torch.stack([result.start_logits[0], result.end_logits[0]], -1))


def write_masked(out, model, ids):
    """Writes the logits of the first, the middle and the last row."""
    rows = torch.tensor([0, ids.shape[1] // 2, ids.shape[1] - 1])
    out.tensors(rows=rows, y=model(ids).logits[0][rows])


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    out = golden.Golden()
    labels = {"id2label": {0: "bad", 1: "so-so", 2: "good"}}
    one, bf16 = {"id2label": {0: "LABEL_0"}}, torch.bfloat16
    folder(out, "roberta", "roberta", "ForSequenceClassification", 41, write_logits, hidden_act="relu", **labels)
    folder(out, "roberta_reranker", "xlm-roberta", "ForSequenceClassification", 42, write_logits, dtype=bf16, **one)
    folder(out, "roberta_two", "camembert", "ForSequenceClassification", 43, write_logits, padding=3, dtype=bf16)
    folder(out, "roberta_tagger", "camembert", "ForTokenClassification", 44, write_logits, dtype=bf16, num_labels=5)
    folder(out, "roberta_question", "xlm-roberta", "ForQuestionAnswering", 45, write_span, dtype=bf16, type_vocab_size=2)
    folder(out, "roberta_mask", "roberta", "ForMaskedLM", 46, write_masked, padding=3, dtype=bf16, hidden_act="gelu_new")
    folder(out, "roberta_encoder", "xlm-roberta", "Model", 47, write_states, dtype=bf16)
    golden.write(out, "models/roberta.txt", f"golden-roberta.py (transformers {transformers.__version__})")


if __name__ == "__main__":
    main()
