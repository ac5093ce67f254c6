# SPDX-License-Identifier: BSD-3-Clause
"""Damaged traces and folders that are none: one clear message each, and never a crash or a hang."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SOURCE, Emitted
from fabtrace import check
from fabtrace.errors import FabtraceError
from fabtrace.reader import read, trace

Damage = Callable[[Path], object]


@pytest.fixture
def good(emitted: Emitted, tmp_path: Path) -> Path:
    """A copy of a sound trace, to be damaged: the folder with `metadata`."""
    copy = tmp_path / "copy"
    shutil.copytree(emitted("--rounds", "8"), copy)
    (folder,) = check.find_metadata_folders(copy)
    return folder


def streams(folder: Path) -> list[Path]:
    """Stream files that hold something."""
    return [
        f
        for f in sorted(folder.iterdir())
        if f.is_file() and f.name != "metadata" and f.stat().st_size
    ]


def packets(file: Path) -> list[tuple[int, int]]:
    """Offset and size of each packet of a stream file."""
    content, offset, found = file.read_bytes(), 0, []
    while offset < len(content):
        size = struct.unpack_from("<Q", content, offset + 56)[0] // 8
        found.append((offset, size))
        offset += size
    return found


def text_metadata(folder: Path) -> str:
    """Replace packetised metadata by its text, as converters write it."""
    content = (folder / "metadata").read_bytes()
    text = check.unpack_metadata(folder / "metadata", content)
    (folder / "metadata").write_bytes(text)
    return text.decode()


def cut(file: Path, size: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(size)


def overwrite(file: Path, offset: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(content)


def cut_text(folder: Path) -> None:
    text = text_metadata(folder)
    (folder / "metadata").write_text(text[: len(text) * 2 // 3])


def cut_text_after_trace(folder: Path) -> None:
    """Cut where a declaration ends, so that what is left looks whole."""
    text = text_metadata(folder)
    (folder / "metadata").write_text(text[: text.index("};", text.index("env {")) + 2])


def other_uuid(folder: Path) -> None:
    overwrite(streams(folder)[0], 4, bytes(16))


def no_packet(folder: Path) -> None:
    with streams(folder)[0].open("ab") as opened:
        opened.write(b"\0" * 4096)


def wrong_size(folder: Path) -> None:
    overwrite(streams(folder)[0], 56, struct.pack("<Q", 8))


def cut_packet(folder: Path) -> None:
    file = streams(folder)[0]
    cut(file, file.stat().st_size - 100)


def cut_header(folder: Path) -> None:
    cut(streams(folder)[0], 30)


def cut_at_packet(folder: Path) -> None:
    """Whole packets are left, fewer than the index says."""
    file = streams(folder)[0]
    cut(file, packets(file)[-1][0])


def missing_stream(folder: Path) -> None:
    streams(folder)[0].unlink()


def cut_metadata(folder: Path) -> None:
    cut(folder / "metadata", (folder / "metadata").stat().st_size - 50)


def cut_metadata_header(folder: Path) -> None:
    cut(folder / "metadata", 20)


def wrong_metadata_size(folder: Path) -> None:
    overwrite(folder / "metadata", 28, struct.pack("<I", 0))


def garbage_metadata(folder: Path) -> None:
    (folder / "metadata").write_bytes(b"\x7fELF and so on")


def ctf2_metadata(folder: Path) -> None:
    (folder / "metadata").write_bytes(b'\x1e{"type":"preamble","version":2}\n')


@pytest.mark.parametrize(
    "damage, file, says",
    [
        (lambda folder: cut(folder / "metadata", 0), "metadata", "is empty"),
        (cut_metadata, "metadata", "is truncated in the packet at byte"),
        (cut_metadata_header, "metadata", "is truncated in the packet at byte 0"),
        (wrong_metadata_size, "metadata", "is damaged at byte 0"),
        (cut_text, "metadata", "is truncated: its text stops"),
        (cut_text_after_trace, "metadata", "declares no stream"),
        (garbage_metadata, "metadata", "is no CTF metadata"),
        (lambda folder: (folder / "notes.txt").write_text("x"), "notes.txt", "does not belong"),
        (cut_packet, "", "is truncated in the packet at byte"),
        (cut_header, "", "is truncated in the packet at byte 0"),
        (cut_at_packet, "", "packets: it is truncated"),
        (no_packet, "", "no packet"),
        (wrong_size, "", "packet size"),
        (other_uuid, "", "belongs to another trace"),
        (missing_stream, "", "is missing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_damage_is_named(good: Path, damage: Damage, file: str, says: str) -> None:
    """
    Description: a good trace is damaged in one way; the error names the file and what is wrong.
    """
    name = file or streams(good)[0].name
    read(good)  # is good before
    damage(good)
    with pytest.raises(FabtraceError) as caught:
        read(good)
    assert says in str(caught.value)
    assert str(good / name) in str(caught.value)
    assert caught.value.exit_code == 1 and "\n" not in str(caught.value)


def test_ctf2_is_refused_by_name(good: Path) -> None:
    ctf2_metadata(good)
    with pytest.raises(FabtraceError, match="is CTF 2, which needs Babeltrace 2.1"):
        check.find_traces(good, ctf2=False)
    assert check.find_traces(good, ctf2=True)[0].metadata == ""


def test_text_metadata_is_as_good(good: Path) -> None:
    before = read(good)
    text_metadata(good)
    assert read(good).events == before.events


def test_a_trace_is_found_above_its_metadata(good: Path, tmp_path: Path) -> None:
    assert [folder.path for folder in check.find_traces(tmp_path)] == [good]


def test_newer_schema(emitted: Emitted) -> None:
    with pytest.raises(FabtraceError, match="has schema version 9, this fabtrace reads up to 1"):
        read(emitted("--schema", "9"))


def test_trace_of_other_programs(good: Path) -> None:
    """Sound, but without any event of ours."""
    text = text_metadata(good)
    (good / "metadata").write_text(text.replace('name = "fabt:', 'name = "else:'))
    with pytest.raises(FabtraceError, match="holds no event of fabtget or fabtput"):
        read(good)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda path: None, "no such folder"),
        (lambda path: path.write_text("x"), "is a file"),
        (lambda path: path.mkdir(), "is empty"),
        (
            lambda path: (path / "sub").mkdir(parents=True),
            "is no trace: there is no file `metadata`",
        ),
    ],
    ids=["nothing", "file", "empty", "other"],
)
def test_what_is_no_trace(tmp_path: Path, make: Damage, says: str) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(FabtraceError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path)) and says in str(caught.value)


def test_babeltrace_that_aborts(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should Babeltrace abort on what no check foresees: the child dies, and we say of what."""

    def abort(connection: object, stderr: int, *_: object) -> None:
        faulthandler.disable()  # pytest's, which would have the last word
        os.write(stderr, b"babeltrace: condition not met\n")
        os.abort()

    monkeypatch.setattr(trace, "child_main", abort)
    with pytest.raises(FabtraceError) as caught:
        read(good)
    assert "Babeltrace died of signal SIGABRT (babeltrace: condition not met)" in str(caught.value)


