# SPDX-License-Identifier: BSD-3-Clause
"""scripts/fabtrun and scripts/chaos: short runs of both, and that they notice what they look for.

A campaign that never fails proves nothing, so each kind of trouble is put into programs that
misbehave on purpose.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FABT_BUILD", SOURCE / "build")).resolve()
FABTRUN = SOURCE / "scripts" / "fabtrun"
CHAOS = SOURCE / "scripts" / "chaos"
SMALL = ["--total", "15200"]
SECONDS = 240.0  # nothing takes so long but a hang
SANITIZED = bool(os.environ.get("FABT_SANITIZER"))

sys.path.insert(0, str(SOURCE / "scripts" / "lib"))

from campaign_faults import FAULTS, make_scenario  # noqa: E402  (the path comes first)
from campaign_matrix import OPTION_SETS, Settings, Step  # noqa: E402
from campaign import PROVIDERS, Programs  # noqa: E402

pytestmark = pytest.mark.skipif(SANITIZED, reason="judges time-outs, which sanitizers stretch")


def run(*words: str | Path, build: Path = BUILD) -> subprocess.CompletedProcess[str]:
    """A campaign that must end by itself."""
    return subprocess.run(
        [*map(str, words), "--build", str(build)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Path]:
    """A build folder to put faulty programs into; unless replaced they are the real ones."""
    folder = tmp_path / "faulty"
    (folder / "src").mkdir(parents=True)
    for name in ("fabtget", "fabtput"):
        script(folder, name, 'exec "$REAL" "$@"')
    yield folder
    for path in Path("/dev/shm").glob("*:campaign-test"):
        path.unlink()


def script(build: Path, name: str, text: str) -> None:
    """Make a program of a shell script in which $REAL is the real one."""
    path = build / "src" / name
    path.write_text(f"#!/bin/sh\nREAL='{BUILD}/src/{name}'\n{text}\n")
    path.chmod(0o755)


def results(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value


# ------------------------------------------------------------------------------ the matrix


def test_the_matrix_is_complete() -> None:
    """Every option on the sides that it belongs to."""
    names = {one.name for one in OPTION_SETS}
    both_ways = {f"{name}@{side}" for name in ("w", "r", "gr", "mr0") for side in ("get", "put")}
    assert names >= both_ways | {"default", "g", "c", "n4", "n16", "n4k2", "w@both", "mr0@both"}
    assert len(PROVIDERS) == 5
    settings = Settings(Programs(Path("fabtget"), Path("fabtput")), None, None, 1)
    for one in OPTION_SETS:
        step = Step("shm", one)
        get, put = settings.get_command(step), settings.put_command(step)
        assert "-g" not in get and "-k" not in get
        assert ("-c" in get) == ("-c" in put) == one.cancel
        assert ("-w" in get) == (one.name in ("w@get", "w@both"))
        assert ("-r" in put) == (one.name in ("r@put", "r@both", "gr@put", "gr@both"))


def test_a_part_of_the_matrix(tmp_path: Path) -> None:
    """It passes, the table has what was asked for, and no logs are left."""
    file = tmp_path / "matrix.json"
    logs = tmp_path / "logs"
    words = ["--providers", "shm,tcp;ofi_rxm", "--only", "default,c,n4k2"]
    done = run(FABTRUN, *words, *SMALL, "--json", file, "--logs", logs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 of 6 steps passed" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == [
        "default",
        "c",
        "n4k2",
    ]
    document = results(file)
    assert [cell["passed"] for cell in document["cells"]] == [True] * 6
    for cell in document["cells"]:
        assert (cell["relative"] is None) == (cell["options"] == "c")
    assert list(logs.iterdir()) == []


def test_one_step_at_a_time(tmp_path: Path) -> None:
    """get's side prints its address for put's, as on two machines."""
    words = [str(FABTRUN), "get", "shm/n4k2", *SMALL, "--build", str(BUILD)]
    get = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert get.stdout is not None
    address = get.stdout.readline().strip()
    put = run(FABTRUN, "put", "shm/n4k2", address, *SMALL)
    out, err = get.communicate(timeout=SECONDS)
    assert (get.returncode, put.returncode) == (0, 0), err + put.stderr
    assert "get shm/n4k2: ok" in err and "put shm/n4k2: ok" in put.stderr


@pytest.mark.parametrize(
    "program, text, word",
    [
        ("fabtput", "echo 'fabtput: no wish' >&2; exit 1", "no wish"),
        ("fabtput", '"$REAL" "$@"; kill -KILL $$', "SIGKILL"),
        ("fabtput", '"$REAL" "$@" && echo surprise >&2', "surprise"),
        ("fabtput", "echo 'terminated with signal 11' >&2; exit 1", "crashed"),
        ("fabtput", "exec sleep 1000", "still running"),
        ("fabtget", "exit 0", "no address"),
        ("fabtget", '"$REAL" "$@" | tee && touch "/dev/shm/$$:campaign-test"', "leaves /dev/shm"),
        ("fabtget", 'tail -f /dev/null & exec "$REAL" "$@"', "leaves a process"),
        ("fabtget", 'exec "$REAL" "$@" --total 30400', None),
        ("fabtput", 'exec "$REAL" --total 7600 "$@" --total 7600', "7600"),
    ],
    ids=["fails", "killed", "talks", "crashes", "hangs", "mute", "shm", "child", "more", "less"],
)
def test_the_matrix_notices(
    faulty: Path, tmp_path: Path, program: str, text: str, word: str | None
) -> None:
    script(faulty, program, text)
    logs = tmp_path / "logs"
    limit = "2" if "sleep" in text else "60"
    words = ["--providers", "shm", "--only", "default", "--limit", limit]
    done = run(FABTRUN, *words, *SMALL, "--logs", logs, build=faulty)
    if word is None:  # get's --total is only a limit
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1
    assert word in done.stderr and "FAIL" in done.stdout
    assert f"logs: {logs}" in done.stderr
    assert [path.name for path in logs.iterdir()] == ["shm-default"]


# ------------------------------------------------------------------------------ faults


def test_scenarios_depend_on_the_seed_alone() -> None:
    def made(seed: str) -> list[str]:
        faults = list(FAULTS)
        return [make_scenario(seed, "shm", number, faults).describe() for number in range(50)]

    assert made("a") == made("a") != made("b")
    assert {text.split()[0] for text in made("a")} == set(FAULTS)


@pytest.mark.parametrize("provider", ["tcp;ofi_rxm", "shm"])
def test_a_short_campaign(provider: str, tmp_path: Path) -> None:
    """Each fault that does not have to wait for a time-out, once, and killing."""
    file = tmp_path / "chaos.json"
    words = ["--providers", provider, "--faults", "pause,cancel,accept,kill", "--runs", "4"]
    done = run(CHAOS, *words, "--seed", "test", "--jobs", "2", "--json", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 runs passed" in done.stdout
    assert sorted({one["fault"] for one in results(file)["runs"]}) == [
        "accept",
        "cancel",
        "kill",
        "pause",
    ]


def killing_get(provider: str) -> str:
    """A run in which get is killed while it serves one session; as --run takes it."""
    for number in range(1000):
        scenario = make_scenario("test", provider, number, ["kill"])
        if scenario.target == "get" and scenario.sessions == 1 and scenario.beyond_s > 0.05:
            return scenario.name
    raise AssertionError("no seed makes such a run")


@pytest.mark.parametrize(
    "text, word",
    [
        ('exec "$REAL" "$@" --timeout 1h', "hangs"),
        ('exec "$REAL" "$@" 2>&-', "without a word"),
        ('echo "fabtput: no" >&2; exec "$REAL" "$@" 2>&-', "no line says why session 0 failed"),
        ('exec "$REAL" "$@" --json /dev/full', "wrote no results"),
        ('exec "$REAL" "$@" --bogus', "exit code 2"),
        ('echo "terminated with signal 11" >&2; exec "$REAL" "$@"', "crashed"),
        ('touch "/dev/shm/$$:campaign-test"; exec "$REAL" "$@"', "leaves /dev/shm"),
        ('tail -f /dev/null & exec "$REAL" "$@"', "leaves a process"),
    ],
    ids=["hangs", "mute", "vague", "no-results", "usage", "crash", "shm", "child"],
)
def test_the_campaign_notices(faulty: Path, tmp_path: Path, text: str, word: str) -> None:
    """get is killed, and put behaves in a way that it should not."""
    script(faulty, "fabtput", text)
    # Where the connection shows the peer's end no run has to wait for its time-out; shm has none.
    chosen = killing_get("shm" if word == "hangs" else "tcp;ofi_rxm")
    words = ["--seed", "test", "--faults", "kill", "--run", chosen]
    words += ["--margin", "4" if word == "hangs" else "30"]
    done = run(CHAOS, *words, "--logs", tmp_path / "logs", build=faulty)
    assert done.returncode == 1
    assert word in done.stderr, done.stderr
    assert (
        f"repeat: scripts/chaos --seed test --run {shlex.quote(chosen)} --faults kill"
        in done.stderr
    )
    assert len(list((tmp_path / "logs").iterdir())) == 1


@pytest.mark.parametrize("program", [FABTRUN, CHAOS])
def test_an_interrupted_campaign_leaves_nothing(faulty: Path, program: Path) -> None:
    """Ctrl-C: the programs are ended, what was done so far is shown, exit code 1."""
    for name in ("fabtget", "fabtput"):
        script(faulty, name, f'echo $$ >>"{faulty}/pids"; exec "$REAL" "$@"')
    words = [str(program), "--providers", "shm", "--build", str(faulty)]
    words += ["--faults", "accept"] if program == CHAOS else []
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        while "[2/" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "ended by SIGINT" in err and "Traceback" not in err
    assert out.splitlines()[0].split()[0] in ("options", "runs")
    for pid in (faulty / "pids").read_text().split():
        assert not Path("/proc", pid).exists()
        assert not list(Path("/dev/shm").glob(f"{pid}:*"))


@pytest.mark.parametrize(
    "words, word",
    [
        ([FABTRUN, "--providers", "pigeon"], "pigeon"),
        ([FABTRUN, "--only", "x"], "'x'"),
        ([FABTRUN, "--total", "5x"], "5x"),
        ([FABTRUN, "--full", "--total", "5"], "--full"),
        ([FABTRUN, "get"], "get STEP"),
        ([FABTRUN, "get", "shm/nothing"], "nothing"),
        ([FABTRUN, "put", "shm/default"], "ADDRESS"),
        ([FABTRUN, "--logs", "/proc/none"], "--logs"),
        ([FABTRUN, "--bogus"], "--bogus"),
        ([CHAOS, "--faults", "rain"], "rain"),
        ([CHAOS, "--runs", "0"], "--runs"),
        ([CHAOS, "--run", "shm:1"], "--seed"),
        ([CHAOS, "--seed", "1", "--run", "shm"], "PROVIDER:NUMBER"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refusals(words: list[str | Path], word: str) -> None:
    """One line that names what is wrong, exit code 2."""
    done = run(*words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and word in done.stderr
    assert done.stdout == ""


def test_a_missing_build_is_named(tmp_path: Path) -> None:
    done = run(FABTRUN, build=tmp_path)
    assert done.returncode == 2 and "FABT_BUILD" in done.stderr


@pytest.mark.parametrize("program", [FABTRUN, CHAOS])
def test_help(program: Path) -> None:
    done = run(program, "--help")
    assert done.returncode == 0 and "exit code" in done.stdout
