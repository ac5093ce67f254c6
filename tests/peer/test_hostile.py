#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Our programs against peers that break the protocol, each in one way.

Description: each case proves that a message that is wrong in one respect, silence and sudden death end
one session with exit code 1 and a line that says why, within the time-out, and that a second, honest
session goes on to its end all the same. That the second one succeeded is its peer's word.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from pair import OUR_GET, OUR_PUT, PEER, Outcome, Program

TIMEOUT_S = 4
LIMIT_S = 120.0

# What our line must say for the quirks whose names begin so. The first match holds.
REASONS = [
    ("silent", r"no progress for"),
    ("vanish", r"no progress for|failed|lost|gone"),
    ("put-silent|get-silent|no-ack", r"no progress for"),
    ("put-vanish|get-vanish", r"no progress for|failed|lost|gone"),
    ("initial-nsources", r"-n is \d+, expected 2"),
    ("initial-id", r"session number 4294967295"),
    ("initial-(short|tiny|long)", r"initial message of \d+ bytes, expected 544"),
    ("initial-(addrlen|garbage)", r"address length \d+"),
    ("progress-(short|tiny|long)", r"progress message of \d+ bytes, expected 16"),
    ("progress-early-eof", r"ended the stream after \d+ of 7600000"),
    ("progress-", r"reports \d+ bytes written into \d+ offered"),
    ("ack-(short|tiny|long)", r"acknowledgement of \d+ bytes, expected 516|Truncation"),
    ("ack-", r"address length \d+"),
    ("vector-(thirteen|niovs)", r"vector message of \d+ segments, expected at most|Truncation"),
    ("vector-(ragged|short)", r"vector message of \d+ bytes, expected"),
    ("vector-empty", r"is empty"),
    ("vector-(length|address|sum)", r"overflow"),
    ("vector-garbage", r"vector message of \d+ segments"),
    ("vector-key", r"failed|no progress for"),
    ("vector-early-eof", r"get ended the stream after"),
    ("vector-after-eof", r"after get's end of stream"),
]

# Such initial messages count as not sent: get waits for another one in their place.
DROPPED = re.compile(r"initial-(short|tiny|long|addrlen|garbage)")


def hostile_quirks(role: str) -> list[str]:
    """The quirks that the peer itself lists; none if it isn't built, which fails elsewhere."""
    try:
        text = subprocess.run([PEER, "--help"], capture_output=True, text=True, check=True).stdout
    except OSError:
        return []
    return re.findall(rf"^  {role} hostile +(\S+)", text, re.MULTILINE)


def provider_for(quirk: str) -> str:
    """Processes that share memory share locks too, so sudden death is tried on sockets only."""
    return "tcp;ofi_rxm" if "vanish" in quirk else "shm"


def check_reason(quirk: str, ours: Outcome) -> None:
    reason = next(text for begin, text in REASONS if re.match(begin, quirk))
    assert re.search(reason, ours.err), f"expected {reason!r} from {ours}"
    assert "Backtrace" not in ours.err and "Sanitizer" not in ours.err, str(ours)


def check_honest(outcomes: list[Outcome]) -> None:
    assert all(o.code == 0 for o in outcomes), "\n".join(str(o) for o in outcomes)


@pytest.mark.parametrize("quirk", hostile_quirks("put"))
def test_our_get_survives(quirk: str) -> None:
    """Description: get ends a bad put's session, or drops its initial message, and serves another."""
    provider = provider_for(quirk)
    get = Program("get", [OUR_GET, "-n", "2", "--timeout", str(TIMEOUT_S)], provider, LIMIT_S)
    put = [PEER, "put", "-n", "2", "-k", "1", get.address()]
    bad = Program("bad put", [*put[:2], "--quirk", quirk, *put[2:]], provider, LIMIT_S)
    good = [Program("good put", put, provider, LIMIT_S)]
    if DROPPED.match(quirk):
        good.append(Program("good put", put, provider, LIMIT_S))
    served = [program.finish() for program in good]
    ours = get.finish()
    bad.terminate()
    bad.finish()
    check_honest(served)
    assert ours.code == (0 if DROPPED.match(quirk) else 1), str(ours)
    check_reason(quirk, ours)


@pytest.mark.parametrize("quirk", hostile_quirks("get"))
def test_our_put_survives(quirk: str) -> None:
    """Description: put ends the session that get spoils, and fills the other one."""
    provider = provider_for(quirk)
    # A get that dies takes all its sessions with it.
    sessions = "1" if "vanish" in quirk else "2"
    get = Program("get", [PEER, "get", "-n", sessions, "--quirk", quirk], provider, LIMIT_S)
    put = [OUR_PUT, "-n", sessions, "--timeout", str(TIMEOUT_S), get.address()]
    ours = Program("put", put, provider, LIMIT_S).finish()
    get.terminate()
    served = get.finish()
    if "vanish" not in quirk:
        check_honest([served])
    assert ours.code == 1, str(ours)
    check_reason(quirk, ours)


def test_every_quirk_has_a_reason() -> None:
    """Description: a quirk that is added to the peer must say what our line is to tell of it."""
    quirks = hostile_quirks("get") + hostile_quirks("put")
    assert len(quirks) > 40
    unknown = [q for q in quirks if not any(re.match(begin, q) for begin, _ in REASONS)]
    assert not unknown
