#!/usr/bin/env python3
"""Compares fine-tuning in heddle with transformers and sentence-transformers: 50 steps of AdamW for each head and loss, dropout 0.

    bench/peers/training_compare.py --program build/release/bench/training_program [--only CASE...] [--seeds N]

The models have random weights, two layers and odd sizes. The losses of all steps and the final weights are compared with those of PyTorch
in float64: errors are relative root mean squares. The largest of heddle's double over some models must be at most 1e-9, and the median of
its float at most twice that of PyTorch's float32. Prints a table; exit code 1 if a bound is exceeded. Needs torch, transformers and
sentence-transformers.

Adam divides a gradient by its size, so it scales rounding errors of a gradient that cancels to 0 up to whole steps:
- Idle weights, such as the biases of keys, do not change the loss, and the exact gradients are 0. Their values in float are arbitrary. The
  table has them apart, and the bound of float does not apply to them.
- A single element may have a first gradient near eps by chance, and then dominates the error of the model, in heddle or in PyTorch.
  So the bound is for the median over several models.

The logits of an answer at padding are excluded, as heddle has none; transformers includes them.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
import transformers
from bert_folders import DEBERTA, DROPOUTS, Case, class_of, draw, has_pooler
from exact_float64 import exact_float64
from safetensors.torch import load_file
from sentence_transformers.sentence_transformer import losses as sentence_losses

STEPS, LR, DECAY = 50, 1e-3, 0.01
VOCABULARY, POSITIONS = 211, 40
CLASSES, SEPARATOR, MASK = 101, 102, 103  # ids of [CLS], [SEP] and [MASK]; that of [PAD] is 0
IGNORED = -100
DOUBLE_BOUND, FLOAT_FACTOR = 1e-9, 2
ROUNDING = 1e-12  # of the largest gradient of a model in float64: gradients below are 0 but for rounding errors
SIZES = {"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS}


def quiet_case(family, *sizes, **extra):
    """Returns a case without dropout."""
    return Case(family, family, *sizes, extra={**SIZES, **dict.fromkeys(DROPOUTS[family], 0.0), **extra})


BERT = quiet_case("bert", 33, 2, 3, 77)
DISTILBERT = quiet_case("distilbert", 35, 2, 5, 51, qa_dropout=0.0)
# Some texts have a 1 inside, the padding of RoBERTa and MPNet, which is left out when positions are counted.
ROBERTA = quiet_case("roberta", 33, 2, 3, 77, type_vocab_size=1)
CAMEMBERT = quiet_case("camembert", 35, 2, 5, 51, type_vocab_size=1)
XLM_ROBERTA = quiet_case("xlm-roberta", 33, 2, 3, 77, "relu", type_vocab_size=2)
MPNET = quiet_case("mpnet", 33, 2, 3, 77)
ELECTRA = quiet_case("electra", 35, 2, 5, 51, embedding_size=18)
MODERNBERT = quiet_case("modernbert", 36, 4, 3, 77, local_attention=8, **{f"{name}_token_id": 0 for name in ("pad", "cls", "bos", "sep", "eos")})
ALBERT = quiet_case("albert", 33, 4, 3, 77, "gelu_new", embedding_size=18, num_hidden_groups=2)
NOMIC = quiet_case("nomic_bert", 36, 3, 3, 77, "silu")
GTE = quiet_case("gte", 36, 3, 3, 77, pad_token_id=0)
DEBERTA_V3 = quiet_case("deberta-v2", 33, 3, 3, 77, **{**DEBERTA, "position_buckets": 8})
RELATIVES = {
    "MPNet": MPNET,
    "ELECTRA": ELECTRA,
    "ALBERT": ALBERT,
    "ModernBERT": MODERNBERT,
    "NomicBERT": NOMIC,
    "GTE": GTE,
    "DeBERTa": DEBERTA_V3,
}
HEADS = {"texts": "ForSequenceClassification", "tokens": "ForTokenClassification", "masks": "ForMaskedLM", "vectors": "Model"}


@dataclass
class Training:
    """A model and its loss. `settings` are further members of the file that the program reads."""

    name: str
    model: str
    loss: str
    base: Case = field(default_factory=lambda: BERT)
    outputs: int = 2
    texts: int = 7  # of a batch
    columns: int = 1  # texts of an example that are encoded apart
    settings: dict = field(default_factory=dict)

    def architecture(self):
        head = "ForQuestionAnswering" if self.loss == "answers" else HEADS[self.model]
        return class_of(self.base.family, head)


RANKING = {"temperature": 0.05}
TRAININGS = [
    Training("classes", "texts", "classes", outputs=5),
    Training("classes, DistilBERT", "texts", "classes", DISTILBERT, outputs=5),
    Training("label sets", "texts", "label_sets", outputs=6),
    Training("label sets, pos_weight", "texts", "label_sets", outputs=3, settings={"pos_weight": [2.5, 0.75, 7.0]}),
    Training("values", "texts", "regression", outputs=2),
    Training("pairs", "texts", "pair", outputs=1),
    Training("words", "tokens", "labels", outputs=7),
    Training("words, DistilBERT", "tokens", "labels", DISTILBERT, outputs=7),
    Training("answers", "tokens", "answers"),
    Training("masks", "masks", "masks"),
    Training("in-batch negatives", "vectors", "ranking", columns=2, texts=9, settings=RANKING),
    Training("with hard negatives", "vectors", "ranking", columns=3, texts=5, settings=RANKING),
    Training("cached, 4 parts", "vectors", "cached_ranking", columns=2, texts=9, settings={**RANKING, "parts": 4}),
    Training("triplets, Euclid", "vectors", "triplet", columns=3, settings={"distance": "euclidean", "margin": 0.25}),
    Training("triplets, cosine", "vectors", "triplet", columns=3, settings={"distance": "cosine", "margin": 0.01}),
    Training("cosines", "vectors", "cosine", columns=2),
    Training("classes, RoBERTa", "texts", "classes", ROBERTA, outputs=5),
    Training("pairs, XLM-RoBERTa", "texts", "pair", XLM_ROBERTA, outputs=1),
    Training("words, CamemBERT", "tokens", "labels", CAMEMBERT, outputs=7),
    Training("answers, XLM-RoBERTa", "tokens", "answers", XLM_ROBERTA),
    Training("masks, RoBERTa", "masks", "masks", ROBERTA),
    Training("negatives, XLM-RoBERTa", "vectors", "ranking", XLM_ROBERTA, columns=2, texts=9, settings=RANKING),
    *(
        one
        for name, base in RELATIVES.items()
        for one in (
            Training(f"classes, {name}", "texts", "classes", base, outputs=5),
            Training(f"words, {name}", "tokens", "labels", base, outputs=7),
            Training(f"answers, {name}", "tokens", "answers", base),
            Training(f"masks, {name}", "masks", "masks", base),
            Training(f"negatives, {name}", "vectors", "ranking", base, columns=2, texts=9, settings=RANKING),
        )
        if one.loss != "answers" or name not in ("NomicBERT", "GTE")  # transformers has no such heads
    ),
]


def make_model(training, folder, seed):
    torch.manual_seed(seed)
    config = replace(training.base, classes=training.outputs).config()
    options = {"add_pooling_layer": False} if training.model == "vectors" and has_pooler(training.base.family) else {}
    model = training.architecture()(config, **options)
    draw(model, training.base.width)
    model.save_pretrained(folder)


def load_model(training, folder, dtype):
    options = {"add_pooling_layer": False} if training.model == "vectors" and has_pooler(training.base.family) else {}
    return training.architecture().from_pretrained(folder, dtype=dtype, **options).train()


# Targets are multiples of 1/64, because sentence-transformers casts them to float32.
def draw_step(training, numbers):
    """Returns a batch of texts of 3 to 23 tokens, with its targets."""

    def fraction(low, high):
        return numbers.randrange(64 * low, 64 * high + 1) / 64

    def text():
        words = [numbers.choice([numbers.randrange(1, 30), numbers.randrange(104, VOCABULARY)]) for _ in range(numbers.randrange(1, 22))]
        return [CLASSES, *words, SEPARATOR]

    columns = [[text() for _ in range(training.texts)] for _ in range(training.columns)]
    texts, step = columns[0], {"texts": columns}
    if training.loss == "classes":
        step["labels"] = [numbers.randrange(training.outputs) for _ in texts]
    elif training.loss == "label_sets":
        step["targets"] = [[numbers.randrange(2) for _ in range(training.outputs)] for _ in texts]
    elif training.loss == "regression":
        step["targets"] = [[fraction(-2, 2) for _ in range(training.outputs)] for _ in texts]
    elif training.loss == "pair":
        step["targets"] = [fraction(0, 1) for _ in texts]
    elif training.loss == "cosine":
        step["targets"] = [fraction(-1, 1) for _ in texts]
    elif training.loss == "labels":  # words have one to three pieces, of which the first has a label
        step["labels"] = []
        for one in texts:
            labels = [IGNORED if numbers.random() < 0.4 else numbers.randrange(training.outputs) for _ in one]
            step["labels"] += [IGNORED, *labels[1:-1], IGNORED]
        step["labels"][1] = 0  # a batch has at least one word
    elif training.loss == "answers":
        spans = [sorted(numbers.randrange(len(one)) for _ in range(2)) for one in texts]
        step["starts"], step["ends"] = ([span[i] for span in spans] for i in range(2))
    elif training.loss == "masks":
        step["rows"], step["labels"], row = [], [], 0
        for one in texts:
            for place in range(len(one)):
                if 0 < place < len(one) - 1 and (numbers.random() < 0.2 or not step["rows"]):
                    step["rows"].append(row)
                    step["labels"].append(one[place])
                    one[place] = MASK
                row += 1
    if training.loss in ("pair", "answers") and training.base.has_types():  # the second text begins anywhere after [CLS]
        cuts = [numbers.randrange(1, len(one)) for one in texts]
        step["types"] = [[int(place >= cut) for place in range(len(one))] for one, cut in zip(texts, cuts)]
    return step


def padded(lists):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in lists], batch_first=True)


def run_model(model, texts, types=None):
    mask = padded([[1] * len(one) for one in texts])
    inputs = {"input_ids": padded(texts), "attention_mask": mask}
    if types:
        inputs["token_type_ids"] = padded(types)
    return model(**inputs), mask.bool()


def vectors_of(model, texts):
    """Returns the mean of the rows of each text, as in sentence-transformers' Pooling."""
    output, mask = run_model(model, texts)
    weights = mask.unsqueeze(-1).to(output.last_hidden_state.dtype)
    return (output.last_hidden_state * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def loss_of_vectors(training, vectors, targets):
    metrics = sentence_losses.TripletDistanceMetric
    if training.loss == "triplet":
        metric = metrics.COSINE if training.settings["distance"] == "cosine" else metrics.EUCLIDEAN
        loss = sentence_losses.TripletLoss(None, metric, training.settings["margin"])
    elif training.loss == "cosine":
        loss = sentence_losses.CosineSimilarityLoss(None)
    else:
        loss = sentence_losses.MultipleNegativesRankingLoss(None, scale=1 / training.settings["temperature"])
    return loss.compute_loss_from_embeddings(vectors, targets)


# transformers computes the losses of words and masks in float32, even for a model in float64. So the losses that follow
# are its formulas, and check_losses() compares them with its own losses in float32.
def loss_of(training, model, step, dtype):
    """Returns the loss of a batch."""
    targets = torch.tensor(step["targets"], dtype=dtype) if "targets" in step else None
    if training.model == "vectors":
        return loss_of_vectors(training, [vectors_of(model, texts) for texts in step["texts"]], targets)
    output, mask = run_model(model, step["texts"][0], step.get("types"))
    if training.loss == "answers":
        parts = [
            F.cross_entropy(logits.masked_fill(~mask, -torch.inf), torch.tensor(step[key]))
            for logits, key in ((output.start_logits, "starts"), (output.end_logits, "ends"))
        ]
        return (parts[0] + parts[1]) / 2
    logits = output.logits
    if training.loss == "classes":
        return F.cross_entropy(logits, torch.tensor(step["labels"]))
    if training.loss == "regression":
        return F.mse_loss(logits, targets)
    if training.loss == "pair":
        return F.binary_cross_entropy_with_logits(logits.view(-1), targets)
    if training.loss == "label_sets":
        weights = training.settings.get("pos_weight")
        weights = torch.tensor(weights, dtype=dtype) if weights else None
        return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)
    return F.cross_entropy(logits.flatten(0, 1), labels_of_tokens(step).flatten())


