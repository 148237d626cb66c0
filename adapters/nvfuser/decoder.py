"""Recognises logs with nvFuser's text, and links their records to the groups that they name.

The text itself is read by livedbg.adapters.nvfuser.dumps.statement_reader, from the file: its statements have dozens of
lines, which a log's records do not have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from livedbg.adapters.nvfuser.dumps.triggers import TRIGGERS
from livedbg.adapters.nvfuser.model import NvfuserModel
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import Event, Stamp

__all__ = ["NvfuserDecoder"]

_NAMES: Final = (  # each with what it begins with, which is found sooner
    ("nvfuser_", re.compile(r"nvfuser_\w{1,200}?_f(?P<fusion>\d{1,18})_c\d{1,18}_r\d{1,18}_g(?P<group>\d{1,18})\b")),
    ("Arguments for fusion ", re.compile(r"Arguments for fusion (?P<fusion>\d{1,18}) group (?P<group>\d{1,18}):")),
    ("Error from segmentation group ", re.compile(r"Error from segmentation group (?P<group>\d{1,18}):")),
)
_OURS: Final = tuple(word.decode() for word in TRIGGERS if word not in {b"Exception raised from ", b"***Runtime***"})
_RAISED: Final = re.compile(r"Exception raised from \S+ at \S*(?:Fuser/|csrc/)")


class NvfuserDecoder(LogDecoder):
    """Sees nvFuser's text in logs.

    Args:
        model: receives it.
    """

    name = "nvfuser"
    triggers: ClassVar[tuple[bytes, ...]] = TRIGGERS

    def __init__(self, model: NvfuserModel) -> None:
        self._model = model
        self._sources: dict[str, LogSource] = {}
        self._fusion: dict[tuple[str, str], int] = {}  # that was spoken of last

    def opened(self, source: LogSource) -> None:
        """A log begins."""
        self._sources[source.id] = source

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        text = record.text
        if not any(word in text for word in _OURS) and not _RAISED.search(text):
            return (), ()
        source = self._sources.get(record.source)
        if source is not None and source.path:
            self._model.want(source)
        links: dict[str, None] = {}
        prefix = record.writer
        for begin, pattern in _NAMES:
            for match in pattern.finditer(text) if begin in text else ():
                said = match.groupdict().get("fusion")
                if said is not None:
                    self._fusion[record.source, prefix] = int(said[:9])
                fusion = self._fusion.get((record.source, prefix))
                task = self._model.task_of(record.source, prefix, int(match["group"][:9]), fusion)
                if task is not None:
                    links[task] = None
        return (), tuple(links)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """All that is there has been fed."""
        self._model.settled = True
        return ()

    def over(self) -> None:
        """Nobody waits for logs that are not read any more."""
        self._model.settled = True
