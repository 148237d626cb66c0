"""Diagnostics of an nvFuser job: failed groups, wrong options, versions, what is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from msgspec import structs

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.facts import FusionFacts
from livedbg.adapters.nvfuser.job import Job
from livedbg.adapters.nvfuser.records import FusionRecord, GroupRecord, Mark
from livedbg.model import Diagnostic, Evidence, Severity
from livedbg.text.wording import many

__all__ = ["diagnostics"]

IdOf = Callable[[FusionRecord, GroupRecord], str]
_NOTES = 6


def diagnostics(job: Job, records: Sequence[FusionRecord], scope: str, id_of: IdOf) -> Iterator[Diagnostic]:
    """What a job says now.

    Args:
        job: the job.
        records: those of its fusions that are to be spoken of.
        scope: what its identifiers begin with.
        id_of: the identifier of a group's task.
    """
    about = FusionFacts(scope=scope, script=bool(job.scripts))
    for record in records:
        for group in record.groups.values():
            if group.error is not None:
                about_it = structs.replace(about, log=_log(job, record, group.error_mark))
                yield _failed(record, group, group.error, about_it, id_of)
        for number, (failure, mark) in enumerate(record.failures, 1):
            yield _nameless(record, failure, mark, number, about)
    for number, (option, words, mark) in enumerate(job.bad_options, 1):
        yield Diagnostic(
            id=f"diagnostic:{scope}/option/{number}",
            system="nvfuser",
            code="bad-option",
            severity=Severity.ERROR,
            sentence=f"This nvFuser knows no option {option.option!r} in NVFUSER_{option.variable}, and throws.",
            facts=structs.replace(about, option=option.option, variable=option.variable, available=tuple(words)),
            evidence=(mark.evidence(f"Parsing {option.variable} failed. Invalid option: '{option.option}'"),),
            at_wall_ns=mark.wall_ns,
        )
    if job.scripts:
        yield _versions(job, about)
    yield from _under_way(job, about, id_of)


def _failed(record: FusionRecord, group: GroupRecord, failure: Failure, about: FusionFacts, id_of: IdOf) -> Diagnostic:
    fusion = f"fusion {record.number}" if record.number is not None else "a fusion"
    expressions = group.expressions
    what = ", ".join(
        word
        for word in (
            group.scheduler,
            many(expressions, "expression") if expressions else "",
        )
        if word
    )
    did = {"compile": "was not compiled", "run": "failed as it ran"}.get(record.when, "failed")
    behind = record.segmented.behind(group.number) if record.segmented is not None else set()
    return Diagnostic(
        id=f"diagnostic:{about.scope}/{record.label}/g{group.number}",
        system="nvfuser",
        code="group-failed",
        severity=Severity.CRITICAL,
        sentence=f"Segmentation group {group.number}{f' ({what})' if what else ''} of {fusion} {did}: "
        f"{failure.summary}{failure.thrown}",
        entities=(id_of(record, group),),
        facts=structs.replace(
            about,
            group=group.number,
            when=record.when,
            behind=len(behind),
            dump=record.segmented is not None,
            inferred=group.inferred,
        ),
        evidence=_evidence(failure, group.error_mark),
        at_wall_ns=group.error_mark.wall_ns,
    )


def _log(job: Job, record: FusionRecord, error: Mark) -> str:
    """Where the error, the dump and the script are: a log, or the folder of several."""
    marks = [error, *([record.mark] if record.segmented is not None else []), *(mark for _, mark in job.scripts[-1:])]
    paths = {mark.path for mark in marks if mark.path}
    folders = {str(PurePath(path).parent) for path in paths}
    return error.path if len(paths) < 2 or len(folders) > 1 else folders.pop()


def _nameless(record: FusionRecord, failure: Failure, mark: Mark, number: int, about: FusionFacts) -> Diagnostic:
    return Diagnostic(
        id=f"diagnostic:{about.scope}/{record.label}/error{number}",
        system="nvfuser",
        code="failed",
        severity=Severity.CRITICAL,
        sentence=f"nvFuser threw: {failure.summary}{failure.thrown}",
        facts=structs.replace(about, log=mark.path),
        evidence=_evidence(failure, mark),
        at_wall_ns=mark.wall_ns,
    )


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
    return Diagnostic(
        id=f"diagnostic:{about.scope}/versions",
        system="nvfuser",
        code="versions",
        severity=Severity.INFO,
        sentence=f"Bindings: {bindings}; {versions or 'no versions said'}; {devices}.",
        facts=about,
        evidence=(mark.evidence("the head of the reproduction script"),),
        at_wall_ns=mark.wall_ns,
    )


def _under_way(job: Job, about: FusionFacts, id_of: IdOf) -> Iterator[Diagnostic]:
    """The newest fusion: what it is at."""
    if not job.fusions:
        return
    record = job.fusions[-1]
    active = [group for group in record.groups.values() if group.phase in {"compiling", "executing"}]
    failed = record.failed or bool(job.bad_options)
    doing = " and ".join(f"group {g.number} ({g.scheduler or 'scheduler not said'}) is {g.phase}" for g in active[:4])
    fusion = f"fusion {record.number}" if record.number is not None else "the fusion that was cut last"
    parts = many(len(record.groups), "group")
    yield Diagnostic(
        id=f"diagnostic:{about.scope}/under-way",
        system="nvfuser",
        code="under-way",
        severity=Severity.INFO if active and not failed else Severity.DEBUG,
        sentence=f"Of {fusion} ({parts}), {doing or 'no group is under way'}, as the log says last.",
        entities=tuple(id_of(record, group) for group in active[:4]),
        facts=structs.replace(about, active=bool(active) and not failed),
        evidence=tuple(group.mark.evidence(group.text) for group in active[:4] if group.mark.source),
        at_wall_ns=max((group.mark.wall_ns or 0 for group in active), default=0) or None,
    )
