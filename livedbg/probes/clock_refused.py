"""Why the kernel takes no samples for us, and how to allow them."""

from __future__ import annotations

import errno
import threading
from typing import Final, NamedTuple

from livedbg.linux.procfs import read_file
from livedbg.probes.clock_samples import ClockSamples
from livedbg.probes.perf_event import NoPerf

_EVERYBODY: Final = 2
"""kernel.perf_event_paranoid up to which everybody may sample the user space of processes of their own."""

_SECOND_NS: Final = 1_000_000_000


class Refused(NamedTuple):
    """Why.

    Attributes:
        code: stable word.
        sentence: why, for a user.
        remedy: how to allow it.
    """

    code: str
    sentence: str
    remedy: str


def refused(error: NoPerf) -> Refused:
    """What to tell a user of an error of the kernel."""
    what = "No native stacks of running threads"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Refused("samples-files", f"{what}: too many files are open.", "ulimit -n 65536")
    if error.errno not in (errno.EACCES, errno.EPERM):
        return Refused(
            "samples-missing", f"{what}: the kernel has no perf events for them.", "S in the app, or stacks --glance"
        )
    try:
        level = int(read_file("/proc/sys/kernel/perf_event_paranoid"))
    except (OSError, ValueError):
        level = _EVERYBODY
    if level > _EVERYBODY:
        return Refused(
            "samples-refused",
            f"{what}: kernel.perf_event_paranoid is {level}.",
            "sudo sysctl kernel.perf_event_paranoid=2   or give livedbg CAP_PERFMON   or stacks --glance",
        )
    return Refused(
        "samples-refused",
        f"{what}: a seccomp profile or a security module forbids perf events.",
        "docker run --cap-add=PERFMON …   or stacks --glance",
    )


def refused_here() -> Refused | None:
    """Why this host takes no samples for us; None where it does: a thread of our own is tried."""
    try:
        with ClockSamples() as clocks:
            clocks.follow({threading.get_native_id(): _SECOND_NS})
    except NoPerf as error:
        return refused(error)
    return None
