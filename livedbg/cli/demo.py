"""`livedbg demo`: a program that hangs, and livedbg attached to it."""

from __future__ import annotations

import sys
import time
from typing import Final

import click

from livedbg.app.options import AppOptions
from livedbg.cli.attach import app_options
from livedbg.cli.report import render
from livedbg.commands.output import code_of
from livedbg.commands.signals import quit_on_signals, running
from livedbg.demos.workloads import all_demos, started
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView

_PATIENCE_S: Final = 90.0  # a busy box needs long to see it
_FOUND: Final = (10, 11, 12)  # exit codes of a hang, a crash, a difference: each demo ends in one, after some `unknown`
_DEMOS: Final = all_demos()
_LIST: Final = "\n".join(f"  {demo.name:<10}{demo.summary}" for demo in _DEMOS.values())


@click.command(
    "demo",
    help=f"""Start a demo program that hangs, and attach to it. It is killed when livedbg quits.

Without a terminal, print the report instead.

\b
{_LIST}
""",
)
@click.argument("name", type=click.Choice(list(_DEMOS)), default="deadlock")
@app_options
def command(name: str, screen: AppOptions) -> int:
    """Start a demo; see the command's help."""
    with quit_on_signals(), started(name) as (child, logs):
        request = Request(host=host_name(), processes=(child.target,), logs=logs)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from livedbg.app import run

            return run(LiveView(request, title=f"{host_name()}:{child.pid} demo {name}"), screen)
        click.echo(f"{name}: {_DEMOS[name].summary} (pid {child.pid})\n")
        with running(request) as view:
            end = time.monotonic() + _PATIENCE_S
            view.wait_settled(_PATIENCE_S)
            while code_of(update := view.latest()) not in _FOUND and time.monotonic() < end:
                time.sleep(0.2)
        click.echo(render(update, "text"))
        return 0 if code_of(update) in _FOUND else 1
