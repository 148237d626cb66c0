"""The adapter: looks for dumps beside the logs, and reads of them what somebody asks for."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from livedbg.adapter import Adapter, Context, Level, Request, logs_ended
from livedbg.errors import SourceError
from livedbg.events import DumpCompared, DumpSeen, StatusSeen, ValuesSeen
from livedbg.intents import VALUES_GOLDEN, CompareValues, Intent, LookAtValues
from livedbg.model import SourceHealth, SourceStatus
from livedbg.sanitize import clean_line

__all__ = ["ValuesAdapter"]

_NAMES: Final = (("args_dump.json", "args.bin"), ("tensor_dump.json", "tensor_dump.bin"))
_DEPTH: Final = 6
_FOLDERS: Final = 2_000
_DUMPS: Final = 64
_LOOK_S: Final = 5.0
_SHARE: Final = 20  # a look at the folders takes at most a twentieth of the time


class ValuesAdapter(Adapter):
    """Finds dumps of tensors, and shows what is in them when somebody asks."""

    name: ClassVar[str] = "values"
    sees: ClassVar[str] = "tensors that an Ascend run dumped (args_dump, tensor_dump), beside its logs"
    cost: ClassVar[str] = "a look into the folders of the logs every 5 s; values are read when they are asked for"
    level: ClassVar[Level] = Level.OBSERVE
    handles: ClassVar[tuple[type[Intent], ...]] = (LookAtValues, CompareValues)

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int]] = {}

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Where somebody can ask: a report shows no values."""
        return not request.once

    async def run(self, context: Context) -> None:
        """Look for dumps that are new or have changed."""
        first = True
        while True:
            began_s = time.monotonic()
            folders = _folders(context)
            found = await asyncio.to_thread(self._changed, folders)
            for path in found:
                await self._tell(path, context)
            if first:
                context.settled()
                first = False
            if logs_ended(context):
                return
            await context.sleep(max(_LOOK_S, _SHARE * (time.monotonic() - began_s)))

    async def handle(self, intent: Intent, context: Context) -> None:
        """Look at a tensor, or compare a dump.

        Raises:
            SourceError: that dump was not found in this session.
        """
        assert isinstance(intent, LookAtValues | CompareValues)
        path = Path(intent.path)
        if intent.path not in context.snapshot().dumps:
            raise SourceError(f"There is no dump {clean_line(intent.path)}.", "see the screen Values", "no-dump")
        if isinstance(intent, LookAtValues):
            from livedbg.values.state import looked_at

            look = await asyncio.to_thread(looked_at, path, intent.number)
            context.emit(ValuesSeen(look=look, **context.stamp()))
        else:
            await self._compare(path, intent.golden, context)

    async def _compare(self, path: Path, golden: str, context: Context) -> None:
        from livedbg.values.state import compared

        comparison = await asyncio.to_thread(lambda: compared(path, Path(golden).expanduser()))
        context.emit(DumpCompared(comparison=comparison, **context.stamp()))

    async def _tell(self, path: Path, context: Context) -> None:
        from livedbg.values.state import listed  # numpy is imported where there is a dump

        try:
            dump = await asyncio.to_thread(listed, path)
        except SourceError as error:
            status = SourceStatus(
                source=self.name, target=clean_line(str(path)), health=SourceHealth.DEGRADED, code=error.code,
                sentence=error.message, remedy=error.remedy,
            )  # fmt: skip
            context.emit(StatusSeen(status=status, **context.stamp()))
            return
        context.emit(DumpSeen(dump=dump, **context.stamp()))
        golden = context.request.options.get(VALUES_GOLDEN)
        if golden:
            await self._compare(path, golden, context)

    def _changed(self, folders: Iterable[Path]) -> list[Path]:
        """Dumps that are new or have changed. Blocking: call it in a thread."""
        found: list[Path] = []
        for path in _dumps(folders):
            try:
                status = path.stat()
            except OSError:
                continue
            signature = (status.st_mtime_ns, status.st_size)
            if self._seen.get(path) != signature and len(found) + len(self._seen) < _DUMPS:
                self._seen[path] = signature
                found.append(path)
        return found


def _folders(context: Context) -> list[Path]:
    """Those that were named, and those in which the logs are that were found."""
    found: dict[Path, None] = {}
    for name in context.request.logs:
        path = Path(name).expanduser().absolute()
        while any(sign in str(path) for sign in "*?[") and path != path.parent:
            path = path.parent
        found[path if path.is_dir() else path.parent] = None
    for source in context.snapshot().log_sources.values():
        if source.path:
            found[Path(source.path).parent] = None
    return [folder for folder in found if not any(other in folder.parents for other in found)]


def _dumps(folders: Iterable[Path]) -> Iterable[Path]:
    seen = 0
    for top in folders:
        for folder, below, files in os.walk(top):
            here = Path(folder)
            seen += 1
            if seen > _FOLDERS:
                return
            if len(here.parts) - len(top.parts) >= _DEPTH:
                below.clear()
            below[:] = sorted(name for name in below if not name.startswith("."))
            for manifest, payload in _NAMES:
                if name := next((one for one in (manifest, payload) if one in files), None):
                    yield here / name