def test_babeltrace_that_hangs(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncated metadata makes Babeltrace 2.0 loop: the child is ended, and we say so."""
    folder = check.TraceFolder(good, "", {})
    monkeypatch.setattr(trace, "find_traces", lambda path, ctf2: [folder])
    cut(good / "metadata", (good / "metadata").stat().st_size - 5000)
    with pytest.raises(FabtraceError, match="Babeltrace made no progress for 2 s"):
        read(good, silence_seconds=2)
    assert not multiprocessing.active_children()


def test_arbitrary_damage(good: Path) -> None:
    """
    Description: bytes overwritten and files cut at random places: each time the trace is read or
    refused with one line, and the process survives.
    """
    chance = random.Random(1)
    files = {file: file.read_bytes() for file in (good / "metadata", *streams(good))}
    outcomes = set()
    for _ in range(60):
        file = chance.choice(list(files))
        content = bytearray(files[file])
        # Headers are where damage hurts, and most of a file is padding.
        place = chance.randrange(chance.choice((64, 2048, len(content))))
        if chance.random() < 0.3:
            del content[place:]
        else:
            content[place : place + 4] = chance.randbytes(4)
        file.write_bytes(content)
        try:
            read(good, silence_seconds=5)
            outcomes.add("read")
        except FabtraceError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
        file.write_bytes(files[file])
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("command", ["report", "timeline"])
def test_the_command_prints_one_line(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fabtrace", command, str(tmp_path)],
        cwd=SOURCE / "analysis",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"fabtrace: {tmp_path} is empty") and done.stderr.count("\n") == 1
