# SPDX-License-Identifier: BSD-3-Clause
"""The model of a trace of any length in bounded memory: one pass over it, window by window.

It is what `build` gives, less what needs all operations at once:

    exact         processes, workers, sessions with counters and waits, loss, pairing; of latencies the
                  count, mean and maximum
    approximate   percentiles of latencies, within histogram.ERROR
    not there     single operations and their phases; the comparison of the hosts' clocks
"""

from fabtrace.model.bounded.build import build_bounded

__all__ = ["build_bounded"]
