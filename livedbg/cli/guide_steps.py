"""One step of a guide: the launch of CMD, its run, and the findings.

Invariants:
    guide_steps.G1. A step that needs what nobody found takes its other recipes, or is refused: none runs with a gap.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from livedbg.cli.job import Job, job_of, picked_recipes
from livedbg.commands.signals import started
from livedbg.model import SAMPLED, ThreadState
from livedbg.model.errors import UsageError
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.recipes import Ended
from livedbg.session.guide import GuideStep, StepAsk, StepFound, StepRun
from livedbg.session.launch import Launched, launch_folder
from livedbg.session.live import LiveView
from livedbg.session.systems import Guide
from livedbg.text.patterns import lazy_re
from livedbg.text.secrets import mask_command
from livedbg.text.shell import shell_word

_LOOK_S: Final = 0.1
_STACKS_S: Final = 20.0  # at most, until stacks are taken
_OWN_LIMITS: Final = 20  # runs that a step of a plan makes, at most
_MOST: Final = 16  # processes whose stacks are taken
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
                "usage",
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
    job = job_of(course.command(order.number, folder), (), (), picked, say, folder, redact=course.redact)
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
        course: gets the values that the step hands on. A run that lasts longer than its limit is inspected and killed;
            a guide with a plan of its own does so itself.

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
            while child.wait(_LOOK_S) is None and time.monotonic() < limit_s:
                pass
            code = child.exit_code
            snapshot = with_stacks(view) if code is None else view.latest().snapshot
    finally:
        if child is not None:
            child.end()
    return Ran(found_of(course, order, job, child, snapshot, code), code, job.folder)


def with_stacks(view: LiveView) -> Snapshot:
    """Return the state with fresh stacks: those of blocked threads are taken rarely while nobody asks."""
    before = view.latest().snapshot
    asked_ns = before.now().mono_ns
    living = [process.id for process in before.processes.values() if not process.exited][:_MOST]
    for process in living:
        view.send(WantStacks(process=process))
    limit_s = time.monotonic() + _STACKS_S
    while time.monotonic() < limit_s and not _taken(view.latest().snapshot, living, asked_ns):
        time.sleep(_LOOK_S)
    return view.latest().snapshot


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


def found_of(
    course: Course, order: StepOrder, job: Job, child: Launched, snapshot: Snapshot, code: int | None
) -> StepFound:
    """Return the findings of a step that has ended, and keep the values that it hands on."""
    found = _read(course, order, job, child, snapshot, code, job.watch.finish(child, effects=False))
    course.handed.update(found.hands)
    return found


def found_so_far(course: Course, order: StepOrder, job: Job, child: Launched, snapshot: Snapshot) -> StepFound:
    """Return the findings of a step while its run goes on."""
    return _read(course, order, job, child, snapshot, None, job.watch.so_far(child))


def _read(
    course: Course,
    order: StepOrder,
    job: Job,
    child: Launched,
    snapshot: Snapshot,
    code: int | None,
    ended: Ended,
) -> StepFound:
    return course.guide.read.value(
        StepRun(
            number=order.number,
            argv=course.argv,
            output=(child.stdout, child.stderr),
            logs=tuple(map(Path, job.plan.logs)),
            loaded=frozenset(path for process in ended.processes for path in process.loaded),
            opened=frozenset(path for process in ended.processes for path in process.opened),
            kept=_kept(job),
            environment={**os.environ, **job.plan.environment},
            code=code,
            handed=course.handed,
            snapshot=snapshot,
        )
    )
