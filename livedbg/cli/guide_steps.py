"""One step of a guide: the launch of CMD, its run, and the findings; without a screen, or in the terminal app.

In the app each step is the app on a run of CMD, and a key asks for the next.

Invariants:
    guide_steps.G1. A step that needs what nobody found takes its other recipes, or is refused: none runs with a gap.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from livedbg.analysis.diagnosis import VerdictState
from livedbg.app.options import LEFT_RUNNING, NEXT_STEP, AppOptions
from livedbg.cli.job import Job, LastWill, Order, job_of, picked_recipes
from livedbg.commands.output import warn
from livedbg.commands.signals import started
from livedbg.model import SAMPLED, ThreadState
from livedbg.model.errors import UsageError
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.probes.tracefs import may_trace
from livedbg.recipes import Ended
from livedbg.session.guide import GuideStep, StepAsk, StepFound, StepRun
from livedbg.session.hostinfo import host_name
from livedbg.session.launch import Launched, launch_folder
from livedbg.session.live import LiveView
from livedbg.session.systems import Guide
from livedbg.session.view import Update
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.secrets import mask_command
from livedbg.text.shell import shell_word
from livedbg.touch.config import ban_of

_LOOK_S: Final = 0.1
_STACKS_S: Final = 20.0  # at most, until stacks are taken
_OWN_LIMITS: Final = 20  # runs that a step of a plan makes, at most
_MOST: Final = 16  # processes whose stacks are taken
_CRASH_READ_S: Final = 20.0
"""For the stack of a signal: debug information of a large library takes seconds to read."""

_HANGS_S: Final[Mapping[VerdictState, float]] = MappingProxyType(
    {VerdictState.DEADLOCK: 5.0, VerdictState.STALLED: 30.0}
)
"""How long a run that nobody watches may hang before it is ended; a stall that rests on its duration may still end."""
_NEEDED: Final = lazy_re(r"\{([a-z][a-z0-9-]*)\}")


@dataclass(frozen=True, slots=True)
class StepOrder:
    """The launch of a step; `recipes` have the values of earlier steps filled in."""

    number: int
    step: GuideStep
    recipes: tuple[str, ...]


@dataclass(slots=True)
class Course:
    """A guide that is being followed.

    Attributes:
        handed: values that steps found so far, or the user gave.
        folder: for the output of its runs; made with the first.
        limit_s: for each run; None: somebody watches.
    """

    guide: Guide
    argv: tuple[str, ...]
    handed: dict[str, str] = field(default_factory=dict)
    redact: bool = True
    folder: Path | None = None
    limit_s: float | None = None

    def step_folder(self, number: int) -> Path:
        """Create the folder for the output of a step."""
        self.folder = self.folder or launch_folder()
        made = self.folder / f"step-{number}"
        made.mkdir(mode=0o700)
        return made

    @property
    def shown(self) -> str:
        """CMD as words for a shell, its secrets masked."""
        return " ".join(map(shell_word, mask_command(self.argv) if self.redact else self.argv))

    @property
    def steps(self) -> tuple[GuideStep, ...]:
        return tuple(self.guide.steps.value)

    def command(self, number: int, folder: Path) -> tuple[str, ...]:
        """Return the command of a step."""
        if self.guide.plan is None:
            return self.argv
        ask = StepAsk(number=number, argv=self.argv, handed=self.handed, folder=folder, limit_s=self.limit_s)
        return tuple(self.guide.plan.value(ask))

    def order(self, number: int) -> StepOrder:
        """Return the launch of a step.

        Raises:
            UsageError: a needed value is not known.
        """
        step = self.steps[number - 1]
        missing = [name for word in step.recipes for name in _NEEDED.findall(word) if not self.handed.get(name)]
        if missing and not step.without:
            raise UsageError(
                f"Step {number} needs {' and '.join(missing)}, which no step found.",
                f"livedbg {self.guide.name} --step {number} --set {missing[0]}=VALUE -- {self.shown}",
            )
        if missing:
            return StepOrder(number, step, step.without)
        filled = tuple(_NEEDED.sub(lambda match: self.handed[match[1]], word) for word in step.recipes)
        return StepOrder(number, step, filled)


@dataclass(frozen=True, slots=True)
class Ran:
    """A step that was run; `code` is CMD's exit code, None if it did not end."""

    found: StepFound
    code: int | None
    folder: Path


