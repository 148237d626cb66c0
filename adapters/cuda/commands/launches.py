"""`livedbg launches`: traces the kernel launches of a process, without stopping it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click
import msgspec

from livedbg.commands.launch_tracing import TracingStatus, trace_launches
from livedbg.commands.output import warn_all
from livedbg.commands.signals import quit_on_signals, started
from livedbg.linux import procfs
from livedbg.model import ids
from livedbg.model.errors import UsageError
from livedbg.model.launches import CALLS, LaunchTrail, launch_text
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from livedbg.session.registry import adapter_classes
from livedbg.session.targets import resolve
from livedbg.text.json_text import json_line
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch


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
        trace_launches(view, wanted, budget / 100)
        with contextlib.suppress(KeyboardInterrupt):  # the user has seen enough
            view.subscribe(TracingStatus().report)
            view.wait_ended(seconds)
    snapshot = view.latest().snapshot
    trails = sorted(snapshot.launches.values(), key=lambda trail: (trail.process, -trail.count))
    for trail in trails:
        shown = msgspec.structs.replace(trail, last=trail.last[-last:])
        lines = [json_line(shown)] if as_json else _lines(snapshot, shown)
        for line in lines:
            click.echo(line)
    if not trails and not as_json:
        calls = int(sum(counter.value for key, counter in snapshot.counters.items() if key.name == CALLS))
        click.echo(f"{calls:,} launch calls were counted." if calls else f"No launches in {seconds:g} s.")
    return 0


def _thread_name(snapshot: Snapshot, thread: str) -> str:
    """Return a thread's tid and name; a new one may not be in the snapshot yet."""
    known = snapshot.threads.get(thread)
    if known is not None:
        return f"{known.tid} {known.name}"
    pid, tid = map(int, ids.parse(thread).parts[1:3])
    try:
        return f"{tid} {clean_line(procfs.read_stat(pid, tid).name)}"
    except OSError:  # it has ended
        return str(tid)


def _lines(snapshot: Snapshot, trail: LaunchTrail) -> Iterator[str]:
    name = _thread_name(snapshot, trail.thread)
    rate = f"{trail.rate_per_s:,.0f} a second"
    how = (
        f"launches, {rate} recently"
        if trail.seen
        else f"launches traced, {rate}, before there were too many to trace each one"
    )
    yield f"thread {name}: {trail.count:,} {how}"
    now_ns = snapshot.now().mono_ns
    for launch in trail.last:
        yield f"    {max(now_ns - launch.mono_ns, 0) / 1e9:8.3f} s ago  {launch_text(launch)}"
