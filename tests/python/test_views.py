# SPDX-License-Identifier: BSD-3-Clause
"""Every command on every kind of trace: a document that is described, and text that fits."""

from __future__ import annotations

import argparse
import csv
import errno
import io
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EMIT, SOURCE, Emitted
from fabtrace.cli import COMMANDS, main, make_parser
from fabtrace.errors import FabtraceError
from fabtrace.model import Run, build
from fabtrace.reader import read
from fabtrace.views import (
    export,
    fragments,
    latency,
    loss,
    report,
    sessions,
    slowest,
    why,
    workers,
)
from fabtrace.views.select import select
from fabtrace.views.view import View
from lttng_private import PrivateLttng
from rich.console import Console

VIEWS: dict[str, View] = {
    module.VIEW.name: module.VIEW
    for module in (report, why, sessions, workers, latency, slowest, fragments, loss)
}
RUNS = {"whole": (), "killed": ("--kill",), "one-sided": ("--one-sided",)}
WAYS: dict[str, tuple[list[str], ...]] = {
    "latency": (["--by", "session"], ["--by", "worker"], ["--by", "size"], ["--by", "time"]),
    "slowest": (["--kind", "write", "-n", "3"],),
}
SELECTIONS: tuple[list[str], ...] = (
    [],
    ["--process", "put"],
    ["--session", "1"],
    ["--begin", "10us", "--end", "5ms"],
)


@pytest.fixture(scope="session")
def model(emitted: Emitted) -> Any:
    """The model of one of the traces, read once."""
    known: dict[tuple[str, str], Run] = {}

    def get(name: str, loglevel: str = "DEBUG") -> Run:
        if (name, loglevel) not in known:
            known[(name, loglevel)] = build(read(emitted(*RUNS[name], loglevel=loglevel)))
        return known[(name, loglevel)]

    return get


def options_of(view: str, words: list[str]) -> argparse.Namespace:
    return make_parser().parse_args([view, "DIR", *words])


def text_of(view: View, document: dict[str, Any], width: int) -> list[str]:
    out = io.StringIO()
    view.show(Console(file=out, width=width), document)
    return out.getvalue().splitlines()


def check_numbers(value: Any, name: str = "") -> None:
    """Documents are plain values, their numbers finite, shares within 0 and 1."""
    if isinstance(value, dict):
        for key, item in value.items():
            check_numbers(item, str(key))
    elif isinstance(value, list):
        for item in value:
            check_numbers(item, name)
    else:
        assert value is None or isinstance(value, (str, int, float)), (name, value)
        if isinstance(value, float):
            assert math.isfinite(value), name
            if name.endswith("_share"):
                assert -0.01 <= value <= 1.01, (name, value)


@pytest.mark.parametrize("loglevel", ["INFO", "DEBUG"])
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("view", VIEWS)
def test_documents_and_text(model: Any, view: str, name: str, loglevel: str) -> None:
    """
    Description: each view of each trace at the lowest and the highest level, whole and in parts: its
    document has a schema, a version and sane numbers, and the text of 80 and of 120 columns fits, cuts
    nothing short but command lines, and says something also where there is nothing.
    """
    for selection in SELECTIONS:
        ways: list[list[str]] = [[], *WAYS.get(view, ())]
        for way in ways:
            options = options_of(view, [*selection, *way])
            try:
                run = select(model(name, loglevel), options)
            except FabtraceError as error:
                assert name == "one-sided" and "put" in str(error)
                continue
            document = VIEWS[view].make(run, options)
            assert document["schema"] == f"fabtrace.{view}" and document["version"] >= 1
            check_numbers(json.loads(json.dumps(document, allow_nan=False)))
            for width in (80, 120):
                lines = text_of(VIEWS[view], document, width)
                assert max(map(len, lines)) <= width and len(lines) >= 2
                assert all(line == line.rstrip() for line in lines)
                cut = [line for line in lines if "…" in line]
                assert all(re.match(r"(get|put)\d?: ", line) for line in cut), cut


def test_every_command_has_help_with_examples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns, also on a wider terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    names = [module.__name__.rpartition(".")[2] for module in COMMANDS]
    with pytest.raises(SystemExit):
        main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    for name in ["record" if name == "command" else name for name in names]:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        out = capsys.readouterr().out
        assert end.value.code == 0
        assert "example" in out and "--json" in out or name == "record"
        assert max(map(len, out.splitlines())) <= 80, name


def test_every_schema_is_documented() -> None:
    page = (SOURCE / "doc" / "analysis-json.md").read_text()
    for name in (*VIEWS, "check", "export", "timeline"):
        assert f"`fabtrace.{name}`" in page, name


def test_accounts_of_json_add_up_to_one(model: Any) -> None:
    document = why.VIEW.make(model("whole"), options_of("why", []))
    for row in document["sessions"]:
        assert sum(row["shares"].values()) == pytest.approx(1.0)


def test_latency_by_session_counts_what_latency_counts(model: Any) -> None:
    """Groups are a partition: counts add up, the greatest maximum is the maximum."""
    run = model("whole")
    whole = {row["kind"]: row for row in latency.VIEW.make(run, options_of("latency", []))["rows"]}
    for by in ("session", "worker", "size", "time"):
        options = options_of("latency", ["--by", by])
        rows = latency.VIEW.make(run, options)["rows"]
        for kind, row in whole.items():
            mine = [r for r in rows if r["kind"] == kind]
            assert sum(r["count"] for r in mine) == row["count"]
            assert max(r["max_us"] for r in mine) == row["max_us"]
            mean = sum(r["mean_us"] * r["count"] for r in mine) / row["count"]
            assert mean == pytest.approx(row["mean_us"])


