# SPDX-License-Identifier: BSD-3-Clause
"""Run the children that decode, and survive what becomes of them: they may die or hang.

The parent shares numbers with each child: events so far, and ports that are done. So it knows which stream
a child was at when it died or stopped, and starts another one without that stream.
"""

from __future__ import annotations

import mmap
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import IO, Any

from fabtrace.errors import FabtraceError
from fabtrace.reader.decode import SLOT, Decoded, Failure, Opening, Task, child_main

LOOK_SECONDS = 0.5  # between two looks at how far the children are
MOST_RESTARTS = 16  # streams that may fail by crash or hang before the trace is given up

Progress = Callable[[int], None]


@dataclass
class Child:
    """A process that decodes, and what is known of how far it is."""

    task: Task
    slot: int
    process: Any
    connection: Connection
    stderr: IO[bytes]
    ports: list[str] | None = None  # that it reads, in order, when it has said so
    opening: str = ""  # the trace folder that it is opening
    events: int = 0
    alive_at: float = 0.0  # when it was last seen to make progress

    def end(self) -> None:
        """End the process if it still runs, and free what belongs to it."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.connection.close()
        self.stderr.close()


class Children:
    """Runs tasks in parallel; `run` gives what each of them decoded."""

    def __init__(self, tasks: list[Task], silence_seconds: float, progress: Progress) -> None:
        self.silence_seconds = silence_seconds
        self.progress = progress
        self.shared = mmap.mmap(-1, max(SLOT.size * len(tasks), mmap.PAGESIZE))
        self.failures: dict[str, Failure] = {}  # of ports and folders, by name
        self.decoded: list[tuple[Task, Decoded]] = []
        self.casualties = 0  # children that died or hung
        self.tasks = tasks
        self.running: list[Child] = []

    def run(self) -> list[tuple[Task, Decoded]]:
        """Run all; FabtraceError if nothing can be read."""
        try:
            for slot, task in enumerate(self.tasks):
                self.start(task, slot)
            while self.running:
                connections = [child.connection for child in self.running]
                ready = wait(connections, min(LOOK_SECONDS, self.silence_seconds))
                for child in list(self.running):
                    if child.connection in ready:
                        self.receive(child)
                    else:
                        self.look(child)
                self.progress(sum(self.numbers(slot)[0] for slot in range(len(self.tasks))))
        finally:
            for child in self.running:
                child.end()
            # The mapping stays until the last object that shares it is gone.
        return self.decoded

    def numbers(self, slot: int) -> tuple[int, int]:
        """Events so far and ports that are done."""
        events, done, _ = SLOT.unpack_from(self.shared, SLOT.size * slot)
        return events, done

    def start(self, task: Task, slot: int) -> None:
        """Fork a child."""
        SLOT.pack_into(self.shared, SLOT.size * slot, 0, 0, 0)
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        stderr = tempfile.TemporaryFile()
        process = context.Process(
            target=child_main, args=(theirs, stderr.fileno(), task, self.shared, slot)
        )
        process.start()
        theirs.close()
        child = Child(task, slot, process, ours, stderr, alive_at=time.monotonic())
        self.running.append(child)

    def receive(self, child: Child) -> None:
        """Take a child's next message: where it is, its ports, what it decoded, or why it can't."""
        child.alive_at = time.monotonic()
        try:
            message = child.connection.recv()
        except (EOFError, OSError):
            self.lost(child, death(child))
            return
        if isinstance(message, Opening):
            child.opening = message.name
        elif isinstance(message, list):
            child.ports = message
        elif isinstance(message, OSError):
            raise message
        elif isinstance(message, str):
            raise FabtraceError(message)
        else:
            self.decoded.append((child.task, message))
            self.failures.update(message.failures)
            self.running.remove(child)
            child.end()

    def look(self, child: Child) -> None:
        """Give up a child that has made no progress for too long."""
        now, events = time.monotonic(), self.numbers(child.slot)[0]
        if events != child.events:
            child.events, child.alive_at = events, now
        elif now - child.alive_at >= self.silence_seconds:
            self.lost(child, f"Babeltrace made no progress for {self.silence_seconds:g} s")

    def lost(self, child: Child, why: str) -> None:
        """A child died or hangs: go on without the stream that it was at."""
        self.running.remove(child)
        self.casualties += 1
        done = self.numbers(child.slot)[1]
        child.end()
        name = child.opening
        if child.ports is not None:
            name = child.ports[done] if done < len(child.ports) else ""
        if not name or self.casualties > MOST_RESTARTS:
            raise FabtraceError(f"{why}; copy or record the trace again")
        self.failures[name] = Failure(why)
        self.start(replace(child.task, exclude=child.task.exclude | {name}), child.slot)


def death(child: Child) -> str:
    """How a child died, with the last thing that it said."""
    child.process.join()
    code = child.process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
    child.stderr.seek(0)
    said = child.stderr.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    return f"Babeltrace died of {how}" + (f" ({last[:120]})" if last else "")
