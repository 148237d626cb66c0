"""A gdb process and its commands.

Invariants:
    engine.G1. Every command gets an answer or an error within its time limit.
    engine.G2. When gdb ends, every command that waits fails at once, also where a child of gdb lives on and holds its
        output (a gdb that is killed as it attaches leaves such a child, stopped).
    engine.G3. gdb runs in a session of its own (no Ctrl-C reaches it), reads no start-up file, and ends when our end of
        its input is closed: at the latest when livedbg dies.
    engine.G4. An answer that comes after its command has given up is dropped.
    engine.G5. A line of gdb's that can't be read costs at most the command that it answers. Where its output has ended,
        so that no answer can come, every command that waits fails at once, and gdb is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from livedbg.gdbmi.errors import GdbCommandError, GdbGone, GdbTimeout
from livedbg.gdbmi.records import Record, c_string, parse_line
from livedbg.linux.family import begun, exited, let_go
from livedbg.linux.owner_rights import as_owner
from livedbg.model.errors import ToolMissing
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_READ: Final = 1 << 18
_LINE_LIMIT: Final = 64 << 20
_OUTPUT_LIMIT: Final = 256 << 20  # bytes between two prompts
_START_S: Final = 60.0
_REST_S: Final = 1.0  # for what gdb wrote before it ended
_INTERPRETERS: Final = ("mi4", "mi3")  # mi4 since gdb 13
_MARK: Final = "livedbg-json:"
_TOKEN: Final = lazy_re(rb"(\d{1,18})\^")


class GdbEngine:
    """A gdb process, driven by GDB/MI.

    Args:
        target: it runs with the rights of this process's user (livedbg.linux.owner_rights); 0: with ours.
        notice: called with each asynchronous record (`*stopped`, `=thread-created`, …).
        tables: names of the tables that are read by rows (livedbg.gdbmi.records).
    """

    def __init__(
        self,
        path: str,
        arguments: Sequence[str] = (),
        *,
        target: int = 0,
        notice: Callable[[Record], None] | None = None,
        tables: re.Pattern[str] | None = None,
    ) -> None:
        self._argv = [path, "-nx", "-q", *arguments]
        self._target = target
        self._notice = notice
        self._tables = tables
        self._tokens = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Record]] = {}
        self._console: deque[str] = deque(maxlen=100_000)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._lock = asyncio.Lock()
        self._memory = -1
        self._unasked = 0  # bytes of output since the last prompt
        self._why = ""  # it was ended

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """The pid of gdb; None before the start."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start gdb and wait for its prompt.

        Raises:
            GdbGone: gdb can't be started, or speaks no MI that we know.
            TargetGone: there is no such process.
            GdbTimeout: no prompt in time.
        """
        for interpreter in _INTERPRETERS:
            try:
                await self._start(interpreter)
                return
            except GdbGone:
                if interpreter == _INTERPRETERS[-1]:
                    raise

    async def command(self, text: str, timeout_s: float = 10.0) -> Record:
        """Send one MI command and wait for its result.

        Raises:
            GdbCommandError: gdb answered with an error, or its answer can't be parsed.
            GdbTimeout: no answer within `timeout_s`.
            GdbGone: gdb ended.
        """
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise GdbGone("gdb is not running.", "", "gdb-gone")
        token = next(self._tokens)
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            process.stdin.write(f"{token}{text}\n".encode())
            async with asyncio.timeout(timeout_s):
                await process.stdin.drain()
                record = await future
        except TimeoutError:
            word = clean_line(text.split(maxsplit=1)[0])
            raise GdbTimeout(f"gdb did not answer {word} within {timeout_s:g} s.", "", "gdb-timeout") from None
        except (BrokenPipeError, ConnectionResetError):
            raise GdbGone(self._why or "gdb has ended.", "", "gdb-gone") from None
        finally:
            self._waiting.pop(token, None)
        if record.name == "error":
            raise GdbCommandError(clean_line(str(record.payload.get("msg", "gdb refused the command"))))
        if record.broken:
            raise GdbCommandError("gdb's answer could not be parsed.")
        return record

    async def console(self, command: str, timeout_s: float = 10.0) -> str:
        """Run a console command; return its output. Raises as `command` does."""
        async with self._lock:
            self._console.clear()
            await self.command(f"-interpreter-exec console {_quoted(command)}", timeout_s)
            return "".join(self._console)

    async def python(self, expression: str, timeout_s: float = 10.0) -> Any:
        """Evaluate a Python expression inside gdb. The value comes as JSON in memory that both can write to: gdb's
        console takes a system call for every few characters.

        Raises:
            GdbCommandError: gdb has no Python, or the expression failed.
            GdbTimeout, GdbGone: as `command`.
        """
        write = f"__import__('os').pwrite({self._memory}, __import__('json').dumps({expression}).encode(), 0)"
        answer = await self.console(f"python print({_MARK!r} + str({write}))", timeout_s)
        _, mark, size = answer.rpartition(_MARK)
        if not mark:
            raise GdbCommandError("gdb has no Python.", "install a gdb with Python (Debian: gdb, not gdb-minimal)")
        try:
            return json.loads(os.pread(self._memory, int(size), 0))
        except ValueError:
            raise GdbCommandError("gdb's answer could not be parsed.") from None

    async def close(self, patience_s: float = 2.0) -> None:
        """End gdb: by closing its input, and by force if it has not ended in `patience_s`."""
        process, reader = self._process, self._reader
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1
        if process is None:
            return
        try:
            if process.stdin is not None:
                process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await exited(process)
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()  # a target that it still holds has a guard (livedbg.touch)
                await exited(process)
            if reader is not None:
                await asyncio.wait([reader], timeout=2.0)
        finally:
            let_go(process)  # also where this was cancelled

    async def _start(self, interpreter: str) -> None:
        loop = asyncio.get_running_loop()
        if self._memory < 0:
            self._memory = os.memfd_create("livedbg-gdb", os.MFD_CLOEXEC)
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBUGINFOD_URLS": ""}
        try:
            before = as_owner(self._target) if self._target else []
            self._process = await begun(
                *before,
                *self._argv,
                f"--interpreter={interpreter}",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self._memory,),
                env=environment,
            )
        except OSError as error:
            raise GdbGone(f"{self._argv[0]} can't be started: {error.strerror}.", "", "gdb-missing") from None
        except ToolMissing as error:
            raise GdbGone(error.message, error.remedy, error.code) from None
        self._ready = loop.create_future()
        self._reader = loop.create_task(self._read(self._process), name="gdb-reader")
        try:
            async with asyncio.timeout(_START_S):
                await self._ready
        except TimeoutError:
            await self.close()
            raise GdbTimeout(f"{self._argv[0]} gave no prompt within {_START_S:g} s.", "", "gdb-timeout") from None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        output = asyncio.create_task(self._output(process, process.stdout), name="gdb-output")
        ended = asyncio.create_task(exited(process), name="gdb-end")
        try:
            await asyncio.wait([ended, output], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([ended, output], timeout=_REST_S)
            if output.done() and not output.cancelled() and (error := output.exception()) is not None:
                self._why = self._why or f"The output of {self._argv[0]} can't be read: {error}"  # G5
            if not ended.done():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()  # nobody would read its answers
        finally:
            ended.cancel()
            output.cancel()
        gone = GdbGone(self._why or "gdb has ended.", "", "gdb-gone")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(gone)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(GdbGone(self._why or f"{self._argv[0]} exited at once.", "", "gdb-gone"))

    async def _output(self, process: asyncio.subprocess.Process, stdout: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stdout.read(_READ):
            *lines, rest = (rest + data).split(b"\n") if b"\n" in data else [rest + data]
            self._unasked += len(data)
            if len(rest) > _LINE_LIMIT or self._unasked > _OUTPUT_LIMIT:
                self._why = f"{self._argv[0]} wrote {self._unasked >> 20} MB without an answer and was ended."
                process.kill()
                break
            for line in lines:
                try:
                    self._take(line.rstrip(b"\r"))
                except Exception as error:  # G5
                    self._unreadable(line, error)

    def _take(self, line: bytes) -> None:
        if line.startswith(b"(gdb)"):
            self._unasked = 0
            if self._ready is not None and not self._ready.done():
                self._ready.set_result(None)
            return
        text = line.decode("utf-8", "replace")
        if text[:1] == "~":
            self._console.append(c_string(text[1:]))
            return
        record = parse_line(text, self._tables)
        if record is None:
            return
        if record.kind == "^" and record.token is not None:
            future = self._waiting.pop(record.token, None)
            if future is not None and not future.done():
                future.set_result(record)
        elif record.kind in ("*", "=") and self._notice is not None:
            self._notice(record)

    def _unreadable(self, line: bytes, error: Exception) -> None:
        """Fail the command that an unreadable line answers, if any."""
        token = _TOKEN.match(line)
        future = self._waiting.pop(int(token[1]), None) if token else None
        if future is not None and not future.done():
            future.set_exception(GdbCommandError("gdb's answer could not be parsed."))
        message = "a line of gdb's can't be read"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
