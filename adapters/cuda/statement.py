"""One thing that a log says went wrong, before it is counted together with others alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from livedbg.model import Frame, Severity

Point = tuple[int, int, int]
"""Coordinates of a thread in its block, or of a block in its grid."""


@dataclass(slots=True)
class Statement:
    """What went wrong.

    Attributes:
        code: of the Diagnostic (`sanitizer`, `device-assert`, `error`, …).
        what: the error in a few words (`Invalid __global__ write of size 4 bytes`).
        key: what makes two statements alike, with `code` and `what`.
        kernel: the kernel (or device function) that did it.
        thread, block: which thread did it.
        where: `file.cu:92`, in the device's code.
        host: where the host's program was (`step (train.py:4)`).
        frames: innermost first; the device's, then the host's.
        hit: type for the list of exceptions; "" where it is no exception of its own.
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
    """`file.cu:92` of a path and a line."""
    return f"{file.rpartition('/')[2]}:{line}"
