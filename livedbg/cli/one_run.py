"""Performs one run of `livedbg launch --repeat`: starts it, watches and records it, and explains its end."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final

from livedbg.cli.job import Job, Order, job_of
from livedbg.commands.signals import started
from livedbg.model import ExceptionHit, Stack
from livedbg.model.snapshot import Snapshot
from livedbg.recording.recorder import Recorder
from livedbg.repeats.marking import Ran, marked
from livedbg.repeats.outcome import How, RunEnd, end_cause, frames_shown, how_ended, stack_of
from livedbg.repeats.pool import visible
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.launch import Launched
from livedbg.session.live import LiveView
from livedbg.text.sanitize import clean_line

_LOOK_S: Final = 0.1
_AFTER_S: Final = 30.0  # at most, until what was caught is in the state
_QUIET_S: Final = 0.5  # if nothing is caught
_LOGS_S: Final = 60.0  # at most, until its output was read


def run_once(order: Order, number: int, device: str, stop: threading.Event) -> Ran:
    """Run the command once.

    Args:
        device: the one device that it may use; "": all.

    Raises:
        UsageError: it can't be started.
        SourceError: its output can't be kept.
    """
    folder = order.folder / f"run-{number:03}"
    folder.mkdir(mode=0o700)
    notes: list[str] = []
    around = {} if "PYTHONUNBUFFERED" in os.environ else {"PYTHONUNBUFFERED": "1"}  # a crash must not lose markers
    around |= visible(device, os.environ)
    job = job_of(order, notes.append, folder, around)
    child = job.begin()
    try:
        recording = folder / "recording.livedbg"
        recorder = Recorder(recording, host_name(), f"run {number}: {' '.join(order.words)}")
        try:
            snapshot, verdict, cause, seconds = _watched(job, child, recorder, order, stop)
        finally:
            recorder.close()
    except BaseException:
        _end(child, order)
        raise
    job.watch.finish(child)
    how, sign = (cause, "") if cause is not None else how_ended(child.exit_code or 0)
    caught = tuple(hit for hit in snapshot.exceptions.values() if hit.stack or hit.message)
    printed = () if how in ("hung", "cut") else _printed(child, redact=order.redact)
    why = end_cause(how, caught, printed)
    end = RunEnd(
        run=number,
        device=device,
        how=how,
        code=child.exit_code if cause is None else None,
        signal=sign,
        seconds=round(seconds, 3),
        exception=clean_line(why.what.type, 200) if why.what is not None else "",
        message=clean_line(why.what.message, 300) if why.what is not None else "",
        reported=why.reported,
        stack=stack_of(_stacks(snapshot)) if how == "hung" else frames_shown(why.where.stack) if why.where else (),
        verdict=verdict if how == "hung" else "",
        folder=str(folder),
        recording=str(recording),
        notes=tuple(dict.fromkeys(clean_line(note) for note in (*notes, why.note) if note)),
    )
    return next(iter(marked([Ran(end, (*map(Path, job.plan.logs), child.stdout, child.stderr))])))


def _watched(
    job: Job, child: Launched, recorder: Recorder, order: Order, stop: threading.Event
) -> tuple[Snapshot, str, How | None, float]:
    """Return the last state, the verdict, why livedbg killed it (None if it ended by itself), and its duration."""
    began_s = time.monotonic()
    view = LiveView(job.request(child), sink=recorder)
    recorder.keyframe = view.keyframe
    job.arm(view, child)
    limit = None if order.timeout_s is None else time.monotonic() + order.timeout_s
    cause: How | None = None
    with started(view):
        while child.wait(_LOOK_S) is None:
            if stop.is_set():
                cause = "cut"
            elif limit is not None and time.monotonic() >= limit:
                cause = "hung"
            if cause is not None:
                break
        seconds = time.monotonic() - began_s
        update = view.latest().so_far()  # of a run that hangs: as it hung
        if cause is not None:
            _end(child, order)
        else:
            view.wait_ended(_AFTER_S if job.catches else _QUIET_S)
            update = view.latest()
    _end(child, order)  # and processes that it left behind
    return update.snapshot, update.diagnosis.verdict.sentence, cause, seconds


def _end(child: Launched, order: Order) -> None:
    if order.left.is_set():
        child.go()  # also where nothing was armed yet
    else:
        child.end()


def _printed(child: Launched, *, redact: bool) -> tuple[ExceptionHit, ...]:
    """Return the exceptions in the run's output: the session of the run may miss the last lines."""
    request = Request(
        host=host_name(), logs=(str(child.stdout), str(child.stderr)), once=True, read_only=True, redact=redact
    )
    with started(LiveView(request)) as view:
        view.wait_settled(_LOGS_S)
        return tuple(view.latest().snapshot.exceptions.values())


def _stacks(snapshot: Snapshot) -> tuple[Stack, ...]:
    def weight(stack: Stack) -> tuple[bool, str]:
        thread = snapshot.threads.get(stack.thread)
        return thread is None or not thread.process.endswith(f"/{thread.tid}"), stack.thread

    return tuple(sorted(snapshot.stacks.values(), key=weight))
