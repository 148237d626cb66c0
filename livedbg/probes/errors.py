"""Why the kernel doesn't let us set a probe, in words for a user."""

from __future__ import annotations

import errno
from typing import Final

from livedbg.model.errors import TargetError
from livedbg.probes.perf import NoPerf
from livedbg.probes.tracefs import NoTracefs

_ROOT: Final = "run livedbg with sudo, or give it CAP_PERFMON and CAP_SYS_ADMIN"


def probe_refused(error: OSError, pid: int) -> TargetError:
    """The error to show for one that setting a probe in a process has met."""
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return TargetError(f"Process {pid} has ended.", "", "gone")
    if isinstance(error, NoTracefs | NoPerf) or error.errno in {errno.EACCES, errno.EPERM}:
        return TargetError(f"Probes are not allowed here: {error.strerror}.", _ROOT, "no-permission")
    if error.errno == errno.EMFILE:
        return TargetError(f"{error.strerror}.", "ulimit -n 65536", "too-many-files")
    return TargetError(f"The kernel refused the probe: {error.strerror}.", "livedbg doctor", "refused")
