"""Checks of the options, before anything is measured."""

import importlib.util
import os
import sys
import tempfile

from .measure import BASE, HEDDLE
from .programs import Data


class BadInput(Exception):
    """An option that cannot be used. The text is one sentence."""


def check_data(folder):
    """Returns the files of --data."""
    if not folder.is_dir():
        raise BadInput(f"--data {folder}: the folder does not exist")
    data = Data(folder)
    for path in (data.train, data.dev, data.vocab):
        if not path.is_file() or not os.access(path, os.R_OK):
            raise BadInput(f"--data {folder}: {path.relative_to(folder)} is not a readable file there")
    return data


def check_build(option, folder, programs):
    if not folder.is_dir():
        raise BadInput(f"{option} {folder}: the folder does not exist; {HOW_TO_BUILD}")
    for program in programs:
        path = folder / program
        if not path.exists():
            raise BadInput(f"{option} {folder}: {program} is missing; {HOW_TO_BUILD}")
        if not path.is_file() or not os.access(path, os.X_OK):
            raise BadInput(f"{option} {folder}: {program} is not an executable file")


HOW_TO_BUILD = "build heddle with cmake --preset release && cmake --build --preset release"


def check_modules(data):
    """Checks that this Python has the modules that bench/peers needs."""
    needed = {"torch": "use --no-torch"}
    if data:
        needed.update(dict.fromkeys(("tokenizers", "safetensors"), "leave out --data"))
    for module, otherwise in needed.items():
        if not importlib.util.find_spec(module):
            raise BadInput(f"{sys.executable} has no module {module}; install it or {otherwise}")


def check_out(folder):
    """Checks that files can be written to the folder. Creates the folder if necessary."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder}: this is not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadInput(f"--out {folder}: no file can be written there ({error.strerror})") from error


def check_plan(plan, options):
    """Checks that there are rows, and that the builds have their programs."""
    if not plan.rows:
        hints = ["rows of sst2 need --data"] if not options.data else []
        hints += ["--quick leaves out the slowest rows"] if options.quick else []
        hint = f" ({'; '.join(hints)})" if hints else ""
        raise BadInput(f"--filter {options.filter}: no row has a name that contains this text{hint}")
    for side, option, build in ((HEDDLE, "--build", options.build), (BASE, "--against", options.against)):
        if build:
            check_build(option, build, sorted({row.program for row in plan.rows if side in row.sides}))
    stale = [row.name for row in plan.table if HEDDLE not in row.sides]
    if stale:
        raise BadInput(f"--build {options.build}: bench/ops lacks {stale[0]}, which bench/peers/ops.py has; build it again")
