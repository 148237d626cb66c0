"""The command table: help, completion and docs/commands are made from it.

A command's module is imported only when the command runs (or its own help is asked for), so that
`livedbg --help` imports click alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMMANDS", "EXIT_CODES", "CommandEntry"]

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


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command.

    Attributes:
        module: module of livedbg.cli whose `command` is the click command.
        summary: one line for the list of commands.
        example: what stands in its help as an example, command first, then what it does.
        exits: the exit codes that it can end with.
        exits_note: what else there is to say about them.
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
                ("livedbg launch --repeat 20 --gpus 0-3 -- ./train", "always the same point?"),
            ),
            (*_LOOKS, 10, 11, 4),
            "When CMD ended by itself, its own exit code; 10 and 11 with --repeat.",
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
            (*_CONCLUDES, 4),
            "4 only when nothing was found by then.",
        ),
        CommandEntry(
            "watch",
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
        CommandEntry(
            "stacks",
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
        CommandEntry(
            "catch",
            "catch",
            "Exceptions of a type, as they are thrown, without a stop or with a look at the thread.",
            (
                ("livedbg catch 4711 std::runtime_error", "with message and stack, until Ctrl-C"),
                ("livedbg catch 4711 python:RuntimeError", "a Python exception where it is raised"),
                ("livedbg catch 4711 nvfuser --count 3 --timeout 60 --json", "three of nvFuser's errors, as JSON"),
                ("livedbg catch 4711 abort", "who calls abort()"),
                ("livedbg catch 4711 c10::Error --stop", "one, with variables and source"),
            ),
            (0, 2, 3, 4),
        ),
        CommandEntry(
            "device",
            "device",
            "What runs on the GPUs: kernels, where their warps stand, exceptions.",
            (
                ("livedbg device core_1764236276_box_4711.nvcudmp", "from a GPU core dump; no GPU is needed"),
                ("livedbg device gpu.nvcudmp core.4711", "with the core dump of the host process"),
                ("livedbg device 4711 --dump", "have the driver write one of a hung job"),
                ("livedbg device 4711 --dump --again 15", "a second one: does it move?"),
            ),
            (0, 10, 11, 2, 3, 4),
            "11 when there is a device exception; 10 when a kernel stands still for 10 s or longer.",
        ),
        CommandEntry(
            "recipes",
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
        CommandEntry(
            "values",
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
        CommandEntry(
            "launches",
            "launches",
            "What a process launches on its GPUs: kernels, grid and block, rate.",
            (
                ("livedbg launches 4711", "listen for 3 seconds, print what each thread launched"),
                ("livedbg launches 4711 --for 30 --json", "longer, for a program"),
            ),
        ),
        CommandEntry(
            "repro",
            "repro",
            "The script that shows a failure of nvFuser again, whole or of one segment.",
            (
                ("livedbg repro train.log -o repro.py", "the script in the error text"),
                ("livedbg repro train.log --segment 3 -o repro.py", "one segment of it"),
                ("livedbg repro train.log --segment 3 --run --python nvf/bin/python", "does it fail as it did?"),
            ),
            (0, 11, 2, 3, 4),
            "11 when it fails with --run, 4 when it had not ended by --timeout.",
        ),
        CommandEntry(
            "graph",
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
        CommandEntry(
            "record",
            "record",
            "Write what is seen to a file, to be replayed elsewhere.",
            (("livedbg record 4711 -o hang.livedbg --for 60", "record a minute"),),
            exits_note="Ctrl-C ends it with 0.",
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
            _LOOKS,
            "Without a terminal: 1 when the workload was not found to be stuck.",
        ),
        CommandEntry(
            "completion",
            "completion",
            "Shell completion for bash, zsh or fish.",
            (('eval "$(livedbg completion bash)"', "complete in this shell"),),
        ),
    )
}
