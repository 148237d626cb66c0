"""The thread that asks: what gets on has time, what stands still is given up."""

from __future__ import annotations

import threading
import time

import pytest

from livedbg.adapters.cuda.nvml import adapter as worker_module
from livedbg.adapters.cuda.nvml.adapter import Worker


async def test_a_call_that_computes_has_more_time_than_one_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_MOST", 1000)
    driver_answers = threading.Event()

    def compute() -> str:
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        return "done"

    worker = Worker("worker")
    try:
        for _ in range(2):  # who has an answer may ask again at once
            assert await worker.ask(compute, 0.05) == "done"
        with pytest.raises(TimeoutError):
            await worker.ask(driver_answers.wait, 0.05)
        with pytest.raises(TimeoutError):  # it still waits for the first answer
            await worker.ask(compute, 60)
        assert worker.busy
    finally:
        driver_answers.set()
        worker.close()


async def test_what_a_call_raises_is_raised() -> None:
    def refuse() -> None:
        raise ValueError("refused")

    worker = Worker("worker")
    try:
        with pytest.raises(ValueError, match="refused"):
            await worker.ask(refuse, 60)
    finally:
        worker.close()
