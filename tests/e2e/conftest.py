# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the end-to-end tests: the programs as a user runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from world import World

from lttng_private import PrivateLttng, Unavailable


@pytest.fixture(scope="session")
def private() -> Iterator[PrivateLttng]:
    """A namespace without a session daemon."""
    try:
        with PrivateLttng(start_daemon=False) as lttng:
            yield lttng
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def world(private: PrivateLttng, tmp_path: Path) -> Iterator[World]:
    """The namespace; the test fails if it leaves a process or a session daemon behind."""
    result = World(private, tmp_path)
    yield result
    leftovers = result.leftovers()
    result.kill_leftovers()
    assert not leftovers
    assert private.daemon_pid() is None


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Where to record to."""
    return tmp_path / "trace"
