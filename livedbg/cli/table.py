"""The command table: help, completion and docs/commands are made from it.

A command's module is imported only when the command runs (or its own help is asked for), so that
`livedbg --help` imports click alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMANDS", "CommandEntry"]


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command.

    Attributes:
        module: module of livedbg.cli whose `command` is the click command.
        summary: one line for the list of commands.
        example: what stands in its help as an example, command first, then what it does.
    """

    name: str
    module: str
    summary: str
    example: tuple[tuple[str, str], ...]


COMMANDS: dict[str, CommandEntry] = {
    entry.name: entry
    for entry in (
        CommandEntry(
            "attach",
            "attach",
            "The terminal app on running processes or on logs.",
            (
                ("livedbg attach 4711", "look at process 4711 and its children"),
                ("livedbg attach --logs ./ascend-log", "look at the logs of a run that left no process"),
            ),
        ),
        CommandEntry(
            "launch",
            "launch",
            "Start a command and attach to it.",
            (
                ("livedbg launch -- python train.py", "start and watch it"),
                (
                    "livedbg launch --timeout 300 --report a.json -- python test.py",
                    "end a hung test, report first",
                ),
            ),
        ),
        CommandEntry(
            "ps",
            "ps",
            "What could be attached to: GPU, NPU and ML processes.",
            (("livedbg ps", "list them"), ("livedbg ps --json", "the same for a program")),
        ),
        CommandEntry(
            "report",
            "report",
            "One look, no screen: text, Markdown or JSON, and an exit code.",
            (
                ("livedbg report 4711", "what is stuck, in words"),
                ("livedbg report --logs ./ascend-log --json", "what the logs say, as livedbg.report/1"),
                ("livedbg report hang.livedbg --markdown", "a recording's end, for a bug report"),
            ),
        ),
        CommandEntry(
            "watch",
            "watch",
            "Print findings as they come.",
            (
                ("livedbg watch 4711 --until stalled --timeout 600", "wait for a stall, ten minutes at most"),
                ("livedbg watch 4711 --on-stall 'notify-send stuck'", "run a command when it stalls"),
            ),
        ),
        CommandEntry(
            "stacks",
            "stacks",
            "Stacks of all threads, Python and native merged, equal ones together.",
            (
                ("livedbg stacks 4711", "all threads"),
                ("livedbg stacks 4711 --no-native --json", "Python frames, as JSON"),
            ),
        ),
        CommandEntry(
            "record",
            "record",
            "Write what is seen to a file, to be replayed elsewhere.",
            (("livedbg record 4711 -o hang.livedbg --for 60", "record a minute"),),
        ),
        CommandEntry(
            "replay",
            "replay",
            "Show a recording in the same screens, with a time line.",
            (("livedbg replay hang.livedbg", "look at it from its end; p plays"),),
        ),
        CommandEntry(
            "doctor",
            "doctor",
            "What this box allows and lacks, with the command that mends it.",
            (("livedbg doctor", "this box"), ("livedbg doctor 4711", "this box, and what can be seen of a process")),
        ),
        CommandEntry(
            "demo",
            "demo",
            "Start a really stuck workload and attach to it.",
            (
                ("livedbg demo", "a C++ program with three locks in a cycle"),
                ("livedbg demo ascend", "a recorded Ascend hang"),
            ),
        ),
        CommandEntry(
            "completion",
            "completion",
            "Shell completion for bash, zsh or fish.",
            (('eval "$(livedbg completion bash)"', "complete in this shell"),),
        ),
    )
}
