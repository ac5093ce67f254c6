# SPDX-License-Identifier: BSD-3-Clause
"""How far two clocks are apart, from messages in both directions.

Let clock B show t + theta(t) when clock A shows t, with theta(t) = a + b (t - t0): an offset and a drift. A
message was received, at r by the receiver's clock, after it was sent, at s by the sender's (s is a time
that was surely before the call, see Messages):

    from A to B:   r >= s + theta(s)       so   theta(s) <= r - s          a point above the line
    from B to A:   r + theta(r) >= s       so   theta(r) >= s - r          a point below the line

             r - s of A to B:    .  .   .   .     .        the line must pass between: the lower hull of the
    theta   --------------------------------------         upper points and the upper hull of the lower
             s - r of B to A:      .  .    .    .   .      ones are all that matters

Each line between the hulls is possible. We take the one that is farthest from both (its distance, the
margin, is the same above and below), and the error bound at a time is how far any possible line is from
it there. It is no statistics: if the clocks drift evenly, the truth is within the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fabtrace.model.messages import Messages

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]

BINS = 4096
# Quartz is within 100 ppm; a line that is steeper than this comes from too few messages.
STEEPEST = 2e-3


@dataclass(frozen=True)
class Skew:
    """theta(t) = offset_ns + drift * (t - origin_ns), t by clock A.

    margin_ns     by how much the nearest message misses the line; negative: no line fits, the clocks do
                  not drift evenly
    bound_ns      the error bound at the first and at the last message; it is largest at one of them
    """

    origin_ns: int
    offset_ns: float
    base_ns: int  # the whole offset is base + offset: as one float it would lose nanoseconds
    drift: float
    margin_ns: float
    bound_ns: tuple[float, float]
    first_ns: int
    last_ns: int

    def at(self, times_ns: Times) -> Times:
        """theta at times of clock A, ns."""
        since = (times_ns - self.origin_ns).astype(np.float64)
        apart: Times = np.rint(self.offset_ns + self.drift * since).astype(np.int64)
        return self.base_ns + apart

    def to_a(self, times_ns: Times) -> Times:
        """Times of clock B as clock A would have shown them."""
        # t_B = t + theta(t) is solved for t: theta as a function of t_B has the drift b / (1 + b).
        since = (times_ns - self.base_ns - self.origin_ns).astype(np.float64) - self.offset_ns
        slope = self.drift / (1.0 + self.drift)
        apart: Times = np.rint(self.offset_ns + slope * since).astype(np.int64)
        return times_ns - self.base_ns - apart


def estimate(forth: Messages, back: Messages) -> Skew | None:
    """The skew of clock B against clock A from messages from A to B and back; None without both."""
    if not len(forth) or not len(back):
        return None
    first = int(min(forth.before_ns.min(), back.received_ns.min()))
    last = int(max(forth.before_ns.max(), back.received_ns.max()))
    base = int(
        (forth.received_ns[0] - forth.before_ns[0] + back.before_ns[0] - back.received_ns[0]) // 2
    )
    x_up, y_up = points(forth.before_ns - first, forth.received_ns - forth.before_ns - base)
    x_low, y_low = points(back.received_ns - first, back.before_ns - back.received_ns - base)
    # Twice: where the line is steep the extreme of a bin is not its nearest point; without the slope
    # of the first line it is.
    drift = 0.0
    for _ in range(2):
        upper = hull(*extremes(x_up, y_up - drift * x_up, 1.0))
        lower = hull(*extremes(x_low, y_low - drift * x_low, -1.0), sign=-1.0)
        fit = widest(upper, lower, -STEEPEST - drift, STEEPEST - drift)
        drift += fit.slope
    offset = fit.offset
    margin = min(
        float((y_up - drift * x_up - offset).min()), float((offset - (y_low - drift * x_low)).min())
    )
    bounds = tuple(fit.bound(float(x)) for x in (0, last - first))
    return Skew(first, offset, base, drift, margin, (bounds[0], bounds[1]), first, last)


def points(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """As floats: differences of this size are exact."""
    return x.astype(np.float64), y.astype(np.float64)


def extremes(x: Floats, y: Floats, sign: float) -> tuple[Floats, Floats]:
    """The lowest point (sign 1) or the highest (-1) of each of BINS stretches of x, by x."""
    width = max(float(x.max()), 1.0) / BINS
    place = np.minimum(x / width, BINS - 1).astype(np.int64)
    order = np.lexsort((sign * y, place))
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    chosen = order[first]
    chosen = chosen[np.argsort(x[chosen], kind="stable")]
    return x[chosen], y[chosen]


def hull(x: Floats, y: Floats, sign: float = 1.0) -> tuple[Floats, Floats]:
    """The lower hull (sign 1) or the upper one (-1) of points in ascending x."""
    kept: list[tuple[float, float]] = []
    for point in zip(x.tolist(), (sign * y).tolist()):
        while len(kept) > 1 and not turns_left(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    array = np.array(kept)
    return array[:, 0], sign * array[:, 1]


def turns_left(
    one: tuple[float, float], two: tuple[float, float], three: tuple[float, float]
) -> bool:
    """Whether three points in ascending x bend upwards."""
    return (two[0] - one[0]) * (three[1] - one[1]) > (three[0] - one[0]) * (two[1] - one[1])


@dataclass(frozen=True)
class Fit:
    """The line offset + slope * x in the middle of all that pass between two hulls.

    For each of some slopes, ascending, `low` and `high` are the least and the greatest offset of a line
    of that slope between the hulls; those that bound what is possible are among them.
    """

    offset: float
    slope: float
    slopes: Floats
    low: Floats
    high: Floats

    def bound(self, x: float) -> float:
        """How far any possible line is from ours at x; infinite if no line is possible."""
        if not len(self.slopes):
            return float("inf")
        ours = self.offset + self.slope * x
        above = float((self.high + self.slopes * x).max()) - ours
        below = ours - float((self.low + self.slopes * x).min())
        return max(above, below)


def widest(
    upper: tuple[Floats, Floats], lower: tuple[Floats, Floats], least: float, most: float
) -> Fit:
    """The line between two hulls that is farthest from both, of those whose slope is in a range."""
    candidates = np.unique(np.concatenate([edges(*upper), edges(*lower), [least, 0.0, most]]))
    candidates = candidates[(candidates >= least) & (candidates <= most)]
    high = reach(upper, candidates, np.minimum)
    low = reach(lower, candidates, np.maximum)
    # The room between the hulls is a concave function of the slope, straight between two edges' slopes.
    room = high - low
    best = int(np.argmax(room))
    slopes, possible = [], room >= 0
    for index in range(len(candidates)):
        if index and possible[index] != possible[index - 1]:
            share = room[index - 1] / (room[index - 1] - room[index])
            slopes.append(
                candidates[index - 1] + share * (candidates[index] - candidates[index - 1])
            )
        if possible[index]:
            slopes.append(candidates[index])
    chosen = np.array(slopes)
    return Fit(
        float((high[best] + low[best]) / 2),
        float(candidates[best]),
        chosen,
        reach(lower, chosen, np.maximum),
        reach(upper, chosen, np.minimum),
    )


def edges(x: Floats, y: Floats) -> Floats:
    """The slopes of a hull's edges."""
    slopes: Floats = np.diff(y) / np.diff(x)
    return slopes


def reach(points_: tuple[Floats, Floats], slopes: Floats, nearest: np.ufunc) -> Floats:
    """For each slope the offset at which a line of that slope meets a hull."""
    x, y = points_
    found: Floats = nearest.reduce(y[None, :] - slopes[:, None] * x[None, :], axis=1)
    return found
