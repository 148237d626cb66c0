"""`livedbg stacks`: merged stacks of all threads, grouped by equal stacks."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_options
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from livedbg.analysis.place_names import place_text
from livedbg.analysis.profile import FunctionShare, Profile, function_shares, own_code, profile_of
from livedbg.analysis.rules.sight import blinds
from livedbg.analysis.user_code import Inside
from livedbg.cli.hits import frame_text
from livedbg.cli.report import time_limits
from livedbg.cli.target_options import DURATION, FILE, TargetOptions, target_options
from livedbg.commands.output import TIME_LIMIT, warn, write
from livedbg.commands.signals import TimeLimit, quit_on_signals, running, started
from livedbg.model import OUT_OF_TIME, SourceHealth, Stack, Task, TaskState, Thread
from livedbg.model.errors import UsageError
from livedbg.model.events import Event, SamplesSeen
from livedbg.model.intents import GLANCE_ONCE, PAGES, SAMPLES_FOR, SAMPLES_OF, SAMPLES_RATE
from livedbg.model.launches import ProfileSlice
from livedbg.model.snapshot import Snapshot
from livedbg.report.entities import folded_frames
from livedbg.report.flame import flame_svg, folded
from livedbg.report.missing_symbols import symbol_limits
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.registry import adapter_classes
from livedbg.session.rulebook import user_code
from livedbg.session.tools import no_unwinder
from livedbg.state.stacks import StackGroup, group_stacks
from livedbg.text.json_text import json_line
from livedbg.text.quantities import byte_size
from livedbg.text.wording import many
from livedbg.touch.config import refuse_touch

_BLIND: Final = 3
"""Exit code: the source has failed, or may not be read."""

_ROWS: Final = 25
_STACKS: Final = 3
_OWN: Final = 4  # functions of the user's ...
_ACCOUNTED: Final = 0.5  # share of a growth of memory that must be known to be kept by the user's code
_LEAST: Final = 0.005  # ... and the share of each, at least; of a library's function its own
_NAMES: Final = 6
_ADAPTERS: Final = ("proc", "samples")


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """Options for printing a profile.

    Attributes:
        seconds: how long to sample; 0 for no profile.
        rate_hz: samples a second of CPU time; None for the usual rate.
        flame: a file for the flame graph (`.svg`) or for folded stacks (any other name).
        folded: print folded stacks instead of the table.
        per_thread: each thread by itself.
        as_json: print JSON.
        pages: not of CPU time but of memory that was touched first: `cpu_ns` counts pages then.
        kept: of memory that was allocated and not freed: `cpu_ns` counts bytes then, and samples are blocks.
        note: what to say in place of the user's functions, where these are no answer.
    """

    seconds: float = 0.0
    rate_hz: int | None = None
    flame: Path | None = None
    folded: bool = False
    per_thread: bool = False
    as_json: bool = False
    pages: bool = False
    kept: bool = False
    note: str = ""

    def check(self) -> None:
        """Check the combination of options.

        Raises:
            UsageError: options that need or exclude each other.
        """
        given = {
            "--flame": self.flame,
            "--folded": self.folded,
            "--per-thread": self.per_thread,
            "--rate": self.rate_hz,
            "--pages": self.pages,
        }
        needs = [name for name, value in given.items() if value]
        if not self.seconds and needs:
            raise UsageError(f"{needs[0]} needs --for.", "livedbg stacks PID --for 10s")
        if self.folded and self.as_json:
            raise UsageError("--folded and --json exclude each other.", "use one of them")


def print_profile(request: Request, options: ProfileOptions, limit: TimeLimit) -> int:
    """Sample a target for some time, and print where it spent its CPU time; return the exit code.

    Raises:
        UsageError: options exclude each other.
        LivedbgError: there is nothing that unwinds; a file can't be written.
    """
    if request.stacks != "native" or "samples" not in adapter_names(request):
        raise UsageError("--for needs samples and native frames.", "leave out --no-samples and --no-native")
    if (missing := no_unwinder(request)) is not None:
        raise missing
    rate = {SAMPLES_RATE: str(options.rate_hz)} if options.rate_hz else {}
    of = {SAMPLES_OF: PAGES} if options.pages else {}
    request = replace(request, options={**request.options, SAMPLES_FOR: str(options.seconds), **rate, **of})
    slices: list[ProfileSlice] = []

    def collect(events: Sequence[Event]) -> None:
        slices.extend(one for event in events if isinstance(event, SamplesSeen) for one in event.slices)

    classes = adapter_classes(once=True)
    view = LiveView(request, sink=collect, adapters=[classes[name]() for name in _ADAPTERS])
    with quit_on_signals(), started(view, limit) as running:
        running.wait_settled(limit.look_s or 0)
        snapshot = running.latest().snapshot
    failed = [s for s in snapshot.statuses.values() if s.source == "samples" and s.health is not SourceHealth.OK]
    for status in failed:
        warn(status.sentence, status.remedy)
    if not slices and failed:
        return _BLIND
    _print(snapshot, slices, options)
    return 0


def adapter_names(request: Request) -> set[str]:
    """Return the adapters that a session with this request would run."""
    return {name for name, cls in adapter_classes(once=True).items() if cls.applies(request)}


def _print(snapshot: Snapshot, taken: Sequence[ProfileSlice], options: ProfileOptions) -> None:
    slices = [one for one in taken if one.kept is None]
    if options.pages:
        slices, options = _kept(taken, slices, options)
    whole = profile_of(slices)
    if not whole.samples:
        none = "touched new memory" if options.pages else "ran in user space"
        warn(f"No thread {none} in {options.seconds:g} s: all were blocked, or in the kernel.", "livedbg stacks PID")
    elif whole.unknown:
        warn(f"{whole.unknown} of {many(whole.samples, 'sample')} have no stack; the shares count them.")
    groups = [("", whole)]
    if options.per_thread:
        groups = [(_short_name(snapshot, thread), profile) for thread, profile in _by_thread(slices)]
    if options.flame is not None:
        _write_flame(snapshot, groups, whole, options)
    if options.folded:
        for line in _folded(groups):
            click.echo(line)
        return
    if options.as_json:
        threads = [thread for thread, _ in _by_thread(slices)] if options.per_thread else [None]
        for thread, (name, profile) in zip(threads, groups, strict=True):
            click.echo(json_line(_json(thread, name, profile, slices, options.pages)))
        return
    for name, profile in groups:
        if profile.samples:
            _table(name, profile, slices, options)


def _kept(
    taken: Sequence[ProfileSlice], touched: Sequence[ProfileSlice], options: ProfileOptions
) -> tuple[list[ProfileSlice], ProfileOptions]:
    """Return what is to be printed of memory: who keeps it, or who touched it first, with a note on why not more."""
    followed = [one for one in taken if one.kept is not None]
    kept = profile_of(followed)
    growth = sum(one.kept.growth_bytes for one in followed if one.kept is not None)
    why = next((one.kept.unknown for one in followed if one.kept is not None and one.kept.unknown), "")
    own = sum(share for _, share in own_code(kept, user_code())) * kept.cpu_ns
    if not why and own < _ACCOUNTED * growth:
        little = f"malloc gave {byte_size(kept.cpu_ns)} of the {byte_size(growth)} by which it grew"
        why = little if kept.cpu_ns < _ACCOUNTED * growth else "no stack of an allocation names your code"
    if followed and not why:
        return followed, with_options(options, kept=True)
    told = f": {why}" if why else ""
    note = f"Who keeps the memory is not known{told}. This is who touched it first, and what is freed is touched again."
    return list(touched), with_options(options, note=note)


def _sampled_s(slices: Sequence[ProfileSlice], most_s: float) -> float:
    """Return for how long samples came: a target may end before the time is over."""
    first_ns, last_ns = min(one.start_mono_ns for one in slices), max(one.end_mono_ns for one in slices)
    return min(most_s, (last_ns - first_ns) / 1e9)


def _by_thread(slices: Sequence[ProfileSlice]) -> list[tuple[str, Profile]]:
    threads: dict[str, list[ProfileSlice]] = {}
    for one in slices:
        threads.setdefault(one.thread, []).append(one)
    found = [(thread, profile_of(own)) for thread, own in threads.items()]
    return sorted(found, key=lambda one: -one[1].cpu_ns)


def _short_name(snapshot: Snapshot, thread: str) -> str:
    known = snapshot.threads.get(thread)
    return f"{known.tid} {known.title}" if known is not None else thread.rpartition("/")[2]


def _amount(profile: Profile, options: ProfileOptions) -> str:
    if options.kept:
        return "allocated and not freed at the peak"
    if options.pages:
        return f"{byte_size(profile.cpu_ns * mmap.PAGESIZE)} of memory touched first"
    return f"{profile.cpu_ns / 1e9:.2f} s of CPU time"


def _table(name: str, profile: Profile, slices: Sequence[ProfileSlice], options: ProfileOptions) -> None:
    seconds = _sampled_s(slices, options.seconds)
    threads = len({one.thread for one in slices})
    of = f"thread {name}" if name else many(threads, "running thread")
    code = user_code()
    mine = [(frame, share) for frame, share in own_code(profile, code)[:_OWN] if share >= _LEAST]
    if options.note:
        click.echo(options.note)
    elif mine:
        what = f"Your code keeps {byte_size(profile.cpu_ns)} at the peak" if options.kept else "Your code"
        click.echo(f"{what}: {', '.join(f'{share:.0%} in {place_text(frame)}' for frame, share in mine)}.")
    counted = many(profile.samples, "block") if options.kept else f"{many(profile.samples, 'sample')} of {of}"
    click.echo(f"{counted} in {seconds:.3g} s, {_amount(profile, options)}")
    click.echo()
    shares = function_shares(profile)
    telling = [one for one in shares if one.own >= _LEAST or code.inside(one) < Inside.LIBRARY][:_ROWS]
    rows = [(f"{one.own:.1%}", f"{one.total:.1%}", one.function, _where(one)) for one in telling]
    wide = min(60, max((len(row[2]) for row in rows), default=0))
    click.echo(f"{'own':>6} {'total':>6}  {'function':<{wide}}  at")
    for own, total, function, where in rows:
        shown = function if len(function) <= wide else function[: wide - 1] + "…"
        click.echo(f"{own:>6} {total:>6}  {shown:<{wide}}  {where}".rstrip())
    if len(shares) > len(rows):
        click.echo(f"{many(len(shares) - len(rows), 'more function')}; --json has all of them")
    click.echo()
    for stack in profile.stacks[:_STACKS]:
        share, of = stack.samples / profile.samples, "samples"
        if options.kept:
            share, of = stack.cpu_ns / profile.cpu_ns, "memory"
        click.echo(f"{share:.1%} of the {of}{'' if stack.whole else ' (partial stack)'}:")
        texts = [f"#{number:<3}{frame_text(frame)}" for number, frame in enumerate(stack.frames)]
        for line in folded_frames(stack.frames, texts):
            click.echo(f"    {line}")
        click.echo()


def _where(share: FunctionShare) -> str:
    if share.file and share.line:
        return f"{share.file}:{share.line}"
    return share.file or share.module or ""


def _folded(groups: Sequence[tuple[str, Profile]]) -> list[str]:
    return [line for name, profile in groups for line in folded(profile.stacks, name)]


def _write_flame(
    snapshot: Snapshot, groups: Sequence[tuple[str, Profile]], whole: Profile, options: ProfileOptions
) -> None:
    assert options.flame is not None
    if options.flame.suffix.lower() != ".svg":
        write("\n".join(_folded(groups)), options.flame)
        return
    commands = [" ".join(process.command) for process in snapshot.processes.values() if process.named]
    title = ", ".join(command[:100] for command in commands) or "livedbg"
    about = f"{many(whole.samples, 'sample')} in {options.seconds:g} s, {_amount(whole, options)}"
    write(flame_svg([(name, profile.stacks) for name, profile in groups], title, about), options.flame)


def _json(
    thread: str | None, name: str, profile: Profile, slices: Sequence[ProfileSlice], pages: bool
) -> dict[str, object]:
    return {
        "thread": thread,
        "name": name or None,
        "threads": sorted({one.thread for one in slices}) if thread is None else [thread],
        "samples": profile.samples,
        "without_stack": profile.unknown,
        ("pages" if pages else "cpu_ms"): profile.cpu_ns if pages else round(profile.cpu_ns / 1e6, 3),
        "functions": [
            {
                "function": one.function,
                "file": one.file,
                "line": one.line,
                "module": one.module,
                "language": one.language,
                "own": round(one.own, 5),
                "total": round(one.total, 5),
                "samples": one.samples,
            }
            for one in function_shares(profile)
        ],
        "stacks": [
            {"samples": stack.samples, "whole": stack.whole, "frames": stack.frames} for stack in profile.stacks
        ],
    }


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
    "rate_hz",
    type=click.IntRange(1, 999),
    metavar="HZ",
    help="With --for: samples per second of a thread's CPU time.  [default: 99]",
)
@click.option(
    "--pages", is_flag=True, help="With --for: who keeps memory (malloc's, less what is freed), or touches it first."
)
@click.option(
    "--flame",
    type=FILE,
    metavar="FILE",
    help="With --for: write a flame graph (FILE.svg), or folded stacks (any other name).",
)
@click.option("--folded", is_flag=True, help="With --for: print folded stacks (outermost;…;innermost COUNT).")
def command(
    options: TargetOptions, as_json: bool, timeout: float | None, glance: bool, seconds: float | None, **profiled: Any
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
    profile = ProfileOptions(seconds=seconds or 0.0, as_json=as_json, **profiled)
    profile.check()
    if seconds is not None:
        if glance:
            raise UsageError("--for and --glance exclude each other.", "use one of them")
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
        notes = sorted({_note(snapshot.stacks[thread]) for thread in group.threads} - {""})
        _print_group("thread", [_name(snapshot, thread) for thread in group.threads], group, notes, as_json=as_json)
    _tasks(snapshot, as_json=as_json)
    bare = [thread for thread in asked.values() if not thread.exited and thread.id not in snapshot.stacks]
    if bare and not as_json:
        click.echo(f"{len(bare)} without a stack: {_shortened([_name(snapshot, thread.id) for thread in bare])}")
    return _BLIND if failed else 0 if in_time else TIME_LIMIT


def _tasks(snapshot: Snapshot, *, as_json: bool) -> None:
    alive = {task.id: task for task in snapshot.tasks.values() if task.state is not TaskState.COMPLETED}
    for group in group_stacks([stack for stack in snapshot.stacks.values() if stack.thread in alive]):
        _print_group("task", [_task_name(alive[task]) for task in group.threads], group, (), as_json=as_json)


def _print_group(what: str, names: list[str], group: StackGroup, notes: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({f"{what}s": group.threads, "names": names, "frames": group.frames}))
        return
    click.echo(f"{many(len(names), what)}: {_shortened(names)}")
    for note in notes:
        click.echo(f"    ({note})")
    for number, frame in enumerate(group.frames):
        click.echo(f"    #{number:<3}{frame_text(frame)}")
    click.echo()


def _task_name(task: Task) -> str:
    awaits = task.attributes.get("awaits")
    return f"{task.name} (awaits {awaits})" if awaits else f"{task.name} ({task.state.value})"


def _request(options: TargetOptions, glance: bool) -> Request:
    """Return the request of a session: with a glance, one adapter takes all native stacks.

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
    """Return whether a thread is of the job, not of a process that only holds what the job waits for."""
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


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:_NAMES]) + (f", and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
