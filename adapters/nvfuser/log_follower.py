"""Follow the logs that contain nvFuser's output, from their beginning, as they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.nvfuser.dumps.statement_reader import Said, StatementReader, read_statements
from livedbg.adapters.nvfuser.model import NvfuserModel
from livedbg.linux import target_files
from livedbg.logs.bytesource import is_packed
from livedbg.model import LogSource
from livedbg.model.errors import SourceError

_BLOCK: Final = 1 << 20
_QUIET_S: Final = 1.0  # after which a statement counts as whole


class _Followed(Struct):
    source: LogSource
    path: Path
    reader: StatementReader = field(default_factory=StatementReader)
    inode: int = 0
    offset: int = 0
    live: bool = False  # its first end was reached: what comes now is new
    fresh: bool = False  # what was read last was new
    open: bool = False  # something was read since the last end
    changed: float = 0.0
    packed: bool = False
    unpacked: Iterator[Said] = field(default_factory=lambda: iter(()))


class LogFollower:
    """Reads the logs that the model wants, and feeds it their statements. Blocking: call it in a thread."""

    def __init__(self, model: NvfuserModel) -> None:
        self._model = model
        self._files: dict[str, _Followed] = {}
        self.problems: dict[str, str] = {}

    def read(self, for_s: float, final: bool) -> bool:
        """Read for some time; return whether there is more. If `final`, current statements are ended."""
        deadline = time.monotonic() + for_s
        with self._model.lock:
            wanted = dict(self._model.wanted)
        for name, source in wanted.items():
            if name not in self._files and source.path:
                path = Path(source.path)
                self._files[name] = _Followed(source, path, packed=is_packed(path))
        for file in self._files.values():
            try:
                for _ in self._file(file, final):
                    if time.monotonic() > deadline:
                        return True
            except SourceError as error:
                self.problems[str(file.path)] = error.message
            except OSError as error:
                self.problems[str(file.path)] = f"{file.path} can't be read: {error.strerror}."
        return False

    def _file(self, file: _Followed, final: bool) -> Iterator[None]:
        """Continue reading one log; yields after each block."""
        if file.packed:
            if not file.live:
                file.live, file.unpacked = True, read_statements(file.path)
            for said in file.unpacked:  # goes on where the last call ended
                with self._model.lock:
                    self._model.take(file.source, said, False, time.time_ns())
                yield
            return
        descriptor = target_files.open_fd(file.path)
        try:
            status = os.fstat(descriptor)
            if file.inode != status.st_ino or status.st_size < file.offset:
                file.reader, file.offset, file.inode = StatementReader(), 0, status.st_ino
            while data := os.pread(descriptor, _BLOCK, file.offset):
                file.offset += len(data)
                file.open, file.changed, file.fresh = True, time.monotonic(), file.live
                self._take(file, data)
                yield
            old = not file.live and time.time() - status.st_mtime > _QUIET_S
            if file.open and (final or old or time.monotonic() - file.changed > _QUIET_S):
                file.open = False
                self._take(file, None)
            file.live = True
        finally:
            os.close(descriptor)

    def _take(self, file: _Followed, data: bytes | None) -> None:
        now_ns = time.time_ns()
        with self._model.lock:
            for said in file.reader.end() if data is None else file.reader.feed(data):
                self._model.take(file.source, said, file.fresh, now_ns)
