# SPDX-License-Identifier: BSD-3-Clause
"""Percentiles of any number of samples in memory that does not grow: a log-linear histogram.

In short: every percentile is within 1/2048 (0.05 %) of the exact one; count, mean, least and greatest are
exact; 0.9 MB a histogram, whatever is put in.

Each power of two is divided into 1024 buckets of equal width. A sample's bucket is its 11 leading bits and
how many bits follow them:

    samples, ns         width    buckets       a percentile in there is off by at most
    0 .. 2,047          1        0 .. 2047     0
    2,048 .. 4,095      2        2048 .. 3071  1 ns of 2,048
    4,096 .. 8,191      4        3072 .. 4095  2 ns of 4,096
    2^(10+e) ..         2^e      ...           2^(e-1) of 2^(10+e), which is 1/2048

Negative samples, which only a clock that went back can make, have the same buckets on the other side of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from fabtrace.model.latency import PERCENTS, Summary

Samples = npt.NDArray[np.int64]

BITS = 10  # of a bucket's place within its power of two
ERROR = 0.5 / (1 << BITS)  # relative
SIDE = (64 - BITS) << BITS  # buckets of one sign: 63 bits at most


class Histogram:
    """Integer samples, added in portions."""

    def __init__(self) -> None:
        self.counts = np.zeros(2 * SIDE, np.int64)
        self.count = 0
        self.total = 0
        self.least = 0
        self.most = 0

    def add(self, samples: Samples) -> None:
        """Add some samples."""
        if not len(samples):
            return
        self.counts += np.bincount(SIDE + bucket_of(samples), minlength=2 * SIDE)
        least, most = int(samples.min()), int(samples.max())
        self.least = min(self.least, least) if self.count else least
        self.most = max(self.most, most) if self.count else most
        self.count += len(samples)
        # The sum of 2^20 samples below 2^43 ns, 2 hours, fits 64 bits; of others Python makes it.
        fits = max(-least, most) < 1 << 62 - len(samples).bit_length()
        self.total += int(samples.sum()) if fits else sum(samples.tolist())

    def percentiles(self, percents: Sequence[str]) -> list[int]:
        """Percentiles by nearest rank, each within ERROR of the exact one. There must be a sample."""
        ranks = [max(1, ceil(Fraction(percent) / 100 * self.count)) for percent in percents]
        places = np.searchsorted(np.cumsum(self.counts), ranks) - SIDE
        return [min(max(middle_of(place), self.least), self.most) for place in places.tolist()]

    def summary(self) -> Summary:
        """What the samples have in common."""
        if not self.count:
            return Summary(0, (None,) * len(PERCENTS), None, None)
        percentiles = tuple(self.percentiles(PERCENTS))
        return Summary(self.count, percentiles, self.most, self.total / self.count)


def bucket_of(samples: Samples) -> Samples:
    """Each sample's bucket; those of negative samples are negative."""
    size = np.abs(samples)
    # frexp's exponent of an integer is its number of bits. Beyond 2^53 it can be one too many where the
    # sample is next to a power of two; the bucket is the same.
    exponent = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    excess = np.maximum(exponent - (BITS + 1), 0)
    bucket = (excess << BITS) + (size >> excess)
    return np.where(samples < 0, -bucket, bucket)


def middle_of(bucket: int) -> int:
    """The middle of a bucket, rounded down in size."""
    if bucket < 0:
        return -middle_of(-bucket)
    excess = max((bucket >> BITS) - 1, 0)
    return ((bucket - (excess << BITS)) << excess) + ((1 << excess) - 1) // 2
