"""Starts the command of `livedbg launch` with its recipes and catchpoints, and decides its fate when livedbg ends.

Catchpoints of `--catch` are armed before the command's first instruction.

Invariants:
    last_will.Q1. A terminal that is gone (SIGHUP, a link that dropped) ends livedbg and nothing else: the command goes
        on, and so does its output, to its files.
    last_will.Q2. From the app on, nothing but an answer or SIGTERM, SIGINT or SIGQUIT from outside kills it: no key,
        and no bug in the app.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final

from livedbg.app.options import AppOptions, Started
from livedbg.commands.output import warn
from livedbg.commands.signals import hung_up, signals_held
from livedbg.model.catchpoints import FAULTS, CatchpointState, Moment
from livedbg.model.intents import Catch
from livedbg.model.request import CORES
from livedbg.probes.tracefs import may_trace
from livedbg.recipes import Plan, Recipe, RecipeWatch, chosen, plan, recipes
from livedbg.recipes.model import each_option
from livedbg.recipes.plan import possible
from livedbg.session.adapter import Request
from livedbg.session.catch_options import patterns_of
from livedbg.session.hostinfo import host_name
from livedbg.session.launch import Launched, launch, launch_folder
from livedbg.session.live import LiveView
from livedbg.session.tools import find_tool
from livedbg.session.view import Update
from livedbg.text.sanitize import clean_line
from livedbg.text.secrets import mask_command
from livedbg.touch.config import ban_of, refuse_touch

_PATIENCE_S: Final = 60.0
_HANDLER: Final = "PYTHONFAULTHANDLER"
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_RUNTIMES = ("libstdc++.so", "libc++abi.so", "libpython")


class Arming:
    """Sets catchpoints in a command that waits behind its gate, and releases it once they are armed, or have failed.

    Args:
        view: the session; not started yet.
        process: the command's identifier.
        order: the command: the libraries that it may load are searched.

    Raises:
        UsageError: invalid pattern.
    """

    def __init__(self, view: LiveView, child: Launched, process: str, patterns: Sequence[str], order: Order) -> None:
        self._view = view
        self._child = child
        self._process = process
        self._follow = order.follow
        self._patterns = tuple(patterns)
        threw = any(patterns_of(pattern)[0] is not Moment.SIGNAL for pattern in patterns)
        self._files = runtimes(order.argv[0]) if threw else ()
        self._sent = False
        self._end = view.subscribe(self._take)
        self._last = threading.Timer(_PATIENCE_S, child.go)  # if nobody says how it went, the command is not kept
        self._last.daemon = True
        self._last.start()

    def _take(self, update: Update) -> None:
        if not self._sent:
            self._sent = True
            for pattern in self._patterns:
                self._view.send(Catch(process=self._process, pattern=pattern, follow=self._follow, files=self._files))
        points = update.snapshot.catchpoints.values()
        settled = [point for point in points if point.state is not CatchpointState.ARMING]
        if len(settled) >= len(self._patterns) or update.ended:
            self._last.cancel()
            self._child.go()
            self._end()


def runtimes(program: str) -> tuple[str, ...]:
    """Return the C++ and Python runtimes that a program may load: itself, its linked libraries, and the system's."""
    path = shutil.which(program)
    if path is None:
        return ()
    found = [path]
    for argv in (["ldd", path], ["ldconfig", "-p"], ["/sbin/ldconfig", "-p"]):
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        for line in done.stdout.splitlines():
            file = line.partition("=>")[2].partition(" (")[0].strip()
            if any(name in file for name in _RUNTIMES):
                found.append(file)
    return tuple(dict.fromkeys(str(Path(file).resolve()) for file in found))


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be launched, once or many times.

    Attributes:
        recipes: with their options.
        follow: catch in child processes too.
        timeout_s: of many runs, one that lasts longer is a hang.
        folder: each of many runs gets a folder in it.
        signatures: folders of more failure texts.
        left: once it is set, what is stopped is left running (last_will.Q1).
    """

    argv: tuple[str, ...]
    logs: tuple[str, ...] = ()
    catches: tuple[str, ...] = ()
    recipes: Sequence[tuple[Recipe, str]] = ()
    follow: bool = True
    timeout_s: float | None = None
    folder: Path = Path()
    redact: bool = True
    signatures: tuple[str, ...] = ()
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def words(self) -> tuple[str, ...]:
        """Its words as they may be shown."""
        return mask_command(self.argv) if self.redact else self.argv


@dataclass(frozen=True, slots=True)
class Job:
    """A command to start, and how.

    Attributes:
        faults: catch the signals of its faults too, so that a crash has its place.
        cores: have it leave a core instead.
    """

    order: Order
    folder: Path
    plan: Plan
    watch: RecipeWatch
    environment: Mapping[str, str]
    faults: bool = False
    cores: bool = False

    @property
    def catches(self) -> tuple[str, ...]:
        """The catchpoints, with that for faults."""
        return (*self.plan.catch, *((FAULTS,) if self.faults and FAULTS not in self.plan.catch else ()))

    def start(self, *, detach: bool = False) -> Launched:
        """Start the job. A signal meanwhile ends it again, unless it is detached or only the terminal is gone."""
        child: Launched | None = None
        try:
            with signals_held():
                child = self.begin()
        except BaseException as error:
            if child is not None:
                if detach or hung_up(error):
                    child.leave()
                else:
                    child.end()
            raise
        return child

    def begin(self) -> Launched:
        """Start the job on a thread that no signal interrupts."""
        argv = (*self.plan.wrapper, *self.order.argv, *self.plan.arguments)
        own = {} if _HANDLER in os.environ else {_HANDLER: "1"}  # a crash shows its Python stack too
        around = {**own, **self.plan.environment, **self.environment}
        child = launch(argv, self.folder, gated=bool(self.catches) or self.cores, environment=around)
        if self.cores:
            child.ask_for_cores()
        if not self.catches:
            child.go()
        self.watch.follow(child)
        return child

    def arm(self, view: LiveView, child: Launched) -> None:
        """Set the job's catchpoints before its first instruction."""
        if self.catches:
            process = f"process:{host_name()}/{child.pid}"
            Arming(view, child, process, self.catches, self.order)

    def request(self, child: Launched) -> Request:
        """Return the request for the job's session."""
        logs = self.plan.logs if self.watch.log is None else (*self.plan.logs, str(self.watch.log))
        return Request(
            host=host_name(),
            processes=(child.target,),
            logs=logs,
            signatures=self.order.signatures,
            ends_with_processes=True,
            redact=self.order.redact,
            options={CORES: ""} if child.leaves_cores else {},
        )


