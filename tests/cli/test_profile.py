"""`livedbg stacks --for` on a program whose threads run, and on one whose threads don't."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.linux import procfs
from livedbg.probes.clock_samples import refused_here
from livedbg.probes.tracefs import may_trace
from livedbg.session.adapter import Request
from livedbg.session.tools import no_unwinder
from tests.cli.conftest import livedbg, longer, running
from tests.conftest import Target

needs_samples = pytest.mark.skipif(
    refused_here() is not None or no_unwinder(Request(host="box")) is not None, reason="no samples here"
)


@pytest.fixture(scope="module")
def busy(build_target: Callable[..., Path]) -> Iterator[Target]:
    with running(build_target("spinners"), "2", busy=True) as target:
        yield target


@needs_samples
def test_functions_flame_graph_and_json_of_two_running_threads(busy: Target, tmp_path: Path) -> None:
    svg = tmp_path / "out.svg"
    running_threads = set(busy.words[1:-1])

    def holds(seconds: float) -> bool:
        said = livedbg("stacks", busy.pid, "--for", seconds, "--rate", 999, "--per-thread", "--json", "--flame", svg)
        assert said.code == 0, said.everything
        profiles = [json.loads(line) for line in said.out.splitlines()]
        if {one["thread"].rpartition("/")[2] for one in profiles} != running_threads:
            return False  # a thread that got no CPU time: the machine is busy
        if any(one["without_stack"] > 0.1 * one["samples"] for one in profiles):
            return False  # they were read too late: the machine is busy
        for one in profiles:
            assert abs(sum(f["own"] for f in one["functions"]) + one["without_stack"] / one["samples"] - 1) < 0.01
            spins = [f for f in one["functions"] if "spin_in_" in f["function"]]
            assert spins and spins[0]["total"] > 0.5 and spins[0]["line"] and spins[0]["file"].endswith("spinners.cpp")
        return True

    longer(0.5, holds)
    assert "spin_in_" in svg.read_text() and svg.stat().st_mode & 0o077 == 0
    assert procfs.status_fields(busy.pid)["TracerPid"] == "0"


@needs_samples
def test_the_table_and_folded_stacks(busy: Target, tmp_path: Path) -> None:
    text = tmp_path / "out.txt"

    def holds(seconds: float) -> bool:
        said = livedbg("stacks", busy.pid, "--for", seconds, "--rate", 999, "--flame", text)
        assert said.code == 0, said.everything
        assert said.out.startswith("Your code: ") and " (spinners.cpp:" in said.out.partition("\n")[0], said.everything
        return "own  total  function" in said.out and "spin_in_" in said.out and "2 running threads" in said.out

    longer(0.5, holds)
    for line in text.read_text().splitlines():
        names, _, count = line.rpartition(" ")
        assert ";" in names and int(count) > 0


@needs_samples
def test_a_thread_that_never_ran_has_a_clear_message(stuck: Target) -> None:
    said = livedbg("stacks", stuck.pid, "--for", "0.1s")
    assert said.code == 0 and "No thread ran" in said.err and said.out == ""


def test_what_needs_a_time_and_what_excludes_each_other(stuck: Target) -> None:
    for words in (["--flame", "x.svg"], ["--folded"], ["--rate", 9], ["--per-thread"], ["--pages"]):
        said = livedbg("stacks", stuck.pid, *words)
        assert said.code == 2 and "--for" in said.err
    for words in (["--glance"], ["--folded", "--json"], ["--no-samples"], ["--no-native"]):
        assert livedbg("stacks", stuck.pid, "--for", "1s", *words).code == 2


@needs_samples
def test_where_gperftools_is_not_installed_the_samples_of_livedbg_answer(
    tmp_path: Path, build_target: Callable[..., Path]
) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = ["launch", "--recipe", "cpu-samples", "--timeout"]

    def holds(seconds: float) -> bool:
        said = livedbg(*words, seconds, "--", build_target("spinners"), "1", env=env)
        return "cpu-samples: " in said.err and "Your code: " in said.err and " (spinners.cpp:" in said.err

    longer(3.0, holds)
    assert list(tmp_path.rglob("cpu.svg"))


@needs_samples
def test_who_touches_memory_first_is_not_said_to_keep_it(tmp_path: Path) -> None:
    program = tmp_path / "grows.py"
    program.write_text(
        "import mmap, time\nprint('READY', flush=True)\ntext = b'x' * (1 << 20)\nkept = []\n"
        "def keep():\n    kept.append(mmap.mmap(-1, 1 << 20))\n    kept[-1][:] = text\n"
        "for _ in range(1 << 16):\n    keep()\n    time.sleep(0.05)\n"
    )
    with running(sys.executable, str(program), busy=True) as target:

        def holds(seconds: float) -> bool:
            said = livedbg("stacks", target.pid, "--for", seconds, "--pages")
            first, second = [*said.out.splitlines(), "", ""][:2]
            assert not first.startswith("Your code"), said.everything
            known = first.startswith("Who keeps the memory is not known: ") and "keep (" not in first
            return known and second.endswith(" of memory touched first") and "  keep  " in said.out

        longer(1.0, holds)


@needs_samples
@pytest.mark.skipif(not may_trace("signal", "signal_deliver"), reason="no probes here")
def test_memory_is_credited_to_who_keeps_it_and_not_to_who_touched_it_first(build_target: Callable[..., Path]) -> None:
    with running(build_target("keeper"), busy=True) as target:

        def holds(seconds: float) -> bool:
            said = livedbg("stacks", target.pid, "--for", seconds, "--pages")
            first, *_ = [*said.out.splitlines(), ""]
            shares = {name: int(share) for share, name in re.findall(r"(\d+)% in (\w+) \(keeper", first)}
            assert shares.get("answer", 0) < 10, said.everything  # a block of it may live for a second on a busy host
            return first.startswith("Your code keeps ") and shares.get("remember", 0) > 90

        longer(3.0, holds)
