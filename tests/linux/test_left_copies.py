"""Stack copies that a killed livedbg left are swept, and those of a living one are not; files of ours are private."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from livedbg.text.private_files import open_private, write_private
from livedbg.unwind.unwinder import copy_folder, sweep


@pytest.mark.invariant("unwinder.W1")
@pytest.mark.invariant("unwinder.W2")
def test_only_what_a_dead_process_left_is_swept(tmp_path: Path) -> None:
    with copy_folder(tmp_path) as ours:
        (ours / "core").write_bytes(b"x")
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:  # another livedbg, which is killed
            held = copy_folder(tmp_path)
            folder = held.__enter__()
            (folder / "core").write_bytes(b"x")
            os.write(told, str(folder).encode())
            os.close(told)
            signal.pause()
        theirs = Path(os.read(ready, 4096).decode())
        (tmp_path / "livedbg-copy-link").symlink_to(ours)
        (tmp_path / "other").mkdir()
        assert sweep(tmp_path) == 0  # both live
        assert theirs.is_dir()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert sweep(tmp_path) == 1
        assert not theirs.exists()
        assert (ours / "core").exists()
        os.close(ready)
        os.close(told)
    assert not ours.exists()
    assert (tmp_path / "other").is_dir()


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_private_file_is_0600_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("older and longer", encoding="utf-8")
    old.chmod(0o644)
    before = os.umask(umask)
    try:
        write_private(new, "text")
        write_private(old, b"bytes")
        with pytest.raises(FileExistsError):
            open_private(new, replace=False)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, old)] == [0o600, 0o600]
    assert (new.read_text(encoding="utf-8"), old.read_bytes()) == ("text", b"bytes")


def test_a_report_to_a_device_is_written() -> None:
    write_private(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
