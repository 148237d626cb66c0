"""Intents: requests of a user (a panel, a command) to the session. Values only; the session routes them.

A panel never acts on a process or a file itself: it sends one of these.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from livedbg.model.catchpoints import Moment

GLANCE_ONCE = "glance.once"
"""Key of `Request.options`: glance once at every target process before settling, for a command that samples once."""

SAMPLES = "samples.take"
"""Key of `Request.options`: "no" if running threads are not to be sampled."""

SAMPLES_FOR = "samples.for"
"""Key of `Request.options`: sample all threads for so many seconds, then settle: for a command that prints that."""

SAMPLES_RATE = "samples.rate"
"""Key of `Request.options`: samples for each second of CPU time that a thread uses meanwhile."""

SAMPLES_OF = "samples.of"
"""Key of `Request.options`: `PAGES` to sample a thread by the memory that it touches first, not by CPU time."""

PAGES = "pages"

SAMPLED_PAGES = 64
"""Page faults of a thread between two samples of them."""

VALUES_DUMP = "values.dump"
"""Option of a session: a dump to show whatever its file is called."""

VALUES_GOLDEN = "values.golden"
"""Key of `Request.options`: what every dump of tensors that is found is compared with."""


class WantStacks(Struct, frozen=True, kw_only=True, tag="want-stacks"):
    """Take the stacks of threads now (empty: of all threads of the process), also with local variables."""

    process: str
    threads: tuple[str, ...] = ()
    native: bool = True
    local_variables: bool = False


class Glance(Struct, frozen=True, kw_only=True, tag="glance"):
    """Take the native stacks of running threads (empty: all of the process); each is stopped for well under 1 ms."""

    process: str
    threads: tuple[str, ...] = ()


class SampleFaster(Struct, frozen=True, kw_only=True, tag="sample-faster"):
    """Sample running threads often for a while. To keep the rate, send it again before it ends.

    Attributes:
        of: a thread, or a process (all of its threads); None for all threads of the targets.
    """

    of: str | None = None
    seconds: float = 5.0


class Catch(Struct, frozen=True, kw_only=True, tag="catch"):
    """Set a catchpoint.

    Attributes:
        pattern: type, glob, /regular expression/ or preset; for `CALL` a function.
        moment: None: as the pattern implies, else when thrown.
        count: remove it after so many hits; 0 never.
        files: files that the process may load later: probed as soon as they are loaded.
        stop: stop the thread at each hit, and read its frames, variables and source with an attached gdb.
        hold_s: with `stop`: how long it then stays stopped, unless `Resume` is sent.
    """

    process: str
    pattern: str
    moment: Moment | None = None
    message: str = ""
    count: int = 0
    follow: bool = False
    files: tuple[str, ...] = ()
    stop: bool = False
    hold_s: float = 0.0


class Resume(Struct, frozen=True, kw_only=True, tag="resume"):
    """Resume the thread that stopped at a catchpoint."""

    catchpoint: str


class Uncatch(Struct, frozen=True, kw_only=True, tag="uncatch"):
    """Remove a catchpoint."""

    catchpoint: str


class DumpDevice(Struct, frozen=True, kw_only=True, tag="dump-device"):
    """Have the driver write a GPU core dump of a process, and read it. The kernels are stopped meanwhile.

    With `may_abort`, go on even if the driver may end the process after it.
    """

    process: str
    may_abort: bool = False
    limit_s: float = 60.0


class WatchLaunches(Struct, frozen=True, kw_only=True, tag="watch-launches"):
    """Trace the device launches of a process, or stop tracing.

    Attributes:
        share: limit of the overhead, as a share of the launching threads' time; 0 for the default.
    """

    process: str
    on: bool = True
    share: float = 0.0


class PreviewValues(Struct, frozen=True, kw_only=True, tag="preview-values"):
    """Preview a tensor of a dump that was found."""

    path: str
    number: int


class CompareValues(Struct, frozen=True, kw_only=True, tag="compare-values"):
    """Compare a dump that was found with another one, a run's folder, or golden data (in/ and out/)."""

    path: str
    golden: str


class Refresh(Struct, frozen=True, kw_only=True, tag="refresh"):
    """Sample everything now instead of at the next interval."""


class OpenLog(Struct, frozen=True, kw_only=True, tag="open-log"):
    """Start reading another log file or directory."""

    path: str


Intent: TypeAlias = (
    WantStacks
    | Glance
    | SampleFaster
    | Catch
    | Resume
    | Uncatch
    | WatchLaunches
    | DumpDevice
    | PreviewValues
    | CompareValues
    | Refresh
    | OpenLog
)
