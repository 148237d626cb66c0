"""The logs that a session reads: those named by the user, and those that the targets write.

The logs of a running process are found by `/proc/PID/fd` and its environment. Nothing is written or stopped. The
systems declare which environment variables name logs, and where a process then writes them (`System.log_places`).

Invariants:
    catalogue.C1. A file is read once, whatever names it has (links, a launched program's capture that is also
        its descriptor 1), and a rotated log is not read again under its new name or when packed.
    catalogue.C2. A place or file that can't be found or read is reported once, and again when that changes.
    catalogue.C3. A log belongs to the process that has its file open for writing, also if the user named it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from livedbg.linux import target_files
from livedbg.linux.descriptors import fd_links, fdinfo
from livedbg.linux.procfs import status_fields
from livedbg.logs.bytesource import PACKED_SUFFIXES
from livedbg.logs.tail import Identity, read_head
from livedbg.model import LogSource, SourceHealth, SourceStatus, ids
from livedbg.session.adapter import Request
from livedbg.session.filereaders import no_log_suffixes
from livedbg.session.systems import declared, note_problem, systems
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many

if TYPE_CHECKING:
    from livedbg.logs.paths import Scan
    from livedbg.session.system import Lazy, System

_LOG_SUFFIXES: Final = frozenset({".log", ".txt", ".out", ".err"})


class ProcessLog(Struct, frozen=True):
    """A log of a process.

    Attributes:
        path: where livedbg can open it (through /proc for another mount namespace or a deleted file).
        name: short name for the screen.
    """

    path: Path
    name: str


class ProcessLogs:
    """Finds the logs of one process (pid in livedbg's PID namespace), repeatedly."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._proc = Path("/proc") / str(pid)
        self._environment: dict[str, str] | None = None

    def find(self) -> list[ProcessLog]:
        """Return the current logs. Empty if the process is gone or can't be read."""
        found: dict[Path, ProcessLog] = {}
        try:
            for log in [*self._open_files(), *self._named_by_environment()]:
                found.setdefault(log.path, log)
        except OSError:  # it ended, or belongs to somebody else: the proc adapter says so
            pass
        return list(found.values())

    def _open_files(self) -> list[ProcessLog]:
        """Return regular files open for writing: descriptors 1 and 2, and files named like a log."""
        found: list[ProcessLog] = []
        for fd, target in sorted(fd_links(self._pid).items()):
            if not target.startswith("/") or target.startswith(("/dev/", "/proc/", "/sys/", "/memfd:")):
                continue
            shown = target.removesuffix(" (deleted)")
            standard = {1: "stdout", 2: "stderr"}.get(fd)
            if (standard is None and Path(shown).suffix not in _LOG_SUFFIXES) or not self._written(fd):
                continue
            path = self._reachable(Path(shown)) if shown == target else self._proc / "fd" / str(fd)
            target_files.claim(path, self._pid)
            if target_files.is_regular(path):
                found.append(ProcessLog(path, standard or Path(shown).name))
        return found

    def _written(self, fd: int) -> bool:
        """Return whether a descriptor is open for writing (the access mode in `flags:` of fdinfo, octal)."""
        try:
            flags = next((value for name, value in fdinfo(self._pid, fd) if name == "flags"), "0")
        except OSError:
            return False
        return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY

    def _named_by_environment(self) -> list[ProcessLog]:
        if self._environment is None:
            self._environment = _environment(self._proc / "environ")
        found: list[ProcessLog] = []
        for pattern in _declared_places(self._environment, self._pids()):
            for path in target_files.glob(self._reachable_glob(pattern)):
                target_files.claim(path, self._pid)
                if target_files.is_regular(path):
                    found.append(ProcessLog(path, path.name))
        return found

    def _pids(self) -> tuple[int, ...]:
        """Return its pid here and, in a PID namespace, its own pid there (NSpid of status)."""
        names = status_fields(self._pid).get("NSpid", "").split()
        return tuple(dict.fromkeys([self._pid, *map(int, names[-1:])]))

    def _reachable(self, path: Path) -> Path:
        """Return a path as livedbg can open it, given the absolute path that the kernel shows."""
        if (self._proc / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
            return path
        return self._proc / "root" / path.relative_to("/")

    def _reachable_glob(self, pattern: str) -> str:
        if not pattern.startswith("/"):
            return str(self._reachable(Path(escape(str((self._proc / "cwd").readlink())), pattern)))
        return str(target_files.reached(self._pid, pattern))


def _declared_places(environment: Mapping[str, str], pids: tuple[int, ...]) -> Iterator[str]:
    """Yield the globs that all systems declare. A system that fails is reported, and the others go on (systems.Y2)."""
    name = os.uname().nodename
    hosts = tuple(dict.fromkeys((name, name.partition(".")[0])))

    def named(system: System) -> Lazy[Any] | None:
        places = system.log_places
        return places.paths if places is not None and environment.keys() & {*places.variables} else None

    for system, paths in declared(named):
        wanted = system.log_places.variables if system.log_places else ()
        variables = {name: environment[name] for name in wanted if name in environment}
        try:
            places = tuple(map(str, paths(variables, pids, hosts)))
        except Exception as error:  # of somebody else's package
            note_problem(system.name, "its log places can't be found", error)
        else:
            yield from places


def _environment(path: Path) -> dict[str, str]:
    """Return the variables of an environ file that some system declares."""
    wanted = {name for system in systems() if system.log_places for name in system.log_places.variables}
    pairs = (entry.partition(b"=") for entry in path.read_bytes().split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if os.fsdecode(name) in wanted}


_HEAD_LEAST = 16  # bytes of a beginning that identify a file
_ODD = 8  # pipes, devices and the like in a folder that are named one by one
_PART = lazy_re(r"(?:\.(?P<number>\d{1,3}))?(?:\.(?:gz|zst))?$")


class Candidate(Struct, frozen=True):
    """A log to open."""

    path: Path
    source: LogSource
    mtime_ns: int


class Found(Struct):
    """The result of a search: new logs, changed statuses, and the writers found of logs that were opened before."""

    new: list[Candidate]
    statuses: list[SourceStatus]
    owners: dict[str, str]


class Catalogue:
    """Finds logs. Not thread-safe; does file I/O."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._known: set[Path] = set()
        self._identities: dict[Identity, bytes] = {}  # of what is or was read, and how it begins
        self._processes: dict[int, ProcessLogs] = {}
        self._writers: dict[Identity, str] = {}
        self._of_nobody: dict[Identity, str] = {}  # ids of the named logs that no process is known to write
        self._said: dict[tuple[str, str], SourceStatus] = {}

    def search(self, pids: Iterable[int]) -> Found:
        """Search once, for the request's logs and processes and for `pids`."""
        said: dict[tuple[str, str], SourceStatus] = {}
        named = [target.pid for target in self._request.processes]
        written = {pid: self._logs_of(pid) for pid in dict.fromkeys([*named, *pids])}
        found = self._writers.keys() & self._of_nobody.keys()
        owners = {self._of_nobody.pop(identity): self._writers[identity] for identity in found}
        new = [candidate for candidate in self._candidates(written, said) if candidate is not None]
        changed = [status for key, status in said.items() if self._said.get(key) != status]
        changed += [_resolved(status) for key, status in self._said.items() if key not in said]
        self._said = said
        return Found(_oldest_first(new), changed, owners)

    def read(self, identity: Identity | None, head: bytes) -> None:
        """Remember a file that is being read (C1)."""
        if identity is not None and len(head) >= len(self._identities.get(identity, b"")):
            self._identities[identity] = head

    def _logs_of(self, pid: int) -> list[ProcessLog]:
        """Return the logs of a process, and note it as their writer unless another process writes them too (C3)."""
        logs = self._processes.setdefault(pid, ProcessLogs(pid)).find()
        for log in logs:
            with suppress(OSError):
                status = target_files.status(log.path)
                self._writers.setdefault((status.st_dev, status.st_ino), ids.process(self._request.host, pid))
        return logs

    def _candidates(
        self, written: Mapping[int, list[ProcessLog]], said: dict[tuple[str, str], SourceStatus]
    ) -> Iterator[Candidate | None]:
        host = self._request.host
        for target in self._request.processes:
            for name, captured in (("stdout", target.stdout), ("stderr", target.stderr)):
                if captured is not None:
                    source = LogSource(
                        id=f"log:{host}/{target.pid}/{name}",
                        name=name,
                        path=str(captured),
                        process=ids.process(host, target.pid),
                    )
                    yield self._new(captured, source)
        if self._request.logs:
            yield from self._named(said)
        for pid, logs in written.items():
            for log in logs:
                source = LogSource(
                    id=_id(host, log.path),
                    name=clean_line(log.name),
                    path=str(log.path),
                    process=ids.process(host, pid),
                )
                yield self._new(log.path, source)

    def _named(self, said: dict[tuple[str, str], SourceStatus]) -> Iterator[Candidate | None]:
        """Yield the logs that the user named."""
        from livedbg.logs.naming import beside, told_by_name
        from livedbg.logs.paths import scan

        host = self._request.host
        for named in self._request.logs:
            found = scan(named, frozenset(self._known), no_log_suffixes())
            near = beside(file.path for file in found.files)
            for file in found.files:
                path = file.path.absolute()
                target_files.vouch(path)
                source = LogSource(id=_id(host, path), name=clean_line(file.name), path=str(path))
                yield self._new(path, told_by_name(source, file.name, near[file.path.parent]))
            for status in self._problems(named, found):
                said[(status.target, status.code)] = status

    def _new(self, path: Path, source: LogSource) -> Candidate | None:
        """Return a candidate, unless the file is read already (C1)."""
        if path in self._known:
            return None
        try:
            status = target_files.status(path)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        if path.suffix in PACKED_SUFFIXES and not status.st_size and not self._request.once:
            return None  # it is being made; what is packed is read once
        identity = (status.st_dev, status.st_ino)
        head = read_head(path)
        before = self._identities.get(identity)
        if before is not None and head.startswith(before[: len(head)]):
            return None
        if path.suffix in PACKED_SUFFIXES and len(head) >= _HEAD_LEAST and self._begins_like(head):
            return None
        self._known.add(path)
        self._identities[identity] = head
        if source.process is None:
            source = structs.replace(source, process=self._writers.get(identity))
        if source.process is None:
            self._of_nobody[identity] = source.id
        return Candidate(path, source, status.st_mtime_ns)

    def _begins_like(self, head: bytes) -> bool:
        """Return whether a file that is or was read begins with the same bytes."""
        return any(len(other) >= _HEAD_LEAST and head.startswith(other) for other in self._identities.values())

    def _problems(self, named: str, found: Scan) -> Iterator[SourceStatus]:
        """Yield statuses for the problems of a named place."""
        target = clean_line(named)
        if found.missing:
            once = self._request.once
            health = SourceHealth.FAILED if once else SourceHealth.DEGRADED
            sentence = f"{target} does not exist" + ("" if once else " yet; it will be read as soon as it appears")
            yield _status(target, health, "no-such-log", sentence, f"ls -l {shell_word(target)}")
        for path, kind in found.odd[:_ODD]:
            whole = clean_line(str(path))
            alone = whole == target
            health = SourceHealth.FAILED if alone else SourceHealth.DEGRADED
            remedy = "name a file instead" if alone else ""
            yield _status(whole, health, "not-a-file", f"{whole} is {kind}: it is not read", remedy)
        if len(found.odd) > _ODD:
            more = many(len(found.odd) - _ODD, "more entry", "more entries")
            sentence = f"{target}: not read because they are no files: {more}"
            yield _status(target, SourceHealth.DEGRADED, "not-files", sentence, "")
        for folder in found.denied:
            sentence = f"{clean_line(str(folder))} can't be listed: permission denied"
            yield _status(
                clean_line(str(folder)),
                SourceHealth.DEGRADED,
                "no-permission",
                sentence,
                f"ls -ld {shell_word(folder)}",
            )
        if found.skipped:
            names = ", ".join(clean_line(path.name) for path in found.skipped[:5])
            more = f" and {len(found.skipped) - 5} more" if len(found.skipped) > 5 else ""
            sentence = f"{target}: not read because they are no logs: {names}{more}"
            yield _status(target, SourceHealth.OK, "binary-skipped", sentence, "")
        if found.too_many:
            sentence = f"{target} holds too many files; only the first ones are read"
            yield _status(target, SourceHealth.DEGRADED, "too-many-files", sentence, "name a subfolder")


def _oldest_first(candidates: list[Candidate]) -> list[Candidate]:
    """Sort by age; the parts of a rotated log by their numbers, since copies have lost their times."""
    ordered = sorted(candidates, key=lambda candidate: candidate.mtime_ns)
    parts: dict[str, list[int]] = {}
    for place, candidate in enumerate(ordered):
        parts.setdefault(_PART.sub("", str(candidate.path)), []).append(place)
    for places in parts.values():
        if len(places) > 1:
            in_turn = sorted((ordered[place] for place in places), key=_age, reverse=True)
            for place, candidate in zip(places, in_turn, strict=True):
                ordered[place] = candidate
    return ordered


def _age(candidate: Candidate) -> int:
    """Return how many times a log was rotated: 0 for `a.log`, 2 for `a.log.2.gz`."""
    match = _PART.search(candidate.path.name)
    return int(match["number"] or 0) if match is not None else 0


def _id(host: str, path: Path) -> str:
    return clean_line(f"log:{host}/{str(path).lstrip('/')}")


def _status(target: str, health: SourceHealth, code: str, sentence: str, remedy: str) -> SourceStatus:
    return SourceStatus(source="logs", target=target, health=health, code=code, sentence=sentence, remedy=remedy)


def _resolved(before: SourceStatus) -> SourceStatus:
    return _status(before.target, SourceHealth.OK, before.code, "", "")
