"""`livedbg stacks --glance` on a program whose threads run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.linux import procfs
from livedbg.linux.procfs import parse_schedstat, read_file
from livedbg.session.hostinfo import host_name
from tests.cli.conftest import livedbg, running
from tests.conftest import Target, eventually, settled


@pytest.fixture(scope="module")
def busy(build_target: Callable[..., Path]) -> Iterator[Target]:
    with running(build_target("spinners"), "2", busy=True) as target:
        settled(target.pid, but=[int(tid) for tid in tids(target)])
        eventually(lambda: all(cpu_ns_of(target, tid) > 50_000_000 for tid in tids(target)))  # in their loops by then
        yield target


def tids(target: Target) -> list[str]:
    return target.words[1:-1]


def cpu_ns_of(target: Target, tid: str) -> int:
    return parse_schedstat(read_file(f"/proc/{target.pid}/task/{tid}/schedstat"))[0]


def cpu_ns(target: Target) -> int:
    return sum(cpu_ns_of(target, tid) for tid in tids(target))


def test_running_threads_have_native_stacks_and_the_stops_are_said(busy: Target) -> None:
    said = livedbg("stacks", busy.pid, "--glance", "--json")
    assert (
        said.code == 0
        and re.search(r"2 threads paused for [0-9.]+ ms in total", said.err)
        and "one at a time" in said.err
    )
    groups = [json.loads(line) for line in said.out.splitlines()]
    functions = {thread: [f["function"] for f in group["frames"]] for group in groups for thread in group["threads"]}
    ids = [f"thread:{host_name()}/{busy.pid}/{tid}" for tid in tids(busy)]
    assert "spin_in_alpha" in functions[ids[0]] and "demo::Kernel<long>::spin_in_beta" in functions[ids[1]]
    assert len(functions) == len(procfs.thread_ids(busy.pid)) == 4
    before = cpu_ns(busy)
    eventually(lambda: cpu_ns(busy) > before)
    assert {procfs.status_fields(busy.pid, int(tid))["TracerPid"] for tid in tids(busy)} == {"0"}


def test_without_it_nothing_is_stopped_and_running_threads_are_named(busy: Target) -> None:
    said = livedbg("stacks", busy.pid, "--no-samples")
    assert said.code == 0 and "paused for" not in said.err and "spin_in" not in said.out
    assert "2 without a stack" in said.out and all(tid in said.out for tid in tids(busy))


def test_what_contradicts_it_is_refused_before_anything_is_touched(busy: Target) -> None:
    read_only = livedbg("stacks", busy.pid, "--glance", "--read-only")
    assert (read_only.code, read_only.out) == (2, "") and "--read-only forbids" in read_only.err
    without = livedbg("stacks", busy.pid, "--glance", "--no-native")
    assert (without.code, without.out) == (2, "") and "exclude each other" in without.err


def test_without_gdb_it_says_so_and_stops_nothing(busy: Target) -> None:
    said = livedbg("stacks", busy.pid, "--glance", "--gdb", "/no/such/gdb")
    assert said.code == 0 and "No native stacks: /no/such/gdb was not found." in said.err
    assert "sudo apt-get install gdb" in said.err and "paused for" not in said.err
