"""Errors of pypto's compiler and of ptoas as diagnostics: `compile-error`, one a function and message.

The decoder gathers them from logs; the Ascend adapter adds how far the passes got, from the folders below the logs'.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import ClassVar, Final

from livedbg.adapters.ascend.compile_errors import CompileError, Stage
from livedbg.adapters.ascend.compile_reader import EXACT, KEYWORDS, OPENS, CompileReader
from livedbg.adapters.ascend.pass_difference import PassChange, change_of
from livedbg.adapters.ascend.passes import PassDump, next_pass, quoted
from livedbg.adapters.ascend.pipeline import PIPELINE
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Severity
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many

__all__ = ["CompileDecoder"]

_TEXT_LIMIT: Final = 2_000
_NEAR: Final = 12  # lines of a report before and after the one that names the error
_REPORT: Final = "codegen_errors.txt"


class CompileDecoder(LogDecoder):
    """Understands what a compilation says when it fails; the adapter emits it, once it has looked for the dumps.

    Attributes:
        news: something was taken since the last call of `events`.
        ended: all logs have been read to their end.
    """

    name = "pypto"
    triggers: ClassVar[tuple[bytes, ...]] = KEYWORDS
    exact: ClassVar[Mapping[bytes, re.Pattern[bytes]]] = EXACT
    opens: ClassVar[tuple[bytes, ...]] = OPENS

    def __init__(self) -> None:
        self.news = self.ended = False
        self._readers: dict[str, CompileReader] = {}
        self._paths: dict[str, PurePath] = {}
        self._shown = Publisher("ascend/compile")
        self._dumps: list[PassDump] = []
        self._lock = threading.RLock()

    @property
    def failed(self) -> bool:
        """Some compilation failed: it is worth while to look for its dumps."""
        with self._lock:
            return any(reader.errors for reader in self._readers.values())

    def opened(self, source: LogSource) -> None:
        """A log begins."""
        with self._lock:
            self._readers[source.id] = CompileReader()
            self._paths[source.id] = PurePath(source.path or source.name or source.id)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        with self._lock:
            reader = self._readers.setdefault(record.source, CompileReader())
            name = self._paths.setdefault(record.source, PurePath(record.source)).name
            for number, line in enumerate(record.text.split("\n")):
                where = (clean_line(name), record.line_at(number))
                self.news = reader.take(line.rstrip("\r"), where, record.wall_ns) or self.news
            return (), ()

    def knows(self, record: LogRecord) -> bool:
        """A line close to an error that was read: the reports of the compilers have many."""
        with self._lock:
            reader = self._readers.get(record.source)
            if reader is None or record.line is None:
                return False
            lines = (error.where[1] for error in reader.errors.values())
            return any(abs(line - record.line) <= _NEAR for line in lines if line is not None)

    def over(self) -> None:
        """The last record has been taken."""
        self.ended = True

    def use_dumps(self, dumps: Sequence[PassDump]) -> None:
        """How far the passes got, newest last."""
        with self._lock:
            self._dumps = list(dumps)

    def use_sources(self, folders: Sequence[Path]) -> None:
        """Read the source lines that errors name, where they are there. Blocking: call it in a thread."""
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
        """The events that follow from what was taken since the last call."""
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
        attributes = {
            "scope": "pypto",
            "stage": str(error.stage),
            "function": error.function,
            "op": error.op if error.op not in said else "",
            "shape": error.shapes if any(shape not in said for shape in error.shapes.split("], ")) else "",
            "place": str(place) if place is not None else "",
            "generated": "yes" if place is not None and place.generated else "",
            "code": error.code,
            "origin": str(error.origin) if error.origin is not None else "",
            "hint": error.help,
            "rule": error.rule,
            "internal": "yes" if error.internal else "",
            "check": error.check,
            "more": str(error.more or ""),
            "report": error.report,
            "beyond": str(reader.beyond or ""),
            "compare": _command(error, self._dump_of(error, path)),
            **self._passes(error, path),
        }
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
            attributes={name: value for name, value in attributes.items() if value},
            evidence=tuple(evidence),
            at_wall_ns=error.wall_ns,
            resolved=reader.overtaken,
        )

    def _passes(self, error: CompileError, path: PurePath) -> dict[str, str]:
        """Which pass failed: as the message says, or behind the last one whose dump is there."""
        if error.stage is Stage.PARSER:
            return {}
        dump = self._dump_of(error, path)
        if error.stage is Stage.PTOAS:
            return {"last": dump.last, "dump": dump.file} if dump is not None else {}
        if error.after or error.before:
            named = {"failed": error.after or error.before, "side": "result" if error.after else "input"}
            return {**named, "dump": dump.file} if dump is not None else named
        if dump is None:
            return {}
        found = {"last": dump.last or "the frontend", "dump": dump.file, "missing": str(dump.missing or "")}
        if dump.last == PIPELINE[-1]:
            return {**found, "complete": "yes"}
        return {**found, "failed": next_pass(dump.last)}

    def _dump_of(self, error: CompileError, path: PurePath) -> PassDump | None:
        """The passes' dumps that belong to an error."""
        if error.stage is Stage.PARSER:
            return None
        if error.stage is Stage.PTOAS:
            return self._nearest([d for d in self._dumps if d.unit and d.unit == error.function], path)
        return self._nearest([d for d in self._dumps if not d.unit], path)

    @staticmethod
    def _nearest(dumps: Sequence[PassDump], log: PurePath) -> PassDump | None:
        """The dump that lies nearest to a log; of several the newest."""

        def shared(dump: PassDump) -> int:
            return len([1 for a, b in zip(dump.path.parts, log.parts, strict=False) if a == b])

        return max(dumps, key=lambda dump: (shared(dump), dump.written_ns), default=None)


def _command(error: CompileError, dump: PassDump | None) -> str:
    if error.change is None or dump is None:
        return ""
    files = (dump.path / error.change.before, dump.path / error.change.after)
    return f"diff -u {' '.join(shell_word(clean_line(str(file))) for file in files)}"


def _shown(change: PassChange) -> Evidence:
    more = f"\n… and {many(change.more, 'more line')} that differ" if change.more else ""
    text = "\n".join(["the last change before the error:", *change.lines]) + more
    return Evidence(kind="file", file=f"{change.before} → {change.after}", text=text)
