#!/usr/bin/env python3
"""Writes folders of BERT's relatives to tests/golden/models, and their results in float64.

    scripts/golden-relatives.py          needs torch and transformers

roberta.txt has those of RoBERTa, XLM-RoBERTa and CamemBERT, relatives.txt those of MPNet, ELECTRA, ALBERT, ModernBERT, NomicBERT, GTE and
DeBERTa, in the format of tests/golden/README.md; tests/golden/models/README.md lists the folders. They have no tokenizers: a case is a list
of ids, and of token types for some texts. Some texts have the token of padding inside, which transformers leaves out when it counts the
positions of RoBERTa and MPNet.
"""

import pathlib
import random
import shutil
import sys

import torch
import transformers

import golden
import golden_models as models

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench/peers"))
from bert_folders import DEBERTA, class_of  # noqa: E402
from exact_float64 import exact_float64  # noqa: E402

VOCABULARY, LONGEST, FIRST_WORD = 61, 24, 5
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
MODERN = {  # local layers see a distance of 3; the fourth layer is global
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": LONGEST,
    "local_attention": 6,
    **{f"{name}_token_id": 1 for name in ("bos", "eos", "cls", "sep")},
    "attn_implementation": "eager",
}


def texts(padding):
    """Returns texts of 1, 2, 7, 19 and LONGEST tokens, and texts with padding inside and at the end."""
    words = random.Random(padding)
    of_length = [[0] + [words.randrange(FIRST_WORD, VOCABULARY) for _ in range(T - 2)] + [2] * (T > 1) for T in (1, 2, 7, 19, LONGEST)]
    return [*of_length, [0, 7, padding, 9, padding, padding, 12, 2], [padding, 0, 11, 2, padding]]


