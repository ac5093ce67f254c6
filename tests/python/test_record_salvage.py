# SPDX-License-Identifier: BSD-3-Clause
"""Mending traces, notes of recordings, what snapshots cover: on made-up files, without a session daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fabtrace import packets, snapshot
from fabtrace.errors import FabtraceError
from fabtrace.record import finish, flight, note, progress, salvage

UUID = bytes(range(16))
METADATA = """/* CTF 1.8 */
trace { major = 1; minor = 8; uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"; byte_order = le;
  packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id;
  uint64_t stream_instance_id; };
};
clock { name = "monotonic"; freq = 1000000000; offset = 5000000000; };
struct packet_context { uint64_t timestamp_begin; uint64_t timestamp_end; uint64_t content_size;
  uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; };
stream { id = 0; packet.context := struct packet_context; };
"""


class SlicesOnly:
    """A mapping as CPython 3.11 bears it: its mmap.find looks at the byte after the end, and crashes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def __getitem__(self, key: slice) -> bytes:
        assert key.stop <= len(self._content)
        return self._content[key]


def packet(number: int, body: bytes = b"e" * 100, padding: int = 28, uuid: bytes = UUID) -> bytes:
    """A packet with so much content; it takes 100 ns."""
    content = packets.HEADER.size + len(body)
    begin = 1000 + 100 * number
    head = packets.HEADER.pack(
        packets.STREAM_MAGIC,
        uuid,
        0,
        1,
        begin,
        begin + 90,
        content * 8,
        (content + padding) * 8,
        number,
        0,
        1,
    )
    return head + body + b"\0" * padding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace with metadata and no stream."""
    place = tmp_path / "trace" / "ust" / "uid" / "0" / "64-bit"
    (place / "index").mkdir(parents=True)
    (place / "metadata").write_text(METADATA)
    return place


def root(folder: Path) -> Path:
    return folder.parents[3]


def write(folder: Path, *parts: bytes) -> Path:
    """A stream file with an index."""
    path = folder / "events_1"
    path.write_bytes(b"".join(parts))
    (folder / "index" / "events_1.idx").write_bytes(b"x")
    return path


# ------------------------------------------------------------------------------ packets


def test_packets_are_found(folder: Path) -> None:
    stream = packets.read(write(folder, packet(0), packet(3)))
    assert [(item.number, item.begin, item.end) for item in stream.packets] == [
        (0, 1000, 1090),
        (3, 1300, 1390),
    ]
    assert stream.cut_bytes == 0 and all(item.holds_events for item in stream.packets)
    assert not packets.read(write(folder, packet(0, b""))).packets[0].holds_events


@pytest.mark.parametrize("size", [1, 3, 50, 84, 85, 150, 211])
def test_a_cut_packet_is_none(folder: Path, size: int) -> None:
    stream = packets.read(write(folder, packet(0), packet(1)[:size]))
    assert [item.number for item in stream.packets] == [0]
    assert stream.cut_bytes == size


def test_a_mapping_is_only_sliced() -> None:
    """Whole pages are cut in the middle of a packet, and nothing is mapped behind them."""
    content = (packet(0) + packet(1, b"e" * 8000) + packet(2))[:8192]
    assert len(content) == 8192
    with_slices = list(packets.walk(SlicesOnly(content)))  # type: ignore[arg-type]
    assert with_slices == list(packets.walk(content)) and len(with_slices) == 2


@pytest.mark.parametrize("size", [4, 60, 100, 200])
def test_packets_after_a_cut_one_are_found(folder: Path, size: int) -> None:
    """A write that failed, and one that did not."""
    stream = packets.read(write(folder, packet(0), packet(1)[:size], packet(2), packet(3)))
    assert [item.number for item in stream.packets] == [0, 2, 3]
    assert stream.cut_bytes == size


def test_recovering_and_reading_go_by_the_same_packets(folder: Path) -> None:
    """What a reader names as damaged is what `recover` cuts off, and nothing else."""
    parts = [packet(0), packet(1)[:60], packet(2), b"?" * 50, packet(3), packet(4)[:200]]
    path = write(folder, *parts)
    kept = packets.read(path)
    seen, troubles = packets.walk_packets(path, UUID, frozenset({0}))
    assert list(seen.packets) == kept.packets
    assert [item.number for item in kept.packets] == [0, 2, 3]
    assert kept.cut_bytes == 60 + 50 + 200 and not seen.intact
    places = [sum(map(len, parts[:number])) for number in (1, 3, 5)]
    for place, trouble in zip(places, troubles, strict=True):
        assert f" byte {place}" in trouble
    salvage.salvage(None, root(folder))
    assert path.read_bytes() == packet(0) + packet(2) + packet(3)


def test_sizes_that_cannot_be_are_not_believed(folder: Path) -> None:
    """Headers of files that somebody changed."""
    for content, total in ((0, 0), (8, 1 << 63), (1 << 63, 1 << 63), (2000, 1000), (672, 675)):
        head = packets.HEADER.pack(packets.STREAM_MAGIC, UUID, 0, 1, 0, 0, content, total, 0, 0, 0)
        assert packets.read(write(folder, head + b"\0" * 500)).packets == []


def test_packets_taken_while_they_were_filled_get_an_end(folder: Path) -> None:
    """In the middle the next one's begin, at the end some time after the last event."""
    unfinished = bytearray(packet(0))
    unfinished[packets.END_OFFSET : packets.END_OFFSET + 8] = bytes(8)
    path = write(folder, bytes(unfinished), packet(1), bytes(unfinished))
    salvage.close_open(path)
    assert [item.end for item in packets.read(path).packets][:2] == [1100, 1190]
    assert packets.read(path).packets[2].end > 10**9
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert now <= salvage.latest(now - 1) < now + 60 * 10**9
    assert salvage.latest(now + 5 * 10**9) > now + 10**10


