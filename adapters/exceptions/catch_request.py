"""Interpret a request for a catchpoint: the catchpoint, its patterns, and why it can't be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.adapters.exceptions.calls import Call
from livedbg.model.catchpoints import Catchpoint, Moment, Pattern
from livedbg.model.errors import TargetError
from livedbg.model.intents import Catch
from livedbg.probes.functions import FunctionNotFound
from livedbg.probes.tracefs import probe_refused
from livedbg.session.catch_options import patterns_of
from livedbg.text.sanitize import clean_line

RUNTIME: Final = {
    Moment.THROW: "__cxa_throw",
    Moment.RETHROW: "__cxa_rethrow",
    Moment.CATCH: "__cxa_begin_catch",
    Moment.RAISE: "PyTraceBack_Here",
}
"""Which function of a language's runtime is called as something is thrown, rethrown, caught or raised: C++'s (Itanium
C++ ABI: exception handling, 2.4) and Python's (CPython, Python/traceback.c)."""

_BY_PATTERN: Final = (Moment.CALL, Moment.SIGNAL, Moment.RAISE)  # by the pattern; of the others the user may choose
_WITHOUT_TYPE: Final = (Moment.CALL, Moment.RETHROW)


def catchpoint_of(intent: Catch, identity: str, engine: str) -> tuple[Catchpoint, tuple[Pattern, ...]]:
    """Return the requested catchpoint, not set yet, and its patterns; raise UsageError for an invalid one."""
    moment, patterns = patterns_of(intent.pattern)
    catchpoint = Catchpoint(
        id=identity,
        process=intent.process,
        pattern=clean_line(intent.pattern),
        moment=moment if moment in _BY_PATTERN else intent.moment or Moment.THROW,
        message=clean_line(intent.message),
        engine=engine,
        follow=intent.follow,
    )
    return catchpoint, patterns


def matches(moment: Moment, patterns: Sequence[Pattern], call: Call) -> bool:
    """Return whether a call matches by type, if its moment has a type."""
    return moment in _WITHOUT_TYPE or any(pattern.matches(call.names) for pattern in patterns)


def refused(error: OSError | FunctionNotFound, pid: int, functions: Sequence[str]) -> TargetError:
    """Return the error to show for a failure to set a catchpoint."""
    if isinstance(error, FunctionNotFound):
        return TargetError(
            f"Process {pid} has no function {' or '.join(functions)} in any readable file.",
            "name it with namespace and class, without arguments, or as `nm -D FILE` prints it",
            "no-function",
        )
    return probe_refused(error, pid)
