"""Plays a recorded Ascend hang into a directory, as if it happened now.

The recording is of two runs on the `simpler` simulator: the first is healthy (and leaves its
`deps.json`), in the second the kernel of task r1t2 spins on a flag that nobody sets. Time stamps and
pids of the recording are replaced by those of the moment and of the player, which then stays as the
hung process does.

`python -m livedbg.adapters.ascend.demo.player DIRECTORY [SPEED]`
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from livedbg.model.errors import UsageError
from livedbg.text.typed import ready

LOG_NAME: Final = "err.txt"
"""The log's file name in the directory."""

_RECORDING: Final = "hang.jsonl"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that the recorded process wrote.

    Attributes:
        at: seconds since the beginning.
        log: a line of its log, or "".
        file: relative path of a file that it wrote whole, or "".
        text: what stands in that file.
    """

    at: float
    log: str = ""
    file: str = ""
    text: str = ""


def entries() -> Iterator[Entry]:
    """The recording, in order of time."""
    decoder = msgspec.json.Decoder(ready(Entry))
    data = files("livedbg.adapters.ascend.demo").joinpath(_RECORDING).read_bytes()
    for line in data.splitlines():
        yield decoder.decode(line)


def play(directory: Path, speed: float = 1.0) -> None:
    """Write the recording into `directory` in real time.

    Args:
        directory: made if it is not there.
        speed: recorded seconds per second; 0 writes everything at once.

    Raises:
        UsageError: the speed is negative, or the directory can't be written.
    """
    if speed < 0:
        raise UsageError(f"the speed must not be negative: {speed}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / LOG_NAME).open("w", encoding="utf-8") as log:
            _write(directory, log.write, log.flush, speed)
    except OSError as error:
        raise UsageError(f"{directory} can't be written: {error.strerror}", "name another directory") from error


def _write(directory: Path, write: Callable[[str], object], flush: Callable[[], None], speed: float) -> None:
    start = time.monotonic()
    for entry in entries():
        if speed > 0:
            time.sleep(max(0.0, start + entry.at / speed - time.monotonic()))
        if entry.file:
            path = directory / entry.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(entry.text, encoding="utf-8")
        else:
            write(_now(entry.log) + "\n")
            flush()


def _now(line: str) -> str:
    """A recorded line with the clocks and the pid of now."""
    return (
        line.replace("{MONO}", str(time.monotonic_ns()))
        .replace("{WALL}", str(time.time_ns()))
        .replace("{PID}", str(os.getpid()))
    )


def main(arguments: list[str]) -> int:
    """Play, then stay until killed or interrupted."""
    if not 1 <= len(arguments) <= 2:
        print("usage: python -m livedbg.adapters.ascend.demo.player DIRECTORY [SPEED]", file=sys.stderr)
        return UsageError.exit_code
    try:
        play(Path(arguments[0]), float(arguments[1]) if len(arguments) > 1 else 1.0)
        print("READY", flush=True)
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return 0
    except (UsageError, ValueError) as error:
        print(error, file=sys.stderr)
        return UsageError.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