# ------------------------------------------------------------------------------ trimming


def test_a_whole_trace_is_not_touched(folder: Path) -> None:
    path = write(folder, packet(0), packet(1))
    before = path.stat()
    findings = salvage.salvage(None, root(folder))
    assert not findings.changed and findings.lines() == []
    assert path.stat() == before and (folder / "index" / "events_1.idx").exists()


def test_cut_packets_are_taken_off(folder: Path) -> None:
    path = write(folder, packet(0), packet(1)[:99], packet(2), packet(3)[:50])
    (stream,) = salvage.salvage(None, root(folder)).streams
    assert (stream.whole, stream.cut_bytes) == (2, 149)
    assert path.read_bytes() == packet(0) + packet(2)
    assert not (folder / "index" / "events_1.idx").exists()
    assert not salvage.salvage(None, root(folder)).changed


def test_what_is_laid_out_differently_is_left_alone(folder: Path) -> None:
    """Not our tracer's: nothing of it may be cut off."""
    path = write(folder, packet(0), packet(1)[:50])
    for text in ("", METADATA.replace("packet_size", "size"), METADATA[:300]):
        (folder / "metadata").write_text(text)
        before = path.read_bytes()
        assert not salvage.salvage(None, root(folder)).changed
        assert path.read_bytes() == before
    (folder / "metadata").write_text(METADATA)
    other = folder / "notes.txt"
    other.write_text("not a stream")
    assert len(salvage.salvage(None, root(folder)).streams) == 1
    assert other.read_text() == "not a stream"


# ------------------------------------------------------------------------------ rings


class Extraction:
    """Stands for `lttng-crash`: copies prepared files."""

    def __init__(self, tmp_path: Path, *parts: bytes, metadata: str = METADATA) -> None:
        self.ring = tmp_path / "fabtrace-1-a"
        place = self.ring / "rings" / "s-1" / "ust" / "uid" / "0" / "64-bit"
        place.mkdir(parents=True)
        (place / "metadata").write_text(metadata)
        (place / "events_1").write_bytes(b"".join(parts))

    def extract(self, ring: Path, target: Path) -> None:
        import shutil

        shutil.copytree(ring, target)


def merge(
    monkeypatch: pytest.MonkeyPatch, folder: Path, extraction: Extraction
) -> salvage.Findings:
    monkeypatch.setattr(salvage, "extract", extraction.extract)
    return salvage.salvage(extraction.ring, root(folder))


