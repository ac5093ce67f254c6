# SPDX-License-Identifier: BSD-3-Clause
"""Damaged traces, and folders that are none: what can be read is, the rest is named, and never a
traceback, a crash or a hang."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import EMIT, SOURCE, Emitted
from fabtrace import check, cli
from fabtrace.errors import FabtraceError, UnsoundTrace
from fabtrace.metadata import examine_metadata
from fabtrace.reader import children, decode, read
from fabtrace.tables import Problem
from lttng_private import PrivateLttng

sys.path.insert(0, str(SOURCE / "tests" / "damage"))

import corpus  # noqa: E402  (the path comes first)


@dataclass(frozen=True)
class Done:
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def fabtrace(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command as its `main` does, without what Python takes to start."""
    monkeypatch.setenv("FABTRACE_CACHE", "off")

    def run(*arguments: str | Path) -> Done:
        capfd.readouterr()
        code: int = cli.main([str(argument) for argument in arguments])
        said = capfd.readouterr()
        return Done(code, str(said.out), str(said.err))

    return run


@pytest.fixture(scope="module")
def good(lttng: PrivateLttng, emitted: Emitted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound trace with two streams of several packets each."""
    emitted()  # skips or fails if there is no `emit`
    folder = tmp_path_factory.mktemp("good") / "run"
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one processor gives one stream")
    pair = [["taskset", "-c", str(cpu), str(EMIT), "--rounds", "60"] for cpu in cpus[:2]]
    buffers = ["--subbuf-size=16K", "--num-subbuf=256"]
    lttng.record(folder, pair, buffers=buffers)
    return folder


@pytest.fixture(scope="module")
def good_events(good: Path) -> int:
    """How many events the good trace has."""
    return read(good).events


@pytest.mark.parametrize("damage", corpus.DAMAGES, ids=[item.name for item in corpus.DAMAGES])
def test_damage(
    good: Path, good_events: int, tmp_path: Path, fabtrace: Command, damage: corpus.Damage
) -> None:
    """
    Description: a good trace is damaged in one way. The command reads what can be read, says what it
    could not read in lines that name it, and has the right exit code, without traceback and in time.
    """
    trace = corpus.make(good, tmp_path, damage)
    done = fabtrace("report", trace, "--json")
    complaint = done.stderr
    assert "Traceback" not in complaint and done.returncode == damage.code, complaint
    assert all(line.startswith("fabtrace: ") for line in complaint.splitlines()), complaint
    if damage.says:
        found = [line for line in complaint.splitlines() if re.search(damage.says, line)]
        assert found and str(trace) in found[0], complaint
    else:
        assert complaint == ""
    if damage.events == corpus.NONE:
        assert done.stdout == ""
        return
    events = json.loads(done.stdout)["trace"]["events"]
    if damage.events == corpus.ALL:
        assert events == good_events
    else:
        # Each file has half of the events, and no damage is to more than one file.
        assert good_events * 0.3 < events < good_events or damage.name in HALF_LOST
    assert "warning" in complaint or not damage.says


# In these the rest can't be decoded either: later declarations are missing.
HALF_LOST = {"metadata_cut_in_packet", "metadata_cut_at_packet", "metadata_text_cut",
             "metadata_packet_without_magic", "one_of_two_traces"}  # fmt: skip


def test_corpus_is_large_enough() -> None:
    assert len(corpus.DAMAGES) >= 40
    assert len({damage.name for damage in corpus.DAMAGES}) == len(corpus.DAMAGES)


def test_only_the_bad_packet_is_left_out(good: Path, tmp_path: Path) -> None:
    """
    Description: noise in one packet of one stream loses the events of that packet and no other; the
    problem names the packet.
    """
    trace = corpus.make(good, tmp_path, by_name("packet_full_of_noise"))
    file = corpus.streams(corpus.find_folder(trace))[0]
    offset = corpus.middle(file)
    with pytest.warns(UnsoundTrace):
        tables = read(trace)
    whole = read(good)
    (problem,) = [p for p in tables.problems if f"in the packet at byte {offset};" in p.text]
    assert problem.path == str(file)
    posts, all_posts = tables["op_post"], whole["op_post"]
    lost = len(all_posts) - len(posts)
    packets = len(corpus.packets(file))
    assert 0 < lost < 2 * len(all_posts) / packets
    assert (posts.times[0], posts.times[-1]) == (all_posts.times[0], all_posts.times[-1])


def by_name(name: str) -> corpus.Damage:
    """A damage of the corpus."""
    return next(damage for damage in corpus.DAMAGES if damage.name == name)


def test_several_bad_packets(good: Path, tmp_path: Path) -> None:
    """Each is left out by itself, also two in a row."""
    trace = tmp_path / "copy"
    shutil.copytree(good, trace)
    for file in corpus.streams(corpus.find_folder(trace)):
        for offset, _ in corpus.packets(file)[1:4:1]:
            corpus.overwrite(file, offset + corpus.HEADER, b"\xff\x7f" * 100)
    with pytest.warns(UnsoundTrace):
        tables = read(trace)
    assert len(tables.problems) == 6
    assert tables["op_post"].times[-1] == read(good)["op_post"].times[-1]


def test_ctf2_is_read_where_babeltrace_can(good: Path, tmp_path: Path) -> None:
    trace = corpus.make(good, tmp_path, by_name("metadata_of_ctf2"))
    with pytest.raises(FabtraceError, match="is CTF 2, which needs Babeltrace 2.1"):
        check.survey(trace, ctf2=False)
    assert check.survey(trace, ctf2=True).folders[0].metadata == ""


def test_newer_schema(emitted: Emitted) -> None:
    with pytest.raises(FabtraceError, match="has schema version 9, this fabtrace reads up to 1"):
        read(emitted("--schema", "9"))


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
def test_what_is_no_trace(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(FabtraceError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path)) and says in str(caught.value)


def test_babeltrace_that_aborts(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should Babeltrace abort on what no check foresees: the child dies, and we say of what."""

    def abort(connection: object, stderr: int, *_: object) -> None:
        faulthandler.disable()  # pytest's, which would have the last word
        os.write(stderr, b"babeltrace: condition not met\n")
        os.abort()

    copy = tmp_path / "copy"
    shutil.copytree(good, copy, ignore=shutil.ignore_patterns(".fabtrace-cache"))
    monkeypatch.setattr(children, "child_main", abort)
    with pytest.raises(FabtraceError) as caught:
        read(copy)
    assert "Babeltrace died of signal SIGABRT (babeltrace: condition not met)" in str(caught.value)
    assert not list(copy.glob(".fabtrace-cache/*"))


def test_one_stream_that_kills_babeltrace(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Description: a child dies at one of its streams. The others are read by another child.
    """
    original = decode.child_main

    def die_at_one(*arguments: Any) -> None:
        faulthandler.disable()
        run_graph = decode.run_graph

        def fatal(folders: Any, opened: Any, names: list[str], to: Any) -> None:
            if any(name.endswith("| 0") for name in names):
                os.abort()
            run_graph(folders, opened, names, to)

        decode.run_graph = fatal
        original(*arguments)

    copy = tmp_path / "copy"
    shutil.copytree(good, copy, ignore=shutil.ignore_patterns(".fabtrace-cache"))
    monkeypatch.setattr(children, "child_main", die_at_one)
    with pytest.warns(UnsoundTrace, match="died of signal SIGABRT"):
        tables = read(copy)
    assert 0 < tables.events < read(good).events


def test_babeltrace_that_hangs(good: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A truncated metadata makes Babeltrace 2.0 loop: the child is ended, and we say so."""
    trace = tmp_path / "copy"
    shutil.copytree(good, trace, ignore=shutil.ignore_patterns(".fabtrace-cache"))
    folder = corpus.find_folder(trace)
    corpus.cut(folder / "metadata", -5000)
    blind = check.Survey([check.TraceFolder(folder, "")], [])
    monkeypatch.setattr("fabtrace.reader.trace.survey", lambda path, ctf2: blind)
    with pytest.raises(FabtraceError, match="Babeltrace made no progress for 2 s"):
        read(trace, silence_seconds=2)
    assert not multiprocessing.active_children()


def test_arbitrary_damage(good: Path, tmp_path: Path) -> None:
    """
    Description: bytes overwritten and files cut at random places: each time the trace is read, wholly
    or in part, or refused with one line, and the process survives.
    """
    copy = tmp_path / "copy"
    shutil.copytree(good, copy)
    folder = corpus.find_folder(copy)
    chance = random.Random(1)
    files = {file: file.read_bytes() for file in (folder / "metadata", *corpus.streams(folder))}
    outcomes = set()
    for _ in range(40):
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcomes.add("in part" if read(copy, silence_seconds=5).problems else "read")
        except FabtraceError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
        file.write_bytes(files[file])
    assert outcomes == {"read", "in part", "refused"}


def test_metadata_cut_anywhere(good: Path, tmp_path: Path, fabtrace: Command) -> None:
    """
    Description: metadata is cut, in packets and as text, at every 97th byte. Each time it is refused, or
    what is left is used, with one line that names the file, whatever the streams hold.
    """
    copy = tmp_path / "copy"
    shutil.copytree(good, copy, ignore=shutil.ignore_patterns(".fabtrace-cache"))
    folder = corpus.find_folder(copy)
    metadata = folder / "metadata"
    outcomes = set()
    for content in (metadata.read_bytes(), corpus.text_of(folder).encode()):
        for number, size in enumerate(range(97, len(content.rstrip()), 97)):
            metadata.write_bytes(content[:size])
            try:
                _, trouble = examine_metadata(metadata)
                if not trouble:  # cut between two declarations, which nobody can know
                    assert content[:size].rstrip().endswith(b"};"), size
                    continue
                outcomes.add("in part")
                assert "\n" not in trouble
            except FabtraceError as error:
                outcomes.add("refused")
                assert str(error).startswith(str(metadata)) and "\n" not in str(error)
            if number % 80 == 40:
                done = fabtrace("report", copy)
                assert done.returncode == 1 and done.stderr.startswith("fabtrace: "), size
                assert str(metadata) in done.stderr and "0x" not in done.stderr, size
                assert done.stderr.count("\n") == 1, (size, done.stderr)
    assert outcomes == {"in part", "refused"}


@pytest.mark.parametrize("command", ["report", "timeline"])
def test_the_command_prints_one_line(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", SOURCE / "scripts" / "fabtrace", command, tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"fabtrace: {tmp_path} is empty") and done.stderr.count("\n") == 1


def test_problems_read_as_one_line() -> None:
    assert str(Problem("a/b", "is odd")) == "a/b: is odd"
