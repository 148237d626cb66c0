"""Commands of livedbg that run beside a test, and what they say meanwhile."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cli.zygote import Livedbg
from tests.conftest import eventually

__all__ = ["LISTENS", "LONG_S", "Beside", "beside"]

LONG_S = 300.0
"""For what takes a moment, on a box that is very busy."""

LISTENS = "Traces launches in "
"""What is said on standard error once every launch is heard."""


class Beside:
    """A command.

    Args:
        process: it.
        out: where its standard output goes.
        error: the same for standard error.
    """

    def __init__(self, process: subprocess.Popen[bytes], out: Path, error: Path) -> None:
        self._process = process
        self._out = out
        self._error = error

    def until_said(self, text: str) -> None:
        """Wait until it says something on standard error."""

        def said() -> bool:
            ended = self._process.poll()
            error = self._error.read_text()
            assert ended is None or text in error, f"it ended with {ended}: {error}"
            return text in error

        eventually(said)

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def end(self, code: int) -> str:
        """Wait for its end; gives what it printed."""
        ended = self._process.wait(2 * LONG_S)
        out = self._out.read_text()
        assert ended == code, f"{out}\n{self._error.read_text()}"
        return out


@contextlib.contextmanager
def beside(*arguments: str) -> Iterator[Beside]:
    """Run livedbg; it is killed where it has not ended by itself."""
    with tempfile.TemporaryDirectory() as folder:
        out, error = Path(folder) / "out", Path(folder) / "error"
        with out.open("wb") as to, error.open("wb") as errors:
            process = Livedbg(arguments, stdout=to, stderr=errors)
        try:
            yield Beside(process, out, error)
        finally:
            process.kill()
            process.wait()
