"""Finds dumps of Flight Recorders below the folders that were named, and puts what they say together on the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from livedbg.adapters.pytorch.facts import DumpFacts
from livedbg.adapters.pytorch.recorder_dumps.compared import Said, compare
from livedbg.adapters.pytorch.recorder_dumps.dump_file import BadDump, Dump, looks_like_dump, rank_in_name, read_dump
from livedbg.linux import target_files
from livedbg.linux.target_files import is_regular
from livedbg.model import Diagnostic, Evidence, Severity
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.sanitize import clean_line

__all__ = ["RecorderDumpsAdapter"]

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
