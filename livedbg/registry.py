"""Which adapters there are: the built-in ones by name, and those of plug-ins by entry point.

Adapter modules are imported only when a session asks for them. Nothing else imports a concrete
adapter.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from livedbg.adapter import Adapter

__all__ = ["ENTRY_POINT_GROUP", "adapter_classes"]

ENTRY_POINT_GROUP = "livedbg.adapters"
"""Plug-ins register `name = "module:AdapterClass"` here (docs/writing-an-adapter.md)."""

_BUILT_IN: dict[str, str] = {
    "proc": "livedbg.adapters.proc:ProcAdapter",
    "python": "livedbg.adapters.python:PythonAdapter",
    "native": "livedbg.adapters.native:NativeAdapter",
    "glance": "livedbg.adapters.glance:GlanceAdapter",
    "exceptions": "livedbg.adapters.exceptions:ExceptionsAdapter",
    "stopping": "livedbg.adapters.exceptions:StoppingAdapter",
    "cudagdb": "livedbg.adapters.cudagdb:CudaGdbAdapter",
    "launches": "livedbg.adapters.launches:LaunchesAdapter",
    "logs": "livedbg.adapters.logfiles:LogAdapter",
    "values": "livedbg.adapters.values:ValuesAdapter",
    "ascend": "livedbg.adapters.ascend:AscendAdapter",
    "cuda": "livedbg.adapters.cuda:CudaAdapter",
    "nvml": "livedbg.adapters.nvml:NvmlAdapter",
    "nvfuser": "livedbg.adapters.nvfuser:NvfuserAdapter",
}


@cache
def adapter_classes() -> dict[str, type[Adapter]]:
    """All adapter classes by name, built-in ones first.

    Raises:
        ImportError, AttributeError, TypeError: a plug-in is broken (named in the message).
    """
    found: dict[str, type[Adapter]] = {}
    for name, where in _BUILT_IN.items():
        module, _, attribute = where.partition(":")
        found[name] = _checked(name, getattr(import_module(module), attribute))
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name not in found:
            found[entry.name] = _checked(entry.name, entry.load())
    return found


def _checked(name: str, candidate: object) -> type[Adapter]:
    if not (isinstance(candidate, type) and issubclass(candidate, Adapter)):
        raise TypeError(f"adapter {name!r} is not a livedbg.adapter.Adapter: {candidate!r}")
    return candidate
