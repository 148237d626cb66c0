"""Finds dumps of Flight Recorders below the folders that were named, and puts what they say together on the stream.

Compares the dumps of a job's ranks: who was in which collective, and who was not.

Invariants:
    compared.R1. The rank that is named waits for no other one: of those that wait for each other none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.joined import Look, Standing, join
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.adapters.pytorch.facts import DumpFacts
from livedbg.adapters.pytorch.recorder_dumps.dump_file import BadDump, Dump, looks_like_dump, rank_in_name, read_dump
from livedbg.adapters.pytorch.rules.calls import rank_list
from livedbg.adapters.pytorch.rules.circles import ranks_behind
from livedbg.linux import target_files
from livedbg.linux.target_files import is_regular
from livedbg.model import Diagnostic, Evidence, Severity
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.sanitize import clean_line


class Said(Struct, frozen=True, kw_only=True):
    """One statement about a job's dumps.

    Attributes:
        code: `dump-missing`, `dump-circle`, `dump-differs`, `dump-unseen`.
        sentence: for users.
        key: what tells it from others.
        since_wall_ns: when it was enqueued first.
        for_ns: how long before the last change of a file that was: of the dump itself, or of a copy.
        ranks: those that it is about, the culprits first.
    """

    code: str
    sentence: str
    key: str
    since_wall_ns: int
    for_ns: int
    ranks: tuple[int, ...]


def compare(dumps: Sequence[Dump]) -> list[Said]:
    """What the dumps say together, the culprit first; [] where no collective was pending."""
    world = max((max(ranks) + 1 for dump in dumps for ranks in dump.groups.values()), default=0)
    world = max(world, max((dump.rank + 1 for dump in dumps), default=0))
    looks = [_look(dump, dumps, world) for dump in dumps]
    pending = {dump.rank: tuple(e for e in dump.entries if not e.done and not e.is_p2p) for dump in dumps}
    found = join(looks, pending)
    written = max((dump.written_wall_ns for dump in dumps), default=0)
    by_rank = {dump.rank: dump for dump in dumps}
    said = [_differs(one, by_rank, written) for one in found if one.differs]
    roots = _roots(found)
    for rank in sorted(roots):
        one = max((one for one in found if rank in one.absent), key=lambda one: len(one.entries))
        said.append(_missing(rank, one, found, by_rank, written))
    if not said and any(one.absent for one in found):
        said.append(_circle([one for one in found if one.absent], by_rank, written))
    if not said:
        said += [_unseen(one, by_rank, written) for one in found if one.unseen][:1]
    return said


def _look(dump: Dump, dumps: Sequence[Dump], world: int) -> Look:
    """A rank as it was; of groups whose ranks no dump has, those that have used them are the members."""
    groups: dict[str, tuple[int, ...]] = {"0": tuple(range(world))}
    for other in dumps:
        groups |= {name: ranks for name, ranks in other.groups.items() if len(ranks) > len(groups.get(name, ()))}
    for name in {entry.group for entry in dump.entries} - groups.keys():
        groups[name] = tuple(sorted(d.rank for d in dumps if any(entry.group == name for entry in d.entries)))
    ring = Ring(entries=dump.entries, count=len(dump.entries), whole=dump.whole)
    return Look(rank=dump.rank, process="", rings=(ring,), groups=groups)


def _roots(found: Iterable[Standing]) -> set[int]:
    """The ranks that others waited for, and that themselves waited in nothing (R1)."""
    found = list(found)
    waiting = {rank for one in found for rank in one.entries}
    return {rank for one in found for rank in one.absent} - waiting


def _title(one: Standing) -> str:
    group = one.description or ("" if one.group == "0" else one.group)
    return f"{one.first.name} #{one.sequence}{f' of group {group}' if group else ''}"


def _place(one: Standing, dumps: Mapping[int, Dump]) -> str:
    """` (train.py:41)`: where those that were in it enqueued it, if they did at one line."""
    lines = {dumps[rank].lines.get(entry.record, "") for rank, entry in one.entries.items()}
    return f" ({next(iter(lines))})" if len(lines) == 1 and "" not in lines else ""


def _last(dump: Dump) -> str:
    """What a rank had enqueued last."""
    entry: Entry | None = max(dump.entries, key=lambda entry: entry.record, default=None)
    if entry is None:
        return "it had entered none"
    group = entry.description or entry.group
    line = dump.lines.get(entry.record, "")
    return f"its last was {entry.name} #{entry.sequence} of {group}{f' ({line})' if line else ''}"


def _missing(rank: int, one: Standing, found: Iterable[Standing], dumps: Mapping[int, Dump], written_ns: int) -> Said:
    waiting = ranks_behind(rank, ((one.entries, one.absent) for one in found))
    world = max(len(dumps), len(one.members))
    return Said(
        code="dump-missing",
        sentence=(
            f"Rank {rank} of {world} had not entered {_title(one)} when the Flight Recorders were dumped; "
            f"{_last(dumps[rank])}; {rank_list(waiting)} waited for it{_place(one, dumps)}."
        ),
        key=f"{one.group}/{one.sequence}/{rank}",
        since_wall_ns=one.first.created_wall_ns,
        for_ns=written_ns - one.first.created_wall_ns,
        ranks=(rank, *waiting),
    )


def _differs(one: Standing, dumps: Mapping[int, Dump], written_ns: int) -> Said:
    does: dict[str, list[int]] = {}
    for rank, entry in one.entries.items():
        shape = f" [{', '.join(map(str, entry.shapes[0]))}]" if entry.shapes else ""
        does.setdefault(f"{entry.name}{shape}", []).append(rank)
    few = sorted(does.items(), key=lambda item: (len(item[1]), item[1]))
    parts = "; ".join(f"{rank_list(ranks)}: {what}" for what, ranks in few)
    return Said(
        code="dump-differs",
        sentence=f"{_title(one)} was not the same on all ranks{_place(one, dumps)}: {parts}.",
        key=f"{one.group}/{one.sequence}/differs",
        since_wall_ns=one.first.created_wall_ns,
        for_ns=written_ns - one.first.created_wall_ns,
        ranks=tuple(rank for _, ranks in few for rank in ranks),
    )


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
        ranks=tuple(dict.fromkeys(rank for one in ordered for rank in one.entries)),
    )


def _unseen(one: Standing, dumps: Mapping[int, Dump], written_ns: int) -> Said:
    return Said(
        code="dump-unseen",
        sentence=(
            f"{rank_list(one.entries, start=True)} waited in {_title(one)}{_place(one, dumps)}; there is no dump of "
            f"{rank_list(one.unseen)}."
        ),
        key=f"{one.group}/{one.sequence}/unseen",
        since_wall_ns=one.first.created_wall_ns,
        for_ns=written_ns - one.first.created_wall_ns,
        ranks=tuple(one.entries),
    )


_DEPTH: Final = 4  # folders below a given one that are looked into
_ENTRIES: Final = 20_000  # directory entries that one scan may visit
_FILES: Final = 16_384
_POLL_S: Final = 2.0
_AGAIN: Final = "let torch write it again (torch.distributed's debug server, or TORCH_FR_DUMP_TEMP_FILE)"


class RecorderDumpsAdapter(PolledAdapter):
    """Dumps of Flight Recorders in the folders of logs."""

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
        """When logs are named: a process has its recorder in memory."""
        return bool(request.logs)

    async def look(self, context: Context) -> float:
        """Look for the files."""
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
        """Read the dumps that are new; those that can't be read, and why."""
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
    """Files whose name ends with a number, which is the rank: named themselves, or below a folder that was."""
    visited = 0
    for name in names:
        path = Path(name).expanduser().absolute()
        if is_regular(path) and rank_in_name(path.name) is not None:
            yield path
            continue
        for root, directories, files in target_files.walk(path):
            depth = len(Path(root).relative_to(path).parts)
            directories[:] = sorted(one for one in directories if not one.startswith(".")) if depth < _DEPTH else []
            visited += len(directories) + len(files)
            if visited > _ENTRIES:
                return
            yield from (Path(root, one) for one in sorted(files) if rank_in_name(one) is not None)


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
