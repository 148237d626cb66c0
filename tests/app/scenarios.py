"""Scripted states by name: what a session would say of a deadlock, a stalled NPU run, an idle server, …"""

from __future__ import annotations

from tests.app.fakes import FakeView
from tests.app.scenes.exceptions import catching, denied, hostile_hits, nothing_set
from tests.app.scenes.hostile import hostile
from tests.app.scenes.locks import deadlock, gil, idle
from tests.app.scenes.tasks import ascend, recording

_MAKERS = {
    "deadlock": deadlock,
    "ascend": ascend,
    "idle": idle,
    "gil": gil,
    "recording": recording,
    "hostile": hostile,
    "catching": catching,
    "denied": denied,
    "nothing-set": nothing_set,
    "hostile-hits": hostile_hits,
}
SCENARIOS = tuple(_MAKERS)


def scenario(name: str) -> FakeView:
    """A view of one scripted state."""
    return _MAKERS[name]()
