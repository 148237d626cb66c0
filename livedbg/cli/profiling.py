"""`livedbg stacks --for`: what the threads of a target spend their CPU time in, by samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from livedbg.analysis.profile import FunctionShare, Profile, function_shares, profile_of
from livedbg.cli.hits import frame_text
from livedbg.commands.messages import warn
from livedbg.commands.output import write
from livedbg.commands.sessions import started
from livedbg.commands.signals import quit_on_signals
from livedbg.commands.time_limit import TimeLimit
from livedbg.model import SourceHealth
from livedbg.model.errors import UsageError
from livedbg.model.events import Event, SamplesSeen
from livedbg.model.intents import SAMPLES_FOR, SAMPLES_RATE
from livedbg.model.profiles import ProfileSlice
from livedbg.model.snapshot import Snapshot
from livedbg.report.flame import flame_svg, folded
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.registry import adapter_classes
from livedbg.session.unwinders import no_unwinder
from livedbg.text.json_text import json_line
from livedbg.text.wording import many

_BLIND: Final = 3
"""Exit code: the source has failed, or may not be read."""

_ROWS: Final = 25
_STACKS: Final = 3
_FRAMES: Final = 12
_ADAPTERS: Final = ("proc", "samples")


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How to print a profile.

    Attributes:
        seconds: how long to sample; None where no profile was asked for.
        rate_hz: samples a second of CPU time; None for the usual rate.
        flame: a file for the flame graph (`.svg`) or for folded stacks (any other name).
        folded: print folded stacks instead of the table.
        per_thread: each thread by itself.
        as_json: print JSON.
    """

    seconds: float | None = None
    rate_hz: int | None = None
    flame: Path | None = None
    folded: bool = False
    per_thread: bool = False
    as_json: bool = False

    def check(self) -> None:
        """Refuse what means nothing.

        Raises:
            UsageError: options that need or exclude each other.
        """
        given = {
            "--flame": self.flame,
            "--folded": self.folded,
            "--per-thread": self.per_thread,
            "--rate": self.rate_hz,
        }
        needs = [name for name, value in given.items() if value]
        if self.seconds is None and needs:
            raise UsageError(f"{needs[0]} needs --for.", "livedbg stacks PID --for 10s", "usage")
        if self.folded and self.as_json:
            raise UsageError("--folded and --json exclude each other.", "use one of them", "usage")


def print_profile(request: Request, options: ProfileOptions, limit: TimeLimit) -> int:
    """Sample a target for some time, and print what it spent its CPU time in.

    Args:
        request: of the session.
        options: what to print.
        limit: of the whole command.

    Returns:
        The exit code.

    Raises:
        UsageError: options exclude each other.
        LivedbgError: there is nothing that unwinds; a file can't be written.
    """
    assert options.seconds is not None
    if request.stacks != "native" or "samples" not in adapter_names(request):
        raise UsageError("--for needs samples and native frames.", "leave out --no-samples and --no-native", "usage")
    if (missing := no_unwinder(request)) is not None:
        raise missing
    rate = {SAMPLES_RATE: str(options.rate_hz)} if options.rate_hz else {}
    request = replace(request, options={**request.options, SAMPLES_FOR: str(options.seconds), **rate})
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
    """The adapters that a session with this request would run."""
    return {name for name, cls in adapter_classes(once=True).items() if cls.applies(request)}


def _print(snapshot: Snapshot, slices: Sequence[ProfileSlice], options: ProfileOptions) -> None:
    assert options.seconds is not None
    whole = profile_of(slices)
    if not whole.samples:
        warn(
            f"No thread ran in user space in {options.seconds:g} s: all were blocked, or in the kernel.",
            "livedbg stacks PID",
        )
    elif whole.unknown:
        warn(f"{whole.unknown} of {many(whole.samples, 'sample')} have no stack; the shares count them.")
    groups = [("", whole)]
    if options.per_thread:
        groups = [(_name(snapshot, thread), profile) for thread, profile in _by_thread(slices)]
    if options.flame is not None:
        _write_flame(snapshot, groups, whole, options)
    if options.folded:
        for line in _folded(groups):
            click.echo(line)
        return
    if options.as_json:
        threads = [thread for thread, _ in _by_thread(slices)] if options.per_thread else [None]
        for thread, (name, profile) in zip(threads, groups, strict=True):
            click.echo(json_line(_json(thread, name, profile, slices)))
        return
    for name, profile in groups:
        if profile.samples:
            _table(name, profile, slices, options.seconds)


def _by_thread(slices: Sequence[ProfileSlice]) -> list[tuple[str, Profile]]:
    """The profile of each thread, that with the most CPU time first."""
    threads: dict[str, list[ProfileSlice]] = {}
    for one in slices:
        threads.setdefault(one.thread, []).append(one)
    found = [(thread, profile_of(own)) for thread, own in threads.items()]
    return sorted(found, key=lambda one: -one[1].cpu_ns)


def _name(snapshot: Snapshot, thread: str) -> str:
    known = snapshot.threads.get(thread)
    return f"{known.tid} {known.title}" if known is not None else thread.rpartition("/")[2]


def _table(name: str, profile: Profile, slices: Sequence[ProfileSlice], seconds: float) -> None:
    threads = len({one.thread for one in slices})
    of = f"thread {name}" if name else many(threads, "running thread")
    click.echo(f"{many(profile.samples, 'sample')} of {of} in {seconds:g} s, {profile.cpu_ns / 1e9:.2f} s of CPU time")
    click.echo()
    shares = function_shares(profile)
    rows = [(f"{one.own:.1%}", f"{one.total:.1%}", one.function, _where(one)) for one in shares[:_ROWS]]
    wide = min(60, max((len(row[2]) for row in rows), default=0))
    click.echo(f"{'own':>6} {'total':>6}  {'function':<{wide}}  at")
    for own, total, function, where in rows:
        shown = function if len(function) <= wide else function[: wide - 1] + "…"
        click.echo(f"{own:>6} {total:>6}  {shown:<{wide}}  {where}".rstrip())
    if len(shares) > _ROWS:
        click.echo(f"{len(shares) - _ROWS} more functions; --json has all of them")
    click.echo()
    for stack in profile.stacks[:_STACKS]:
        click.echo(f"{stack.samples / profile.samples:.1%} of the samples{'' if stack.whole else ' (partial stack)'}:")
        for number, frame in enumerate(stack.frames[:_FRAMES]):
            click.echo(f"    #{number:<3}{frame_text(frame)}")
        if len(stack.frames) > _FRAMES:
            click.echo(f"    {len(stack.frames) - _FRAMES} outer frames more")
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
    about = f"{many(whole.samples, 'sample')} in {options.seconds:g} s, {whole.cpu_ns / 1e9:.2f} s of CPU time"
    write(flame_svg([(name, profile.stacks) for name, profile in groups], title, about), options.flame)


def _json(thread: str | None, name: str, profile: Profile, slices: Sequence[ProfileSlice]) -> dict[str, object]:
    return {
        "thread": thread,
        "name": name or None,
        "threads": sorted({one.thread for one in slices}) if thread is None else [thread],
        "samples": profile.samples,
        "without_stack": profile.unknown,
        "cpu_ms": round(profile.cpu_ns / 1e6, 3),
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
