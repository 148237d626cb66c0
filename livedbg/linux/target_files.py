"""Files and folders named by a target: in its environment, its arguments, its mappings, its descriptors, its logs.

Such a name comes from somebody who may be another user than the one that runs livedbg. As root, the file is reached
with the rights of the target, in the target's root folder. Paths named by the user of livedbg (`vouch`) are opened as
the user. All code that opens a path which may come from a target does so here (tests/linux/test_raw_opens.py).

`open_binary`, `open_text`, `read_bytes` and `read_text` raise OSError as `open_fd` does.

Invariants:
    target_files.T1. Only regular files are opened. A path is first resolved without opening (O_PATH), and that very
        file is opened then: no device is triggered, nobody who waits at the other end of a pipe wakes, and exchanging
        the file meanwhile gains nothing.
    target_files.T2. Where livedbg runs as root and a target as somebody else, nothing is read or listed that this one
        could not read or list. A path that no target is known to have named has to be open to all of their users.
    target_files.T3. There, no path leads out of the root folder of the process that it goes through, nor through a
        magic link (proc_pid_fd(5)), nor, at its end, through a link that a third user put into a folder that everybody
        may write to; and nothing is read of pseudo file systems (proc, sysfs, tracefs).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fnmatch import translate
from glob import escape, has_magic
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TextIO, TypeVar, cast

from livedbg.linux import procfs
from livedbg.linux.beneath import is_made_up, named_below
from livedbg.linux.fs_identity import FsIdentity, acting_as, identity_of, is_privileged
from livedbg.linux.procfs import living_task
from livedbg.text.patterns import lazy_re

T = TypeVar("T")

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_THROUGH: Final = lazy_re(r"/proc/(\d+)(?:/task/\d+)?/(root|cwd)(/.*)?")
_ITSELF: Final = lazy_re(r"/proc/(\d+)(?:/task/\d+)?/(exe|fd/\d+|map_files/[0-9a-f]+-[0-9a-f]+)")
_ESCAPED: Final = lazy_re(r"\[([*?[])\]")  # glob.escape

_identities: dict[int, FsIdentity] = {}  # of targets, as they were last seen
_claims: dict[str, int] = {}  # who named a path
_vouched: set[str] = set()


class Entry(NamedTuple):
    """An entry of a folder, and the kind of its mode (stat.S_IFMT), links not followed; 0 if not known."""

    name: str
    path: Path
    inode: int
    kind: int


class _Place(NamedTuple):
    """A resolved path and the rights to use (empty: ours); `root` is "" if the kernel follows the path by itself."""

    root: str
    path: str
    identities: tuple[FsIdentity, ...]
    links: bool = True


def register(pid: int) -> None:
    """Register a target: the paths that it names are not the user's (T2), also once it has ended."""
    if is_privileged():
        with suppress(OSError, KeyError, ValueError, IndexError):
            _identities[pid] = identity_of(pid)


def owner_of(pid: int) -> FsIdentity:
    """Return the identity with which a process opens files, or did before it ended.

    Raises:
        OSError: it is gone, and was no target.
    """
    register(pid)
    known = _identities.get(pid)
    return identity_of(pid) if known is None else known


def claim(path: Path | str, pid: int) -> None:
    """Register that a process named a path: it is opened with the rights of this process only."""
    register(pid)
    _claims[str(path)] = pid


def vouch(path: Path | str) -> None:
    """Register that the user of livedbg named a file or a folder: it, and all below, is opened as the user."""
    _vouched.add(str(Path(path).absolute()))


def forget() -> None:
    """Clear all registrations (for tests)."""
    _identities.clear()
    _claims.clear()
    _vouched.clear()


def reached(pid: int, path: Path | str) -> Path:
    """Convert an absolute path of a process to one of ours: through its root folder, if that isn't ours.

    Raises:
        OSError: the process is gone, or its root folder is not visible.
    """
    theirs, ours = os.stat(f"/proc/{living_task(pid)}/root"), os.stat("/")  # noqa: PTH116 (magic links)
    same = os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")  # noqa: PTH115
    if same and (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino):
        return Path(path)
    return Path(f"/proc/{pid}/root") / Path(path).relative_to("/")


def open_fd(path: Path | str, *, made_up: bool = False, links: bool = True) -> int:
    """Open a regular file for reading; return a descriptor (T1). `made_up` allows pseudo file systems (T3).

    Raises:
        OSError: it can't be read, or is no regular file (EINVAL).
    """
    return _as_all(_placed(str(path), links=links), _opened_file, os.close, made_up=made_up)


