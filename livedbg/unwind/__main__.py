"""The start of the unwinding process: `python -S -P -m livedbg.unwind PARENT`."""

from __future__ import annotations

import sys

sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # msgspec asks it first for what typing has: 12 ms

from livedbg.unwind.helper import main  # noqa: E402

if __name__ == "__main__":
    main(int(sys.argv[1]))
