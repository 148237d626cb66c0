"""External programs that open files of a target, run with the rights of the target's user.

A debugger opens the files that its target names: its program, its libraries, their symbols. Run by root for a process
of somebody else it would open for that user files that only root may read. So it gets the user, the group and the
groups of the target, and of root's capabilities CAP_SYS_PTRACE alone, as an ambient one (capabilities(7)). The user
can't trace it to get that capability: tracing needs at least the capabilities of the tracee (cap_ptrace_access_check in
security/commoncap.c).

Invariants:
    owner_rights.W1. Where those rights can't be had, nothing is run.
    owner_rights.W2. For a target of our own user, nothing is changed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from livedbg.linux.fs_identity import FsIdentity, is_privileged
from livedbg.linux.target_files import owner_of
from livedbg.model.errors import TargetGone, ToolMissing

_ONLY: Final = "-all,+sys_ptrace"
_KEPT: Final = [f"--{which}={_ONLY}" for which in ("inh-caps", "ambient-caps", "bounding-set")]


def other_owner(pid: int) -> FsIdentity | None:
    """Return the identity for a program that inspects a process; None for ours.

    Raises:
        OSError: the process is gone, and was no target.
    """
    if not is_privileged():
        return None
    owner = owner_of(pid)
    return owner if (owner.uid, owner.gid) != (os.geteuid(), os.getegid()) else None


def as_owner(pid: int) -> list[str]:
    """Return the prefix of a command line that gives it those rights; empty if ours will do (W2).

    Raises:
        TargetGone: there is no such process.
        ToolMissing: there is no setpriv (W1).
    """
    try:
        owner = other_owner(pid)
    except OSError:
        raise TargetGone(f"There is no process {pid}.", code="gone") from None
    if owner is None:
        return []
    program = shutil.which("setpriv")
    if program is None:
        raise ToolMissing(
            f"setpriv was not found, so no program can look into process {pid} with the rights of its user only.",
            "apt install util-linux",
            "setpriv-missing",
        )
    groups = ",".join(map(str, owner.groups))
    given = [f"--groups={groups}" if groups else "--clear-groups", f"--reuid={owner.uid}", f"--regid={owner.gid}"]
    return [program, *given, *_KEPT, "--"]


def give_to_owner(pid: int, path: Path) -> None:
    """Let a program with those rights read a file of ours, in a folder of ours.

    Raises:
        OSError: the process or the file is gone.
    """
    owner = other_owner(pid)
    if owner is not None:
        path.parent.chmod(0o711)
        os.chown(path, owner.uid, owner.gid)
