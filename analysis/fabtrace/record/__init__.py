# SPDX-License-Identifier: BSD-3-Clause
"""Recording: a session daemon, a trace session, and the commands that are recorded."""
