# SPDX-License-Identifier: BSD-3-Clause
"""Run a scenario of campaign_faults, and judge what the programs made of it."""

from __future__ import annotations

import re
import secrets
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign import LOOPBACK, Programs
from campaign_faults import Scenario
from campaign_matrix import ending
from campaign_process import Group, Process, json_options, pass_time, wait, wait_address

START_S = 60.0  # for an address, or for a program to take charge of its signals
FINISH_S = 120.0  # for sessions that have to finish on a busy machine
# What a get that nobody comes to gets beyond its time-out, before it is told to end. Sessions take
# 2 s to drain after a time-out.
IDLE_S = 8.0
UNREACHED_S = 20.0  # a moment in CPU time that doesn't come: the process waits for something


@dataclass(frozen=True)
class Settings:
    """What holds for all runs."""

    programs: Programs
    margin_s: float
    start_cpu_s: dict[str, float]  # what starting takes, by provider


@dataclass
class Verdict:
    """What came of a run: problems, a line each, and what is worth counting."""

    problems: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    seconds: float = 0.0
    missed: bool = False  # the run had ended before the fault
    watchdog: bool = False  # a provider hung and the watchdog ended the program


@dataclass
class Part:
    """A process, and what we did to it."""

    process: Process
    sessions: int
    token: bool = True  # the right one, or none is needed
    killed: bool = False
    stopped: bool = False
    thawed: bool = False
    signalled: bool = False
    released: bool = False  # ended by a signal since nobody came any more
    hung: bool = False


