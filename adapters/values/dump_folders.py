"""Where dumps are searched for: in the folders of the logs, and below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from livedbg.linux import target_files
from livedbg.linux.target_files import is_folder, is_shared
from livedbg.model.intents import VALUES_DUMP
from livedbg.session.adapter import Context
from livedbg.values.readers import DumpFiles

__all__ = ["Changes", "Finder", "folders_of", "named_in"]

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
