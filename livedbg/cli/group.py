"""The `livedbg` command group: lazy, from the command table."""

from __future__ import annotations

from importlib import import_module

import click

from livedbg import __version__
from livedbg.cli.table import COMMANDS

__all__ = ["livedbg"]


class _LazyGroup(click.Group):
    """Imports a command's module when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = import_module(f"livedbg.cli.{entry.module}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"livedbg.cli.{entry.module}.command is no click command")
        command.short_help = entry.summary
        width = max(len(line) for line, _ in entry.example)
        lines = "\n".join(f"  {line.ljust(width)}   {what}" for line, what in entry.example)
        command.epilog = f"\b\nExample:\n{lines}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in COMMANDS.values()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  livedbg attach 4711        what is process 4711 stuck on?
  livedbg report 4711        the same once, as text
  livedbg demo               a demo program that hangs

\b
Exit codes: 0 no problem found, 10 stall or deadlock, 11 crash, 12 wrong value or missing
dependency, 2 usage error, 3 target can't be inspected, 4 time limit reached.""",
)
@click.version_option(__version__, prog_name="livedbg")
def livedbg() -> None:
    """Debug a GPU or NPU job that hangs or throws, while it keeps running.

    TARGET is a PID, a process NAME that is unique on this host, or torchrun:PID.
    """
