"""Convert changed compilations to events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from livedbg.adapters.pytorch.facts import CompileFacts
from livedbg.adapters.pytorch.traces.program import Compilation, Program
from livedbg.adapters.pytorch.traces.text import (
    failure_words,
    frame_words,
    place_words,
    recompilation_words,
)
from livedbg.analysis.rules.words import duration, many
from livedbg.model import Diagnostic, Evidence, LogSource, Severity, Task, TaskState, ids
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher

OPEN: Final = "compile-open"
BREAK: Final = "compile-break"
RECOMPILED: Final = "compile-again"
FAILED: Final = "compile-failed"
LOST_WORKER: Final = "compile-worker-lost"

_TASKS: Final = 1_000  # of one process
_SHOWN: Final = 4  # phases


class Emission:
    """Publishes only changes."""

    def __init__(self) -> None:
        self._shown = Publisher("pytorch/compile", dated=False)
        self._tasks: dict[str, int] = {}

    def events(self, programs: Iterable[Program], sources: Mapping[str, LogSource], stamp: Stamp) -> Iterator[Event]:
        """Yield the changes of some programs."""
        for program in programs:
            said = {id_: source for id_ in program.sources if (source := sources.get(id_)) is not None}
            told = _Speaker(program, said).diagnostics()
            yield from self._shown.add(stamp, tasks=self._new_tasks(program), diagnostics=told)

    def _new_tasks(self, program: Program) -> Iterator[Task]:
        news, program.news = program.news, {}
        for key in news:
            one = program.compilations.get(key)
            if one is None or not one.begun_wall_ns or not program.trace:
                continue
            task = _task(program, one)
            if task.id not in self._shown.tasks:
                if self._tasks.get(program.name, 0) >= _TASKS:
                    continue
                self._tasks[program.name] = self._tasks.get(program.name, 0) + 1
            yield task


def _task_id(program: Program, key: str) -> str:
    return ids.task("torch.compile", program.name, key.replace("/", ".") or "aot")


def _task(program: Program, one: Compilation) -> Task:
    state = TaskState.FAILED if one.error else TaskState.COMPLETED
    if one.phases:  # whether it goes on, only a process can tell
        state = TaskState.RUNNING if program.process else TaskState.UNKNOWN
    attributes = {
        "phases": " > ".join(phase.name for phase in one.phases),
        "took": duration(one.took_ns) if one.took_ns else "",
        "attempt": str(one.attempt or ""),
        "error": f"{one.error}: {one.reason}" if one.error else "",
    }
    return Task(
        id=_task_id(program, one.key),
        system="pytorch",
        name=f"compile {one.key}" if one.key else "compile",
        kernel=place_words(one.place) or None,
        state=state,
        since_wall_ns=one.begun_wall_ns if one.phases else one.begun_wall_ns + one.took_ns,
        owner=f"process {program.pid}",
        attributes={name: text for name, text in attributes.items() if text},
    )


def _times(program: Program) -> str:
    """Return a sentence on the time of ended compilations, by phase."""
    took = f"{many(program.finished, 'compilation')} took {duration(program.finished_ns)}"
    phases = ", ".join(f"{name} {duration(ns)}" for name, ns in program.spent_ns.most_common(_SHOWN) if ns)
    said = f"{took}: {phases}." if phases else f"{took}."
    longest = program.longest
    if longest is None or not longest.place.function or program.finished < 2:
        return said
    return f"{said} The longest was that of {place_words(longest.place)}: {duration(longest.took_ns)}."


class _Speaker:
    def __init__(self, program: Program, sources: Mapping[str, LogSource]) -> None:
        self._program = program
        self._trace = sources.get(program.trace)
        self._source = self._trace or next(iter(sources.values()), None)

    def diagnostics(self) -> Iterator[Diagnostic]:
        program = self._program
        if program.trace or program.open is not None or program.finished:
            yield self._open()
        for place, broken in program.breaks.items():
            where = place_words(place._replace(function=broken.function))
            sentence = f"A graph broke at {where}" + (f": {broken.reason}." if broken.reason else ".")
            about = CompileFacts(place=where, reason=broken.reason, times=len(broken.keys))
            yield self._said(BREAK, f"{place.file}:{place.line}", sentence, about, broken.at_wall_ns)
        for frame, again in program.again.items():
            place_ = program.place_of(again.key or f"{frame}/0")
            sentence, where = recompilation_words(again, place_), place_words(place_)
            about = CompileFacts(place=where, times=again.times, limit=again.setting, guard=again.guard)
            yield self._said(RECOMPILED, frame, sentence, about, again.at_wall_ns)
        for key, failure in program.failures.items():
            one = Compilation(key, program.place_of(key), error=failure.error, reason=failure.reason)
            yield self._said(FAILED, key, failure_words(one), CompileFacts(error=failure.error), failure.at_wall_ns)
        for text, wall_ns in program.lost_workers.items():
            sentence = "The pool of compile workers of Inductor has ended before its work was done."
            yield self._said(LOST_WORKER, "", sentence, CompileFacts(text=text), wall_ns)

    def _open(self) -> Diagnostic:
        """Return the diagnostic of the open compilation; a rule decides whether it goes on or the log just ends."""
        program, one = self._program, self._program.open
        sentence, about = _times(program), CompileFacts(times=program.finished)
        if one is not None:
            sentence = f"{frame_words(one)} is being compiled."
            about = CompileFacts(
                frame=frame_words(one),
                phase=one.phases[-1].name,
                phases=" > ".join(phase.name for phase in one.phases),
                begun_ns=one.begun_wall_ns,
                attempt=one.attempt or 0,
                task=_task_id(program, one.key) if program.trace else "",
            )
        about = structs.replace(about, last_ns=program.last_wall_ns, traced=bool(program.trace))
        said = self._said(OPEN, "", sentence, about, one.begun_wall_ns if one is not None else None)
        return structs.replace(said, resolved=one is None)

    def _said(self, code: str, key: str, sentence: str, about: CompileFacts, at_wall_ns: int | None) -> Diagnostic:
        program = self._program
        proof = about.guard or about.phases or about.reason or about.text or sentence
        name = self._source.name if self._source is not None else "log"
        return Diagnostic(
            id="/".join(part for part in ("pytorch", code, program.name, key) if part),
            system="pytorch",
            code=code,
            severity=Severity.INFO,
            sentence=sentence,
            facts=structs.replace(
                about,
                pid=program.pid,
                rank=program.rank,
                process=program.process,
                first_ns=program.first_wall_ns or 0,
                trace=self._trace.path or "" if self._trace is not None else "",
            ),
            evidence=(Evidence(kind="log", file=name, text=proof, at_wall_ns=at_wall_ns),),
            at_wall_ns=at_wall_ns,
        )
