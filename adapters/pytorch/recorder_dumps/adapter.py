"""Find Flight Recorder dumps below the named folders, compare the ranks of a job, and publish the findings.

A dump is a pickle, or the JSON of the worker server. Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp (keys),
FlightRecorderDetail.hpp (dump, dump_json); checked with dumps of torch 2.13 (version 2.10 of the format, gloo). Those
of NCCL have the same keys but were not tested.

A pickle can name and call any function. Only plain data is accepted: every name is refused.

Invariants:
    compared.R1. A rank that is named waits for no other one: of those that wait for each other none is.
    compared.D1. A malformed entry is left out, and the others stay.
    compared.A1. Nothing of the pickle is imported, called or looked up.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from livedbg.adapters.pytorch.collectives.joined import Look, Standing, join
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.adapters.pytorch.facts import DumpFacts
from livedbg.adapters.pytorch.rules.calls import rank_list
from livedbg.adapters.pytorch.rules.circles import ranks_behind
from livedbg.linux import target_files
from livedbg.model import Diagnostic, Evidence, Severity
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready


class BadDump(ValueError):
    """A file that is no dump, a damaged one, or one that holds more than plain data; the text says which, for users."""


class _Plain(pickle.Unpickler):
    """An unpickler that refuses all names."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise BadDump(f"it wants to use {module}.{name}, which is not done")

    def persistent_load(self, _identifier: object, /) -> NoReturn:
        raise BadDump("it refers to things outside of it")


def load_plain(data: bytes) -> object:
    """Return the value of a pickle; raise BadDump if it is damaged or not plain data."""
    try:
        return _Plain(io.BytesIO(data)).load()
    except BadDump:
        raise
    except Exception as error:  # a damaged pickle fails in any way
        raise BadDump(f"it is cut short or damaged ({type(error).__name__})") from None


MOST_BYTES: Final = 64 << 20
"""A larger file is not read."""

