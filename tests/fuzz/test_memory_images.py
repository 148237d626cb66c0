"""The images of memory are such that the readers find something in them, and what their fuzzing is there to catch."""

from __future__ import annotations

import os
import time

import pytest

from livedbg.adapters.ascend.live.reader import SchedulerReader
from livedbg.cpython import objects
from livedbg.cpython.interpreter import find_interpreter
from livedbg.cpython.threads import ThreadReader
from livedbg.linux import memory
from tests.fuzz import memory_images


def test_the_image_of_a_scheduler_has_tasks_that_wait_for_each_other() -> None:
    (image,) = memory_images.scheduler_image()
    reader = SchedulerReader(os.getpid(), memory_images._BASE, memory_images._LAYOUT)
    with memory_images._answered_by(memory_images._from_image(image)):
        sample = reader.sample()
    assert sample is not None and list(sample.tasks) == list(range(8))
    assert {raw: set(waiters) for raw, waiters in sample.waiters.items() if waiters} == {n: {n + 1} for n in range(7)}
    assert sample.cores[0].running == 1


def test_numbers_of_a_damaged_table_do_not_grow_with_it() -> None:
    begun = time.process_time()
    assert next(objects._varints(b"\x7f" * (1 << 20) + b"\x01"), 0) < 1 << 64
    assert abs(objects._signed(b"\x7f" * (1 << 20), 0)[0]) < 1 << 64
    assert time.process_time() - begun < 60


def test_threads_that_follow_each_other_in_a_circle_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = find_interpreter(os.getpid())
    assert interpreter is not None
    reader = ThreadReader(os.getpid(), interpreter)
    monkeypatch.setattr(reader, "interpreters", lambda: [1])
    monkeypatch.setattr(reader.objects, "word", lambda address: 4096)
    count = []

    def read(pid: int, address: int, size: int) -> bytes:
        count.append(address)
        return (4096).to_bytes(8, "little") * (size // 8 + 1)

    monkeypatch.setattr(memory, "read", read)
    assert reader.states() == {4096: 4096} and len(count) == 1
