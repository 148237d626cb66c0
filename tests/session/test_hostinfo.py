"""What commands ask about this host."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from livedbg.model import ids
from livedbg.session import hostinfo

MAPS_TORCH = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print("READY", flush=True)
time.sleep(1000)
"""


def test_processes_that_map_an_ml_library_are_candidates(tmp_path: Path, spawn: Callable[..., Any]) -> None:
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"x" * 4096)
    env = {"RANK": "3", "PATH": "/usr/bin"}
    target = spawn([sys.executable, "-c", MAPS_TORCH, library], env=env)
    (found,) = [candidate for candidate in hostinfo.list_candidates() if candidate.pid == target.pid]
    assert found.uses == ("pytorch",)
    assert found.rank == 3
    assert found.command[0] == sys.executable
    assert found.threads == 1
    assert found.age_s > 0


def test_find_by_name(tmp_path: Path, spawn: Callable[..., Any]) -> None:
    script = tmp_path / f"livedbg_finds_me_{os.getpid()}.py"
    script.write_text("import time\nprint('READY', flush=True)\ntime.sleep(1000)\n")
    target = spawn([sys.executable, script])
    assert hostinfo.find_by_name(script.name) == [target.pid]
    assert hostinfo.find_by_name("no such program") == []


def test_host_name_fits_into_identifiers() -> None:
    assert ids.parse(ids.process(hostinfo.host_name(), 1)).parts == (hostinfo.host_name(), "1")


def test_capabilities_have_a_remedy_where_something_is_missing() -> None:
    facts = hostinfo.capabilities()
    assert {"machine", "ptrace access", "/proc", "gdb"} <= {fact.name for fact in facts}
    assert all(bool(fact.remedy) != fact.ok for fact in facts)
