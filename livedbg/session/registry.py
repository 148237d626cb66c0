"""The registry of adapters: the sources of any process by name, and those that systems declare.

Adapter modules are imported only when a session needs them. Nothing else imports a concrete adapter.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from livedbg.session.systems import Lazy, declared, note_problem, systems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from livedbg.session.adapter import Adapter

_SOURCES: Final[Mapping[str, Lazy[type[Adapter]]]] = MappingProxyType(
    {
        "proc": Lazy("livedbg.adapters.proc:ProcAdapter"),
        "python": Lazy("livedbg.adapters.python:PythonAdapter"),
        "native": Lazy("livedbg.adapters.native:NativeAdapter"),
        "samples": Lazy("livedbg.adapters.samples:SamplesAdapter"),
        "glance": Lazy("livedbg.adapters.glance:GlanceAdapter"),
        "exceptions": Lazy("livedbg.adapters.exceptions:ExceptionsAdapter"),
        "cores": Lazy("livedbg.adapters.exceptions:CoresAdapter"),
        "stopping": Lazy("livedbg.adapters.exceptions:StoppingAdapter"),
        "launches": Lazy("livedbg.adapters.launches:LaunchesAdapter"),
        "logs": Lazy("livedbg.adapters.logfiles:LogAdapter"),
        "values": Lazy("livedbg.adapters.values:ValuesAdapter"),
    }
)
"""The sources of any process, whatever it runs."""

SLEEPERS: Final = ("python", "samples", "glance")
"""Those of them that sleep (livedbg.session.waking) until a process runs Python, a thread runs, or somebody asks."""

_INTERACTIVE: Final = frozenset({"exceptions", "cores", "stopping", "launches", "values"})
"""Those of them that only do what somebody asks for while a session goes on."""


@cache
def adapter_names(*, once: bool = False) -> tuple[str, ...]:
    """Return the names of all adapters: the sources of any process, then those of the systems. None is imported.

    With `once`, those that have nothing to do in a session that samples once are left out.
    """
    found = dict.fromkeys(name for name in _SOURCES if not (once and name in _INTERACTIVE))
    found |= dict.fromkeys(
        name for system in systems() for name in system.adapters if not (once and name in system.interactive)
    )
    return tuple(found)


@cache
def adapter_class(name: str) -> type[Adapter] | None:
    """Import and return the class of an adapter; None if that fails (livedbg.session.systems.problems)."""
    found = _SOURCES[name].value if name in _SOURCES else None
    for system, adapter in declared(lambda system: system.adapters.get(name)):
        if found is not None:
            note_problem(system.name, f"there is already an adapter named {name}", None)
        elif not _is_adapter(adapter):
            note_problem(system.name, f"{system.adapters[name].where} is not a livedbg.session.adapter.Adapter", None)
        else:
            found = adapter
    return found


@cache
def adapter_classes(*, once: bool = False) -> dict[str, type[Adapter]]:
    """Import and return all adapter classes by name, without those that fail."""
    classes = {name: adapter_class(name) for name in adapter_names(once=once)}
    return {name: found for name, found in classes.items() if found is not None}


def system_of(adapter: str) -> str:
    """Return the name of the system that declares an adapter; the adapter's own if none does."""
    return next((system.name for system in systems() if adapter in system.adapters), adapter)


def _is_adapter(candidate: object) -> bool:
    from livedbg.session.adapter import Adapter

    return isinstance(candidate, type) and issubclass(candidate, Adapter)