def open_binary(path: Path | str, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading bytes."""
    return os.fdopen(open_fd(path), "rb", buffering)


def open_text(path: Path | str) -> TextIO:
    """Open a regular file for reading UTF-8; invalid bytes are replaced."""
    return cast("TextIO", os.fdopen(open_fd(path), encoding="utf-8", errors="replace"))


def read_bytes(path: Path | str, most: int = -1, *, made_up: bool = False) -> bytes:
    """Return the bytes of a regular file, all or the first ones."""
    with os.fdopen(open_fd(path, made_up=made_up), "rb") as file:
        return file.read(most)


def read_since_start(pid: int, name: str, largest: int) -> bytes | None:
    """Return a file that a process was made of, such as its source; None if it was changed since that process began.

    Args:
        name: its path in the process's root folder, or from its working folder.
        largest: bytes; a larger one is None too.

    Raises:
        OSError: as `open_fd` does, or the process is gone.
        ValueError: of what the kernel says of the process.
    """
    root = Path(f"/proc/{pid}")
    path = root / "root" / name.removeprefix("/") if name.startswith("/") else root / "cwd" / name
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    began_s = booted_s + procfs.read_stat(pid).start_ticks * procfs.CLOCK_TICK_NS / 1e9
    if status(path).st_mtime > began_s:
        return None
    text = read_bytes(path, largest)
    return text if len(text) < largest else None


def read_text(path: Path | str) -> str:
    """Return the text of a regular file, as `open_text` decodes it."""
    with open_text(path) as file:
        return file.read()


def status(path: Path | str) -> os.stat_result:
    """Return stat(2) of a path.

    Raises:
        OSError: it is missing or not visible.
    """
    return _as_all(_placed(str(path)), os.fstat, lambda _: None)


def is_regular(path: Path | str) -> bool:
    """Return whether a path visibly names a regular file."""
    with suppress(OSError, ValueError):
        return stat.S_ISREG(status(path).st_mode)
    return False


def is_folder(path: Path | str) -> bool:
    """Return whether a path visibly names a folder."""
    with suppress(OSError, ValueError):
        return stat.S_ISDIR(status(path).st_mode)
    return False


def is_shared(path: Path | str) -> bool:
    """Return whether everybody may write to this folder, as to /tmp (sticky, chmod(1))."""
    try:
        mode = status(path).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def is_closed(path: Path | str) -> bool:
    """Return whether we have no permission to stat a path."""
    try:
        status(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def entries(folder: Path | str, most: int | None = None) -> list[Entry]:
    """Return the entries of a folder, all or the first ones.

    Raises:
        OSError: it can't be listed.
    """

    def listed(found: int) -> list[Entry]:
        opened = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(opened) as inside:
                seen = islice(inside, most)
                return [Entry(one.name, Path(folder, one.name), one.inode(), _kind(one)) for one in seen]
        finally:
            os.close(opened)

    return _as_all(_placed(str(folder)), listed, lambda _: None)


def walk(top: Path | str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk folders as os.walk does. Links to folders are listed, not followed."""
    try:
        inside = entries(top)
    except (OSError, ValueError):
        return
    below = [one.name for one in inside if stat.S_ISDIR(one.kind) or (_is_link(one) and is_folder(one.path))]
    links, folders = {one.name for one in inside if _is_link(one)}, set(below)
    yield str(top), below, [one.name for one in inside if one.name not in folders]
    for name in below:
        if name not in links:
            yield from walk(Path(top, name))


def walk_some(tops: Iterable[Path], depth: int = 6, most: int = 20_000) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk folders as `walk` does, in order and without hidden ones, down to a depth and up to a number of entries.

    A top that is a regular file is yielded as the only one of its folder.
    """
    visited = 0
    for top in tops:
        if is_regular(top):
            yield top.parent, [], [top.name]
        for root, below, files in walk(top):
            deep = len(Path(root).relative_to(top).parts) >= depth
            below[:] = [] if deep else sorted(name for name in below if not name.startswith("."))
            visited += len(below) + len(files)
            if visited > most:
                return
            yield Path(root), below, sorted(files)


def without_wildcards(pattern: Path | str) -> Path:
    """Return the absolute path that a pattern of glob(7) has before its first part with a wildcard."""
    path = Path(pattern).expanduser().absolute()
    while any(mark in str(path) for mark in "*?[") and path != path.parent:
        path = path.parent
    return path


def glob(pattern: Path | str) -> list[Path]:
    """Return the files that match an absolute pattern of glob(7), in order; `**` is a folder and all below it."""
    found = [Path("/")]
    for part in Path(pattern).parts[1:]:
        plain = _ESCAPED.sub(r"\1", part)
        if not has_magic(_ESCAPED.sub("", part)):
            found = [folder / plain for folder in found]
            continue
        if part == "**":
            found = [Path(top) for folder in found for top, _, _ in walk(folder)]
            continue
        fits, hidden = re.compile(translate(part)).match, part.startswith(".")
        listed = [one for folder in found for one in _entries_if_any(folder)]
        found = [one.path for one in listed if fits(one.name) and (hidden or not one.name.startswith("."))]
    return sorted(path for path in found if _exists(path))


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the files in a folder that match a pattern of glob(7), in order."""
    return glob(f"{escape(str(folder.absolute()))}/{pattern}")


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG if entry.is_file() else 0


def _is_link(entry: Entry) -> bool:
    return stat.S_ISLNK(entry.kind)


def _entries_if_any(folder: Path) -> list[Entry]:
    with suppress(OSError, ValueError):
        return entries(folder)
    return []


def _exists(path: Path) -> bool:
    with suppress(OSError, ValueError):
        status(path)
        return True
    return False


def _placed(path: str, *, links: bool = True) -> _Place:
    path = os.path.abspath(path) if not path.startswith("/") else path  # noqa: PTH100 (not a Path)
    if found := _ITSELF.fullmatch(path):  # what it has open for writing it need not be able to read
        mine = not found[2].startswith("fd/") or int(found[1]) == os.getpid()
        return _Place("", path, () if mine else _rights_of(int(found[1])))
    if found := _THROUGH.fullmatch(path):
        pid = int(found[1])
        base = f"/proc/{living_task(pid)}/root"
        return _Place(base, _from_root(base, found), _rights_of(pid), links)
    rights = _rights_on(path)
    return _Place("/" if rights else "", path, rights, links)


def _from_root(base: str, found: re.Match[str]) -> str:
    """Convert a path of ours through a process's root or working folder to one from its root folder."""
    if found[2] == "root":
        return found[3] or "/"
    root, folder = os.readlink(base), os.readlink(f"{base[:-4]}cwd")  # noqa: PTH115
    if root != "/":
        if folder != root and not folder.startswith(f"{root}/"):
            raise FileNotFoundError(errno.ENOENT, "the working folder is outside of the root folder", folder)
        folder = folder[len(root) :] or "/"
    return folder + (found[3] or "")


def _rights_of(pid: int) -> tuple[FsIdentity, ...]:
    """Return the rights of one target, if they aren't ours."""
    if not is_privileged() or pid == os.getpid():
        return ()
    register(pid)
    if pid not in _identities:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{pid}")
    return _others((_identities[pid],))


def _rights_on(path: str) -> tuple[FsIdentity, ...]:
    """Return the rights to open a path with: of the process that named it; of all targets, if not known."""
    others = _others(tuple(_identities.values()))
    if not others or not is_privileged():
        return ()
    above = [path, *map(str, Path(path).parents)]
    if any(one in _vouched for one in above):
        return ()
    owner = next((_claims[one] for one in above if one in _claims), None)
    if owner is not None:
        return _rights_of(owner)
    return tuple(dict.fromkeys(others))


def _others(identities: tuple[FsIdentity, ...]) -> tuple[FsIdentity, ...]:
    return tuple(one for one in identities if one.uid != os.geteuid())


def _as_all(place: _Place, use: Callable[[int], T], drop: Callable[[T], object], *, made_up: bool = False) -> T:
    """Return `use` of a place, with the first identity's rights; the others must be able to do it too."""
    first, *rest = place.identities or (None,)
    found = _as_one(place, first, use, made_up)
    try:
        for identity in rest:
            drop(_as_one(place, identity, use, made_up))
    except BaseException:
        drop(found)
        raise
    return found


def _as_one(place: _Place, identity: FsIdentity | None, use: Callable[[int], T], made_up: bool) -> T:
    base = os.open(place.root, _FOLDER) if place.root else -1
    flags = os.O_PATH | os.O_CLOEXEC | (0 if place.links else os.O_NOFOLLOW)
    itself = os.open(place.path, flags) if base < 0 else -1
    uid = identity.uid if identity is not None else os.geteuid()

    def reach() -> T:
        found = named_below(base, place.path, uid, links=place.links) if base >= 0 else itself
        try:
            if identity is not None and base >= 0 and not made_up and is_made_up(found):
                raise PermissionError(errno.EACCES, "a file of the kernel is not read", place.path)
            return use(found)
        finally:
            if found != itself:
                os.close(found)

    try:
        return reach() if identity is None else acting_as(identity, reach)
    finally:
        for one in (base, itself):
            if one >= 0:
                os.close(one)


def _opened_file(found: int) -> int:
    if not stat.S_ISREG(os.fstat(found).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return os.open(f"/proc/self/fd/{found}", _READ)
