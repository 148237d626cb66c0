"""The command table: help, completion and docs/commands are made from it.

A command's module is imported only when the command runs, or its own help is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from livedbg.session.systems import Command, Lazy, note_problem, systems

__all__ = ["EXIT_CODES", "commands"]

EXIT_CODES: dict[int, str] = {
    0: "nothing wrong found, or done",
    10: "a stall or a deadlock",
    11: "a crash or an uncaught exception",
    12: "a precision or dependency finding",
    2: "the command line asks for something impossible",
    3: "the target, a file or a tool can't be used; standard error says why, and what to do",
    4: "a time limit ended it",
}
"""What the exit codes mean."""

_LOOKS = (0, 2, 3)
_CONCLUDES = (0, 10, 11, 12, 2, 3)


def _core(
    name: str,
    summary: str,
    example: tuple[tuple[str, str], ...],
    exits: tuple[int, ...] = _LOOKS,
    exits_note: str = "",
) -> Command:
    """A command whose click command is `command` of the module of its name."""
    return Command(name, Lazy(f"livedbg.cli.{name}:command"), summary, example, exits, exits_note)


_CORE: Final = (
    _core(
        "attach",
        "The terminal app on running processes or on logs.",
        (
            ("livedbg attach 4711", "look at process 4711 and its children"),
            ("livedbg attach --logs ./ascend-log", "look at the logs of a run that left no process"),
        ),
    ),
    _core(
        "launch",
        "Start a command and attach to it.",
        (
            ("livedbg launch -- python train.py", "start and watch it"),
            (
                "livedbg launch --timeout 300 --report a.json -- python test.py",
                "end a hung test, report first",
            ),
            ("livedbg launch --repeat 20 --gpus 0-3 -- ./train", "always the same point?"),
        ),
        (*_LOOKS, 10, 11, 4),
        "When CMD ended by itself, its own exit code; 10 and 11 with --repeat.",
    ),
    _core(
        "ps",
        "What could be attached to: GPU, NPU and ML processes.",
        (("livedbg ps", "list them"), ("livedbg ps --json", "the same for a program")),
    ),
    _core(
        "report",
        "One look, no screen: text, Markdown or JSON, and an exit code.",
        (
            ("livedbg report 4711", "what is stuck, in words"),
            ("livedbg report --logs ./ascend-log --json", "what the logs say, as livedbg.report/1"),
            ("livedbg report hang.livedbg --markdown", "a recording's end, for a bug report"),
        ),
        (*_CONCLUDES, 4),
        "4 only when nothing was found by then.",
    ),
    _core(
        "watch",
        "Print findings as they come.",
        (
            ("livedbg watch 4711 --until stalled --timeout 600", "wait for a stall, ten minutes at most"),
            ("livedbg watch 4711 --on-stall 'notify-send stuck'", "run a command when it stalls"),
            ("livedbg watch 4711 --launches", "its launches too: do they stop?"),
        ),
        (*_CONCLUDES, 4),
        "The code of the last verdict, after Ctrl-C too; 4 when --timeout ended it, whatever was found.",
    ),
    _core(
        "stacks",
        "Stacks of all threads, Python and native merged, equal ones together.",
        (
            ("livedbg stacks 4711", "all threads"),
            ("livedbg stacks 4711 --glance", "native frames of running threads too"),
            ("livedbg stacks 4711 --no-native --json", "Python frames, as JSON"),
        ),
        (*_LOOKS, 4),
        "4 when not every stack was taken in time; those that were are printed.",
    ),
    _core(
        "catch",
        "Exceptions of a type, as they are thrown, without a stop or with a look at the thread.",
        (
            ("livedbg catch 4711 std::runtime_error", "with message and stack, until Ctrl-C"),
            ("livedbg catch 4711 python:RuntimeError", "a Python exception where it is raised"),
            ("livedbg catch 4711 any --count 3 --timeout 60 --json", "three C++ exceptions, as JSON"),
            ("livedbg catch 4711 abort", "who calls abort()"),
            ("livedbg catch 4711 c10::Error --stop", "one, with variables and source"),
        ),
        (0, 2, 3, 4),
    ),
    _core(
        "recipes",
        "Ways of launching that answer a question.",
        (
            ("livedbg recipes", "all of them"),
            ("livedbg recipes nvfuser-dump", "what one sets, costs and shows"),
            ("livedbg launch --recipe nvfuser-trace -- python bench.py", "use one"),
            ("livedbg recipes 4711", "those that fit a process"),
        ),
        (0, 2, 3),
    ),
    _core(
        "values",
        "Tensors that a run dumped: shown, exported, compared.",
        (
            ("livedbg values dfx_outputs", "what was dumped, by task"),
            ("livedbg values dfx_outputs --task r1t2 --stats --numbers", "one task's values"),
            ("livedbg values dfx_outputs --task r1t2 --role output --export c.npy", "one tensor as a file"),
            ("livedbg values dfx_outputs --against ../good/dfx_outputs", "which task went wrong"),
            ("livedbg values args.bin --as bfloat16 --shape 16,64", "a .bin without manifest"),
        ),
        (0, 12, 2, 3),
        "12 when --against finds a difference.",
    ),
    _core(
        "graph",
        "A run's task graph as text, Graphviz, HTML or JSON, and what it lacks.",
        (
            ("livedbg graph dfx_outputs", "tasks in layers, and what is missing"),
            ("livedbg graph deps.json --against good.json", "edges that only one of two runs has"),
            ("livedbg graph deps.json -o graph.html", "one page to move, zoom and search in"),
            ("livedbg graph deps.json --task r1t2 -o near.dot", "what is around a task, for Graphviz"),
        ),
        (0, 12, 2, 3),
        "12 when a dependency is missing.",
    ),
    _core(
        "record",
        "Write what is seen to a file, to be replayed elsewhere.",
        (("livedbg record 4711 -o hang.livedbg --for 60", "record a minute"),),
        exits_note="Ctrl-C ends it with 0.",
    ),
    _core(
        "replay",
        "Show a recording in the same screens, with a time line.",
        (("livedbg replay hang.livedbg", "look at it from its end; p plays"),),
    ),
    _core(
        "doctor",
        "What this box allows and lacks, with the command that mends it.",
        (("livedbg doctor", "this box"), ("livedbg doctor 4711", "this box, and what can be seen of a process")),
    ),
    _core(
        "demo",
        "Start a really stuck workload and attach to it.",
        (
            ("livedbg demo", "a C++ program with three locks in a cycle"),
            ("livedbg demo ascend", "a recorded Ascend hang"),
        ),
        _LOOKS,
        "Without a terminal: 1 when the workload was not found to be stuck.",
    ),
    _core(
        "completion",
        "Shell completion for bash, zsh or fish.",
        (('eval "$(livedbg completion bash)"', "complete in this shell"),),
    ),
)
"""The commands of livedbg itself."""


@cache
def commands() -> dict[str, Command]:
    """All commands by name, in the order of the help: ours, and each of a system behind the one that it names."""
    known = {command.name: command for command in _CORE}
    for system in systems():
        for command in system.commands:
            if known.setdefault(command.name, command) is not command:
                note_problem(system.name, f"there is another command called {command.name}", None)
    order = (name for first in known.values() if first.after not in known for name in _line(first, known))
    return {name: known[name] for name in (*order, *known)}  # those that follow one another in a cycle come last


def _line(first: Command, known: Mapping[str, Command]) -> Iterator[str]:
    """A command, and those that follow it."""
    yield first.name
    for command in known.values():
        if command.after == first.name:
            yield from _line(command, known)
