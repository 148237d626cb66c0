"""A packed log that takes longer than one look is read to its end."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.log_follower import LogFollower
from livedbg.adapters.nvfuser.model import NvfuserModel
from livedbg.model import LogSource
from livedbg.model.events import Stamper, TasksSeen

_LOG = Path(__file__).parents[2] / "fixtures" / "nvfuser" / "compile_error.log"


@pytest.mark.parametrize("packed", [False, True])
def test_it_is_read_in_slices_to_its_end(tmp_path: Path, packed: bool) -> None:
    data = b"".join(_LOG.read_bytes().replace(b"_f0_", b"_f%d_" % number) for number in range(40))
    path = tmp_path / ("run.log.gz" if packed else "run.log")
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    model = NvfuserModel()
    model.want(LogSource(id="log:h/run", name=path.name, path=str(path)))
    follower = LogFollower(model)
    looks = 1
    while follower.read(0.0, True):
        looks += 1
        assert looks < 10_000
    assert looks > 1 and not follower.problems
    seen = [event for event in model.collect(Stamper("h")()) if isinstance(event, TasksSeen)]
    tasks = {task.id for event in seen for task in event.tasks}
    assert {f"task:nvfuser/f{number}/g1" for number in range(40)} <= tasks
