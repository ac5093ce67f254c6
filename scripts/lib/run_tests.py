#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run all tests and checks of the source tree; the last line is `N passed, N failed`.

Each step is a function that yields results. What a tool counts itself (pytest, Meson's tests) is
taken from its JUnit file, a result a test; anything else, such as a build, is one result.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import style

SOURCE = Path(__file__).resolve().parents[2]
STEP_SECONDS = 1500.0  # a tool that takes longer hangs
LOG_LINES = 120  # of a failure's log
# End-to-end tests that run the engine; the others would only test the recorder once more.
SANITIZED = ("tests/e2e/test_engine.py", "tests/e2e/test_run.py")
THREADED = ("tests/e2e/test_engine.py", "tests/e2e/test_run.py::test_report_is_right")
SANITIZER_FAILED = 99  # exit code: not one that our programs have


@dataclass(frozen=True)
class Result:
    """A test or check: `passed`, `failed` or `skipped`, and what it said."""

    name: str
    status: str
    log: str = ""


Results = Iterator[Result]


@dataclass
class Run:
    """Where things are."""

    build: Path
    environment: dict[str, str] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        return self.build / name

    def tool(self, command: Sequence[str | Path], **extra: str) -> tuple[int, str]:
        """Run a tool in the source tree; exit code and output. It is killed when it takes too long."""
        process = subprocess.Popen(
            ["env", "--default-signal", *map(str, command)],  # of a nohup, say
            cwd=SOURCE,
            env={**os.environ, **self.environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=STEP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return 1, f"{output}\nkilled after {STEP_SECONDS:.0f} s"
        except BaseException:  # somebody ends us: the tool is in a group of its own
            os.killpg(process.pid, signal.SIGTERM)
            raise
        return process.returncode, output


def check(name: str, outcome: tuple[int, str]) -> Result:
    """A tool's exit code as a result."""
    code, output = outcome
    return Result(name, "passed" if code == 0 else "failed", output)


def build(run: Run, name: str, *options: str, **environment: str) -> Result:
    """Configure and compile; warnings are errors."""
    folder = run.folder(name)
    configure = SOURCE / "scripts" / "lib" / "configure"
    outcome = run.tool(
        [configure, SOURCE, folder, "--werror", "-Danalysis=enabled", *options], **environment
    )
    if outcome[0] == 0:
        outcome = run.tool(["ninja", "-C", folder])
    return check(f"build {name}", outcome)


def junit(prefix: str, path: Path, outcome: tuple[int, str]) -> Results:
    """The results in a JUnit file, and one more if the tool failed in another way."""
    counted: Counter[str] = Counter()
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        yield Result(prefix, "failed", f"{outcome[1]}\n{path}: {error}")
        return
    for case in cases:
        name = " ".join(filter(None, (prefix, case.get("classname"), case.get("name"))))
        trouble = [*case.iterfind("failure"), *case.iterfind("error")]
        skip = case.find("skipped")
        status = "failed" if trouble else "skipped" if skip is not None else "passed"
        said = trouble or ([skip] if skip is not None else [])
        log = "\n".join(
            filter(None, (text for item in said for text in (item.get("message"), item.text)))
        )
        if trouble and not log:
            log = outcome[1]  # Meson keeps what a TAP test said to itself
        counted[status] += 1
        yield Result(name, status, log)
    if outcome[0] != 0 and not counted["failed"] or not cases:
        yield Result(prefix, "failed", outcome[1])


def pytest(run: Run, prefix: str, *tests: str, **environment: str) -> Results:
    """Run files or folders of Python tests."""
    path = run.build / f"{prefix.replace(' ', '-')}.xml"
    path.unlink(missing_ok=True)
    command = [
        "/usr/bin/python3",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    yield from junit(prefix, path, run.tool([*command, f"--junitxml={path}"], **environment))


def meson_test(run: Run, name: str) -> Results:
    """Run the C unit tests of a build."""
    folder = run.folder(name)
    path = folder / "meson-logs" / "testlog.junit.xml"
    path.unlink(missing_ok=True)
    outcome = run.tool(["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs"])
    yield from junit(f"unit {name}", path, outcome)


def binaries(run: Run, name: str) -> dict[str, str]:
    """Tells the Python tests which programs to use."""
    return {"FABT_BUILD": str(run.folder(name))}


def step_gcc(run: Run) -> Results:
    """The default build and its C unit tests."""
    yield build(run, "gcc", "-Dtracing=lttng", CC="gcc")
    yield from meson_test(run, "gcc")


def step_none(run: Run) -> Results:
    """Without tracing."""
    yield build(run, "none", "-Dtracing=none", CC="gcc")
    yield from meson_test(run, "none")


def step_clang(run: Run) -> Results:
    """The other compiler."""
    yield build(run, "clang", "-Dtracing=lttng", CC="clang")
    yield from meson_test(run, "clang")


def step_python(run: Run) -> Results:
    """Python tests of the analysis and the recorder."""
    yield from pytest(run, "python", "tests/python", **binaries(run, "gcc"))


def step_e2e(run: Run) -> Results:
    """The programs, recorded and reported."""
    none = {"FABT_NONE_BUILD": str(run.folder("none"))}
    yield from pytest(run, "e2e", "tests/e2e", **binaries(run, "gcc"), **none)


def step_interop(run: Run) -> Results:
    """The programs against an older peer."""
    yield from pytest(run, "interop", "tests/peer", **binaries(run, "gcc"))


def step_asan(run: Run) -> Results:
    """Unit and end-to-end tests under the address and undefined-behaviour sanitizers, leaks included."""
    suppressions = SOURCE / "tests" / "e2e" / "lsan.supp"
    environment = {
        "ASAN_OPTIONS": f"exitcode={SANITIZER_FAILED}:detect_leaks=1:detect_stack_use_after_return=1",
        "LSAN_OPTIONS": f"exitcode={SANITIZER_FAILED}:suppressions={suppressions}:print_suppressions=0",
        "UBSAN_OPTIONS": f"halt_on_error=1:print_stacktrace=1:exitcode={SANITIZER_FAILED}",
        "FABT_SANITIZER": "address",
    }
    run.environment.update(environment)
    options = ("-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dtracing=lttng")
    yield build(run, "asan", *options, CC="gcc")
    yield from meson_test(run, "asan")
    yield from pytest(run, "e2e asan", *SANITIZED, **binaries(run, "asan"))


def step_tsan(run: Run) -> Results:
    """End-to-end tests under the thread sanitizer."""
    suppressions = SOURCE / "tests" / "e2e" / "tsan.supp"
    run.environment.update(
        TSAN_OPTIONS=f"exitcode={SANITIZER_FAILED}:suppressions={suppressions}:halt_on_error=0",
        FABT_SANITIZER="thread",
    )
    options = ("-Db_sanitize=thread", "-Db_lundef=false", "-Dtracing=lttng", "-Dtests=false")
    yield build(run, "tsan", *options, CC="gcc")
    yield from pytest(run, "e2e tsan", *THREADED, **binaries(run, "tsan"))


def step_style(run: Run) -> Results:
    """How the source looks, and whether what is made from it is up to date."""
    for name, command in style.commands(SOURCE, run.folder("mypy-cache")).items():
        yield check(f"style {name}", run.tool(command))
    for name, problems in style.own_checks(SOURCE).items():
        yield check(f"style {name}", (len(problems), "\n".join(problems)))


STEPS: dict[str, Callable[[Run], Results]] = {
    "style": step_style,
    "gcc": step_gcc,
    "none": step_none,
    "clang": step_clang,
    "python": step_python,
    "e2e": step_e2e,
    "interop": step_interop,
    "asan": step_asan,
    "tsan": step_tsan,
}
NEEDS = {"python": ("gcc",), "e2e": ("gcc", "none"), "interop": ("gcc",)}  # builds that a step uses


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    what = "\n".join(f"  {name:8} {step.__doc__}" for name, step in STEPS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description="Install what is missing, build, and run all tests.",
        epilog=f"steps:\n{what}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", metavar="STEP", action="append", choices=STEPS, help="run this step (repeatable)"
    )
    parser.add_argument(
        "--build",
        metavar="DIR",
        type=Path,
        default=SOURCE / "build-test",
        help="folder for the builds (default: build-test in the source tree)",
    )
    return parser.parse_args()


def show(result: Result) -> None:
    """A line a result; what a failure said, shortened."""
    print(f"{result.status.upper():7} {result.name}", flush=True)
    if result.status == "skipped":
        print("        " + result.log.strip().partition("\n")[0], flush=True)
    if result.status == "failed":
        for line in result.log.rstrip().splitlines()[-LOG_LINES:]:
            print(f"    | {line}", flush=True)


def main() -> int:
    """Run the steps."""
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    wanted = options.only or list(STEPS)
    wanted = [
        name for name in STEPS if name in wanted or any(name in NEEDS.get(w, ()) for w in wanted)
    ]
    options.build.mkdir(parents=True, exist_ok=True)
    totals: Counter[str] = Counter()
    for name in wanted:
        start = time.monotonic()
        print(f"== {name}: {STEPS[name].__doc__}", flush=True)
        for result in STEPS[name](Run(options.build.resolve())):
            totals[result.status] += 1
            show(result)
        print(f"   ({time.monotonic() - start:.0f} s)", flush=True)
    if totals["skipped"]:
        print(f"{totals['skipped']} skipped, see above")
    print(f"{totals['passed']} passed, {totals['failed']} failed")
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
