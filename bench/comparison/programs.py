"""The sides of the comparison. Methods of Heddle and Torch that measure the same work have the same name and return a Sample."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

THREADS = "2"
PEERS = Path(__file__).resolve().parent.parent / "peers"
PYTHON = sys.executable

# Runs a program, prints its peak memory in kilobytes, and ends with its exit code.
WITH_PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code if code >= 0 else 128 - code)
"""


class Failure(Exception):
    """A program did not deliver its figure. The text is one sentence."""


@dataclass(frozen=True)
class Sample:
    """One measurement: seconds and, if they are measured, a rate (value, unit) and the peak memory in kilobytes."""

    seconds: float
    rate: tuple = None
    peak: int = None


@dataclass(frozen=True)
class Effort:
    """The amount of work in one measurement.

    `seconds` is the minimum time for an operation, and `calls` the minimum number of calls in PyTorch. The training step is timed over
    `steps` steps on the first `train_rows` rows of SST-2, or on all rows if train_rows is None.
    """

    seconds: float
    calls: int
    steps: int
    train_rows: int = None

    def training_flags(self):
        return ["--steps", self.steps, "--valid-rows", 64, *(["--train-rows", self.train_rows] if self.train_rows else [])]


@dataclass(frozen=True)
class Data:
    """SST-2 and a vocabulary under the folder of --data."""

    folder: Path

    @property
    def sst2(self):
        return self.folder / "sst2"

    @property
    def train(self):
        return self.sst2 / "train.tsv"

    @property
    def dev(self):
        return self.sst2 / "dev.tsv"

    @property
    def vocab(self):
        return self.folder / "vocab/bert-base-cased-vocab.txt"

    def texts(self):
        return [line.split("\t")[0] for line in self.train.read_text(encoding="utf-8").split("\n")[1:-1]]

    def flags(self):
        return ["--data", self.sst2, "--vocab", self.vocab, "--threads", THREADS]


def start(command, **more):
    """Starts a program in its own session, so that stop() ends its children too."""
    more = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    try:
        return subprocess.Popen([str(word) for word in command], encoding="utf-8", start_new_session=True, **more)
    except OSError as error:
        raise Failure(f"{command[0]} cannot be started: {error.strerror}") from error


def stop(process):
    """Kills the program and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def failure(command, code, said):
    """Returns a Failure that names a failed program, its exit status and the last line of its standard error."""
    name = next(Path(word).name for word in command if word not in (PYTHON, "-c", WITH_PEAK))
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    lines = said.strip().splitlines()
    return Failure(f"{name} {how}" + (f": {lines[-1].strip()}" if lines else ""))


def run(*command, text=None, **environment):
    """Returns the standard output of a program. Raises Failure if it ends with an error."""
    process = start(command, env={**os.environ, **environment})
    try:
        out, said = process.communicate(text)
    except BaseException:
        stop(process)
        raise
    if process.returncode:
        raise failure(command, process.returncode, said)
    return out


def run_with_peak(*command):
    """Returns the lines that a program prints, and its peak memory in kilobytes."""
    lines = run(PYTHON, "-c", WITH_PEAK, *command).splitlines()
    return lines[:-1], int(lines[-1])


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def median_step(metrics):
    """Returns the median time of the steps in lines of metrics, without the first tenth of them."""
    steps = [entry["seconds"] for entry in map(json.loads, metrics) if "step" in entry]
    if not steps:
        raise Failure("the training reported no step")
    return Sample(statistics.median(steps[len(steps) // 10 :]))


def median_of_3(call):
    return Sample(statistics.median(seconds_of(call) for _ in range(3)))


class Heddle:
    """The programs of one build folder."""

    def __init__(self, build, data, effort):
        self.build, self.data, self.effort = build, data, effort

    def operations(self):
        """Returns the names of all benchmarks of bench/ops, including those that measure the machine's limits."""
        return [line.removesuffix("/real_time") for line in run(self.build / "bench/ops", "--benchmark_list_tests").split()]

    def operation(self, name):
        report = json.loads(
            run(self.build / "bench/ops", "--benchmark_format=json", f"--benchmark_min_time={self.effort.seconds}",
                f"--benchmark_filter=^{re.escape(name)}/real_time$", HEDDLE_THREADS=THREADS))
        entry = report["benchmarks"][0]
        if entry.get("error_occurred"):
            raise Failure(f"bench/ops reports an error in {name}: {entry.get('error_message')}")
        rates = [(entry[unit], unit) for unit in ("GFLOP/s", "GB/s") if unit in entry]
        return Sample(entry["real_time"] * 1e-6, rate=rates[0] if rates else None)

    def training_step(self):
        with tempfile.TemporaryDirectory() as folder:
            metrics = Path(folder) / "metrics"
            run(self.build / "examples/sst2", *self.data.flags(), *self.effort.training_flags(), "--progress", "none",
                "--metrics", metrics)
            return median_step(metrics.read_text().splitlines())

    def epoch(self):
        """Times one epoch of the whole program, including reading and tokenization."""
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            _, peak = run_with_peak(self.build / "examples/sst2", *self.data.flags(), "--epochs", 1,
                                    "--out", f"{folder}/model")
            return Sample(time.perf_counter() - begin, peak=peak)

    def tokenization(self):
        """Times the whole program on the texts of SST-2."""
        command, texts = [self.build / "examples/tokenize", "--vocab", self.data.vocab], "\n".join(self.data.texts())
        return median_of_3(lambda: run(*command, text=texts, OMP_NUM_THREADS=THREADS))

    def attention(self, length):
        """Times attention over one text, forward and backward."""
        lines, peak = run_with_peak(self.build / "bench/attention", "--batch", 1, "--heads", 4, "--length", length,
                                    "--threads", THREADS, "--json")
        return Sample(json.loads(lines[1])["seconds"], peak=peak)

    def version(self):
        try:
            return run(self.build / "examples/sst2", "--version").strip()
        except Failure:
            return "heddle of an unknown version"

    def commit(self):
        """Returns the commit of the folder that the build was configured from, or "unknown"."""
        try:
            cache = (self.build / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
            source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.MULTILINE).group(1)
            return run("git", "-C", source, "rev-parse", "--short", "HEAD").strip()
        except (OSError, AttributeError, Failure):
            return "unknown"

    def close(self):
        pass


