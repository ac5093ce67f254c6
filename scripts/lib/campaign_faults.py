# SPDX-License-Identifier: BSD-3-Clause
"""Faults of a campaign: what happens to whom and when, made from a seed.

A scenario is a get, one put or two, and one fault. Moments are given in CPU time of the process
that decides how far the run is, in units of what a start takes (which is measured): so a scenario
hits the same phase on a fast, idle machine and on a slow, busy one.
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

ENDLESS = "1T"
SHORT_TOTAL = 1000 * 76  # sessions that have to end in good time
CANCELLING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

# What a fault is, for the table and --faults.
FAULTS = {
    "kill": "SIGKILL of get or put",
    "stop": "SIGSTOP of get or put, for ever",
    "thaw": "SIGSTOP of get or put, SIGCONT after the other side's time-out",
    "pause": "SIGSTOP and SIGCONT within the time-out: both sides must succeed",
    "cancel": "a signal to get, put or both during a run, with and without -c",
    "accept": "a signal to get before any put comes, with and without -c",
    "count": "a put with another -n than get's",
    "token": "a put with another access token; a right one comes after it",
    "partial": "one put of two is killed or stopped: the other one's sessions finish",
}

TIMEOUT_S = 2.0
LONG_TIMEOUT_S = 15.0  # where a busy machine must not make a time-out of a pause
PARTIAL_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Scenario:
    """One run of a campaign. `target` is get, put or both."""

    provider: str
    number: int
    fault: str
    target: str
    start_share: float  # moment: CPU time as a multiple of what starting takes ...
    beyond_s: float  # ... and seconds of CPU time beyond that
    signals: tuple[signal.Signals, signal.Signals]  # of get and put
    get_first: bool
    gap_s: float  # between two signals, or how long a pause lasts
    sessions: int
    put_sessions: int  # of the (first) put, which is the one that faults hit
    get_options: tuple[str, ...]
    put_options: tuple[str, ...]
    expect_cancel: bool
    total: str
    timeout_s: float

    @property
    def name(self) -> str:
        """As --run takes it."""
        return f"{self.provider}:{self.number}"

    @property
    def endless(self) -> bool:
        return self.total == ENDLESS

    def describe(self) -> str:
        """A line for the log."""
        when = f"{self.start_share:.2f} x start + {self.beyond_s:.2f} s CPU"
        return (
            f"{self.fault} {self.target} at {when}; -n {self.sessions}, put {self.put_sessions}, "
            f"-c {self.expect_cancel}, total {self.total}, gap {self.gap_s:.2f} s, "
            f"{self.signals[0].name}/{self.signals[1].name}, get {' '.join(self.get_options)}, "
            f"put {' '.join(self.put_options)}"
        )


def moment(rng: random.Random, early: bool) -> tuple[float, float]:
    """While starting, while saying hello, or within the transfer."""
    phase = rng.choice(("start", "hello", "transfer", "transfer"))
    if phase == "start" and early:
        return rng.uniform(0, 1), 0.0
    if phase == "hello":
        return 1.0, rng.uniform(0, 0.03)
    return 1.0, rng.uniform(0.03, 0.5)


def options(rng: random.Random, names: tuple[str, ...]) -> tuple[str, ...]:
    """Each option with a chance of one in four."""
    return tuple(name for name in names if rng.random() < 0.25)


def make_scenario(seed: str, provider: str, number: int, faults: list[str]) -> Scenario:
    """The scenario with that number: the same for the same seed, provider and list of faults."""
    rng = random.Random(f"{seed}/{provider}/{number}")
    # In turn, so that even a short campaign has each.
    fault = faults[number % len(faults)]
    share, beyond = moment(rng, early=fault != "pause")
    target = rng.choice(("get", "put", "both") if fault == "cancel" else ("get", "put"))
    sessions = rng.choice((1, 1, 2, 4))
    put_sessions = sessions
    timeout, total = TIMEOUT_S, ENDLESS
    if fault in ("accept", "token", "partial"):
        target = "get" if fault == "accept" else "put"
    if fault == "pause":
        total, timeout = str(SHORT_TOTAL), LONG_TIMEOUT_S
        beyond = min(beyond, 0.1)
    elif fault == "thaw":
        # A put that is stopped before it says hello goes on as if nothing had been.
        total = str(10 * SHORT_TOTAL)
        beyond = min(beyond, 0.2)
    elif fault == "token":
        total, timeout = str(SHORT_TOTAL), LONG_TIMEOUT_S
    elif fault == "count":
        put_sessions = rng.choice([n for n in (1, 2, 3, 5) if n != sessions])
    elif fault == "partial":
        sessions, total, timeout = rng.choice((2, 3, 4)), str(SHORT_TOTAL), PARTIAL_TIMEOUT_S
        put_sessions = rng.randint(1, sessions - 1)
        beyond = min(beyond, 0.1)
    return Scenario(
        provider=provider,
        number=number,
        fault=fault,
        target=target,
        start_share=share,
        beyond_s=beyond,
        signals=(rng.choice(CANCELLING), rng.choice(CANCELLING)),
        get_first=rng.random() < 0.5,
        gap_s=rng.uniform(0.1, 1.0) if fault == "pause" else rng.choice((0.0, rng.uniform(0, 0.5))),
        sessions=sessions,
        put_sessions=put_sessions,
        get_options=options(rng, ("-w", "-r")),
        put_options=options(rng, ("-w", "-r", "-g")),
        expect_cancel=fault in ("cancel", "accept") and rng.random() < 0.6,
        total=total,
        timeout_s=timeout,
    )
