"""Hypothesis strategies for events over a small world, so that events meet each other."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKind,
    EdgeState,
    Evidence,
    ExceptionHit,
    Frame,
    Intrusion,
    LogRecord,
    LogSource,
    Process,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    TaskState,
    Thread,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.model.catchpoints import Catchpoint
from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState, DeviceUnit
from livedbg.model.dumps import TaskComparison, ValueComparison, ValueDump, ValuePreview, ValueRow
from livedbg.model.launches import Launch, LaunchTrail, ProfileSlice, SampledStack
from livedbg.model.snapshot import Activity, Clock, Durations, Touches

HOSTS = ("box", "node-2")
PROCESSES = tuple(f"process:{host}/{pid}" for host in HOSTS for pid in (10, 20))
THREADS = tuple(f"thread:{p.partition(':')[2]}/{tid}" for p in PROCESSES for tid in (1, 2))
TASKS = tuple(f"task:ascend/r0t{n}" for n in range(4))
LOCKS = tuple(f"mutex:box/10/{address:#x}" for address in (16, 32))
ENTITIES = (*PROCESSES, *THREADS, *TASKS, *LOCKS)
SCOPES = ("proc/a", "proc/b", "ascend")

words = st.text(max_size=12)
small = st.integers(0, 50)
maybe_time = st.none() | small


def _process(entity: str, ticks: int, state: ThreadState, env: dict[str, str]) -> Process:
    host, pid = entity.partition(":")[2].split("/")
    return Process(id=entity, host=host, pid=int(pid), start_ticks=ticks, state=state, environment=env)


def _thread(entity: str, state: ThreadState, syscall: str | None, cpu: int | None, switches: int | None) -> Thread:
    host, pid, tid = entity.partition(":")[2].split("/")
    return Thread(
        id=entity,
        process=f"process:{host}/{pid}",
        tid=int(tid),
        state=state,
        syscall=syscall,
        cpu_ns=cpu,
        switches=switches,
    )


processes = st.builds(
    _process,
    st.sampled_from(PROCESSES),
    st.integers(0, 2),
    st.sampled_from(ThreadState),
    st.dictionaries(words, words, max_size=2),
)
threads = st.builds(
    _thread,
    st.sampled_from(THREADS),
    st.sampled_from(ThreadState),
    st.none() | st.sampled_from(("futex", "read")),
    maybe_time,
    maybe_time,
)
frames = st.builds(
    Frame, function=words, file=st.none() | words, line=maybe_time, language=st.sampled_from(("native", "python"))
)
stacks = st.builds(
    Stack,
    thread=st.sampled_from(THREADS),
    frames=st.lists(frames, max_size=3).map(tuple),
    taken_mono_ns=small,
    source=st.just("py-spy"),
    layer=st.sampled_from(("python", "native", "merged")),
    partial=st.booleans(),
)
slices = st.builds(
    ProfileSlice,
    thread=st.sampled_from(THREADS),
    start_mono_ns=small,
    end_mono_ns=small,
    stacks=st.lists(
        st.builds(SampledStack, frames=st.lists(frames, max_size=3).map(tuple), cpu_ns=small, samples=small), max_size=2
    ).map(tuple),
    unknown=small,
)
tasks = st.builds(
    lambda entity, **rest: Task(id=entity, system="ascend", name=entity.rpartition("/")[2], **rest),
    st.sampled_from(TASKS),
    kernel=st.none() | st.sampled_from(("MUL", "ADD")),
    state=st.sampled_from(TaskState),
    since_mono_ns=maybe_time,
    since_wall_ns=maybe_time,
    fanin_left=maybe_time,
    where=st.lists(words, max_size=1).map(tuple),
    attributes=st.dictionaries(words, words, max_size=2),
)
edges = st.builds(
    Edge,
    kind=st.sampled_from(EdgeKind),
    source=st.sampled_from(ENTITIES),
    target=st.sampled_from(ENTITIES),
    state=st.sampled_from(EdgeState),
    evidence=words,
    any_of=st.booleans(),
    timed=st.booleans(),
)
records = st.builds(
    LogRecord, source=st.sampled_from(("log:a", "log:b")), text=words, severity=st.sampled_from(Severity)
)
evidence = st.builds(Evidence, kind=st.just("log"), source=words, text=words, at_wall_ns=maybe_time)

devices = st.builds(
    DeviceState,
    target=st.sampled_from((*PROCESSES, "file:/core")),
    source=st.just("core dump"),
    taken_wall_ns=maybe_time,
    units=st.lists(st.builds(DeviceUnit, number=small, name=words, sms=small), max_size=2).map(tuple),
    kernels=st.lists(st.builds(DeviceKernel, number=small, parent=maybe_time, name=words), max_size=2).map(tuple),
    places=st.lists(st.builds(DevicePlace, kernel=small, file=st.none() | words, line=maybe_time), max_size=2).map(
        tuple
    ),
    faults=st.lists(st.builds(DeviceFault, name=words, code=maybe_time, kernel=maybe_time), max_size=2).map(tuple),
    stack=st.lists(frames, max_size=2).map(tuple),
    notes=st.lists(words, max_size=2).map(tuple),
)

trails = st.builds(
    LaunchTrail,
    thread=st.sampled_from(THREADS),
    process=st.sampled_from(PROCESSES),
    count=small,
    seen=st.booleans(),
    seen_since_mono_ns=small,
    first_mono_ns=small,
    beats=small,
    last=st.lists(
        st.builds(
            Launch,
            function=words,
            kernel=st.none() | words,
            grid=st.none() | st.tuples(small, small, small),
            mono_ns=small,
            wall_ns=small,
        ),
        max_size=2,
    ).map(tuple),
)

dump_paths = st.sampled_from(("/run/args_dump.json", "/run/tensor_dump.json"))
value_dumps = st.builds(
    ValueDump,
    path=dump_paths,
    count=small,
    rows=st.lists(
        st.builds(ValueRow, number=small, task=st.sampled_from(TASKS), name=words, shape=st.tuples(small)), max_size=2
    ).map(tuple),
    problems=st.lists(words, max_size=1).map(tuple),
    replaced=st.booleans(),
)
value_previews = st.builds(
    ValuePreview, path=dump_paths, number=small, title=words, sample=words, goes_on=st.booleans(),
    counts=st.tuples(small), problem=words,
)  # fmt: skip
comparisons = st.builds(
    ValueComparison,
    path=dump_paths,
    golden=words,
    running=st.booleans(),
    first=st.none() | st.sampled_from(TASKS),
    tasks=st.lists(
        st.builds(TaskComparison, task=st.sampled_from(TASKS), verdict=words, sentence=words), max_size=2
    ).map(tuple),
)


def _several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=4).map(tuple)


_STAMP: dict[str, st.SearchStrategy[Any]] = {
    "host": st.sampled_from(HOSTS),
    "mono_ns": st.integers(0, 1_000),
    "wall_ns": st.integers(0, 1_000),
}


def _event(kind: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **fields, **_STAMP)


events: st.SearchStrategy[ev.Event] = st.one_of(
    _event(ev.Tick),
    _event(ev.Looked, source=st.sampled_from(("proc", "ascend")), since_mono_ns=st.none() | st.integers(0, 1_000)),
    _event(ev.ProcessSeen, process=processes),
    _event(
        ev.RanksSeen, ranks=st.dictionaries(st.sampled_from(PROCESSES), st.integers(0, 9), max_size=3), by=st.just("a")
    ),
    _event(ev.ProcessExited, id=st.sampled_from(PROCESSES), status=st.none() | st.integers(-15, 5)),
    _event(ev.ThreadsSeen, threads=_several(threads)),
    _event(ev.ThreadsExited, ids=_several(st.sampled_from(THREADS))),
    _event(ev.ThreadRolesSeen, roles=st.dictionaries(st.sampled_from(THREADS), words, max_size=3)),
    _event(ev.StacksSeen, stacks=_several(stacks)),
    _event(ev.SamplesSeen, slices=_several(slices)),
    _event(ev.TasksSeen, tasks=_several(tasks)),
    _event(
        ev.ResourcesSeen,
        resources=_several(st.builds(Resource, id=st.sampled_from(LOCKS), kind=st.just("mutex"), name=words)),
    ),
    _event(ev.EdgesReplaced, scope=st.sampled_from(SCOPES), edges=_several(edges)),
    _event(ev.EdgesAdded, scope=st.sampled_from(SCOPES), edges=_several(edges)),
    _event(
        ev.EdgesRemoved,
        scope=st.sampled_from(SCOPES),
        keys=_several(edges.map(lambda edge: tuple(edge.key))),
    ),
    _event(ev.LogSourceSeen, source=st.builds(LogSource, id=st.sampled_from(("log:a", "log:b")), name=words)),
    _event(ev.LogsSeen, records=_several(records)),
    _event(
        ev.CounterSeen,
        entity=st.sampled_from(ENTITIES),
        name=st.just("completed"),
        value=st.floats(0, 10),
        total=st.none() | st.floats(0, 10),
    ),
    _event(
        ev.DiagnosticSeen,
        diagnostic=st.builds(
            Diagnostic,
            id=st.sampled_from(("d1", "d2")),
            system=st.just("ascend"),
            code=st.sampled_from(("fatal", "terminate")),
            severity=st.sampled_from(Severity),
            sentence=words,
            entities=_several(st.sampled_from(TASKS)),
            evidence=_several(evidence),
        ),
    ),
    _event(
        ev.CatchpointSeen,
        catchpoint=st.builds(
            Catchpoint, id=st.sampled_from(("C1", "C2")), process=st.sampled_from(PROCESSES), pattern=words, hits=small
        ),
    ),
    _event(ev.DeviceSeen, device=devices),
    _event(ev.LaunchesSeen, trails=_several(trails)),
    _event(ev.DumpSeen, dump=value_dumps),
    _event(ev.ValuesSeen, preview=value_previews),
    _event(ev.DumpCompared, comparison=comparisons),
    _event(ev.ExceptionSeen, hit=st.builds(ExceptionHit, id=st.sampled_from(("x", "y")), type=words, message=words)),
    _event(
        ev.Touched,
        intrusion=st.builds(Intrusion, target=st.sampled_from(PROCESSES), what=words, why=words, paused_ns=small),
    ),
    _event(ev.StateCleared),
    _event(
        ev.Keyframe,
        clocks=st.dictionaries(st.sampled_from(HOSTS), st.builds(Clock, small, small), max_size=2),
        activity=st.dictionaries(st.sampled_from(THREADS), st.builds(Activity, small, small), max_size=2),
        counters=st.just(()),
        kernels=st.lists(
            st.tuples(st.just("ascend"), words, st.builds(Durations, small, small, small)),
            max_size=2,
            unique_by=lambda kernel: kernel[1],
        ).map(tuple),
        log_count=small,
        exited_threads=_several(st.sampled_from(THREADS)),
        exited_processes=_several(st.sampled_from(PROCESSES)),
        failed_processes=_several(st.sampled_from(PROCESSES)),
        forgotten_processes=small,
        older_touches=st.dictionaries(st.sampled_from(PROCESSES), st.builds(Touches, small, small, small), max_size=2),
    ),
    _event(
        ev.StatusSeen,
        status=st.builds(
            SourceStatus,
            source=st.just("proc"),
            target=st.sampled_from(PROCESSES),
            health=st.sampled_from(SourceHealth),
            code=st.sampled_from(("", "no-permission")),
            sentence=words,
        ),
    ),
)

streams: st.SearchStrategy[list[ev.Event]] = st.lists(events, max_size=40)
