"""The calls of known libraries in a stack that somebody printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_CALLS: Final = lazy_re(
    r"(?:P?MPIX?_[A-Z]|p?(?:nccl|cuda|cu|hip|aclrt|acl|Hccl|nvshmem|cudnn|cublas)[A-Z]|iree_\w{1,60}_wait\b)"
)
"""Names of the functions of libraries that a program calls; those in them only do it."""


def library_call(frames: Sequence[Frame]) -> int | None:
    """Return the index of the outermost function by which a known library is called, or None."""
    return next((at for at in range(len(frames) - 1, -1, -1) if _CALLS.match(frames[at].function)), None)
