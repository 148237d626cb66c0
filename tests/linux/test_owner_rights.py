"""Programs that look into a target run with the rights of its user: `nobody` against root (owner_rights)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from livedbg.adapters.python.pyspy import PySpy, find_py_spy
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbGone
from livedbg.linux.owner_rights import as_owner, give_to_owner
from livedbg.linux.procfs import status_fields
from livedbg.model.errors import LivedbgError, ToolMissing
from livedbg.touch.attach import Attachment
from tests.conftest import eventually

NOBODY, TEAM, SYS_PTRACE = 65534, 54321, 1 << 19
PYTHON = shutil.which("python3", path="/usr/bin:/bin")
"""That of the system, which every user may run."""

WAITS = "import time\ndef deep(): time.sleep(1000)\ndeep()"
LOCKED = f"import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n{WAITS}"
"""PR_SET_DUMPABLE: its files in /proc are root's."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights that the target lacks"),
    pytest.mark.skipif(PYTHON is None, reason="there is no Python in /usr/bin, and nobody may not run that of root"),
]


@pytest.fixture(params=[WAITS, LOCKED], ids=["open", "not dumpable"])
def target(request: pytest.FixtureRequest) -> Iterator[int]:
    argv = [str(PYTHON), "-c", request.param]
    none = subprocess.DEVNULL
    with subprocess.Popen(argv, user=NOBODY, group=NOBODY, extra_groups=[TEAM], stdout=none, stderr=none) as process:
        eventually(lambda: "nanosleep" in Path(f"/proc/{process.pid}/wchan").read_text())
        yield process.pid
        process.kill()


def rights(pid: int) -> dict[str, object]:
    fields = status_fields(pid)
    return {
        "uid": {*map(int, fields["Uid"].split())},
        "gid": {*map(int, fields["Gid"].split())},
        "groups": {*map(int, fields["Groups"].split())},
        "rights": {int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")},
    }


THEIRS = {"uid": {NOBODY}, "gid": {NOBODY}, "groups": {TEAM}, "rights": {SYS_PTRACE}}


def test_stacks_of_python_are_read_from_a_folder_that_is_closed_to_the_user(target: int, tmp_path: Path) -> None:
    spy = Path(shutil.copy(find_py_spy(), tmp_path))
    assert not tmp_path.parent.stat().st_mode & 0o007
    [thread] = asyncio.run(PySpy(str(spy)).dump(target))
    assert [frame.name for frame in thread.frames] == ["deep", "<module>"]


def test_stacks_of_python_are_read_with_the_rights_of_the_user(target: int, tmp_path: Path) -> None:
    shows = tmp_path / "py-spy"
    shows.write_text("#!/bin/sh\necho $(grep -E '^(Uid|Gid|Groups|Cap)' /proc/self/status) >&2\nexit 7\n")
    shows.chmod(0o755)
    ids, only = f"{NOBODY} {NOBODY} {NOBODY} {NOBODY}", f"{SYS_PTRACE:016x}"
    caps = " ".join(f"Cap{name}: {only}" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
    with pytest.raises(LivedbgError, match=f"Uid: {ids} Gid: {ids} Groups: {TEAM} {caps}"):
        asyncio.run(PySpy(str(shows)).dump(target))


async def _gdb_of(target: int) -> tuple[dict[str, object], int]:
    attachment = Attachment(str(shutil.which("gdb")), target)
    await attachment.start()
    try:
        assert attachment.engine.pid is not None
        found = rights(attachment.engine.pid)
        cost = await attachment.attach()
        return found, cost.threads
    finally:
        await attachment.close()


def test_gdb_attaches_with_the_rights_of_the_user(target: int) -> None:
    assert asyncio.run(_gdb_of(target)) == (THEIRS, 1)


@pytest.mark.invariant("owner_rights.W2")
def test_W2_nothing_is_changed_for_a_target_of_our_own() -> None:
    assert as_owner(os.getpid()) == []


@pytest.mark.invariant("owner_rights.W1")
def test_W1_without_the_rights_nothing_is_run(target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "setpriv" else f"/usr/bin/{name}")
    with pytest.raises(ToolMissing, match="setpriv was not found"):
        asyncio.run(PySpy("py-spy").dump(target))
    with pytest.raises(GdbGone, match="setpriv was not found"):
        asyncio.run(GdbEngine("/usr/bin/gdb", target=target).start())


def test_what_is_handed_over_can_be_read_by_that_user_only(target: int, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir(0o700)
    file = folder / "core"
    file.write_bytes(b"")
    file.chmod(0o600)
    give_to_owner(target, file)
    assert (file.stat().st_uid, file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (NOBODY, 0o600, 0o711)
    give_to_owner(os.getpid(), file)
    assert file.stat().st_uid == NOBODY
