"""Makes events of a job: tasks, edges, failures; only for what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from livedbg.adapters.nvfuser.diagnostics import diagnostics
from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.job import Job
from livedbg.adapters.nvfuser.records import FusionRecord, GroupRecord
from livedbg.model import Edge, EdgeKind, EdgeState, ExceptionHit, Task, TaskState, ids
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher
from livedbg.text.wording import many

__all__ = ["Emitter"]

_REFUSED = 14  # schedulers whose reasons are kept for a task
_TEXT = 400


class Emitter:
    """Emits one job.

    Args:
        job: the job.
        label: what distinguishes it in identifiers, or "".
    """

    def __init__(self, job: Job, label: str) -> None:
        self.job = job
        self.scope = f"nvfuser/{label}" if label else "nvfuser"
        self._label = label
        self._shown = Publisher(self.scope, dated=False)
        self._fusions: dict[str, Publisher] = {}

    def collect(self, stamp: Stamp) -> list[Event]:
        """The events that follow from what the job took since the last call."""
        if not self.job.changed:
            return []
        self.job.changed = False
        self._name()
        records = [record for record in self.job.fusions if record.changed]
        events: list[Event] = []
        for record in records:
            record.changed = False
            tasks = [self._task(record, group) for group in record.groups.values()]
            fusion = self._fusions.setdefault(record.label, Publisher(f"{self.scope}/{record.label}", dated=False))
            fusion.edges.replace(self._edges_of(record))
            events += fusion.add(stamp, tasks=tasks, exceptions=self._exceptions(record))
        said = diagnostics(self.job, records, self.scope, self.id_of)
        return events + self._shown.add(stamp, diagnostics=said)

    def id_of(self, record: FusionRecord, group: GroupRecord) -> str:
        """The identifier of a group's task."""
        name = f"g{group.number}" if group.number >= 0 else f"x{-group.number}"
        return ids.task("nvfuser", *([self._label] if self._label else []), record.label, name)

    def task_of(self, group: int, fusion: int | None) -> str | None:
        """The identifier of a group that a line speaks of: of the newest fusion that has it."""
        for record in reversed(self.job.fusions):
            if group in record.groups and record.label and (fusion is None or record.number in {fusion, None}):
                return self.id_of(record, record.groups[group])
        return None

    def _name(self) -> None:
        """Give labels to the fusions that have none yet (J2)."""
        taken = {record.label for record in self.job.fusions}
        for record in self.job.fusions:
            if record.label:
                continue
            label = f"s{record.ordinal}" if record.number is None else f"f{record.number}"
            if label in taken and record.number is not None:
                label += f"c{record.concrete}r{record.runtime}"
            base, number = label, 1
            while label in taken:
                number += 1
                label = f"{base}.{number}"
            record.label = label
            taken.add(label)

    def _task(self, record: FusionRecord, group: GroupRecord) -> Task:
        attributes = _attributes(group)
        attributes["fusion"] = "not said" if record.number is None else str(record.number)
        if record.uncut:
            attributes["fusion was cut because"] = "; ".join(f"{who}: {why}" for who, why in record.uncut[:_REFUSED])
        since = group.mark.wall_ns if group.state in {TaskState.RUNNING, TaskState.FAILED} else None
        return Task(
            id=self.id_of(record, group),
            system="nvfuser",
            name=f"g{group.number}" if group.number >= 0 else "g?",
            kernel=" ".join(word for word in (group.scheduler, group.kernel) if word) or None,
            state=group.state,
            since_wall_ns=since,
            fanin_total=self._needs(record, group, None),
            fanin_left=self._needs(record, group, TaskState.COMPLETED),
            owner=f"fusion {record.number}" if record.number is not None else "a fusion",
            attributes=attributes,
        )

    @staticmethod
    def _needs(record: FusionRecord, group: GroupRecord, but: TaskState | None) -> int | None:
        if record.segmented is None:
            return None
        needed = {edge.producer for edge in record.segmented.edges if edge.consumer == group.number}
        return sum(1 for number in needed if record.groups[number].state is not but)

    def _edges_of(self, record: FusionRecord) -> Iterator[Edge]:
        if record.segmented is None:
            return
        seen: set[tuple[int, int]] = set()
        for edge in record.segmented.edges:
            if edge[:2] in seen:
                continue
            seen.add((edge.producer, edge.consumer))
            producer, consumer = record.groups[edge.producer], record.groups[edge.consumer]
            done = producer.state is TaskState.COMPLETED or consumer.phase in {"executing", "executed"}
            tensor = f" T{edge.tensor}" if edge.tensor is not None else " its output"
            yield Edge(
                kind=EdgeKind.DEPENDS_ON,
                source=self.id_of(record, consumer),
                target=self.id_of(record, producer),
                state=EdgeState.SATISFIED if done else EdgeState.PENDING,
                evidence=f"{record.mark.source}: group {consumer.number} reads{tensor} of group {producer.number}",
            )

    def _exceptions(self, record: FusionRecord) -> Iterator[ExceptionHit]:
        errors = [(g.error, g.error_mark, f"group {g.number}: ") for g in record.groups.values() if g.error is not None]
        errors += [(failure, mark, "") for failure, mark in record.failures]
        for failure, mark, lead in errors:
            parts = "\n".join((self.scope, record.label, lead, failure.message, mark.source))
            yield ExceptionHit(
                id=f"exception:nvfuser/{hashlib.blake2b(parts.encode(), digest_size=6).hexdigest()}",
                type=type_of(failure),
                message=lead + failure.message[:4096],
                stack=tuple(failure.frames),
                at_wall_ns=mark.wall_ns,
                catchpoint="nvfuser's error text",
                partial=not failure.complete,
            )


def type_of(failure: Failure) -> str:
    """The C++ type of an error: nvFuser has one, and what its groups run may throw others."""
    if failure.ours:
        return "nvfuser::nvfError"
    return "c10::Error" if "pytorch" in failure.file or "aten/" in failure.file else failure.exception or "unknown"


def _attributes(group: GroupRecord) -> dict[str, str]:
    found = {"phase": group.phase or "cut", "inferred": group.inferred}
    found.update(group.about)
    if group.launch is not None:
        found["block"] = " x ".join(map(str, group.launch.block))
        found["grid"] = " x ".join(map(str, group.launch.grid))
        found["shared memory"] = many(group.launch.shared_bytes, "byte")
    if group.arguments is not None:
        found["arguments"] = "; ".join(group.arguments.inputs)[: 2 * _TEXT]
    if group.runs:
        found["launches"] = str(group.runs)
    for scheduler, why in group.refused[:_REFUSED]:
        found[f"refused by {scheduler}"] = why[:_TEXT]
    if group.error is not None:
        found["error"] = group.error.summary[: 2 * _TEXT]
        found["thrown at"] = group.error.place
    if group.mark.source:
        found["evidence"], found["evidence_text"] = group.mark.source, group.text[:_TEXT]
    return found
