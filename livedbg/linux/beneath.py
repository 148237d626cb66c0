"""Path resolution below a root folder that never leaves it; the result is an O_PATH descriptor.

Uses openat2(2); where the kernel lacks it (before 5.6) or a sandbox forbids it, one part of the path after the other.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from functools import cache
from typing import Final

from livedbg.linux.abi import syscall_number

_LINKS: Final = 40  # as the kernel has it (path_resolution(7))
_TRIES: Final = 64  # while somebody renames folders, openat2(2) asks to try again
_PATH: Final = os.O_PATH | os.O_CLOEXEC
_NO_MAGIC: Final = 0x02  # RESOLVE_NO_MAGICLINKS (linux/openat2.h)
_IN_ROOT: Final = 0x10  # RESOLVE_IN_ROOT
_LACKING: Final = (errno.ENOSYS, errno.EPERM)
_MADE_UP: Final = frozenset(
    (
        0x9FA0,  # proc (linux/magic.h)
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0xCAFE4A11,  # bpf
    )
)
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def named_below(root: int, path: str, uid: int, *, links: bool = True) -> int:
    """Return a descriptor (O_PATH) of the file that a path names if `root` is the root folder.

    Args:
        root: a descriptor of a folder.
        path: relative to it.
        uid: in a folder that everybody may write to, a final link is followed only if it belongs to this user or to the
            folder's owner (proc_sys_fs(5), protected_symlinks).
        links: follow a final symbolic link; else the descriptor is that of the link.

    Raises:
        OSError: the file is missing, not visible, or outside.
    """
    for _ in range(_LINKS):
        above, _, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return _below(root, path or ".", _PATH)
        folder = _below(root, above or "/", _PATH | os.O_DIRECTORY)
        try:
            found = os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=folder)
            try:
                link = os.fstat(found)
                if not (links and stat.S_ISLNK(link.st_mode)):
                    return os.dup(found)
                around = os.fstat(folder)
                if around.st_mode & stat.S_IWOTH and link.st_uid not in (uid, around.st_uid):
                    raise PermissionError(errno.EACCES, "a link of another user in a folder that everybody writes into")
                text = _text(found)
                path = text if text.startswith("/") else f"{above}/{text}"
            finally:
                os.close(found)
        finally:
            os.close(folder)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def is_made_up(fd: int) -> bool:
    """Return whether a file is in a pseudo file system, where reading may have side effects."""
    found = (ctypes.c_long * 32)()  # struct statfs: its first word is the type
    if _libc.fstatfs(fd, ctypes.byref(found)) != 0:
        return True
    return int(found[0]) & 0xFFFFFFFF in _MADE_UP


def _text(link: int) -> str:
    return os.readlink("", dir_fd=link)


def _below(root: int, path: str, flags: int) -> int:
    if _has_openat2():
        return _openat2(root, path, flags, _NO_MAGIC | _IN_ROOT)
    return _step_by_step(root, path, flags)


@cache
def _has_openat2() -> bool:
    folder = os.open("/", _PATH | os.O_DIRECTORY)
    try:
        os.close(_openat2(folder, ".", _PATH, _IN_ROOT))
    except OSError as error:
        if error.errno in _LACKING:
            return False
        raise
    finally:
        os.close(folder)
    return True


def _openat2(root: int, path: str, flags: int, resolve: int) -> int:
    number = syscall_number("openat2")
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _How(flags, 0, resolve)
    for _ in range(_TRIES):
        words = (ctypes.c_long(number), ctypes.c_long(root), ctypes.c_char_p(os.fsencode(path)))
        found = int(_libc.syscall(*words, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))))
        if found >= 0:
            return found
        if (code := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


def _step_by_step(root: int, path: str, flags: int) -> int:
    """Resolve a path by hand, keeping the visited folders open, so that `..` is where it was."""
    way = [os.dup(root)]
    rest = path.split("/")[::-1]
    links = 0
    try:
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(way) > 1:
                    os.close(way.pop())
                continue
            way.append(os.open(part, _PATH | os.O_NOFOLLOW, dir_fd=way[-1]))
            if not stat.S_ISLNK(os.fstat(way[-1]).st_mode):
                continue
            links += 1
            if links > _LINKS or is_made_up(way[-1]):  # no magic links
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            text = _text(way[-1])
            os.close(way.pop())
            while text.startswith("/") and len(way) > 1:
                os.close(way.pop())
            rest += text.split("/")[::-1]
        if flags & os.O_DIRECTORY and not stat.S_ISDIR(os.fstat(way[-1]).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return os.dup(way[-1])
    finally:
        for one in way:
            os.close(one)
