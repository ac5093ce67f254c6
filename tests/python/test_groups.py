# SPDX-License-Identifier: BSD-3-Clause
"""Several runs in one folder: each stands for itself."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import oracle
import pytest
from conftest import EMIT, Emitted
from fabtrace.errors import FabtraceError
from fabtrace.model import Run, build
from fabtrace.reader import read
from fabtrace.views import report_text
from fabtrace.views.report_document import make_report
from fabtrace.views.select import pick_run
from lttng_private import PrivateLttng
from rich.console import Console
from synthetic import GET, PUT, Trace
from test_report import BYTES, report

RUN_IDS = ("1111", "2222")


def pair(
    trace: Trace, time: int, get: int, put: int, runs: tuple[int, int], session_run: int
) -> None:
    """A get and a put with a session each, always at the same addresses."""
    for instance, role, run_id, local, peer in (
        (get, "get", runs[0], "g", "p"), (put, "put", runs[1], "p", "g")
    ):  # fmt: skip
        trace.process(instance, role, time=time)
        trace.rows["process"][-1]["run_id"] = run_id
        trace.add("session_open", time + 10, instance, session=0, run_id=session_run)
        for kind, address in (("local", local), ("peer", peer)):
            trace.add(
                "session_address", time + 11, instance, session=0, address_kind=kind, address=address
            )  # fmt: skip
        trace.add("session_close", time + 500, instance, session=0)


def joined(run: Run) -> dict[int, int]:
    return {s.process.instance: s.peer.process.instance for s in run.sessions if s.peer}


def test_ends_are_joined_within_their_run() -> None:
    """Two runs at the same time and the same addresses, as two hosts' loopbacks have them."""
    trace = Trace()
    pair(trace, 0, GET, PUT + 1, (7, 7), 7)
    pair(trace, 0, GET + 1, PUT, (8, 8), 8)
    run = build(trace.tables())
    assert joined(run) == {GET: PUT + 1, PUT + 1: GET, GET + 1: PUT, PUT: GET + 1}
    assert [(group.run_id, len(group.processes)) for group in run.groups] == [(7, 2), (8, 2)]


def test_two_recorders_gave_two_run_ids_to_one_run() -> None:
    """Each host's recorder made one up; what put said in its hello is the sessions'."""
    trace = Trace()
    pair(trace, 0, GET, PUT, (7, 8), 8)
    (group,) = build(trace.tables()).groups
    assert group.run_id == 8 and [p.role for p in group.processes] == ["get", "put"]


def test_a_get_learns_the_run_id_from_its_put() -> None:
    trace = Trace()
    pair(trace, 0, GET, PUT, (0, 8), 8)
    run = build(trace.tables())
    assert [process.run_id for process in run.processes] == [8, 8] and len(run.groups) == 1


def test_processes_without_a_run_id() -> None:
    """An older put has none, and its get's sessions neither: they are joined by their addresses."""
    trace = Trace()
    pair(trace, 0, GET, PUT, (0, 0), 0)
    pair(trace, 1000, GET + 1, PUT + 1, (9, 9), 9)
    trace.process(GET + 2, "get", time=2000)
    run = build(trace.tables())
    assert joined(run)[GET] == PUT and joined(run)[GET + 1] == PUT + 1
    members = [[process.instance for process in group.processes] for group in run.groups]
    assert members == [[GET, PUT], [GET + 1, PUT + 1], [GET + 2]]
    assert [group.run_id for group in run.groups] == [0, 9, 0]


def test_a_run_that_is_not_there() -> None:
    trace = Trace()
    pair(trace, 0, GET, PUT, (7, 7), 7)
    run = build(trace.tables())
    assert pick_run(run, 1) is run and pick_run(run, f"{7:016x}") is run
    with pytest.raises(FabtraceError, match=r"--run 2: not in the trace, which has 1 \(0{15}7\)"):
        pick_run(run, 2)


@pytest.fixture(scope="module", params=["after", "beside", "copied"])
def two_runs(
    request: pytest.FixtureRequest,
    lttng: PrivateLttng,
    emitted: Emitted,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Two runs whose processes and sessions have the same names and addresses."""
    emitted()  # skips or fails if there is no `emit`
    folder: Path = tmp_path_factory.mktemp("runs") / "both"
    commands = [[str(EMIT), "--run-id", number] for number in RUN_IDS]
    if request.param == "beside":
        lttng.record(folder, commands)
    elif request.param == "after":
        lttng.record(folder, [["sh", "-c", " && ".join(map(" ".join, commands))]])
    else:
        for number in RUN_IDS:
            shutil.copytree(emitted("--run-id", number), folder / number)
    return folder


def test_two_runs_stand_for_themselves(two_runs: Path) -> None:
    """
    Description: the report of a folder with two runs is what a second program computes from the text:
    ends are joined within their run, totals are a run's.
    """
    document = report(two_runs)
    oracle.assert_same(document, oracle.recompute(two_runs))
    assert {row["run_id"] for row in document["runs"]} == {f"{int(n):016x}" for n in RUN_IDS}
    assert [(row["run"], row["role"], row["payload_bytes"]) for row in document["totals"]] == [
        (run, role, 2 * BYTES) for run in (1, 2) for role in ("get", "put")
    ]
    run_of = {row["session"]: row["run"] for row in document["sessions"]}
    assert all(run_of[row["peer"]] == row["run"] for row in document["sessions"])


def test_one_of_two_runs_is_as_if_it_were_alone(two_runs: Path) -> None:
    """
    Description: --run N leaves nothing of the other run: counts are those of a run alone.
    """
    run = build(read(two_runs))
    whole = make_report(run)
    for number in (1, 2):
        document = make_report(pick_run(run, number))
        assert {row["run"] for row in document["processes"]} == {number}
        assert [row["process"] for row in document["processes"]] == document["runs"][0]["processes"]
        mine = [row for row in whole["sessions"] if row["run"] == number]
        assert document["sessions"] == mine
        assert document["totals"] == [row for row in whole["totals"] if row["run"] == number]
        assert document["pairing"]["paired"] * 2 == whole["pairing"]["paired"]
        assert document["trace"]["events"] * 2 == whole["trace"]["events"]
        (begin, end) = (whole["runs"][number - 1][key] for key in ("begin_s", "end_s"))
        assert document["trace"]["duration_s"] == pytest.approx(end - begin)


def test_the_text_names_the_runs(two_runs: Path) -> None:
    output = io.StringIO()
    report_text.print_report(Console(file=output, width=80), make_report(build(read(two_runs))))
    text = output.getvalue()
    assert "2 runs are in this trace; --run N shows one alone" in text
    for number in RUN_IDS:
        assert f"{int(number):016x}" in text
    lines = [line.split() for line in text.splitlines()]
    assert [
        line[:3] for line in lines if line[:1] == ["run"] and line[2:3] in (["get"], ["put"])
    ] == [["run", str(run), role] for run in (1, 2) for role in ("get", "put")]
