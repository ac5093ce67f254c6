# SPDX-License-Identifier: BSD-3-Clause
"""Several runs in one trace or folder, and strangers on the same session daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import oracle
import pytest
from world import BUILD, FABTRACE, SANITIZER, SOURCE, World

TOTAL = 300 * 76
OPTIONS = "--provider tcp;ofi_rxm --bind 127.0.0.1 -n 2 -w --total"


def options(total: int) -> list[str]:
    """For both sides."""
    return [*OPTIONS.split(), str(total)]


def check_two_runs(report: dict[str, Any], totals: tuple[int, int]) -> None:
    """Each run has its two processes, its four sessions, and its own bytes."""
    assert [len(row["processes"]) for row in report["runs"]] == [2, 2]
    assert len({row["run_id"] for row in report["runs"]}) == 2
    run_of = {row["session"]: row["run"] for row in report["sessions"]}
    assert all(run_of[row["peer"]] == row["run"] for row in report["sessions"])
    assert [(row["run"], row["role"], row["payload_bytes"]) for row in report["totals"]] == [
        (run, role, 2 * totals[run - 1]) for run in (1, 2) for role in ("get", "put")
    ]


def test_two_pairs_after_each_other(world: World, trace: Path) -> None:
    """
    Description: one recording has two runs, one after the other. Each is reported for itself, as an
    independent computation says.
    """
    pairs = []
    for number, total in enumerate((TOTAL, 2 * TOTAL)):
        words, address = " ".join(f"'{word}'" for word in options(total)), f"address{number}"
        pairs.append(
            f"export FABT_RUN_ID={number + 1:016x}; {world.get} {words} -a {address} & "
            f"until [ -e {address} ]; do sleep 0.01; done; "
            f'{world.put} {words} "$(cat {address})" && wait $!'
        )
    done = world.fabtrace(
        "record", "-o", trace, "--", "sh", "-c", " && ".join(f"({pair})" for pair in pairs)
    )
    assert done.code == 0, done.err
    report = world.report(trace)
    check_two_runs(report, (TOTAL, 2 * TOTAL))
    oracle.assert_same(report, oracle.recompute(trace))
    alone = json.loads(world.fabtrace("report", trace, "--run", f"{2:016x}", "--json").out)
    assert {row["run"] for row in alone["sessions"]} == {2}
    assert sum(row["payload_bytes"] for row in alone["sessions"]) == 4 * 2 * TOTAL


def test_traces_copied_into_one_folder(world: World, tmp_path: Path) -> None:
    """Two recordings put into one folder: two runs, whose ends are joined within each."""
    both = tmp_path / "both"
    for number in (1, 2):
        words: list[str | Path] = ["--", world.get, *options(number * TOTAL), "--and", world.put]
        done = world.fabtrace(
            "record", "-o", f"one{number}", *words, *options(number * TOTAL), "{address}"
        )
        assert done.code == 0, done.err
        shutil.copytree(tmp_path / f"one{number}", both / f"one{number}")
    report = world.report(both)
    check_two_runs(report, (TOTAL, 2 * TOTAL))
    oracle.assert_same(report, oracle.recompute(both))


def test_demo_shows_its_own_run_only(world: World, tmp_path: Path) -> None:
    """
    Description: another program writes to the same session daemon while the demo records. The recorder
    says so, and the demo shows its get and its put and nothing else.
    """
    if SANITIZER:
        pytest.skip("takes long under a sanitizer, and tests a script")
    scripts, build = tmp_path / "scripts", tmp_path / "build"
    (scripts / "lib").mkdir(parents=True)
    (build / "src").mkdir(parents=True)
    shutil.copy(SOURCE / "scripts" / "demo", scripts)
    # What is installed and built already: the demo's steps 1 and 2 have nothing to do.
    for name in ("setup", "lib/configure", "ninja"):
        write_script(scripts / name, "exit 0")
    write_script(scripts / "fabtrace", f'exec {FABTRACE} "$@"')
    (build / "analysis").symlink_to(BUILD / "analysis")
    less = f"-w --total {TOTAL}"
    write_script(build / "src" / "fabtget", f'exec {world.get} {less} "$@"')
    write_script(build / "src" / "fabtput", f'{world.emit} && exec {world.put} {less} "$@"')
    path = f"{scripts}:{os.environ['PATH']}"
    done = world.run(scripts / "demo", FABTRACE_BUILD=str(build), PATH=path)
    assert done.code == 0, done.err
    assert "2 of these processes were not started here" in done.err
    run_id = re.search(r"next: fabtrace report \S+ --run (\w{16})$", done.err, re.MULTILINE)
    assert run_id is not None, done.err
    shown = done.out[done.out.index("== 4.") :]
    assert "made-up" not in shown  # the stranger's host
    assert len(re.findall(r"^ *put1:[0-3] +get0:[0-3] +0 +22,800", shown, re.MULTILINE)) == 4
    everything = world.report(build / "demo-trace")
    assert len(everything["processes"]) == 4


def write_script(path: Path, text: str) -> None:
    """A shell script that can be run."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
