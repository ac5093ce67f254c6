# SPDX-License-Identifier: BSD-3-Clause
"""Record and analyse the events of a get/put run."""

VERSION = "0.1.0"
