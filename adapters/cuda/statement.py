"""A CUDA error in a log, before equal ones are counted.

Also parses places in reports of compute-sanitizer and cuda-memcheck. Sources: Compute Sanitizer documentation,
"Compute Sanitizer Tool Examples"; reports in public issues of NVIDIA/cuCollections, NVIDIA/cccl and pytorch/pytorch;
the README of NVIDIA/compute-sanitizer-samples.

    at 0x60 in Iota(unsigned char*)                     (until 11.x)
    at 0x230 in /src/kernels.cu:57:saxpy(int, float*)
    at saxpy(int, float *)+0x100 in kernels.cu:57       (since 12.x)
    Device Frame: saxpy_kernel()+0x30 in kernels.cu:44
    Host Frame: main [0xae61] in program
    Host Frame:main in src/main.cpp:36 [0x11e0]         (its module in a line of its own)
    Host Frame:/lib/libcuda.so.1 (cuLaunchKernel + 0x346) [0x297db6]

CUDA's error codes are in its signatures (signatures/errors.toml).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from livedbg.model import Frame, Severity
from livedbg.text.patterns import lazy_re

Point = tuple[int, int, int]
"""Coordinates of a thread in its block, or of a block in its grid."""


@dataclass(slots=True)
class Statement:
    """An error.

    Attributes:
        code: of the Diagnostic (`sanitizer`, `device-assert`, `error`, …).
        what: short name of the error (`Invalid __global__ write of size 4 bytes`).
        key: identifies equal statements, together with `code` and `what`.
        kernel: the kernel (or device function).
        thread, block: coordinates of the thread.
        where: `file.cu:92`, in the device's code.
        host: place of the host's program (`step (train.py:4)`).
        frames: innermost first; the device's, then the host's.
        hit: type for the list of exceptions; "" for no exception.
        attributes: further fields of CudaFacts.
    """

    code: str
    what: str
    severity: Severity = Severity.ERROR
    key: tuple[str, ...] = ()
    kernel: str = ""
    thread: Point | None = None
    block: Point | None = None
    where: str = ""
    host: str = ""
    frames: tuple[Frame, ...] = ()
    hit: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


def place_of(file: str, line: str | int) -> str:
    """Return `file.cu:92` for a path and a line."""
    return f"{file.rpartition('/')[2]}:{line}"


DEVICE: Final = "device code"
"""The module of frames on the GPU."""

_AT_ADDRESS: Final = lazy_re(
    r"0x(?P<offset>[0-9a-fA-F]{1,16}) in (?:(?P<file>\S[^:]*):(?P<line>\d{1,18}):)?(?P<function>.+)"
)
_AT_FUNCTION: Final = lazy_re(
    r"\A(?P<function>.+?)(?:\+0x(?P<offset>[0-9a-fA-F]{1,16}))?(?: in (?P<file>[^()]{1,2000}):(?P<line>\d{1,18}))?$"
)
_OLD_FRAME: Final = lazy_re(
    r"\A(?P<file>[^:()]+):(?P<line>\d{1,18}):(?P<function>.{1,4000}?)"
    r" \(.{0,4000} : 0x(?P<offset>[0-9a-fA-F]{1,16})\)$"
)
_HOST_OLD: Final = lazy_re(
    r"(?P<module>[^\[\]()]*/[^/\[\]()]*?)(?: \((?P<function>.+?) \+ 0x[0-9a-fA-F]{1,16}\))? "
    r"\[0x(?P<address>[0-9a-fA-F]{1,16})\]$"
)
_HOST: Final = lazy_re(
    r"(?P<function>.{0,1500}?)(?: in (?P<file>[^\[\]]{1,500}):(?P<line>\d{1,18}))?"
    r" ?\[0x(?P<address>[0-9a-fA-F]{1,16})\]"
    r"(?: in (?P<module>\S.{0,1500}))?$"
)


def device_place(text: str) -> Frame | None:
    """Parse the frame after `at ` or `Device Frame:`."""
    text = text.strip()
    for pattern in (_OLD_FRAME, _AT_ADDRESS, _AT_FUNCTION):
        match = pattern.match(text)
        if match is not None:
            return _frame(match.groupdict(), DEVICE)
    return None


def host_frame(text: str) -> Frame | None:
    """Parse the frame after `Host Frame:`."""
    text = text.strip()
    match = _HOST_OLD.match(text) or _HOST.match(text)
    if match is None:
        return None
    found = match.groupdict()
    frame = _frame(found, base_name(found["module"]) if found["module"] else None)
    return replace(frame, function=frame.function or f"0x{found['address']}", address=int(found["address"], 16))


def _frame(found: Mapping[str, str | None], module: str | None) -> Frame:
    line = found.get("line") or ""
    return Frame(
        (found["function"] or "").strip(), found.get("file"), int(line) if 0 < len(line) < 10 else None, module
    )


def kernel_name(function: str) -> str:
    """Return a function without its parameters: `scale<float>` for `void scale<float>(float*, int)`."""
    depth, end = 0, len(function)
    for position, character in enumerate(function):
        if character == "<":
            depth += 1
        elif character == ">" and function[position - 1 : position] != "-":
            depth -= 1
        elif character == "(" and depth == 0 and position and not function.startswith("(anonymous", position):
            end = position
            break
    name = function[:end].strip()
    words, depth = 0, 0
    for position, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == " " and depth <= 0 and not name.endswith("operator", 0, position):
            words = position + 1
    return name[words:] or function


def base_name(path: str) -> str:
    return path.strip().rpartition("/")[2]


RULE: Final = "========="
"""What compute-sanitizer begins its lines with."""


class CudaError(NamedTuple):
    """One error code.

    Attributes:
        name: of the runtime (`cudaErrorIllegalAddress`).
        text: of cudaGetErrorString.
        sticky: the context is lost.
        of_kernel: a kernel did it, so that the reporting call is not the one that failed.
        hardware: the GPU or its links failed, whatever the program did.
    """

    name: str
    text: str
    sticky: bool
    of_kernel: bool
    hardware: bool


@cache
def _maps() -> Mapping[str, Mapping[str, str]]:
    text = files("livedbg.adapters.cuda.signatures").joinpath("errors.toml").read_text(encoding="utf-8")
    maps: Mapping[str, Mapping[str, str]] = tomllib.loads(text)["maps"]
    return maps


def by_number(number: int) -> CudaError | None:
    return by_name(_maps()["numbers"].get(str(number), ""))


def by_name(name: str) -> CudaError | None:
    """Return the code of a name of the runtime or of the driver."""
    maps = _maps()
    name = maps["drivers"].get(name, name)
    text, fate = maps["texts"].get(name), maps["fates"].get(name, "")
    return CudaError(name, text, bool(fate), fate == "kernel", fate == "hardware") if text is not None else None
