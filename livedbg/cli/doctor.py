"""`livedbg doctor`: checks of permissions and tools on this host."""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from livedbg.cli.target_options import TargetOptions, redact_option
from livedbg.commands.signals import running
from livedbg.model import SourceHealth
from livedbg.probes.clock_samples import refused_here
from livedbg.session.hostinfo import Capability, capabilities
from livedbg.session.systems import declared, note_problem, problems
from livedbg.session.targets import resolve
from livedbg.text.wording import many
from livedbg.touch.config import ban_of, files
from livedbg.unwind.helper_process import usable


@click.command("doctor")
@click.argument("target", required=False)
@click.option("--gdb", metavar="PATH", help="gdb to check.")
@redact_option
def command(target: str | None, gdb: str | None, redact: bool) -> int:
    """Check permissions and tools on this host, and show how to fix what is missing.

    With a TARGET, also check what can be seen of that process, and which of its settings have no effect.
    """
    facts = [*own_facts(), *capabilities(), _samples(), *_system_facts(), _intrusive_actions()]
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        click.echo(f"{'ok ' if fact.ok else '-- '} {fact.name:<{width}}  {fact.value}")
        if not fact.ok:
            click.echo(f"    {'':<{width}}without it: no {fact.enables}")
            click.echo(f"    {'':<{width}}try: {fact.remedy}")
    for problem in problems(thorough=True):
        click.echo(f"--  {problem.sentence}\n    try: {problem.remedy}")
    if target is not None:
        _target(target, gdb, redact=redact)
    return 0


def own_facts() -> list[Capability]:
    """Return facts about livedbg itself, its tools and this terminal."""
    spy = next(
        (
            path
            for path in (Path(sys.executable).parent / "py-spy", shutil.which("py-spy"))
            if path and Path(path).exists()
        ),
        None,
    )
    encoding = locale.getpreferredencoding(False)
    term = os.environ.get("TERM", "")
    size = shutil.get_terminal_size()
    return [
        Capability("livedbg", True, f"{version('livedbg')} on Python {platform.python_version()}", ""),
        Capability(
            "py-spy",
            spy is not None,
            f"{spy} {version('py-spy')}" if spy else "missing",
            "Python stacks",
            "" if spy else "pip install py-spy",
        ),
        Capability(
            "drgn",
            usable(),
            version("drgn") if usable() else "missing",
            "native stacks without gdb",
            "" if usable() else "pip install drgn   (x86-64), or install gdb",
        ),
        Capability("C library", True, " ".join(platform.libc_ver()) or "unknown", ""),
        Capability(
            "terminal",
            term not in {"", "dumb"},
            f"TERM={term or 'not set'}, {encoding}, {size.columns}x{size.lines}",
            "terminal app (`report` and `watch` work without it)",
            "" if term not in {"", "dumb"} else "export TERM=xterm-256color",
        ),
    ]


def _samples() -> Capability:
    why = refused_here()
    enables = "native stacks of running threads without a stop"
    if why is None:
        return Capability("samples", True, "allowed: running threads are sampled without a stop", enables)
    return Capability("samples", False, why.sentence, enables, why.remedy)


def _system_facts() -> Iterator[Capability]:
    for system, checks in declared(lambda system: system.checks):
        try:
            yield from checks()
        except Exception as error:  # systems.Y2: a system that fails is a problem, and ends nothing
            note_problem(system.name, "its checks failed", error)


def _intrusive_actions() -> Capability:
    ban = ban_of()
    value = (
        f"allowed ({' and '.join(map(str, files()))} do not forbid them)" if ban is None else f"forbidden by {ban.by}"
    )
    enables = "catchpoints, glances, stops"
    return Capability("intrusive actions", ban is None, value, enables, "" if ban is None else ban.remedy)


def _target(word: str, gdb: str | None, *, redact: bool) -> None:
    found = resolve([word])
    click.echo()
    for problem in found.problems:
        click.echo(f"--  {problem.message}\n    try: {problem.remedy}")
    with running(TargetOptions(found=found, redact=redact, gdb=gdb).request(once=True)) as view:
        view.wait_settled(30.0)
        snapshot = view.latest().snapshot
    for process in snapshot.processes.values():
        notes = f" ({', '.join(process.notes)})" if process.notes else ""
        click.echo(f"ok  {process.pid} {' '.join(process.command) or process.exe or '?'}{notes}")
    waiting = [thread for thread in snapshot.threads.values() if thread.waits_in]
    stacks = len(snapshot.stacks)
    click.echo(f"    {many(len(snapshot.threads), 'thread')}, {len(waiting)} blocked, {many(stacks, 'stack')} taken")
    for one in snapshot.diagnostics.values():
        if any(evidence.kind == "environment" for evidence in one.evidence) and not one.resolved:
            click.echo(f"--  {one.sentence}")
    for status in snapshot.statuses.values():
        if status.sentence:
            sign = "ok " if status.health is SourceHealth.OK else "-- "
            click.echo(f"{sign} {status.source}: {status.sentence}")
            if status.remedy:
                click.echo(f"    try: {status.remedy}")
