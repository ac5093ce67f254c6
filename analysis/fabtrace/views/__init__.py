# SPDX-License-Identifier: BSD-3-Clause
"""The model as text for people and JSON for programs."""
