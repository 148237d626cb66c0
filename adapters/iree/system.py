"""What livedbg knows of IREE, in one value."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import Lazy, Signs, System

__all__ = ["SYSTEM"]

SYSTEM: Final = System(
    name="iree",
    title="IREE",
    about="dispatches that run or wait, semaphores that nobody signals, failed statuses as catch presets",
    rank=20,
    signs=Signs(
        files=(r"/(?:lib)?iree\w*[.-]|_iree_|/iree/",),
        arguments=(r"(?:^|/)iree-",),
        modules=("(?:lib)?iree",),
    ),
    adapters={"iree": Lazy("livedbg.adapters.iree.adapter:IreeAdapter")},
    rules=Lazy("livedbg.adapters.iree.rules:rules"),
    judges_tasks=True,
    recipes="livedbg.adapters.iree.recipes",
    presets=Lazy("livedbg.adapters.iree.catch_presets:PRESETS"),
    known_calls=Lazy("livedbg.adapters.iree.known_calls:KNOWN_CALLS"),
    environment=("IREE_",),
    no_logs=(".vmfb", ".ireeprof", ".ireereplay"),
)
