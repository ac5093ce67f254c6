# SPDX-License-Identifier: BSD-3-Clause
"""Root, an ordinary user, one who may use root's session daemon; with a daemon that runs, and with none."""

from __future__ import annotations

import grp
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_recorder import event_names, summary
from test_recorder_deaths import left_in_memory
from world import SOURCE, Done, World

from lttng_private import stop

NOBODY = 65534


@dataclass
class Person:
    """Somebody who records, in a folder of their own."""

    world: World
    home: Path
    prefix: list[str]
    daemon_folder: Path  # where the session daemon is that this person uses, if it runs

    def run(self, *words: str) -> Done:
        command = ["env", "-C", str(self.home), *self.prefix, *words]
        return self.world.run(*command, LTTNG_HOME=str(self.home), DAEMON=str(self.daemon_folder))

    def daemon(self) -> int:
        """Process id of the session daemon, 0 if there is none."""
        text = self.world.run("cat", self.daemon_folder / "lttng-sessiond.pid").out.strip()
        alive = text.isdigit() and Path("/proc", text).exists()
        return int(text) if alive else 0

    def sessions(self) -> str:
        return self.run("lttng", "--no-sessiond", "list").out


def prepare(folder: Path) -> None:
    """What a person needs: neither the source tree nor pytest's folders need be open to others."""
    for part in ("analysis/fabtrace", "tracepoints", "scripts"):
        shutil.copytree(SOURCE / part, folder / part, dirs_exist_ok=True)


@pytest.fixture(params=["none", "running"])
def daemon_runs(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "running")


@pytest.fixture(params=["self", "nobody", "tracing"])
def person(request: pytest.FixtureRequest, world: World, daemon_runs: bool) -> Iterator[Person]:
    """One of the three, with or without a daemon that was there before."""
    root = os.geteuid() == 0
    groups = "--clear-groups"
    if request.param == "tracing":
        try:
            groups = f"--groups={grp.getgrnam('tracing').gr_gid}"
        except KeyError:
            pytest.skip("there is no group `tracing`")
    if not root and request.param != "self":
        pytest.skip("needs root to become somebody else")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        prepare(home)
        shutil.copy(world.emit, home)
        prefix: list[str] = []
        own = root and request.param == "self"
        if root and request.param != "self":
            os.chown(home, NOBODY, NOBODY)
            prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", groups]
        # Who is in the group uses root's daemon if there is one.
        uses_root = own or (request.param == "tracing" and daemon_runs)
        folder = Path("/run/lttng") if uses_root else home / ".lttng"
        result = Person(world, home, prefix, folder)
        if daemon_runs:
            start = ["lttng-sessiond", "-d", "--no-kernel"]
            done = world.run(*start) if uses_root else result.run(*start)
            assert done.code == 0 and result.daemon()
        yield result
        if daemon_runs:
            with suppress(ProcessLookupError):
                stop(result.daemon())


def test_everybody_can_record(person: Person, daemon_runs: bool) -> None:
    """
    Description: a recording, one whose consumer daemon is killed, a flight recorder. A daemon that ran
    still runs, none is left else, and no session, trigger or ring either.
    """
    before = person.daemon()
    record = ["scripts/fabtrace", "record"]
    done = person.run(*record, "-o", "one", "--", "./emit")
    assert done.code == 0, done.err
    assert summary(done) == (len(event_names(person.home / "one")), 0)
    done = person.run(*record, "-o", "flight", "--flight-recorder", "--", "./emit")
    assert done.code == 0, done.err
    (snapshot,) = (person.home / "flight").glob("end-*")
    assert len(event_names(snapshot)) == len(event_names(person.home / "one"))
    assert person.daemon() == before
    if daemon_runs:
        assert "fabtrace" not in person.sessions()
        assert "fabtrace" not in person.run("lttng", "--no-sessiond", "list-triggers").out
    assert left_in_memory(person.world) == ""
    assert list(person.home.rglob("*.owner")) == []


def test_everybody_can_recover(person: Person, daemon_runs: bool) -> None:
    """Recorder and keeper are killed, and the consumer daemon; the session daemon that ran stays."""
    before = person.daemon()
    sessiond = '$(cat "$DAEMON/lttng-sessiond.pid")'
    # Of another user's daemon nobody may kill a child.
    consumer = f"$(pgrep -U $(id -u) -P {sessiond} lttng-consumerd)"
    script = f'./emit; kill -KILL {consumer} $(pgrep -P $PPID -x "python3|fabtrace") $PPID'
    person.run("scripts/fabtrace", "record", "-o", "cut", "--", "sh", "-c", script)
    done = person.run("scripts/fabtrace", "recover", "cut")
    assert done.code == 0, done.err
    assert ", 0 lost" in done.err
    assert len(event_names(person.home / "cut")) > 1000
    assert person.daemon() == before
    if daemon_runs:
        assert "fabtrace" not in person.sessions()
    assert left_in_memory(person.world) == ""