def job_for(course: Course, order: StepOrder, say: Callable[[str], None]) -> Job:
    """Return the job of a step.

    Raises:
        UsageError: a requirement of a recipe is missing.
    """
    picked = picked_recipes(order.recipes)
    folder = course.step_folder(order.number)
    allowed = order.step.catches and ban_of() is None and may_trace("signal", "signal_deliver")
    catches = order.step.catches if allowed else ()
    command = course.command(order.number, folder)
    job = job_of(Order(command, catches=catches, recipes=picked, redact=course.redact), say, folder)
    for log in map(Path, job.plan.logs):
        if log.parent == job.folder:
            log.touch()  # a log that comes later is no source that fails
    keep = course.guide.keep
    if keep is not None:
        job.watch.keep = lambda pid, path: keep.value(pid, path, _kept(job))
    return job


def _kept(job: Job) -> Path:
    """Return the folder for copies of files that a process may take away at its end."""
    return job.folder / "kept"


def run_step(course: Course, order: StepOrder, say: Callable[[str], None]) -> Ran:
    """Run a step without a screen.

    Args:
        course: gets the values that the step hands on. A run that hangs, or lasts longer than its limit, is inspected
            and killed; a guide with a plan of its own does so itself.

    Raises:
        UsageError: it can't be started.
    """
    job = job_for(course, order, say)
    child: Launched | None = None
    try:
        child = job.start()
        limit_s = time.monotonic() + (course.limit_s or math.inf) * (1 if course.guide.plan is None else _OWN_LIMITS)
        view = LiveView(job.request(child))
        job.arm(view, child)
        with started(view):
            hang = _Hang()
            while child.wait(_LOOK_S) is None and time.monotonic() < limit_s and not hang.lasts(view.latest()):
                pass
            code = child.exit_code
            if code:
                view.wait_ended(_CRASH_READ_S)
            update = with_stacks(view) if code is None else view.latest()
    finally:
        if child is not None:
            child.end()
    return Ran(StepUnderWay(course, order, job, child).ended(update, code), code, job.folder)


