# SPDX-License-Identifier: BSD-3-Clause
"""`python3 -m fabtrace`: the same as the command `fabtrace`."""

import sys

from fabtrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
