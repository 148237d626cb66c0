"""Processes that asyncio started, let go of before their loop ends."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

import pytest

from livedbg.linux.subprocesses import let_go


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
