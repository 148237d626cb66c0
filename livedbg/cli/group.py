"""The `livedbg` command group and the command table, from which help, completion and docs/commands are generated.

A command's module is imported only when the command runs, or its own help is asked for.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, Final

import click
from msgspec.structs import replace

from livedbg import __version__
from livedbg.model.errors import SourceError
from livedbg.model.foreign_code import in_words
from livedbg.session.systems import Command, Guide, Lazy, note_problem, systems

EXIT_CODES: dict[int, str] = {
    0: "no problem found, or done",
    5: "inconclusive: the verdict is `unknown`",
    10: "stall or deadlock",
    11: "crash, uncaught exception or non-zero exit status",
    12: "a wrong value or a missing dependency",
    2: "usage error",
    3: "a target, file or tool can't be used, or a source failed; the reason and the remedy are printed",
    4: "time limit reached before anything was known",
}
"""What the exit codes mean."""

_LOOKS = (0, 2, 3)
_CONCLUDES = (0, 5, 10, 11, 12, 2, 3)


def _core(
    name: str,
    summary: str,
    example: tuple[tuple[str, str], ...],
    exits: tuple[int, ...] = _LOOKS,
    exits_note: str = "",
) -> Command:
    """Return a command whose click command is `command` of the module of its name."""
    return Command(name, Lazy(f"livedbg.cli.{name}:command"), summary, example, exits, exits_note)


_CORE: Final = (
    _core(
        "attach",
        "Debug running processes or logs in the terminal app.",
        (("livedbg attach 4711", "process 4711 and its children"),),
    ),
    _core(
        "launch",
        "Start a command and debug it.",
        (
            ("livedbg launch -- python train.py", "in the terminal app"),
            (
                "livedbg launch --timeout 300 --report a.json -- python test.py",
                "kill a hung test, with a report",
            ),
            ("livedbg launch --repeat 20 --gpus 0-3 -- ./train", "is it the same point each time?"),
        ),
        (*_LOOKS, 10, 11, 4),
        "If CMD exits by itself, its exit code is returned. After --timeout: 10 for a hang, 11 for a crash, else 4.",
    ),
    _core(
        "ps",
        "List the GPU, NPU and ML processes of this host.",
        (("livedbg ps", "oldest first"), ("livedbg ps --json", "for scripts")),
    ),
    _core(
        "report",
        "Print one diagnosis as text, Markdown or JSON.",
        (
            ("livedbg report 4711", "what is process 4711 stuck on?"),
            ("livedbg report hang.livedbg --markdown", "the end of a recording, for a bug report"),
        ),
        (*_CONCLUDES, 4),
        "4 only if nothing was known within --timeout.",
    ),
    _core(
        "watch",
        "Print findings as they appear.",
        (
            ("livedbg watch 4711 --until stalled --timeout 600", "wait up to ten minutes for a stall"),
            ("livedbg watch 4711 --on-stall 'notify-send stuck'", "run a command on a stall"),
            ("livedbg watch 4711 --launches", "detect that kernel launches stop"),
        ),
        (*_CONCLUDES, 4),
        "The code of the last verdict, also after Ctrl-C and --timeout; 4 only if nothing was known by then.",
    ),
    _core(
        "stacks",
        "Print merged Python and native stacks of all threads.",
        (
            ("livedbg stacks 4711", "all threads"),
            ("livedbg stacks 4711 --for 10s", "the functions that take the CPU time"),
            ("livedbg stacks 4711 --for 10s --flame out.svg", "as a flame graph"),
            ("livedbg stacks 4711 --glance", "with native frames of running threads"),
            ("livedbg stacks 4711 --no-native --json", "Python frames only, as JSON"),
        ),
        (*_LOOKS, 4),
        "3 also if a source failed, 4 if some stacks were not taken in time; the others are printed.",
    ),
    _core(
        "catch",
        "Trace exceptions, function calls and signals, with stacks.",
        (
            ("livedbg catch 4711 std::runtime_error", "exceptions of this C++ type"),
            ("livedbg catch 4711 python:RuntimeError", "exceptions of a Python class"),
            ("livedbg catch 4711 any --count 3 --timeout 60 --json", "three C++ exceptions, as JSON"),
            ("livedbg catch 4711 abort", "calls of abort()"),
        ),
        (0, 2, 3, 4),
        "4 if nothing matched within --timeout, or fewer than --count.",
    ),
    _core(
        "recipes",
        "List launch presets: environment variables and wrappers for a debugging question.",
        (
            ("livedbg recipes", "list all recipes"),
            ("livedbg recipes 4711", "recipes that apply to process 4711"),
        ),
        (0, 2, 3),
    ),
    _core(
        "signatures",
        "List the failure texts that are known, show which match a text, and check a file of them.",
        (
            ("livedbg signatures", "list all signatures"),
            ("livedbg signatures --match train.log", "which match the lines of a log, and why"),
            ("livedbg signatures --check ./mine.toml", "is this file right, and its examples?"),
        ),
        (0, 12, 2, 3),
        "12 if --check finds a problem.",
    ),
    _core(
        "values",
        "Show, export and compare the tensors that a run dumped.",
        (
            ("livedbg values dfx_outputs", "list tensors by task"),
            ("livedbg values dfx_outputs --task r1t2 --stats --numbers", "values of one task"),
            ("livedbg values dfx_outputs --task r1t2 --role output --export c.npy", "export one tensor"),
            ("livedbg values dfx_outputs --against ../good/dfx_outputs", "first task that differs"),
            ("livedbg values args.bin --as bfloat16 --shape 16,64", "a .bin without manifest"),
        ),
        (0, 12, 2, 3),
        "12 if --against finds a difference.",
    ),
    _core(
        "graph",
        "Draw the task graph of a run and report missing dependencies.",
        (
            ("livedbg graph dfx_outputs", "tasks in layers, and missing dependencies"),
            ("livedbg graph deps.json --against good.json", "edges that only one of two runs has"),
            ("livedbg graph deps.json -o graph.html", "HTML page with zoom and search"),
            ("livedbg graph deps.json --task r1t2 -o near.dot", "neighbourhood of one task, for Graphviz"),
        ),
        (0, 12, 2, 3),
        "12 if a dependency is missing.",
    ),
    _core(
        "record",
        "Record a session to a file.",
        (("livedbg record 4711 -o hang.livedbg --for 60", "record one minute"),),
        exits_note="0 after Ctrl-C.",
    ),
    _core(
        "replay",
        "Replay a recording in the terminal app.",
        (("livedbg replay hang.livedbg", "opens at the end; p plays"),),
    ),
    _core(
        "doctor",
        "Check permissions and tools on this host, and show how to fix what is missing.",
        (("livedbg doctor", "check this host"), ("livedbg doctor 4711", "and what can be seen of process 4711")),
    ),
    _core(
        "demo",
        "Start a demo program that hangs, and attach to it.",
        (("livedbg demo", "a C++ program: deadlock of three threads"),),
        _LOOKS,
        "Without a terminal: 1 if no hang was found.",
    ),
    _core(
        "completion",
        "Print a completion script for bash, zsh or fish.",
        (('eval "$(livedbg completion bash)"', "enable completion in this shell"),),
    ),
)
"""The commands of livedbg itself."""


class _GuideCommand(Lazy[Any]):
    """The click command of a guide, made on first use."""

    def __init__(self, guide: Guide) -> None:
        super().__init__(f"livedbg.cli.guide:command_of({guide.name})")
        self._guide = guide

    @cached_property
    def value(self) -> Any:
        from livedbg.cli.guide import command_of

        return command_of(self._guide)


def _of_guide(guide: Guide) -> Command:
    note = "10 if a step's run did not end, 12 if a wrong value was found, 11 if the last run failed, else 0."
    exits: tuple[int, ...] = (*_LOOKS, 10, 11, 12)
    if guide.plan is not None:
        note = (
            "10 if a run did not end, 12 if a wrong value was found, 11 if a run failed, 5 if a step lacks something."
        )
        exits = (*exits, 5)
    return Command(guide.name, _GuideCommand(guide), guide.summary, guide.example, exits, note, after="recipes")


@cache
def commands() -> dict[str, Command]:
    """Return all commands by name, in the order of the help; a system's command comes after the one that it names."""
    found = list(_CORE)
    for system in systems():
        for command in (*system.commands, *map(_of_guide, system.guides)):
            names = [known.name for known in found]
            if command.name in names:
                note_problem(system.name, f"there is another command called {command.name}", None)
            else:
                found.insert(names.index(command.after) + 1 if command.after in names else len(found), command)
    listed = {command.name: command for command in found}
    for system in systems():
        for name, examples in system.examples.items():
            if name in listed:
                listed[name] = replace(listed[name], example=(*listed[name].example, *examples))
            else:
                note_problem(system.name, f"it has examples for {name}, which is no command", None)
    return listed


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = commands().get(cmd_name)
        if entry is None:
            return None
        try:
            command = entry.where.value
        except Exception as error:  # of another package: systems.Y2
            raise SourceError(f"Command {cmd_name} can't be used: {in_words(error)}.", "livedbg doctor") from error
        if not isinstance(command, click.Command):
            raise SourceError(f"{entry.where.where} is not a click command.", "livedbg doctor")
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
