"""`livedbg stacks`: merged stacks of all threads, equal ones together."""

from __future__ import annotations

import click
import msgspec

from livedbg.cli.common import TIME_LIMIT, Look, look_options, quit_on_signals, running, warn
from livedbg.model import Frame, Stack, Thread
from livedbg.snapshot import Snapshot
from livedbg.stacks import group_stacks

__all__ = ["command"]


@click.command("stacks")
@look_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a group of equal stacks.")
@click.option("--timeout", type=click.FloatRange(0.1), default=30.0, show_default=True, metavar="SECONDS")
def command(look: Look, as_json: bool, timeout: float) -> int:
    """Print the stacks of all threads, innermost frame first, without stopping any.

    Native frames are of blocked threads; a running thread shows its Python frames only.
    """
    with quit_on_signals(), running(look.resolved().request(once=True)) as view:
        in_time = view.wait_settled(timeout)
        snapshot = view.latest().snapshot
    for status in snapshot.statuses.values():
        if status.source in {"python", "native"} and status.sentence and status.code != "not-python":
            warn(status.sentence, status.remedy)
    asked = {thread.id: thread for thread in snapshot.threads.values() if _is_asked_for(snapshot, thread)}
    groups = group_stacks([stack for stack in snapshot.stacks.values() if stack.thread in asked])
    for group in groups:
        threads = [_name(snapshot, thread) for thread in group.threads]
        if as_json:
            said = {"threads": group.threads, "names": threads, "frames": group.frames}
            click.echo(msgspec.json.encode(said).decode())
        else:
            click.echo(f"{len(threads)} thread{'s' if len(threads) > 1 else ''}: {_shortened(threads)}")
            for note in sorted({_note(snapshot.stacks[thread]) for thread in group.threads} - {""}):
                click.echo(f"    ({note})")
            for number, frame in enumerate(group.frames):
                click.echo(f"    #{number:<3}{_frame(frame)}")
            click.echo()
    bare = [thread for thread in asked.values() if not thread.exited and thread.id not in snapshot.stacks]
    if bare and not as_json:
        click.echo(f"{len(bare)} without a stack: {_shortened([_name(snapshot, thread.id) for thread in bare])}")
    return 0 if in_time else TIME_LIMIT


def _is_asked_for(snapshot: Snapshot, thread: Thread) -> bool:
    """Whether it is a thread of the job, not of a process that only holds what the job waits for."""
    process = snapshot.processes.get(thread.process)
    return process is None or process.target


def _name(snapshot: Snapshot, thread: str) -> str:
    known = snapshot.threads.get(thread)
    if known is None:
        return thread
    waits = f" in {known.waits_in}" if known.waits_in else ""
    return f"{known.tid} {known.name} ({known.state.value}{waits})"


def _note(stack: Stack) -> str:
    return stack.note or ("partial" if stack.partial else "")


def _frame(frame: Frame) -> str:
    where = (
        f" at {frame.file}:{frame.line}" if frame.file and frame.line else f" in {frame.file or frame.module or '?'}"
    )
    sign = "py " if frame.language == "python" else "   "
    values = f"  [{', '.join(frame.local_variables)}]" if frame.local_variables else ""
    return f"{sign}{frame.function}{where}{values}"


def _shortened(names: list[str], most: int = 6) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
