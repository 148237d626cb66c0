"""Collect the material for a reproduction from logs, folders and recordings: scripts, dumps of segments, errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final

from livedbg.adapters.nvfuser.dumps.failures import Failure, groups_in, parts_of
from livedbg.adapters.nvfuser.dumps.scan import Scanner
from livedbg.adapters.nvfuser.dumps.segments import SegmentedFusion
from livedbg.adapters.nvfuser.dumps.statement_reader import read_statements
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    Definition,
    Domains,
    Failed,
    Kernel,
    Script,
    Segmented,
    Statement,
    Whole,
)
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import Line
from livedbg.logs.paths import scan
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.model.errors import SourceError
from livedbg.model.events import LogsSeen, ProcessSeen
from livedbg.recording.file import RecordingReader, is_recording
from livedbg.session.filereaders import no_log_suffixes

_KEPT: Final = 1_000  # statements of one kind; the newest win


@dataclass(slots=True)
class Cut:
    """A segmented fusion, with related statements before and after."""

    fusion: SegmentedFusion
    where: str
    whole: Whole | None = None
    domains: Domains | None = None
    script: Script | None = None
    number: int | None = None
    arguments: dict[int, Arguments] = field(default_factory=dict)
    definitions: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """An error, and its place."""

    failure: Failure
    where: str
    cut: Cut | None


@dataclass(slots=True)
class Material:
    """All material.

    Attributes:
        scripts: with the place of each.
        definitions: of segments without a preceding dump, by group.
        python: the interpreter of the debugged process, from a recording.
        problems: files that could not be read completely.
    """

    scripts: list[tuple[Script, str]] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    errors: list[Found] = field(default_factory=list)
    definitions: dict[int, str] = field(default_factory=dict)
    python: str = ""
    problems: list[str] = field(default_factory=list)

    def failed_groups(self) -> list[int]:
        """Return the groups in errors, in order."""
        groups = (group for found in self.errors for part in parts_of(found.failure) for group in _groups_of(part))
        return list(dict.fromkeys(groups))

    def cut_with(self, group: int) -> Cut | None:
        """Return the dump for a group: the one in which it failed, else the newest that has it."""
        for found in reversed(self.errors):
            if found.cut is not None and any(group in _groups_of(part) for part in parts_of(found.failure)):
                return found.cut
        return next((cut for cut in reversed(self.cuts) if group in cut.fusion.groups), None)


def gather(path: Path) -> Material:
    """Read a log, all logs below a folder, or a recording; raise SourceError if it can't be read."""
    material = Material()
    if is_recording(path):
        _recording(path, material)
        return material
    found = scan(str(path), no_logs=no_log_suffixes())
    if not found.files:
        raise SourceError(f"{path} holds no log that can be read.", "give a log, a folder of logs, or a recording")
    for file in found.files:
        gatherers: dict[str, _Gatherer] = {}
        try:
            for said in read_statements(file.path):
                gatherers.setdefault(said.prefix, _Gatherer(material, file.path.name)).take(said.statement)
        except SourceError as error:
            material.problems.append(error.message)
    _pair_up(material)
    return material


def _groups_of(part: Failure) -> list[int]:
    """Return the group that an error names, or whose kernel its message names."""
    return [part.group] if part.group is not None else sorted(groups_in(part))


@dataclass(slots=True)
class _Gatherer:
    """Sorts the statements of one log (and rank in it): which belong together."""

    material: Material
    name: str
    script: Script | None = None
    whole: Whole | None = None
    domains: Domains | None = None
    cut: Cut | None = None

    def take(self, statement: Statement) -> None:
        where = f"{self.name}:{statement.line}" if statement.line is not None else self.name
        material = self.material
        match statement:
            case Script():
                self.script = statement
                material.scripts = [*material.scripts[-_KEPT:], (statement, where)]
            case Whole():
                self.whole = statement
            case Domains():
                self.domains = statement
            case Segmented():
                self.cut = Cut(statement.fusion, where, self.whole, self.domains, self.script)
                self.whole = self.domains = None
                material.cuts = [*material.cuts[-_KEPT:], self.cut]
            case Kernel():
                if self.cut is not None and self.cut.number is None:
                    self.cut.number = statement.fusion
            case Arguments():
                if statement.group is not None and self.cut is not None:
                    self.cut.arguments[statement.group] = statement
            case Definition():
                if statement.group is not None:
                    material.definitions[statement.group] = statement.text
                    if self.cut is not None:
                        self.cut.definitions[statement.group] = statement.text
            case Failed():
                material.errors = [*material.errors[-_KEPT:], Found(statement.failure, where, self.cut)]


def _pair_up(material: Material) -> None:
    """Pair up parts from different files, in any order: a part without a counterpart gets the newest."""
    for cut in material.cuts:
        if cut.script is None and material.scripts:
            cut.script = material.scripts[-1][0]
    for number, found in enumerate(material.errors):
        groups = [part.group for part in parts_of(found.failure) if part.group is not None]
        if found.cut is None and groups:
            fitting = (one for one in reversed(material.cuts) if all(group in one.fusion.groups for group in groups))
            material.errors[number] = Found(found.failure, found.where, next(fitting, None))


def _recording(path: Path, material: Material) -> None:
    of: dict[tuple[str, str], tuple[Scanner, _Gatherer]] = {}
    for source, writer, text, number in _lines(path, material):
        scanner, gatherer = of.setdefault((source, writer), (Scanner(), _Gatherer(material, PurePath(source).name)))
        for statement in scanner.feed(text, number):
            gatherer.take(statement)
    for scanner, gatherer in of.values():
        for statement in scanner.finish():
            gatherer.take(statement)
    _pair_up(material)


def _lines(path: Path, material: Material) -> Iterator[tuple[str, str, str, int | None]]:
    doors: dict[str, FrontDoor] = {}  # older recordings keep the wrapped text
    with contextlib.closing(RecordingReader(path)) as reader:
        for event in reader.events():
            if isinstance(event, ProcessSeen) and not material.python:
                exe = event.process.exe or ""
                material.python = exe if PurePath(exe).name.startswith("python") else ""
            if isinstance(event, LogsSeen):
                for record in event.records:
                    door = doors.setdefault(record.source, FrontDoor(SourceClock(0, 0)))
                    for offset, line in enumerate(record.text.split("\n")):
                        number = record.line_at(offset)
                        for plain in door.open(Line(line, 0, number)):
                            yield record.source, record.writer or plain.tag.writer, plain.text, number
