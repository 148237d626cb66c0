"""Prints catchpoint hits and new findings, as text or as one JSON object per line."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import click
from msgspec import structs

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.analysis.place_names import repeated_frames
from livedbg.analysis.postmortem.exceptions import fault_of, unseen_faults
from livedbg.commands.output import is_unread, warn
from livedbg.model import ExceptionHit, Frame
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.model.snapshot import Snapshot
from livedbg.report.build import exception_out, finding_line, verdict_line
from livedbg.session.view import Update
from livedbg.text.json_text import json_line
from livedbg.text.quantities import clock, milliseconds
from livedbg.text.wording import many


def frame_text(frame: Frame) -> str:
    """Return a frame in one line."""
    inside = frame.file or frame.module
    where = f" at {frame.file}:{frame.line}" if frame.file and frame.line else f" in {inside}" if inside else ""
    sign = "py " if frame.language == "python" else "   "
    values = f"  [{', '.join(frame.local_variables)}]" if frame.local_variables else ""
    return f"{sign}{frame.function}{where}{values}"


_DOES = {"registers": "traces (debug registers)", "gdb": "stops threads of"}


class HitPrinter:
    """Prints news of a state: catchpoints to standard error, hits to standard output.

    Args:
        as_json: one JSON object a hit.
        error: hits to standard error too, and catchpoints that failed.
        caught_only: only hits of catchpoints, not those found in logs.
    """

    def __init__(self, as_json: bool, *, error: bool = False, caught_only: bool = False) -> None:
        self._as_json = as_json
        self._error = error
        self._caught_only = caught_only
        self._counts: dict[str, int] = {}
        self._armed: set[str] = set()
        self._failed: set[str] = set()
        self._stopped: set[str] = set()
        self._paused_ms: dict[str, float] = {}

    def show(self, snapshot: Snapshot) -> None:
        for point in snapshot.catchpoints.values():
            if point.state is CatchpointState.ARMED and point.id not in self._armed:
                self._armed.add(point.id)
                pid = point.process.rpartition("/")[2]
                does = _DOES.get(point.engine, "traces")
                warn(f"{point.id} {does} process {pid}: {point.note}")
            if point.state is CatchpointState.FAILED and point.id not in self._failed:
                self._failed.add(point.id)
                if self._error:  # else the command ends with it
                    warn(f"{point.pattern} is not caught: {point.note}", point.remedy)
            if point.stopped_thread and point.stopped_thread not in self._stopped:
                left_s = max(0.0, ((point.until_wall_ns or 0) - time.time_ns()) / 1e9)
                why = f" {point.until_why}" if point.until_why else ""
                warn(f"the thread is stopped for {left_s:.0f} s at most. Enter resumes it.{why}")
            self._stopped = {other.stopped_thread for other in snapshot.catchpoints.values() if other.stopped_thread}
        for hit in snapshot.exceptions.values():
            if self._caught_only and hit.catchpoint not in snapshot.catchpoints:
                continue
            before = self._counts.get(hit.id, 0)
            if hit.count > before:
                self._counts[hit.id] = hit.count
                for line in self._lines(hit, before, snapshot):
                    click.echo(line, err=self._error)
            if hit.paused_ms > self._paused_ms.get(hit.id, 0.0):
                paused_ms = hit.paused_ms - self._paused_ms.get(hit.id, 0.0)
                self._paused_ms[hit.id] = hit.paused_ms
                paused = milliseconds(paused_ms * 1e6)
                warn(f"thread {_thread(hit, snapshot)} was stopped for {paused} and is resumed.")

    def show_faults(self, snapshot: Snapshot) -> None:
        """Print the signals that ended processes, where they were caught unasked."""
        for process in (*snapshot.processes.values(), *unseen_faults(snapshot)):
            hit = fault_of(process, snapshot) if process.exited and (process.exit_status or 0) < 0 else None
            for line in self._lines(hit, 0, snapshot) if hit is not None else ():
                click.echo(line, err=self._error)

    def _lines(self, hit: ExceptionHit, before: int, snapshot: Snapshot) -> Iterator[str]:
        if self._as_json:
            yield json_line(exception_out(hit))
            return
        where = f"thread {_thread(hit, snapshot)}{_job(hit)}" if hit.thread else f"in a log{_job(hit)}"
        stamp = clock(hit.at_wall_ns)
        text = f"{hit.type}: {hit.message}" if hit.message else hit.type
        if before:
            yield f"{stamp} {where}: {hit.count} times so far: {text.partition(chr(10))[0]}"
            return
        again = f" ({hit.count} times)" if hit.count > 1 else ""
        yield f"{stamp} {where}: {text}{again}"
        run = repeated_frames(hit.stack)
        repeats = range(run.start + run.period, run.start + run.period * run.times) if run is not None else range(0)
        for number, frame in enumerate(hit.stack):
            if run is not None and number in repeats:
                if number == repeats.start:
                    yield f"    … {many(len(repeats), 'frame')}: the same again and again"
                continue
            yield f"    #{number:<3}{frame_text(structs.replace(frame, local_variables=()))}"
            for text in frame.local_variables:
                yield f"          {text}"
            for line, text in enumerate(frame.source, frame.source_from):
                yield f"        {'>' if line == frame.line else ' '} {line:5} {text}".rstrip()
        if hit.partial:
            yield "    (incomplete stack)" if hit.stack else "    (no stack)"

    def sum_up(self, snapshot: Snapshot) -> None:
        """Print the totals at the end."""
        for point in snapshot.catchpoints.values():
            if point.state is not CatchpointState.FAILED:
                warn(_summary(point))


def _thread(hit: ExceptionHit, snapshot: Snapshot) -> str:
    thread = snapshot.threads.get(hit.thread or "")
    return f"{thread.tid} {thread.name}" if thread is not None else (hit.thread or "").rpartition("/")[2]


def _job(hit: ExceptionHit) -> str:
    """Return ` (rank 1, in all_reduce #5 of group 0)`."""
    parts = [f"rank {hit.rank}"] if hit.rank is not None else []
    parts += [f"in {hit.operation}"] if hit.operation else []
    return f" ({', '.join(parts)})" if parts else ""


def _summary(point: Catchpoint) -> str:
    why = "missed while another thread was stopped" if point.engine == "gdb" else "lost (ring buffer full)"
    lost = f", {point.lost:,} {why}" if point.lost else ""
    ending = f" The process {point.ending}." if point.ending else ""
    return f"{point.id} {point.pattern}: {point.hits:,} of {point.seen:,} matched{lost}.{ending}"


_HOLDS_S: Final = 3.0
_PLACES_COME_S: Final = 4.0  # for which a verdict waits for new stacks
_BAD: Final = frozenset((VerdictState.CRASHED, VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.DIVERGED))


class FindingsPrinter:
    """Prints each finding once, and the verdict when it changes; one sentence where both say the same.

    A verdict of a hang or a crash is printed at once, also when others are stuck than before, and so is the first one
    unless it is `unknown`. Another one is printed when it has held for `_HOLDS_S`: which threads of a healthy job wait
    changes all the time. Once all processes have ended, nothing is printed for as long, unless the session ends: their
    last output is read meanwhile.

    Args:
        error: to standard error instead of standard output.
        profiled: a profile is taken beside, which answers at the end what would tell more than `unknown`.
    """

    def __init__(self, as_json: bool, *, error: bool = False, profiled: bool = False) -> None:
        self._as_json = as_json
        self._profiled = profiled
        self._file = sys.stderr if error else sys.stdout
        self._said: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._sentences: set[tuple[str, str]] = set()
        self._verdict: tuple[str, frozenset[str]] | None = None
        self._next: tuple[str, frozenset[str]] | None = None
        self._next_ns = 0
        self._over_ns = 0
        self._unplaced_ns = 0
        self._begins = True
        self._looked_last = False
        self._told = ""

    def show(self, update: Update, *, last: bool = False) -> None:
        """Print the news of an update; `last`: nothing is printed after it."""
        for line in self.lines(update, last=last):
            print(line, file=self._file, flush=True)

    def check(self) -> None:
        """Check that somebody reads the output; the next line may come in hours.

        Raises:
            BrokenPipeError: nobody does.
        """
        if is_unread(self._file):
            raise BrokenPipeError

    def lines(self, update: Update, *, last: bool = False) -> Iterator[str]:
        """Yield lines on the news."""
        verdict = update.diagnosis.verdict
        at_ns = update.snapshot.now().wall_ns
        if self._awaits_last_words(update) and not last:
            return
        if self._looked_last and not update.diagnosis.is_looking:
            self._verdict = None  # what was said was that it looks
        if not last and self._awaits_places(update):
            return
        begins = self._begins and not update.diagnosis.is_looking and verdict.state is VerdictState.UNKNOWN
        if self._changes(verdict, update.snapshot.now().mono_ns, last or update.ended, begins):
            self._begins, self._told = False, verdict.sentence
            yield self._verdict_line(verdict, update.diagnosis.findings.get(verdict.chief), at_ns)
        self._looked_last = update.diagnosis.is_looking
        alike: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for name, finding in update.diagnosis.findings.items():
            key = (finding.rule, finding.entities)
            alike[key] += 1  # several of one process: recompilations of different functions
            if alike[key] > self._said[key]:
                self._said[key] = alike[key]
                again = (finding.rule, finding.sentence) in self._sentences  # its process is known by now
                self._sentences.add((finding.rule, finding.sentence))
                if not again and (self._as_json or finding.sentence != self._told):
                    yield self._finding_line(name, finding, at_ns)

    def _awaits_places(self, update: Update) -> bool:
        """Return whether the verdict has only just come, and the places that it names are still to come."""
        chief = update.diagnosis.chief
        if update.ended or chief is None or not chief.places_come:
            self._unplaced_ns = 0
            return False
        now_ns = update.snapshot.now().mono_ns
        self._unplaced_ns = self._unplaced_ns or now_ns
        return now_ns - self._unplaced_ns < _PLACES_COME_S * 1e9

    def _awaits_last_words(self, update: Update) -> bool:
        """Return whether all processes have ended just now, so that their last output and stack are still to come."""
        processes = update.snapshot.processes.values()
        if update.ended or not processes or any(process.target and not process.exited for process in processes):
            self._over_ns = 0
            return False
        now_ns = update.snapshot.now().mono_ns
        self._over_ns = self._over_ns or now_ns
        return now_ns - self._over_ns < _HOLDS_S * 1e9

    def _changes(self, verdict: Verdict, mono_ns: int, last: bool, begins: bool) -> bool:
        """Return whether the verdict is to be printed; `begins`: nothing is known yet of what has just been started."""
        bad = verdict.state in _BAD
        if self._profiled and verdict.state is VerdictState.UNKNOWN and not last:
            return False
        now = (verdict.state.value, frozenset(verdict.roots) if bad else frozenset())
        if now == self._verdict:
            self._next = None
            return False
        if now != self._next:
            self._next, self._next_ns = now, mono_ns
        if (self._verdict is not None or begins) and not bad and not last and mono_ns - self._next_ns < _HOLDS_S * 1e9:
            return False
        self._verdict, self._next = now, None
        return True

    def _verdict_line(self, verdict: Verdict, chief: Finding | None, at_ns: int) -> str:
        if self._as_json:
            return json_line(verdict_line(verdict, at_ns))
        rule = f" [{chief.rule}]" if chief is not None and chief.sentence == verdict.sentence else ""
        return f"{clock(at_ns)} {verdict.state.value.upper():<8} {verdict.sentence}{rule}"

    def _finding_line(self, name: str, finding: Finding, at_ns: int) -> str:
        if self._as_json:
            return json_line(finding_line(name, finding, at_ns))
        return f"{clock(at_ns)} {finding.severity.value:<8} {finding.sentence} [{finding.rule}]"