def test_slowest_are_the_slowest(model: Any) -> None:
    run = model("whole")
    rows = slowest.VIEW.make(run, options_of("slowest", ["--kind", "write", "-n", "7"]))[
        "operations"
    ]
    writes = run.operations.rows(run.operations.kind == 8)
    top = sorted(writes.latency_ns[writes.succeeded].tolist(), reverse=True)[:7]
    assert [round(row["latency_us"] * 1e3) for row in rows] == top


def test_open_operations_are_listed(model: Any) -> None:
    document = slowest.VIEW.make(model("killed"), options_of("slowest", ["--kind", "vector_rx"]))
    assert document["open_count"] == len(document["open"]) > 0
    lines = text_of(slowest.VIEW, document, 80)
    assert any(line.startswith("Open: ") for line in lines)


def check_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["check", str(folder), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def test_check_of_traces(emitted: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    """A killed run is sound, with a note; a folder without a trace is not, and says why."""
    code, document = check_command(emitted("--kill"), capsys)
    assert code == 0 and document["sound"]
    assert "note" in {row["result"] for row in document["checks"]}
    code, document = check_command(SOURCE / "doc", capsys)
    assert code == 1 and not document["sound"] and document["checks"][0]["result"] == "failed"


@pytest.mark.parametrize("kind", ["csv", "npz", "hdf5"])
def test_export_holds_the_operations(model: Any, tmp_path: Path, kind: str) -> None:
    """What is written is what the model has: all operations, their times, labels and unknowns."""
    if kind == "hdf5":
        pytest.importorskip("h5py")
    run, target = model("killed"), tmp_path / "out"
    words = ["--format", kind, "-o", str(target), "--events", "session_phase"]
    document = export.VIEW.make(run, options_of("export", words))
    operations = run.operations
    assert document["tables"]["operations"]["rows"] == len(operations)
    assert document["tables"]["event_session_phase"]["rows"] == len(run.tables["session_phase"])
    if kind == "csv":
        with (target / "operations.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [int(row["begin_ns"]) for row in rows] == operations.begin_ns.tolist()
        unknown = [row["end_ns"] == "" for row in rows]
        assert unknown == (~operations.ended).tolist() and any(unknown)
        assert {row["kind"] for row in rows} >= {"write", "vector_rx"}
    elif kind == "npz":
        with np.load(target) as file:
            assert np.array_equal(file["operations/end_ns"], operations.end_ns)
            assert file["sessions/session"].tolist() == [s.label for s in run.sessions]
    else:
        import h5py

        with h5py.File(target) as file:
            assert np.array_equal(file["operations/end_ns"][:], operations.end_ns)
            assert file["states/state"].asstr()[0] == "setup"


@pytest.mark.parametrize(
    "words, says",
    [
        (["export", "DIR", "-o", "."], "is there already"),
        (["export", "DIR", "-o", "new", "--events", "nothing"], "--events nothing"),
        (
            ["export", "DIR", "-o", "/dev/null/x"],
            "-o /dev/null/x: cannot be written: Not a directory; name",
        ),
        (
            ["export", "DIR", "--format", "npz", "-o", "/proc/x"],
            "-o /proc/x: cannot be written: No such file or directory; name a path in a folder",
        ),
        (
            ["latency", "DIR", "--run", "7"],
            "--run 7: not in the trace, which has 1 (000000000fab7ace)",
        ),
        (["latency", "DIR", "--session", "put:77"], "--session put:77"),
        (["why", "DIR", "--process", "zebra"], "--process zebra"),
        (["workers", "DIR", "--worker", "9"], "--worker 9"),
        (["sessions", "DIR", "--begin", "900s"], "--begin"),
    ],
)
def test_what_is_wrong_is_one_line(
    emitted: Emitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], words: list[str], says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    folder = str(emitted())
    code = main([folder if word == "DIR" else word for word in words])
    captured = capsys.readouterr()
    assert code in (1, 2) and says in captured.err
    assert captured.err.count("\n") == 1 and captured.out == ""


def test_a_trace_without_any_event(
    lttng: PrivateLttng, emitted: Emitted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Description: a program with tracepoints ran, and ended before it wrote anything: one line says what to do.
    """
    emitted()  # skips or fails if there is no `emit`
    lttng.record(tmp_path / "run", [[EMIT, "--rounds", "none"]], check=False)
    for command in ("report", "timeline", "why"):
        assert main([command, str(tmp_path / "run")]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1
        assert (
            "holds no event" in captured.err
            and "record again with `fabtrace record" in captured.err
        )


def test_an_export_on_a_full_disk_leaves_nothing(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(target: Path, tables: Any) -> None:
        target.mkdir()
        (target / "operations.csv").write_text("begin_ns")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setitem(export.WRITERS, "csv", full)
    with pytest.raises(FabtraceError, match="-o .*out: cannot be written: No space left on device"):
        export.VIEW.make(model("whole"), options_of("export", ["-o", str(tmp_path / "out")]))
    assert not list(tmp_path.iterdir())
