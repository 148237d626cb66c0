"""Reading Python processes again, before a claim is reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.adapters.python import PythonAdapter
from livedbg.model.snapshot import EMPTY


class _Watch:
    """One process of which a reading fails, or not."""

    id = "process:box/7"

    def __init__(self, error: OSError | None) -> None:
        self.error = error
        self.taken_back = False

    async def reread(self, _moved: object) -> None:
        if self.error is not None:
            raise self.error

    def take_back(self) -> None:
        self.taken_back = True


@pytest.mark.parametrize("error", [None, OSError(11, "it changes too fast"), ProcessLookupError(3, "gone")])
async def test_what_can_not_be_read_again_is_taken_back_and_others_are_read(error: OSError | None) -> None:
    """A busy process does not keep what others wait for from being confirmed; nothing rests on what was read of it."""
    adapter: Any = PythonAdapter()
    busy, other = _Watch(error), _Watch(None)
    adapter._watches = {7: (1, busy), 8: (1, other)}
    await adapter.reread(SimpleNamespace(snapshot=lambda: EMPTY))
    assert busy.taken_back == (error is not None) and not other.taken_back
