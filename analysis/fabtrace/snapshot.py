# SPDX-License-Identifier: BSD-3-Clause
"""What a flight recorder's snapshot covers: noted by the recorder in the snapshot, shown by the report."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "snapshot.json"
VERSION = 1
MAX_BYTES = 65536


@dataclass(frozen=True)
class Coverage:
    """Times are nanoseconds since 1970.

    Each processor has a ring of its own. Before `complete_from_ns` events are missing because they
    were overwritten on one of them; that is no loss.
    """

    cause: str
    from_ns: int  # the oldest event that any processor's ring still had
    complete_from_ns: int
    to_ns: int
    size_bytes: int

    @property
    def overwritten(self) -> bool:
        """Whether a processor's ring reaches back further than another's."""
        return self.complete_from_ns > self.from_ns

    def __str__(self) -> str:
        text = f"{(self.to_ns - self.from_ns) / 1e9:.3f} s up to {clock_time(self.to_ns)}"
        if self.overwritten:
            text += (
                f", the last {(self.to_ns - self.complete_from_ns) / 1e9:.3f} s of all processors"
            )
        return text


def clock_time(ns: int) -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(ns // 10**9)) + f".{ns // 10**6 % 1000:03d}"


def write(folder: Path, coverage: Coverage) -> None:
    """Note it in the snapshot's folder."""
    (folder / FILE).write_text(json.dumps({"version": VERSION, **asdict(coverage)}) + "\n")


def read(folder: Path) -> Coverage | None:
    """What is noted; None if the folder is no snapshot, or somebody spoiled the note."""
    try:
        with (folder / FILE).open(encoding="utf-8") as file:
            fields = json.loads(file.read(MAX_BYTES))
        if fields.pop("version") != VERSION:
            return None
        coverage = Coverage(**fields)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    times = (coverage.from_ns, coverage.complete_from_ns, coverage.to_ns)
    believable = all(isinstance(t, int) and 0 <= t < 1 << 63 for t in times)
    if not believable or not isinstance(coverage.cause, str) or not coverage.cause.isalpha():
        return None
    return coverage if list(times) == sorted(times) else None
