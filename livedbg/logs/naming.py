"""Rank, attempt and host by the names of a log and of its folders.

A number in a name is no rank unless the name says so: most numbers count steps, runs, days or rotations.

Invariants:
    naming.N1. A rank within a host, a group of ranks, an adapter or a node is not taken for a rank of the job.
    naming.N2. A log is of an older attempt only if a number in its path says so (`attempt_0` beside `attempt_1`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from livedbg.logs.writers import NO_TAG, Tag
from livedbg.model import LogSource
from livedbg.text.patterns import lazy_re

_RANK: Final = lazy_re(r"(?<![a-z])rank[_.=-]?(?P<rank>\d{1,6})(?![a-z\d])", re.IGNORECASE)
_WORD_BEFORE: Final = lazy_re(r"(?<![a-z])([a-z]+)[_.-]?$", re.IGNORECASE)
_OF_PARTS: Final = frozenset(
    ("tp", "pp", "dp", "ep", "cp", "sp", "mp", "vp", "tensor", "pipeline", "data", "expert", "node", "group", "shard")
) | frozenset(("lora", "qlora", "dora", "low", "full", "matrix", "svd", "max"))
"""Before `rank`: it is that of a group, or of a matrix."""

_WORKER: Final = lazy_re(r"(?:worker|trainer)[_.-]?(\d{1,6})$", re.IGNORECASE)
_LEADER: Final = lazy_re(r"(?:master|chief|head|launcher|ps|leader)(?:[_.-]?\d{1,3})?$", re.IGNORECASE)
_POD: Final = lazy_re(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?-(?:worker|master|launcher|ps|chief|head)-\d{1,4}$")
_NODE: Final = lazy_re(r"(?:node|host|compute|nid|gpunode)[_-]?\d{1,6}$", re.IGNORECASE)
_ATTEMPT: Final = lazy_re(r"attempt_(\d{1,6})$")
_ATTEMPTED: Final = lazy_re(r"(?:^|[/_.-])(?:attempt|restart|retry)[_-]?(\d{1,6})(?=[/_.-]|$)", re.IGNORECASE)
_PART: Final = lazy_re(r"(?:rank|worker|local|node|host|gpu|npu|device|task|std(?:out|err))[_-]?\d*", re.IGNORECASE)
_NUMBERS: Final = lazy_re(r"\d+")
_OF_TASK: Final = lazy_re(
    r"(?P<job>.+[_.-]\d{4,10})[_.-](?P<node>[a-z]+-?\d{1,6}|\d{1,5})[_.-](?P<task>\d{1,5})$", re.IGNORECASE
)
_DAY: Final = lazy_re(r"(?:19|20)\d\d[_.-]?\d\d[_.-]?\d\d")
_SUFFIX: Final = lazy_re(r"\.(?:log|txt|out|err|stdout|stderr)(?:\.gz|\.zst)?$", re.IGNORECASE)
_ELASTIC: Final = lazy_re(r"/attempt_\d{1,6}/(\d{1,6})/(?:stdout|stderr|error)\.\w+$")
_STREAM: Final = lazy_re(r"(?:std)?(?:out|err)(?:or)?(?=[_.-]|$)")
_FOLDERS: Final = 3  # folders above a log whose names count


def attempt_of(path: str) -> tuple[str, int] | None:
    """Return the folder of all attempts, and a log's attempt, in elastic launchers' layout (`attempt_N/RANK/…`)."""
    parts = PurePath(path).parts
    for place in range(len(parts) - 2, max(-1, len(parts) - 2 - _FOLDERS), -1):
        match = _ATTEMPT.match(parts[place])
        if match is not None:
            return str(PurePath(*parts[:place])), int(match[1])
    return None


def stem_of(path: str) -> str:
    """Return the path of a log without its stream."""
    return _STREAM.sub("#", path)


def tag_of_names(path: str, siblings: Iterable[str] = ()) -> Tag:
    """Return the tag by the names of a log and of its folders.

    Args:
        path: of the log, from the folder on whose names count.
        siblings: names of files and folders beside it, and of folders beside its folder.
    """
    *folders, name = PurePath(path).parts[-1 - _FOLDERS :] or ("",)
    stems = [*folders, _SUFFIX.sub("", name)]
    near = [_SUFFIX.sub("", PurePath(one).name) for one in siblings]
    host = next((stem for stem in reversed(stems) if _POD.match(stem) or _NODE.match(stem)), "")
    rank = next((one for stem in reversed(stems) if (one := _rank(stem, host, near)) is not None), None)
    if rank is None and name != stems[-1]:
        rank = _task(stems[-1], near)
    if rank is None and not host:
        return NO_TAG
    return Tag(f"rank {rank}" if rank is not None else host, rank=rank, host=host)


def _rank(stem: str, host: str, near: Iterable[str]) -> int | None:
    for match in _RANK.finditer(stem):
        before = _WORD_BEFORE.search(stem[: match.start()].lower())
        word = before[1] if before is not None else ""
        if word not in _OF_PARTS and not (word == "local" and host):
            return int(match["rank"])
    worker = _WORKER.match(stem)
    if worker is None or any(_LEADER.match(one) for one in near):
        return None  # beside a master, worker 0 is often rank 1
    return int(worker[1])


def _task(stem: str, near: Iterable[str]) -> int | None:
    """Return the task of `NAME-JOB-NODE-TASK`, if others of its job differ by it."""
    match = _OF_TASK.match(stem)
    if match is None or _DAY.search(stem):
        return None
    others = [one for one in map(_OF_TASK.match, near) if one is not None and one["job"] == match["job"]]
    tasks = {int(one["task"]) for one in others}
    return int(match["task"]) if 0 in tasks and len(tasks) > 1 else None


def told_by_name(source: LogSource, named: str, siblings: Iterable[str] = ()) -> LogSource:
    """Return a log with rank, host and attempt from its names, by its path from the folder that the user named."""
    path = PurePath(source.path or named)
    tag = tag_of_names(str(PurePath(*path.parts[-1 - len(PurePath(named).parts) :])), siblings)
    attempt = attempt_of(str(path))
    rank = tag.rank
    if rank is None and not tag.host and attempt is not None and (own := _ELASTIC.search(path.as_posix())):
        rank = int(own[1])
    if rank is None and not tag.host and attempt is None:
        return source
    return replace(source, rank=rank, host=tag.host, attempt=None if attempt is None else attempt[1])


def beside(paths: Iterable[PurePath]) -> dict[PurePath, set[str]]:
    """Return by folder the names of the logs in it, and of the folders beside it that hold logs."""
    found: dict[PurePath, set[str]] = {}
    folders: dict[PurePath, set[str]] = {}
    for path in paths:
        found.setdefault(path.parent, set()).add(path.name)
        folders.setdefault(path.parent.parent, set()).add(path.parent.name)
    return {folder: names | folders[folder.parent] for folder, names in found.items()}


def older_attempts(sources: Iterable[LogSource]) -> dict[str, str]:
    """Return by id the logs of attempts for which a later attempt has a log, and the proof of that (N2)."""
    found = [(source, match) for source in sources if (match := _ATTEMPTED.search(source.path or "")) is not None]
    newest: dict[str, int] = {}
    for source, match in found:
        if source.size != 0:
            job = match.string[: match.start(1)]
            newest[job] = max(int(match[1]), newest.get(job, 0))
    return {
        source.id: f"attempt {int(match[1])}, and there is attempt {last}"
        for source, match in found
        if (last := newest.get(match.string[: match.start(1)], 0)) > int(match[1])
    }


def series_of(path: str) -> str:
    """Return a log's name without its numbers, equal for consecutive runs; "" for one of a rank or a worker."""
    return "" if _PART.search(path.rpartition("/")[2]) is not None else _NUMBERS.sub("#", path)


def tag_of(source: LogSource) -> Tag:
    """Return the default tag of a log's records."""
    if source.rank is None and not source.host:
        return NO_TAG
    return Tag(f"rank {source.rank}" if source.rank is not None else source.host, rank=source.rank, host=source.host)
