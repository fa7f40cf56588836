"""Common parts of the peers' training programs: padded batches, the loop, its metrics, files of weights, common flags."""

import json
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


def collate(texts):
    """Returns ids [B, T], padded with 0 to the longest text of the batch, and a mask [B, T] that is true at real tokens."""
    lengths = torch.tensor([len(ids) for ids in texts])
    longest = int(lengths.max())
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in texts], dtype=torch.long)
    return ids, torch.arange(longest) < lengths[:, None]


@dataclass
class Rows:
    """An encoded split."""

    texts: list  # a list of ids for each text
    labels: torch.Tensor  # [N]
    own_tokens: int = 0  # tokens that the model itself adds to each text

    def batch(self, rows):
        return *collate([self.texts[r] for r in rows]), self.labels[rows]

    def batches(self, size, generator=None, drop_last=False):
        """Returns lists of row numbers: shuffled if a generator is given, else in file order."""
        count = len(self.texts)
        order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
        parts = [part.tolist() for part in order.split(size)]
        return [part for part in parts if len(part) == size] if drop_last else parts


def load_weights(model, path):
    """Copies the tensors of a safetensors file into the model, in the model's precision."""
    weights = load_file(path)
    model.load_state_dict({name: tensor.to(next(model.parameters()).dtype) for name, tensor in weights.items()})


@torch.inference_mode()
def evaluate(model, rows, batch_size=256):
    """Returns loss, accuracy, precision and recall, as in the program's metrics.

    Precision and recall are those of class 1 for two classes, and macro averages for more.
    """
    model.eval()
    loss, counts = 0.0, 0
    for batch in rows.batches(batch_size):
        ids, real, labels = rows.batch(batch)
        logits = model(ids, real)
        loss += F.cross_entropy(logits, labels, reduction="sum").item()
        classes = logits.shape[-1]
        counts += (labels * classes + logits.argmax(-1)).bincount(minlength=classes**2)  # [label, prediction], flat
    model.train()
    counts = counts.view(classes, classes).double()
    positive = slice(1, 2) if classes == 2 else slice(None)
    ratio = lambda part, whole: (part / whole.clamp(min=1))[positive].mean().item()  # noqa: E731
    return {
        "loss": loss / len(rows.texts),
        "accuracy": counts.trace().item() / len(rows.texts),
        "precision": ratio(counts.diagonal(), counts.sum(0)),
        "recall": ratio(counts.diagonal(), counts.sum(1)),
    }


def report_final(model, splits, report, batch_size=256):
    """Reports the metrics of every split with the model's current weights. `splits` maps names to rows."""
    for name, rows in splits.items():
        report({"final": True, "split": name, **evaluate(model, rows, batch_size)})


def train(
    model,
    rows,
    *,
    lr=1e-3,
    batch_size=32,
    epochs=4,
    steps=None,
    shuffle_seed=None,
    drop_last=False,
    valid=None,
    evaluation_batch=256,
    make_optimizer=torch.optim.Adam,
    factor=lambda step: 1.0,
    report=print,
):
    """Minimizes cross-entropy, with Adam unless make_optimizer is given. `report` receives the metrics of steps and epochs.

    A seed shuffles the rows; None keeps file order. Parameters that require no gradient are left alone. The learning rate of
    step k, counted from 0, is lr * factor(k).
    """
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad], lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    generator = None if shuffle_seed is None else torch.Generator().manual_seed(shuffle_seed)
    model.train()
    step = 0
    for epoch in range(epochs):
        started, total, seen = time.perf_counter(), 0.0, 0
        for batch in rows.batches(batch_size, generator, drop_last):
            if steps is not None and step == steps:
                break
            step_started = time.perf_counter()
            ids, real, labels = rows.batch(batch)
            loss = F.cross_entropy(model(ids, real), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            rate = schedule.get_last_lr()[0]
            schedule.step()
            step += 1
            value = loss.item()
            report(
                {
                    "step": step,
                    "loss": value,
                    "lr": rate,
                    "tokens": int(real.sum()) + rows.own_tokens * len(batch),
                    "seconds": time.perf_counter() - step_started,
                }
            )
            total, seen = total + value * len(batch), seen + len(batch)
        if not seen:
            break
        if valid is not None:
            figures = evaluate(model, valid, evaluation_batch)
            figures = {"train_loss": total / seen, "valid_loss": figures.pop("loss"), **figures}
            report({"epoch": epoch, **figures, "seconds": time.perf_counter() - started})


def add_training_flags(parser, *, epochs, batch_size, lr):
    """Adds the flags that every program has, with these defaults."""
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--steps", type=int, help="stop after this many steps")
    parser.add_argument("--batch-size", type=int, default=batch_size)
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", choices=["shuffled", "sequential"], default="shuffled")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--init", help="weights to start from (safetensors)")
    parser.add_argument("--save", help="file for the final weights (safetensors)")


def begin(flags):
    """Sets threads and seed. Call it before the model is made."""
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)


def prepare(model, flags):
    """Returns the model in the precision of --dtype, with the weights of --init."""
    model = model.to(getattr(torch, flags.dtype))
    if flags.init:
        load_weights(model, flags.init)
    return model


def training_arguments(flags):
    """Returns the flags as arguments of train()."""
    return {
        "lr": flags.lr,
        "batch_size": flags.batch_size,
        "epochs": flags.epochs,
        "steps": flags.steps,
        "shuffle_seed": flags.seed if flags.order == "shuffled" else None,
        "report": print_json,
    }


def print_json(figures):
    print(json.dumps(figures), flush=True)


def save_weights(model, path):
    save_file(model.state_dict(), path)
