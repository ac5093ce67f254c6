# SPDX-License-Identifier: BSD-3-Clause
"""The reader against the reference reader and against babeltrace2's text; its cache; the plugin."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bt2
import numpy as np
import pytest
from conftest import EMIT, SOURCE, Emitted
from fabtrace import catalogue
from fabtrace.errors import FabtraceError, NotKept
from fabtrace.reader import cache, decoding, native, read, trace
from fabtrace.tables import Column, dtype_of, kinds_of
from lttng_private import PrivateLttng
from reference import assert_same, read_reference

VARIANTS: list[tuple[str, ...]] = [
    ("--rounds", "30", "--full"),
    ("--rounds", "7", "--one-sided"),
    ("--rounds", "9", "--kill", "--full"),
]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test decodes, unless it is about the cache."""
    monkeypatch.setenv("FABTRACE_CACHE", "off")


@pytest.fixture(scope="module")
def crowded(
    lttng: PrivateLttng, emitted: Emitted, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Several programs at once, small packets: streams that alternate, each with many packets."""
    emitted()
    folder = tmp_path_factory.mktemp("crowded") / "run"
    commands = [[str(EMIT), "--rounds", str(20 + n), *(["--full"] * (n % 2))] for n in range(5)]
    lttng.record(folder, commands, buffers=["--subbuf-size=4K", "--num-subbuf=512"])
    return folder


@pytest.mark.parametrize("options", VARIANTS, ids=" ".join)
def test_same_as_the_reference(emitted: Emitted, options: tuple[str, ...]) -> None:
    """
    Description: every column of every event is what the reference reader finds.
    """
    folder = emitted(*options)
    assert_same(read(folder), read_reference(folder))


def test_same_with_many_streams(crowded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Description: streams that alternate every few events, several children, chunks of a few rows that
    go to disk: the same tables.
    """
    expected = read_reference(crowded)
    monkeypatch.setattr("fabtrace.reader.decoding.BYTES_A_CHILD", 1)
    for rows in (1, 7, 64, 1 << 15):
        monkeypatch.setattr("fabtrace.reader.decode.CHUNK_ROWS", rows)
        assert_same(read(crowded), expected)


def test_several_traces_in_one_folder(crowded: Path, emitted: Emitted, tmp_path: Path) -> None:
    """
    Description: recordings side by side are one set of tables; each row knows its recording.
    """
    shutil.copytree(crowded, tmp_path / "b")
    shutil.copytree(emitted("--rounds", "7", "--one-sided"), tmp_path / "a")
    tables = read(tmp_path)
    assert_same(tables, read_reference(tmp_path))
    assert len(tables.environments) == 2
    assert set(tables.hosts(tables["op_post"]).tolist()) == {0, 1}


TEXT = re.compile(r"^\[(\d+)\.(\d{9})\] .*?fabt:(\w+): \{ cpu_id = (\d+) \}, \{(.*)\}$")


def text_rows(folder: Path) -> Iterator[tuple[str, int, int, dict[str, int]]]:
    """Event, time, processor and plain numbers of each line of babeltrace2's text output."""
    command = ["babeltrace2", "--clock-seconds", "--no-delta", str(folder)]
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        found = TEXT.match(line)
        assert found, line
        bare = re.sub(r'"(?:\\.|[^"\\])*"|\[[^\]]*\]', "", found[5])
        numbers = {
            name: int(value, 0)
            for name, value in re.findall(r"(\w+) = (?:\( [^()]*container = )?(-?\w+)", bare)
            if re.fullmatch(r"-?(0x[0-9A-F]+|\d+)", value)
        }
        yield found[3], int(found[1]) * 10**9 + int(found[2]), int(found[4]), numbers


def test_same_as_the_text(crowded: Path) -> None:
    """
    Description: numbers, times and processors are those that babeltrace2 prints, event by event.
    """
    tables = read(crowded)
    expected: dict[str, Counter[tuple[object, ...]]] = {}
    names: dict[str, list[str]] = {}
    for event, time, cpu, numbers in text_rows(crowded):
        known = names.setdefault(event, [n for n in kinds_of(event) if n in numbers])
        row = (time, cpu, *(numbers[name] for name in known))
        expected.setdefault(event, Counter())[row] += 1
    assert expected.keys() == tables.tables.keys()
    for event, rows in expected.items():
        table = tables[event]
        columns: list[Column] = [table.times, tables.cpus(table)]
        columns += [table[name] for name in names[event]]
        assert Counter(zip(*(column.tolist() for column in columns))) == rows
        integers = [n for n, k in kinds_of(event).items() if dtype_of(k) is not object]
        assert set(integers) <= {*names[event], "timestamp_ns", "stream"}


def test_the_trace_of_an_older_engine(emitted: Emitted, tmp_path: Path) -> None:
    """
    Description: a field that the trace lacks is zero and named; one that the catalogue lacks is ignored.
    """
    copy = tmp_path / "copy"
    shutil.copytree(emitted("--rounds", "7", "--one-sided"), copy)
    (metadata,) = copy.rglob("metadata")
    text = subprocess.run(
        ["babeltrace2", "-o", "ctf-metadata", str(metadata.parent)], capture_output=True, text=True
    ).stdout
    metadata.write_text(text.replace("} _call_ns;", "} _other_ns;"))
    tables = read(copy)
    assert tables.missing == {"op_post": ("call_ns",)}
    assert not tables["op_post"]["call_ns"].any() and tables["op_post"]["op"].any()


# ----------------------------------------------------------------------------------- cache


@pytest.fixture
def cached(emitted: Emitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace whose columns may be kept."""
    monkeypatch.delenv("FABTRACE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    copy = tmp_path / "run"
    shutil.copytree(emitted("--rounds", "7", "--one-sided"), copy)
    return copy


def decodings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Gets an element each time a trace is decoded."""
    made: list[Any] = []

    def count(*arguments: Any) -> decoding.Made:
        made.append(arguments)
        return decoding.decode(*arguments)

    monkeypatch.setattr(trace, "decode", count)
    return made


def kept(folder: Path) -> list[Path]:
    """The files that the cache holds for a trace."""
    return sorted((folder / cache.FOLDER).iterdir())


def test_the_second_time_nothing_is_decoded(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = decodings(monkeypatch)
    first = read(cached)
    assert_same(read(cached), first)
    assert len(made) == 1 and len(kept(cached)) == 1


@pytest.mark.parametrize("what", ["stream", "metadata", "time", "version", "schema"])
def test_a_change_makes_it_anew(cached: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """
    Description: another content, another time of a file, another reader or catalogue: decoded again, and
    the old columns go.
    """
    made = decodings(monkeypatch)
    read(cached)
    (metadata,) = cached.rglob("metadata")
    stream = next(f for f in sorted(metadata.parent.iterdir()) if f.is_file() and f != metadata)
    if what == "stream":
        shutil.copy(stream, stream.with_name("copy"))
        stream.unlink()
        stream.with_name("copy").rename(stream)
    elif what == "metadata":
        metadata.write_bytes(metadata.read_bytes())
    elif what == "time":
        os.utime(stream, ns=(0, stream.stat().st_mtime_ns + 1))
    elif what == "version":
        monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    else:
        smaller = dict(catalogue.load().events)
        smaller.popitem()
        known = catalogue.Catalogue(1, catalogue.load().levels, smaller, catalogue.load().enums)
        monkeypatch.setattr(catalogue, "load", lambda: known)
    read(cached)
    assert len(kept(cached)) == 1 and len(made) == 2


def test_damage_is_found(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Description: one bit changed, the end cut, zeros instead: each time it is found and made anew.
    """
    expected = read(cached)
    (file,) = kept(cached)
    content = file.read_bytes()
    made = decodings(monkeypatch)
    chance = random.Random(5)
    spoiled = [content[: chance.randrange(len(content))] for _ in range(4)]
    spoiled += [b"", bytes(len(content)), content[:-1], content + b"x"]
    for _ in range(12):
        bits = bytearray(content)
        bits[chance.randrange(len(bits))] ^= 1 << chance.randrange(8)
        spoiled.append(bytes(bits))
    for number, wrong in enumerate(spoiled):
        file.write_bytes(wrong)
        assert_same(read(cached), expected)
        assert len(made) == number + 1
    assert [len(path.read_bytes()) for path in kept(cached)] == [len(content)]


def test_where_the_trace_cannot_be_written(cached: Path, tmp_path: Path) -> None:
    """
    Description: instead of a folder there is a file: the columns go under XDG_CACHE_HOME.
    """
    (cached / cache.FOLDER).write_text("in the way")
    first = read(cached)
    assert len(list((tmp_path / "home" / "fabtrace").glob("*/*.columns"))) == 1
    assert_same(read(cached), first)


def test_where_nothing_can_be_written(cached: Path, tmp_path: Path) -> None:
    (cached / cache.FOLDER).write_text("in the way")
    (tmp_path / "home").write_text("in the way")
    with pytest.warns(NotKept, match="not kept for the next command"):
        assert read(cached).events == read(cached).events > 0


def test_switched_off(emitted: Emitted, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(emitted("--rounds", "7", "--one-sided"), copy)
    shutil.rmtree(copy / cache.FOLDER, ignore_errors=True)
    read(copy)
    assert not (copy / cache.FOLDER).exists()


@pytest.mark.parametrize("when", ["in between", "at the end"])
def test_no_space(emitted: Emitted, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """
    Description: a disk that is full is named, with what to do.
    """
    monkeypatch.setattr(decoding, "spill_path", lambda room, number: Path("/dev/full"))
    if when == "in between":
        monkeypatch.setattr("fabtrace.reader.decode.CHUNK_ROWS", 2)
    with pytest.raises(FabtraceError, match="no room for its columns"):
        read(emitted("--rounds", "30", "--full"))


def test_full_disks(emitted: Emitted, lttng: PrivateLttng, tmp_path: Path) -> None:
    """
    Description: the disk of the trace is full: the columns are kept in the other place. That is full, too:
    they are kept nowhere, and one line says so. There is no room for temporary files either: one line.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    trace_ = tmp_path / "run"
    shutil.copytree(emitted("--full"), trace_, ignore=shutil.ignore_patterns(cache.FOLDER))
    folders = [trace_ / cache.FOLDER, tmp_path / "home", tmp_path / "temporary"]
    for folder in folders:
        folder.mkdir()
    expected = read(trace_).events

    def report(full: list[Path]) -> subprocess.CompletedProcess[str]:
        mounts = [f"mount -t tmpfs -o size=16k none {folder} && " for folder in full]
        command = f"{''.join(mounts)}exec {SOURCE}/scripts/fabtrace report {trace_} --json"
        extra = {
            "FABTRACE_CACHE": "on", "XDG_CACHE_HOME": str(folders[1]), "TMPDIR": str(folders[2])
        }  # fmt: skip
        words = ["unshare", "-m", "sh", "-c", command]
        return lttng.run(words, check=False, extra=extra)

    done = report(folders[:1])
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(folders[1].glob("fabtrace/*/*.columns"))) == 1
    shutil.rmtree(folders[1] / "fabtrace")
    done = report(folders[:2])
    assert done.returncode == 0 and done.stderr.count("\n") == 1, done.stderr
    assert "warning" in done.stderr and "not kept" in done.stderr and str(folders[1]) in done.stderr
    assert json.loads(done.stdout)["trace"]["events"] == expected
    done = report(folders)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "no room for its columns" in done.stderr and "TMPDIR" in done.stderr
    assert not any(path.is_file() for folder in folders for path in folder.rglob("*"))


# ---------------------------------------------------------------------------------- plugin


def babeltrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """babeltrace2 with the plugin."""
    command = ["babeltrace2", f"--plugin-path={native.folder()}", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_numpy_files_from_the_command_line(crowded: Path, tmp_path: Path) -> None:
    """
    Description: `-c sink.fabt.columns -p path` writes what the reader finds; its rows are in time order.
    """
    out = tmp_path / "out"
    done = babeltrace(crowded, "-c", "sink.fabt.columns", "-p", f'path="{out}"')
    assert done.returncode == 0, done.stderr
    tables = read(crowded)
    assert {path.name for path in out.iterdir() if path.is_dir()} == tables.tables.keys()
    for event, table in tables.tables.items():
        assert np.load(out / event / "timestamp_ns.npy").tolist() == table.times.tolist()
        for name, kind in kinds_of(event).items():
            if dtype_of(kind) is object:
                lengths = np.load(out / event / f"{name}.lengths.npy")
                values = np.load(out / event / f"{name}.values.npy")
                assert sorted(lengths) == sorted(table.ragged(name).lengths)
                assert len(values) == len(table.ragged(name).values)
            elif name not in ("timestamp_ns", "stream"):
                found = np.load(out / event / f"{name}.npy")
                assert found.dtype == table[name].dtype
                assert np.array_equal(np.sort(found), np.sort(table[name]))
    described = json.loads((out / "trace.json").read_text())
    assert sorted(described["declared"]) == sorted(tables.declared)


def test_parameters_are_checked(crowded: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("x")
    for parameter, says in {
        'path="%s"' % (tmp_path / "used"): "Directory not empty",
        "path=1": "parameter `path`",
        "collector=99": "there is none with this id",
    }.items():
        done = babeltrace(crowded, "-c", "sink.fabt.columns", "-p", parameter)
        assert done.returncode == 1 and says in " ".join(done.stderr.split()), parameter


def test_summary_from_the_command_line(crowded: Path) -> None:
    """
    Description: `-c sink.fabt.summary` counts the events of each name, and none is lost.
    """
    done = babeltrace(crowded, "-c", "sink.fabt.summary")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:-1]]
    counted = {row[0].removeprefix("fabt:"): int(row[1]) for row in rows}
    tables = read(crowded)
    assert counted == {event: len(table) for event, table in tables.tables.items()}
    assert all(int(row[-1]) == 0 for row in rows)


def test_columns_are_seen_without_a_copy(emitted: Emitted) -> None:
    """
    Description: a graph built in Python, and its columns as arrays over the plugin's own memory.
    """
    folder = next(emitted("--rounds", "30", "--full").rglob("metadata")).parent
    expected = read_reference(folder)
    with native.Collector() as collector:
        graph = bt2.Graph()
        reader = bt2.find_plugin("ctf").source_component_classes["fs"]
        source = graph.add_component(reader, "source", {"inputs": [str(folder)]})
        ports = [source.output_ports[name] for name in source.output_ports]
        plugins = bt2.find_plugins_in_path(str(native.folder()))
        columns = next(p for p in plugins if p.name == "fabt").sink_component_classes["columns"]
        parameters = {"collector": collector.id, "ports": len(ports)}
        sink = graph.add_component(columns, "sink", parameters)
        for port, name in zip(ports, sink.input_ports):
            graph.connect_ports(port, sink.input_ports[name])
        graph.run()
        ops, none = collector.column("op_post", "op", np.uint64)
        assert none is None and sorted(ops.tolist()) == sorted(expected["op_post"]["op"].tolist())
        again, _ = collector.column("op_post", "op", np.uint64)
        assert ops.ctypes.data == again.ctypes.data and not ops.flags.owndata
        values, lengths = collector.column("session_address", "address", np.uint8)
        assert lengths is not None and int(lengths.sum()) == len(values) > 0
        with pytest.raises(KeyError):
            collector.column("op_post", "no_such", np.uint64)


def test_help_of_the_plugin() -> None:
    for name in ("columns", "summary"):
        done = subprocess.run(
            ["babeltrace2", f"--plugin-path={native.folder()}", "help", f"sink.fabt.{name}"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and f"sink.fabt.{name}" in done.stdout


def test_without_the_plugin(monkeypatch: pytest.MonkeyPatch, emitted: Emitted) -> None:
    monkeypatch.setattr(native, "places", lambda: [SOURCE / "nowhere"])
    native.library.cache_clear()
    with pytest.raises(FabtraceError, match="babeltrace-plugin-fabt.so is missing: build it"):
        read(emitted("--rounds", "7", "--one-sided"))
    native.library.cache_clear()
