"""Python frames in the samples of running threads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.samples import SamplesAdapter
from livedbg.adapters.samples.python_frames import NEAR_NS, UNREAD, with_python
from livedbg.adapters.samples.sampling import Batch, Followed, Sampling
from livedbg.analysis.profile import function_shares, profile_of
from livedbg.cpython.call_frames import PyFrames
from livedbg.model import Frame
from livedbg.model.intents import SAMPLES_FOR, SAMPLES_RATE
from livedbg.probes.clock_samples import refused_here
from livedbg.probes.perf_records import Sample
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.tools import no_unwinder
from livedbg.unwind.unwound import Unwound
from tests.cli.conftest import longer
from tests.conftest import Target
from tests.waiting import WALL_S

BUSY = """
def work():
    for _ in range(1000):
        pass

def run():
    while True:
        work()

print("READY", flush=True)
run()
"""


def native(*names: str, module: str = "python3.11") -> tuple[Frame, ...]:
    return tuple(Frame(name, module=module) for name in names)


def names(frames: tuple[Frame, ...]) -> list[str]:
    return [frame.function for frame in frames]


PYTHON = PyFrames((Frame("work", "a.py", 3, language="python"), Frame("run", "a.py", 7, language="python")), True, (2,))
LOOP = native("_PyEval_EvalFrameDefault", "PyEval_EvalCode", "Py_BytesMain")


def test_python_functions_take_the_place_of_the_interpreters_own() -> None:
    inside = Unwound((*native("long_add"), *LOOP, *native("__libc_start_main", module="libc.so.6")), True)
    assert names(with_python(inside, PYTHON)) == ["work", "run"]
    calls = Unwound((*native("dgemm", module="libblas.so"), *native("cfunction_call"), *LOOP), True)
    assert names(with_python(calls, PYTHON)) == ["dgemm", "work", "run"]
    assert names(with_python(calls, None)) == ["dgemm", UNREAD.function]
    assert names(with_python(None, PYTHON)) == ["work", "run"] and with_python(None, None) == ()


def test_a_thread_that_is_outside_of_python_has_no_python_frames() -> None:
    whole = Unwound(native("spin", "start_thread", module="a.out"), True)
    assert names(with_python(whole, PYTHON)) == ["spin", "start_thread"]
    cut = Unwound(native("dgemm", module="libblas.so"), False)
    assert names(with_python(cut, PYTHON)) == ["dgemm", "work", "run"]


@pytest.mark.invariant("samples_python.Y1")
def test_Y1_frames_that_were_read_too_late_are_not_used() -> None:
    class Clocks:
        def __init__(self, later_ns: int, tids: tuple[int, ...] = (7,)) -> None:
            self.later_ns, self.tids = later_ns, tids

        def ran_ns(self, _tid: int) -> int:
            return 1_000_000_000 + self.later_ns

        def period_ns(self, _tid: int) -> int:
            return 5

        def read(self) -> list[Sample]:
            return [
                Sample(0, 1, tid, n, b"", (), b"", 1_000_000_000 - 1_000_000 * (1 - n))
                for tid in self.tids
                for n in (0, 1)
            ]

        def take_lost(self) -> dict[int, int]:
            return {7: 2, 9: 1}

    class Frames:
        def places(self, _pid: int, _tid: int) -> tuple[int, ...]:
            return (1,)

        def named(self, _pid: int, _places: tuple[int, ...]) -> PyFrames:
            return PYTHON

    def turn(later_ns: int, ready: list[int], tids: tuple[int, ...] = (7,)) -> Batch:
        given: list[Batch] = []
        taker: Any = Sampling(Followed({7: (1, "thread:box/1/7")}, 9), given.append)
        taker._python = Frames()
        taker._turn(Clocks(later_ns, tids), taker.threads, ready)
        return given[0]

    in_time = turn(NEAR_NS, [7])
    assert [one.python for one in in_time.taken] == [None, PYTHON]  # the older one is of another moment
    assert in_time.lost == {"thread:box/1/7": 2} and in_time.taken[0].period_ns == 5
    assert [one.python for one in turn(NEAR_NS + 1, [7]).taken] == [None, None]
    assert [one.python for one in turn(-1, [7]).taken] == [None, None]  # a sample that came after the read
    assert [one.python for one in turn(0, []).taken] == [None, None]
    assert turn(0, [7, 8], (8,)).taken == []


@pytest.mark.skipif(
    refused_here() is not None or no_unwinder(Request(host="box")) is not None, reason="no samples here"
)
@pytest.mark.skipif(not (3, 11) <= sys.version_info < (3, 14), reason="frames of this interpreter are not read")
def test_the_functions_of_a_python_program_have_their_lines(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", BUSY])

    def found(seconds: float) -> bool:
        options = {SAMPLES_FOR: str(seconds), SAMPLES_RATE: "500"}
        request = Request(host="box", processes=(TargetProcess(target.pid),), options=options)
        view = LiveView(request, adapters=[ProcAdapter(), SamplesAdapter()])
        view.start()
        try:
            assert view.wait_settled(WALL_S)
        finally:
            view.stop()
        profile = profile_of(one for slices in view.latest().snapshot.profiles.values() for one in slices)
        work = [one for one in function_shares(profile) if one.function == "work"]
        outer = [one for one in function_shares(profile) if one.function == "run"]
        if not work or not outer:
            return False  # all were read too late: the machine is busy
        assert work[0].language == "python" and work[0].line in {2, 3, 4} and work[0].file == "<string>"
        assert outer[0].line in {7, 8} and outer[0].total >= work[0].total
        return True

    longer(0.5, found)
