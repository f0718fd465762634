"""The windows of a token file in the order in which `leeway train` reads them (src/data/sampler.h),
so that both sides learn from the same sequences."""

import numpy as np

HEADER_BYTES = 64
BITS_64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SAMPLER_STREAM = 2
ROUNDS = 6


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & BITS_64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & BITS_64
    return x ^ (x >> 31)


def random_bits(seed, name, counter):
    state = mix((seed + GOLDEN) & BITS_64)
    state = mix(state ^ (SAMPLER_STREAM * GOLDEN & BITS_64))
    state = mix(state ^ ((name + GOLDEN) & BITS_64))
    return mix(state ^ mix((counter * GOLDEN + 1) & BITS_64))


def permuted(seed, epoch, position, count):
    """Where the epoch's permutation of `count` windows takes a position."""
    keys = [random_bits(seed, epoch, number) for number in range(ROUNDS)]
    half_bits = 1
    while 1 << (2 * half_bits) < count:
        half_bits += 1
    mask = (1 << half_bits) - 1
    x = position
    while True:
        left, right = x >> half_bits, x & mask
        for key in keys:
            left, right = right, left ^ (mix(right ^ key) & mask)
        x = left << half_bits | right
        if x < count:
            return x


class TokenWindows:
    def __init__(self, path, context, batch, seed):
        header = np.fromfile(path, dtype=np.uint64, count=HEADER_BYTES // 8)
        token_bytes = int(header[1]) >> 32
        self.vocabulary = int(header[3])
        self.tokens = np.memmap(
            path, dtype={2: np.uint16, 4: np.uint32}[token_bytes], mode="r", offset=HEADER_BYTES
        )
        self.context, self.batch, self.seed = context, batch, seed
        self.count = (len(self.tokens) - 1) // context

    def window(self, position):
        epoch, place = divmod(position, self.count)
        return permuted(self.seed, epoch, place, self.count)

    def read(self, update):
        """[batch, context + 1] ids: inputs, and the same shifted by one as targets."""
        begins = [self.window(update * self.batch + i) * self.context for i in range(self.batch)]
        rows = [self.tokens[begin : begin + self.context + 1] for begin in begins]
        return np.stack(rows).astype(np.int64)
