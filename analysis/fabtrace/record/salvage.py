# SPDX-License-Identifier: BSD-3-Clause
"""Make a trace readable after something died or the disk was full, and get back what rings still hold.

What can be wrong, and what is done:

- The consumer daemon died, or could not write: sub-buffers that it did not take are still in the
  ring files (`--shm-path`). `lttng-crash` copies them out; packets that the trace does not have yet
  are appended, by their numbers.
- A program was killed while it wrote an event: the consumer daemon waits for ever for that
  sub-buffer to be completed. The same cure.
- `metadata` is missing, empty or older than the events: the ring's folder has a copy.
- A file ends in the middle of a packet: the piece is cut off, or Babeltrace would read nothing of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from fabtrace import metadata, packets
from fabtrace.errors import FabtraceError
from fabtrace.record.buffers import format_size
from fabtrace.record.lttng import INSTALL, complaint
from fabtrace.record.session import KEPT, RINGS

EXTRACT_SECONDS = 120.0
COPY_BYTES = 1 << 20
HOUR_NS, DAY_NS = 3600 * 10**9, 86400 * 10**9


class NoRoom(FabtraceError):
    """The disk is full: nothing was changed, the rings stay for another try."""


@dataclass
class Mended:
    """A stream file that was changed."""

    stream: str  # path below the trace's folder
    whole: int = 0  # packets that were on the disk
    regained: int = 0  # packets from the ring
    regained_bytes: int = 0
    cut_bytes: int = 0


@dataclass
class Findings:
    """What salvaging did."""

    streams: list[Mended] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)  # files that were replaced
    snapshot: str = ""  # made of a flight recorder's rings

    @property
    def changed(self) -> bool:
        return bool(self.metadata or self.snapshot) or any(
            stream.regained or stream.cut_bytes for stream in self.streams
        )

    def lines(self) -> list[str]:
        """What to tell: a line a file that was changed."""
        told = [f"{name}: taken from the ring's copy" for name in self.metadata]
        if self.snapshot:
            told.append(f"{self.snapshot}: made of what the trace buffers still held")
        for stream in self.streams:
            if stream.regained:
                told.append(
                    f"{stream.stream}: {format_size(stream.regained_bytes)} in"
                    f" {stream.regained} packet{'s'[: stream.regained > 1]} regained from the trace"
                    " buffers"
                )
            if stream.cut_bytes:
                told.append(
                    f"{stream.stream}: {format_size(stream.cut_bytes)} of a packet that was not"
                    " written to its end are cut off"
                )
        return told


def hold(ring: Path) -> None:
    """Keep the ring files although LTTng will remove them: links cost nothing."""
    for path in list((ring / RINGS).rglob("*")):
        target = ring / KEPT / path.relative_to(ring / RINGS)
        if path.is_file():
            with contextlib.suppress(OSError):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(path)


def source(ring: Path) -> Path:
    """Where the ring files are: LTTng may have removed its own."""
    return ring / (KEPT if (ring / KEPT).is_dir() else RINGS)


def salvage(ring: Path | None, folder: Path) -> Findings:
    """Bring the trace in `folder` in order with what is in the rings. NoRoom if the disk is full."""
    findings = Findings()
    if ring is not None and ring.is_dir():
        _merge_ring(ring, folder, findings)
    for file in sorted(folder.rglob("metadata")):
        if _is_lttng(file) and (ring is None or ring not in file.parents):
            for path in _stream_files(file.parent):
                _trim(path, folder, findings)
    return findings


def _is_lttng(path: Path) -> bool:
    """Whether packets are laid out as we know them: else nothing is to be cut."""
    with contextlib.suppress(FabtraceError):
        return metadata.laid_out_as_lttng_does(metadata.examine_metadata(path)[0])
    return False


def extract(ring: Path, target: Path) -> None:
    """Copy out what the rings hold that was not taken yet."""
    program = shutil.which("lttng-crash")
    if program is None:
        raise FabtraceError(f"`lttng-crash` is not in PATH; {INSTALL}")
    try:
        done = subprocess.run(
            [program, f"--extract={target}", str(ring)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=EXTRACT_SECONDS,
            check=False,
            process_group=0,
        )
    except subprocess.TimeoutExpired:
        raise FabtraceError(
            f"`lttng-crash` did not end in {EXTRACT_SECONDS:.0f} s: {ring} is damaged"
        ) from None
    if done.returncode != 0:
        said = complaint(done.stderr + done.stdout)
        if "No space left" in done.stderr:
            raise NoRoom(f"{target.parent.parent}: the disk is full")
        raise FabtraceError(f"`lttng-crash` failed: {said}")
    for file in target.rglob("metadata"):
        for path in _stream_files(file.parent):
            close_open(path)


def close_open(path: Path) -> None:
    """Give an end to packets that were still being filled when they were taken from a ring.

    They have 0 there, and a packet that ends before it begins is damaged. The next one's begin is as
    late as they can have ended; of the last one nothing is known but that it was before now.
    """
    found = packets.read(path).packets
    with path.open("r+b") as file:
        for packet, following in zip(found, [*found[1:], None]):
            if packet.end < packet.begin:
                end = following.begin if following else latest(packet.begin)
                file.seek(packet.offset + packets.END_OFFSET)
                file.write(struct.pack("<Q", end))


def latest(begin: int) -> int:
    """A time that no event of a packet with this begin is later than."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    # After a reboot, or with a clock of its own (LTTNG_UST_CLOCK_PLUGIN), ours says nothing.
    return now if 0 <= now - begin < DAY_NS else begin + HOUR_NS


