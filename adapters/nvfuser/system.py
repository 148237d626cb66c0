"""What livedbg knows of nvFuser, in one value."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import Lazy, Signs, System

__all__ = ["SYSTEM"]

SYSTEM: Final = System(
    name="nvfuser",
    title="nvFuser",
    about="segments with their schedulers, which one compiles, runs or failed, and scripts that reproduce a failure",
    rank=20,
    signs=Signs(
        files=(r"/libnvfuser|/nvfuser(?:_direct)?/|libnvfuser_codegen",),
        arguments=(r"(?i:nvfuser)",),
        variables=(r"NVFUSER_\w+",),
        formats=("nvfuser",),
        modules=("(?:lib)?nvfuser",),
    ),
    adapters={"nvfuser": Lazy("livedbg.adapters.nvfuser.adapter:NvfuserAdapter")},
    rules=Lazy("livedbg.adapters.nvfuser.rules:rules"),
    judges_diagnostics=(".*",),
    judges_tasks=True,
    recipes="livedbg.adapters.nvfuser.recipes",
    page="systems/nvfuser.md",
)
