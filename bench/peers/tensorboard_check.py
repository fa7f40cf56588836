#!/usr/bin/env python3
"""Reads a folder of event files with TensorBoard's own readers, and checks the properties that heddle guarantees:

    bench/peers/tensorboard_check.py FOLDER

 records     every file consists of whole records with valid checksums
 steps       the steps of a tag increase, and none appears twice, even if a run was resumed
 continuing  TensorBoard drops no event because of a restart: a resumed run removed the events after its checkpoint from the files
 values      images decode to their stated size, histograms count all of their values, texts are UTF-8
 warnings    TensorBoard logs none

Prints the tags with their numbers of events. Exit code 1 when a check fails. Needs tensorboard and pillow.
"""

import argparse
import io
import logging
import os
import struct
import sys
import warnings

from PIL import Image
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.util import tb_logging

EVERYTHING = 0  # a size_guidance of 0 keeps all events
KINDS = ("scalars", "images", "histograms", "tensors")


class Failures(logging.Handler):
    """Collects what is wrong, including every warning that TensorBoard logs."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.sentences = []

    def emit(self, record):
        self.add(f"TensorBoard warns: {record.getMessage()}")

    def add(self, sentence):
        self.sentences.append(sentence)

    def require(self, holds, sentence):
        if not holds:
            self.add(sentence)


def check_records(path, failures):
    """Checks the records of one file; the readers below stop silently at a damaged one."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        head, length = data[at : at + 8], len(data) - at
        if length < 12:
            return failures.add(f"{path}: ends within a record at byte {at}")
        size, checksum = struct.unpack("<QI", data[at : at + 12])
        if checksum != masked_crc32c(head):
            return failures.add(f"{path}: wrong checksum of a length at byte {at}")
        if length < 16 + size:
            return failures.add(f"{path}: ends within a record at byte {at}")
        payload = data[at + 12 : at + 12 + size]
        if struct.unpack("<I", data[at + 12 + size : at + 16 + size])[0] != masked_crc32c(payload):
            return failures.add(f"{path}: wrong checksum of an event at byte {at}")
        at += 16 + size
    failures.require(data, f"{path}: is empty")


def read(folder, drops_orphans):
    guidance = {kind: EVERYTHING for kind in KINDS}
    reader = event_accumulator.EventAccumulator(folder, size_guidance=guidance, purge_orphaned_data=drops_orphans)
    return reader.Reload()


def events_of(reader, kind, tag):
    return {"scalars": reader.Scalars, "images": reader.Images, "histograms": reader.Histograms, "tensors": reader.Tensors}[
        kind
    ](tag)


def check_image(tag, event, failures):
    image = Image.open(io.BytesIO(event.encoded_image_string))
    image.load()
    failures.require(
        (image.size, image.mode) == ((event.width, event.height), "RGB"),
        f"{tag}, step {event.step}: expected an RGB image of {event.width} x {event.height}, "
        f"found {image.mode}, {image.width} x {image.height}",
    )


def check_histogram(tag, event, failures):
    value = event.histogram_value
    failures.require(
        sum(value.bucket) == value.num and len(value.bucket) == len(value.bucket_limit),
        f"{tag}, step {event.step}: the buckets do not count {value.num} values",
    )
    failures.require(
        list(value.bucket_limit) == sorted(value.bucket_limit), f"{tag}, step {event.step}: the limits of the buckets are not sorted"
    )


def check_text(tag, event, failures):
    try:
        [text] = event.tensor_proto.string_val
        text.decode("utf-8")
    except ValueError as error:
        failures.add(f"{tag}, step {event.step}: the event is not one UTF-8 text: {error}")


CHECKS = {"images": check_image, "histograms": check_histogram, "tensors": check_text}


def check_tag(kind, tag, events, failures):
    steps = [event.step for event in events]
    for before, after in zip(steps, steps[1:]):
        failures.require(before != after, f"{tag}: step {after} appears twice")
        failures.require(before <= after, f"{tag}: step {after} follows step {before}")
    if kind in CHECKS:
        for event in events:
            CHECKS[kind](tag, event, failures)
    print(f"{kind:<10} {tag:<40} {len(events):>7} events, steps {steps[0]} to {steps[-1]}")


def check_server(folder, counts, failures):
    """Reads the folder as TensorBoard's server does, which converts each event to a tensor with a plugin."""
    guidance = {"tensors": EVERYTHING}
    reader = plugin_event_accumulator.EventAccumulator(
        folder, tensor_size_guidance={name: EVERYTHING for name in ("scalars", "images", "histograms", "text")},
        size_guidance=guidance,
    ).Reload()
    plugins = {"scalars": "scalars", "images": "images", "histograms": "histograms", "tensors": "text"}
    for (kind, tag), count in counts.items():
        tags = reader.PluginTagToContent(plugins[kind]) if plugins[kind] in reader.ActivePlugins() else {}
        failures.require(tag in tags, f"{tag}: the server does not show it among its {plugins[kind]}")
        if tag in tags:
            shown = len(reader.Tensors(tag))
            failures.require(shown == count, f"{tag}: the server shows {shown} of {count} events")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help="the folder of one run")
    folder = parser.parse_args().folder
    failures = Failures()
    tb_logging.get_logger().addHandler(failures)
    warnings.simplefilter("error")

    names = sorted(name for name in os.listdir(folder) if "tfevents" in name)
    failures.require(names, f"{folder}: no event files")
    for name in names:
        check_records(os.path.join(folder, name), failures)

    reader, dropping = read(folder, False), read(folder, True)
    counts = {}
    for kind in KINDS:
        for tag in sorted(reader.Tags()[kind]):
            events = events_of(reader, kind, tag)
            counts[kind, tag] = len(events)
            check_tag(kind, tag, events, failures)
            kept = len(events_of(dropping, kind, tag)) if tag in dropping.Tags()[kind] else 0
            failures.require(kept == len(events), f"{tag}: TensorBoard drops {len(events) - kept} events at a restart")
    check_server(folder, counts, failures)

    for sentence in failures.sentences:
        print(f"FAILED: {sentence}")
    if not failures.sentences:
        print(f"ok: {sum(counts.values())} events in {len(names)} files")
    return 1 if failures.sentences else 0


if __name__ == "__main__":
    sys.exit(main())
