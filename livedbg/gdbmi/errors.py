"""Errors of gdb.

LivedbgError
└── GdbError
    ├── GdbGone          it ended, or never started
    ├── GdbTimeout       it did not answer in time
    └── GdbCommandError  it answered with an error
"""

from __future__ import annotations

from livedbg.model.errors import LivedbgError


class GdbError(LivedbgError):
    """Base of the errors of gdb."""


class GdbGone(GdbError):
    """gdb ended, or could not be started."""


class GdbTimeout(GdbError):
    """gdb did not answer in time."""


class GdbCommandError(GdbError):
    """gdb refused a command; the message is its own."""
