"""What the device can do at best, and how much of its memory is taken."""

import threading
import time

import torch


def device_name(device):
    return torch.cuda.get_device_name() if device == "cuda" else device


def seconds_of(work, device, repeats):
    """Of one call, after a warm-up."""

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        work()
    wait()
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    wait()
    return (time.perf_counter() - begin) / repeats


def matrix_teraflops(device, tiny=False):
    """A large bf16 product of random numbers: with zeros a GPU draws less power and is faster."""
    size, dtype = (256, torch.float32) if tiny else (8192, torch.bfloat16)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    seconds = seconds_of(lambda: torch.mm(a, b, out=out), device, 3 if tiny else 50)
    return 2 * size**3 / seconds / 1e12


def copy_gigabytes_per_second(device, tiny=False):
    """Read and written bytes of a copy within the device."""
    count = (1 << 20) if tiny else (1 << 31)
    source = torch.randint(0, 255, (count,), device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * count / seconds_of(lambda: target.copy_(source), device, 20) / 1e9


class DeviceMemory:
    """The most that others have taken while it is open; looks ten times a second, so it is the same
    measure for every program. 0 on a CPU."""

    def __init__(self, device):
        self.device = device
        self.peak_bytes = 0
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        if self.device == "cuda":
            torch.cuda.empty_cache()
            self.before = self.taken()
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.closed.set()
        if self.thread.is_alive():
            self.thread.join()

    def watch(self):
        while not self.closed.wait(0.1):
            self.peak_bytes = max(self.peak_bytes, self.taken() - self.before)

    @staticmethod
    def taken():
        free, total = torch.cuda.mem_get_info()
        return total - free
