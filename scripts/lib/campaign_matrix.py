# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of providers and options: its steps, and how one of them is run and judged.

A step is `PROVIDER/SET` or `PROVIDER/SET@SIDE`, for example `tcp;ofi_rxm/w@get`: -w on get alone.
It passes if both programs end with exit code 0, say nothing on standard error but that -w has to
poll, their results name every byte of every session, and nothing stays in /dev/shm.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign import DEFAULT_BYTES, PROVIDERS, Programs, UsageError
from campaign_process import Group, Process, json_options, wait, wait_address

ENDLESS = "1T"
# A transfer is under way when both sides have used so much CPU time beyond what starting took.
EVIDENCE_S = 0.15
EVIDENCE_ROUNDS = 4  # tries, each asks for twice as much


@dataclass(frozen=True)
class OptionSet:
    """A column of the matrix: what each side gets."""

    name: str
    get: tuple[str, ...] = ()
    put: tuple[str, ...] = ()
    get_environment: dict[str, str] = field(default_factory=dict)
    put_environment: dict[str, str] = field(default_factory=dict)
    sessions: int = 1
    puts: int = 1
    cancel: bool = False

    @property
    def base(self) -> str:
        """The name without a side."""
        return self.name.partition("@")[0]


def sided(name: str, option: str, put: tuple[str, ...] = ()) -> list[OptionSet]:
    """An option on get, on put and on both; put may have other options always."""
    return [
        OptionSet(f"{name}@get", (option,), put),
        OptionSet(f"{name}@put", (), (*put, option)),
        OptionSet(f"{name}@both", (option,), (*put, option)),
    ]


def no_cache() -> list[OptionSet]:
    """Registrations without libfabric's cache, on get, on put and on both."""
    off = {"FI_MR_CACHE_MAX_SIZE": "0"}
    return [
        OptionSet("mr0@get", get_environment=off),
        OptionSet("mr0@put", put_environment=off),
        OptionSet("mr0@both", get_environment=off, put_environment=off),
    ]


