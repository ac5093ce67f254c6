# SPDX-License-Identifier: BSD-3-Clause
"""What holds a run up: findings from the accounts, the one that stands out most first.

Every run waits most of its time, for the provider or for memory, and every thread is preempted now and
then. So a finding is ranked by how many times its share of the time exceeds what is normal for it:

    cause           normal   because
    registration      1 %    buffers are registered once
    deferred          5 %    queues are deep enough
    off_cpu          10 %    a worker has a processor of its own
    worker_busy      10 %    few sessions share a worker, and it has time for them
    payload          20 %    making or verifying bytes is cheap beside moving them
    posting          30 %    a provider may do its work in the posting call
    memory           30 %    get offers more than is in flight
    provider         50 %    put has to wait for something
    set_up           50 %    a session lasts longer than its handshake

For this all shares but that of off_cpu are taken of the time in which the workers had their processors, so
that a machine that is busy with something else does not hide what would hold the run up on an idle one. The
shares that are shown are of the wall time, as in the accounts.

A wait while the own worker serves others is that worker's fault as far as it is saturated: where it also has
time to look and finds nothing, nothing was there to take. So that share counts times the part of the waits
in which the worker was busy, not polling or asleep.

A wait for memory is the peer's fault only as far as the peer itself is not held up: of it counts the share
of the other end's time that this one merely waited for writes, and was not off its processor, busy with
others or registering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fabtrace.model.accounts import (
    ASLEEP,
    OFF_CPU,
    OTHERS,
    OWN,
    POLLING,
    Accounts,
    SessionAccount,
    WorkerAccount,
)
from fabtrace.model.flow import Flow, build_flow, of_kinds
from fabtrace.model.percentiles import nearest_rank
from fabtrace.model.processes import Process
from fabtrace.model.run import Run
from fabtrace.tables import Tables

NORMAL = {
    "registration": 0.01,
    "deferred": 0.05,
    "off_cpu": 0.10,
    "worker_busy": 0.10,
    "payload": 0.20,
    "posting": 0.30,
    "memory": 0.30,
    "provider": 0.50,
    "set_up": 0.50,
}

ADVICE = {
    "registration": "leave -r out, so that buffers are registered once; FI_MR_CACHE_MAX_SIZE and "
    "FI_MR_CACHE_MAX_COUNT let providers with a cache keep registrations",
    "deferred": "let the provider take more at once (its transmit queue: FI_OFI_RXM_TX_SIZE for "
    "ofi_rxm), or post less (--depth)",
    "off_cpu": "give each worker a processor of its own: -p auto or -p LIST, no more workers than "
    "processors, both programs together; where processors are scarce let workers sleep with -w",
    "worker_busy": "spread the sessions over more workers: --workers N --placement spread, or fewer "
    "--sessions-per-worker; pin them with -p auto",
    "payload": "measure with --no-verify, or use more workers so that payload is made and verified on "
    "more processors",
    "posting": "larger writes (--size) need fewer calls; without -g a write takes several segments",
    "memory": "let get offer more at once: for stream a larger --depth (get offers twice as many buffers); "
    "the stress workload offers three small ones on purpose",
    "provider": "more writes in flight (--depth), larger ones (--size), or another provider (shm within a "
    "host)",
    "set_up": "longer runs (--total, --duration) say more about the transfer",
}

LEAST = 0.005  # what takes less is not worth a line
WORTH_SAYING = 0.05  # shares of two times that differ by less look the same


@dataclass(frozen=True)
class Finding:
    """A cause in a process, and the figures behind it.

    share           of the wall time of the process's sessions
    running_share   by which it is ranked: of the time in which their workers ran; see above
    """

    cause: str
    process: str
    share: float
    running_share: float
    text: str

    @property
    def score(self) -> float:
        """How many times the share (while workers run) is what is normal."""
        return self.running_share / NORMAL[self.cause]

    @property
    def stands_out(self) -> bool:
        """Whether it is more than normal."""
        return self.score >= 1.0

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.cause]


@dataclass(frozen=True)
class Case:
    """All that is known of a process's sessions."""

    process: Process
    sessions: list[SessionAccount]
    workers: list[WorkerAccount]
    flows: dict[int, Flow]  # by session key, of put
    accounts: Accounts
    run: Run

    def of_wall(self, share: Callable[[SessionAccount], float]) -> float:
        """A share of the wall time of all sessions."""
        whole = sum(account.wall_ns for account in self.sessions)
        return sum(share(a) * a.wall_ns for a in self.sessions) / whole if whole else 0.0

    def while_running(self, share: Callable[[SessionAccount], float]) -> float:
        """A share, given of the wall time, of the time in which the workers had their processors."""
        running = 1.0 - self.of_wall(off_cpu)
        return min(1.0, self.of_wall(share) / running) if running > 0 else 0.0

    def words(self, share: Callable[[SessionAccount], float]) -> str:
        """A share of the wall time, and where that is another figure of the time that workers run."""
        text = percent(self.of_wall(share))
        if self.of_wall(off_cpu) < WORTH_SAYING:
            return text
        return f"{text} ({percent(self.while_running(share))} of the time that its workers run)"

    def finding(self, cause: str, share: Callable[[SessionAccount], float], text: str) -> Finding:
        """A finding about a share of the sessions' time."""
        name = self.process.label
        return Finding(cause, name, self.of_wall(share), self.while_running(share), text)

    def worst(self, share: Callable[[SessionAccount], float]) -> SessionAccount:
        """The session that has most of something."""
        return max(self.sessions, key=share)


