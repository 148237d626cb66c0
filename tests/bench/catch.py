"""What a catchpoint costs its target, a throw: while types match, while they don't, and between throws; against gdb."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from livedbg.adapters.exceptions.debugged import DebuggedListener
from livedbg.adapters.exceptions.listener import Heard, Listener
from livedbg.catchpoints import Moment
from livedbg.linux import procfs
from tests.bench.harness import TARGETS, Row, program
from tests.bench.table import Figure, repeated

_FAST = 100_000  # throws of one measurement by kernel probes
_SLOW = 400  # of one by gdb
_UNLIMITED = 10_000_000
_REPEATS = 3


def rows() -> Iterator[Row]:
    """Measure, one row after the other."""
    with tempfile.TemporaryDirectory() as folder:
        thrower = Path(folder) / "throws"
        subprocess.run(["g++", "-O1", "-g", "-pthread", TARGETS / "throws.cpp", "-o", thrower], check=True)
        with _Target(thrower) as target:
            bare_us = repeated(lambda: target.throw_us(_FAST), _REPEATS)
            gdb_us = repeated(lambda: _under_gdb(target, "runtime"), _REPEATS)
            gdb_unwanted_us = repeated(lambda: _under_gdb(target, "logic"), _REPEATS)
            for name, listener in (("probe events", Listener), ("debug registers", DebuggedListener)):
                wanted = _heard(target, listener, wanted=True)
                yield _row(f"a throw that matches, by {name}", wanted, bare_us, "gdb, catch throw REGEX", gdb_us)
                unwanted = _heard(target, listener, wanted=False)
                what = f"a throw that doesn't match, by {name}"
                yield _row(what, unwanted, bare_us, "gdb, catch throw REGEX", gdb_unwanted_us)
            yield Row("a throw by itself", bare_us, "none", bare_us, "us")


def _row(what: str, ours: Figure, bare: Figure, peer: str, theirs: Figure) -> Row:
    """What comes on top of the throw itself."""

    def above(figure: Figure) -> Figure:
        return Figure(tuple(max(value - bare.median, 0.0) for value in figure.values))

    return Row(f"cost to the target of {what}", above(ours), peer, above(theirs), "us")


class _Target:
    """A program that throws when it is told to."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self._line()

    def __enter__(self) -> _Target:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def throw_us(self, times: int) -> float:
        """Microseconds a throw, as fast as it can."""
        assert self._process.stdin is not None
        began = time.perf_counter()
        self._process.stdin.write(f"flood runtime {times} {_UNLIMITED}\n")
        self._process.stdin.flush()
        self._line()
        return (time.perf_counter() - began) * 1e6 / times

    def _line(self) -> None:
        assert self._process.stdout is not None and self._process.stdout.readline()


def _heard(target: _Target, kind: Callable[..., Listener | DebuggedListener], *, wanted: bool) -> Figure:
    def drop(heard: Sequence[Heard]) -> None:
        del heard

    listener = kind(target.pid, Moment.THROW, ["__cxa_throw"], wanted=lambda _call: wanted, tell=drop, follow=False)
    listener.start()
    try:
        for _ in range(3):  # until the types that nobody wants are learnt
            target.throw_us(1000)
            time.sleep(0.3)
        return repeated(lambda: target.throw_us(_FAST), _REPEATS)
    finally:
        listener.stop()


def _under_gdb(target: _Target, wanted: str) -> float:
    """The same with gdb's catchpoint, which goes on by itself."""
    script = "\n".join(
        ("set pagination off", f"catch throw {wanted}_error", "commands", "silent", "continue", "end", "continue", "")
    )
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
        file.write(script)
        file.flush()
        argv = [program("gdb"), "-nx", "-q", "-batch", "-p", str(target.pid), "-x", file.name]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as gdb:
            try:
                _until(lambda: _traced_and_running(target.pid))
                target.throw_us(20)  # it reads unwind tables at the first ones
                return target.throw_us(_SLOW)
            finally:
                gdb.terminate()
                gdb.wait()
                _until(lambda: procfs.status_fields(target.pid)["TracerPid"] == "0")


def _traced_and_running(pid: int) -> bool:
    fields = procfs.status_fields(pid)
    return fields["TracerPid"] != "0" and not fields["State"].startswith("t")


def _until(look: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise TimeoutError("gdb did not get there")
        time.sleep(0.02)