def several(name: str, sessions: int, puts: int = 1) -> OptionSet:
    """Several sessions, by one put or shared among puts."""
    count = ("-n", str(sessions))
    share = ("-k", str(sessions // puts)) if puts > 1 else ()
    return OptionSet(name, count, (*count, *share), sessions=sessions, puts=puts)


OPTION_SETS: tuple[OptionSet, ...] = (
    OptionSet("default"),
    *sided("w", "-w"),
    *sided("r", "-r"),
    OptionSet("g", put=("-g",)),
    *sided("gr", "-r", put=("-g",)),
    *no_cache(),
    OptionSet("c", ("-c",), ("-c",), cancel=True),
    several("n4", 4),
    several("n16", 16),
    several("n4k2", 4, puts=2),
)


def select_sets(text: str) -> list[OptionSet]:
    """Option sets by name (`w@get`) or base name (`w`: all three), in the order of the matrix."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not any(name in (one.name, one.base) for one in OPTION_SETS):
            bases = dict.fromkeys(one.base for one in OPTION_SETS)
            raise UsageError(f"{name!r} is no option set; there are {', '.join(bases)} (--list)")
    return [one for one in OPTION_SETS if one.name in names or one.base in names]


@dataclass(frozen=True)
class Step:
    """A cell of the matrix."""

    provider: str
    options: OptionSet

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.options.name}"


def find_step(name: str) -> Step:
    """The step of that name."""
    provider, _, options = name.rpartition("/")
    if provider not in PROVIDERS:
        raise UsageError(
            f"step {name!r}: a step is PROVIDER/SET such as 'shm/w@get'; "
            f"providers are {', '.join(PROVIDERS)}"
        )
    for one in OPTION_SETS:
        if one.name == options:
            return Step(provider, one)
    raise UsageError(f"step {name!r}: no option set {options!r}; fabtrun --list shows all")


@dataclass(frozen=True)
class Settings:
    """What holds for all steps of a campaign."""

    programs: Programs
    total: int | None  # bytes a session; None: as the field does, no option at all
    bind: str | None
    limit_s: float

    @property
    def session_bytes(self) -> int:
        return DEFAULT_BYTES if self.total is None else self.total

    def common(self, step: Step) -> list[str]:
        """Options of both sides that no older program has."""
        words = ["--bind", self.bind] if self.bind else []
        if step.options.cancel:
            return [*words, "--total", ENDLESS]
        return words if self.total is None else [*words, "--total", str(self.total)]

    def get_command(self, step: Step) -> list[str]:
        return [str(self.programs.get), *self.common(step), *step.options.get]

    def put_command(self, step: Step) -> list[str]:
        return [str(self.programs.put), *self.common(step), *step.options.put]


@dataclass
class Outcome:
    """What came out of a step: its duration in seconds and what was wrong, a line each."""

    seconds: float
    problems: list[str]
    commands: list[str] = field(default_factory=list)


def run_step(step: Step, settings: Settings, folder: Path) -> Outcome:
    """Run a step on this machine. One that is cancelled must have moved payload before."""
    if not step.options.cancel:
        return run_once(step, settings, folder, 0)
    outcome = Outcome(0, [])
    for attempt in range(EVIDENCE_ROUNDS):
        outcome = run_once(step, settings, folder, EVIDENCE_S * 2**attempt)
        if outcome.problems != [NOTHING_MOVED]:
            break
    return outcome


AFTER_FAILURE_S = 3.0
NOTHING_MOVED = "the signal came before any payload had moved"


def run_once(step: Step, settings: Settings, folder: Path, evidence_s: float) -> Outcome:
    """Start get, then the puts with its address, signal them if the step says so, and judge."""
    options = step.options
    begin = time.monotonic()
    with Group() as group:
        words = [*settings.get_command(step), *json_options(folder, "get")]
        get = group.start("get", words, folder, step.provider, options.get_environment)
        address = wait_address(get, settings.limit_s)
        if address is None:
            return no_address(group, begin)
        puts = []
        start_cpu = get.cpu()
        for index in range(options.puts):
            name = "put" if options.puts == 1 else f"put{index}"
            words = [*settings.put_command(step), *json_options(folder, name), address]
            puts.append(group.start(name, words, folder, step.provider, options.put_environment))
        if options.cancel:
            cancel(get, puts, start_cpu + evidence_s, settings.limit_s)
        problems = wait_end(get, puts, settings.limit_s - (time.monotonic() - begin))
        duration = time.monotonic() - begin
        problems += judge(step, settings, get, puts)
        return Outcome(duration, problems, [process.shown for process in group.processes])


def cancel(get: Process, puts: Sequence[Process], cpu_s: float, limit_s: float) -> None:
    """SIGINT for all once each has used so much CPU time: the transfer goes on."""
    group = [get, *puts]

    def under_way() -> bool:
        if any(not process.running for process in group):
            return True
        return all(process.cpu() >= cpu_s for process in group)

    wait(group, limit_s / 2, under_way)
    for process in group:
        process.send(signal.SIGINT)


def wait_end(get: Process, puts: Sequence[Process], limit_s: float) -> list[str]:
    """Wait until all have ended. After a put's failure get may wait for more of them: it is told
    to end."""
    group = [get, *puts]
    end = time.monotonic() + limit_s

    def decided() -> bool:
        failed = any(not put.running and put.code != 0 for put in puts)
        return failed or not any(process.running for process in group)

    if wait(group, limit_s, decided) and not wait(group, min(AFTER_FAILURE_S, limit_s)):
        get.send(signal.SIGTERM)
        wait(group, end - time.monotonic())
    return late(group, limit_s)


def late(processes: Sequence[Process], limit_s: float) -> list[str]:
    """Keep where those are that still run, and end them."""
    problems = []
    for process in processes:
        if process.running:
            path = process.folder / f"{process.name}.stacks"
            path.write_text(process.stacks())
            problems.append(
                f"{process.name}: still running after {limit_s:.0f} s (--limit); "
                f"its stacks are in {path}"
            )
            process.kill()
    return problems


def no_address(group: Group, begin: float) -> Outcome:
    """get has not printed an address: how it ended, or where it is."""
    get = group.processes[0]
    seconds = time.monotonic() - begin
    problems = late([get], seconds) or [f"get: {ending(get)}"]
    commands = [get.shown]
    return Outcome(seconds, [*problems, "get: no address was printed"], commands)


def ending(process: Process) -> str:
    """How a process ended and what it said first."""
    lines = process.err.splitlines()
    how = f"exit code {process.code}"
    if process.code < 0:
        how = f"killed by {signal.Signals(-process.code).name}"
    return f"{how}: {lines[0]}" if lines else how


def judge(step: Step, settings: Settings, get: Process, puts: Sequence[Process]) -> list[str]:
    """What is wrong with a run that has ended."""
    share = step.options.sessions // step.options.puts
    problems = check(step, settings, get, step.options.sessions)
    for put in puts:
        problems += check(step, settings, put, share)
    moved = [bytes_moved(process) for process in (get, *puts)]
    if step.options.cancel and not problems and 0 in moved:
        return [NOTHING_MOVED]
    return problems


def bytes_moved(process: Process) -> int:
    """Payload bytes that a process counted; 0 without results."""
    document = process.results()
    return 0 if document is None else int(document["total"]["bytes"])


def check(step: Step, settings: Settings, process: Process, sessions: int) -> list[str]:
    """What is wrong with one process."""
    name = process.name
    if process.crash_line is not None:
        return [f"{name}: crashed: {process.crash_line}"]
    if process.code != 0:
        # If it was us who killed it, it has been said why.
        return [] if process.killed else [f"{name}: {ending(process)}"]
    problems = [f"{name}: says {line!r}" for line in unexpected(process.err, step)]
    problems += [f"{name}: leaves {path}" for path in process.shared_memory()]
    if process.descendants():
        problems.append(f"{name}: leaves a process behind")
    document = process.results()
    if document is None:
        return [*problems, f"{name}: wrote no results"]
    expected: dict[str, Any] = {"success": True, "cancelled": step.options.cancel}
    if not step.options.cancel:
        expected["sessions_ok"] = sessions
    for key, value in expected.items():
        if document[key] != value:
            problems.append(f"{name}: {key} is {document[key]}, not {value}")
    want = [settings.session_bytes] * sessions
    got = [row["bytes"] for row in document["sessions"]]
    if not step.options.cancel and got != want:
        problems.append(f"{name}: the sessions moved {got} bytes, not {want}")
    return problems


def unexpected(text: str, step: Step) -> list[str]:
    """Lines on standard error; one may say that -w has no wait descriptor."""
    lines = text.splitlines()
    notes = [line for line in lines if ": -w: " in line and step.options.base == "w"]
    return [line for line in lines if line not in notes[:1]]


def run_side(step: Step, settings: Settings, folder: Path, address: str | None) -> Outcome:
    """One side of a step, for runs on two machines: get, which prints its address, or put."""
    options = step.options
    begin = time.monotonic()
    with Group() as group:
        if address is None:
            words = [*settings.get_command(step), *json_options(folder, "get")]
            get = group.start("get", words, folder, step.provider, options.get_environment)
            line = wait_address(get, settings.limit_s)
            if line is None:
                return no_address(group, begin)
            print(line, flush=True)
            return finish_side(step, settings, group, get.cpu(), options.sessions)
        for index in range(options.puts):
            name = "put" if options.puts == 1 else f"put{index}"
            words = [*settings.put_command(step), *json_options(folder, name), address]
            group.start(name, words, folder, step.provider, options.put_environment)
        return finish_side(step, settings, group, 0.0, options.sessions // options.puts)


# On one side alone nothing but our own CPU time shows that the transfer goes on. It must be well
# above what starting takes, and what get uses while it waits for somebody: a few per cent.
SIDE_EVIDENCE_S = 0.5
BUSY_SHARE = 0.15
WINDOW_S = 0.1


def finish_side(
    step: Step, settings: Settings, group: Group, start_cpu: float, sessions: int
) -> Outcome:
    """Wait for one side's programs (and cancel them), and judge."""
    begin = time.monotonic()
    processes = group.processes
    if step.options.cancel:
        wait_busy(processes, start_cpu, settings.limit_s)
        for process in processes:
            process.send(signal.SIGINT)
    problems = []
    if not wait(processes, settings.limit_s - (time.monotonic() - begin)):
        problems = late(processes, settings.limit_s)
    duration = time.monotonic() - begin
    for process in processes:
        problems += check(step, settings, process, sessions)
        if step.options.cancel and not problems and bytes_moved(process) == 0:
            problems.append(f"{process.name}: {NOTHING_MOVED}")
    return Outcome(duration, problems, [process.shown for process in processes])


def wait_busy(processes: Sequence[Process], start_cpu: float, limit_s: float) -> None:
    """Return when the processes have used CPU time in busy stretches: they transfer."""
    busy = 0.0
    last_time, last_cpu = time.monotonic(), start_cpu

    def transferring() -> bool:
        nonlocal busy, last_time, last_cpu
        now = time.monotonic()
        if any(not process.running for process in processes):
            return True
        if now - last_time >= WINDOW_S:
            cpu = min(process.cpu() for process in processes)
            if cpu - last_cpu >= BUSY_SHARE * (now - last_time):
                busy += cpu - last_cpu
            last_time, last_cpu = now, cpu
        return busy >= SIDE_EVIDENCE_S

    wait(processes, limit_s / 2, transferring)
