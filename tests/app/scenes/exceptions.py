"""States of catching: listening with hits of several types, one that can't listen, and nothing set."""

from __future__ import annotations

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.model import ExceptionHit, Frame, Intrusion, LogRecord, LogSource, Severity, Thread, ThreadState
from livedbg.model import events as ev
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from tests.app.fakes import T0_WALL, FakeView, S, stamp
from tests.app.hostile_strings import HOSTILE
from tests.app.scenes.parts import PID, PROCESS, healthy, judge, process, thread, tid, twice

_FUSER = (
    Frame("__cxa_throw", module="libstdc++.so.6"),
    Frame("nvfuser::nvfCheckFail(char const*, char const*, long, std::string const&)", module="libnvfuser_codegen.so"),
    Frame("nvfuser::checkInlining(nvfuser::Fusion*)", "/src/csrc/scheduler/pointwise.cpp", 412),
    Frame("nvfuser::FusionDefinition::execute", "/src/csrc/python_frontend/fusion_definition.cpp", 341),
    Frame("fusion_forward", "/srv/job/fused_layer.py", 88, language="python"),
    Frame("train_step", "/srv/job/train.py", 131, language="python"),
)
_QUEUE = (
    Frame("__cxa_throw", module="libstdc++.so.6"),
    Frame("Queue<Batch, 64>::pop(std::chrono::duration<long, std::milli>)", "/src/queue.h", 77),
    Frame("loader(int)", "/src/loader.cpp", 30),
)
_POOL = (Frame("__cxa_throw", module="libstdc++.so.6"), Frame("Pool::take(unsigned long)", "/src/pool.cpp", 19))
_FUSER_ID, _RUNTIME_ID = "catchpoint:box/4711/1", "catchpoint:box/4711/2"


def catching() -> FakeView:
    """Two types are listened for; three kinds of hits came, one of them with many messages."""
    points = [
        Catchpoint(
            id=_FUSER_ID, process=PROCESS, pattern="nvfuser", engine="probes", state=CatchpointState.ARMED,
            seen=48_211, hits=3, note="in libstdc++.so.6.0.30",
        ),
        Catchpoint(
            id=_RUNTIME_ID, process=PROCESS, pattern="/_error$/", engine="probes", state=CatchpointState.ARMED,
            seen=48_211, hits=46_007, lost=12, follow=True,
            note="in libstdc++.so.6.0.30, libcusolver.so.11",
        ),
    ]  # fmt: skip
    fuser = ExceptionHit(
        id="exception:box/4711/1", type="nvfuser::nvfError", thread=tid(4712), process=PROCESS, stack=_FUSER,
        message="INTERNAL ASSERT FAILED at /src/csrc/scheduler/pointwise.cpp:412, please report a bug.\n"
        "Expected inlined position 3 of T12_g_float[iS20{16}, iS21{4096}] to be at most the computeAt position 2.",
        at_wall_ns=T0_WALL + 39 * S, first_wall_ns=T0_WALL + 12 * S, count=3, catchpoint=_FUSER_ID,
        history=(1, *[0] * 20, 1, *[0] * 5, 1),
    )  # fmt: skip
    queue = [
        ExceptionHit(
            id=f"exception:box/4711/{2 + n}", type="std::runtime_error", thread=tid(4713 + n % 2), process=PROCESS,
            message=f"queue {n} is empty after 5 ms", stack=_QUEUE, at_wall_ns=T0_WALL + (42 - n) * S,
            first_wall_ns=T0_WALL + 2 * S, count=11_500 + n, catchpoint=_RUNTIME_ID,
            history=tuple(300 + 97 * ((second * (n + 3)) % 7) for second in range(40 - n)),
        )
        for n in range(4)
    ]  # fmt: skip
    pool = ExceptionHit(
        id="exception:box/4711/9", type="std::length_error", message="", thread=tid(4712), process=PROCESS,
        stack=_POOL, at_wall_ns=T0_WALL + 20 * S, first_wall_ns=T0_WALL + 20 * S, catchpoint=_RUNTIME_ID,
        history=(1,), partial=True,
    )  # fmt: skip
    record = LogRecord(
        source="log:box/train", text="step 131 failed: INTERNAL ASSERT FAILED", severity=Severity.ERROR,
        wall_ns=T0_WALL + 39 * S, line=212, tid=4712, links=(tid(4712),),
    )  # fmt: skip
    touches = [
        Intrusion(target=PROCESS, what="catchpoint", why=f"listen for {what}", at_wall_ns=T0_WALL + S)
        for what in ("nvfuser", "/_error$/")
    ]
    return _running(
        [
            *(ev.CatchpointSeen(**stamp(42), catchpoint=point) for point in points),
            *(ev.ExceptionSeen(**stamp(42), hit=hit) for hit in (fuser, *queue, pool)),
            *(ev.Touched(**stamp(1), intrusion=touch) for touch in touches),
            ev.LogSourceSeen(**stamp(2), source=LogSource(id="log:box/train", name="train", path="/srv/job/log")),
            ev.LogsSeen(**stamp(39), records=(record,)),
        ]
    )


def denied() -> FakeView:
    """A user who may not listen."""
    point = Catchpoint(
        id=_FUSER_ID, process=PROCESS, pattern="std::bad_alloc", state=CatchpointState.FAILED, moment=Moment.THROW,
        note="The kernel does not let this user set probes (perf_event_open: EACCES).",
        remedy="sudo setcap cap_perfmon+ep $(readlink -f $(which python3)), or run livedbg as root",
    )  # fmt: skip
    return _running([ev.CatchpointSeen(**stamp(42), catchpoint=point)])


def nothing_set() -> FakeView:
    """No catchpoint."""
    return _running([])


def hostile_hits() -> FakeView:
    """Every hostile string in every field of what was caught."""
    events: list[ev.Event] = []
    for number, text in enumerate(HOSTILE):
        point = Catchpoint(
            id=f"catchpoint:evil/{number}", process=PROCESS, pattern=text, message=text, engine=text,
            state=CatchpointState.FAILED, note=text, remedy=text,
        )  # fmt: skip
        hit = ExceptionHit(
            id=f"exception:evil/{number}", type=text, message=text, thread=tid(4712), process=PROCESS,
            stack=(Frame(text, file=text, line=1, module=text),), at_wall_ns=T0_WALL, catchpoint=text, partial=True,
        )  # fmt: skip
        events += [ev.CatchpointSeen(**stamp(42), catchpoint=point), ev.ExceptionSeen(**stamp(42), hit=hit)]
    return _running(events)


def _threads() -> list[Thread]:
    names = ("python", "train", "loader-0", "loader-1")
    return [thread(PID + number, name, ThreadState.RUNNING) for number, name in enumerate(names)]


def _running(events: list[ev.Event]) -> FakeView:
    first = [process("python", "train.py", threads=4), *twice(_threads(), {4712: 0.9, 4713: 0.4, 4714: 0.4}, 43)]
    sentence = "Running: 3 threads used the CPU in the last second."
    verdict = Verdict(state=VerdictState.RUNNING, sentence=sentence, since_wall_ns=T0_WALL)
    return FakeView("box:4711 python train.py", [*first, *healthy(), *events, ev.Tick(**stamp(43))], judge(verdict))