def picked_recipes(wanted: Sequence[str]) -> list[tuple[Recipe, str]]:
    """Return the wanted recipes with their options: `NAME=A,B` is one with each of them.

    Raises:
        UsageError: there is no such recipe or option.
    """
    known, wrong = recipes() if wanted else ({}, [])
    for sentence in wrong:
        warn(sentence)
    picked = []
    for one in dict.fromkeys(one for word in wanted for one in each_option(word, known)):
        recipe, option = chosen(one, known)
        recipe, instead = possible(recipe, known, find_tool)
        if instead:
            warn(instead)
        picked.append((recipe, option))
    return picked


def job_of(
    order: Order, say: Callable[[str], None], folder: Path | None = None, environment: Mapping[str, str] = NOTHING
) -> Job:
    """Return the job of an order; its requirements are checked.

    Args:
        say: called with messages of recipes while it runs.
        folder: for its output; created when None.
        environment: more variables of the command.

    Raises:
        UsageError: recipes contradict each other, or a requirement is missing.
        TouchRefused: it has catchpoints, and those are forbidden.
    """
    made_here = folder is None
    folder = folder or launch_folder()
    try:
        made = plan(order.recipes, folder, os.environ, order.argv, find_tool)
        made = replace(made, logs=(*order.logs, *made.logs), catch=tuple(dict.fromkeys((*order.catches, *made.catch))))
        for needed in made.folders:
            Path(needed).mkdir(parents=True, exist_ok=True)
        if made.catch:
            refuse_touch(None, "A catchpoint sets probes")
    except BaseException:
        if made_here:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for note in made.notes:
        say(note)
    faults = ban_of() is None and may_trace("signal", "signal_deliver")
    watch = RecipeWatch(made, folder, order.argv, say)
    return Job(order, folder, made, watch, environment, faults=faults, cores=not faults and ban_of() is None)


_KILLING: Final = (0, *(128 + number for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)))
"""The codes of the app with which the command is killed: 0 is that its user said so, or that it has ended."""


def _asked_about(job: Job, child: Launched) -> Started:
    name = f"{clean_line(Path(job.order.argv[0]).name, 40)} ({child.pid})"
    return Started(name, f"Its output goes on to {child.folder}.", lambda: child.exit_code is None)


class LastWill:
    """Kills the command at the end of the `with` block, however that comes, unless it is to be left.

    Args:
        watch: of its recipes, whose helper programs end if the command is left.

    Attributes:
        child: the command, once it runs.
        leaves: leave it running.
    """

    def __init__(self, leaves: bool, watch: RecipeWatch) -> None:
        self.child: Launched | None = None
        self.leaves = leaves
        self._watch = watch

    def in_app(self, view: LiveView, job: Job, screen: AppOptions, *killing: int) -> int:
        """Show the command in the app, and set `leaves` by how that ends; return the app's code.

        `killing` are further codes with which the command is killed.
        """
        from livedbg.app import run

        assert self.child is not None
        code = run(view, screen if self.leaves else replace(screen, started=_asked_about(job, self.child)))
        self.leaves = self.leaves or code not in (*_KILLING, *killing)
        return code

    def __enter__(self) -> LastWill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        child = self.child
        if child is None:
            return
        if self.leaves or hung_up(error):
            child.leave()  # also where nothing was armed yet
            if child.exit_code is None:
                self._watch.leave()
        else:
            child.end()
