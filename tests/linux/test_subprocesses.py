"""Processes that asyncio started, let go of before their loop ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

import pytest

from livedbg.linux.family import exited, let_go


def test_what_is_let_go_of_ends_and_has_no_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    gc.collect()  # what other tests have left has its last word before
    monkeypatch.setattr(sys, "unraisablehook", lambda about: said.append(about.exc_type))

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "input()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdin is not None and not process.stdin.is_closing()
        let_go(process)
        let_go(process)
        assert process.stdin.is_closing()
        assert await process.wait() == -signal.SIGKILL

    asyncio.run(main())
    gc.collect()
    assert said == []


async def test_an_exit_is_noticed_though_a_child_holds_the_pipe() -> None:
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        "sleep 1000 & echo $!; exit 3",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    assert await asyncio.wait_for(exited(process), 60) == 3
    assert await asyncio.wait_for(exited(process), 60) == 3  # also of one that is reaped
    os.kill(child, signal.SIGKILL)
    assert await process.stdout.read() == b""
