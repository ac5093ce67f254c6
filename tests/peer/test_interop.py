#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Our programs against an older peer that was written from the protocol's description alone.

Description: each case proves that 7,600,000 bytes a session arrive and are verified by the side that
gets them, and that both programs then end with exit code 0. The older peer runs with --strict, so it
also refuses whatever the description forbids to ours: buffers other than three of 37, 31 and 29
bytes, an address that is not zero-filled up to the extension block, progress after EOF.
"""

from __future__ import annotations

import pytest

from pair import OUR_GET, OUR_PUT, PEER, Outcome, exchange

OLD_GET = [PEER, "get", "--strict"]
OLD_PUT = [PEER, "put", "--strict"]


def check_success(outcomes: list[Outcome]) -> None:
    assert all(o.code == 0 for o in outcomes), "\n".join(str(o) for o in outcomes)


GET_CASES = [
    # provider, options of our get, options of the older put
    ("tcp;ofi_rxm", "", ""),
    ("tcp;ofi_rxm", "-n 2 -w", "-n 2 -g --quirk late-progress"),
    ("shm", "", "-g"),
    ("shm", "", "--quirk late-progress"),
    ("shm", "", "--quirk eof-alone --quirk zero-progress"),
    ("shm", "-r", "--virt-addr"),
    ("shm", "-w", ""),
    ("shm", "-n 4", "-n 4 --quirk late-progress@1 --quirk eof-alone@2"),
    ("shm", "-n 4 -r", "-n 4 -g"),
]


@pytest.mark.parametrize(("provider", "get", "put"), GET_CASES)
def test_our_get_serves_an_older_put(provider: str, get: str, put: str) -> None:
    """Description: an older put, in each of its moods, finds our get to be as good as an older one."""
    check_success(exchange(provider, [OUR_GET, *get.split()], [*OLD_PUT, *put.split()]))


PUT_CASES = [
    # provider, options of the older get, options of our put
    ("tcp;ofi_rxm", "", ""),
    ("tcp;ofi_rxm", "-n 2 --quirk long-vectors", "-n 2 -g -w"),
    ("shm", "", "-g"),
    ("shm", "--quirk long-vectors", ""),
    ("shm", "--quirk between-eofs", ""),
    ("shm", "--virt-addr", "-r"),
    ("shm", "", "-w"),
    ("shm", "-n 4 --quirk long-vectors@1 --quirk between-eofs@2", "-n 4"),
    ("shm", "-n 4", "-n 4 -g -r"),
]


@pytest.mark.parametrize(("provider", "get", "put"), PUT_CASES)
def test_our_put_fills_an_older_get(provider: str, get: str, put: str) -> None:
    """Description: an older get takes our put's bytes, and accepts each message it sends."""
    check_success(exchange(provider, [*OLD_GET, *get.split()], [OUR_PUT, *put.split()]))


def test_several_puts_share_an_older_get() -> None:
    """Description: an older get acknowledges only when all have come; our puts wait for that."""
    check_success(
        exchange(
            "shm",
            [*OLD_GET, "-n", "4"],
            [OUR_PUT, "-n", "4", "-k", "2"],
            [OUR_PUT, "-n", "4", "-k", "2", "-g"],
        )
    )


def test_older_puts_and_ours_share_our_get() -> None:
    """Description: session ids repeat (older puts send 0 always); nothing may depend on them."""
    check_success(
        exchange(
            "shm",
            [OUR_GET, "-n", "4"],
            [*OLD_PUT, "-n", "4", "-k", "1"],
            [OUR_PUT, "-n", "4", "-k", "1"],
            [*OLD_PUT, "-n", "4", "-k", "2", "-g"],
        )
    )


@pytest.mark.parametrize("side", ["get", "put"])
def test_the_peer_is_sound_by_itself(side: str) -> None:
    """Description: the judge passes its own rules, and notices a side that breaks one."""
    quirk = {"get": ["--quirk", "vector-empty-segment"], "put": ["--quirk", "progress-beyond"]}
    broken = {role: quirk[role] if role == side else [] for role in ("get", "put")}

    check_success(exchange("shm", OLD_GET, OLD_PUT))
    outcomes = exchange(
        "shm",
        [*OLD_GET, "--timeout", "3", *broken["get"]],
        [*OLD_PUT, "--timeout", "3", *broken["put"]],
    )
    judge = next(o for o in outcomes if o.role != side)
    expected = "empty segment" if side == "get" else "progress of"
    assert judge.code == 1 and expected in judge.err, str(judge)
