# SPDX-License-Identifier: BSD-3-Clause
"""Tables become processes, workers, sessions, operations and loss."""
