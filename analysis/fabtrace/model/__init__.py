# SPDX-License-Identifier: BSD-3-Clause
"""Tables become processes, workers, sessions, operations and loss: what the events mean."""

from fabtrace.model.run import Run, build

__all__ = ["Run", "build"]
