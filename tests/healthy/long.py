"""Watch a healthy Python job of sixteen threads for ten minutes on a busy machine: no stall may be printed.

    python -m tests.healthy.long [--seconds 600] [--load 20] [--write]

Programs that only burn CPU time are added and taken away so that the load of the machine stays at what is wanted.
`--write` puts the result into docs/verdicts.md. Exit code 1 if `livedbg watch` printed a stall, a deadlock or a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_PROGRAM: Final = Path(__file__).with_name("programs") / "sixteen_threads.py"
PAGE: Final = Path(__file__).parents[2] / "docs" / "verdicts.md"
_BEGIN, _END = "<!-- long watch: begin -->", "<!-- long watch: end -->"
_BAD: Final = {"stalled", "deadlock", "crashed"}
_ADJUST_S: Final = 15.0
_CHECK_S: Final = 0.5


class Load:
    """Keeps the load of the machine (/proc/loadavg, of the last minute) near a wanted one.

    Args:
        wanted: it.

    Attributes:
        seen: the loads, a few a minute.
    """

    def __init__(self, wanted: float) -> None:
        self._wanted = wanted
        self._burners: list[subprocess.Popen[bytes]] = []
        self._adjust_s = 0.0
        self.seen: list[float] = []

    def keep(self) -> None:
        """Adjust it, where that is due."""
        if time.monotonic() < self._adjust_s:
            return
        self._adjust_s = time.monotonic() + _ADJUST_S
        load = os.getloadavg()[0]
        self.seen.append(load)
        missing = round(self._wanted - load)
        if missing > 0 and len(self._burners) < 2 * self._wanted:
            self._burners += [_burner() for _ in range(max(1, missing // 2))]
        elif missing < -2 and self._burners:
            _end(self._burners.pop())

    def end(self) -> None:
        """Take all away."""
        for burner in self._burners:
            _end(burner)
        self._burners.clear()


def _burner() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "while True: pass"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextlib.contextmanager
def _job(output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as out:
        job = subprocess.Popen([sys.executable, str(_PROGRAM)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield job
    finally:
        if job.poll() is None:
            _end(job)


def watch(seconds: float, load: Load, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """What `livedbg watch` prints of the job, line by line, and the last words of the job."""
    output = folder / "job.log"
    with _job(output) as job:
        argv = [sys.executable, "-m", "livedbg", "watch", str(job.pid), "--json", "--timeout", str(seconds)]
        with (
            (folder / "watch.err").open("wb") as errors,
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as asked,
        ):
            lines: list[dict[str, Any]] = []
            reader = threading.Thread(target=lambda: lines.extend(map(json.loads, asked.stdout or ())))
            reader.start()
            while asked.poll() is None:
                load.keep()
                time.sleep(_CHECK_S)
            reader.join()
        job.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(120)
    return lines, output.read_text().splitlines()[-1]


def summary(lines: list[dict[str, Any]], seconds: float, loads: list[float], words: str) -> list[str]:
    """The result, for people."""
    verdicts = [line for line in lines if line["kind"] == "verdict"]
    findings = Counter(line["rule"] for line in lines if line["kind"] == "finding")
    states = Counter(verdict["state"] for verdict in verdicts)
    bad = sum(line["state"] in _BAD for line in lines)
    return [
        f"{seconds / 60:.0f} minutes at a load of {sum(loads) / len(loads):.0f} ({min(loads):.0f} to {max(loads):.0f}) "
        f"on {os.cpu_count()} CPUs, Python {sys.version.split()[0]}: {bad} stalls, deadlocks or crashes.",
        f"Verdicts printed: {', '.join(f'{count} {state}' for state, count in states.most_common())}. "
        f"Findings: {', '.join(f'{count} {rule}' for rule, count in findings.most_common()) or 'none'}.",
        f"The job's own account: {words}.",
    ]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.healthy.long")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--load", type=float, default=20.0)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    load = Load(asked.load)
    try:
        with tempfile.TemporaryDirectory() as folder:
            while os.getloadavg()[0] < 0.8 * asked.load:
                load.keep()
                time.sleep(_CHECK_S)
            load.seen.clear()
            lines, words = watch(asked.seconds, load, Path(folder))
    finally:
        load.end()
    for line in lines:
        print(json.dumps(line))
    said = summary(lines, asked.seconds, load.seen or [os.getloadavg()[0]], words)
    print(*said, sep="\n")
    if asked.write:
        before, _, rest = PAGE.read_text().partition(_BEGIN)
        PAGE.write_text(f"{before}{_BEGIN}\n{chr(10).join(said)}\n{_END}{rest.partition(_END)[2]}")
    return int(any(line["state"] in _BAD for line in lines))


if __name__ == "__main__":
    sys.exit(main())
