"""How rows in half precision are rounded, in numpy alone: its own Philox, and rounding in float64, where all of it is
exact."""
import numpy as np

DIGITS, LEAST, LARGEST = 10, -14, 65504.0  # binary digits, least exponent, largest number


def philox(key, low, high):
    """Philox4x32-10 (Salmon et al., SC 2011) of a key and counters, uint64 arrays: (4, n) uint32 values as uint64."""
    mask = np.uint64(0xFFFFFFFF)
    halves = [low & mask, low >> np.uint64(32), high & mask, high >> np.uint64(32)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        one, two = halves[0] * np.uint64(0xD2511F53), halves[2] * np.uint64(0xCD9E8D57)
        halves = [(two >> np.uint64(32)) ^ halves[1] ^ np.uint64(keys[0]), two & mask,
                  (one >> np.uint64(32)) ^ halves[3] ^ np.uint64(keys[1]), one & mask]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(halves)


def noise(seed, table, step, row, dim):
    """(dim,) numbers of 16 bits, as csrc/base/random/rounding_noise.h defines them."""
    columns = np.arange(dim)
    block = (columns // 256 * 32 + columns % 32).astype(np.uint64)
    low = np.uint64(table << 56 | row << 24) + block
    words = philox(seed, low, np.full(dim, 4 << 32 | step, np.uint64))
    vector = columns // 32 % 8
    return (words[vector // 2, columns] >> (16 * (vector % 2)).astype(np.uint64) & np.uint64(0xFFFF)).astype(np.float64)


def rounded(values, numbers):
    """float32 values at random to a neighbouring half, as float32; in float64, where all of it is exact."""
    size = np.abs(values.astype(np.float64))
    exponent = np.maximum(np.frexp(np.where(size == 0, 1, size))[1] - 1, LEAST)
    units = size / 2.0 ** (exponent - DIGITS)
    whole = np.floor(units)
    rest = units - whole
    normal = rest * 8192 + np.floor(numbers / 8) >= 8192
    up = np.where(size < 2.0**LEAST, rest * 65536 > numbers, normal)
    return np.copysign(np.minimum((whole + up) * 2.0 ** (exponent - DIGITS), LARGEST), values).astype(np.float32)
