"""The store: folds events into a state.

Invariants:
    store.F1. Deterministic: the state is a function of the sequence of events alone. No I/O, no clock, no randomness,
        no dependence on how the sequence was cut into chunks.
    store.F2. `apply` never raises on an event of a known type, whatever it refers to.
    store.F3. Merging a task never forgets: `None` and UNKNOWN don't overwrite (model.Task; livedbg.state.merging).
    store.F4. An edge lives in one scope; replacing a scope's edges removes exactly its former ones
        (livedbg.state.merging).
    store.F5. Memory is bounded by what is alive and by fixed windows, not by the number of events: log records, exited
        threads, exited processes with all that hangs on them, intrusive actions, kernel objects that nobody waits for
        (LOG_WINDOW, EXITED_WINDOW, livedbg.state.retention). Evidence is kept: exceptions, diagnostics, tasks.
    store.F6. `dependencies` and `waits` together are the pending edges.
    store.F7. A process or thread with the number of an earlier one is another one: it inherits no data and no start
        time of a condition from the earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from sys import intern
from types import MappingProxyType
from typing import Any, Final

import msgspec

from livedbg.model import Intrusion, LogRecord, Process, Resource, Stack, Task, TaskState, Thread, ids
from livedbg.model import events as ev
from livedbg.model.claims import Claim
from livedbg.model.snapshot import Clock, Counter, CounterKey, Durations, LookKey, Snapshot, StatusKey
from livedbg.model.tables import Table
from livedbg.state.keyframe import Hidden, keyframe
from livedbg.state.merging import EdgeTables, activity_after, activity_with_stack, merge_task, profile_after
from livedbg.state.retention import ExitedProcesses, KernelObjects, Ledger
from livedbg.state.stacks import merge_stacks

LOG_WINDOW: Final = 20_000
"""How many of the newest log records the state keeps."""

EXITED_WINDOW: Final = 4_096
"""How many exited threads the state keeps."""

PREVIEW_WINDOW: Final = 64
"""How many previews of tensors the state keeps."""

_TABLES: Final = (
    "clocks",
    "looks",
    "processes",
    "threads",
    "stacks",
    "log_sources",
    "counters",
    "diagnostics",
    "exceptions",
    "catchpoints",
    "statuses",
    "activity",
    "kernels",
    "devices",
    "launches",
    "profiles",
    "dumps",
    "value_previews",
    "comparisons",
)


_OF_A_PROCESS: Final[dict[str, Callable[[Any, Any], str | None]]] = {
    "processes": lambda key, _value: str(key),
    "counters": lambda key, _value: ids.process_of(key.entity),
    "statuses": lambda key, _value: ids.process_of(key.target),
    "log_sources": lambda _key, source: source.process,
    "catchpoints": lambda _key, point: point.process,
}
"""Tables of what hangs on a process -> which one an entry hangs on."""


class Store:
    """A fold of events. Not thread-safe: one thread applies; snapshots may be read anywhere."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Any, Any]] = {name: {} for name in _TABLES}
        self._frozen: dict[str, MappingProxyType[Any, Any]] = {}
        self._tasks: Table[str, Task] = Table(str)
        self._resources: Table[str, Resource] = Table(str)
        self._edges = EdgeTables()
        self._logs: deque[LogRecord] = deque(maxlen=LOG_WINDOW)
        self._frozen_logs: tuple[LogRecord, ...] | None = ()
        self._ledger = Ledger()
        self._frozen_touches: tuple[Intrusion, ...] | None = ()
        self._exited_processes = ExitedProcesses()
        self._kernel_objects = KernelObjects()
        self._stack_layers: dict[str, dict[str, Stack]] = {}
        self._exited: deque[str] = deque()
        self._claims: Mapping[str, Claim] | None = None
        self._log_count = 0
        self._revision = 0
        self._snapshot: Snapshot | None = None
        self._folds: dict[type[Any], Callable[[Any], None]] = {
            ev.Tick: lambda _event: None,
            ev.Looked: self._looked,
            ev.ClaimsRead: self._claims_read,
            ev.ProcessSeen: self._process_seen,
            ev.RanksSeen: self._ranks_seen,
            ev.ProcessExited: self._process_exited,
            ev.ThreadsSeen: self._threads_seen,
            ev.ThreadsExited: self._threads_exited,
            ev.ThreadRolesSeen: self._thread_roles_seen,
            ev.StacksSeen: self._stacks_seen,
            ev.SamplesSeen: self._samples_seen,
            ev.TasksSeen: self._tasks_seen,
            ev.ResourcesSeen: self._resources_seen,
            ev.EdgesReplaced: self._edges_replaced,
            ev.EdgesAdded: self._edges_added,
            ev.EdgesRemoved: self._edges_removed,
            ev.LogSourceSeen: self._log_source_seen,
            ev.LogsSeen: self._logs_seen,
            ev.CounterSeen: self._counter_seen,
            ev.DiagnosticSeen: self._diagnostic_seen,
            ev.ExceptionSeen: self._exception_seen,
            ev.CatchpointSeen: self._catchpoint_seen,
            ev.DeviceSeen: self._device_seen,
            ev.LaunchesSeen: self._launches_seen,
            ev.DumpSeen: self._dump_seen,
            ev.ValuesSeen: self._values_seen,
            ev.DumpCompared: self._dump_compared,
            ev.Touched: self._touched,
            ev.StatusSeen: self._status_seen,
            ev.StateCleared: self._clear,
            ev.Keyframe: self._restore,
        }

    def apply(self, event: ev.Event) -> None:
        clocks = self._dirty("clocks")
        old = clocks.get(event.host)
        if old is None or event.mono_ns >= old.mono_ns:
            clocks[event.host] = Clock(event.mono_ns, event.wall_ns)
        self._folds[type(event)](event)
        self._revision += 1
        self._snapshot = None

    def apply_all(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            self.apply(event)

    def copy(self) -> Store:
        """Return an independent store in the same state. Costs a copy of the tables; the values are shared."""
        other = Store()
        other._tables = {name: dict(table) for name, table in self._tables.items()}
        other._tasks, other._resources, other._edges = self._tasks.copy(), self._resources.copy(), self._edges.copy()
        other._logs = self._logs.copy()
        other._frozen_logs = None
        other._ledger = self._ledger.copy()
        other._frozen_touches = None
        other._exited_processes = self._exited_processes.copy()
        other._kernel_objects = self._kernel_objects.copy()
        other._stack_layers = {thread: dict(layers) for thread, layers in self._stack_layers.items()}
        other._exited = self._exited.copy()
        other._claims = self._claims
        other._log_count = self._log_count
        other._revision = self._revision
        return other

    def snapshot(self) -> Snapshot:
        """Return the current state. Cheap if little changed: unchanged tables are shared."""
        if self._snapshot is None:
            for name in _TABLES:
                if name not in self._frozen:
                    self._frozen[name] = MappingProxyType(dict(self._tables[name]))
            if self._frozen_logs is None:
                self._frozen_logs = tuple(self._logs)
            if self._frozen_touches is None:
                self._frozen_touches = tuple(self._ledger.newest)
            self._snapshot = Snapshot(
                revision=self._revision,
                tasks=self._tasks.freeze(),
                resources=self._resources.freeze(),
                edges=self._edges.edges.freeze(),
                dependencies=self._edges.dependencies.freeze(),
                waits=self._edges.waits.freeze(),
                names=self._edges.names,
                recent_logs=self._frozen_logs,
                log_count=self._log_count,
                intrusions=self._frozen_touches,
                older_touches=MappingProxyType(dict(self._ledger.older)),
                forgotten_processes=self._exited_processes.forgotten,
                claims=self._claims,
                **self._frozen,
            )
        return self._snapshot

    def keyframe(self) -> list[ev.Event]:
        """Return the events that restore this state in a new store (livedbg.state.keyframe)."""
        hidden = Hidden(tuple(self._exited), *self._exited_processes.order, self._stack_layers, self._edges.by_scope())
        return list(keyframe(self.snapshot(), hidden))

    def _clear(self, _event: ev.StateCleared) -> None:
        new = Store()
        own = {name: value for name, value in vars(new).items() if name not in ("_folds", "_revision")}
        vars(self).update(own)

    def _restore(self, event: ev.Keyframe) -> None:
        restored: dict[str, dict[Any, Any]] = {
            "clocks": event.clocks,
            "looks": dict(event.looks),
            "activity": event.activity,
            "counters": dict(event.counters),
            "kernels": {(system, kernel): took for system, kernel, took in event.kernels},
        }
        for name, table in restored.items():
            own = self._dirty(name)
            own.clear()
            own.update(table)
        self._log_count = event.log_count
        self._exited = deque(event.exited_threads)
        self._exited_processes.restore(event.exited_processes, event.failed_processes, event.forgotten_processes)
        self._ledger.older = dict(event.older_touches)
        self._claims = None if event.claims is None else MappingProxyType({claim.key: claim for claim in event.claims})
        self._frozen_touches = None

    def _dirty(self, name: str) -> dict[Any, Any]:
        """Return a table to write to; the next snapshot copies it again."""
        self._frozen.pop(name, None)
        return self._tables[name]

    def _looked(self, event: ev.Looked) -> None:
        looks, key = self._dirty("looks"), LookKey(event.host, event.source)
        if event.since_mono_ns is None:
            looks.pop(key, None)
            return
        ago_ns = max(0, event.mono_ns - event.since_mono_ns)
        looks[key] = Clock(event.mono_ns - ago_ns, event.wall_ns - ago_ns)

    def _claims_read(self, event: ev.ClaimsRead) -> None:
        claims = {key: claim for key, claim in (self._claims or {}).items() if key not in event.withdrawn}
        self._claims = MappingProxyType(claims | {claim.key: claim for claim in event.claims})

    # processes and threads

    def _process_seen(self, event: ev.ProcessSeen) -> None:
        known = self._tables["processes"].get(event.process.id)
        if known is not None and known.start_ticks != event.process.start_ticks:  # the pid was used again
            self._forget_threads({event.process.id})
            self._edges.ended(event.process.id)
            counters = self._dirty("counters")
            for key in [key for key in counters if ids.process_of(key.entity) == event.process.id]:
                del counters[key]
        process = event.process
        if known is not None and known.exited and known.start_ticks == process.start_ticks is not None:
            process = msgspec.structs.replace(process, exited=True, exit_status=known.exit_status)  # of before its end
        if known is not None and known.rank_by and not process.rank_by and _same_program(known, process):
            process = msgspec.structs.replace(process, rank=known.rank, rank_by=known.rank_by)
        self._dirty("processes")[process.id] = process
        self._forget_surplus(process)

    def _ranks_seen(self, event: ev.RanksSeen) -> None:
        processes = self._dirty("processes")
        for name, rank in event.ranks.items():
            known = processes.get(name)
            if known is not None:
                processes[name] = msgspec.structs.replace(known, rank=rank, rank_by=event.by)

    def _process_exited(self, event: ev.ProcessExited) -> None:
        known = self._tables["processes"].get(event.id)
        threads = self._tables["threads"]
        self._mark_exited([t.id for t in threads.values() if t.process == event.id and not t.exited], event.mono_ns)
        self._edges.ended(event.id)
        if known is not None:
            gone = msgspec.structs.replace(known, exited=True, exit_status=event.status)
            self._dirty("processes")[event.id] = gone
            self._forget_surplus(gone)

    def _forget_surplus(self, changed: Process) -> None:
        self._exited_processes.note(changed)
        if not (gone := self._exited_processes.surplus()):
            return
        for name, belongs_to in _OF_A_PROCESS.items():
            table = self._tables[name]
            if lost := [key for key, value in table.items() if belongs_to(key, value) in gone]:
                table = self._dirty(name)
                for key in lost:
                    del table[key]
        self._forget_threads(gone)
        self._ledger.forget(gone)
        self._edges.forget(gone)
        waiting = self._edges.waiting()
        for resource in self._resources.freeze():
            if ids.process_of(resource) in gone and resource not in waiting:  # one in shared memory may outlive it
                self._resources.discard(resource)

    def _forget_threads(self, processes: Collection[str]) -> None:
        for name in ("threads", "stacks", "activity", "launches", "profiles"):
            table = self._tables[name]
            if gone := [thread for thread in table if ids.process_of(thread) in processes]:
                table = self._dirty(name)
                for thread in gone:
                    del table[thread]
        for thread in [thread for thread in self._stack_layers if ids.process_of(thread) in processes]:
            del self._stack_layers[thread]
        if gone := [target for target in self._tables["devices"] if target in processes]:
            devices = self._dirty("devices")
            for target in gone:
                del devices[target]

    def _forget_thread(self, thread: str) -> None:
        for name in ("stacks", "activity", "launches", "profiles"):
            if thread in self._tables[name]:
                del self._dirty(name)[thread]
        self._stack_layers.pop(thread, None)

    def _threads_seen(self, event: ev.ThreadsSeen) -> None:
        threads = self._dirty("threads")
        activity = self._dirty("activity")
        for thread in event.threads:
            known: Thread | None = threads.get(thread.id)
            if known is not None and _is_another(known, thread):
                self._forget_thread(thread.id)
                known = None
            activity[thread.id] = activity_after(activity.get(thread.id), known, thread, event.mono_ns)
            if known is not None and not known.exited and (known.role or known.given):
                role, given = thread.role or known.role, thread.given or known.given
                threads[thread.id] = msgspec.structs.replace(thread, role=role, given=given)
            else:
                threads[thread.id] = thread

    def _thread_roles_seen(self, event: ev.ThreadRolesSeen) -> None:
        threads = self._dirty("threads")
        for name, role in event.roles.items():
            known = threads.get(name)
            if known is not None and not known.exited:
                threads[name] = msgspec.structs.replace(known, role=role)

    def _threads_exited(self, event: ev.ThreadsExited) -> None:
        self._mark_exited(event.ids, event.mono_ns)

    def _mark_exited(self, ids: Iterable[str], mono_ns: int) -> None:
        threads = self._dirty("threads")
        for thread in ids:
            known = threads.get(thread)
            if known is not None and not known.exited:
                threads[thread] = msgspec.structs.replace(known, exited=True, ended_mono_ns=mono_ns)
                self._exited.append(thread)
        while len(self._exited) > EXITED_WINDOW:
            oldest = self._exited.popleft()
            known = threads.get(oldest)
            if known is not None and known.exited:
                del threads[oldest]
                self._dirty("stacks").pop(oldest, None)
                self._dirty("profiles").pop(oldest, None)
                self._stack_layers.pop(oldest, None)
                self._dirty("activity").pop(oldest, None)
                self._dirty("launches").pop(oldest, None)

    def _stacks_seen(self, event: ev.StacksSeen) -> None:
        stacks, activity = self._dirty("stacks"), self._dirty("activity")
        for stack in event.stacks:
            layers = self._stack_layers.setdefault(stack.thread, {})
            if stack.thread in activity:
                known = layers.get(stack.layer)
                activity[stack.thread] = activity_with_stack(activity[stack.thread], known, stack)
            layers[stack.layer] = stack
            self._name_thread(stack)
            merged = layers.get("merged")
            if stack.layer != "merged" or merged is None:
                merged = merge_stacks(layers.get("python"), layers.get("native"))
            stacks[stack.thread] = merged

    def _samples_seen(self, event: ev.SamplesSeen) -> None:
        profiles = self._dirty("profiles")
        for one in (one for one in event.slices if one.kept is None):
            profiles[one.thread] = profile_after(profiles.get(one.thread, ()), one)

    def _name_thread(self, stack: Stack) -> None:
        thread = self._tables["threads"].get(stack.thread) if stack.thread_name else None
        if thread is not None and thread.given != stack.thread_name:
            self._dirty("threads")[stack.thread] = msgspec.structs.replace(thread, given=stack.thread_name)

    # tasks, resources, edges

    def _tasks_seen(self, event: ev.TasksSeen) -> None:
        tasks = self._tasks
        for task in event.tasks:
            known = tasks.get(task.id)
            merged = task if known is None else merge_task(known, task)
            if known is not None:
                self._learn_duration(known, merged)
            tasks.put(intern(task.id), merged)

    def _learn_duration(self, before: Task, after: Task) -> None:
        if before.state is not TaskState.RUNNING or after.state is not TaskState.COMPLETED or not after.kernel:
            return
        took = None
        if before.since_mono_ns is not None and after.since_mono_ns is not None:
            took = after.since_mono_ns - before.since_mono_ns
        elif before.since_wall_ns is not None and after.since_wall_ns is not None:
            took = after.since_wall_ns - before.since_wall_ns
        if took is None or took < 0:
            return
        kernels = self._dirty("kernels")
        key = (after.system, after.kernel)
        old: Durations = kernels.get(key, Durations(0, 0, 0))
        kernels[key] = Durations(old.count + 1, old.total_ns + took, max(old.longest_ns, took))

    def _resources_seen(self, event: ev.ResourcesSeen) -> None:
        if self._kernel_objects.full:
            for gone in self._kernel_objects.surplus(self._edges.waiting()):
                self._resources.discard(gone)
        for resource in event.resources:
            self._resources.put(resource.id, resource)
            self._kernel_objects.note(resource.id)

    def _edges_replaced(self, event: ev.EdgesReplaced) -> None:
        self._edges.replace(event.scope, event.edges)

    def _edges_added(self, event: ev.EdgesAdded) -> None:
        self._edges.add(event.scope, event.edges)

    def _edges_removed(self, event: ev.EdgesRemoved) -> None:
        self._edges.remove(event.scope, event.keys)

    # logs, counters, what a runtime said, what we did

    def _log_source_seen(self, event: ev.LogSourceSeen) -> None:
        self._dirty("log_sources")[event.source.id] = event.source

    def _logs_seen(self, event: ev.LogsSeen) -> None:
        self._logs.extend(event.records)
        self._log_count += len(event.records)
        self._frozen_logs = None

    def _counter_seen(self, event: ev.CounterSeen) -> None:
        counters = self._dirty("counters")
        key = CounterKey(event.entity, event.name)
        old: Counter | None = counters.get(key)
        if old is None:
            counters[key] = Counter(event.value, event.total, event.mono_ns, event.mono_ns, per_s=event.per_s)
        elif old.value != event.value:
            first_ns, changes = old.first_mono_ns, old.changes + 1
            counters[key] = Counter(event.value, event.total, first_ns, event.mono_ns, changes, event.per_s)
        elif old.total != event.total:  # it was told later how much there will be
            counters[key] = msgspec.structs.replace(old, total=event.total)

    def _diagnostic_seen(self, event: ev.DiagnosticSeen) -> None:
        self._dirty("diagnostics")[event.diagnostic.id] = event.diagnostic

    def _exception_seen(self, event: ev.ExceptionSeen) -> None:
        self._dirty("exceptions")[event.hit.id] = event.hit

    def _catchpoint_seen(self, event: ev.CatchpointSeen) -> None:
        self._dirty("catchpoints")[event.catchpoint.id] = event.catchpoint

    def _device_seen(self, event: ev.DeviceSeen) -> None:
        devices = self._dirty("devices")
        devices.pop(event.device.target, None)  # the newest comes last
        devices[event.device.target] = event.device

    def _launches_seen(self, event: ev.LaunchesSeen) -> None:
        self._dirty("launches").update((trail.thread, trail) for trail in event.trails)

    def _dump_seen(self, event: ev.DumpSeen) -> None:
        path, dumps = event.dump.path, self._dirty("dumps")
        if event.dump.replaced:
            dumps.pop(path, None)
        else:
            dumps[path] = event.dump
        previews = self._dirty("value_previews")
        for key in [key for key in previews if key[0] == path]:  # the file has changed
            del previews[key]
        self._dirty("comparisons").pop(path, None)

    def _values_seen(self, event: ev.ValuesSeen) -> None:
        previews, key = self._dirty("value_previews"), (event.preview.path, event.preview.number)
        previews.pop(key, None)  # the newest comes last
        previews[key] = event.preview
        if len(previews) > PREVIEW_WINDOW:
            del previews[next(iter(previews))]

    def _dump_compared(self, event: ev.DumpCompared) -> None:
        self._dirty("comparisons")[event.comparison.path] = event.comparison

    def _touched(self, event: ev.Touched) -> None:
        self._ledger.add(event.intrusion, self._tables["processes"])
        self._frozen_touches = None

    def _status_seen(self, event: ev.StatusSeen) -> None:
        status = event.status
        self._dirty("statuses")[StatusKey(status.source, status.target, status.code)] = status


def _same_program(before: Process, now: Process) -> bool:
    return (before.start_ticks, before.exe) == (now.start_ticks, now.exe)


def _is_another(known: Thread, thread: Thread) -> bool:
    """Return whether a thread reuses the number of an earlier one (F7)."""
    return None not in (known.start_ticks, thread.start_ticks) and known.start_ticks != thread.start_ticks
