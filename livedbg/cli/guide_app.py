"""A guide in the terminal app: each step is the app on a run of CMD, and a key asks for the next."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import click

from livedbg.app.options import LEFT_RUNNING, NEXT_STEP, AppOptions
from livedbg.cli.guide_steps import Course, StepOrder, found_of, found_so_far, job_for, with_stacks
from livedbg.cli.job import Job, LastWill
from livedbg.session.guide import StepFound
from livedbg.session.hostinfo import host_name
from livedbg.session.launch import Launched
from livedbg.session.live import LiveView
from livedbg.text.sanitize import clean_line
from livedbg.text.secrets import mask_command

_LOOK_S: Final = 0.2
_ENOUGH: Final = "The cause is found: the other steps would add nothing."
_LAST: Final = "This is the last step: Esc closes this sheet, then q quits."


def in_app(course: Course, first: int, screen: AppOptions) -> int:
    """Follow a guide in the terminal app from step `first` on; return the app's exit code or the last run's."""
    before: tuple[tuple[str, str], ...] = ()
    for number in range(first, len(course.steps) + 1):
        order = course.order(number)
        code, ended, found = _step(course, order, screen, before)
        with contextlib.suppress(OSError):  # the terminal is gone
            for label, sentence in (("step", f"{number}: {order.step.title}"), *found.lines):
                click.echo(f"{clean_line(label, 20):9}  {clean_line(sentence, 1000)}")
        if code != NEXT_STEP:
            return (code if code != LEFT_RUNNING else 0) or ended or 0
        before += tuple((f"step {number}", sentence) for label, sentence in found.lines if label in ("found", "kernel"))
    return 0


def _step(
    course: Course, order: StepOrder, screen: AppOptions, before: Sequence[tuple[str, str]]
) -> tuple[int, int | None, StepFound]:
    """Run a step; return the app's code, CMD's, and the findings. CMD ends with the step, unless left running."""
    held: list[str] = []
    job = job_for(course, order, held.append)
    end = LastWill(leaves=False, watch=job.watch)
    with end:
        child = end.child = job.start()
        command = " ".join(mask_command(course.argv) if job.redact else course.argv)
        view = LiveView(job.request(child), title=f"{_keys(course, order)}  {host_name()}:{child.pid} {command}")
        job.arm(view, child)
        following = _Following(course, order, job, child, view, before)
        code = end.in_app(view, job, replace(screen, guide=following), NEXT_STEP)
        ended = child.exit_code
        if not end.leaves:
            child.end()
        following.stop()
    if end.leaves:
        with contextlib.suppress(OSError):
            click.echo(f"livedbg: {clean_line(job.argv[0])} goes on: livedbg attach {child.pid}", err=True)
    snapshot = view.latest().snapshot
    return code, ended, following.final or found_of(course, order, job, child, snapshot, ended)


def _keys(course: Course, order: StepOrder) -> str:
    """Return the step and its keys for the title, where they stay in sight: a notice goes after seconds."""
    following = " ^n next" if order.number < len(course.steps) else ""
    return f"{order.number}/{len(course.steps)} ^g found{following}"


class _Following:
    """Reads the findings of a step at the end of its run, and on request, on a thread of its own."""

    def __init__(
        self,
        course: Course,
        order: StepOrder,
        job: Job,
        child: Launched,
        view: LiveView,
        before: Sequence[tuple[str, str]],
    ) -> None:
        steps = course.steps
        self.title = f"Step {order.number} of {len(steps)}: {order.step.title}"
        self.following = f"step {order.number + 1}, {steps[order.number].title}" if order.number < len(steps) else ""
        self.ending = _LAST
        self.final: StepFound | None = None
        self._read = (course, order, job, child)
        self._view = view
        self._before = before
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._lines: Sequence[tuple[str, str]] | None = None
        self._thread = threading.Thread(target=self._follow, name="livedbg-guide", daemon=True)
        self._thread.start()

    def look(self) -> None:
        self._asked.set()

    def found(self) -> Sequence[tuple[str, str]] | None:
        """Return the findings that were read, once; else None."""
        lines, self._lines = self._lines, None
        return lines

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _note(self, found: StepFound) -> None:
        """Offer no further step if it lacks what only the user can give, or if the cause is found."""
        if found.cause and self.following and _ENOUGH not in self.following:
            self.following = f"{self.following}. {_ENOUGH}"
        if found.lacks and self.following:
            given = " ".join(f"--{name} {value}" for name, value in found.lacks.items())
            self.ending = f"The next steps need {given}: Esc closes this sheet, then q quits; start again with it."
            self.following = ""

    def _follow(self) -> None:
        *_, child = self._read
        ended = False
        while not self._stopped.wait(_LOOK_S):
            if not ended and child.exit_code is not None:
                ended = True
                self.final = found_of(*self._read, self._view.latest().snapshot, child.exit_code)
                self._lines = (*self.final.lines, *self._before)
                self._note(self.final)
            elif self._asked.is_set():
                self._asked.clear()
                found = self.final or found_so_far(*self._read, with_stacks(self._view))
                self._lines = (*found.lines, *self._before)
                self._note(found)
