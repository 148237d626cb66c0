"""The decoder of what logs say of CUDA: knows the words, and loads what understands them when one comes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from livedbg.adapters.cuda.errors import RULE
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import Event, Stamp

if TYPE_CHECKING:
    from livedbg.adapters.cuda.log_reader import CudaReader

__all__ = ["CudaDecoder"]

_RULE: Final = f"{RULE} ".encode()


class CudaDecoder(LogDecoder):
    """Makes diagnostics, and exceptions, of what logs say of errors of CUDA."""

    name = "cuda"
    triggers: ClassVar[tuple[bytes, ...]] = (
        _RULE,
        b"] Assertion ",
        b"GPU assertion failure message",
        b"coredump: ",
        b"CUDA Exception: ",
        b"CUDA_EXCEPTION_",
        b"[Switching focus to CUDA kernel",
        b"<<<(",
        b"[CUDA][",
        b"CUDA_DEVICE_WAITS_ON_EXCEPTION is set",
    )
    exact: ClassVar[Mapping[bytes, re.Pattern[bytes]]] = {_RULE: re.compile(rb"(?<!=)" + _RULE)}

    def __init__(self) -> None:
        self._sources: list[LogSource] = []
        self._reader: CudaReader | None = None

    def opened(self, source: LogSource) -> None:
        """A log begins."""
        self._sources.append(source)
        if self._reader is not None:
            self._reader.opened(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        if self._reader is None:
            self._reader = self._load()
        return self._reader.feed(record, stamp)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """End what is open, and report what was counted."""
        return self._reader.flush(stamp) if self._reader is not None else ()

    def _load(self) -> CudaReader:
        from livedbg.adapters.cuda.log_reader import CudaReader  # patterns take some 20 ms; most sessions need none

        reader = CudaReader()
        for source in self._sources:
            reader.opened(source)
        return reader
