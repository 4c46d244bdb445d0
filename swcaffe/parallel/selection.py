"""Finding the largest elements of a gradient without sorting it.

`sign` 0 compares magnitudes, 1 the values themselves, -1 their negatives. Equal elements are taken
from the lowest index on, so a selection depends on the values alone.

[RedSync]  Fang, Fu, Yang, Hsieh, "RedSync: Reducing synchronization bandwidth for distributed deep
           learning training system", JPDC 133 (2019): trimmed top-k, threshold binary search
[DGC]      Lin et al., "Deep gradient compression", ICLR 2018: threshold from a strided sample
"""

from __future__ import annotations

import numpy as np

from swcaffe.arrays import F32, I32, I64
from swcaffe.errors import NumericsError
from swcaffe.parallel.kernels import collect_above, count_above, magnitudes

__all__ = ["above", "binary_search", "check_finite", "sampled_threshold", "top_k", "trimmed"]

_TRIM_STEP = 0.2
_SEARCH_END = 1e-4
_SAMPLE_HITS = 128
"""Elements above the threshold that a sample should hold: its count is then known to 9 %."""


_INFINITY = np.int32(0x7F800000)
_KEYS = {
    0: (np.int32(2**31 - 1), np.int32(0)),
    1: (np.int32(-1), np.int32(0)),
    -1: (np.int32(-1), np.int32(-(2**31))),
}
"""sign -> (mask, flip) of the kernels."""


def check_finite(flat: F32, sign: int = 0) -> tuple[float, float]:
    """(sum, largest) of magnitudes, or of what has the sign; one pass.

    Raises NumericsError if any element is NaN or infinite, whatever its sign.
    """
    total, top, widest = magnitudes(flat, flat.view(np.int32), *_KEYS[sign])
    if widest >= _INFINITY:
        raise NumericsError(
            "gradient has NaN or infinity: nothing was sent and the residual is unchanged",
            fix="lower the learning rate, or look for the layer with debug_info",
        )
    return total, float(np.array(top, np.int32).view(np.float32))


def _keys(values: F32, sign: int) -> F32:
    return np.abs(values) if sign == 0 else np.float32(sign) * values


def _bits(threshold: float) -> np.int32:
    """A threshold as a key; it is not negative."""
    return np.int32(np.array(threshold, np.float32).view(np.int32))


def _count(flat: F32, threshold: float, sign: int) -> int:
    bits: I32 = flat.view(np.int32)
    return int(count_above(bits, *_KEYS[sign], _bits(threshold)))


def above(flat: F32, threshold: float, limit: int, sign: int = 0) -> tuple[I64, int]:
    """(places of up to `limit` elements above `threshold` in rising order, how many there are).

    Of more than `limit`, counting stops. Among magnitudes, NaN is above everything.
    """
    indices = np.empty(limit, np.int64)
    found = int(collect_above(flat.view(np.int32), *_KEYS[sign], _bits(threshold), indices))
    return indices[: min(found, limit)], found


def _best(flat: F32, candidates: I64, k: int, sign: int) -> I64:
    """The `k` best of `candidates` in rising order, exactly."""
    keys = _keys(flat[candidates], sign)
    if k >= keys.size:
        return candidates
    least = np.partition(keys, keys.size - k)[keys.size - k]
    chosen = keys > least
    equal = np.flatnonzero(keys == least)
    chosen[equal[: k - np.count_nonzero(chosen)]] = True
    best: I64 = candidates[chosen]
    return best


def _everything(flat: F32, k: int, sign: int) -> I64:
    """Exact selection by partitioning all elements; with a sign only those that have it."""
    candidates = np.arange(flat.size) if sign == 0 else above(flat, 0.0, flat.size, sign)[0]
    return _best(flat, candidates, k, sign)


def trimmed(flat: F32, k: int, sign: int = 0) -> I64:
    """Exact top-k of what survives a threshold lowered from the largest towards the mean [RedSync].

    Raises NumericsError if an element is not finite. With a sign there may be fewer than k.
    """
    total, largest = check_finite(flat, sign)
    mean = total / flat.size
    ratio = 1.0 - _TRIM_STEP
    while ratio > -_TRIM_STEP / 2:
        threshold = mean + ratio * (largest - mean)
        found = _count(flat, threshold, sign)
        if found >= k:
            return _best(flat, above(flat, threshold, found, sign)[0], k, sign)
        ratio -= _TRIM_STEP
    return _everything(flat, k, sign)


def binary_search(flat: F32, k: int, sign: int = 0) -> I64:
    """Between k and 2k - 1 elements above a threshold found by bisection [RedSync].

    The printed search turns up below k / 2; here below k, so that it cannot end with too few. Where
    equal elements leave no such threshold, exactly k. Raises NumericsError as `trimmed`.
    """
    total, largest = check_finite(flat, sign)
    mean = total / flat.size
    low, high = 0.0, 1.0
    while high - low > _SEARCH_END:
        ratio = (low + high) / 2
        threshold = mean + ratio * (largest - mean)
        found = _count(flat, threshold, sign)
        if k <= found < 2 * k:
            return above(flat, threshold, found, sign)[0]
        low, high = (low, ratio) if found < k else (ratio, high)
    return top_k(flat, k, sign)


def sampled_threshold(flat: F32, k: int, sign: int = 0) -> float:
    """A threshold above which about `k` elements lie, from a strided sample [DGC]."""
    wanted = -(-_SAMPLE_HITS * flat.size // k)
    stride = max(1, flat.size // wanted)
    sample = _keys(flat[::stride], sign)
    rank = min(sample.size - 1, max(0, round(sample.size * k / flat.size)))
    return float(np.partition(sample, sample.size - 1 - rank)[sample.size - 1 - rank])


def top_k(flat: F32, k: int, sign: int = 0) -> I64:
    """Exactly the k best (fewer if a sign is wanted that fewer have), in rising order.

    One pass above a sampled threshold that should leave 1.5 k, then a partition of the survivors;
    of everything where the sample deceived. The elements must be finite.
    """
    aim = min(flat.size, k + k // 2 + 1)
    threshold = max(0.0, sampled_threshold(flat, aim, sign=sign))
    candidates, found = above(flat, threshold, 4 * k + 4, sign)
    if k <= found == candidates.size:
        return _best(flat, candidates, k, sign)
    return _everything(flat, k, sign)
