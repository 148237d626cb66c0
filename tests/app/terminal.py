"""A real terminal for the app: a pty, what the app wrote to it, and its modes."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path
from types import TracebackType

from tests.cli.zygote import OnTerminal, terminal_environment
from tests.waiting import WALL_S, Bound, lives

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from tests.app.scenarios import scenario
from livedbg.app import AppOptions, run
view = scenario(sys.argv[1])
sys.exit(run(view, AppOptions(clock=lambda: 1_767_268_991_000_000_000, interval=0.0)))
"""

_END = b"<that was all>"


class Terminal:
    """Runs a program on a pty; everything that it writes is in `output`.

    Args:
        argv: arguments of the program.
        size: columns and rows.
        env: further environment.
        program: its text.
        fresh: in an interpreter that has imported nothing yet.
    """

    def __init__(
        self,
        *argv: str,
        size: tuple[int, int] = (100, 30),
        env: Mapping[str, str] | None = None,
        program: str = PROGRAM,
        fresh: bool = False,
    ) -> None:
        self.master, self.slave = pty.openpty()
        ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(self.slave)
        environment = terminal_environment() | dict(env or {})
        if fresh:
            environment["PYTHONHASHSEED"] = "random"  # which an interpreter reads as it starts: it can't be a fork
        self.process = OnTerminal(
            [program, *argv], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env=environment, start_new_session=True, cwd=ROOT,
        )  # fmt: skip
        self.output = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)

    def pump(self, seconds: float = 0.05) -> None:
        """Take what was written."""
        while select.select([self.master], [], [], seconds)[0]:
            self.output += os.read(self.master, 65536)

    def until(self, text: bytes) -> None:
        """Wait until something was written."""
        bound = Bound([self.process.pid])
        while text not in self.output:
            if self._has_ended():
                self.wait()
                assert text in self.output, self.output[-2000:]
                return
            problem = bound.problem()
            self.pump()
            assert not problem or self._has_ended(), f"{problem}: {text!r} in {self.output[-2000:]!r}"

    def _has_ended(self) -> bool:
        if not lives(self.process.pid):
            self.process.wait(WALL_S)  # whose child it is, says so a moment later
        return self.process.poll() is not None

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def press(self, *keys: bytes) -> None:
        """Press keys, each when the one before it has been taken and what came of it is on the screen."""
        for key in keys:
            self.type(key)
            self.rest()

    def rest(self) -> None:
        """Wait until the program has read all that was typed, and sleeps, or has ended."""
        bound = Bound([self.process.pid])
        before, calm = "", 0
        while calm < 2 and not self._has_ended():
            problem = bound.problem()
            assert not problem or self._has_ended(), f"{problem}: it does not come to rest: {before}"
            self.pump(0.02)
            (unread,) = struct.unpack("i", ioctl(self.slave, termios.FIONREAD, bytes(4)))
            tasks = Path(f"/proc/{self.process.pid}/task")
            try:
                states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
                now = (tasks / str(self.process.pid) / "status").read_text().partition("voluntary_ctxt_switches")[2]
            except OSError:  # a thread has just ended
                states, now = [], ""
            calm = calm + 1 if not unread and now == before and set(states) == {"S"} else 0
            before = now

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """The exit code; everything written until then is taken."""
        bound = Bound([self.process.pid])
        while not self._has_ended():
            problem = bound.problem()
            assert not problem or self._has_ended(), f"it did not end: {problem}"
            self.pump()
        os.write(self.slave, _END)  # the kernel hands what was written over later, in its order
        while _END not in self.output:
            self.pump()
        self.output = self.output.replace(_END, b"")
        return self.process.returncode

    def is_clean(self) -> bool:
        """Modes as before, main screen, cursor shown, mouse off."""
        modes = termios.tcgetattr(self.slave) == self.before
        screen = self.output.rfind(b"\x1b[?1049l") > self.output.rfind(b"\x1b[?1049h")
        cursor = self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l")
        mouse = self.output.rfind(b"\x1b[?1000l") >= self.output.rfind(b"\x1b[?1000h")
        return modes and screen and cursor and mouse
