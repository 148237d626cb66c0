"""The adapter: finds dumps beside the logs, and reads of them what the user asks for.

Invariants:
    values_adapter.V1. At most three threads read: one previews a tensor, one compares, one lists. A preview that is no
        longer wanted is given up, and one that waits is dropped: a cursor that moves leaves no queue behind.
    values_adapter.V2. The state knows a dump by its sanitised path; only what was found here is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from livedbg.adapters.values.dump_folders import Finder, folders_of, named_in
from livedbg.adapters.values.threads import Turn, in_thread
from livedbg.linux import target_files
from livedbg.model.dumps import ValueComparison, ValueDump, ValuePreview
from livedbg.model.errors import SourceError
from livedbg.model.events import DumpCompared, DumpSeen, ValuesSeen
from livedbg.model.intents import VALUES_GOLDEN, CompareValues, Intent, PreviewValues
from livedbg.session.adapter import Context, Level, Request
from livedbg.session.filereaders import dump_readers
from livedbg.session.pacing import Cost, Limit
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.values.preview import Previewer

__all__ = ["ValuesAdapter"]

_LIMIT: Final = Limit(wall=0.05, least_s=5.0)  # of searches of the folders
_KEEP_S: Final = 60.0


class ValuesAdapter(PolledAdapter):
    """Finds dumps of tensors, and shows what is in them when somebody asks."""

    name: ClassVar[str] = "values"
    sees: ClassVar[str] = "tensors that a run dumped (args_dump, tensor_dump), next to its logs"
    cost: ClassVar[str] = "lists the folders of the logs every 5 s; reads values on request"
    level: ClassVar[Level] = Level.OBSERVE
    handles: ClassVar[tuple[type[Intent], ...]] = (PreviewValues, CompareValues)

    of_logs = True

    def __init__(self) -> None:
        super().__init__()
        self._readers = dump_readers()
        self._finder = Finder(self._readers.files)
        self._paths: dict[str, Path] = {}  # by the state's names
        self._goldens: dict[str, str] = {}  # what each was compared with
        self._previews, self._compares = Turn(), Turn()
        self._listed: dict[str, ValueDump] = {}
        self._statuses = Statuses(self.name)
        self._comparing: set[asyncio.Task[None]] = set()
        self._previewer: Previewer | None = None
        self._previewed_s = 0.0

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Where somebody can ask: a report shows no values."""
        return not request.once

    async def run(self, context: Context) -> None:
        """Search for dumps that are new or have changed."""
        try:
            await super().run(context)
            await asyncio.gather(*self._comparing)
        finally:
            for task in self._comparing:
                task.cancel()

    async def look(self, context: Context) -> float:
        """Look for dumps; those that have changed are compared again."""
        began_s = time.monotonic()
        for name in await self._changed(context):
            task = asyncio.create_task(self._compare(name, self._goldens[name], context))
            self._comparing.add(task)
            task.add_done_callback(self._comparing.discard)
        if self._previews.idle and began_s - self._previewed_s > _KEEP_S:
            self._previewer = None
        return _LIMIT.rest_s(Cost(wall_s=time.monotonic() - began_s))

    async def handle(self, intent: Intent, context: Context) -> None:
        """Preview a tensor, or compare a dump.

        Raises:
            SourceError: that dump was not found in this session.
        """
        assert isinstance(intent, PreviewValues | CompareValues)
        if intent.path not in self._listed:
            raise SourceError(f"There is no dump {clean_line(intent.path)}.", "see the screen Values", "no-dump")
        if isinstance(intent, PreviewValues):
            loop = asyncio.get_running_loop()

            def emit(preview: ValuePreview) -> None:
                context.emit(ValuesSeen(preview=preview, **context.stamp()))

            self._previewed_s = time.monotonic()
            await self._previews.newest(lambda: self._preview(intent, lambda preview: _on(loop, emit, preview)))
        else:
            await self._compare(intent.path, intent.golden, context)

    def _preview(self, intent: PreviewValues, emit: Callable[[ValuePreview], None]) -> None:
        """In a thread."""
        from livedbg.values.preview import Previewer  # numpy is imported where there is a dump

        previewer = self._previewer = self._previewer or Previewer(self._readers)
        try:
            for preview in previewer.previews(self._paths[intent.path], intent.path, intent.number):
                emit(preview)
        except Exception as error:  # no tensor may leave a screen that waits
            emit(ValuePreview(path=intent.path, number=intent.number, problem=_bug(error)))
            raise

    async def _compare(self, name: str, golden: str, context: Context) -> None:
        """One after the other; of two of the same dump, the newer one."""
        self._goldens[name] = golden
        target_files.vouch(_as_path(golden))
        began = ValueComparison(path=name, golden=clean_line(golden), running=True)
        context.emit(DumpCompared(comparison=began, **context.stamp()))
        try:
            done = await self._compares.newest(lambda: self._compared(name, golden), name)
        except Exception as error:
            failed = ValueComparison(path=name, golden=clean_line(golden), problem=_bug(error))
            context.emit(DumpCompared(comparison=failed, **context.stamp()))
            raise
        if done is not None:
            found, dump = done
            if dump is not None:
                self._listed[name] = dump
                context.emit(DumpSeen(dump=dump, **context.stamp()))
            context.emit(DumpCompared(comparison=found, **context.stamp()))

    def _compared(self, name: str, golden: str) -> tuple[ValueComparison, ValueDump | None]:
        """In a thread: what differs, and the dump with the rows of all tasks that do, where it is listed in part."""
        from livedbg.values.state import compared, listed

        path, listing = self._paths[name], self._listed[name]
        found = compared(self._readers, path, _as_path(golden), name, self._finder.dumps)
        differing = {task.task for task in found.tasks}
        if len(listing.rows) == listing.count or differing <= {row.task for row in listing.rows}:
            return found, None
        return found, listed(self._readers, path, name, differing)

    async def _changed(self, context: Context) -> list[str]:
        """Report what has changed.

        Returns:
            The dumps that are to be compared.
        """
        folders, named = folders_of(context), named_in(context)
        changes = await asyncio.to_thread(self._finder.changes, folders, named)
        for path in changes.replaced:
            name = clean_line(str(path))
            context.emit(DumpSeen(dump=ValueDump(path=name, count=0, replaced=True), **context.stamp()))
        for path in changes.gone:
            self._statuses.only(context, clean_line(str(path)), {"gone": ("The dump no longer exists.", "")})
        left_out = {"left-out": (changes.left_out, "livedbg values FOLDER --screen")} if changes.left_out else {}
        self._statuses.only(context, "", left_out)
        compare = []
        for path in changes.dumps:
            name = clean_line(str(path))
            self._paths[name] = path
            if await self._tell(path, name, context):
                golden = self._goldens.get(name) or context.request.options.get(VALUES_GOLDEN)
                if golden:
                    self._goldens[name] = golden
                    compare.append(name)
        return compare

    async def _tell(self, path: Path, name: str, context: Context) -> bool:
        def read() -> ValueDump:
            from livedbg.values.state import listed

            return listed(self._readers, path, name)

        try:
            dump = await in_thread(read)
        except SourceError as error:
            self._statuses.only(context, name, {error.code: (error.message, error.remedy)})
            return False
        if dump is not None:
            self._statuses.withdraw(context, name)
            self._listed[name] = dump
            context.emit(DumpSeen(dump=dump, **context.stamp()))
        return dump is not None


def _on(loop: asyncio.AbstractEventLoop, emit: Callable[[ValuePreview], None], preview: ValuePreview) -> None:
    """Emit on the session's thread, while there is one."""
    with contextlib.suppress(RuntimeError):  # the session has ended meanwhile
        loop.call_soon_threadsafe(emit, preview)


def _as_path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~somebody who is not known
        return Path(text)


def _bug(error: Exception) -> str:
    return clean_line(f"livedbg failed ({type(error).__name__}: {error}). Please report this.", 300)