class Run:
    """A scenario on the way."""

    def __init__(self, scenario: Scenario, settings: Settings, group: Group, folder: Path) -> None:
        self.scenario = scenario
        self.settings = settings
        self.group = group
        self.folder = folder
        self.verdict = Verdict()
        self.token = folder / "token"
        self.get: Part | None = None
        self.puts: list[Part] = []

    @property
    def parts(self) -> list[Part]:
        return [part for part in (self.get, *self.puts) if part is not None]

    def problem(self, text: str) -> None:
        self.verdict.problems.append(text)

    def common(self, name: str, timeout_s: float) -> list[str]:
        scenario = self.scenario
        words = ["--bind", LOOPBACK, "--timeout", f"{round(1000 * timeout_s)}ms"]
        words += ["--total", scenario.total, *json_options(self.folder, name)]
        return [*words, "-c"] if scenario.expect_cancel else words

    def start_get(self) -> str | None:
        """Start get; its address."""
        scenario = self.scenario
        words = [str(self.settings.programs.get), *self.common("get", scenario.timeout_s)]
        words += ["-n", str(scenario.sessions), *scenario.get_options]
        if scenario.fault == "token":
            self.token.write_text(secrets.token_hex(16) + "\n")
            words += ["--token-file", str(self.token)]
        process = self.group.start("get", words, self.folder, scenario.provider)
        self.get = Part(process, scenario.sessions)
        if scenario.fault == "accept":
            return None
        address = wait_address(process, START_S)
        if address is None:
            self.problem(f"get printed no address ({self.state(process)})")
        return address

    def start_put(self, address: str, sessions: int, local: int, token: Path | None = None) -> Part:
        """Start put with `local` of its sessions."""
        scenario = self.scenario
        name = f"put{len(self.puts)}"
        wrong = token is not None and token != self.token
        timeout = 2.0 if wrong else scenario.timeout_s
        words = [str(self.settings.programs.put), *self.common(name, timeout)]
        words += ["-n", str(sessions), "-k", str(local), *scenario.put_options]
        if token is not None:
            words += ["--token-file", str(token)]
        process = self.group.start(name, [*words, address], self.folder, scenario.provider)
        part = Part(process, local, token=not wrong)
        self.puts.append(part)
        return part

    def state(self, process: Process) -> str:
        return "still running" if process.running else ending(process)

    # ---- moments

    def wait_moment(self, process: Process, others: list[Process]) -> None:
        """Until a process has used the CPU time at which the fault is due, or any has ended."""
        scenario = self.scenario
        start = self.settings.start_cpu_s[scenario.provider]
        due = start * scenario.start_share + scenario.beyond_s
        group = [process, *others]

        def reached() -> bool:
            return process.cpu() >= due or any(not one.running for one in group)

        wait(group, UNREACHED_S, reached)

    def wait_in_charge(self, process: Process, number: int) -> None:
        """Until the program has taken charge of a signal: before, it would be the system's."""
        wait([process], START_S, lambda: process.blocks(number) or not process.running)

    # ---- faults

    def signal_part(self, part: Part, number: signal.Signals) -> None:
        self.wait_in_charge(part.process, number)
        if part.process.send(number):
            part.signalled = True

    def kill(self, part: Part) -> None:
        if part.process.send(signal.SIGKILL):
            part.killed = True
            wait([part.process], START_S)

    def stop(self, part: Part) -> None:
        if part.process.send(signal.SIGSTOP):
            part.stopped = True

    def thaw(self, part: Part) -> None:
        part.process.send(signal.SIGCONT)
        part.stopped, part.thawed = False, True

    def target_part(self) -> Part:
        assert self.get is not None
        return self.get if self.scenario.target == "get" else self.puts[0]

    def perform(self) -> None:
        """Start everything, and let the fault happen."""
        scenario = self.scenario
        address = self.start_get()
        assert self.get is not None
        if scenario.fault == "accept":
            if scenario.beyond_s == 0:
                self.wait_moment(self.get.process, [])
            elif wait_address(self.get.process, START_S) is not None:
                pass_time([self.get.process], scenario.gap_s)
            self.signal_part(self.get, scenario.signals[0])
            return
        if address is None:
            return
        if scenario.fault == "token":
            self.perform_token(address)
            return
        sessions = scenario.put_sessions if scenario.fault == "count" else scenario.sessions
        victim = self.start_put(address, sessions, scenario.put_sessions)
        if scenario.fault == "partial":
            self.start_put(address, sessions, sessions - scenario.put_sessions)
        if scenario.fault == "count":
            return
        others = [] if scenario.fault == "partial" else [self.get.process]
        self.wait_moment(victim.process, others)
        self.verdict.missed = not all(part.process.running for part in (self.get, victim))
        getattr(self, f"perform_{scenario.fault}")()

    def perform_token(self, address: str) -> None:
        """A put with a wrong token, then one with the right one."""
        wrong = self.folder / "wrong"
        wrong.write_text(secrets.token_hex(16) + "\n")
        sessions = self.scenario.sessions
        self.start_put(address, sessions, sessions, wrong)
        self.start_put(address, sessions, sessions, self.token)

    def perform_kill(self) -> None:
        self.kill(self.target_part())

    def perform_stop(self) -> None:
        self.stop(self.target_part())

    def perform_thaw(self) -> None:
        """Stopped until the others have noticed, at least for two time-outs."""
        part = self.target_part()
        self.stop(part)
        others = [one.process for one in self.parts if one is not part]
        wait(others, 2 * self.scenario.timeout_s + 2)
        pass_time(self.group.processes, 0.2)
        self.thaw(part)

    def perform_pause(self) -> None:
        part = self.target_part()
        self.stop(part)
        pass_time(self.group.processes, self.scenario.gap_s)
        self.thaw(part)

    def perform_partial(self) -> None:
        """Killed or, with a gap, stopped."""
        if self.scenario.gap_s == 0:
            self.kill(self.puts[0])
        else:
            self.stop(self.puts[0])

    def perform_cancel(self) -> None:
        scenario = self.scenario
        assert self.get is not None
        order = [(self.get, scenario.signals[0]), (self.puts[0], scenario.signals[1])]
        if not scenario.get_first:
            order.reverse()
        if scenario.target != "both":
            order = [one for one in order if one[0] is self.target_part()]
        for index, (part, number) in enumerate(order):
            if index > 0:
                pass_time(self.group.processes, scenario.gap_s)
            self.signal_part(part, number)

    # ---- the end

    def wait_end(self) -> None:
        """All that are neither stopped nor killed must end in time."""
        assert self.get is not None
        scenario = self.scenario
        limit = scenario.timeout_s + self.settings.margin_s
        if not scenario.endless:
            limit += FINISH_S
        moving = [part for part in self.parts if not part.stopped]
        puts = [part for part in moving if part is not self.get]
        wait(
            [part.process for part in moving],
            limit,
            lambda: not any(put.process.running for put in puts),
        )
        self.catch_hung(puts)
        if self.get.stopped:
            return
        # No put moves any more: sessions time out, and a get that waits for others is told to end.
        wait([self.get.process], scenario.timeout_s + IDLE_S)
        if self.get.process.running:
            self.get.released = self.get.signalled = True
            self.get.process.send(signal.SIGTERM)
            wait([self.get.process], self.settings.margin_s)
        self.catch_hung([self.get])

    def catch_hung(self, parts: list[Part]) -> None:
        for part in parts:
            process = part.process
            if process.running:
                part.hung = True
                path = self.folder / f"{process.name}.stacks"
                path.write_text(process.stacks())
                self.problem(f"{process.name}: hangs; its stacks are in {path}")
                process.kill()

    def put_away(self) -> None:
        """End what we stopped for ever."""
        for part in self.parts:
            if part.stopped and part.process.running:
                part.process.kill()
                part.killed = True


def run_scenario(scenario: Scenario, settings: Settings, group: Group, folder: Path) -> Verdict:
    """Run it, and judge all its processes."""
    begin = time.monotonic()
    run = Run(scenario, settings, group, folder)
    run.perform()
    if run.parts and not run.verdict.problems:
        run.wait_end()
    run.put_away()
    run.verdict.seconds = time.monotonic() - begin
    for part in run.parts:
        if not part.process.running:
            judge(run, part)
    run.verdict.commands = [part.process.shown for part in run.parts]
    return run.verdict


