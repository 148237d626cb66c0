"""Diagnostics `compile-error` for errors of pypto's compiler and ptoas, one for each function and message.

The decoder collects them from logs; the Ascend adapter adds the last pass, from dumps below the logs' folders.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from msgspec import structs

from livedbg.adapters.ascend.compile_reader import CompileError, CompileReader, Stage, compile_lines
from livedbg.adapters.ascend.facts import CompileFacts
from livedbg.adapters.ascend.passes import PassChange, PassDump, change_of, next_pass, pipeline, quoted
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Severity
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many

_TEXT_LIMIT: Final = 2_000
_NEAR: Final = 12  # lines of a report before and after the one that names the error
_REPORT: Final = "codegen_errors.txt"


class CompileDecoder(LogDecoder):
    """Decodes compiler errors; the adapter emits the news, once all logs are read and it has searched for dumps."""

    name = "pypto"

    def __init__(self) -> None:
        self.news = self.ended = False
        self._readers: dict[str, CompileReader] = {}
        self._paths: dict[str, PurePath] = {}
        self._shown = Publisher("ascend/compile")
        self._dumps: list[PassDump] = []
        self._lock = threading.RLock()

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return tuple(word.encode() for word in compile_lines().words)

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        return {word.encode(): re.compile(form.encode()) for word, form in compile_lines().exact.items()}

    @property
    def opens(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return tuple(word.encode() for word in compile_lines().opens)

    @property
    def failed(self) -> bool:
        """Return whether some compilation failed, so that its dumps are of interest."""
        with self._lock:
            return any(reader.errors for reader in self._readers.values())

    def opened(self, source: LogSource) -> None:
        with self._lock:
            self._readers[source.id] = CompileReader()
            self._paths[source.id] = PurePath(source.path or source.name or source.id)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        with self._lock:
            reader = self._readers.setdefault(record.source, CompileReader())
            name = self._paths.setdefault(record.source, PurePath(record.source)).name
            for number, line in enumerate(record.text.split("\n")):
                where = (clean_line(name), record.line_at(number))
                self.news = reader.take(line.rstrip("\r"), where, record.wall_ns) or self.news
            return (), ()

    def knows(self, record: LogRecord) -> bool:
        """Return whether a record is close to a known error: compiler reports have many lines."""
        with self._lock:
            reader = self._readers.get(record.source)
            if reader is None or record.line is None:
                return False
            lines = (error.where[1] for error in reader.errors.values())
            return any(abs(line - record.line) <= _NEAR for line in lines if line is not None)

    def over(self) -> None:
        self.ended = True

    def use_dumps(self, dumps: Sequence[PassDump]) -> None:
        """Set the dumps of the passes, newest last."""
        with self._lock:
            self._dumps = list(dumps)

    def use_sources(self, folders: Sequence[Path]) -> None:
        """Read the source lines of errors, if they exist. Blocking: call it in a thread."""
        with self._lock:
            wanted = [error for reader in self._readers.values() for error in reader.errors.values()]
        for error in wanted:
            if error.place is not None and not error.code:
                error.code, error.origin = quoted(error.place, folders)
        self._compare_dumps()

    def _compare_dumps(self) -> None:
        with self._lock:
            wanted = [
                (error, self._dump_of(error, self._paths[source]))
                for source, reader in self._readers.items()
                for error in reader.errors.values()
            ]
        for error, dump in wanted:
            if dump is not None and error.change is None:
                error.change = change_of(dump.files(error.after), f"{error.message} {error.code}")

    def events(self, stamp: Stamp) -> list[Event]:
        """Return the events since the last call."""
        with self._lock:
            self.news = False
            return self._shown.show(stamp, diagnostics=self._diagnostics())

    def _diagnostics(self) -> list[Diagnostic]:
        found: dict[tuple[str, str], tuple[int, CompileError, str, PurePath]] = {}
        for order, (source, reader) in enumerate(self._readers.items()):
            for error in reader.errors.values():
                path = self._paths[source]
                key = (error.function, error.message[:60])
                best = found.get(key)
                # a report beside the log has the same errors as whole texts: the log's own lines come first
                if best is None or (best[3].name == _REPORT and path.name != _REPORT):
                    found[key] = (order, error, source, path)
        numbered = enumerate(sorted(found.values(), key=lambda entry: (entry[3].name == _REPORT, entry[0])))
        return [self._diagnostic(number, error, source, path) for number, (_, error, source, path) in numbered]

    def _diagnostic(self, number: int, error: CompileError, source: str, path: PurePath) -> Diagnostic:
        reader, said = self._readers[source], error.message or error.rule
        place = error.place
        dump = self._dump_of(error, path)
        foreign = error.stage is Stage.PTOAS and not (reader.by_pypto or error.function)
        facts = CompileFacts(
            stage=error.stage.value,
            function=error.function,
            op=error.op if error.op not in said else "",
            shape=error.shapes if any(shape not in said for shape in error.shapes.split("], ")) else "",
            place=str(place or ""),
            generated=place is not None and place.generated and not foreign,
            foreign=foreign,
            code=error.code,
            origin=str(error.origin or ""),
            hint=error.help,
            internal=error.internal,
            check=error.check,
            more=error.more,
            report=error.report,
            beyond=reader.beyond,
            compare=_command(error, dump),
            dump=dump.file if dump is not None else "",
        )
        text = clean_line(error.text, _TEXT_LIMIT)
        file, line = error.where
        evidence = [Evidence(kind="log", text=text, file=file, line=line, at_wall_ns=error.wall_ns, log=source)]
        if error.change is not None:
            evidence.append(_shown(error.change))
        return Diagnostic(
            id=f"pypto/compile-error/{number + 1}",
            system="ascend",
            code="compile-error",
            severity=Severity.ERROR,
            sentence=said,
            facts=_with_passes(facts, error, dump),
            evidence=tuple(evidence),
            at_wall_ns=error.wall_ns,
            resolved=reader.overtaken,
        )

    def _dump_of(self, error: CompileError, path: PurePath) -> PassDump | None:
        if error.stage is Stage.PARSER:
            return None
        if error.stage is Stage.PTOAS:
            return self._nearest([d for d in self._dumps if d.unit and d.unit == error.function], path)
        return self._nearest([d for d in self._dumps if not d.unit], path)

    @staticmethod
    def _nearest(dumps: Sequence[PassDump], log: PurePath) -> PassDump | None:
        """Return the dump nearest to a log; the newest of several."""

        def shared(dump: PassDump) -> int:
            return len([1 for a, b in zip(dump.path.parts, log.parts, strict=False) if a == b])

        return max(dumps, key=lambda dump: (shared(dump), dump.written_ns), default=None)


def _with_passes(facts: CompileFacts, error: CompileError, dump: PassDump | None) -> CompileFacts:
    """Add the failed pass: from the message, or the one after the last dump."""
    last = dump.last if dump is not None else ""
    if error.stage is Stage.PTOAS:
        return structs.replace(facts, last=last)
    if error.after or error.before:
        return structs.replace(facts, failed=error.after or error.before, side="result" if error.after else "input")
    if dump is None:
        return facts
    facts = structs.replace(facts, last=last or "the frontend", missing=dump.missing)
    complete = last == pipeline()[-1]
    return structs.replace(facts, complete=complete, failed="" if complete else next_pass(last))


def _command(error: CompileError, dump: PassDump | None) -> str:
    if error.change is None or dump is None:
        return ""
    files = (dump.path / error.change.before, dump.path / error.change.after)
    return f"diff -u {' '.join(shell_word(clean_line(str(file))) for file in files)}"


def _shown(change: PassChange) -> Evidence:
    more = f"\n… and {many(change.more, 'more line')} that differ" if change.more else ""
    text = "\n".join(["the last change before the error:", *change.lines]) + more
    return Evidence(kind="file", file=f"{change.before} → {change.after}", text=text)