class _Hang:
    """For how long the verdicts of a run say that it hangs."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def lasts(self, update: Update) -> bool:
        """Return whether that is long enough."""
        limit_s = _HANGS_S.get(update.diagnosis.verdict.state)
        if limit_s is None:
            self._since_s = None
            return False
        self._since_s = self._since_s or time.monotonic()
        return time.monotonic() - self._since_s >= limit_s


def with_stacks(view: LiveView) -> Update:
    """Return the state with fresh stacks: those of blocked threads are taken rarely while nobody asks."""
    before = view.latest().snapshot
    asked_ns = before.now().mono_ns
    living = [process.id for process in before.processes.values() if not process.exited][:_MOST]
    for process in living:
        view.send(WantStacks(process=process))
    limit_s = time.monotonic() + _STACKS_S
    while time.monotonic() < limit_s and not _taken(view.latest().snapshot, living, asked_ns):
        time.sleep(_LOOK_S)
    return view.latest()


def _taken(snapshot: Snapshot, processes: Sequence[str], since_ns: int) -> bool:
    """Return whether all blocked threads of processes have newer native stacks, and none from when they ran."""
    waiting = [
        snapshot.stacks.get(thread.id)
        for thread in snapshot.threads.values()
        if thread.process in processes and not thread.exited and thread.state is ThreadState.WAITING
    ]
    return all(
        stack is not None
        and stack.taken_mono_ns >= since_ns
        and stack.layer != "python"
        and SAMPLED not in stack.source
        for stack in waiting
    )


@dataclass(frozen=True, slots=True)
class StepUnderWay:
    """A step whose command was started."""

    course: Course
    order: StepOrder
    job: Job
    child: Launched

    def ended(self, update: Update, code: int | None) -> StepFound:
        """Return the findings once it has ended, and keep the values that it hands on."""
        found = self._read(update, code, self.job.watch.finish(self.child, effects=False))
        self.course.handed.update(found.hands)
        return found

    def so_far(self, update: Update) -> StepFound:
        """Return the findings while its run goes on."""
        return self._read(update, None, self.job.watch.so_far(self.child))

    def _read(self, update: Update, code: int | None, ended: Ended) -> StepFound:
        course, plan, verdict = self.course, self.job.plan, update.diagnosis.verdict
        return course.guide.read.value(
            StepRun(
                number=self.order.number,
                argv=course.argv,
                output=(self.child.stdout, self.child.stderr),
                logs=tuple(map(Path, plan.logs)),
                loaded=frozenset(path for process in ended.processes for path in process.loaded),
                opened=frozenset(path for process in ended.processes for path in process.opened),
                kept=_kept(self.job),
                environment={**os.environ, **plan.environment},
                code=code,
                handed=course.handed,
                snapshot=update.snapshot,
                hang=verdict.sentence if code is None and verdict.state in _HANGS_S else "",
                crash=verdict.sentence if code and verdict.state is VerdictState.CRASHED else "",
            )
        )


_LOOK_IN_APP_S: Final = 0.2
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
        command = " ".join(mask_command(course.argv) if course.redact else course.argv)
        view = LiveView(job.request(child), title=f"{_keys(course, order)}  {host_name()}:{child.pid} {command}")
        job.arm(view, child)
        step = StepUnderWay(course, order, job, child)
        following = _Following(step, view, before)
        code = end.in_app(view, job, replace(screen, guide=following), NEXT_STEP)
        ended = child.exit_code
        if not end.leaves:
            child.end()
        following.stop()
    if end.leaves:
        with contextlib.suppress(OSError):
            warn(f"{clean_line(job.order.argv[0])} goes on: livedbg attach {child.pid}")
    return code, ended, following.final or step.ended(view.latest(), ended)


def _keys(course: Course, order: StepOrder) -> str:
    """Return the step and its keys for the title, where they stay in sight: a notice goes after seconds."""
    following = " ^n next" if order.number < len(course.steps) else ""
    return f"{order.number}/{len(course.steps)} ^g found{following}"


class _Following:
    """Reads the findings of a step at the end of its run, and on request, on a thread of its own."""

    def __init__(self, step: StepUnderWay, view: LiveView, before: Sequence[tuple[str, str]]) -> None:
        steps, order = step.course.steps, step.order
        self.title = f"Step {order.number} of {len(steps)}: {order.step.title}"
        self.following = f"step {order.number + 1}, {steps[order.number].title}" if order.number < len(steps) else ""
        self.ending = _LAST
        self.final: StepFound | None = None
        self._step = step
        self._view = view
        self._before = before
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._lines: Sequence[tuple[str, str]] | None = None
        self._thread = threading.Thread(target=self._follow, name="livedbg-guide", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Ask for the findings so far."""
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
        child = self._step.child
        ended = False
        while not self._stopped.wait(_LOOK_IN_APP_S):
            if not ended and child.exit_code is not None:
                ended = True
                self.final = self._step.ended(self._view.latest(), child.exit_code)
                self._lines = (*self.final.lines, *self._before)
                self._note(self.final)
            elif self._asked.is_set():
                self._asked.clear()
                found = self.final or self._step.so_far(with_stacks(self._view))
                self._lines = (*found.lines, *self._before)
                self._note(found)
