"""`livedbg WORDS` in a process of its own, with the most memory that it had.

By VmHWM (proc_pid_status(5)) of that process itself: `ru_maxrss` of a child also counts the memory of the process that
started it, which it shares until it executes its own program (vfork(2)).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Peak", "peak_of"]

_PROGRAM = """
import re, sys
from pathlib import Path
from livedbg.cli import main
try:
    code = main(sys.argv[2:])
finally:
    Path(sys.argv[1]).write_text(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""


class Peak(NamedTuple):
    """How it ended.

    Attributes:
        kib: the most memory that it had.
    """

    code: int
    kib: int
    out: str
    err: str


def peak_of(folder: Path, *words: str | Path) -> Peak:
    """Run it; `folder` is for a file of ours."""
    note = folder / "peak.txt"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(note), *map(str, words)],
        capture_output=True, timeout=250, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    kib = int(note.read_text())
    note.unlink()
    return Peak(done.returncode, kib, done.stdout.decode(), err)
