"""`livedbg stacks`: merged stacks of all threads, grouped by equal stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from livedbg.analysis.rules.sight import blinds
from livedbg.cli.hits import frame_text
from livedbg.cli.profiling import ProfileOptions, print_profile
from livedbg.cli.report import time_limits
from livedbg.cli.target_options import DURATION, TargetOptions, target_options
from livedbg.commands.exit_codes import TIME_LIMIT
from livedbg.commands.messages import warn
from livedbg.commands.sessions import running
from livedbg.commands.signals import quit_on_signals
from livedbg.commands.time_limit import TimeLimit
from livedbg.model import OUT_OF_TIME, Stack, Task, TaskState, Thread
from livedbg.model.errors import UsageError
from livedbg.model.intents import GLANCE_ONCE
from livedbg.model.snapshot import Snapshot
from livedbg.report.missing_symbols import symbol_limits
from livedbg.session.adapter import Request
from livedbg.state.stacks import group_stacks
from livedbg.text.json_text import json_line
from livedbg.text.wording import many
from livedbg.touch.config import refuse_touch

_BLIND: Final = 3
"""Exit code: a source that would tell has failed, or may not be read."""
_ANSWER_S: Final = 0.5  # after the limit, at least
_SHOWN: Final = frozenset({"python", "native", "samples", "glance"})
"""The sources of stacks."""


@click.command("stacks")
@target_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per group of equal stacks; with --for per profile."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Time limit, beside the time of --for.  [default: 30, and the time that livedbg waits for a CPU]",
)
@click.option("--glance", is_flag=True, help="Stop each running thread for about 0.1 ms to get its native frames.")
@click.option(
    "--for", "seconds", type=DURATION, metavar="TIME", help="Sample running threads for this time; print functions."
)
@click.option("--per-thread", is_flag=True, help="With --for: one table for each thread.")
@click.option(
    "--rate",
    type=click.IntRange(1, 999),
    metavar="HZ",
    help="With --for: samples per second of a thread's CPU time.  [default: 99]",
)
@click.option(
    "--flame",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --for: write a flame graph (FILE.svg), or folded stacks (any other name).",
)
@click.option("--folded", is_flag=True, help="With --for: print folded stacks (outermost;…;innermost COUNT).")
def command(
    options: TargetOptions,
    as_json: bool,
    timeout: float | None,
    glance: bool,
    seconds: float | None,
    per_thread: bool,
    rate: int | None,
    flame: Path | None,
    folded: bool,
) -> int:
    """Print the stacks of all threads, innermost frame first. Threads with equal stacks are grouped.

    The tasks of event loops (asyncio, trio) and greenlets follow, each with the coroutines or functions that it
    is in and what it awaits.

    No thread is stopped. Running threads are sampled by the kernel's clock. Where the kernel does not allow that
    (`livedbg doctor` tells), a running thread shows Python frames only; `--glance` then stops each running thread for
    about 0.1 ms, one at a time, to get its native frames. Blocked threads are never stopped, because a stop would make
    some system calls (`epoll_wait`, `semop`, …) return EINTR.

    With `--for`, running threads are sampled for that time, without a stop, and a table says which functions took the
    CPU time: `own` is the share of samples in which a function is innermost, `total` that in which it is anywhere in
    the stack. Blocked threads take no CPU time and are not in it.
    """
    profile = ProfileOptions(seconds, rate, flame, folded, per_thread, as_json)
    profile.check()
    if seconds is not None:
        if glance:
            raise UsageError("--for and --glance exclude each other.", "use one of them", "usage")
        return print_profile(options.resolved().request(), profile, TimeLimit.of_look(timeout, beside_s=seconds))
    limit = TimeLimit.of_look(timeout, probes=glance)
    request = _request(options.resolved(), glance)
    with quit_on_signals(), running(request, limit=limit) as view:
        in_time = limit.settled(view)
        update = (view.latest() if in_time else view.out_of_time(limit.left_s or _ANSWER_S)).so_far()
        snapshot = update.snapshot
        asked = {thread.id: thread for thread in snapshot.threads.values() if _is_asked_for(snapshot, thread)}
        unnamed = symbol_limits(update, list(asked))
    failed = [status for status in snapshot.statuses.values() if blinds(status, snapshot)]
    for status in failed:
        warn(status.sentence, status.remedy)
    for status in snapshot.statuses.values():
        if any(status.target == other.target and status.sentence == other.sentence for other in failed):
            continue
        wanted = status.source in _SHOWN or status.code == OUT_OF_TIME
        if wanted and status.sentence and status.code != "not-python":
            warn(status.sentence, status.remedy)
    for missing in (*time_limits(update, in_time), *unnamed):
        warn(missing.sentence, missing.remedy)
    if snapshot.touches.stops:
        touches = snapshot.touches
        paused_ms = touches.paused_ns / 1e6
        warn(f"{many(touches.stops, 'thread')} paused for {paused_ms:.2f} ms in total, one at a time")
    groups = group_stacks([stack for stack in snapshot.stacks.values() if stack.thread in asked])
    for group in groups:
        threads = [_name(snapshot, thread) for thread in group.threads]
        if as_json:
            said = {"threads": group.threads, "names": threads, "frames": group.frames}
            click.echo(json_line(said))
        else:
            click.echo(f"{many(len(threads), 'thread')}: {_shortened(threads)}")
            for note in sorted({_note(snapshot.stacks[thread]) for thread in group.threads} - {""}):
                click.echo(f"    ({note})")
            for number, frame in enumerate(group.frames):
                click.echo(f"    #{number:<3}{frame_text(frame)}")
            click.echo()
    _tasks(snapshot, as_json=as_json)
    bare = [thread for thread in asked.values() if not thread.exited and thread.id not in snapshot.stacks]
    if bare and not as_json:
        click.echo(f"{len(bare)} without a stack: {_shortened([_name(snapshot, thread.id) for thread in bare])}")
    return _BLIND if failed else 0 if in_time else TIME_LIMIT


def _tasks(snapshot: Snapshot, *, as_json: bool) -> None:
    """Print the coroutines of the tasks of event loops, tasks with equal ones together."""
    alive = {task.id: task for task in snapshot.tasks.values() if task.state is not TaskState.COMPLETED}
    for group in group_stacks([stack for stack in snapshot.stacks.values() if stack.thread in alive]):
        names = [_task_name(alive[task]) for task in group.threads]
        if as_json:
            click.echo(json_line({"tasks": group.threads, "names": names, "frames": group.frames}))
            continue
        click.echo(f"{many(len(names), 'task')}: {_shortened(names)}")
        for number, frame in enumerate(group.frames):
            click.echo(f"    #{number:<3}{frame_text(frame)}")
        click.echo()


def _task_name(task: Task) -> str:
    awaits = task.attributes.get("awaits")
    return f"{task.name} (awaits {awaits})" if awaits else f"{task.name} ({task.state.value})"


def _request(options: TargetOptions, glance: bool) -> Request:
    """The request of a session: with a glance, one adapter takes all native stacks.

    Raises:
        TouchRefused: touches are forbidden.
        UsageError: native frames are both wanted and not.
    """
    if not glance:
        return options.request(once=True)
    refuse_touch(options.request(), "--glance stops running threads briefly")
    if not options.native:
        raise UsageError("--glance and --no-native exclude each other.", "use one of them")
    return replace(options.request(once=True, stacks="python"), options={GLANCE_ONCE: "yes"})


def _is_asked_for(snapshot: Snapshot, thread: Thread) -> bool:
    """Whether it is a thread of the job, not of a process that only holds what the job waits for."""
    process = snapshot.processes.get(thread.process)
    return process is None or process.target


def _name(snapshot: Snapshot, thread: str) -> str:
    known = snapshot.threads.get(thread)
    if known is None:
        return thread
    waits = f" in {known.waits_in}" if known.waits_in else ""
    return f"{known.tid} {known.title} ({known.state.value}{waits})"


def _note(stack: Stack) -> str:
    return stack.note or ("partial" if stack.partial else "")


def _shortened(names: list[str], most: int = 6) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