def test_packets_of_the_ring_are_appended_once(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    """Some are on the disk already, one was cut; an empty one and another trace's are not wanted."""
    path = write(folder, packet(0), packet(1), packet(2)[:50])
    stranger = packet(9, uuid=b"z" * 16)
    extraction = Extraction(tmp_path, packet(1), packet(2), packet(3), packet(4, b"", 0), stranger)
    (stream,) = merge(monkeypatch, folder, extraction).streams
    assert (stream.whole, stream.regained, stream.cut_bytes) == (2, 2, 50)
    assert path.read_bytes() == packet(0) + packet(1) + packet(2) + packet(3)
    assert not merge(monkeypatch, folder, extraction).changed
    assert [item.name for item in root(folder).iterdir()] == ["ust"]


def test_metadata_come_from_the_ring_if_they_are_newer(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    longer = METADATA + 'event { id = 1; name = "x"; };\n'
    extraction = Extraction(tmp_path, metadata=longer)
    for text in ("", METADATA, METADATA[:200]):
        (folder / "metadata").write_text(text)
        assert merge(monkeypatch, folder, extraction).metadata == ["ust/uid/0/64-bit/metadata"]
        assert (folder / "metadata").read_text() == longer
    assert not merge(monkeypatch, folder, extraction).changed
    broken = extraction.ring / "rings/s-1/ust/uid/0/64-bit/metadata"
    broken.write_text(longer + "event {")
    assert not merge(monkeypatch, folder, extraction).changed


def test_a_trace_of_which_nothing_got_to_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    extraction = Extraction(tmp_path, packet(0))
    monkeypatch.setattr(salvage, "extract", extraction.extract)
    assert salvage.salvage(extraction.ring, tmp_path / "new").changed
    place = tmp_path / "new" / "ust" / "uid" / "0" / "64-bit"
    assert (place / "metadata").read_text() == METADATA
    assert (place / "events_1").read_bytes() == packet(0)


def test_links_keep_what_lttng_removes(tmp_path: Path) -> None:
    extraction = Extraction(tmp_path, packet(0))
    salvage.hold(extraction.ring)
    (extraction.ring / "rings/s-1/ust/uid/0/64-bit/events_1").unlink()
    kept = salvage.source(extraction.ring) / "s-1/ust/uid/0/64-bit/events_1"
    assert kept.read_bytes() == packet(0)


def test_without_lttng_crash_the_rings_stay(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    extraction = Extraction(tmp_path, packet(0))
    outcome = finish.Outcome()
    what = note.Note("fabtrace-1-a", str(extraction.ring), 1, False)
    finish.save_rings(what, root(folder), outcome, crashed=True)
    assert outcome.pending and extraction.ring.exists()
    assert "`lttng-crash` is not in PATH" in outcome.troubles[0]
    assert f"`fabtrace recover {root(folder)}`" in outcome.troubles[0]


# ------------------------------------------------------------------------------ notes


def test_a_note_is_held_while_its_recorder_lives(tmp_path: Path) -> None:
    what = note.Note("fabtrace-1-a", "/dev/shm/fabtrace-1-a", os.getpid(), False)
    with note.create(tmp_path) as holder:
        holder.write(what)
        with pytest.raises(FabtraceError, match="is being recorded"), note.take_over(tmp_path):
            pass
        assert not note.abandoned(tmp_path)
    assert note.abandoned(tmp_path)
    with note.take_over(tmp_path) as found:
        assert found is not None and found.read() == what
        found.remove()
    assert not note.abandoned(tmp_path)
    with note.take_over(tmp_path) as found:
        assert found is None


@pytest.mark.parametrize(
    "change",
    [{"session": "mine"}, {"ring": "/home/me"}, {"ring": 3}, {"version": 2}, {"more": 1}],
)
def test_notes_that_are_not_ours_are_not_believed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    good = {
        "version": 1,
        "session": "fabtrace-1-a",
        "ring": "/dev/shm/fabtrace-1-a",
        "recorder": 1,
        "flight": False,
    }
    for text, wanted in ((json.dumps(good), True), (json.dumps({**good, **change}), False)):
        (tmp_path / note.NAME).write_text(text)
        with note.take_over(tmp_path) as found:
            assert found is not None and (found.read() is not None) == wanted


# ------------------------------------------------------------------------------ snapshots


def test_what_a_snapshot_covers(folder: Path, tmp_path: Path) -> None:
    """The oldest of all, and from when on no processor's ring was overwritten."""
    (folder / "events_0").write_bytes(packet(0) + packet(1) + packet(2))
    (folder / "events_1").write_bytes(packet(7) + packet(8))
    (folder / "events_2").write_bytes(packet(4, b""))  # nothing in it: nothing missing
    place = tmp_path / "outlier-20260102-030405-0"
    root(folder).rename(place)
    covered = flight.coverage(place)
    assert covered is not None
    offset = 5_000_000_000
    assert (covered.cause, covered.size_bytes) == ("outlier", 5 * len(packet(0)))
    assert (covered.from_ns, covered.to_ns) == (offset + 1000, offset + 1890)
    assert covered.complete_from_ns == offset + 1700
    assert "of all processors" in str(covered)
    assert flight.describe(tmp_path)[0].startswith(f"{place.name}: 0.000 s up to ")
    assert json.loads((place / "snapshot.json").read_text())["to_ns"] == offset + 1890


def test_snapshots_that_hold_nothing(tmp_path: Path) -> None:
    for name in ("stall-20260102-030405-0", "error-20260102-030406-1"):
        place = tmp_path / name / "ust"
        place.mkdir(parents=True)
        (place / "metadata").write_text(METADATA if name[0] == "s" else "")
    (tmp_path / "other").mkdir()
    told = flight.describe(tmp_path)
    assert len(told) == 2
    assert told[0] == "stall-20260102-030405-0: no events"
    assert "metadata is empty" in told[1]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"cause": 3},
        {"cause": "\x1b[2J"},
        {"from_ns": 7},
        {"to_ns": 4},
        {"to_ns": 1 << 64},
        {"from_ns": "1"},
        {"more": 1},
    ],
)
def test_notes_of_snapshots_are_checked(tmp_path: Path, change: dict[str, object]) -> None:
    good = {
        "version": 1,
        "cause": "outlier",
        "from_ns": 2,
        "complete_from_ns": 5,
        "to_ns": 9,
        "size_bytes": 1,
    }
    assert snapshot.read(tmp_path) is None
    (tmp_path / snapshot.FILE).write_text(json.dumps(good))
    assert snapshot.read(tmp_path) == snapshot.Coverage("outlier", 2, 5, 9, 1)
    (tmp_path / snapshot.FILE).write_text(json.dumps(good | change))
    assert snapshot.read(tmp_path) is None


