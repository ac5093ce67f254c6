# SPDX-License-Identifier: BSD-3-Clause
"""Traces of made-up runs: tests/tools/emit recorded under a private session daemon.

FABT_BUILD names the build whose `emit` writes them (default: build).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lttng_private import PrivateLttng, Unavailable

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FABT_BUILD", SOURCE / "build")).resolve()
EMIT = BUILD / "tests/tools/emit"

Emitted = Callable[..., Path]


@pytest.fixture(scope="session")
def lttng() -> Iterator[PrivateLttng]:
    """A session daemon of our own."""
    try:
        private = PrivateLttng()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with private:
        yield private


@pytest.fixture(scope="session")
def emitted(lttng: PrivateLttng, tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    """Records `emit` with some options, once; returns the trace's folder (not to be changed)."""
    if not EMIT.exists():
        if "FABT_BUILD" in os.environ:
            pytest.fail(f"{EMIT} is missing: FABT_BUILD must be a build with tracing and tests")
        pytest.skip(f"{EMIT} is missing: build it, or set FABT_BUILD")
    known: dict[tuple[str, ...], Path] = {}

    def record(*options: str, loglevel: str = "DEBUG") -> Path:
        key = (*options, loglevel)
        if key not in known:
            folder = tmp_path_factory.mktemp("trace") / "run"
            lttng.record(folder, [[EMIT, *options]], loglevel=loglevel)
            known[key] = folder
        return known[key]

    return record
