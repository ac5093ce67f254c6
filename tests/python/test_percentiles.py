# SPDX-License-Identifier: BSD-3-Clause
"""Percentiles are exact and by nearest rank."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from fabtrace.model.percentiles import nearest_rank


def test_the_documented_example() -> None:
    samples = np.array([40, 10, 30, 20])
    assert nearest_rank(samples, ["50", "75", "90", "100"]) == [20, 30, 40, 40]


def test_one_sample_is_every_percentile() -> None:
    assert nearest_rank(np.array([7]), ["0", "50", "99.9", "100"]) == [7, 7, 7, 7]


def test_rank_is_not_moved_by_binary_fractions() -> None:
    """99.9 % of 1000 is the 999th: 0.999 * 1000 in floating point rounds to it, 99.9 / 100 does not."""
    assert nearest_rank(np.arange(1, 1001), ["99.9"]) == [999]
    assert nearest_rank(np.arange(1, 100_001), ["99.9", "99"]) == [99_900, 99_000]


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_least_sample_that_so_many_do_not_exceed(seed: int) -> None:
    chance = np.random.default_rng(seed)
    samples = chance.integers(0, 50, int(chance.integers(1, 300)))
    for percent in ("1", "50", "90", "99", "99.9"):
        (found,) = nearest_rank(samples, [percent])
        needed = Fraction(percent) / 100 * len(samples)
        reached = [value for value in samples.tolist() if np.sum(samples <= value) >= needed]
        assert found == min(reached)
