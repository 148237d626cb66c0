"""Ctrl-C, a terminal that is closed, an ssh link that drops: everything lets go, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from livedbg.linux.procfs import child_pids, status_fields
from tests.conftest import eventually
from tests.probes.refused import refused
from tests.touch.health import changed_code, counts_on, untouched
from tests.touch.rounds import MARK, marked

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
LIVEDBG = (sys.executable, "-m", "livedbg")

ACTIONS = {
    "catch": (*LIVEDBG, "catch", "PID", "std::runtime_error"),
    "catch --stop": (*LIVEDBG, "catch", "PID", "std::runtime_error", "--stop", "--hold", "600"),
    "stacks --glance": (*LIVEDBG, "stacks", "PID", "--glance"),
    "glance": (sys.executable, str(HERE / "glancer.py"), "PID"),
    "attach": (sys.executable, str(HERE / "holder.py"), "PID"),
}

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, argv: Sequence[str], mark: str) -> None:
        self.master, slave = os.openpty()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark, "TERM": "xterm"}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=ROOT
        )
        os.close(slave)
        self.said = b""

    def read(self) -> bytes:
        """All that it has written so far."""
        while self.master >= 0 and select.select([self.master], [], [], 0)[0]:
            try:
                self.said += os.read(self.master, 65536)
            except OSError:
                break  # EIO: nobody has the other end any more
        return self.said

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def has_ended(self) -> bool:
        """Whether the command has ended; what it writes is read meanwhile, for which it would wait."""
        self.read()
        return self.process.poll() is not None

    def close(self) -> None:
        """Close the terminal: the kernel sends SIGHUP."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Terminals that are closed at the end, and what runs on them ended."""
    opened: list[Terminal] = []

    def start(argv: Sequence[str], mark: str) -> Terminal:
        opened.append(Terminal(argv, mark))
        return opened[-1]

    yield start
    for one in opened:
        one.process.kill()
        one.process.wait()
        one.close()


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """A server of our own; its process, and the words of a client that logs in."""
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=100
        )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where Debian's sshd looks for it
    server, port = begun(folder)
    client = ["ssh", "-F", "/dev/null", "-p", str(port), "-i", str(folder / "user"), "-o", "StrictHostKeyChecking=no"]
    client += ["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "127.0.0.1"]
    try:
        yield server.pid, client
    finally:
        server.kill()
        server.wait()


def begun(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server that listens, and its port: others may take one between our look and its start."""
    options = [f"AuthorizedKeysFile={folder}/user.pub", "StrictModes=no", "PidFile=none", "PermitRootLogin=yes"]
    options += ["UsePAM=no", "ListenAddress=127.0.0.1", "LoginGraceTime=0"]
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            [SSHD, "-D", "-q", "-f", "/dev/null", "-p", str(port), "-h", str(folder / "host")]
            + [word for option in options for word in ("-o", option)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(lambda server=server: server.poll() is not None or listens(server.pid))  # type: ignore[misc]
        if server.poll() is None:
            return server, port
    raise AssertionError("no port is free")


def listens(pid: int) -> bool:
    """Whether a process has a socket to which others can connect."""
    try:
        return any(one.status == psutil.CONN_LISTEN for one in psutil.Process(pid).net_connections("tcp"))
    except psutil.NoSuchProcess:
        return False


def at_work(action: str, target: Any, terminal: Terminal, mark: str) -> None:
    """Wait until it touches the target."""
    if action == "catch":
        eventually(lambda: b"traces process" in terminal.read())
    elif action in ("attach", "glance"):
        eventually(lambda: b"READY" in terminal.read())
    elif action == "catch --stop":
        eventually(lambda: b"disk full" in terminal.read() or b"no more of" in terminal.read())
        assert status_fields(target.pid)["TracerPid"] != "0"
    else:
        eventually(lambda: len(marked(mark)) > 1 or terminal.has_ended())  # its gdb is there, or its guard


def all_is_well(target: Any, mark: str) -> None:
    eventually(lambda: marked(mark) == [])
    eventually(lambda: untouched(target.pid))
    assert counts_on(target.counted)
    assert changed_code(target.pid) == []


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("end", ["ctrl-c", "closed"])
def test_at_the_end_of_a_terminal_nothing_is_left(action: str, end: str, thrower: Any, terminal: Any) -> None:
    mark = secrets.token_hex(8)
    used = terminal([word.replace("PID", str(thrower.pid)) for word in ACTIONS[action]], mark)
    at_work(action, thrower, used, mark)
    if end == "closed":
        used.close()
    else:
        used.press(b"\x03")
    eventually(used.has_ended)
    assert b"Traceback" not in used.read() or action in ("glance", "attach")  # those are scripts of ours
    all_is_well(thrower, mark)


@pytest.mark.skipif(not Path(SSHD).exists() or os.geteuid() != 0, reason="needs sshd, and root to start one")
@pytest.mark.parametrize("action", ["catch", "catch --stop", "attach"])
def test_when_an_ssh_link_drops_nothing_is_left(action: str, thrower: Any, terminal: Any, tmp_path: Path) -> None:
    mark = secrets.token_hex(8)
    words = [word.replace("PID", str(thrower.pid)) for word in ACTIONS[action]]
    command = shlex.join(["env", f"{MARK}={mark}", f"PYTHONPATH={ROOT}", *words])
    with sshd(tmp_path) as (server, client):
        used = terminal([*client[:-1], "-tt", client[-1], f"cd {shlex.quote(str(ROOT))} && exec {command}"], "client")
        at_work(action, thrower, used, mark)
        assert marked(mark)
        for pid in child_pids(server):
            os.kill(pid, signal.SIGKILL)
        eventually(used.has_ended)
        all_is_well(thrower, mark)
