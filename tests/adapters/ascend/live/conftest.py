"""A stand-in for a simulator process, and the reader on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.ascend.live.layout import Layout, read_layout
from livedbg.adapters.ascend.live.reader import SchedulerReader
from livedbg.adapters.ascend.live.state import Sample
from livedbg.adapters.ascend.live.watch import LibraryFinder
from livedbg.session.tools import find_gdb
from tests.conftest import Target

FLAGS = {
    "ringbuffer": (),
    "polling": ("-DPOLLING",),
    "lacks": ("-DLACKS",),
    "stripped": ("-s",),
    "no_types": ("-g0",),
    "bare": ("-DBARE",),
}
_layouts: dict[Path, Layout] = {}


class Simulator:
    """One stand-in, told what to do.

    Attributes:
        target: its process.
    """

    def __init__(self, target: Target, program: Path) -> None:
        self.target = target
        self.program = program
        self._reader: SchedulerReader | None = None

    @property
    def pid(self) -> int:
        return self.target.pid

    def begin(self, line: str) -> None:
        """Give it a command and don't wait."""
        self.target.stdin.write(f"{line}\n".encode())
        self.target.stdin.flush()

    def tell(self, *lines: str) -> None:
        """Give it commands; returns when they are done."""
        for line in lines:
            self.begin(line)
            assert self.target.line() == "OK"

    def layout(self) -> Layout:
        """What the debug information says; read once a program."""
        (library,) = LibraryFinder().find(self.pid)
        if self.program not in _layouts:
            gdb = find_gdb()
            assert gdb is not None
            layout = asyncio.run(read_layout(gdb, library.file, self.pid))
            assert layout is not None
            _layouts[self.program] = layout
        return _layouts[self.program]

    def reader(self) -> SchedulerReader:
        """A reader of it."""
        (library,) = LibraryFinder().find(self.pid)
        layout = self.layout()
        return SchedulerReader(self.pid, library.bias + layout.address, layout)

    def try_sample(self) -> Sample | None:
        """One look, always by the same reader."""
        if self._reader is None:
            self._reader = self.reader()
        return self._reader.sample()

    def sample(self) -> Sample:
        """One look; there must be a run."""
        sample = self.try_sample()
        assert sample is not None
        return sample


@pytest.fixture
def simulator(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Callable[..., Simulator]:
    """Starts a stand-in of one of the kinds in FLAGS."""

    def start(kind: str = "ringbuffer", redirections: str = "") -> Simulator:
        program = build_target("ascend_live", *FLAGS[kind], output=f"aicpu_live_{kind}")
        words = ["sh", "-c", f'exec "$0" {redirections}', program] if redirections else [program]
        return Simulator(spawn(words), program)

    return start
