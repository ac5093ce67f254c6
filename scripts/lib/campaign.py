# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/fabtrun and scripts/chaos share: programs, providers, options, logs, the end.

Nothing here sleeps for a fixed time: campaign_process waits for what happens.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SOURCE = Path(__file__).resolve().parents[2]
PROVIDERS = ("tcp;ofi_rxm", "net;ofi_rxm", "shm", "sockets", "udp;ofi_rxd")
LOOPBACK = "127.0.0.1"
EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
PATTERN_BYTES = 76
DEFAULT_BYTES = 100_000 * PATTERN_BYTES  # a session of the stress workload
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

# A library that libfabric brings along turns a crash into exit code 1 and says this on stderr.
CRASH = "terminated with signal"


class UsageError(Exception):
    """One line for the user; exit code 2."""


class Interrupted(BaseException):
    """A signal asks us to end; like KeyboardInterrupt no handler of errors should swallow it."""


@dataclass(frozen=True)
class Programs:
    """The two programs under test."""

    get: Path
    put: Path


def find_programs(build: str | None) -> Programs:
    """The programs of a build folder; FABT_BUILD names one, else it is `build`."""
    folder = Path(build or os.environ.get("FABT_BUILD") or SOURCE / "build").resolve()
    os.environ["FABT_BUILD"] = str(folder)  # so that fabtrace takes its plugin from there too
    programs = Programs(folder / "src" / "fabtget", folder / "src" / "fabtput")
    for path in (programs.get, programs.put):
        if not os.access(path, os.X_OK):
            raise UsageError(
                f"{path} is not there: build it (meson setup build && ninja -C build), "
                "or name a build with --build or FABT_BUILD"
            )
    return programs


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def size(text: str) -> int:
    """A number of bytes with a suffix, such as 64K."""
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text)
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 150000 or 64K")
    return int(match[1]) * UNITS[match[2]]


def positive(text: str) -> int:
    """A count."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def seconds(text: str) -> float:
    """A time, in seconds."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return float(text)


def choose(text: str, known: Sequence[str], what: str) -> list[str]:
    """Names from a list with commas; `*` and parts of a name are not enough."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"{what}: {name!r} is none of {', '.join(known)}")
    if not names:
        raise UsageError(f"{what}: no name in {text!r}; known are {', '.join(known)}")
    return list(dict.fromkeys(names))


def environment(provider: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the programs see: the provider is chosen as scripts in the field do."""
    # A recorder's settings or another provider's would make runs incomparable.
    kept = {name: value for name, value in os.environ.items() if name != "FI_PROVIDER"}
    return {**kept, "FI_PROVIDER": provider, **(extra or {})}


def shown(command: Iterable[str | Path], extra: Mapping[str, str]) -> str:
    """A command as one could type it."""
    words = [f"{name}={shlex.quote(value)}" for name, value in extra.items()]
    return " ".join([*words, *(shlex.quote(str(word)) for word in command)])


class Logs:
    """A folder for what the programs said; only that of failed runs is kept."""

    def __init__(self, path: str | None, prefix: str) -> None:
        self.given = path is not None
        try:
            if path is None:
                self.folder = Path(tempfile.mkdtemp(prefix=prefix))
            else:
                self.folder = Path(path).resolve()
                self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--logs: cannot make the folder: {error}") from None

    def make(self, name: str) -> Path:
        """A fresh folder for a run."""
        plain = re.sub(r"[^A-Za-z0-9@._-]+", "-", name)
        folder = self.folder / plain
        for number in range(2, 1 << 30):
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                folder = self.folder / f"{plain}.{number}"
        raise AssertionError("unreachable")

    def drop(self, folder: Path) -> None:
        """Remove a run's folder, which holds only files."""
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    def close(self) -> None:
        """Remove the folder of folders if nothing failed."""
        if not self.given and not any(self.folder.iterdir()):
            self.folder.rmdir()


class Held:
    """A block that our end has to wait for: a process that has started but isn't known yet would
    be left behind. Only the main thread is interrupted, so only it holds anything up."""

    depth = 0
    pending: str | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            Held.depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        Held.depth -= 1
        if Held.depth == 0 and Held.pending is not None:
            name, Held.pending = Held.pending, None
            raise Interrupted(name)


def end_by_signals() -> None:
    """SIGTERM and SIGHUP end a campaign as Ctrl-C does: in order, with nothing left behind."""

    def end(number: int, _: object) -> None:
        name = signal.Signals(number).name
        if Held.depth == 0:
            raise Interrupted(name)
        Held.pending = name

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
