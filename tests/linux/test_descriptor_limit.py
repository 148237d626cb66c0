"""Whether a process has used up its file descriptors: real ones, whose limit is set from outside (prlimit(2))."""

from __future__ import annotations

import resource
import subprocess

import pytest

from livedbg.linux.descriptors import used_up
from livedbg.linux.procfs import read_file
from tests.conftest import eventually, settled


@pytest.mark.parametrize(
    ("command", "limit", "found"),
    [
        ("exec sleep 600", 3, 3),
        ("exec sleep 600", 4, None),
        ("exec sleep 600", 2, 2),  # its third file was opened before
        ("exec sleep 600 9>&2", 3, 3),
        ("exec sleep 600 9>&2 1>&-", 3, None),  # three files, and a free number below the limit
        ("exec sleep 600 9>&2 8>&2 1>&-", 4, None),
    ],
)
def test_a_file_below_each_number_up_to_the_limit(command: str, limit: int, found: int | None) -> None:
    null = subprocess.DEVNULL
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=null, stdout=null, stderr=null)
    try:
        eventually(lambda: read_file(f"/proc/{process.pid}/cmdline").startswith(b"sleep"))
        settled(process.pid)
        assert used_up(process.pid) is None
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, hard))
        assert used_up(process.pid) == found
    finally:
        process.kill()
        process.wait(60)
