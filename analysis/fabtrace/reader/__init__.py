# SPDX-License-Identifier: BSD-3-Clause
"""A trace folder becomes tables; knows Babeltrace 2 and no meaning."""

from fabtrace.reader.trace import read

__all__ = ["read"]
