"""The `livedbg` command group: lazy, from the command table."""

from __future__ import annotations

import click

from livedbg import __version__
from livedbg.cli.table import commands
from livedbg.model.errors import SourceError
from livedbg.model.foreign_code import in_words

__all__ = ["livedbg"]


class _LazyGroup(click.Group):
    """Imports a command's module when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = commands().get(cmd_name)
        if entry is None:
            return None
        try:
            command = entry.where.value
        except Exception as error:  # of another package: systems.Y2
            raise SourceError(
                f"Command {cmd_name} can't be used: {in_words(error)}.", "livedbg doctor", "command"
            ) from error
        if not isinstance(command, click.Command):
            raise SourceError(f"{entry.where.where} is not a click command.", "livedbg doctor", "command")
        command.short_help = entry.summary
        width = max(len(line) for line, _ in entry.example)
        lines = "\n".join(f"  {line.ljust(width)}   {what}" for line, what in entry.example)
        command.epilog = f"\b\nExample:\n{lines}"
        return command

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from livedbg.session.targets import target_forms  # only the help needs it

        if self.help:
            self.help = self.help.replace("{target_forms}", target_forms())
        super().format_help_text(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in commands().values()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  livedbg attach 4711        what is process 4711 stuck on?
  livedbg report 4711        the same once, as text
  livedbg demo               a demo program that hangs

\b
Exit codes: 0 no problem found, 5 inconclusive, 10 stall or deadlock, 11 crash or non-zero exit
status, 12 wrong value or missing dependency, 2 usage error, 3 target can't be inspected or a
source failed, 4 time limit reached before anything was known.""",
)
@click.version_option(__version__, prog_name="livedbg")
def livedbg() -> None:
    """Debug a GPU or NPU job that hangs or throws, while it keeps running.

    TARGET is {target_forms}.
    """
