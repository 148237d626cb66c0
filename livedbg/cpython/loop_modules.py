"""Modules of event loops: the variables of asyncio, trio and greenlet in `sys.modules` of each interpreter.

Functions raise OSError if these are not readable, or change too fast.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from livedbg.cpython.heap import HeapReader

_MOST_LISTED: Final = 50_000
_DICT_AT: Final = 16  # PyModuleObject.md_dict (Objects/moduleobject.c)


def module_variables(heap: HeapReader, interpreter: int, module: str, wanted: Set[str]) -> dict[str, int]:
    """Return the addresses of the values of some variables of a module (ASCII name); {} if it is not imported."""
    modules = _modules(heap, interpreter)
    items = heap.dict_items(modules, _MOST_LISTED) if modules else []
    found = heap.among([key for key, _ in items], {module})
    return next((variables_of(heap, value, wanted) for key, value in items if key in found), {})


def _modules(heap: HeapReader, interpreter: int) -> int:
    """Return the address of `sys.modules`; 0 while it is no dict."""
    (modules,) = heap.words(interpreter + heap.objects.layout.modules, 1)
    return modules if heap.type_name(modules) == "dict" else 0


def variables_of(heap: HeapReader, module: int, wanted: Set[str]) -> dict[str, int]:
    """Return the addresses of the values of some variables of the module at an address; {} if there is none."""
    if not wanted or heap.type_name(module) != "module":
        return {}
    (own,) = heap.words(module + _DICT_AT, 1)
    if heap.type_name(own) != "dict":
        return {}
    return {name: value for key, value in heap.dict_items(own) if (name := heap.name(key)) in wanted}


_WANTED: Final = {
    "asyncio.tasks": frozenset({"_all_tasks", "_scheduled_tasks", "_eager_tasks", "_current_tasks"}),
    "trio._core._run": frozenset({"GLOBAL_RUN_CONTEXT"}),
    "greenlet": frozenset({"greenlet", "__version__"}),
}
_OTHERS: Final = {"curio.kernel": "curio"}


class LoopModules:
    """Finds the modules of event loops of each interpreter, and titles of the other loaded runtimes of tasks."""

    def __init__(self, heap: HeapReader) -> None:
        self.others: frozenset[str] = frozenset()
        self._heap = heap
        self._known: dict[int, tuple[tuple[int, ...], dict[str, int]]] = {}

    def names(self, interpreter: int) -> dict[str, int]:
        """Return the relevant variables of these modules by name; {} if none is imported."""
        heap = self._heap
        modules = _modules(heap, interpreter)
        if not modules:
            return {}
        stamp = (modules, *heap.dict_stamp(modules))
        known = self._known.get(interpreter)
        if known is None or known[0] != stamp:
            items = heap.dict_items(modules, _MOST_LISTED)
            loaded = heap.among([key for key, _ in items], {*_WANTED, *_OTHERS})
            self.others |= {_OTHERS[name] for name in loaded.values() if name in _OTHERS}
            found: dict[str, int] = {}
            for key, module in items:
                found.update(variables_of(heap, module, _WANTED.get(loaded.get(key, ""), frozenset())))
            known = self._known[interpreter] = stamp, found
        return known[1]
