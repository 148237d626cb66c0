"""`livedbg device`: GPU state from a core dump, from a requested core dump, or from an attached cuda-gdb."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import click

from livedbg.adapters.cuda.cudagdb.core_dump import CoreFile, open_core, sample_attached, sort_cores
from livedbg.adapters.cuda.cudagdb.device_state import compare_states
from livedbg.adapters.cuda.cudagdb.dump_files import find_dump_pipe
from livedbg.adapters.cuda.cudagdb.dump_request import read_dump, refuse_abort, request_dump
from livedbg.adapters.cuda.cudagdb.engine import find_cuda_gdb
from livedbg.adapters.cuda.cudagdb.state_text import events_of, state_text
from livedbg.analysis.rules.base import Settings
from livedbg.commands.output import TIME_LIMIT, warn
from livedbg.commands.signals import quit_on_signals
from livedbg.gdbmi.errors import GdbTimeout
from livedbg.model import Intrusion
from livedbg.model.devices import DeviceState
from livedbg.model.errors import SourceError, TouchRefused, UsageError
from livedbg.model.events import Stamper, Touched
from livedbg.recording.recorder import Recorder
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.targets import resolve
from livedbg.text.json_text import json_line
from livedbg.touch.config import refuse_touch

_STALLED, _CRASHED = 10, 11


@click.command("device")
@click.argument("words", nargs=-1, metavar="CORE [HOST_CORE] | TARGET")
@click.option(
    "--dump",
    "by_dump",
    is_flag=True,
    help="Request a core dump from the CUDA driver; kernels are stopped while it is written.",
)
@click.option(
    "--dump-only",
    is_flag=True,
    help="Like --dump, but print the path instead of reading the dump (no cuda-gdb needed).",
)
@click.option("--again", type=click.FloatRange(0), metavar="SECONDS", help="Dump again after SECONDS, and compare.")
@click.option("--may-abort", is_flag=True, help="Dump even if the driver may abort the process afterwards.")
@click.option(
    "--attach", "by_attach", is_flag=True, help="Attach cuda-gdb; stops the process and its GPUs. Not tested on a GPU."
)
@click.option("--read-only", is_flag=True, help="Forbid intrusive actions.")
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True, metavar="SECONDS", help="Time limit."
)
@click.option("--gdb", metavar="PATH", help="cuda-gdb to use.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Also write a recording to FILE.")
def command(
    words: tuple[str, ...],
    by_dump: bool,
    dump_only: bool,
    again: float | None,
    may_abort: bool,
    by_attach: bool,
    read_only: bool,
    timeout: float,
    gdb: str | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Print the state of the GPUs: exceptions, kernels, and the program counters of their warps.

    CORE is a GPU core dump. cuda-gdb reads it; no GPU is needed. For a live TARGET, --dump requests a core dump from
    the CUDA driver; the process must have been started with CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1. The driver stops its
    kernels while it writes; host threads continue. --dump and --attach are intrusive actions, recorded in the ledger.
    """
    if not words:
        raise UsageError("Missing a core dump or a process.", "livedbg device core_*.nvcudmp", "usage")
    way = "--attach" if by_attach else "--dump" if by_dump or dump_only else ""
    once = dump_only or not by_dump
    for wrong, sentence, remedy in (
        (by_attach and (by_dump or dump_only), "--dump and --attach exclude each other.", "use one of them"),
        (may_abort and way != "--dump", "--may-abort needs --dump.", "livedbg device PID --dump --may-abort"),
        (once and again is not None, "--again needs --dump.", "livedbg device PID --dump --again 15"),
        (dump_only and (as_json or output is not None), "--dump-only excludes --json and --output.", "use --dump"),
    ):
        if wrong:
            raise UsageError(sentence, remedy, "usage")
    if way:
        refuse_touch(Request(host=host_name(), read_only=read_only), f"{way} stops the kernels of a process")
    if output is not None and output.exists():
        raise UsageError(f"{output} already exists.", "choose another name, or remove it", "usage")
    touches: list[Intrusion] = []
    stamper = Stamper(host_name())
    try:
        with quit_on_signals():
            if way:
                state = asyncio.run(_live(touches, words, gdb, way, dump_only, may_abort, again, timeout))
            else:
                gpu, host = _cores(words)
                target = f"file:{gpu.path.absolute()}"
                state = asyncio.run(open_core(find_cuda_gdb(gdb), gpu, host, target, limit_s=timeout))
    except GdbTimeout as error:
        warn(error.message, error.remedy)
        return TIME_LIMIT
    finally:
        for touch in touches:
            measured = "at most " if touch.measured else ""
            warn(f"{touch.what}: {touch.target} paused for {measured}{touch.paused_ns / 1e9:.2f} s")
    if state is None:
        return 0
    if output is not None:
        touched = [Touched(intrusion=touch, **stamper()) for touch in touches]
        _record(output, [*touched, *events_of(state, stamper())], state)
    click.echo(json_line(state) if as_json else state_text(state))
    return _code(state)


def _code(state: DeviceState) -> int:
    """Return the exit code: for an exception, or for a kernel that hangs by the rule `device-hang`."""
    if state.faults:
        return _CRASHED
    since_ns = [kernel.still_since_wall_ns for kernel in state.kernels if kernel.still_since_wall_ns]
    taken_ns = state.taken_wall_ns or 0
    return _STALLED if since_ns and taken_ns - min(since_ns) >= Settings().task_stall_ns else 0


def _cores(words: tuple[str, ...]) -> tuple[CoreFile, CoreFile | None]:
    if len(words) == 1 and words[0].isdigit() and not Path(words[0]).exists():
        raise TouchRefused(
            f"Reading the GPU state of process {words[0]} is intrusive; choose how.",
            f"livedbg device {words[0]} --dump   (the driver stops kernels while it writes a core dump), or --attach",
            "ask-for-it",
        )
    if len(words) > 2:
        raise UsageError("Too many files.", "give one GPU core dump, and optionally the host's core dump", "usage")
    return sort_cores([Path(word).expanduser() for word in words])


async def _live(
    touches: list[Intrusion],
    words: tuple[str, ...],
    gdb: str | None,
    way: str,
    dump_only: bool,
    may_abort: bool,
    again_s: float | None,
    timeout_s: float,
) -> DeviceState | None:
    if len(words) != 1:
        raise UsageError(f"{way} takes exactly one process.", f"livedbg device PID {way}", "usage")
    path = None if dump_only else find_cuda_gdb(gdb)
    pid = resolve(words).processes[0].pid
    target = f"process:{host_name()}/{pid}"
    if way == "--attach":
        assert path is not None
        return await sample_attached(path, pid, target, touches.append, timeout_s)
    place = find_dump_pipe(pid)
    if not may_abort:
        refuse_abort(place)
    dumped = await request_dump(place, target, touches.append, timeout_s)
    if path is None:
        click.echo(str(dumped.path))
        return None
    first = await read_dump(path, dumped, place, target, timeout_s)
    if again_s is None:
        return first
    await asyncio.sleep(max(0.0, again_s - (time.time_ns() - (first.taken_wall_ns or 0)) / 1e9))
    dumped = await request_dump(find_dump_pipe(pid), target, touches.append, timeout_s)
    return compare_states(first, await read_dump(path, dumped, place, target, timeout_s))


def _record(output: Path, events: list[Any], state: DeviceState) -> None:
    recorder = Recorder(output, host_name(), f"device {state.path or state.target}")
    try:
        recorder(events)
    finally:
        recorder.close()
    if recorder.failed:
        raise SourceError(f"{recorder.failed}; {output} is incomplete.", "free disk space")
