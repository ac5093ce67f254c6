# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace why DIR`: where the wall time of sessions and workers went, and what held them up."""

from __future__ import annotations

import argparse

from rich.console import Console

from fabtrace.model import Run
from fabtrace.model.accounts import (
    CATEGORIES,
    PARTS,
    Accounts,
    SessionAccount,
    WorkerAccount,
    build_accounts,
)
from fabtrace.model.verdict import NORMAL, Finding, find
from fabtrace.views import form
from fabtrace.views.view import Document, View, head, print_title

VERSION = 1
MOST_FINDINGS = 5

DESCRIPTION = """\
Account for the wall time of each session and each worker, to 100 %, and say in words what held the run
up, with the figures behind it: the cause that exceeds most what is normal comes first. A session's time
is its set-up, its waits (for the peer's memory or writes, for the provider, for the provider to take a
post), the work done for it, and the time in which its worker was busy with another session or off its
processor. Needs only level light; with ops the verdict knows more. doc/why.md defines each column.
"""

EPILOG = """\
examples:
  fabtrace why run
  fabtrace why run --process put --begin 1s --end 2s
  fabtrace why run --json | jq -r '.findings[0].text'
"""

# Columns of the sessions' table: category of the flat account and its header.
COLUMNS = {
    "set_up": "set-up",
    "peer_memory": "memory",
    "peer_writes": "peer",
    "provider": "provider",
    "deferred": "deferred",
    "payload": "payload",
    "registration": "regist",
    "posting": "posting",
    "protocol": "protocol",
    "draining": "drain",
    "worker_busy": "wk busy",
    "worker_off_cpu": "off CPU",
    "unattributed": "unknown",
}


def make(run: Run, options: argparse.Namespace) -> Document:
    """The document."""
    accounts = build_accounts(run.tables, run.sessions, run.workers, run.begin_ns, run.end_ns)
    findings = find(run, accounts)
    return {
        **head("why", VERSION, run),
        "sessions": [session_row(account) for account in accounts.sessions],
        "workers": [worker_row(account) for account in accounts.workers],
        "findings": [finding_row(finding) for finding in findings],
        "verdict": verdict(accounts, findings),
        "normal_shares": NORMAL,
    }


def session_row(account: SessionAccount) -> Document:
    """A session's account: flat, and split by what its worker did."""
    wall = account.wall_ns
    return {
        "session": account.session.label,
        "worker": account.session.worker,
        "outcome": account.session.outcome,
        "wall_s": wall / 1e9,
        "shares": {name: ns / wall for name, ns in account.flat_ns().items()},
        "detail_ns": {
            category: {
                part: round(float(ns)) for part, ns in zip(PARTS, account.parts_ns[row].tolist())
            }
            for row, category in enumerate(CATEGORIES)
        },
    }


def worker_row(account: WorkerAccount) -> Document:
    """A worker's account."""
    wall = account.wall_ns or 1.0
    return {
        "process": account.worker.process.label,
        "worker": account.worker.number,
        "cpus": list(account.worker.cpus),
        "pinned_cpu": account.worker.pinned_cpu,
        "sessions": account.worker.sessions,
        "wall_s": account.wall_ns / 1e9,
        "shares": {
            "serving": account.serving_ns / wall,
            "completions": account.completions_ns / wall,
            "polling": account.polling_ns / wall,
            "asleep": account.asleep_ns / wall,
            "off_cpu": account.off_cpu_ns / wall,
        },
        "serving_shares": {name: ns / wall for name, ns in account.work_ns.items()},
        "switches_voluntary": account.switches[0],
        "switches_involuntary": account.switches[1],
    }


def finding_row(finding: Finding) -> Document:
    """A finding."""
    return {
        "cause": finding.cause,
        "process": finding.process,
        "share": finding.share,
        "running_share": finding.running_share,
        "times_normal": finding.score,
        "stands_out": finding.stands_out,
        "text": finding.text,
        "advice": finding.advice,
    }


def verdict(accounts: Accounts, findings: list[Finding]) -> str:
    """The account in one sentence."""
    if not accounts.sessions:
        return "The trace has no account of any session's time."
    if not findings:
        return "Nothing held the run up."
    first = findings[0]
    if first.stands_out:
        return f"{first.text}."
    return f"Nothing stands out. Most, for what is normal: {first.text}."


def show(console: Console, document: Document) -> None:
    """The document as text."""
    print_title(console, document, "where the time went")
    if not document["sessions"]:
        form.show(
            console,
            "No session has an account of its time: none was open in this part of the trace, or the "
            "engine that was recorded is older than event session_time.",
        )
        return
    print_sessions(console, document["sessions"])
    print_workers(console, document["workers"])
    print_findings(console, document)


def print_sessions(console: Console, rows: list[Document]) -> None:
    """A line a session, shares in percent."""
    form.heading(console, "Sessions: % of the wall time (the columns add up to 100)")
    names = [name for name in COLUMNS if any(abs(row["shares"][name]) >= 0.0005 for row in rows)]
    wide = form.make_table("session", "s", *(COLUMNS[name] for name in names), left=("session",))
    small = form.make_table("session", "s", "went to", left=("session", "went to"))
    small.columns[2].no_wrap, small.columns[2].overflow = False, "fold"
    for row in rows:
        shares = {COLUMNS[name]: row["shares"][name] for name in names}
        seconds = form.seconds(row["wall_s"])
        wide.add_row(row["session"], seconds, *map(form.percent, shares.values()))
        small.add_row(row["session"], seconds, form.shares(shares, most=len(shares)))
    form.print_fitting(console, wide, small)


def print_workers(console: Console, rows: list[Document]) -> None:
    """A line a worker."""
    if not rows:
        return
    form.heading(console, "Workers: % of the wall time (serving to off CPU add up to 100)")
    table = form.make_table(
        "worker", "sess", "CPU", "s", "serving", "complet", "polling", "asleep", "off CPU", "preempted",
        left=("worker", "CPU"),
    )  # fmt: skip
    for row in rows:
        shares = row["shares"]
        pinned = row["pinned_cpu"]
        table.add_row(
            f"{row['process']}/{row['worker']}", form.count(row["sessions"]),
            f"={pinned}" if pinned is not None else form.cpu_list(row["cpus"]),
            form.seconds(row["wall_s"]), *map(form.percent, shares.values()),
            form.count(row["switches_involuntary"], compact=True),
        )  # fmt: skip
    form.show(console, table)


def print_findings(console: Console, document: Document) -> None:
    """The verdict, what else there is, and what to do."""
    findings = document["findings"]
    form.heading(console, "Verdict")
    form.paragraph(console, document["verdict"])
    others = findings[1:MOST_FINDINGS]
    if others:
        form.heading(console, "Next")
    for row in others:
        mark = "!" if row["stands_out"] else "-"
        form.paragraph(console, row["text"], f"{mark} ", "  ")
    advised = [row for row in findings[:MOST_FINDINGS] if row["stands_out"]] or findings[:1]
    if advised:
        form.heading(console, "What to try")
    for advice in dict.fromkeys(row["advice"] for row in advised):
        form.paragraph(console, advice, "- ", "  ")


VIEW = View(
    name="why",
    help="where the time of sessions and workers went, and what held them up",
    description=DESCRIPTION,
    epilog=EPILOG,
    make=make,
    show=show,
)
add_parser = VIEW.add_parser
