"""Nobody is asked for debug information: not by drgn, and not by gdb."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from livedbg.session.tools import find_gdb
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwinder import Unwinder
from tests.conftest import Target, settled
from tests.unwind.conftest import copied


class Server:
    """A server for debug information that has none, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """One that the environment names."""
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    try:
        yield made
    finally:
        listening.close()


@pytest.fixture
def stripped(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """Eight threads that wait, of a program whose debug information is elsewhere."""
    target = spawn([build_target("stacks", "-O2", "-s", "-Wl,--build-id", output="stacks-stripped"), "8"])
    settled(target.pid)
    return target


def servers_of(pid: int) -> str | None:
    """The servers that the environment of a process names."""
    return psutil.Process(pid).environ().get("DEBUGINFOD_URLS")


@pytest.mark.invariant("drgn_stacks.D2")
@pytest.mark.parametrize("values", [False, True])
async def test_D2_drgn_asks_no_server(stripped: Target, server: Server, pool: UnwinderPool, values: bool) -> None:
    unwinder = await pool.of(stripped.pid)
    assert len(await unwinder.unwind(copied(stripped.pid), 100, values=values)) == 9
    helper = pool._helper.process.pid if pool._helper is not None and pool._helper.process is not None else 0
    assert servers_of(helper) is None
    assert server.asked == []


async def test_gdb_asks_no_server(stripped: Target, server: Server) -> None:
    gdb = find_gdb()
    assert gdb is not None, "the tests need gdb: make test installs it"
    unwinder = Unwinder(gdb, stripped.pid)
    await unwinder.start()
    try:
        assert len(await unwinder.unwind(copied(stripped.pid), 100)) == 9
        assert not servers_of(unwinder._engine.pid or 0)
    finally:
        await unwinder.close()
    assert server.asked == []