class Torch:
    """The programs of bench/peers, which do the same work in PyTorch. Hugging Face's Rust library tokenizes within this process."""

    def __init__(self, data, effort):
        self.data, self.effort = data, effort
        self.ops = OpsServer(effort)
        self.tokenizer = self.import_seconds = None

    def version(self):
        return self.ops.hello()["torch"]

    def operations(self):
        return self.ops.hello()["names"]

    def operation(self, name):
        return Sample(self.ops.seconds(name))

    def training_step(self):
        flags = [*self.data.flags(), *self.effort.training_flags()]
        return median_step(run(PYTHON, PEERS / "sst2_train.py", *flags).splitlines())

    def epoch(self):
        """Times one epoch of the whole program, without the time that imports take."""
        program = [PYTHON, PEERS / "sst2_train.py"]
        if self.import_seconds is None:
            self.import_seconds = seconds_of(lambda: run(*program, "--help"))
        return Sample(seconds_of(lambda: run(*program, *self.data.flags(), "--epochs", 1)) - self.import_seconds)

    def tokenization(self):
        """Times the library's call on the texts of SST-2, without loading the vocabulary."""
        texts = self.data.texts()
        if not self.tokenizer:
            os.environ["RAYON_NUM_THREADS"] = THREADS  # the library reads it once
            from tokenizers import BertWordPieceTokenizer

            self.tokenizer = BertWordPieceTokenizer(str(self.data.vocab), lowercase=False)
        return median_of_3(lambda: self.tokenizer.encode_batch(texts))

    def close(self):
        self.ops.close()


class OpsServer:
    """bench/peers/ops.py --serve: it imports torch once and times the operations that it is asked for, one by one."""

    def __init__(self, effort):
        self.command = [PYTHON, PEERS / "ops.py", "--serve", "--threads", THREADS,
                        "--seconds", effort.seconds, "--calls", effort.calls]
        self.process = self.greeting = None

    def hello(self):
        """Starts the program if necessary. Returns its first line: the version of torch and the names of operations."""
        if not self.process:
            self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
            self.process = start(self.command, stderr=self.errors)
            self.greeting = self.read()
        return self.greeting

    def seconds(self, name):
        self.hello()
        try:
            print(name, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # read() reports how it ended
        return self.read()["seconds"]

    def read(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()
        self.close()
        raise failure(self.command, code, said)

    def close(self):
        if self.process:
            stop(self.process)
            self.process.stdin = self.process.stdout = self.process = None
