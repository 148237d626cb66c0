"""The exception tree. Each error says what happened and, where possible, what to do next.

    LivedbgError
    ├── UsageError            exit 2   the command line asks for something impossible
    ├── TargetError           exit 3   the target can't be inspected
    │   ├── TargetGone                 no such process, or it ended
    │   ├── TargetDenied               no permission; `remedy` names the way out
    │   └── TargetUnsuitable           kernel thread, zombie, wrong machine type, …
    ├── SourceError           exit 3   a log, dump or recording can't be read
    │   └── RecordingError             not a recording, or of a version we don't know
    ├── ToolMissing           exit 3   gdb, py-spy, ssh, … is not there
    └── TouchRefused          exit 2   a touch that --read-only or the level forbids

They are raised anywhere and printed at one place only: the CLI's edge (livedbg.cli).
"""

from __future__ import annotations


class LivedbgError(Exception):
    """Base of all errors that livedbg raises on purpose.

    Args:
        remedy: the command to run or the thing to do next, or "".
        code: a stable word for programs, e.g. `no-permission`.
    """

    exit_code = 3

    def __init__(self, message: str, remedy: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class UsageError(LivedbgError):
    """The command line asks for something impossible."""

    exit_code = 2


class TargetError(LivedbgError):
    """The target can't be inspected."""


class TargetGone(TargetError):
    """There is no such process, or it ended."""


class TargetDenied(TargetError):
    """The kernel denies access to the target."""


class TargetUnsuitable(TargetError):
    """The target can't be inspected by its kind (kernel thread, zombie, …)."""


class SourceError(LivedbgError):
    """A log, a dump or another file can't be read."""


class RecordingError(SourceError):
    """The file is no recording, is damaged, or has an unknown version."""


class ToolMissing(LivedbgError):
    """A required program is missing."""


class TouchRefused(LivedbgError):
    """The action is intrusive, and that is forbidden here."""

    exit_code = 2
