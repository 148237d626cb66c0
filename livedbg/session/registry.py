"""Which adapters there are: the sources of any process by name, and those that systems declare.

Adapter modules are imported only when a session asks for them. Nothing else imports a concrete adapter.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from livedbg.session.systems import Lazy, declared, note_problem, systems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from livedbg.session.adapter import Adapter

__all__ = ["adapter_classes", "system_of"]

_SOURCES: Final[Mapping[str, Lazy[type[Adapter]]]] = MappingProxyType(
    {
        "proc": Lazy("livedbg.adapters.proc:ProcAdapter"),
        "python": Lazy("livedbg.adapters.python:PythonAdapter"),
        "native": Lazy("livedbg.adapters.native:NativeAdapter"),
        "samples": Lazy("livedbg.adapters.samples:SamplesAdapter"),
        "glance": Lazy("livedbg.adapters.glance:GlanceAdapter"),
        "exceptions": Lazy("livedbg.adapters.exceptions:ExceptionsAdapter"),
        "stopping": Lazy("livedbg.adapters.exceptions:StoppingAdapter"),
        "launches": Lazy("livedbg.adapters.launches:LaunchesAdapter"),
        "logs": Lazy("livedbg.adapters.logfiles:LogAdapter"),
        "signatures": Lazy("livedbg.adapters.logfiles:SignaturesAdapter"),
        "values": Lazy("livedbg.adapters.values:ValuesAdapter"),
    }
)
"""The sources of any process, whatever it runs."""

_INTERACTIVE: Final = frozenset({"exceptions", "stopping", "launches", "values"})
"""Those of them that only do what somebody asks for while a session goes on."""


@cache
def adapter_classes(*, once: bool = False) -> dict[str, type[Adapter]]:
    """All adapter classes by name: the sources of any process, then those of the systems.

    An adapter of a system that can't be imported, or is none, is left out (livedbg.session.systems.problems).

    Args:
        once: without those that have nothing to do in a session that samples once; they are not imported.
    """
    found = {name: lazy.value for name, lazy in _SOURCES.items() if not (once and name in _INTERACTIVE)}
    names = dict.fromkeys(
        name for system in systems() for name in system.adapters if not (once and name in system.interactive)
    )
    for name in names:
        for system, adapter in declared(lambda system, name=name: system.adapters.get(name)):  # type: ignore[misc]
            if name in found:
                note_problem(system.name, f"there is already an adapter named {name}", None)
            elif not _is_adapter(adapter):
                note_problem(
                    system.name, f"{system.adapters[name].where} is not a livedbg.session.adapter.Adapter", None
                )
            else:
                found[name] = adapter
    return found


def system_of(adapter: str) -> str:
    """The name of the system that declares an adapter; the adapter's own where none does."""
    return next((system.name for system in systems() if adapter in system.adapters), adapter)


def _is_adapter(candidate: object) -> bool:
    from livedbg.session.adapter import Adapter

    return isinstance(candidate, type) and issubclass(candidate, Adapter)
