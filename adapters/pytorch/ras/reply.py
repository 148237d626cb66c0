"""Parse replies of NCCL's RAS service: communicators, missing ranks, and launched operations.

The formats are those of NCCL's user guide (RAS) and of src/ras/client_support.cc, 2.24 to 2.29. A reply is untrusted:
implausible parts are left out, and the caller bounds its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

_MOST_RANKS: Final = 1 << 16
_MOST_NAME: Final = 100


class UnreadableReply(Exception):
    """A reply that is not from RAS; the text says why, for users."""


class RasRank(Struct, frozen=True, order=True):
    """A rank of a communicator, with its node as RAS names it, and its pid there."""

    rank: int
    host: str = ""
    pid: int | None = None


class Launched(Struct, frozen=True):
    """Ranks that have launched equally many operations.

    Attributes:
        operation: `AllReduce`; "" if RAS counts all together.
        count: number of the newest launched operation.
        number: how many ranks these are.
        ranks: the named ones.
    """

    operation: str
    count: int
    number: int
    ranks: tuple[RasRank, ...] = ()


class Communicator(Struct, frozen=True):
    """A communicator.

    Attributes:
        name: its hash, as in NCCL's own log.
        missing: ranks that gave no data.
        launched: by count, if its ranks differ.
    """

    name: str
    missing: tuple[RasRank, ...] = ()
    launched: tuple[Launched, ...] = ()


class RasReply(Struct, frozen=True):
    """A reply.

    Attributes:
        communicators: those with problems.
        dead: processes that RAS considers dead, as it names them.
    """

    communicators: tuple[Communicator, ...] = ()
    dead: tuple[str, ...] = ()


_Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Rank = Annotated[int, Meta(ge=0, lt=1 << 24)]


class _JsonStatus(Struct, frozen=True):
    considered_dead: bool = False


class _JsonRank(Struct):
    rank: _Rank
    host: str = ""
    pid: _Number | None = None
    status: _JsonStatus = _JsonStatus()
    collective_counts: dict[str, _Number] = {}

    def known(self) -> RasRank:
        return RasRank(self.rank, clean_line(self.host, _MOST_NAME), self.pid)


class _JsonCommunicator(Struct):
    hash: str
    ranks: list[_JsonRank] = []
    missing_ranks: list[_JsonRank] = []


class _JsonReply(Struct):
    communicators: list[_JsonCommunicator] = []


def read_json(text: str) -> RasReply:
    """Parse a reply to `SET FORMAT json`; raise UnreadableReply if it is none."""
    begin = text.find("{")
    try:
        found = msgspec.json.decode(text[max(begin, 0) :].encode(), type=ready(_JsonReply))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise UnreadableReply(f"its JSON is cut short or of another form ({clean_line(str(error), 120)})") from None
    dead = {
        _process(rank.known())
        for one in found.communicators
        for rank in one.missing_ranks
        if rank.status.considered_dead
    }
    return RasReply(tuple(filter(_says, map(_of_json, found.communicators))), tuple(sorted(dead)))


def _of_json(one: _JsonCommunicator) -> Communicator:
    launched: list[Launched] = []
    for operation in dict.fromkeys(name for rank in one.ranks[:_MOST_RANKS] for name in rank.collective_counts):
        counts: dict[int, list[RasRank]] = {}
        for rank in one.ranks[:_MOST_RANKS]:
            if operation in rank.collective_counts:
                counts.setdefault(rank.collective_counts[operation], []).append(rank.known())
        if len(counts) > 1:
            name = clean_line(operation, _MOST_NAME)
            launched += [Launched(name, n, len(ranks), tuple(sorted(ranks))) for n, ranks in sorted(counts.items())]
    missing = tuple(sorted(rank.known() for rank in one.missing_ranks[:_MOST_RANKS]))
    return Communicator(clean_line(one.hash, _MOST_NAME).removeprefix("0x"), missing, tuple(launched))


_VERSION: Final = lazy_re(r"NCCL version (\S+)", re.ASCII)
_HEAD: Final = lazy_re(r"#\d+-\d+ \((?P<name>[0-9a-f]{1,32})\) (?P<what>[A-Z]+)", re.ASCII)
_LAUNCHED: Final = r"(?:not launched any operations|launched up to operation (?P<count>\d{1,18}))"
_DIFFERENT: Final = lazy_re(
    r"\s+Communicator ranks have different (?:(?P<what>\w+) )?(?:collective )?operation counts", re.ASCII
)
_GROUP: Final = lazy_re(rf"\s+(?P<number>\d{{1,8}}) ranks? ha(?:ve|s) {_LAUNCHED}", re.ASCII)
_RANK: Final = lazy_re(
    rf"\s+Rank (?P<rank>\d{{1,8}})(?P<says> has {_LAUNCHED})?"
    r" -- (?:GPU .{1,60}? managed by process (?P<pid>\d{1,10}) on node (?P<host>\S{1,100})|\[)",
    re.ASCII,
)
_MISSING: Final = lazy_re(r"\s+The missing ranks?: (?P<ranks>[\d, -]{1,4000})", re.ASCII)
_PROCESS: Final = lazy_re(r"\s+Process (?P<pid>\d{1,10}) on node (?P<host>\S{1,100}) managing GPU", re.ASCII)


def read_text(text: str) -> RasReply:
    """Parse a text reply to `VERBOSE STATUS`; raise UnreadableReply if it is none."""
    if _VERSION.search(text) is None and "Communicators..." not in text:
        raise UnreadableReply("it is no status of NCCL's")
    return RasReply(tuple(filter(_says, _communicators(text))), tuple(_dead(text)))


def _communicators(text: str) -> Iterator[Communicator]:
    sections: dict[str, list[tuple[str, str]]] = {}
    head: re.Match[str] | None = None
    for line in text.splitlines():
        if not line.startswith(" "):
            head = _HEAD.match(line)
        elif head is not None:
            sections.setdefault(head["name"], []).append((head["what"], line))
    for name, lines in sections.items():
        missing = [rank for what, line in lines if what == "INCOMPLETE" for rank in _missing(line)]
        launched = _launched([line for what, line in lines if what == "MISMATCH"])
        yield Communicator(name, tuple(missing[:_MOST_RANKS]), tuple(launched))


def _missing(line: str) -> Iterator[RasRank]:
    rank, listed = _RANK.match(line), _MISSING.match(line)
    if rank is not None:
        yield _rank(rank)
    for word in re.findall(r"\d{1,8}", listed["ranks"]) if listed is not None else ():
        yield RasRank(int(word))


def _launched(lines: list[str]) -> Iterator[Launched]:
    operation: str | None = None
    group: Launched | None = None
    for line in [*lines, ""]:
        different, counted, rank = _DIFFERENT.match(line), _GROUP.match(line), _RANK.match(line)
        if rank is not None and rank["says"] is None and group is not None:
            group = Launched(group.operation, group.count, group.number, (*group.ranks, _rank(rank)))
            continue
        if group is not None:
            yield group
            group = None
        if different is not None:
            operation = (different["what"] or "").replace("collective", "")
        elif line.lstrip().startswith("Communicator ranks"):
            operation = None
        elif operation is not None and counted is not None:
            group = Launched(operation, int(counted["count"] or 0), int(counted["number"]))
        elif operation is not None and rank is not None and rank["says"] is not None:
            yield Launched(operation, int(rank["count"] or 0), 1, (_rank(rank),))


def _rank(match: re.Match[str]) -> RasRank:
    pid = match["pid"]
    return RasRank(int(match["rank"]), clean_line(match["host"] or "", _MOST_NAME), int(pid) if pid else None)


def _dead(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line == "DEAD"
        elif inside and (one := _PROCESS.match(line)) is not None:
            yield f"process {one['pid']} on {clean_line(one['host'])}"


def _process(rank: RasRank) -> str:
    return f"process {rank.pid if rank.pid is not None else '?'} on {rank.host or '?'}"


def _says(one: Communicator) -> bool:
    return bool(one.missing or one.launched)