def labels_of_tokens(step):
    """Returns the labels of all tokens of a padded batch [B, T]."""
    lengths = [len(one) for one in step["texts"][0]]
    labels = torch.full((sum(lengths),), IGNORED)
    labels[torch.tensor(step.get("rows", range(sum(lengths))))] = torch.tensor(step["labels"])
    return torch.nn.utils.rnn.pad_sequence(labels.split(lengths), batch_first=True, padding_value=IGNORED)


def check_losses(training, folder, step):
    """Compares the loss of a batch with the one that transformers returns, where it has the same."""
    if training.model == "vectors" or training.loss == "pair" or "pos_weight" in training.settings:
        return
    model, texts = load_model(training, folder, torch.float32), step["texts"][0]
    if training.loss == "answers":  # without padding
        step = {key: [one[0]] for key, one in step.items() if key != "texts"} | {"texts": [texts[:1]]}
        labels = {"start_positions": torch.tensor(step["starts"]), "end_positions": torch.tensor(step["ends"])}
    elif training.model in ("tokens", "masks"):
        labels = {"labels": labels_of_tokens(step)}
    else:
        labels = {"labels": torch.tensor(step["labels"]) if "labels" in step else torch.tensor(step["targets"], dtype=torch.float32)}
    model.config.problem_type = {"label_sets": "multi_label_classification", "regression": "regression"}.get(training.loss)
    expected = run_model(lambda **inputs: model(**inputs, **labels), step["texts"][0], step.get("types"))[0].loss
    found = loss_of(training, model, step, torch.float32)
    assert torch.allclose(found, expected, rtol=1e-6), f"{training.name}: loss {found}, transformers' is {expected}"


