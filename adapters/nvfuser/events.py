"""Convert changes of a job to events: tasks, edges, failures, and diagnostics.

Diagnostics are failed groups, wrong options, versions, and current activity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from msgspec import structs

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.facts import FusionFacts
from livedbg.adapters.nvfuser.job import NOWHERE, FusionRecord, GroupRecord, Job, Mark
from livedbg.model import Diagnostic, Edge, EdgeKind, EdgeState, Evidence, ExceptionHit, Severity, Task, TaskState, ids
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher
from livedbg.text.wording import many

IdOf = Callable[[FusionRecord, GroupRecord], str]
_NOTES = 6


def diagnostics(job: Job, records: Sequence[FusionRecord], scope: str, id_of: IdOf) -> Iterator[Diagnostic]:
    """Yield the current diagnostics of a job for some fusions; `scope` is a prefix of its ids."""
    about = FusionFacts(scope=scope, script=bool(job.scripts))
    for record in records:
        for group in record.groups.values():
            if group.error is not None:
                about_it = structs.replace(about, log=_log(job, record, group.error_mark))
                yield _failed(record, group, group.error, about_it, id_of)
        for number, (failure, mark) in enumerate(record.failures, 1):
            name, sentence = f"{record.label}/error{number}", f"nvFuser threw: {failure.summary}{failure.thrown}"
            yield _said(about, name, "failed", sentence, mark, *_evidence(failure, mark), log=mark.path)
    for number, (option, words, mark) in enumerate(job.bad_options, 1):
        sentence = f"This nvFuser knows no option {option.option!r} in NVFUSER_{option.variable}, and throws."
        known: dict[str, Any] = {"option": option.option, "variable": option.variable, "available": tuple(words)}
        proof = mark.evidence(f"Parsing {option.variable} failed. Invalid option: '{option.option}'")
        yield _said(about, f"option/{number}", "bad-option", sentence, mark, proof, severity=Severity.ERROR, **known)
    if job.scripts:
        yield _versions(job, about)
    yield from _under_way(job, about, id_of)


def _said(
    about: FusionFacts,
    name: str,
    code: str,
    sentence: str,
    mark: Mark,
    *evidence: Evidence,
    severity: Severity = Severity.CRITICAL,
    entities: tuple[str, ...] = (),
    **facts: Any,
) -> Diagnostic:
    """Return a diagnostic; `name` ends its id, `mark` has its time, and `facts` differ from those in `about`."""
    return Diagnostic(
        id=f"diagnostic:{about.scope}/{name}",
        system="nvfuser",
        code=code,
        severity=severity,
        sentence=sentence,
        entities=entities,
        facts=structs.replace(about, **facts),
        evidence=evidence,
        at_wall_ns=mark.wall_ns,
    )


def _failed(record: FusionRecord, group: GroupRecord, failure: Failure, about: FusionFacts, id_of: IdOf) -> Diagnostic:
    fusion = f"fusion {record.number}" if record.number is not None else "a fusion"
    words = (group.scheduler, many(group.expressions, "expression") if group.expressions else "")
    what = ", ".join(filter(None, words))
    did = {"compile": "was not compiled", "run": "failed as it ran"}.get(record.when, "failed")
    behind = record.segmented.behind(group.number) if record.segmented is not None else set()
    who = f"Segmentation group {group.number}{f' ({what})' if what else ''} of {fusion}"
    return _said(
        about,
        f"{record.label}/g{group.number}",
        "group-failed",
        f"{who} {did}: {failure.summary}{failure.thrown}",
        group.error_mark,
        *_evidence(failure, group.error_mark),
        entities=(id_of(record, group),),
        group=group.number,
        when=record.when,
        behind=len(behind),
        dump=record.segmented is not None,
        inferred=group.inferred,
    )


def _log(job: Job, record: FusionRecord, error: Mark) -> str:
    """Return where the error, the dump and the script are: a log, or their common folder."""
    marks = [error, *([record.mark] if record.segmented is not None else []), *(mark for _, mark in job.scripts[-1:])]
    paths = {mark.path for mark in marks if mark.path}
    folders = {str(PurePath(path).parent) for path in paths}
    return error.path if len(paths) < 2 or len(folders) > 1 else folders.pop()


def _evidence(failure: Failure, mark: Mark) -> tuple[Evidence, ...]:
    lines = [failure.summary, *(note for note in failure.notes[:_NOTES] if note != failure.summary)]
    if failure.frames:
        lines.append("frame #0: " + failure.frames[0].function)
    return tuple(mark.evidence(line) for line in lines if line)


def _versions(job: Job, about: FusionFacts) -> Diagnostic:
    script, mark = job.scripts[-1]
    bindings = "nvfuser_direct" if script.generation == "nvfuser_direct" else "nvfuser (the bindings up to 2025)"
    versions = ", ".join(f"{name} {version}" for name, version in script.versions.items())
    devices = ", ".join(script.devices) or "no GPU"
    sentence = f"Bindings: {bindings}; {versions or 'no versions said'}; {devices}."
    proof = mark.evidence("the head of the reproduction script")
    return _said(about, "versions", "versions", sentence, mark, proof, severity=Severity.INFO)


def _under_way(job: Job, about: FusionFacts, id_of: IdOf) -> Iterator[Diagnostic]:
    """Yield the activity of the newest fusion."""
    if not job.fusions:
        return
    record = job.fusions[-1]
    active = [group for group in record.groups.values() if group.phase in {"compiling", "executing"}]
    failed = record.failed or bool(job.bad_options)
    doing = " and ".join(f"group {g.number} ({g.scheduler or 'scheduler not said'}) is {g.phase}" for g in active[:4])
    fusion = f"fusion {record.number}" if record.number is not None else "the fusion that was cut last"
    parts = many(len(record.groups), "group")
    newest = max((group.mark for group in active), key=lambda mark: mark.wall_ns or 0, default=NOWHERE)
    yield _said(
        about,
        "under-way",
        "under-way",
        f"Of {fusion} ({parts}), {doing or 'no group is under way'}, as the log says last.",
        newest,
        *(group.mark.evidence(group.text) for group in active[:4] if group.mark.source),
        severity=Severity.INFO if active and not failed else Severity.DEBUG,
        entities=tuple(id_of(record, group) for group in active[:4]),
        active=bool(active) and not failed,
    )


_REFUSED = 14  # schedulers whose reasons are kept for a task
_TEXT = 400


class Emitter:
    """Emits one job; `label` distinguishes it in ids."""

    def __init__(self, job: Job, label: str, writer: str = "") -> None:
        self.job = job
        self._writer = writer
        self.scope = f"nvfuser/{label}" if label else "nvfuser"
        self._label = label
        self._shown = Publisher(self.scope, dated=False)
        self._fusions: dict[str, Publisher] = {}

    def collect(self, stamp: Stamp) -> list[Event]:
        """Return the events since the last call."""
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
        told = diagnostics(self.job, records, self.scope, self.id_of)
        said = [structs.replace(one, writer=self._writer) for one in told]
        return events + self._shown.add(stamp, diagnostics=said)

    def id_of(self, record: FusionRecord, group: GroupRecord) -> str:
        """Return the id of a group's task."""
        name = f"g{group.number}" if group.number >= 0 else f"x{-group.number}"
        return ids.task("nvfuser", *([self._label] if self._label else []), record.label, name)

    def task_of(self, group: int, fusion: int | None) -> str | None:
        """Return the id of a group in a log line: that of the newest fusion that has it."""
        for record in reversed(self.job.fusions):
            if group in record.groups and record.label and (fusion is None or record.number in {fusion, None}):
                return self.id_of(record, record.groups[group])
        return None

    def _name(self) -> None:
        """Label the fusions that have no label yet (J2)."""
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
    """Return the C++ type of an error: nvFuser has one, and libraries below may throw others."""
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
