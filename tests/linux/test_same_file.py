"""Whether descriptors of two processes are one open file, as kcmp(2) tells."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from livedbg.linux.descriptors import same_file


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe of this process."""
    ends = os.pipe()
    if same_file((os.getpid(), ends[0]), (os.getpid(), ends[0])) is None:
        pytest.skip("this kernel, or this container, has no kcmp(2)")
    yield ends
    for end in ends:
        os.close(end)


def test_a_copy_of_a_descriptor_is_the_same_file_and_the_other_end_is_not(pipe: tuple[int, int]) -> None:
    me, copy = os.getpid(), os.dup(pipe[0])
    try:
        assert same_file((me, pipe[0]), (me, copy)) is True
        assert same_file((me, pipe[0]), (me, pipe[1])) is False
    finally:
        os.close(copy)
    assert same_file((me, pipe[0]), (me, copy)) is False  # closed by now


def test_a_process_that_has_ended_has_no_file_open(pipe: tuple[int, int]) -> None:
    child = subprocess.Popen(["sleep", "1000"], stdin=pipe[0], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert same_file((os.getpid(), pipe[0]), (child.pid, 0)) is True
    child.kill()
    child.wait(60)
    assert same_file((os.getpid(), pipe[0]), (child.pid, 0)) is False
