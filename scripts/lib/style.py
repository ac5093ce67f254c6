# SPDX-License-Identifier: BSD-3-Clause
"""The style checks of scripts/test: what tools check, and what we check ourselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SPDX = "SPDX-License-Identifier: BSD-3-Clause"
SPDX_LINES = 3  # among the first lines: a #! comes before it
# The licence itself, and what can't hold a comment or is made by others.
WITHOUT_SPDX = {"LICENSE"}
WITHOUT_SPDX_SUFFIXES = {".json", ".log", ".png", ".svg", ".bin"}
PYTHON_PROGRAMS = (
    "scripts/bench-analysis",
    "scripts/bench-engine",
    "scripts/bench-memory",
    "scripts/bench-tracepoints",
    "scripts/chaos",
    "scripts/fabtrace",
    "scripts/fabtrun",
    "scripts/fuzz",
    "scripts/soak-loss",
    "scripts/lib/configure",
)


def source_files(source: Path) -> Iterator[Path]:
    """Files of the source tree; builds and caches are left out."""
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith("build")
            and name not in {".git", "__pycache__"}
            and not name.endswith("_cache")
        )
        for name in sorted(names):
            if name != ".git" and not name.endswith(".pyc"):
                yield Path(folder, name)


def commands(source: Path, cache: Path) -> dict[str, list[str | Path]]:
    """The tools and how to run them; `cache` is a folder for what mypy wants to remember."""
    c_files = [path for path in source_files(source) if path.suffix in {".c", ".h"}]
    python = ["/usr/bin/python3", "-m"]
    programs = [source / name for name in PYTHON_PROGRAMS]
    trees = ["analysis", "scripts", "tests", "tracepoints"]
    # Tests of one folder use helpers of another.
    mypy: list[str | Path] = [
        "env",
        "MYPYPATH=tests/python:tests/damage:scripts/lib",
        *python,
        "mypy",
        "--strict",
    ]
    mypy.append(f"--cache-dir={cache}")
    result: dict[str, list[str | Path]] = {
        "clang-format": ["clang-format", "--dry-run", "--Werror", *c_files],
        "black": [*python, "black", "--check", "-q", "--diff", "-l", "100", *trees, *programs],
        "flake8": [*python, "flake8", *trees, *programs],
        "mypy analysis": [*mypy, "analysis/fabtrace"],
        "mypy tracepoints": [*mypy, "tracepoints/generate.py"],
        "mypy scripts/lib": [*mypy, "scripts/lib"],
    }
    # One at a time: mypy calls each of them __main__.
    for program in programs:
        result[f"mypy {program.relative_to(source)}"] = [*mypy, program]
    for tests in sorted((source / "tests").iterdir()):
        if any(tests.glob("*.py")):
            result[f"mypy tests/{tests.name}"] = [*mypy, tests]
    return result


def own_checks(source: Path) -> dict[str, list[str]]:
    """For each check the problems it found, a line each."""
    return {
        "licence lines": list(without_licence(source)),
        "doc/events.md": list(stale_events(source)),
        "package files": list(forgotten_files(source)),
        "needed packages": list(forgotten_packages(source)),
    }


def without_licence(source: Path) -> Iterator[str]:
    """Files without an SPDX line at the top."""
    for path in source_files(source):
        if path.name in WITHOUT_SPDX or path.suffix in WITHOUT_SPDX_SUFFIXES:
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            head = [file.readline() for _ in range(SPDX_LINES)]
        if not any(SPDX in line for line in head):
            yield f"{path.relative_to(source)}: no line `{SPDX}` at the top"


def stale_events(source: Path) -> Iterator[str]:
    """Whether the documentation of the events is what the catalogue makes."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "events.md")
        generator = source / "tracepoints" / "generate.py"
        done = subprocess.run(
            [sys.executable, str(generator), "doc", str(made)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            yield done.stderr
        elif made.read_bytes() != (source / "doc" / "events.md").read_bytes():
            yield "doc/events.md is stale: run tracepoints/generate.py doc doc/events.md"


def forgotten_files(source: Path) -> Iterator[str]:
    """Modules of the package that analysis/meson.build doesn't install."""
    text = (source / "analysis" / "meson.build").read_text()
    for path in sorted((source / "analysis" / "fabtrace").rglob("*.py")):
        name = path.relative_to(source / "analysis").as_posix()
        if f"'{name}'" not in text:
            yield f"analysis/meson.build does not install {name}"


def forgotten_packages(source: Path) -> Iterator[str]:
    """Libraries that a meson.build asks for and scripts/setup does not install."""
    setup = (source / "scripts" / "setup").read_text()
    for path in source_files(source):
        if path.name != "meson.build":
            continue
        for name in re.findall(r"\bdependency\('([^']+)'", path.read_text()):
            package = f"{name if name.startswith('lib') else 'lib' + name}-dev"
            if name != "threads" and f"\n{package} " not in setup:
                yield f"{path.relative_to(source)}: {name}: scripts/setup does not install {package}"