def find(run: Run, accounts: Accounts) -> list[Finding]:
    """All findings worth a line, those that stand out most first."""
    findings = []
    for process in run.processes:
        mine = [a for a in accounts.sessions if a.session.process is process]
        if not mine:
            continue
        flows = {a.session.key: build_flow(run.operations, a.session) for a in mine}
        case = Case(
            process,
            mine,
            [w for w in accounts.workers if w.worker.process is process],
            {key: flow for key, flow in flows.items() if flow is not None},
            accounts,
            run,
        )
        findings += [finding for look in LOOKS if (finding := look(case)) is not None]
    worth = [finding for finding in findings if finding.running_share >= LEAST]
    return sorted(worth, key=lambda finding: -finding.score)


# ------------------------------------------------------------------- one function a cause


def off_cpu(account: SessionAccount) -> float:
    """The share of a session's time in which its worker was off its processor."""
    return account.share(parts=[OFF_CPU])


def look_off_cpu(case: Case) -> Finding:
    """Workers that were off their processors while sessions waited for them."""
    worst, mean = case.worst(off_cpu), case.of_wall(off_cpu)
    text = (
        f"workers of {case.process.label} are off their processor {percent(mean)} of their "
        f"sessions' time"
    )
    for account in case.workers:
        if account.worker.number == worst.session.worker:
            text += f"; worker {account.worker.number}, the worst, {who_else(case, account)}"
            forced = account.switches[1]
            text += (
                f" and was preempted or gave way {forced:,} times in {account.wall_ns / 1e9:.1f} s"
            )
    return Finding("off_cpu", case.process.label, mean, mean, text)


def who_else(case: Case, account: WorkerAccount) -> str:
    """Who runs where a worker runs."""
    worker = account.worker
    where = {worker.pinned_cpu} if worker.pinned_cpu is not None else set(worker.cpus)
    others = [
        other.worker
        for other in case.accounts.workers
        if other.worker is not worker
        and other.worker.process.hostname == worker.process.hostname
        and where
        & (
            {other.worker.pinned_cpu}
            if other.worker.pinned_cpu is not None
            else set(other.worker.cpus)
        )
    ]
    place = f"runs on CPU {', '.join(map(str, sorted(where)))}" if where else "runs"
    if worker.pinned_cpu is not None:
        place = f"is pinned to CPU {worker.pinned_cpu}"
    if not others:
        return f"{place}, where no other worker of this run is: another program has it"
    names = ", ".join(f"{other.process.label}/{other.number}" for other in others[:6])
    more = f" and {len(others) - 6} more" if len(others) > 6 else ""
    return f"{place}, as {'does' if len(others) == 1 else 'do'} {names}{more},"


def look_worker_busy(case: Case) -> Finding:
    """Sessions that waited while their worker served others."""

    def share(account: SessionAccount) -> float:
        return account.share(parts=[OTHERS])

    def blamed(account: SessionAccount) -> float:
        others, free = share(account), account.share(parts=[POLLING, ASLEEP])
        return others * others / (others + free) if others > 0 else 0.0

    worst = case.worst(share)
    name = worst.session.label
    text = (
        f"sessions of {case.process.label} wait {case.words(share)} for their worker, which serves "
        f"others"
    )
    for account in case.workers:
        if account.worker.number == worst.session.worker:
            worker = account.worker
            text += (
                f"; {name}, the worst, {percent(share(worst))}: worker {worker.number} serves "
                f"{worker.sessions} sessions at {percent(worker.utilisation or 0.0)} utilisation"
            )
    return case.finding("worker_busy", blamed, text)


def look_deferred(case: Case) -> Finding:
    """Posts that the provider did not take."""

    def share(account: SessionAccount) -> float:
        return account.share("deferred", [OWN, POLLING, ASLEEP])

    number = sum(account.session.counters["deferred"] for account in case.sessions)
    posts = sum(account.session.counters["ops_posted"] for account in case.sessions)
    text = (
        f"{case.process.label} waits {case.words(share)} for {case.process.provider or 'the provider'} "
        f"to take a post: it deferred {number:,} of {posts:,} (-FI_EAGAIN)"
    )
    return case.finding("deferred", share, text)


def own_share(category: str) -> Callable[[SessionAccount], float]:
    """The share of what is done for a session itself."""
    return lambda account: account.share(category, [OWN])