def folder(out, name, model_type, head, seed, compute, padding=1, dtype=None, **config):
    """Writes a folder, and what compute(out, model, inputs) gives for each text."""
    path = models.OUTPUT / name
    shutil.rmtree(path, ignore_errors=True)
    architecture = class_of(model_type, head)
    common = MODERN if model_type == "modernbert" else {**SIZES, "max_position_embeddings": LONGEST + padding + 1}
    sizes = architecture.config_class(**{**common, "pad_token_id": padding, **config})
    model = models.draw(architecture(sizes), seed, 0.5 if model_type in ("roberta", "xlm-roberta", "camembert") else 0.25)
    if dtype:
        model = model.to(dtype)
    models.save(model, path)
    model = model.double()
    for i, ids in enumerate(texts(padding)):
        inputs = {"input_ids": torch.tensor([ids])}
        out.case(name, str(i))
        out.tensor("ids", inputs["input_ids"][0])
        if model_type in ("electra", "albert", "nomic_bert") or getattr(sizes, "type_vocab_size", 0) == 2 and model_type == "deberta-v2":
            inputs["token_type_ids"] = torch.tensor([[int(t > len(ids) // 2) for t in range(len(ids))]])
            out.tensor("types", inputs["token_type_ids"][0])
        with torch.no_grad(), exact_float64(torch.float64):
            compute(out, model, inputs)


def write_logits(out, model, inputs):
    out.tensor("y", model(**inputs).logits[0])


def write_states(out, model, inputs):
    """Writes the last hidden state, and all of them for texts with padding."""
    states = model(**inputs, output_hidden_states=True).hidden_states
    if model.config.pad_token_id in inputs["input_ids"]:
        out.tensors(**{f"hidden{i}": state[0] for i, state in enumerate(states)})
    out.tensor("y", states[-1][0])


def write_span(out, model, inputs):
    result = model(**inputs)
    out.tensor("y", torch.stack([result.start_logits[0], result.end_logits[0]], -1))


def write_masked(out, model, inputs):
    """Writes the logits of the first, the middle and the last row."""
    T = inputs["input_ids"].shape[1]
    rows = torch.tensor([0, T // 2, T - 1])
    out.tensors(rows=rows, y=model(**inputs).logits[0][rows])


def write_buckets(out):
    """Writes the buckets of MPNet's bias for the distances from -300 to 300."""
    distances = torch.arange(-300, 301)
    out.case("buckets", "mpnet")
    out.tensors(distances=distances, buckets=transformers.models.mpnet.modeling_mpnet.MPNetEncoder.relative_position_bucket(distances))


def write_roberta():
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
    golden.write(out, "models/roberta.txt", f"golden-relatives.py (transformers {transformers.__version__})")


def write_relatives():
    out, bf16 = golden.Golden(), torch.bfloat16
    write_buckets(out)
    three, narrow = {"num_labels": 3, "dtype": bf16}, {"embedding_size": 12, "type_vocab_size": 2, "padding": 3, "dtype": bf16}
    shared = {**narrow, "num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 2}
    answer = {"num_labels": 2}
    folder(out, "mpnet", "mpnet", "ForSequenceClassification", 51, write_logits, hidden_act="gelu_new", **three)
    folder(out, "mpnet_tagger", "mpnet", "ForTokenClassification", 52, write_logits, **three)
    folder(out, "mpnet_question", "mpnet", "ForQuestionAnswering", 53, write_span, dtype=bf16)
    folder(out, "mpnet_mask", "mpnet", "ForMaskedLM", 54, write_masked, dtype=bf16, hidden_act="relu")
    folder(out, "mpnet_encoder", "mpnet", "Model", 55, write_states, dtype=bf16)
    folder(out, "electra", "electra", "ForSequenceClassification", 61, write_logits, **{**narrow, **three}, hidden_act="relu")
    folder(out, "electra_tagger", "electra", "ForTokenClassification", 62, write_logits, **{**narrow, **three})
    folder(out, "electra_question", "electra", "ForQuestionAnswering", 63, write_span, **narrow)
    folder(out, "electra_mask", "electra", "ForMaskedLM", 64, write_masked, **narrow, hidden_act="gelu_new")
    folder(out, "electra_encoder", "electra", "Model", 65, write_states, **{**narrow, "embedding_size": 32})
    folder(out, "albert", "albert", "ForSequenceClassification", 71, write_logits, **{**narrow, **three})
    folder(out, "albert_tagger", "albert", "ForTokenClassification", 72, write_logits, **{**shared, **three})
    folder(out, "albert_question", "albert", "ForQuestionAnswering", 73, write_span, **shared, **answer, hidden_act="gelu")
    folder(out, "albert_mask", "albert", "ForMaskedLM", 74, write_masked, **narrow, hidden_act="gelu_new")
    folder(out, "albert_encoder", "albert", "Model", 75, write_states, **{**shared, "embedding_size": 32})
    biases = {f"{name}_bias": True for name in ("norm", "attention", "mlp", "classifier")}
    other = {"hidden_activation": "gelu_new", "classifier_activation": "silu", "classifier_pooling": "mean", "num_hidden_layers": 3}
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 500.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
    layers = {"layer_types": ["full_attention", "sliding_attention", "full_attention"], "rope_parameters": rope}
    folder(out, "modernbert", "modernbert", "ForSequenceClassification", 81, write_logits, **three)
    folder(out, "modernbert_two", "modernbert", "ForSequenceClassification", 82, write_logits, dtype=bf16, **biases, **other, **layers)
    folder(out, "modernbert_tagger", "modernbert", "ForTokenClassification", 83, write_logits, **three)
    folder(out, "modernbert_question", "modernbert", "ForQuestionAnswering", 84, write_span, dtype=bf16, **biases)
    folder(out, "modernbert_mask", "modernbert", "ForMaskedLM", 85, write_masked, dtype=bf16, classifier_activation="relu")
    folder(out, "modernbert_encoder", "modernbert", "Model", 86, write_states, dtype=bf16)
    wide, linear = {"type_vocab_size": 2, **three}, {"rope_type": "linear", "rope_theta": 90.0, "factor": 3.0}
    folder(out, "nomic", "nomic_bert", "ForSequenceClassification", 91, write_logits, **wide)
    folder(out, "nomic_tagger", "nomic_bert", "ForTokenClassification", 92, write_logits, **wide, hidden_act="gelu", rope_parameters=linear)
    folder(out, "nomic_mask", "nomic_bert", "ForMaskedLM", 93, write_masked, dtype=bf16, type_vocab_size=2)
    folder(out, "nomic_encoder", "nomic_bert", "Model", 94, write_states, dtype=bf16, type_vocab_size=2)
    folder(out, "gte", "gte", "ForSequenceClassification", 95, write_logits, **three, type_vocab_size=0, hidden_act="gelu_new")
    folder(out, "gte_tagger", "gte", "ForTokenClassification", 96, write_logits, **three)
    folder(out, "gte_mask", "gte", "ForMaskedLM", 97, write_masked, dtype=bf16, hidden_act="relu")
    folder(out, "gte_encoder", "gte", "Model", 98, write_states, dtype=bf16, rope_parameters=linear)
    near = {**DEBERTA, "position_buckets": 8}
    far = {**DEBERTA, "position_buckets": -1, "max_relative_positions": 7, "norm_rel_ebd": "none", "type_vocab_size": 2}
    folder(out, "deberta", "deberta-v2", "ForSequenceClassification", 101, write_logits, **three, **near, pooler_hidden_act="relu")
    folder(out, "deberta_tagger", "deberta-v2", "ForTokenClassification", 102, write_logits, **three, **far)
    folder(out, "deberta_question", "deberta-v2", "ForQuestionAnswering", 103, write_span, dtype=bf16, **near)
    folder(out, "deberta_mask", "deberta-v2", "ForMaskedLM", 104, write_masked, dtype=bf16, **far, hidden_act="gelu_new")
    folder(out, "deberta_encoder", "deberta-v2", "Model", 105, write_states, dtype=bf16, **near)
    golden.write(out, "models/relatives.txt", f"golden-relatives.py (transformers {transformers.__version__})")


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    write_roberta()
    write_relatives()


if __name__ == "__main__":
    main()
