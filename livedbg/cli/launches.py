"""`livedbg launches`: traces the kernel launches of a process, without stopping it."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from typing import Final

import click
import msgspec

from livedbg.cli.common import quit_on_signals, started, warn, warn_all
from livedbg.linux import procfs
from livedbg.model import SourceHealth, ids
from livedbg.model.errors import TargetError, UsageError
from livedbg.model.intents import WatchLaunches
from livedbg.model.launches import CALLS, LaunchTrail, launch_text
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from livedbg.session.registry import adapter_classes
from livedbg.session.targets import resolve
from livedbg.session.view import Update
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch

__all__ = ["HowHeard", "command", "listen"]

_CHECK_S: Final = 0.1
_SET_S: Final = 60.0  # for the probes to be set: every library that is loaded is searched
_NUMBERS: Final = re.compile(r"[\d.,]+")


@click.command("launches")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(0.1),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Trace for SECONDS.",
)
@click.option(
    "--last",
    type=click.IntRange(1, 16),
    default=5,
    show_default=True,
    metavar="N",
    help="Show the last N launches of each thread.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0.1, 100),
    default=2.0,
    show_default=True,
    metavar="PERCENT",
    help="Limit the overhead to PERCENT of the launching threads' time; above it, launches are only counted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per thread.")
def command(targets: tuple[str, ...], seconds: float, last: int, budget: float, as_json: bool) -> int:
    """Trace the kernel launches of TARGET: print the last launches of each thread with grid and block, and the rate.

    Kernel probes on the launch functions of the CUDA driver and runtime (cuLaunchKernel, cudaLaunchKernel, …) see each
    call. Nothing is stopped, and no GPU tool is needed. A CUDA graph counts as one launch. Ctrl-C ends the trace early.
    """  # fmt: skip
    found = resolve(targets)
    warn_all(found.problems)
    host = host_name()
    if not found.processes:
        raise UsageError("Missing a TARGET.", "livedbg ps", "usage")
    request = Request(host=host, processes=found.processes, tree=False, stacks="none")
    refuse_touch(request, "Tracing launches sets probes")
    view = LiveView(request, adapters=[adapter_classes()[name]() for name in ("proc", "launches")])
    wanted = [f"process:{host}/{target.pid}" for target in found.processes]
    with quit_on_signals(), started(view):
        listen(view, wanted, budget / 100)
        with contextlib.suppress(KeyboardInterrupt):  # enough was heard
            view.subscribe(HowHeard().look)
            view.wait_ended(seconds)
    snapshot = view.latest().snapshot
    trails = sorted(snapshot.launches.values(), key=lambda trail: (trail.process, -trail.count))
    for trail in trails:
        lines = [msgspec.json.encode(_cut(trail, last)).decode()] if as_json else _lines(snapshot, trail, last)
        for line in lines:
            click.echo(line)
    if not trails and not as_json:
        calls = int(sum(counter.value for key, counter in snapshot.counters.items() if key.name == CALLS))
        click.echo(f"{calls:,} launch calls were counted." if calls else f"No launches in {seconds:g} s.")
    return 0


def listen(view: LiveView, processes: Sequence[str], share: float = 0.0) -> None:
    """Listen to the launches of processes; returns when the probes are set.

    Args:
        view: a session that has begun.
        processes: their identifiers.
        share: of the launching threads' time that it may take; 0 for the usual.

    Raises:
        TargetError: one can't be listened to.
    """
    for process in processes:
        view.send(WatchLaunches(process=process, share=share))
    end_s = time.monotonic() + _SET_S
    while time.monotonic() < end_s and not view.wait_ended(_CHECK_S):
        update = view.latest()
        if update.notice:
            message, _, remedy = update.notice.partition("\n")
            raise TargetError(message, remedy.removeprefix("try: "), "not-listened")
        if sum(touch.what == "probe" for touch in update.snapshot.intrusions) >= len(processes):
            return
    if not view.wait_ended(0):
        raise TargetError(f"The probes were not set within {_SET_S:.0f} s.", "try again", "not-listened")


class HowHeard:
    """Says on standard error how launches are heard, as soon as that is known, and when it changes."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[SourceHealth, str]] = {}

    def look(self, update: Update) -> None:
        """Say what is new; a sentence of which only the numbers changed is not."""
        for key, status in update.snapshot.statuses.items():
            now = (status.health, _NUMBERS.sub("", status.sentence))
            if (
                key.source == "launches"
                and status.health is not SourceHealth.ENDED
                and self._said.get(key.target) != now
            ):
                self._said[key.target] = now
                with contextlib.suppress(OSError):  # nobody reads standard error; this is the session's thread
                    warn(status.sentence, status.remedy)


def _cut(trail: LaunchTrail, last: int) -> LaunchTrail:
    return msgspec.structs.replace(trail, last=trail.last[-last:])


def _thread_name(snapshot: Snapshot, thread: str) -> str:
    """Its number and name; one that was born a moment ago is not in the snapshot yet."""
    known = snapshot.threads.get(thread)
    if known is not None:
        return f"{known.tid} {known.name}"
    pid, tid = map(int, ids.parse(thread).parts[1:3])
    try:
        return f"{tid} {clean_line(procfs.read_stat(pid, tid).name)}"
    except OSError:  # it has ended
        return str(tid)


def _lines(snapshot: Snapshot, trail: LaunchTrail, last: int) -> Iterator[str]:
    name = _thread_name(snapshot, trail.thread)
    rate = f"{trail.rate_per_s:,.0f} a second"
    how = (
        f"launches, {rate} recently"
        if trail.seen
        else f"launches traced, {rate}, before there were too many to trace each one"
    )
    yield f"thread {name}: {trail.count:,} {how}"
    now_ns = snapshot.now().mono_ns
    for launch in trail.last[-last:]:
        yield f"    {max(now_ns - launch.mono_ns, 0) / 1e9:8.3f} s ago  {launch_text(launch)}"
