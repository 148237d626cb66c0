"""Threads of a process that may signal a semaphore: those that run the user's code and don't wait for one.

Workers of the runtime signal what the queue says, and pools of mathematical libraries signal nothing. What is known of
a thread is its name and its stack; one without a stack may do anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from livedbg.model import Stack
from livedbg.model.snapshot import Snapshot

__all__ = ["outsiders_of"]

_OWN: Final = re.compile(r"iree-(?:worker|pro)|llvmpipe-")
_INSIDE: Final = re.compile(
    r"(?:lib(?:c|pthread|m|gomp|iomp5|omp|vulkan\w*|LLVM\w*|drm\w*|IREE\w*|iree\w*|gcc_s|stdc\+\+|\w*openblas\w*)"
    r"[.-]|ld-linux|iree-|_runtime\.cpython|\[|0x)"
)


def outsiders_of(process: str, waiting: Collection[str], snapshot: Snapshot) -> tuple[str, ...]:
    """Their names.

    Args:
        process: the process.
        waiting: threads that are known to wait for a semaphore.
        snapshot: the state.
    """
    return tuple(
        thread.title or str(thread.tid)
        for thread in snapshot.threads.values()
        if thread.process == process
        and not thread.exited
        and thread.id not in waiting
        and not _OWN.match(thread.name)
        and not _inside(snapshot.stacks.get(thread.id))
    )


def _inside(stack: Stack | None) -> bool:
    """Whether all of a stack is code that signals nothing by itself."""
    if stack is None or not stack.frames:
        return False
    return all(frame.language == "native" and _INSIDE.match(frame.module or "0x") for frame in stack.frames)
