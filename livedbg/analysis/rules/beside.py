"""The lines of logs that are shown beside one of them: what stands around it, and what the log ends with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from livedbg.model import Evidence, LogRecord, LogSource
from livedbg.model.snapshot import Snapshot

__all__ = ["around", "newest", "proof_of", "shown"]

_BESIDE: Final = 4  # records before and after one
_TEXT: Final = 600


def newest(source: LogSource, snapshot: Snapshot, most: int) -> list[LogRecord]:
    """The newest records of a log that are not empty, in its order."""
    return [one for one in snapshot.recent_logs if one.source == source.id and one.text.strip()][-most:]


def around(record: LogRecord, source: LogSource, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """A record, and those that stand right before and after it, as far as they are known: the record first."""
    own = [one for one in snapshot.recent_logs if one.source == source.id and one.text.strip()]
    at = next((number for number, one in enumerate(own) if one is record), None)
    if at is None:
        return (proof_of(record, source),)
    beside = [*own[max(0, at - _BESIDE) : at], *own[at + 1 : at + 1 + _BESIDE]]
    return (proof_of(record, source), *(proof_of(one, source) for one in beside))


def shown(first: Iterable[Evidence], source: LogSource, line: int | None, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Some lines of a log, then what stands around one of them and what the log ends with, each once.

    Args:
        first: the lines.
        source: the log.
        line: number of the one; None where it is not known.
        snapshot: what is known.
    """
    found = {proof.place: proof for proof in first}
    for proof in _more(source, line, snapshot):
        found.setdefault(proof.place, proof)
    return tuple(found.values())


def _more(source: LogSource, line: int | None, snapshot: Snapshot) -> Iterator[Evidence]:
    at = next(
        (one for one in snapshot.recent_logs if one.source == source.id and one.line == line and line is not None), None
    )
    if at is not None:
        yield from around(at, source, snapshot)
    yield from (proof_of(record, source) for record in newest(source, snapshot, _BESIDE))


def proof_of(record: LogRecord, source: LogSource) -> Evidence:
    """A record as evidence."""
    return Evidence.of_record(record, source.name, record.text.strip()[:_TEXT])
