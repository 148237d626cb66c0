"""A dispatch as a module of its own: its source, its inputs in files, and the commands that compile and run it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np

from livedbg.adapters.iree.differences.dispatch_calls import calls_in
from livedbg.adapters.iree.differences.side import TRACE, Side
from livedbg.adapters.iree.differences.toolchain import compile_module, read_flow
from livedbg.adapters.iree.differences.trace import Call, Trace
from livedbg.text.shell import shell_word

_BITS: Final = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
}
"""Types that numpy's files have not: they are saved as their bits, and IREE takes them as raw values."""


def extract(side: Side, flow: Path, call: str, source: Path) -> str:
    """Write a module that makes one call of a dispatch; gives why that can't be done, or "".

    Args:
        side: whose Python has IREE's parser.
        flow: the whole module in the flow phase.
        call: `EXECUTABLE::FUNCTION`.
        source: the file to write.
    """
    read_flow(side.python, flow, (call, source))
    if source.exists():
        return ""
    reasons = [one.reason for one in calls_in(side.python, flow) if one.call == call]
    return next(filter(None, reasons), "IREE's parser did not find the call")


def _command(side: Side, source: Path) -> list[str]:
    flags = [flag for flag in side.flags if flag != TRACE]
    return [side.compiler, "--compile-from=flow", str(source), "-o", str(source.with_suffix(".vmfb")), *flags]


def compile_alone(side: Side, source: Path, limit_s: float) -> Path:
    """Compile such a module.

    Raises:
        SourceError: it does not compile.
    """
    compile_module(_command(side, source), limit_s)
    return source.with_suffix(".vmfb")


def save_inputs(trace: Trace, call: Call, folder: Path) -> tuple[str, ...]:
    """Copy the inputs of a call into a folder; gives them as words of `--input`, as seen from there."""
    words = []
    for number, saved in enumerate(call.inputs):
        kind, name = _BITS.get(saved.type), f"input{number}"
        if kind is None:
            shutil.copyfile(trace.folder / saved.file, folder / f"{name}.npy")
            words.append(f"@{name}.npy")
        else:
            np.load(trace.folder / saved.file, allow_pickle=False).tofile(folder / f"{name}.bin")
            words.append(f"{''.join(f'{size}x' for size in saved.shape)}{kind}=@{name}.bin")
    return tuple(words)


def words_for(inputs: tuple[str, ...], folder: Path) -> list[str]:
    """The same inputs, as seen from anywhere."""
    return [word.replace("@", f"@{folder}/", 1) for word in inputs]


def by_hand(side: Side, source: Path, inputs: tuple[str, ...]) -> tuple[str, str]:
    """The commands that compile and run such a module, in its folder."""
    run = ["iree-run-module", f"--module={source.stem}.vmfb", f"--device={side.device}", "--function=main"]
    run += [f"--input={word}" for word in inputs]
    compiling = _command(side, Path(source.name))
    return " ".join(map(shell_word, compiling)), " ".join(map(shell_word, run))
