"""The terminal app as a user meets it, on a pty: time to the first paint, from a key to its paint while a log grows
by 100,000 records a second, and bytes written to the terminal."""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.app.terminal import Terminal
from tests.bench.harness import THREADS, Row, program, run, torch_target
from tests.bench.table import Figure, repeated

_LIVEDBG = "import sys; from livedbg.cli import main; sys.exit(main(sys.argv[1:]))"
_HELLO = """
from textual.app import App
from textual.widgets import Label
class Hello(App):
    def compose(self):
        yield Label("hello")
Hello().run()
"""
_FIRST = "import livedbg.cli.attach, livedbg.app.application"
_WRITER = """
import sys, time
line = "[INFO] worker: [pump.cpp:88] depth=%d spins=%d and some words to make it as long as usual\\n"
number, begun = 0, time.monotonic()
with open(sys.argv[1], "w", buffering=1 << 20) as log:
    print("READY", flush=True)
    while True:
        due = int((time.monotonic() - begun) * float(sys.argv[2]))
        log.write("".join(line % (n % 7, n) for n in range(number, due)))
        log.flush()
        number = due
        time.sleep(0.01)
"""
_RATE = 100_000
_JUDGED = b"Inconclusive"  # its main thread waits for ever, beside threads that work now and then
_SIZE = (80, 24)
_WIDE = (200, 60)


def rows(presses: int = 200, repeats: int = 5) -> Iterator[Row]:
    """Measure, one row after the other."""
    yield from _imports(repeats)
    with torch_target() as target:
        yield from _start(str(target.pid), repeats)
        yield from _written(str(target.pid))
    times = Figure(tuple(_key_to_paint(presses)))
    still = Figure(tuple(_key_to_paint(presses, rate=0)))
    for share, name, budget in ((50, "median", ""), (99, "p99", "< 50 ms"), (100, "longest", "")):
        yield Row(
            f"key to paint at {_RATE:,} records a second, {name} of {len(times.values)}",
            _percentile(times, share), "with an idle log", _percentile(still, share), "ms", budget,
        )  # fmt: skip


def _imports(repeats: int) -> Iterator[Row]:
    def python(code: str) -> Figure:
        return repeated(lambda: run(sys.executable, "-c", code), repeats)

    what = "start of Python and import of "
    textual = python("import textual.app")
    yield Row(f"{what}`livedbg.cli`", python("import livedbg.cli"), "of textual.app", textual, "s")
    yield Row(f"{what}all that the app shows first", python(_FIRST), "of textual.app", textual, "s")


def _start(pid: str, repeats: int) -> Iterator[Row]:
    ours = repeated(lambda: _paint(_LIVEDBG, b"Verdict", "attach", pid), repeats)
    what = f"`attach` to {THREADS} threads, from start to the first full screen"
    hello = repeated(lambda: _paint(_HELLO, b"hello"), repeats)
    yield Row(what, ours, "a Textual app of one label", hello, "s")
    spy = repeated(lambda: _paint(_exec(program("py-spy"), "top", "--nonblocking", "--pid", pid), b"%Own"), repeats)
    yield Row(what, ours, "py-spy top", spy, "s")
    verdict = repeated(lambda: _paint(_LIVEDBG, _JUDGED, "attach", pid), repeats)
    what = "the same to the verdict on the screen"
    five = repeated(lambda: sum(run(program("py-spy"), "dump", "--pid", pid) for _ in range(5)), repeats)
    yield Row(what, verdict, "py-spy dump, five times", five, "s", "≤ 0.7 s")
    yield Row(what, verdict, "py-spy dump, five times", five, "s", "≤ the peer's")


def _written(pid: str) -> Iterator[Row]:
    """What a slow line has to carry."""
    top = _bytes_per_s(_exec(program("top"), "-H", "-d", "0.5", "-p", pid), b"PID")
    busy = _bytes_per_s(_LIVEDBG, _JUDGED, "attach", pid)
    yield Row("written to the terminal, attached", busy, "top -H -d 0.5", top, "B/s")
    slow = _bytes_per_s(_LIVEDBG, _JUDGED, "attach", pid, "--low-bandwidth")
    yield Row("with --low-bandwidth", slow, "without", busy, "B/s")
    wide = _bytes_per_s(_LIVEDBG, _JUDGED, "attach", pid, size=_WIDE)
    top = _bytes_per_s(_exec(program("top"), "-H", "-d", "0.5", "-p", pid), b"PID", size=_WIDE)
    yield Row("written to a terminal of 200x60, attached", wide, "top -H -d 0.5", top, "B/s", "< 4,000 B/s")
    with _growing_log(_RATE) as log:
        flood = _bytes_per_s(_LIVEDBG, b"Verdict", "attach", "--logs", str(log))
    yield Row(f"written to the terminal at {_RATE:,} records a second", flood, "top -H -d 0.5", top, "B/s")


def _exec(*argv: str) -> str:
    return f"import os; os.execv({argv[0]!r}, {list(argv)!r})"


def _paint(code: str, text: bytes, *words: str) -> float:
    """Seconds from the start of a program to a text on its terminal."""
    started = time.perf_counter()
    with Terminal(*words, size=_SIZE, program=code, fresh=True) as terminal:
        terminal.until(text)
        return time.perf_counter() - started


def _bytes_per_s(code: str, shown: bytes, *words: str, seconds: float = 20.0, size: tuple[int, int] = _SIZE) -> float:
    with Terminal(*words, size=size, program=code, fresh=True) as terminal:
        terminal.until(shown)
        _take(terminal, 5)
        before = len(terminal.output)
        _take(terminal, seconds)
        return (len(terminal.output) - before) / seconds


def _take(terminal: Terminal, seconds: float) -> None:
    """Take what is written meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal.master], [], [], left)[0]:
            terminal.output += os.read(terminal.master, 65536)


@contextlib.contextmanager
def _growing_log(rate: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "worker.log"
        if not rate:
            log.write_text("[INFO] worker: [pump.cpp:88] depth=1\n" * 1000)
            yield log
            return
        argv = [sys.executable, "-c", _WRITER, str(log), str(rate)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
            try:
                assert writer.stdout is not None and writer.stdout.readline()
                yield log
            finally:
                writer.kill()


def _key_to_paint(presses: int, rate: int = _RATE) -> list[float]:
    """Milliseconds from a key to its paint: another screen, and back."""
    times = []
    with (
        _growing_log(rate) as log,
        Terminal("attach", "--logs", str(log), size=_SIZE, program=_LIVEDBG, fresh=True) as terminal,
    ):
        terminal.until(b"Verdict")
        _take(terminal, 3)
        for _ in range(presses):
            for key, shown in ((b"9", b"Ledger"), (b"1", b"Verdict")):
                _take(terminal, 0.02)
                mark = len(terminal.output)
                began = time.perf_counter()
                terminal.type(key)
                while shown not in terminal.output[mark:]:
                    _take(terminal, 0.0005)
                    assert time.perf_counter() - began < 20, terminal.output[-2000:]
                times.append(1000 * (time.perf_counter() - began))
    return times


def _percentile(times: Figure, share: int) -> float:
    return max(times.values) if share == 100 else statistics.quantiles(times.values, n=100)[share - 1]