# -------------------------------------------------------------------------------- judgement


def judge(run: Run, part: Part) -> None:
    """What is wrong with one process."""
    process = part.process
    name = process.name
    if process.crash_line is not None:
        run.problem(f"{name}: crashed: {process.crash_line}")
        return
    if part.hung or (part.killed and process.code == -signal.SIGKILL):
        return
    if process.code not in (0, 1):
        run.problem(f"{name}: {ending(process)}")
        return
    for path in process.shared_memory():
        run.problem(f"{name}: leaves {path}")
    if process.descendants():
        run.problem(f"{name}: leaves a process behind")
    if "could not be closed" in process.err or "Sanitizer" in process.err:
        run.problem(f"{name}: {ending(process)}")
    document = process.results()
    if hung_provider(process):
        run.verdict.watchdog = True
    elif document is None:
        run.problem(f"{name}: wrote no results ({ending(process)})")
    else:
        judge_lines(run, part, document)
        judge_release(run, part, document)
    if process.code not in allowed_codes(run, part):
        run.problem(f"{name}: unexpected {ending(process)}")


def hung_provider(process: Process) -> bool:
    """Did the program's own watchdog end it?"""
    return process.code == 1 and "hangs inside provider" in process.err


def judge_lines(run: Run, part: Part, document: dict[str, Any]) -> None:
    """Exit code 0 has results to match; exit code 1 has a line that names session and cause."""
    process = part.process
    name = process.name
    lines = process.err.splitlines()
    rows = document["sessions"]
    if (process.code == 0) != document["success"]:
        run.problem(f"{name}: exit code {process.code} but success is {document['success']}")
    if process.code == 0:
        if not document["cancelled"]:
            want = [int(run.scenario.total)] * part.sessions if not run.scenario.endless else None
            got = [row["bytes"] for row in rows]
            if got != want:
                run.problem(f"{name}: exit code 0 and sessions moved {got} bytes, not {want}")
        return
    if not lines:
        run.problem(f"{name}: exit code 1 without a word")
    for row in rows:
        if row["outcome"] not in ("failed", "refused"):
            continue
        pattern = rf"fabt(get|put): session {row['session']} with .+: .+"
        if not any(re.fullmatch(pattern, line) for line in lines) and not excused(part, document):
            run.problem(f"{name}: no line says why session {row['session']} failed: {lines}")
    for line in lines:
        if not re.match(r"fabt(get|put): \S", line):
            run.problem(f"{name}: says {line!r}")


def excused(part: Part, document: dict[str, Any]) -> bool:
    """With -c the peer's end about the time of our signal is no failure, and nothing is said."""
    return part.signalled and bool(document["cancelled"])


def judge_release(run: Run, part: Part, document: dict[str, Any]) -> None:
    """A get that had to be told to end must have been waiting for sessions, not with one."""
    if not part.released:
        return
    dealt_with = sum(document[f"sessions_{word}"] for word in ("ok", "failed", "cancelled"))
    if dealt_with >= part.sessions or document["sessions_cancelled"] > 0:
        run.problem(
            f"{part.process.name}: ran beyond its time-out with {dealt_with} of {part.sessions} "
            f"sessions dealt with, {document['sessions_cancelled']} of them going on"
        )


def allowed_codes(run: Run, part: Part) -> set[int]:
    """Exit codes that the scenario leaves a process."""
    scenario = run.scenario
    is_get = part is run.get
    if hung_provider(part.process):
        return {1}
    if scenario.fault == "pause":
        return {0}
    if scenario.fault == "thaw":
        return {0, 1}  # it depends on whether it knew of the other side yet, and on who noticed
    if scenario.fault == "token":
        return {0} if part.token else {1}
    if scenario.fault == "partial":
        return partial_codes(run, part, is_get)
    if scenario.expect_cancel:
        if part.released:  # after the put's end: its sessions may have failed by then
            return {0, 1}
        return {0} if part.signalled else {1}
    return {1}  # endless: nobody can finish


def partial_codes(run: Run, part: Part, is_get: bool) -> set[int]:
    """The put that nothing happened to succeeds; get and the victim only if it was over by then."""
    if part is run.puts[1]:
        return {0}
    victim = run.puts[0]
    if not is_get:
        return {0, 1}
    # A victim that had reported all its bytes may have been killed on its way out.
    return {0, 1} if victim.process.results() is not None or finished(run) else {1}


def finished(run: Run) -> bool:
    """Did get verify all bytes of all sessions?"""
    assert run.get is not None
    document = run.get.process.results()
    return document is not None and document["sessions_ok"] == run.get.sessions
