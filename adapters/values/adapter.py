"""The adapter: finds dumps beside the logs, in their folders and below, and reads tensors of them on request.

Reading runs in threads, and is cancelled as soon as its result is no longer needed.

Invariants:
    values_adapter.V1. At most three threads read: one previews a tensor, one compares, one lists. A preview that is no
        longer wanted is cancelled, and a waiting one is dropped: a cursor that moves leaves no queue behind.
    values_adapter.V2. The state identifies a dump by its sanitised path; only dumps found here are opened.
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
    from livedbg.values.state import Previewer
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
    """Changes since the last search.

    Attributes:
        dumps: new and changed ones.
        replaced: payloads whose manifest has appeared.
        gone: dumps that no longer exist.
        left_out: why the search was incomplete, or "".
    """

    dumps: list[Path] = field(default_factory=list)
    replaced: list[Path] = field(default_factory=list)
    gone: list[Path] = field(default_factory=list)
    left_out: str = ""


class Finder:
    """Remembers the dumps that were found (files of these names), and the state of their files."""

    def __init__(self, files: Sequence[DumpFiles]) -> None:
        self._payloads = {one.manifest: one.payload for one in files}
        self._seen: dict[Path, _Signature] = {}

    @property
    def dumps(self) -> list[Path]:
        """All known dumps."""
        return list(self._seen)

    def changes(self, folders: Iterable[Path], named: Path | None) -> Changes:
        """Return the changes since the last time. Blocking: call it in a thread."""
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
        """Return the file states of a dump's manifest and of its payload; they differ if the dump has changed."""
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
    """Return the named folders and the folders of the logs that were found, except shared ones such as /tmp."""
    found: dict[Path, None] = {}
    for name in context.request.logs:
        path = target_files.without_wildcards(name)
        if is_folder(path) or not is_shared(path.parent):
            found[path if is_folder(path) else path.parent] = None
    for source in context.snapshot().log_sources.values():
        if source.path and not is_shared(Path(source.path).parent):
            found[Path(source.path).parent] = None
    return [folder for folder in found if not any(other in folder.parents for other in found)]


def named_in(context: Context) -> Path | None:
    """Return a dump that was named by the user, whatever its file name."""
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
    """Run a function in a thread; return None if it was cancelled: `newer` was set, or the caller was cancelled."""
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
    """A lock for one reading thread; of waiting calls with the same key only the newest runs."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._newer: dict[str, threading.Event] = {}

    @property
    def idle(self) -> bool:
        """True if no thread reads."""
        return not self._lock.locked()

    async def newest(self, function: Callable[[], T], key: str = "") -> T | None:
        """Cancel older calls with the same key, and run this one; None if a newer one came."""
        if key in self._newer:
            self._newer[key].set()
        mine = self._newer[key] = threading.Event()
        async with self._lock:
            return None if mine.is_set() else await in_thread(function, mine)


_LIMIT: Final = Limit(wall=0.05, least_s=5.0)  # of searches of the folders
_KEEP_S: Final = 60.0


class ValuesAdapter(PolledAdapter):
    """Finds dumps of tensors, and shows their values on request."""

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
        """Return whether the session is interactive: a report shows no values."""
        return not request.once

    async def run(self, context: Context) -> None:
        try:
            await super().run(context)
            await asyncio.gather(*self._comparing)
        finally:
            for task in self._comparing:
                task.cancel()

    async def look(self, context: Context) -> float:
        """Search for dumps; compare those that have changed again."""
        began_s = time.monotonic()
        for name in await self._changed(context):
            task = asyncio.create_task(self._compare(name, self._goldens[name], context))
            self._comparing.add(task)
            task.add_done_callback(self._comparing.discard)
        if self._previews.idle and began_s - self._previewed_s > _KEEP_S:
            self._previewer = None
        return _LIMIT.rest_s(Cost(wall_s=time.monotonic() - began_s))

    async def handle(self, intent: Intent, context: Context) -> None:
        """Preview a tensor, or compare a dump; raise SourceError if it is unknown in this session."""
        assert isinstance(intent, PreviewValues | CompareValues)
        if intent.path not in self._listed:
            raise SourceError(f"There is no dump {clean_line(intent.path)}.", "see the screen Values", "no-dump")
        if isinstance(intent, PreviewValues):
            loop = asyncio.get_running_loop()

            def emit(preview: ValuePreview) -> None:
                context.emit(ValuesSeen(preview=preview, **context.stamp()))

            self._previewed_s = time.monotonic()
            await self._previews.newest(
                lambda: self._preview(intent, lambda preview: _emit_on_loop(loop, emit, preview))
            )
        else:
            await self._compare(intent.path, intent.golden, context)

    def _preview(self, intent: PreviewValues, emit: Callable[[ValuePreview], None]) -> None:
        """Emit previews of a tensor. Runs in a thread."""
        from livedbg.values.state import Previewer  # numpy is imported where there is a dump

        previewer = self._previewer = self._previewer or Previewer(self._readers)
        try:
            for preview in previewer.previews(self._paths[intent.path], intent.path, intent.number):
                emit(preview)
        except Exception as error:  # no tensor may leave a screen that waits
            emit(ValuePreview(path=intent.path, number=intent.number, problem=_bug(error)))
            raise

    async def _compare(self, name: str, golden: str, context: Context) -> None:
        """Compare dumps one after the other; of two comparisons of the same dump only the newer one is completed."""
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
        """Return the differences, and the dump with all differing rows if its listing was incomplete (in a thread)."""
        from livedbg.values.state import compared, listed

        path, listing = self._paths[name], self._listed[name]
        found = compared(self._readers, path, _as_path(golden), name, self._finder.dumps)
        differing = {task.task for task in found.tasks}
        if len(listing.rows) == listing.count or differing <= {row.task for row in listing.rows}:
            return found, None
        return found, listed(self._readers, path, name, differing)

    async def _changed(self, context: Context) -> list[str]:
        """Report changes; return the dumps to compare again."""
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


def _emit_on_loop(loop: asyncio.AbstractEventLoop, emit: Callable[[ValuePreview], None], preview: ValuePreview) -> None:
    with contextlib.suppress(RuntimeError):  # the session has ended meanwhile
        loop.call_soon_threadsafe(emit, preview)


def _as_path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~somebody who is not known
        return Path(text)


def _bug(error: Exception) -> str:
    return clean_line(f"livedbg failed ({type(error).__name__}: {error}). Please report this.", 300)
