"""Writes a folder below DIR for each case: a classifier of transformers on a BERT or a relative with random weights.

    bench/peers/bert_folders.py DIR --vocab FILE [--base-only]

Needs torch and transformers.
"""

import argparse
import os
from dataclasses import dataclass, field

import torch
import transformers
from transformers import AutoModelForSequenceClassification, BertTokenizer
from transformers.utils import logging

logging.disable_progress_bar()

CLASSES = {  # the beginning of the names of each model_type's classes
    "bert": "Bert",
    "distilbert": "DistilBert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "mpnet": "MPNet",
    "electra": "Electra",
    "albert": "Albert",
    "modernbert": "ModernBert",
    "nomic_bert": "NomicBert",
    "gte": "Gte",
    "deberta-v2": "DebertaV2",
}
LIKE_BERT = [family for family in CLASSES if family != "distilbert"]
SIZES = {  # the names of the sizes in each configuration
    **dict.fromkeys(LIKE_BERT, ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act")),
    "distilbert": ("dim", "n_layers", "n_heads", "hidden_dim", "activation"),
    "modernbert": ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_activation"),
}
DROPOUTS = {
    **dict.fromkeys(LIKE_BERT, ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")),
    "mpnet": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "deberta-v2": ("hidden_dropout_prob", "attention_probs_dropout_prob"),  # and "cls_dropout", which is the first if it is absent
    "albert": ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"),
    "distilbert": ("dropout", "attention_dropout", "seq_classif_dropout"),
    "modernbert": ("embedding_dropout", "attention_dropout", "mlp_dropout", "classifier_dropout"),
}


def class_of(family, part):
    """Returns a class of transformers, such as BertConfig."""
    return getattr(transformers, CLASSES[family] + part)


def has_pooler(family):
    """Returns whether the encoder without a head has a pooler that can be left out."""
    return family not in ("distilbert", "electra", "modernbert", "nomic_bert", "gte", "deberta-v2")


@dataclass
class Case:
    """A classifier. The defaults are the sizes of bert-base-uncased."""

    name: str
    family: str = "bert"
    width: int = 768
    layers: int = 12
    heads: int = 12
    ff_width: int = 3072
    activation: str = "gelu"
    classes: int = 2
    extra: dict = field(default_factory=dict)  # further members of the configuration

    def config(self):
        sizes = (self.width, self.layers, self.heads, self.ff_width, self.activation)
        named = dict(zip(SIZES[self.family], sizes))
        return class_of(self.family, "Config")(**named, num_labels=self.classes, **self.extra)

    def has_types(self):
        """Returns whether the model has two token types, such as those of a pair."""
        return getattr(self.config(), "type_vocab_size", 1) > 1


BERT_BASE = Case("bert-base")
DISTILBERT_BASE = Case("distilbert-base", "distilbert", layers=6)
BEHIND_PADDING = {"max_position_embeddings": 514}  # for 512 tokens, because positions count from the row behind that of the padding
MODERN = {"vocab_size": 30522, **{f"{name}_token_id": i for name, i in (("pad", 0), ("cls", 101), ("bos", 101), ("sep", 102), ("eos", 102))}}
DEBERTA = {  # as in deberta-v3-base
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "type_vocab_size": 0,
}
RELATIVES_BASE = [
    Case("roberta-base", "roberta", extra={**BEHIND_PADDING, "type_vocab_size": 1}),
    Case("mpnet-base", "mpnet", extra=BEHIND_PADDING),
    Case("electra-base", "electra", extra={"embedding_size": 768}),
    Case("albert-base", "albert", activation="gelu_new", extra={"vocab_size": 30522}),
    Case("modernbert-base", "modernbert", layers=22, ff_width=1152, extra=MODERN),
    Case("nomic-base", "nomic_bert", activation="silu"),
    Case("gte-base", "gte", extra={"vocab_size": 30528, "pad_token_id": 0}),
    Case("deberta-base", "deberta-v2", extra={**DEBERTA, "vocab_size": 30522}),
]
BASE = [BERT_BASE, DISTILBERT_BASE]
ODD = [
    Case("bert-33x3", "bert", 33, 2, 3, 77, classes=5),
    Case("bert-8x1", "bert", 8, 1, 1, 5, classes=3),
    Case("bert-48x4", "bert", 48, 3, 4, 96, "gelu_new", extra={"layer_norm_eps": 1e-5, "type_vocab_size": 4}),
    Case("bert-130x13", "bert", 130, 3, 13, 261, "relu", classes=7, extra={"type_vocab_size": 1}),
    Case("bert-312x12", "bert", 312, 4, 12, 1200),
    Case("distilbert-33x3", "distilbert", 33, 3, 3, 19, classes=4),
    Case("distilbert-20x5", "distilbert", 20, 2, 5, 7, "relu", extra={"sinusoidal_pos_embds": True}),
    Case("distilbert-128x2", "distilbert", 128, 2, 2, 512, classes=11),
]
RELATIVES_ODD = [
    Case("roberta-33x3", "roberta", 33, 2, 3, 77, extra={**BEHIND_PADDING, "type_vocab_size": 1}),
    Case("xlm-roberta-130x13", "xlm-roberta", 130, 3, 13, 261, "relu", extra={**BEHIND_PADDING, "type_vocab_size": 1}),
    Case("mpnet-33x3", "mpnet", 33, 2, 3, 77, classes=5, extra=BEHIND_PADDING),
    Case("mpnet-128x2", "mpnet", 128, 3, 2, 512, "relu", extra={**BEHIND_PADDING, "layer_norm_eps": 1e-5}),
    Case("electra-48x4", "electra", 48, 3, 4, 96, extra={"embedding_size": 17}),
    Case("electra-20x5", "electra", 20, 2, 5, 7, "gelu_new", extra={"embedding_size": 20}),
    Case("albert-33x3", "albert", 33, 5, 3, 77, "gelu_new", extra={"vocab_size": 30522, "embedding_size": 12, "num_hidden_groups": 2, "inner_group_num": 2}),
    Case("albert-128x2", "albert", 128, 3, 2, 512, "relu", extra={"vocab_size": 30522, "embedding_size": 128}),
    Case("modernbert-36x3", "modernbert", 36, 5, 3, 77, extra={**MODERN, "local_attention": 10}),
    Case("modernbert-128x2", "modernbert", 128, 4, 2, 192, "silu", extra={**MODERN, "classifier_pooling": "mean", "norm_bias": True}),
    Case("nomic-36x3", "nomic_bert", 36, 3, 3, 77, "silu"),
    Case("gte-128x2", "gte", 128, 3, 2, 192, extra={"vocab_size": 30522, "pad_token_id": 0}),
    Case("deberta-33x3", "deberta-v2", 33, 3, 3, 77, extra={**DEBERTA, "vocab_size": 30522, "position_buckets": 16}),
]


@torch.no_grad()
def draw(model, width):
    """Draws all weights with a larger deviation than transformers does, so that logits and attention differ between texts."""
    for name, p in model.named_parameters():
        is_gain = "norm" in name.lower() and name.endswith("weight")
        p.normal_(1.0 if is_gain else 0.0, 0.1 if p.dim() == 1 else width**-0.5)


def make_folder(folder, case, vocab, seed=1, wide=True):
    """Writes the case's classifier and the tokenizer. Returns the folder. The weights are from draw() if `wide`, else transformers' own."""
    torch.manual_seed(seed)
    model = class_of(case.family, "ForSequenceClassification")(case.config())
    if wide:
        draw(model, case.width)
    model.save_pretrained(folder)
    BertTokenizer(vocab=vocab).save_pretrained(folder)
    return folder


def load_classifier(folder, family="bert", dropout=None, **options):
    """Returns the classifier in evaluation mode. `dropout` replaces every dropout probability."""
    chosen = {} if dropout is None else dict.fromkeys(DROPOUTS[family], dropout)
    return AutoModelForSequenceClassification.from_pretrained(folder, **chosen, **options).eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--vocab", required=True, help="uncased BERT vocabulary")
    parser.add_argument("--base-only", action="store_true")
    options = parser.parse_args()
    for case in BASE if options.base_only else [*BASE, *ODD]:
        print(make_folder(os.path.join(options.folder, case.name), case, options.vocab))


if __name__ == "__main__":
    main()
