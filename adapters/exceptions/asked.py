"""What a user's words for a catchpoint mean: the catchpoint, and whether a call is one that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.adapters.exceptions.calls import Call
from livedbg.model.catchpoints import Catchpoint, Moment, Pattern, patterns_of
from livedbg.model.intents import Catch
from livedbg.text.sanitize import clean_line

__all__ = ["asked", "wants"]

_SETTLED: Final = (Moment.CALL, Moment.SIGNAL, Moment.RAISE)  # of these the pattern says it; of the others the user may
_UNTOLD: Final = (Moment.CALL, Moment.RETHROW)  # these tell no type


def asked(intent: Catch, identity: str, engine: str) -> tuple[Catchpoint, tuple[Pattern, ...]]:
    """The catchpoint that is asked for, not set yet, and its patterns.

    Args:
        intent: the words.
        identity: of the catchpoint.
        engine: how it will be done.

    Raises:
        UsageError: the pattern is none.
    """
    moment, patterns = patterns_of(intent.pattern)
    catchpoint = Catchpoint(
        id=identity,
        process=intent.process,
        pattern=clean_line(intent.pattern),
        moment=moment if moment in _SETTLED else intent.moment or Moment.THROW,
        message=clean_line(intent.message),
        engine=engine,
        follow=intent.follow,
    )
    return catchpoint, patterns


def wants(moment: Moment, patterns: Sequence[Pattern], call: Call) -> bool:
    """Whether a call is wanted, by its type, where its moment tells one."""
    return moment in _UNTOLD or any(pattern.matches(call.names) for pattern in patterns)
