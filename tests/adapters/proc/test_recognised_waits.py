"""Real programs that wait for a key, for a change of a file, and for a child."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from livedbg.adapters.proc.fd_waits import awaited_idly
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers, ThreadReader
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.wait_reader import WaitReader
from livedbg.analysis import VerdictState
from livedbg.linux.abi import native_abi
from livedbg.linux.descriptors import Descriptor
from livedbg.linux.live_environment import detect_libc
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import parse_stat
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnose
from tests.adapters.proc.conftest import HOST, at_rest
from tests.conftest import Target, eventually


def said(pid: int, observe: Callable[..., Snapshot]) -> str:
    """The verdict's sentence of a program that is idle."""
    at_rest(pid)
    found = diagnose(observe(pid)).verdict
    assert found.state is VerdictState.RUNNING, found
    return found.sentence


def test_a_shell_that_reads_a_key_waits_for_it_and_so_does_its_parent(observe: Callable[..., Snapshot]) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "echo ready; sh -c 'read line'; :"])
    try:
        assert b"ready" in os.read(terminal, 100)
        eventually(lambda: bool(Path(f"/proc/{pid}/task/{pid}/children").read_text()))
        sentence = said(pid, observe)
        assert "(sh) waits for a key (read of /dev/pts/" in sentence
        waits = {thread.waits_in or "" for thread in observe(pid).threads.values()}
        assert any(wait.startswith("waitpid of its child") and wait.endswith("(sh)") for wait in waits), waits
    finally:
        os.kill(pid, 9)
        os.close(terminal)
        os.waitpid(pid, 0)


def test_tail_f_waits_for_changes_of_its_file(tmp_path: Path, observe: Callable[..., Snapshot]) -> None:
    log = tmp_path / "a log"
    log.write_text("first\n")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(["tail", "-f", log], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        sentence = said(process.pid, observe)
        assert f"waits for changes of {log}" in sentence
        process.kill()


def test_a_shell_that_waits_for_a_sleep_will_go_on(observe: Callable[..., Snapshot]) -> None:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 10000; :"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        eventually(lambda: bool(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()))
        assert "(sleep) is in sleep" in said(process.pid, observe)
        os.killpg(process.pid, 9)


_SLEEPS_AGAIN = """
import signal, time
def wake(number, frame):
    raise TimeoutError
signal.signal(signal.SIGUSR1, wake)
print("READY", flush=True)
for seconds in (3_000, 60_000):
    try:
        time.sleep(seconds)
    except TimeoutError:
        pass
"""


def test_a_sleep_until_some_time_is_as_long_as_what_was_left_of_it_and_each_one_is_read(
    spawn: Callable[..., Target],
) -> None:
    pid = spawn([sys.executable, "-c", _SLEEPS_AGAIN]).pid
    at_rest(pid)
    abi, mappings = native_abi(), parse_maps(pid)
    assert abi is not None
    reader = WaitReader(ProcessView(Scene(HOST), pid, abi, detect_libc(pid, mappings), ThreadNumbers(pid), mappings))
    threads = ThreadReader(pid)

    def asked() -> float | None:
        return reader.sample(threads.sample()[0])[pid].sleeps_s

    first = asked()
    assert first is not None and 2_000 < first <= 3_000
    assert asked() == first
    os.kill(pid, signal.SIGUSR1)
    eventually(lambda: (asked() or 0) > 50_000)
    threads.close()


def test_only_a_read_of_a_terminal_for_people_is_a_key() -> None:
    me = os.getpid()
    terminal = Descriptor(0, "tty", "/dev/pts/7", "", 1)
    assert awaited_idly(me, terminal, "r") == "a key"
    assert awaited_idly(me, terminal, "w") == ""  # stopped by Ctrl-S
    assert awaited_idly(me, Descriptor(9999, "tty", "/dev/ttyS3", "", 1), "r") == ""  # an instrument
    assert awaited_idly(me, Descriptor(9999, "inotify", "anon_inode:inotify", "", 0), "r") == "changes of files"
    assert awaited_idly(me, Descriptor(3, "file", "/dev/pts/x", "", 1), "r") == ""


def test_the_controlling_terminal_is_told_by_its_device_number() -> None:
    fields = b" ".join(b"0" for _ in range(60))
    for device in (os.makedev(136, 7), os.makedev(136, 300), os.makedev(4, 64)):
        major, minor = os.major(device), os.minor(device)
        number = major << 8 | (minor & 0xFF) | (minor & ~0xFF) << 12
        text = b"1 (sh) S 1 1 1 %d " % number + fields
        assert parse_stat(text).terminal == device
    assert parse_stat(b"1 (sh) S 1 1 1 0 " + fields).terminal == 0