_HEAD: Final = 1 << 12
_NUMBER: Final = lazy_re(r"(\d{1,40})(?:\.(?:json|pickle|pkl|bin|dump))?$")
_LIBRARY: Final = lazy_re(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|^<")


class _Frame(Struct):
    name: str = ""
    filename: str = ""
    line: int = 0


class _Entry(Struct):
    record_id: int
    process_group: tuple[str, str]
    profiling_name: str
    time_created_ns: int
    pg_id: int = 0
    collective_seq_id: int = 0
    p2p_seq_id: int = 0
    is_p2p: bool = False
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    state: str = ""
    retired: bool = False
    timeout_ms: int = 0
    frames: tuple[_Frame, ...] = ()


class Dump(Struct, frozen=True, kw_only=True):
    """Dump of one rank.

    Attributes:
        rank: its global rank.
        written_wall_ns: mtime of the file.
        entries: in enqueue order.
        lines: the user's line that enqueued an entry (`train.py:41`), by the entry's record, if the dump has it.
        groups: the ranks of its groups, by name, if the dump has them.
        whole: the ring had not wrapped.
    """

    rank: int
    written_wall_ns: int
    entries: tuple[Entry, ...]
    lines: Mapping[int, str]
    groups: Mapping[str, tuple[int, ...]]
    whole: bool


def rank_in_name(name: str) -> int | None:
    """Return the rank at the end of a file's name, as torch writes it (`nccl_trace_rank_3`); None if there is none."""
    found = _NUMBER.search(name)
    return int(found[1]) if found is not None and len(found[1]) < 8 else None


def looks_like_dump(path: Path) -> bool:
    """Return whether a file begins like a dump."""
    try:
        with target_files.open_binary(path) as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if head.startswith(b"\x80"):
        return b"pg_config" in head or b"entries" in head or b"nccl_version" in head
    return head.lstrip().startswith(b"{") and b'"entries"' in head


def read_dump(path: Path) -> Dump:
    """Read one dump; raise BadDump if it is damaged or none, OSError if it is unreadable."""
    rank = rank_in_name(path.name)
    if rank is None:
        raise BadDump("its name does not end with the number of a rank")
    status = target_files.status(path)
    if status.st_size > MOST_BYTES:
        raise BadDump(f"it is larger than {MOST_BYTES >> 20} MiB")
    value = _loaded(target_files.read_bytes(path))
    rows = value.get("entries")
    if not isinstance(rows, (list, tuple)):
        raise BadDump("it has no entries")
    read = [one for row in rows if (one := _entry(row)) is not None]
    if rows and not read:
        raise BadDump("its entries are not those of a Flight Recorder")
    entries = sorted((_made(one) for one in read), key=lambda entry: entry.record)
    return Dump(
        rank=rank,
        written_wall_ns=status.st_mtime_ns,
        entries=tuple(entries),
        lines={one.record_id: line for one in read if (line := _line(one.frames))},
        groups=_groups(value.get("pg_config")),
        whole=not entries or entries[0].record == 0,
    )


def _loaded(data: bytes) -> dict[str, Any]:
    try:
        value = load_plain(data) if data.startswith(b"\x80") else msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadDump(f"it is no whole JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadDump("it is not a dump of a Flight Recorder")
    return value


def _entry(row: object) -> _Entry | None:
    try:
        return msgspec.convert(row, ready(_Entry), strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None  # D1


def _made(one: _Entry) -> Entry:
    backend, colon, operation = one.profiling_name.partition(":")
    return Entry(
        record=one.record_id,
        group=clean_line(one.process_group[0], 200),
        description=clean_line(one.process_group[1], 200),
        sequence=one.p2p_seq_id if one.is_p2p else one.collective_seq_id,
        name=clean_line(operation if colon else one.profiling_name, 200),
        backend=clean_line(backend if colon else "", 50),
        created_wall_ns=one.time_created_ns,
        timeout_ms=one.timeout_ms,
        is_p2p=one.is_p2p,
        shapes=(*one.input_sizes, *one.output_sizes),
        thread=0,
        done=one.retired or one.state == "completed",
        instance=one.pg_id,
    )


def _line(frames: tuple[_Frame, ...]) -> str:
    """Return the user's innermost line; frames of installed packages are skipped."""
    own = next((frame for frame in frames if not _LIBRARY.search(frame.filename)), None)
    return clean_line(f"{own.filename.rpartition('/')[2]}:{own.line}", 200) if own is not None else ""


def _groups(config: object) -> dict[str, tuple[int, ...]]:
    """Return the ranks of groups: `{"1": {"name": "1", "desc": "dp", "ranks": "[0, 1]"}}`; gloo mostly has none."""
    found = {}
    for one in config.values() if isinstance(config, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            ranks = tuple(int(word) for word in re.findall(r"\d{1,7}", str(one.get("ranks", ""))))
            if ranks:
                found[clean_line(one["name"], 200)] = ranks
    return found


class Said(Struct, frozen=True, kw_only=True):
    """One statement about a job's dumps.

    Attributes:
        code: `dump-missing`, `dump-circle`, `dump-differs`, `dump-unseen`.
        since_wall_ns: when it was enqueued first.
        for_ns: time from then to the last change of a file (of the dump itself, or of a copy).
    """

    code: str
    sentence: str
    key: str
    since_wall_ns: int
    for_ns: int


def compare(dumps: Sequence[Dump]) -> list[Said]:
    """Return the findings of all dumps, culprit first; [] if no collective was pending."""
    world = max((max(ranks) + 1 for dump in dumps for ranks in dump.groups.values()), default=0)
    world = max(world, max((dump.rank + 1 for dump in dumps), default=0))
    looks = [_look(dump, dumps, world) for dump in dumps]
    pending = {dump.rank: tuple(e for e in dump.entries if not e.done and not e.is_p2p) for dump in dumps}
    found = join(looks, pending)
    waiting = {rank for one in found for rank in one.entries}
    written = max((dump.written_wall_ns for dump in dumps), default=0)
    by_rank = {dump.rank: dump for dump in dumps}
    said = [_differs(one, by_rank, written) for one in found if one.differs]
    for rank in sorted({rank for one in found for rank in one.absent} - waiting):  # R1
        one = max((one for one in found if rank in one.absent), key=lambda one: len(one.entries))
        said.append(_missing(rank, one, found, by_rank, written))
    if not said and any(one.absent for one in found):
        said.append(_circle([one for one in found if one.absent], by_rank, written))
    if not said:
        said += [_unseen(one, by_rank, written) for one in found if one.unseen][:1]
    return said


def _look(dump: Dump, dumps: Sequence[Dump], world: int) -> Look:
    """Return a rank's state; the members of an unlisted group are the ranks that have used it."""
    groups: dict[str, tuple[int, ...]] = {"0": tuple(range(world))}
    for other in dumps:
        groups |= {name: ranks for name, ranks in other.groups.items() if len(ranks) > len(groups.get(name, ()))}
    for name in {entry.group for entry in dump.entries} - groups.keys():
        groups[name] = tuple(sorted(d.rank for d in dumps if any(entry.group == name for entry in d.entries)))
    ring = Ring(entries=dump.entries, count=len(dump.entries), whole=dump.whole)
    return Look(rank=dump.rank, process="", rings=(ring,), groups=groups)


def _title(one: Standing) -> str:
    group = one.description or ("" if one.group == "0" else one.group)
    return f"{one.first.name} #{one.sequence}{f' of group {group}' if group else ''}"


def _place(one: Standing, dumps: Mapping[int, Dump]) -> str:
    """Return ` (train.py:41)`: the line that enqueued it, if the same on all ranks."""
    lines = {dumps[rank].lines.get(entry.record, "") for rank, entry in one.entries.items()}
    return f" ({next(iter(lines))})" if len(lines) == 1 and "" not in lines else ""


def _last(dump: Dump) -> str:
    """Return a sentence on the last operation that a rank had enqueued."""
    entry: Entry | None = max(dump.entries, key=lambda entry: entry.record, default=None)
    if entry is None:
        return "it had entered none"
    group = entry.description or entry.group
    line = dump.lines.get(entry.record, "")
    return f"its last was {entry.name} #{entry.sequence} of {group}{f' ({line})' if line else ''}"


def _missing(rank: int, one: Standing, found: Iterable[Standing], dumps: Mapping[int, Dump], written_ns: int) -> Said:
    waiting = ranks_behind(rank, ((one.entries, one.absent) for one in found))
    world = max(len(dumps), len(one.members))
    sentence = (
        f"Rank {rank} of {world} had not entered {_title(one)} when the Flight Recorders were dumped; "
        f"{_last(dumps[rank])}; {rank_list(waiting)} waited for it{_place(one, dumps)}."
    )
    return _said("dump-missing", sentence, one, str(rank), written_ns)


def _differs(one: Standing, dumps: Mapping[int, Dump], written_ns: int) -> Said:
    does: dict[str, list[int]] = {}
    for rank, entry in one.entries.items():
        shape = f" [{', '.join(map(str, entry.shapes[0]))}]" if entry.shapes else ""
        does.setdefault(f"{entry.name}{shape}", []).append(rank)
    few = sorted(does.items(), key=lambda item: (len(item[1]), item[1]))
    parts = "; ".join(f"{rank_list(ranks)}: {what}" for what, ranks in few)
    sentence = f"{_title(one)} was not the same on all ranks{_place(one, dumps)}: {parts}."
    return _said("dump-differs", sentence, one, "differs", written_ns)


def _circle(found: Sequence[Standing], dumps: Mapping[int, Dump], written_ns: int) -> Said:
    ordered = sorted(found, key=lambda one: -len(one.entries))
    parts = [
        f"{rank_list(one.entries, start=not number)} waited in {_title(one)}{_place(one, dumps)}"
        for number, one in enumerate(ordered)
    ]
    oldest = min(one.first.created_wall_ns for one in found)
    return Said(
        code="dump-circle",
        sentence=f"{'; '.join(parts)}: the ranks did not call the same in one order.",
        key="circle",
        since_wall_ns=oldest,
        for_ns=written_ns - oldest,
    )


def _unseen(one: Standing, dumps: Mapping[int, Dump], written_ns: int) -> Said:
    waited = f"{rank_list(one.entries, start=True)} waited in {_title(one)}{_place(one, dumps)}"
    return _said("dump-unseen", f"{waited}; there is no dump of {rank_list(one.unseen)}.", one, "unseen", written_ns)


def _said(code: str, sentence: str, one: Standing, key: str, written_ns: int) -> Said:
    since_ns = one.first.created_wall_ns
    key = f"{one.group}/{one.sequence}/{key}"
    return Said(code=code, sentence=sentence, key=key, since_wall_ns=since_ns, for_ns=written_ns - since_ns)


_DEPTH: Final = 4  # folders below a given one that are looked into
_FILES: Final = 16_384
_POLL_S: Final = 2.0
_AGAIN: Final = "let torch write it again (torch.distributed's debug server, or TORCH_FR_DUMP_TEMP_FILE)"


class RecorderDumpsAdapter(PolledAdapter):
    """Flight Recorder dumps in the folders of logs."""

    name = "recorder-dumps"
    title = "Flight Recorder dumps"
    sees = "which rank had not entered a collective, from the Flight Recorder dumps of a job that may have ended"
    cost = "looks for the files every 2 s; reads each when it has changed"

    of_logs = True

    def __init__(self) -> None:
        super().__init__()
        self._dumps: dict[Path, tuple[tuple[int, int], Dump | None]] = {}
        self._news = False  # some of them were read by the last look
        self._shown, self._statuses = Publisher("pytorch/dumps"), Statuses(self.name)

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.logs)

    async def look(self, context: Context) -> float:
        bad = await asyncio.to_thread(self._read, list(context.request.logs))
        for path, problem in bad.items():
            sentence = clean_line(f"{path.name} looks like a Flight Recorder dump and can't be read: {problem}.")
            self._statuses.say(context, clean_line(str(path)), "bad-dump", sentence, _AGAIN)
        folders: dict[Path, list[Dump]] = {}
        for path, (_, dump) in self._dumps.items() if self._news else ():
            if dump is not None:
                folders.setdefault(path.parent, []).append(dump)
        for folder, dumps in folders.items():
            if len({dump.rank for dump in dumps}) == len(dumps):
                told = (_diagnostic(folder, one, dumps) for one in compare(dumps))
                fresh = [one for one in told if one.id not in self._shown.diagnostics]
                context.emit(*self._shown.add(context.stamp(), diagnostics=fresh))
        return _POLL_S

    def _read(self, names: Sequence[str]) -> dict[Path, str]:
        """Read new dumps; return unreadable files with the reason."""
        self._news, bad = False, dict[Path, str]()
        for path in _candidates(names):
            try:
                status = target_files.status(path)
                stamp = (status.st_mtime_ns, status.st_size)
                if self._dumps.get(path, (None, None))[0] == stamp or len(self._dumps) >= _FILES:
                    continue
                self._dumps[path] = (stamp, None)
                if looks_like_dump(path):
                    self._dumps[path] = (stamp, read_dump(path))
                    self._news = True
            except OSError:
                continue  # it has just gone
            except BadDump as error:
                bad[path] = str(error)
        return bad


def _candidates(names: Iterable[str]) -> Iterator[Path]:
    """Yield files whose name ends with a rank: named ones, or those below a named folder."""
    named = (Path(name).expanduser().absolute() for name in names)
    for folder, _, files in target_files.walk_some(named, _DEPTH):
        yield from (folder / one for one in files if rank_in_name(one) is not None)


def _diagnostic(folder: Path, one: Said, dumps: Sequence[Dump]) -> Diagnostic:
    ranks = ", ".join(str(dump.rank) for dump in sorted(dumps, key=lambda dump: dump.rank)[:32])
    text = f"dumps of ranks {ranks}; the oldest was enqueued {one.for_ns / 1e9:.0f} s before the last file was changed"
    return Diagnostic(
        id=f"pytorch/{one.code}/{clean_line(str(folder))}/{one.key}",
        system="pytorch",
        code=one.code,
        severity=Severity.ERROR,
        sentence=one.sentence,
        facts=DumpFacts(pending_ns=one.for_ns or 0, since_ns=one.since_wall_ns or 0),
        evidence=(Evidence(kind="file", file=clean_line(str(folder)), text=text),),
        at_wall_ns=max(dump.written_wall_ns for dump in dumps),
    )
