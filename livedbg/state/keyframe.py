"""Keyframes: a state as events, at the start of a recording whose older events were dropped.

Invariants:
    keyframe.B1. The fold of a state's keyframe and of further events is the state that the fold of all events gives,
        except `revision`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from msgspec import Struct

from livedbg.model import Edge, Stack
from livedbg.model import events as ev
from livedbg.model.snapshot import Snapshot

_CHUNK: Final = 1_000
"""Entities in one event: a line of a recording has a greatest length."""

Value = TypeVar("Value")


class Hidden(Struct, frozen=True):
    """State of a store that its snapshot does not have.

    Attributes:
        exited_threads: oldest first.
        exited_processes: those that exited with success, oldest first.
        layers: thread -> layer -> its newest stack.
        edges: of each scope.
    """

    exited_threads: tuple[str, ...]
    exited_processes: tuple[str, ...]
    failed_processes: tuple[str, ...]
    layers: Mapping[str, Mapping[str, Stack]]
    edges: Mapping[str, Sequence[Edge]]


def keyframe(state: Snapshot, hidden: Hidden) -> Iterator[ev.Event]:
    """Yield the events that restore a state; none for an empty state."""
    if not state.clocks:
        return
    host, (mono_ns, wall_ns) = max(state.clocks.items(), key=lambda item: item[1].wall_ns)
    at: ev.Stamp = {"host": host, "mono_ns": mono_ns, "wall_ns": wall_ns}
    yield ev.StateCleared(**at)
    for process in state.processes.values():
        yield ev.ProcessSeen(process=process, **at)
    for threads in _chunks(state.threads.values()):
        yield ev.ThreadsSeen(threads=threads, **at)
    for stacks in _chunks(_layers(state, hidden)):
        yield ev.StacksSeen(stacks=stacks, **at)
    for slices in _chunks(one for profile in state.profiles.values() for one in profile):
        yield ev.SamplesSeen(slices=slices, **at)
    for tasks in _chunks(state.tasks.values()):
        yield ev.TasksSeen(tasks=tasks, **at)
    if state.resources:
        yield ev.ResourcesSeen(resources=tuple(state.resources.values()), **at)
    for scope, of_scope in hidden.edges.items():
        for edges in _chunks(of_scope):
            yield ev.EdgesAdded(scope=scope, edges=edges, **at)
    for source in state.log_sources.values():
        yield ev.LogSourceSeen(source=source, **at)
    for records in _chunks(state.recent_logs):
        yield ev.LogsSeen(records=records, **at)
    yield from _reported(state, at)
    yield ev.Keyframe(
        clocks=dict(state.clocks),
        activity=dict(state.activity),
        counters=tuple(state.counters.items()),
        kernels=tuple((system, kernel, took) for (system, kernel), took in state.kernels.items()),
        log_count=state.log_count,
        exited_threads=hidden.exited_threads,
        exited_processes=hidden.exited_processes,
        failed_processes=hidden.failed_processes,
        forgotten_processes=state.forgotten_processes,
        older_touches=dict(state.older_touches),
        looks=tuple(state.looks.items()),
        claims=None if state.claims is None else tuple(state.claims.values()),
        **at,
    )


def _reported(state: Snapshot, at: ev.Stamp) -> Iterator[ev.Event]:
    for diagnostic in state.diagnostics.values():
        yield ev.DiagnosticSeen(diagnostic=diagnostic, **at)
    for hit in state.exceptions.values():
        yield ev.ExceptionSeen(hit=hit, **at)
    for catchpoint in state.catchpoints.values():
        yield ev.CatchpointSeen(catchpoint=catchpoint, **at)
    for device in state.devices.values():
        yield ev.DeviceSeen(device=device, **at)
    for trails in _chunks(state.launches.values()):
        yield ev.LaunchesSeen(trails=trails, **at)
    for dump in state.dumps.values():
        yield ev.DumpSeen(dump=dump, **at)
    for preview in state.value_previews.values():
        yield ev.ValuesSeen(preview=preview, **at)
    for comparison in state.comparisons.values():
        yield ev.DumpCompared(comparison=comparison, **at)
    for touch in state.intrusions:
        yield ev.Touched(intrusion=touch, **at)
    for status in state.statuses.values():
        yield ev.StatusSeen(status=status, **at)


def _layers(state: Snapshot, hidden: Hidden) -> Iterator[Stack]:
    for thread, layers in hidden.layers.items():
        whole = layers.get("merged")
        last = whole is not None and state.stacks.get(thread) == whole
        if whole is not None and not last:
            yield whole
        yield from (stack for layer, stack in layers.items() if layer != "merged")
        if whole is not None and last:
            yield whole


def _chunks(values: Iterable[Value]) -> Iterator[tuple[Value, ...]]:
    rest = iter(values)
    while chunk := tuple(islice(rest, _CHUNK)):
        yield chunk
