"""What a user (a panel, a command) can ask of the session. Values only; the session routes them.

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
    """Take stacks now.

    Attributes:
        process: its identifier.
        threads: thread identifiers; empty means all threads of the process.
        native: native frames too, not only Python's.
        local_variables: local variables too: Python's, and native ones where there is debug information.
    """

    process: str
    threads: tuple[str, ...] = ()
    native: bool = True
    local_variables: bool = False


class Glance(Struct, frozen=True, kw_only=True, tag="glance"):
    """Take the native stacks of running threads now: each is stopped for well under a millisecond.

    Attributes:
        process: its identifier.
        threads: thread identifiers; empty means all threads of the process.
    """

    process: str
    threads: tuple[str, ...] = ()


class SampleFaster(Struct, frozen=True, kw_only=True, tag="sample-faster"):
    """Sample running threads often for a while; who looks at the samples sends it again before that ends.

    Attributes:
        of: a thread, or a process: all of its threads; None for all threads of the targets.
        seconds: for how long.
    """

    of: str | None = None
    seconds: float = 5.0


class Catch(Struct, frozen=True, kw_only=True, tag="catch"):
    """Set a catchpoint.

    Attributes:
        process: identifier of the process.
        pattern: type, glob, /regular expression/ or preset; for `CALL` a function.
        moment: when; None where the pattern says it, else when it is thrown.
        message: only with this text in the message.
        count: take it out after so many hits; 0 never.
        follow: processes that it starts too.
        files: files that the process has not loaded and may load: probed from the moment they are loaded.
        stop: stop the thread at each hit, and read its frames, variables and source with an attached gdb.
        hold_s: with `stop`: how long it stays stopped after that, unless `Resume` is sent.
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
    """Have the driver write a GPU core dump of a process, and read it: its kernels are stopped meanwhile.

    Attributes:
        process: its identifier.
        may_abort: also where the driver may end the process after it.
        limit_s: how long the dump is waited for.
    """

    process: str
    may_abort: bool = False
    limit_s: float = 60.0


class WatchLaunches(Struct, frozen=True, kw_only=True, tag="watch-launches"):
    """Trace what a process launches on its devices, or stop tracing.

    Attributes:
        process: its identifier.
        on: trace.
        share: of the launching threads' time that this may take; 0 for the usual.
    """

    process: str
    on: bool = True
    share: float = 0.0


class PreviewValues(Struct, frozen=True, kw_only=True, tag="preview-values"):
    """Preview a tensor of a dump that was found.

    Attributes:
        path: of the dump.
        number: of the entry.
    """

    path: str
    number: int


class CompareValues(Struct, frozen=True, kw_only=True, tag="compare-values"):
    """Compare a dump that was found with another, or with golden data.

    Attributes:
        path: of the dump.
        golden: of a second dump, of a run's folder, or of a folder with in/ and out/.
    """

    path: str
    golden: str


class Refresh(Struct, frozen=True, kw_only=True, tag="refresh"):
    """Sample everything now instead of at the next turn."""


class OpenLog(Struct, frozen=True, kw_only=True, tag="open-log"):
    """Start to read one more log file or directory."""

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
