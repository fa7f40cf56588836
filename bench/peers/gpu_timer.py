"""Times PyTorch on the GPU as bench/gpu.hpp times heddle. On the CPU it times one call, to check that the call works."""

import statistics
import time

import torch


class Work:
    """A benchmark: its name as in bench/cuda.cpp, its variant in PyTorch, a function that makes the call, and facts to
    print with its times."""

    def __init__(self, name, peer, make, step=False, **facts):
        self.name, self.peer, self.make, self.step, self.facts = name, peer, make, step, facts


class Timer:
    def __init__(self, device):
        self.on_gpu = device == "cuda"
        if self.on_gpu:
            cache = torch.cuda.get_device_properties(0).L2_cache_size
            self.other = torch.empty(max(256 << 20, 4 * cache), dtype=torch.uint8, device=device)
            self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.overwrite()
            self.overwriting = statistics.median(self.between(self.overwrite) for _ in range(3))

    def overwrite(self):
        self.other.zero_()

    def between(self, call):
        """Returns the seconds of a call by the GPU's clock, or by the host's on the CPU."""
        if not self.on_gpu:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        self.begin.record()
        call()
        self.end.record()
        self.end.synchronize()
        return 1e-3 * self.begin.elapsed_time(self.end)

    def alone(self, call):
        """Returns the seconds of one call with a cold L2 cache. The call is enqueued while the cache is filled with other memory."""
        if not self.on_gpu:
            return self.between(call)
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        queueing = time.perf_counter() - start
        torch.cuda.synchronize()
        fills = 1 + min(40, int(2 * queueing / self.overwriting))

        def sample():
            for _ in range(fills):
                self.overwrite()
            return self.between(call)

        return self.median_of(sample, 15 if self.between(call) < 0.01 else 3)

    def in_a_row(self, call):
        """Returns the seconds of a call in a sequence of calls, including the host's time."""
        if not self.on_gpu:
            return self.between(call)
        calls = min(500, max(2, int(0.02 / self.between(call))))

        def row():
            for _ in range(calls):
                call()

        return self.median_of(lambda: self.between(row) / calls, 3)

    @staticmethod
    def median_of(sample, least, enough=0.15, most=300):
        times, start = [], time.perf_counter()
        while len(times) < least or (time.perf_counter() - start < enough and len(times) < most):
            times.append(sample())
        return statistics.median(times)
