"""Whether a thread is inside of torch.distributed, by its stack."""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import Stack

__all__ = ["waits_in_collective"]

_INNERMOST: Final = 40
_NATIVE: Final = re.compile(r"c10d::|gloo::|nccl", re.IGNORECASE)
_PYTHON: Final = re.compile(r"/torch/distributed/")
_FRAMEWORK: Final = re.compile(r"/torch/|^<")


def waits_in_collective(stack: Stack | None) -> bool:
    """Whether a stack is inside of torch.distributed: native frames of c10d, or its Python functions, within the user's
    innermost line."""
    for frame in stack.frames[:_INNERMOST] if stack is not None else ():
        if frame.language == "python":
            if _PYTHON.search(frame.file or ""):
                return True
            if not _FRAMEWORK.search(frame.file or ""):
                return False
        elif _NATIVE.match(frame.function):
            return True
    return False
