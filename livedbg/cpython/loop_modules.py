"""Where a process keeps its event loops: what `sys.modules` of each interpreter has of asyncio, trio and greenlet."""

from __future__ import annotations

from typing import Final

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.modules import variables_of

_MOST_MODULES: Final = 50_000
_WANTED: Final = {
    "asyncio.tasks": frozenset({"_all_tasks", "_scheduled_tasks", "_eager_tasks", "_current_tasks"}),
    "trio._core._run": frozenset({"GLOBAL_RUN_CONTEXT"}),
    "greenlet": frozenset({"greenlet", "__version__"}),
}
_OTHERS: Final = {"curio.kernel": "curio"}


class LoopModules:
    """Finds the modules of event loops of each interpreter, and which other runtimes of tasks are loaded.

    Args:
        heap: reads its process.

    Attributes:
        others: titles of the runtimes whose tasks are not read.
    """

    def __init__(self, heap: HeapReader) -> None:
        self.others: frozenset[str] = frozenset()
        self._heap = heap
        self._known: dict[int, tuple[tuple[int, ...], dict[str, int]]] = {}

    def names(self, interpreter: int) -> dict[str, int]:
        """What these modules have of what is read here, by the variable's name; {} where nobody has imported them.

        Raises:
            OSError: not readable.
        """
        heap = self._heap
        (modules,) = heap.words(interpreter + heap.objects.layout.modules, 1)
        if heap.type_name(modules) != "dict":
            return {}
        stamp = (modules, *heap.dict_stamp(modules))
        known = self._known.get(interpreter)
        if known is None or known[0] != stamp:
            items = heap.dict_items(modules, _MOST_MODULES)
            loaded = heap.among([key for key, _ in items], {*_WANTED, *_OTHERS})
            self.others |= {_OTHERS[name] for name in loaded.values() if name in _OTHERS}
            found: dict[str, int] = {}
            for key, module in items:
                found.update(variables_of(heap, module, _WANTED.get(loaded.get(key, ""), frozenset())))
            known = self._known[interpreter] = stamp, found
        return known[1]