def look_registration(case: Case) -> Finding:
    """Memory registration."""
    share = own_share("registration")
    counters = [account.session.counters for account in case.sessions]
    number = sum(c["registrations"] for c in counters)
    spent = sum(c["registration_ns"] for c in counters)
    each = f"{spent / number / 1e3:.2f} µs each" if number else "none counted"
    text = (
        f"{case.process.label} spends {case.words(share)} registering and deregistering memory: "
        f"{number:,} registrations, {each} with its deregistration"
    )
    return case.finding("registration", share, text)


def look_payload(case: Case) -> Finding:
    """Making or verifying payload."""
    share = own_share("payload")
    what = "making" if case.process.role == "put" else "verifying"
    payload = sum(account.session.payload_bytes for account in case.sessions)
    spent = sum(share(account) * account.wall_ns for account in case.sessions)
    speed = f" at {payload / 2**20 / (spent / 1e9):,.0f} MiB/s" if spent else ""
    text = f"{case.process.label} spends {case.words(share)} {what} payload{speed}"
    return case.finding("payload", share, text)


def look_posting(case: Case) -> Finding:
    """Posting calls."""
    share = own_share("posting")
    posts = sum(account.session.counters["ops_posted"] for account in case.sessions)
    spent = sum(share(account) * account.wall_ns for account in case.sessions)
    each = f", {spent / posts / 1e3:.2f} µs a post" if posts else ""
    text = (
        f"{case.process.label} spends {case.words(share)} in posting calls of "
        f"{case.process.provider or 'the provider'}{each}"
    )
    return case.finding("posting", share, text)


def waiting(account: SessionAccount, category: str) -> float:
    """The share of a wait in which the worker could have acted."""
    return account.share(category, [POLLING, ASLEEP])


def starved(case: Case, account: SessionAccount) -> float:
    """The share of a session's time in which it had no memory at hand and was not held up otherwise."""
    waits = waiting(account, "peer_memory"), waiting(account, "provider")
    flow = case.flows.get(account.session.key)
    if flow is None:  # level light: only what it waited for
        return waits[0]
    share = flow.starved_share * (flow.end_ns - flow.begin_ns) / max(account.wall_ns, 1)
    return max(waits[0], min(share, sum(waits)))


def look_memory(case: Case) -> Finding | None:
    """put without target memory."""
    if case.process.role != "put":
        return None
    held_up = {
        a.session.key: 1.0 - waiting(a, "peer_writes") - a.share("set_up") - a.share("draining")
        for a in case.accounts.sessions
    }

    def share(account: SessionAccount) -> float:
        peer = account.session.peer
        return starved(case, account) * (1.0 - (held_up.get(peer.key, 0.0) if peer else 0.0))

    worst = case.worst(share)
    name = worst.session.label
    without = case.words(lambda account: starved(case, account))
    text = f"{case.process.label} lacks target memory {without}"
    flow = case.flows.get(worst.session.key)
    if flow is not None and flow.offered_bytes and worst.session.elapsed_ns:
        turn_ns = (
            flow.offered_bytes * worst.session.elapsed_ns / max(worst.session.payload_bytes, 1)
        )
        text += (
            f"; {name} has at most {flow.offered_bytes:,} bytes of it, which come back after "
            f"{turn_ns / 1e3:,.1f} µs, and that is its throughput"
        )
    return case.finding("memory", share, text)


def look_provider(case: Case) -> Finding | None:
    """put waiting for completions though it had memory."""
    if case.process.role != "put":
        return None

    def share(account: SessionAccount) -> float:
        wait, memory = waiting(account, "provider"), waiting(account, "peer_memory")
        return max(0.0, wait - max(0.0, starved(case, account) - memory))

    worst = case.worst(share)
    provider = case.process.provider or "the provider"
    text = f"{case.process.label} waits {case.words(share)} for {provider} to complete writes"
    writes = of_kinds(case.run.operations.of(worst.session.key), "write", "fragment")
    flow = case.flows.get(worst.session.key)
    good = np.flatnonzero(writes.succeeded)
    if len(good) and flow is not None:
        half, most = (value / 1e3 for value in nearest_rank(writes.latency_ns[good], ("50", "99")))
        text += (
            f"; of {worst.session.label} they take {half:,.1f} µs (p50), {most:,.1f} µs (p99), "
            f"{flow.in_flight_mean:.1f} in flight on average, {flow.in_flight_top} at most"
        )
    return case.finding("provider", share, text)


def look_set_up(case: Case) -> Finding:
    """Short sessions."""

    def share(account: SessionAccount) -> float:
        return account.share("set_up", [OWN, POLLING, ASLEEP])

    text = (
        f"sessions of {case.process.label} spend {case.words(share)} on their set-up and handshake"
    )
    return case.finding("set_up", share, text)


LOOKS: Sequence[Callable[[Case], Finding | None]] = (
    look_off_cpu,
    look_worker_busy,
    look_deferred,
    look_registration,
    look_payload,
    look_posting,
    look_memory,
    look_provider,
    look_set_up,
)


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def has_accounts(tables: Tables) -> bool:
    """Whether the engine wrote accounts."""
    return len(tables["session_time"]) > 0
