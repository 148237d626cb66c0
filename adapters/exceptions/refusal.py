"""Why a function can't be listened to, in words for a user."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from livedbg.adapters.exceptions.listener import Nowhere
from livedbg.errors import TargetError
from livedbg.linux.perf import NoPerf
from livedbg.linux.tracefs import NoTracefs

__all__ = ["refused"]

_ROOT: Final = "run livedbg by sudo, or give it CAP_PERFMON and CAP_SYS_ADMIN"


def refused(error: OSError | Nowhere, pid: int, functions: Sequence[str]) -> TargetError:
    """The error to show for one that setting a catchpoint has met."""
    if isinstance(error, Nowhere):
        return TargetError(
            f"Process {pid} has no function {' or '.join(functions)} in any file that can be read.",
            "give it with namespace and class, without arguments, or as `nm -D FILE` has it",
            "no-function",
        )
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return TargetError(f"Process {pid} has ended.", "", "gone")
    if isinstance(error, NoTracefs | NoPerf) or error.errno in {errno.EACCES, errno.EPERM}:
        return TargetError(f"Probes are not allowed here: {error.strerror}.", _ROOT, "no-permission")
    if error.errno == errno.EMFILE:
        return TargetError(f"{error.strerror}.", "ulimit -n 65536", "too-many-files")
    return TargetError(f"The kernel refused the probe: {error.strerror}.", "livedbg doctor", "refused")
