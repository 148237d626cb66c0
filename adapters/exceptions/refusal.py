"""Why a function can't be listened to, in words for a user."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.exceptions.listener import Nowhere
from livedbg.model.errors import TargetError
from livedbg.probes.errors import probe_refused

__all__ = ["refused"]


def refused(error: OSError | Nowhere, pid: int, functions: Sequence[str]) -> TargetError:
    """The error to show for one that setting a catchpoint has met."""
    if isinstance(error, Nowhere):
        return TargetError(
            f"Process {pid} has no function {' or '.join(functions)} in any file that can be read.",
            "give it with namespace and class, without arguments, or as `nm -D FILE` has it",
            "no-function",
        )
    return probe_refused(error, pid)