def stored_weights(model, folder):
    """Returns the weights by the names that transformers stores, which may join several of the model's tensors."""
    path = os.path.join(folder, "stored")
    model.save_pretrained(path)
    return {name: x.double() for name, x in load_file(os.path.join(path, "model.safetensors")).items()}


def train(training, folder, steps, dtype):
    """Returns the losses, the final weights by stored name, and which elements of them are idle."""
    model = load_model(training, folder, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY)
    found, largest = [], dict.fromkeys((name for name, _ in model.named_parameters()), 0.0)
    for step in steps:
        optimizer.zero_grad()
        with exact_float64(dtype):
            loss = loss_of(training, model, step, dtype)
        loss.backward()
        for name, x in model.named_parameters():
            largest[name] = max(largest[name], x.grad.abs().max().item())
        optimizer.step()
        found.append(loss.item())
    weights = stored_weights(model, folder)
    for name, x in model.named_parameters():
        x.data.fill_(largest[name])
    gradients = stored_weights(model, folder)
    idle = {name: x < ROUNDING * max(largest.values()) for name, x in gradients.items()}
    return torch.tensor(found, dtype=torch.float64), weights, idle


def heddle(program, folder, job, precision):
    weights = os.path.join(folder, f"{precision}.trained")
    run = subprocess.run([program, job, folder, weights, "--precision", precision], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    found = torch.tensor(json.loads(run.stdout)["losses"], dtype=torch.float64)
    return found, {name: x.double() for name, x in load_file(weights).items()}


def errors(found, exact):
    """Returns the relative errors of the losses and of the weights, and those of the idle weights, relative to all weights."""
    losses, weights, idle = exact
    all_weights = sum(x.square().sum() for x in weights.values())
    of_weights = [
        sum((found[1][name] - x)[idle[name] == is_idle].square().sum() for name, x in weights.items()) / all_weights
        for is_idle in (False, True)
    ]
    return torch.stack([(found[0] - losses).square().sum() / losses.square().sum(), *of_weights]).sqrt()


def compare(options, training, seed, folder):
    """Trains a model four times. Returns errors() for each of heddle's double, its float and PyTorch's float32, [3, 3]."""
    os.makedirs(folder)
    make_model(training, folder, seed)
    numbers = random.Random(seed)
    steps = [draw_step(training, numbers) for _ in range(STEPS)]
    check_losses(training, folder, steps[0])
    job = os.path.join(folder, "job.json")
    with open(job, "w", encoding="utf-8") as file:
        json.dump({"model": training.model, "loss": training.loss, "lr": LR, "weight_decay": DECAY, **training.settings, "steps": steps}, file)
    exact = train(training, folder, steps, torch.float64)
    plain = train(training, folder, steps, torch.float32)
    own = [heddle(options.program, folder, job, precision) for precision in ("double", "float")]
    missing = exact[1].keys() - own[0][1].keys()
    assert not missing, f"{training.name}: heddle has not written {missing}"
    if options.verbose:
        for name, x in sorted(exact[1].items()):
            of = [((one[1][name] - x).norm() / x.norm()).item() for one in (*own, plain)]
            print(f"  {name:60} double {of[0]:.1e}, float {of[1]:.1e}, PyTorch {of[2]:.1e}")
        print(f"  losses {exact[0][0]:.4f}, {exact[0][1]:.4f}, … {exact[0][-1]:.4f}")
    return torch.stack([errors(one, exact) for one in (*own, plain)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", nargs="+", choices=[training.name for training in TRAININGS], metavar="CASE")
    parser.add_argument("--seeds", type=int, default=5, help="models of each case")
    parser.add_argument("--verbose", action="store_true", help="also print the errors of each weight")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    good = True
    titles = [f"{of}: double, float, PyTorch, ratio" for of in ("losses", "weights", "idle weights")]
    print(f"{'':24} | " + " | ".join(f"{title:45}" for title in titles))
    with tempfile.TemporaryDirectory() as temporary:
        for number, training in enumerate(TRAININGS):
            if options.only and training.name not in options.only:
                continue
            begin = time.monotonic()
            found = [compare(options, training, seed, os.path.join(temporary, f"{number}-{seed}")) for seed in range(1, options.seeds + 1)]
            of_double = torch.stack([one[0] for one in found]).amax(0)
            of_float, of_torch = (torch.stack([one[i] for one in found]).median(0).values for i in (1, 2))
            one = bool((of_double <= DOUBLE_BOUND).all() and (of_float <= FLOAT_FACTOR * of_torch)[:2].all())
            columns = torch.stack([of_double, of_float, of_torch]).T.tolist()  # [3, 3]: losses, weights and idle weights
            cells = [
                f"{of[0]:.1e}, {of[1]:.2e}, {of[2]:.2e}, {of[1] / of[2]:.2f}" if of[2] > 0 else "none"  # a model without idle weights
                for of in columns
            ]
            seconds = time.monotonic() - begin
            print(f"{training.name:24} | {' | '.join(f'{cell:45}' for cell in cells)} | {'ok' if one else 'FAILED'}, {seconds:.0f} s", flush=True)
            good = good and one
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
