"""What a command line says of the module that it runs or compiles: IREE's own programs, or a Python program."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from livedbg.adapters.iree.differences.input_specs import absolute, zeros

Kind = Literal["run", "benchmark", "check", "compile", "python", "other"]

_KINDS: Final[dict[str, Kind]] = {
    "iree-run-module": "run",
    "iree-benchmark-module": "benchmark",
    "iree-check-module": "check",
    "iree-compile": "compile",
}
_RUNTIME: Final = re.compile(r"--(?:task|local|vulkan|cuda|hip|amdgpu|hal|device)_\w+(?:=|$)")
"""Flags that say how the runtime and its drivers work, which a run with tracing has to have too."""
_NOT_CARRIED: Final = re.compile(r"--(?:device_replay|device_profiling|device_statistics|device_lead|hal_replay)")
_COMPILER_VALUES: Final = ("-o", "--output-format-bytecode-file")
_ENDS: Final = (".mlir", ".mlirbc", ".onnx", ".stablehlo")
_OUTPUT: Final = re.compile(
    r"-o$|-o=|--?(?:compile-to|compile-from|output-format|mlir-print|mlir-pass|mlir-timing|save-temp)|--?[\w-]*dump-"
)
"""Flags that say what is written, and where: a step's compilation does not write over what the user has."""
_DEVICES: Final = {
    "local": "local-task",
    "llvm-cpu": "local-task",
    "vmvx": "local-task",
    "vulkan-spirv": "vulkan",
    "rocm": "hip",
}
_TRACE: Final = b"hal.buffer_view.trace"
"""The runtime's function that a module with traced dispatches imports."""


class Program(Struct, frozen=True, kw_only=True):
    """What CMD runs.

    Attributes:
        kind: which program it is.
        python: that has the `iree.runtime` of the program.
        known: it is the program's own Python.
        modules: compiled.
        source: that it compiles.
        flags: of the compiler, without those that say what is written where.
        runtime_flags: of the runtime.
        device: `local-task` if it names none, as diff-run's.
        devices: how many it names; a run of a step has one.
        function: "" if it names none.
        parameters: files of parameters, `SCOPE=FILE` or `FILE`.
        inputs: as `iree-run-module` takes them.
    """

    kind: Kind = "other"
    python: str = sys.executable
    known: bool = True
    modules: tuple[str, ...] = ()
    source: str = ""
    flags: tuple[str, ...] = ()
    runtime_flags: tuple[str, ...] = ()
    device: str = "local-task"
    devices: int = 0
    function: str = ""
    parameters: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


def program_of(argv: Sequence[str]) -> Program:
    """What a command line runs."""
    name = Path(argv[0]).name
    kind = _KINDS.get(name, "other")
    if re.fullmatch(r"python[\d.]*", name):
        return Program(kind="python", python=argv[0])
    own = _interpreter(argv[0])
    python, known = own or sys.executable, bool(own)
    if kind == "compile":
        source, flags = of_compiler(list(_words(argv[1:])))
        return Program(kind=kind, python=python, known=known, source=source, flags=flags, device=device_of(flags))
    if kind == "other":
        return Program(kind="python" if argv[0].endswith(".py") else "other", python=python, known=known)
    words = list(_words(argv[1:]))
    given = [(name, value) for word in words for name, _, value in [word.partition("=")]]
    last = dict(given)
    return Program(
        kind=kind,
        python=python,
        known=known,
        modules=tuple(value for name, value in given if name == "--module"),
        runtime_flags=tuple(word for word in words if _RUNTIME.match(word) and not _NOT_CARRIED.match(word)),
        device=last.get("--device", "local-task"),
        function=last.get("--function", ""),
        devices=sum(name == "--device" for name, _ in given),
        parameters=tuple(_parameter(value) for name, value in given if name == "--parameters"),
        inputs=tuple(zeros(absolute(value)) for name, value in given if name == "--input"),
    )


def of_compiler(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The source and the flags of a compiler's command line; "" where it reads its standard input."""
    bare = [at for at, word in enumerate(words) if not word.startswith("-") and words[at - 1] not in _COMPILER_VALUES]
    likely = [at for at in bare if words[at].endswith(_ENDS) or Path(words[at]).is_file()]
    source = (likely or bare)[-1] if bare else -1
    flags: list[str] = []
    dropped = False
    for at, word in enumerate(words):
        value = not word.startswith("-")  # of the flag before it
        if at != source and not (value and dropped):
            dropped = word == "-" or _OUTPUT.match(word) is not None
            flags += [] if dropped else [word]
    return words[source] if source >= 0 else "", tuple(flags)


def is_traced(module: Path) -> bool:
    """Whether a module was compiled with `--iree-flow-trace-dispatch-tensors`."""
    try:
        return _TRACE in module.read_bytes()
    except OSError:
        return False


def _words(argv: Sequence[str]) -> Iterator[str]:
    """Flags, also those of flag files; `-x=` is the same as `--x=`."""
    for word in argv:
        if word.startswith("--flagfile="):
            try:
                yield from Path(word.partition("=")[2]).read_text().split("\n")
            except (OSError, UnicodeDecodeError):
                continue
        else:
            yield word


def _parameter(word: str) -> str:
    """`SCOPE=FILE` or `FILE`, for a process that runs elsewhere."""
    scope, equals, path = word.rpartition("=")
    return f"{scope}{equals}{Path(path).resolve()}"


def _interpreter(program: str) -> str:
    """The Python of a script."""
    path = shutil.which(program)
    try:
        with Path(path or program).open("rb") as file:
            first = file.readline(300)
    except OSError:
        return ""
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    found = words[-1] if words and words[0].endswith("/env") else words[0] if words else ""
    return (shutil.which(found) or "") if "python" in Path(found).name else ""


def device_of(flags: Sequence[str]) -> str:
    """The device that a compiled module is for."""
    for flag in flags:
        name, _, value = flag.partition("=")
        if name in ("--iree-hal-target-device", "--iree-hal-target-backends"):
            target = value.partition("[")[0]
            return _DEVICES.get(target, target)
    return "local-task"
