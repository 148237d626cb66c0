"""Runs readers on inputs in a child process with a limit of memory and of time for each input.

The child is a fork; where it ends or hangs at an input, that input is a failure and another child goes on behind it.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fuzz.mutation import mutated
from tests.fuzz.readers import READERS, Reader

__all__ = ["CPU_S", "MEMORY", "Result", "case", "run"]

CPU_S: Final = 10.0
"""Processor time for one input."""
MEMORY: Final = 1 << 30
"""Address space that a reader may take beyond what it has before the first input."""
_WALL_S: Final = 120.0
_END: Final = "\n--- end of a failure\n"
_STATE: Final = struct.Struct("<qdd")  # the input at work (-1: none), the slowest so far in s, when it began


@dataclass
class Result:
    """What came of one reader.

    Attributes:
        cases: inputs that were read.
        slowest_s: processor time of the slowest.
        peak: most memory that was resident, bytes, with what livedbg itself has.
        failures: number of the input -> what happened.
    """

    cases: int = 0
    slowest_s: float = 0.0
    peak: int = 0
    failures: dict[int, str] = field(default_factory=dict)


def case(name: str, number: int, seed: int) -> bytes:
    """The input of that number."""
    return mutated(random.Random(f"{seed}/{name}/{number}"), READERS[name].seeds())


def run(name: str, count: int, seed: int) -> Result:
    """Feed `count` inputs to a reader."""
    result = Result()
    first = 0
    while first < count and len(result.failures) < 20:
        first = _batch(name, (first, count), seed, result)
    result.cases = count
    return result


def _batch(name: str, numbers: tuple[int, int], seed: int, result: Result) -> int:
    """Read in a child; gives the number to continue with."""
    state = mmap.mmap(-1, _STATE.size)
    _STATE.pack_into(state, 0, -1, 0.0, time.monotonic())
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _child(name, numbers, seed, state, said.fileno())
                code = 0
            except BaseException:
                os.write(said.fileno(), traceback.format_exc().encode("utf-8", "replace"))
            finally:
                os._exit(code)
        status, usage = _wait(pid, state)
        at, slowest, _ = _STATE.unpack_from(state)
        result.slowest_s = max(result.slowest_s, slowest)
        result.peak = max(result.peak, usage.ru_maxrss * 1024)
        said.seek(0)
        *failed, rest = said.read().split(_END)
        for one in failed:
            number, _, why = one.partition(" ")
            if _gist(why) not in map(_gist, result.failures.values()):
                result.failures[int(number)] = why
        if status == 0:
            return numbers[1]
        result.failures[at] = f"the child ended with {os.waitstatus_to_exitcode(status)}\n{rest[-3000:]}"
        return at + 1 if at >= 0 else numbers[1]


def _gist(why: str) -> str:
    """Where it was raised, and what kind."""
    lines = [line for line in why.splitlines() if line.strip()]
    places = [line for line in lines if "/livedbg/" in line or "/adapters/" in line]
    return f"{places[-1] if places else ''} {lines[-1].partition(':')[0] if lines else ''}"


def _wait(pid: int, state: mmap.mmap) -> tuple[int, resource.struct_rusage]:
    late = 0
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return status, usage
        late = late + 1 if time.monotonic() - _STATE.unpack_from(state)[2] > _WALL_S else 0
        if late > 2:  # not while it was being written
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _child(name: str, numbers: tuple[int, int], seed: int, state: mmap.mmap, said: int) -> None:
    reader = READERS[name]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        seeds = reader.seeds()
        _read(reader, seeds[0], folder)  # what is imported and kept at the first time is not the input's
        faulthandler.register(signal.SIGPROF, file=said, chain=True)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        slowest = 0.0
        for number in range(*numbers):
            _STATE.pack_into(state, 0, number, slowest, time.monotonic())
            data = mutated(random.Random(f"{seed}/{name}/{number}"), seeds)
            before = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, CPU_S)
            try:
                _read(reader, data, folder)
            except Exception:
                why = "".join(traceback.format_exc().splitlines(keepends=True)[-24:])
                os.write(said, f"{number} {why}{_END}".encode("utf-8", "replace"))
            signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, time.process_time() - before)
        _STATE.pack_into(state, 0, -1, slowest, time.monotonic())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(reader: Reader, data: bytes, folder: Path) -> None:
    try:
        reader.read(data, folder)
    except reader.errors:
        pass


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


if sys.platform != "linux":
    raise ImportError("the limits of this loop are Linux's")
