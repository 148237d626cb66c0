"""Whether two processes share something, by kcmp(2): an open file, or all of their memory.

The kernel says so of processes that the caller may look into (PTRACE_MODE_READ_REALCREDS), where it is built with
CONFIG_KCMP and no seccomp profile forbids it (docker's default does without CAP_SYS_PTRACE).
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

_NUMBERS: Final = {"x86_64": 312, "aarch64": 272}
_FILE, _VM = 0, 1  # linux/kcmp.h

_libc = ctypes.CDLL(None, use_errno=True)


def same_file(one: tuple[int, int], other: tuple[int, int]) -> bool | None:
    """Whether two descriptors, each (pid, fd), are one open file; None where the kernel doesn't say."""
    return _same(one[0], other[0], _FILE, one[1], other[1])


def same_memory(one: int, other: int) -> bool | None:
    """Whether two processes share all of their memory (CLONE_VM, vfork(2)); None where the kernel doesn't say."""
    return _same(one, other, _VM, 0, 0)


def _same(one: int, other: int, kind: int, first: int, second: int) -> bool | None:
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        return None
    words = [ctypes.c_long(word) for word in (number, one, other, kind, first, second)]
    result = int(_libc.syscall(*words))
    return None if result < 0 else result == 0
