"""Lines of dispatches, only of an image whose code is that in memory; samples of workers."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livedbg.adapters.iree.live import loops, watch
from livedbg.adapters.iree.live.libraries import Libraries, Library
from livedbg.adapters.iree.live.loops import Loops
from livedbg.adapters.iree.live.watch import Lines
from livedbg.linux.maps import Mapping
from livedbg.session.adapter import Context

CODE = bytes(range(64))


def _image(code: bytes) -> bytes:
    """An ELF image: its header, one segment that can be run, and the code."""
    head = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<QQ4x3HHHH", 64, 184, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 120, 120, 120, len(code), len(code), 4096)
    return head + segment + code


@pytest.mark.invariant("iree_lines.I1")
def test_I1_an_image_with_other_code_than_that_in_memory_gives_no_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_line", lambda image, address: f"m.mlir:{address}" if CODE in image else "other:1")
    held = ctypes.create_string_buffer(_image(CODE), 4096)
    start = ctypes.addressof(held)
    library = Library(start, start + 4096, "m")
    other = _image(CODE[::-1])
    (tmp_path / "other.vmfb").write_bytes(b"....." + other)
    (tmp_path / "m.vmfb").write_bytes(b"..." + other + b"\0" * 9 + _image(CODE) + b"end")

    def at(name: str) -> str:
        mapping = Mapping(1, 2, "r--p", 0, "0:1", 3, f"{tmp_path / name}", False)
        return Lines(os.getpid()).at(library, start + 130, [mapping])

    assert at("m.vmfb") == "m.mlir:130"
    assert at("other.vmfb") == ""
    assert at("gone.vmfb") == ""


@pytest.mark.invariant("iree_loops.Q2")
def test_Q2_a_thread_that_sleeps_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_FOR_S", 1e9)
    context: Any = SimpleNamespace(request=SimpleNamespace(options={}, host="box"), emit=lambda *_: None)
    with subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as target:
        try:
            look = Loops(target.pid).look(cast("Context", context), {target.pid: "thread:x"}, Libraries(target.pid).at)
            assert asyncio.run(asyncio.wait_for(look, 100)) == {}
        finally:
            target.kill()
