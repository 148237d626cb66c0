"""The command table: help, completion and docs/commands are generated from it.

A command's module is imported only when the command runs (or its own help is asked for), so that
`livedbg --help` imports click alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMANDS", "EXIT_CODES", "CommandEntry"]

EXIT_CODES: dict[int, str] = {
    0: "no problem found, or done",
    10: "stall or deadlock",
    11: "crash or uncaught exception",
    12: "a wrong value or a missing dependency",
    2: "usage error",
    3: "a target, file or tool can't be used; standard error has the reason and the remedy",
    4: "time limit reached",
}
"""What the exit codes mean."""

_LOOKS = (0, 2, 3)
_CONCLUDES = (0, 10, 11, 12, 2, 3)


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command.

    Attributes:
        module: module of livedbg.cli whose `command` is the click command.
        summary: one line for the list of commands.
        example: examples for its help: the command, and what it does.
        exits: the exit codes that it can end with.
        exits_note: a note on the exit codes.
    """

    name: str
    module: str
    summary: str
    example: tuple[tuple[str, str], ...]
    exits: tuple[int, ...] = _LOOKS
    exits_note: str = ""


COMMANDS: dict[str, CommandEntry] = {
    entry.name: entry
    for entry in (
        CommandEntry(
            "attach",
            "attach",
            "Debug running processes or logs in the terminal app.",
            (
                ("livedbg attach 4711", "process 4711 and its children"),
                ("livedbg attach --logs ./ascend-log", "logs of a run whose process is gone"),
            ),
        ),
        CommandEntry(
            "launch",
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
            "If CMD exits by itself, its exit code is returned. 10 and 11 are returned with --repeat only.",
        ),
        CommandEntry(
            "ps",
            "ps",
            "List the GPU, NPU and ML processes of this host.",
            (("livedbg ps", "oldest first"), ("livedbg ps --json", "for scripts")),
        ),
        CommandEntry(
            "report",
            "report",
            "Print one diagnosis as text, Markdown or JSON.",
            (
                ("livedbg report 4711", "what is process 4711 stuck on?"),
                ("livedbg report --logs ./ascend-log --json", "diagnose a run from its logs"),
                ("livedbg report hang.livedbg --markdown", "the end of a recording, for a bug report"),
            ),
            (*_CONCLUDES, 4),
            "4 only if nothing was found within --timeout.",
        ),
        CommandEntry(
            "watch",
            "watch",
            "Print findings as they appear.",
            (
                ("livedbg watch 4711 --until stalled --timeout 600", "wait up to ten minutes for a stall"),
                ("livedbg watch 4711 --on-stall 'notify-send stuck'", "run a command on a stall"),
                ("livedbg watch 4711 --launches", "detect that kernel launches stop"),
            ),
            (*_CONCLUDES, 4),
            "The code of the last verdict, also after Ctrl-C; always 4 if --timeout ended the command.",
        ),
        CommandEntry(
            "stacks",
            "stacks",
            "Print merged Python and native stacks of all threads.",
            (
                ("livedbg stacks 4711", "all threads"),
                ("livedbg stacks 4711 --glance", "with native frames of running threads"),
                ("livedbg stacks 4711 --no-native --json", "Python frames only, as JSON"),
            ),
            (*_LOOKS, 4),
            "4 if some stacks were not taken in time; the others are printed.",
        ),
        CommandEntry(
            "catch",
            "catch",
            "Trace exceptions, function calls and signals, with stacks.",
            (
                ("livedbg catch 4711 std::runtime_error", "exceptions of this C++ type"),
                ("livedbg catch 4711 python:RuntimeError", "exceptions of a Python class"),
                ("livedbg catch 4711 nvfuser --count 3 --timeout 60 --json", "three nvFuser errors, as JSON"),
                ("livedbg catch 4711 abort", "calls of abort()"),
                ("livedbg catch 4711 c10::Error --stop", "one, with variables and source"),
            ),
            (0, 2, 3, 4),
        ),
        CommandEntry(
            "device",
            "device",
            "Show GPU kernels, the positions of their warps, and exceptions.",
            (
                ("livedbg device core_1764236276_box_4711.nvcudmp", "read a GPU core dump; needs no GPU"),
                ("livedbg device gpu.nvcudmp core.4711", "with the core dump of the host process"),
                ("livedbg device 4711 --dump", "request a core dump from the CUDA driver"),
                ("livedbg device 4711 --dump --again 15", "two dumps: does the kernel progress?"),
            ),
            (0, 10, 11, 2, 3, 4),
            "11 for a device exception; 10 if a kernel makes no progress for 10 s or longer.",
        ),
        CommandEntry(
            "recipes",
            "recipes",
            "List launch presets: environment variables and wrappers for a debugging question.",
            (
                ("livedbg recipes", "list all recipes"),
                ("livedbg recipes nvfuser-dump", "what it sets, costs and shows"),
                ("livedbg launch --recipe nvfuser-trace -- python bench.py", "launch with a recipe"),
                ("livedbg recipes 4711", "recipes that apply to process 4711"),
            ),
            (0, 2, 3),
        ),
        CommandEntry(
            "values",
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
        CommandEntry(
            "launches",
            "launches",
            "Trace the kernel launches of a process: grid, block and rate.",
            (
                ("livedbg launches 4711", "trace for 3 s, print the launches of each thread"),
                ("livedbg launches 4711 --for 30 --json", "trace for 30 s, as JSON"),
            ),
        ),
        CommandEntry(
            "repro",
            "repro",
            "Extract a script that reproduces an nvFuser failure.",
            (
                ("livedbg repro train.log -o repro.py", "the script in the error text"),
                ("livedbg repro train.log --segment 3 -o repro.py", "reduce it to segment 3"),
                ("livedbg repro train.log --segment 3 --run --python nvf/bin/python", "run it: same failure?"),
            ),
            (0, 11, 2, 3, 4),
            "With --run: 11 if the script fails, 4 if it is still running at --timeout.",
        ),
        CommandEntry(
            "graph",
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
        CommandEntry(
            "record",
            "record",
            "Record a session to a file.",
            (("livedbg record 4711 -o hang.livedbg --for 60", "record one minute"),),
            exits_note="0 after Ctrl-C.",
        ),
        CommandEntry(
            "replay",
            "replay",
            "Replay a recording in the terminal app.",
            (("livedbg replay hang.livedbg", "opens at the end; p plays"),),
        ),
        CommandEntry(
            "doctor",
            "doctor",
            "Check permissions and tools on this host, and show how to fix what is missing.",
            (("livedbg doctor", "check this host"), ("livedbg doctor 4711", "and what can be seen of process 4711")),
        ),
        CommandEntry(
            "demo",
            "demo",
            "Start a demo program that hangs, and attach to it.",
            (
                ("livedbg demo", "a C++ program: deadlock of three threads"),
                ("livedbg demo ascend", "a recorded Ascend hang"),
            ),
            _LOOKS,
            "Without a terminal: 1 if no hang was found.",
        ),
        CommandEntry(
            "completion",
            "completion",
            "Print a completion script for bash, zsh or fish.",
            (('eval "$(livedbg completion bash)"', "enable completion in this shell"),),
        ),
    )
}
