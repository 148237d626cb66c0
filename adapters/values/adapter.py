"""The adapter: finds dumps beside the logs, and reads of them what the user asks for.

Reading in threads, given up as soon as nobody needs the result any more.

Where dumps are searched for: in the folders of the logs, and below them.

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
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from livedbg.linux.target_files import is_folder, is_shared
from livedbg.model.intents import VALUES_DUMP
from livedbg.values.readers import DumpFiles

_DEPTH: Final = 6
_FOLDERS: Final = 2_000
_DUMPS: Final = 64

_Signature = tuple[tuple[int, int] | None, ...]


@dataclass(slots=True)
class Changes:
    """What is new.

    Attributes:
        dumps: those that are new or have changed.
        replaced: payloads whose manifest has come.
        gone: those that are there no more.
        left_out: why not all were searched for, or "".
    """

    dumps: list[Path] = field(default_factory=list)
    replaced: list[Path] = field(default_factory=list)
    gone: list[Path] = field(default_factory=list)
    left_out: str = ""


class Finder:
    """Remembers the dumps that were found, and how their files were.

    Args:
        files: names of the files of dumps.
    """

    def __init__(self, files: Sequence[DumpFiles]) -> None:
        self._payloads = {one.manifest: one.payload for one in files}
        self._seen: dict[Path, _Signature] = {}

    @property
    def dumps(self) -> list[Path]:
        """All that are known."""
        return list(self._seen)

    def changes(self, folders: Iterable[Path], named: Path | None) -> Changes:
        """What is new since the last time. Blocking: call it in a thread."""
        found = Changes()
        there, found.left_out = self._dumps(folders, named)
        for path in there:
            signature = self._signature(path)
            known = self._seen.get(path)
            if known == signature or signature[0] is None:
                continue
            if known is None and len(self._seen) >= _DUMPS:
                found.left_out = f"There are more than {_DUMPS} dumps; the others are not shown."
                continue
            self._seen[path] = signature
            found.dumps.append(path)
        for path in [path for path in self._seen if self._signature(path)[0] is None]:
            del self._seen[path]
            found.gone.append(path)
        payloads = {path.parent / self._payloads.get(path.name, "") for path in self._seen}
        for path in [path for path in self._seen if path in payloads]:
            del self._seen[path]
            found.replaced.append(path)
        return found

    def _signature(self, path: Path) -> _Signature:
        """By which it is seen that a dump has changed: of its manifest, and of the payload beside it."""
        return _of_file(path), _of_file(path.parent / self._payloads.get(path.name, path.name))

    def _dumps(self, folders: Iterable[Path], named: Path | None) -> tuple[list[Path], str]:
        found = [named] if named is not None else []
        seen = 0
        for top in folders:
            for folder, below, files in target_files.walk(top):
                here = Path(folder)
                seen += 1
                if seen > _FOLDERS:
                    return found, f"Only the first {_FOLDERS:,} folders were searched for dumps."
                if len(here.parts) - len(top.parts) >= _DEPTH:
                    below.clear()
                below[:] = sorted(name for name in below if not name.startswith("."))
                for manifest, payload in self._payloads.items():
                    name = next((one for one in (manifest, payload) if one in files), None)
                    if name is not None and here / name != named:
                        found.append(here / name)
        return found, ""


def folders_of(context: Context) -> list[Path]:
    """The folders that were named, and those in which the logs are that were found, but for such as /tmp."""
    found: dict[Path, None] = {}
    for name in context.request.logs:
        path = Path(name).expanduser().absolute()
        while any(sign in str(path) for sign in "*?[") and path != path.parent:
            path = path.parent
        if is_folder(path) or not is_shared(path.parent):
            found[path if is_folder(path) else path.parent] = None
    for source in context.snapshot().log_sources.values():
        if source.path and not is_shared(Path(source.path).parent):
            found[Path(source.path).parent] = None
    return [folder for folder in found if not any(other in folder.parents for other in found)]


def named_in(context: Context) -> Path | None:
    """A dump that was named itself, whatever it is called."""
    name = context.request.options.get(VALUES_DUMP)
    return Path(name) if name else None


def _of_file(path: Path) -> tuple[int, int] | None:
    try:
        status = target_files.status(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


T = TypeVar("T")


async def in_thread(function: Callable[[], T], newer: threading.Event | None = None) -> T | None:
    """Run it in a thread until it is done, or `newer` is set, or the caller is cancelled.

    Returns:
        What it gave; None where it was given up.
    """
    end = threading.Event()
    stops = (end, newer) if newer is not None else (end,)

    def run() -> T | None:
        from livedbg.values.tensor import GivenUp, until

        try:
            with until(*stops):
                return function()
        except GivenUp:
            return None

    try:
        return await asyncio.to_thread(run)
    finally:
        end.set()


class Turn:
    """One thread reads at a time, and of all that wait for it with the same key only the newest will."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._newer: dict[str, threading.Event] = {}

    @property
    def idle(self) -> bool:
        """Whether nobody reads."""
        return not self._lock.locked()

    async def newest(self, function: Callable[[], T], key: str = "") -> T | None:
        """Have what is read for the same key given up, and read this; None where something newer came."""
        if key in self._newer:
            self._newer[key].set()
        mine = self._newer[key] = threading.Event()
        async with self._lock:
            return None if mine.is_set() else await in_thread(function, mine)


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
