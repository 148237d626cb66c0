"""Stacks as values: merging Python's and native frames of one thread into one stack."""

from __future__ import annotations

from livedbg.model import Stack

__all__ = ["merge_stacks"]


def merge_stacks(python: Stack | None, native: Stack | None) -> Stack:
    """One stack from the Python frames and the native frames of one thread.

    Raises:
        ValueError: both are None.
    """
    if native is None:
        if python is None:
            raise ValueError("no stack to merge")
        return python
    return native