def _merge_ring(ring: Path, folder: Path, findings: Findings) -> None:
    if not any(source(ring).rglob("metadata")):
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".salvage-", dir=folder) as name:
            copied = Path(name, "copy")
            extract(source(ring), copied)
            for file in sorted(copied.rglob("metadata")):
                place = below_domain(file.parent)
                if place is not None:
                    _merge(file.parent, folder / place, folder, findings)
    except OSError as error:
        raise NoRoom(f"{folder}: {error.strerror}") from None


def below_domain(folder: Path) -> Path | None:
    """The end of a path from LTTng's `ust` on: the same in rings and traces."""
    parts = folder.parts
    if "ust" not in parts:
        return None
    return Path(*parts[len(parts) - 1 - parts[::-1].index("ust") :])


def _merge(copied: Path, target: Path, folder: Path, findings: Findings) -> None:
    """Add to a trace's folder what was copied from a ring."""
    copies = [(path, packets.read(path)) for path in _stream_files(copied)]
    # A sub-buffer in which nothing was written is not worth a file.
    copies = [
        (path, stream)
        for path, stream in copies
        if any(packet.holds_events for packet in stream.packets)
    ]
    if not copies and not target.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    if _older(target / "metadata", copied / "metadata"):
        _replace(copied / "metadata", target / "metadata")
        findings.metadata.append(str((target / "metadata").relative_to(folder)))
    for path, stream in copies:
        _append(path, stream, target / path.name, folder, findings)


def _older(ours: Path, copy: Path) -> bool:
    """Whether the metadata of a trace lack something that the ring's copy has."""
    return _usable(ours) < _usable(copy)


def _usable(path: Path) -> int:
    """How much of a metadata file is of use, in characters of its text."""
    try:
        return len(metadata.examine_metadata(path)[0])
    except FabtraceError:
        return 0


def _replace(source: Path, target: Path) -> None:
    """Put a file in place of another, or leave it as it was."""
    new = target.with_name(target.name + ".new")
    try:
        shutil.copyfile(source, new)
        os.replace(new, target)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _append(
    source: Path, stream: packets.Stream, target: Path, folder: Path, findings: Findings
) -> None:
    """Append the packets that a stream file does not have."""
    mended = _trim(target, folder, findings) if target.exists() else None
    ours = packets.read(target) if target.exists() else packets.Stream([], 0)
    uuid = ours.packets[0].uuid if ours.packets else stream.packets[0].uuid
    last = max(ours.numbers, default=-1)
    wanted = [
        packet
        for packet in stream.packets
        if packet.number > last and packet.uuid == uuid and packet.holds_events
    ]
    if not wanted:
        return
    if mended is None:
        mended = Mended(str(target.relative_to(folder)), len(ours.packets))
        findings.streams.append(mended)
    size = target.stat().st_size if target.exists() else 0
    try:
        with source.open("rb") as old, target.open("ab") as new:
            for packet in wanted:
                old.seek(packet.offset)
                _copy(old.read(packet.size_bytes), new.fileno())
    except OSError:
        os.truncate(target, size)
        raise
    _drop_index(target)
    mended.regained = len(wanted)
    mended.regained_bytes = sum(packet.size_bytes for packet in wanted)


def _copy(data: bytes, fd: int) -> None:
    """Write all of it: a disk may take a part and refuse the next."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _trim(path: Path, folder: Path, findings: Findings) -> Mended | None:
    """Leave only whole packets in a stream file."""
    stream = packets.read(path)
    if stream.cut_bytes == 0:
        return None
    mended = Mended(str(path.relative_to(folder)), len(stream.packets), cut_bytes=stream.cut_bytes)
    end = 0
    # Packets only move towards the begin, over what is cut.
    with path.open("r+b") as file:
        for packet in stream.packets:
            if packet.offset != end:
                _move(file.fileno(), packet.offset, end, packet.size_bytes)
            end += packet.size_bytes
        file.truncate(end)
    _drop_index(path)
    findings.streams.append(mended)
    return mended


def _move(fd: int, source: int, target: int, size: int) -> None:
    for done in range(0, size, COPY_BYTES):
        data = os.pread(fd, min(COPY_BYTES, size - done), source + done)
        os.pwrite(fd, data, target + done)


def _drop_index(path: Path) -> None:
    """An index that does not fit its stream is worse than none; Babeltrace walks the packets then."""
    (path.parent / "index" / f"{path.name}.idx").unlink(missing_ok=True)


def _stream_files(folder: Path) -> list[Path]:
    """The stream files of a trace's folder: all but the metadata that LTTng's packets are in."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name != "metadata" and _is_stream(path)
    )


def _is_stream(path: Path) -> bool:
    """Whether a file begins as a stream does (an empty one will)."""
    with path.open("rb") as file:
        start = file.read(4)
    return start == packets.STREAM_MAGIC
