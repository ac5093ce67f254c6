# SPDX-License-Identifier: BSD-3-Clause
"""The command `lttng`, run so that it starts no daemon and changes nothing of the user's.

`lttng create` notes the session's name in ~/.lttngrc and so changes what the user's own `lttng`
commands refer to. It does that in LTTNG_HOME, so ours points to a folder of its own, in which a link
leads to the folder with the daemon's sockets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import TracebackType

from fabtrace.errors import FabtraceError

INSTALL = "install it with `apt-get install lttng-tools`"
COMMAND_SECONDS = 60.0  # `lttng stop` waits for the consumer to write what is in the buffers


class LttngError(FabtraceError):
    """A command of lttng failed; the text is what it said."""


def user_home() -> Path:
    """The folder in which LTTng keeps a user's `.lttng`."""
    return Path(os.environ.get("LTTNG_HOME") or os.path.expanduser("~"))


def run_dir() -> Path:
    """The folder of the sockets of the daemon that this user would start."""
    return Path("/run/lttng") if os.geteuid() == 0 else user_home() / ".lttng"


class NoAnswer(LttngError):
    """A command did not end in time."""


class Client:
    """Runs `lttng`."""

    def __init__(self) -> None:
        if shutil.which("lttng") is None:
            raise FabtraceError(f"cannot record: `lttng` is not in PATH; {INSTALL}")
        self._home = tempfile.TemporaryDirectory(prefix="fabtrace-")
        Path(self._home.name, ".lttng").symlink_to(user_home().absolute() / ".lttng")
        self._environment = {**os.environ, "LTTNG_HOME": self._home.name, "LC_ALL": "C"}

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._home.cleanup()

    def run(self, *arguments: str, seconds: float = COMMAND_SECONDS) -> str:
        """Run a command and return what it printed; LttngError if it says that it failed."""
        try:
            done = subprocess.run(
                ["lttng", "--no-sessiond", *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
                process_group=0,  # a Ctrl-C on the terminal is for us, not for it
            )
        except subprocess.TimeoutExpired:
            raise NoAnswer(
                f"`lttng {arguments[0]}` gave no answer in {seconds:.0f} s; is the session daemon stuck?"
            ) from None
        if done.returncode != 0:
            raise LttngError(
                f"`lttng {arguments[0]}` failed: {complaint(done.stderr + done.stdout)}"
            )
        return done.stdout

    def query(self, *arguments: str) -> ElementTree.Element:
        """Run a command that tells something; its answer as XML, empty if it can't be read."""
        try:
            return ElementTree.fromstring(self.run("--mi=xml", *arguments, seconds=20))
        except ElementTree.ParseError:
            return ElementTree.Element("nothing")

    def sessions(self) -> list[str] | None:
        """The names of the trace sessions that exist; None if no session daemon answers."""
        try:
            answer = self.query("list")
        except LttngError:
            return None
        return [name.text or "" for name in answer.iterfind(".//{*}session/{*}name")]


def complaint(text: str) -> str:
    """The line of a daemon's or command's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("<")]  # an answer in XML
    errors = [line for line in lines if line.startswith(("Error", "PERROR"))]
    return (errors or lines or ["it gave no reason"])[-1].removeprefix("Error: ")
