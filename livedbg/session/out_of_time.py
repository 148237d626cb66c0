"""Statuses and states for a session that a time limit ends before its first scan is complete."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator

from msgspec import structs

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.linux.procfs import command_line, read_stat
from livedbg.model import OUT_OF_TIME, Process, SourceHealth, SourceStatus, ids
from livedbg.model.events import Event, ProcessSeen, Stamp, StatusSeen
from livedbg.model.request import Request
from livedbg.session.adapter import Adapter
from livedbg.session.view import Update
from livedbg.text.sanitize import clean_line
from livedbg.text.secrets import mask_command

REMEDY = "--timeout SECONDS"


def unseen_targets(request: Request, known: Collection[str], stamp: Callable[[], Stamp]) -> Iterator[Event]:
    """Yield the living targets that nobody has sampled: without them, the verdict would be by logs alone."""
    for process in targets_alive(request):
        if process.id not in known:
            yield ProcessSeen(process=process, **stamp())


def targets_alive(request: Request) -> Iterator[Process]:
    """Yield the named processes that live, by one quick read of each."""
    for target in request.processes:
        try:
            stat = read_stat(target.pid)
            if stat.ends or target.start_ticks not in (None, stat.start_ticks):
                continue
            command = tuple(map(clean_line, command_line(target.pid)))
        except (OSError, ValueError, IndexError):
            continue
        yield Process(
            id=ids.process(request.host, target.pid),
            host=request.host,
            pid=target.pid,
            start_ticks=stat.start_ticks,
            command=command,
            state=stat.state,
            thread_count=stat.threads,
            named=True,
        )


def not_complete(adapter: Adapter, stamp: Callable[[], Stamp]) -> Event:
    """Return the status of an adapter that had not finished."""
    status = SourceStatus(
        source=adapter.name,
        target="",
        health=SourceHealth.DEGRADED,
        code=OUT_OF_TIME,
        sentence=f"The {adapter.title or adapter.name} source had not finished its first look when the time was over.",
        remedy=REMEDY,
    )
    return StatusSeen(status=status, **stamp())


def without_an_answer(update: Update, request: Request) -> Update:
    """Return the newest state if the session itself could not report; unknown, if it lacks a target."""
    unseen = [one for one in targets_alive(request) if one.id not in update.snapshot.processes]
    if not unseen:
        return update
    command = mask_command(unseen[0].command) if request.redact else unseen[0].command
    named = " ".join(command) or f"process {unseen[0].pid}"
    sentence = f"Out of time: nothing is known of {clean_line(named, 100)} ({unseen[0].pid}) yet, but that it lives."
    verdict = Verdict(state=VerdictState.UNKNOWN, sentence=sentence)
    return structs.replace(update, diagnosis=dataclasses.replace(update.diagnosis, verdict=verdict))
