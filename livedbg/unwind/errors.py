"""What can go wrong with the process that unwinds.

LivedbgError
├── UnwinderGone   it ended, or can't be started
└── UnwindTimeout  it did not answer in time
"""

from __future__ import annotations

from livedbg.model.errors import LivedbgError


class UnwinderGone(LivedbgError):
    """The unwinding process ended, or can't be started."""


class UnwindTimeout(LivedbgError):
    """The unwinding process did not answer in time."""