# ------------------------------------------------------------------------------ progress


def index(*entries: tuple[int, int, int]) -> bytes:
    """Entries: offset, content in bytes, events discarded."""
    body = b"".join(
        packets.INDEX_ENTRY.pack(offset, 4096 * 8, content * 8, 0, 0, discarded) + bytes(24)
        for offset, content, discarded in entries
    )
    return packets.INDEX_HEADER.pack(packets.INDEX_MAGIC, 1, 1, 72) + body


def test_progress_is_read_from_the_index(folder: Path) -> None:
    (folder / "index" / "events_0.idx").write_bytes(index((0, 4000, 0), (4096, 3000, 7)) + b"part")
    (folder / "index" / "events_1.idx").write_bytes(index((0, 500, (1 << 63) + 5)))
    (folder / "index" / "events_2.idx").write_bytes(b"")
    state = progress.look(root(folder))
    assert (state.content_bytes, state.discarded) == (7500, 7)
    assert state.newest == folder / "events_0" or state.newest == folder / "events_1"


def test_progress_line() -> None:
    state = progress.State(4_800_000, 0)
    assert progress.line(3.2, state, 0.0) == "recording 3 s: 4.8 MB, 0 lost so far"
    assert (
        progress.line(63, progress.State(48_000_000, 12), 40.0)
        == "recording 63 s: about 1,200,000 events, 48.0 MB, about 12 lost so far"
    )


# ------------------------------------------------------------------------------ the keeper


@pytest.mark.parametrize("end, cleaned", [("keeper.dismiss()", False), ("os._exit(0)", True)])
def test_the_keeper_cleans_up_only_if_nobody_else_did(
    tmp_path: Path, end: str, cleaned: bool
) -> None:
    """Its parent goes without a word: commands are ended, and the recording is finished."""
    script = f"""
import os, subprocess, sys
from pathlib import Path
from fabtrace.record.keeper import Keeper
keeper = Keeper(lambda folder: (folder / "finished").touch(), 20.0)
keeper.tell(folder={str(tmp_path)!r})
child = subprocess.Popen(["sleep", "1000"], process_group=0, stderr=subprocess.DEVNULL)
keeper.tell(group=child.pid)
print(child.pid, flush=True)
{end}
child.kill()
"""
    package = str(Path(finish.__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # Standard error was open until the keeper had ended.
    assert ("the recorder was killed" in done.stderr) == cleaned
    assert (tmp_path / "finished").exists() == cleaned
    assert not Path("/proc", done.stdout.strip(), "cwd").exists()
