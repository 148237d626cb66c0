"""`python -m livedbg`."""

from __future__ import annotations

import sys

from livedbg.cli import main

if __name__ == "__main__":
    sys.exit(main())
