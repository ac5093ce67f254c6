# SPDX-License-Identifier: BSD-3-Clause
"""Two clocks are compared by messages: the truth is within the bound that is stated, always."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from fabtrace.model.messages import Messages
from fabtrace.model.skew import Skew, estimate, hull

START_NS = 1_700_000_000_000_000_000
Times = npt.NDArray[np.int64]


def theta(times: Times, offset_ns: int, drift: float) -> Times:
    """How far clock B is ahead when clock A shows `times`."""
    since = (times - START_NS).astype(np.float64)
    drifted: Times = np.rint(drift * since).astype(np.int64)
    return offset_ns + drifted


def b_at(times: Times, offset_ns: int, drift: float) -> Times:
    """What clock B shows when clock A shows `times`."""
    return times + theta(times, offset_ns, drift)


def talk(
    chance: np.random.Generator, number: int, seconds: float, offset_ns: int, drift: float
) -> tuple[Messages, Messages]:
    """Messages from A to B and back whose delays are at least 5 µs and at times long."""
    sent = np.sort(START_NS + chance.integers(0, round(seconds * 1e9), (2, number)), axis=1)
    delays = 5_000 + chance.exponential(20_000, (2, number)).astype(np.int64)
    arrived = sent + delays
    forth = Messages(sent[0], sent[0], b_at(arrived[0], offset_ns, drift))
    there = b_at(sent[1], offset_ns, drift)
    return forth, Messages(there, there, arrived[1])


@pytest.mark.parametrize("seed", range(60))
def test_the_truth_is_within_the_bound(seed: int) -> None:
    """
    Description: any offset up to 3 s and drift up to 200 ppm, few messages or many: at each time the
    true offset is no farther from the estimate than the bound says, and no message is received
    before it was sent.
    """
    chance = np.random.default_rng(seed)
    offset_ns = int(chance.integers(-3_000_000_000, 3_000_000_000))
    drift = float(chance.uniform(-200e-6, 200e-6))
    number = int(chance.choice([1, 2, 5, 100, 3000]))
    forth, back = talk(chance, number, float(chance.uniform(0.01, 30)), offset_ns, drift)
    skew = estimate(forth, back)
    assert skew is not None and skew.margin_ns >= 0
    moments = np.linspace(skew.first_ns, skew.last_ns, 50).astype(np.int64)
    wrong = np.abs(skew.at(moments) - theta(moments, offset_ns, drift))
    assert np.all(wrong <= max(skew.bound_ns) + 3)  # ns: times are whole ones
    assert np.all(skew.to_a(forth.received_ns) >= forth.sent_ns)
    assert np.all(back.received_ns >= skew.to_a(back.sent_ns))
    if number == 3000:
        assert max(skew.bound_ns) < 50_000


@pytest.mark.parametrize("seed", range(10))
def test_to_a_undoes_b(seed: int) -> None:
    chance = np.random.default_rng(seed)
    skew = Skew(
        START_NS, 123.25, int(chance.integers(-(10**10), 10**10)), float(chance.uniform(-1e-3, 1e-3)),
        0.0, (0.0, 0.0), START_NS, START_NS,
    )  # fmt: skip
    times = START_NS + chance.integers(0, 10**12, 1000)
    assert np.max(np.abs(skew.to_a(times + skew.at(times)) - times)) <= 2


def test_one_way_says_nothing() -> None:
    chance = np.random.default_rng(1)
    forth, back = talk(chance, 10, 1.0, 100, 0.0)
    nothing = Messages(*(np.zeros(0, np.int64),) * 3)
    assert estimate(forth, nothing) is None and estimate(nothing, back) is None


def test_a_clock_that_was_set_is_noticed() -> None:
    """No line fits a clock that jumps by a millisecond: the margin is negative and nothing is promised."""
    chance = np.random.default_rng(2)
    forth, back = talk(chance, 2000, 10.0, 0, 0.0)
    middle = START_NS + 5 * 10**9
    jump = np.where(forth.sent_ns > middle, 1_000_000, 0)
    back_jump = np.where(back.received_ns > middle, 1_000_000, 0)
    skew = estimate(
        Messages(forth.sent_ns, forth.before_ns, forth.received_ns + jump),
        Messages(back.sent_ns + back_jump, back.before_ns + back_jump, back.received_ns),
    )
    assert skew is not None and skew.margin_ns < 0 and max(skew.bound_ns) == float("inf")


@pytest.mark.parametrize("seed", range(20))
def test_hull_is_below_all_points_and_made_of_them(seed: int) -> None:
    chance = np.random.default_rng(seed)
    x = np.unique(chance.integers(0, 1000, 50)).astype(np.float64)
    y = chance.integers(-1000, 1000, len(x)).astype(np.float64)
    hull_x, hull_y = hull(x, y)
    assert set(zip(hull_x, hull_y)) <= set(zip(x, y))
    assert np.all(np.interp(x, hull_x, hull_y) <= y + 1e-9)
    assert np.all(np.diff(np.diff(hull_y) / np.diff(hull_x)) > 0)
    top_x, top_y = hull(x, y, sign=-1.0)
    assert np.all(np.interp(x, top_x, top_y) >= y - 1e-9)
